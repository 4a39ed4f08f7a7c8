/* What goes into the steps of an ensemble, and what is kept of them. Before this text come POINT and
   EFFORTS, the dimensions of the state y and of the efforts u. */

typedef struct {
    const double *table;    /* u: samples rows of EFFORTS, per member or shared */
    long member_stride;     /* numbers between members' tables; 0 when shared */
    long samples;
    double first, interval; /* time of the first sample, time between samples */
    int linear;             /* between samples: 0 hold the last one, 1 interpolate */
} Efforts;

INLINE void sample(const Efforts *e, double t, long member, long rows, T *u) {
    double s = e->samples > 1 ? (t - e->first) / e->interval : 0;
    double last = (double)(e->samples - 1);
    s = s < 0 ? 0 : s > last ? last : s;
    double hold = s + 1e-9; /* a sample holds from its own instant on, round-off aside */
    long k = (long)(e->linear ? s : hold);
    if (k > e->samples - 1) k = e->samples - 1;
    long next = k + 1 < e->samples ? k + 1 : k;
    real fraction = e->linear ? (real)(s - (double)k) : 0;
    for (int j = 0; j < EFFORTS; j++)
        for (int lane = 0; lane < LANES; lane++) {
            const double *of = e->table + (member + (lane < rows ? lane : rows - 1)) * e->member_stride;
            double low = of[k * EFFORTS + j];
            LANE(u[j]) = fraction ? low + fraction * (of[next * EFFORTS + j] - low) : low;
        }
}

/* Row `row` of record (n, records, POINT) for members i .. i + rows - 1; failed[j] becomes 1 + row for a
   member j that is not finite. */
INLINE void keep_sample(const T *now, long i, long rows, double *record, long records, long row,
                        long *failed) {
    save(now, POINT, record + (i * records + row) * POINT, records * POINT, rows);
    T bad = splat(0);
    for (int j = 0; j < POINT; j++) bad += now[j] - now[j];
    if (any(MASK(bad != 0)))
        for (int lane = 0; lane < rows; lane++)
            if (LANE(bad) != 0 && !failed[i + lane]) failed[i + lane] = row + 1;
}
