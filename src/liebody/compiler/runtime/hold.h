/* An interval of a hybrid system in a thread of a CUDA device, by the `march` before this text
   (march.h). Parameters are held over the interval, of length INTERVAL. A row of a member is its
   state (POINT), the number of intervals since its start, why it ended (RAN: it has not), and for
   each guard the time since its last event; infinity: it had none. */
static __noinline__ void hold(const real *from, const real *held, real *to) {
    const real *const since = from + POINT + 2;
    real y[POINT], record[2 * POINT];
    double parameters[EFFORTS + 1], times[2], last[GUARDS + 1], ends[2];
    int64_t counts[4], queue = 0;
    Clock clock;
    March m;
    for (int i = 0; i < 2; i++) times[i] = ((double)from[POINT] + i) * INTERVAL;
    for (int j = 0; j < POINT; j++) y[j] = from[j];
    for (int j = 0; j < EFFORTS; j++) parameters[j] = (double)held[j];
    for (int j = 0; j < GUARDS; j++) last[j] = times[0] - (double)since[j];
    for (int i = 0; i < 4; i++) counts[i] = 0;
    ends[0] = times[0], ends[1] = (double)from[POINT + 1];
    clock.t = times[0], clock.step = clock.made = INTERVAL, clock.last_defect = 1, clock.row = 1;
    memset(&m, 0, sizeof m);
    m.n = 1, m.rows = m.until = 2, m.times = times, m.y = y, m.clock = &clock, m.record = record;
    m.ends = ends, m.counts = counts, m.last = last, m.queue = &queue;
    m.tolerance = TOLERANCE, m.least = LEAST, m.limit = LIMIT;
    const Samples constant = {parameters, 0, 1, 0, 1, 0};
    march(&m, &constant);
    for (int j = 0; j < POINT; j++) to[j] = y[j];
    to[POINT] = from[POINT] + 1, to[POINT + 1] = (real)ends[1];
    for (int j = 0; j < GUARDS; j++) to[POINT + 2 + j] = (real)(times[1] - last[j]);
}
