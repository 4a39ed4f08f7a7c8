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
/* start, y, last, ends   of the members, as they come in; y, last and ends are of this march.
   `begin`: nothing has happened yet, so `last` and `ends` are set; otherwise they are copied from
   last_before and ends_before. Where `begin` is negative they are where they go already.
   record                 (n, rows, POINT); its row 0 is the start, or it is NULL: nothing is
   reasons                (n): why members have ended, 0 while they go on, as numbers of T
   entries                (n, most, 2 + POINT): the logs */
extern "C" __global__ void __launch_bounds__(BLOCK)
    kernel(int64_t n, const real *start, real *y, const double *table, int64_t member_stride,
           int64_t samples, double first, double interval, int64_t linear, const double *times,
           int64_t rows, double wanted, real *record, real *reasons, Clock *clock, double *ends,
           const double *ends_before, int64_t *counts, double *last, const double *last_before,
           Log *logs, double *entries, double tolerance, double least, int64_t limit, int64_t most) {
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
        logs[i].entries = entries + i * most * (2 + POINT), logs[i].room = most, logs[i].kept = 0;
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
    EACH_MEMBER(i) reasons[i] = (real)ends[2 * i + 1];
}
#else
/* `steps` steps from t. Before the first ones (row == 1) the start goes to y and to row 0. */
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
