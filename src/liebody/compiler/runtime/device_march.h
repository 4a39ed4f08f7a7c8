/* The kernel of a march on a device. Before this text stands march.h; each thread takes members
   first, first + apart, ..., with a march, or steps of one length, of its own. Arrays are as in
   March and in Record. */

#define EACH_MEMBER(i) \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; \
         i += (int64_t)gridDim.x * blockDim.x)

INLINE void copy_point(real *to, const real *from) {
    for (int j = 0; j < POINT; j++) to[j] = from[j];
}

#if MARCH
/* Beside the arrays of March:
       start                     (n, POINT): states of the members at times[0]
       wanted                    the step to try first
       reasons, happened         (n): why members have ended, 0 while they go on, and how many
                                 events they had, as numbers of T
       ends_before, last_before  what `ends` and `last` were at the start; NULL: nothing has
                                 happened
       entries                   (n, most, 2 + POINT): the logs, NaN behind the last event */
extern "C" __global__ void __launch_bounds__(BLOCK)
    kernel(int64_t n, const real *start, real *y, const double *table, int64_t member_stride,
           int64_t samples, double first, double interval, int64_t linear, const double *times,
           int64_t rows, double wanted, real *record, real *reasons, real *happened, Clock *clock,
           double *ends, const double *ends_before, int64_t *counts, double *last,
           const double *last_before, Log *logs, double *entries, double tolerance, double least,
           int64_t limit, int64_t most) {
    Samples efforts;
    efforts.table = table, efforts.member_stride = member_stride, efforts.samples = samples;
    efforts.first = first, efforts.interval = interval, efforts.linear = (int)linear;
    EACH_MEMBER(i) {
        Clock *c = clock + i;
        c->t = times[0], c->step = c->made = wanted, c->last_defect = 1, c->row = 1;
        for (int k = 0; k < 4; k++) counts[4 * i + k] = 0;
        for (int k = 0; k < 2; k++) ends[2 * i + k] = ends_before ? ends_before[2 * i + k] : 0;
        for (int k = 0; k < GUARDS; k++)
            last[GUARDS * i + k] = last_before ? last_before[GUARDS * i + k] : -INFINITY;
        Log *log = logs + i;
        log->entries = entries + i * most * (2 + POINT), log->room = most, log->kept = 0;
        for (int64_t k = 0; k < most * (2 + POINT); k++) log->entries[k] = NAN;
        copy_point(y + i * POINT, start + i * POINT);
        real *const of_member = record + i * rows * POINT;
        copy_point(of_member, start + i * POINT);
        for (int64_t k = POINT; k < rows * POINT; k++) of_member[k] = NAN;
    }
    int64_t queue = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    March m;
    m.n = n, m.rows = m.until = rows, m.times = times, m.start = 0, m.y = y, m.clock = clock;
    m.record = record, m.ends = ends, m.counts = counts, m.last = last, m.nearest = 0;
    m.logs = logs, m.queue = &queue, m.rtol = m.atol = 0, m.tolerance = tolerance;
    m.least = least, m.limit = limit, m.most = most, m.signals = 0, m.calls = 0;
    march(&m, &efforts);
    EACH_MEMBER(i) {
        reasons[i] = (real)ends[2 * i + 1];
        happened[i] = (real)(double)counts[4 * i];
    }
}
#else
/* `steps` steps of length h from t; every `every`-th state is kept, from row `row` on. At the
   `begin` the start goes to y and to row 0. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    kernel(int64_t n, const real *start, real *y, const double *table, int64_t member_stride,
           int64_t samples, double first, double interval, int64_t linear, double t, double h,
           int64_t steps, int64_t every, int64_t begin, int64_t row, int64_t rows, real *record,
           int64_t *failed, double *losses) {
    EACH_MEMBER(i) {
        real *const of_member = record + i * rows * POINT;
        if (begin) {
            copy_point(y + i * POINT, start + i * POINT);
            copy_point(of_member, start + i * POINT);
            failed[i] = 0, losses[2 * i] = losses[2 * i + 1] = 0;
        }
        Samples efforts;
        efforts.table = table + i * member_stride, efforts.member_stride = 0;
        efforts.samples = samples, efforts.first = first, efforts.interval = interval;
        efforts.linear = (int)linear;
        Record kept;
        kept.values = of_member, kept.rows = rows, kept.failed = failed + i;
        kept.losses = losses + 2 * i, kept.nearest = 0;
        int64_t taken;
        StepsCall call;
        call.n = 1, call.y = y + i * POINT, call.efforts = &efforts, call.t = t, call.h = h;
        call.steps = steps, call.every = every, call.record = &kept, call.row = row;
        call.taken = &taken, call.signals = 0;
        fixed_steps(&call);
        if (failed[i]) /* NaN from there on, as in a run of the CPU */
            for (int64_t k = (failed[i] - 1) * POINT; k < rows * POINT; k++) of_member[k] = NAN;
    }
}
#endif
