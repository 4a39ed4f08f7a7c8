/* Steps of explicit Lie-group methods for an ensemble: y is a point of the group, psi and k lie in its algebra.
       field(t, y, u, f)   left-trivialised velocity        advance(y, psi, z)   z = y exp(psi), normalised
       pull(psi, f, k)     k = dexp^-1_(-psi) f, for Runge-Kutta-Munthe-Kaas methods
   These, samples.h and `finish`, which does what is wanted after a step, come before this text, as do the dimensions POINT, ALGEBRA,
   EFFORTS (of y, psi, u) and STAGES, and KEPT, the storage class of arrays that may be too large for the stack. The function `stages`
   for the method's coefficients is printed in the place marked so. */

/* STAGES */

/* Steps of length h for members 0 .. n - 1. y (n, POINT) goes in and comes out; record (n, records, POINT) takes every
   `every`-th state, where `records` counts the rows of the whole run and `first` is the row to begin with. failed[i] is
   1 + the row at which member i was found not finite, or 0. */
void fixed_steps(long n, double *y, const Samples *e, double t0, double h, long steps, long every, double *record,
                 long records, long first, long *failed) {
    const uint64_t mode = flush_subnormals();
    for (long i = 0; i < n; i += LANES) {
        long rows = n - i < LANES ? n - i : LANES;
        KEPT T now[POINT], next[POINT], k[STAGES * ALGEBRA];
        load(now, POINT, y + i * POINT, POINT, rows);
        for (long s = 0, row = first; s < steps; s++) {
            const double begin = t0 + (double)s * h, end = t0 + (double)(s + 1) * h;
            double t = begin, stop;
            do { /* in parts, where there are samples within the step */
                const long piece = piece_at(e, t);
                stop = part_end(e, t, end);
                stages(t, t == begin && stop == end ? h : stop - t, now, e, piece, i, rows, k, next);
                finish(stop, next, e, piece, i, rows, now);
                t = stop;
            } while (t < end);
            if ((s + 1) % every) continue;
            keep_sample(now, i, rows, record, records, row++, failed);
        }
        save(now, POINT, y + i * POINT, POINT, rows);
    }
    restore(mode);
}

#if LANES == 1
/* Steps under error control, one member after the other: record row `first + r` is the state at t0 + (r + 1) interval, which
   a step always reaches, as it does samples of the efforts. The root mean square of error_i / (atol + rtol size_i) stays below 1, where size_i is 1 for the first
   RIGID entries of the algebra and the larger |x_i| of both ends for the others, which are the last coordinates of y. `h` (n)
   holds the next step of each member. Proportional-integral control (Gustafsson 1991). taken[0] counts steps, taken[1] rejected ones. */
void controlled_steps(long n, double *y, const Samples *e, double t0, double interval, long rows, double rtol, double atol,
                      double *h, double *record, long records, long first, long *failed, long *taken) {
    const uint64_t mode = flush_subnormals();
    for (long i = 0; i < n; i++) {
        KEPT double now[POINT], next[POINT], k[STAGES * ALGEBRA];
        double step = h[i], before = 1;
        if (failed[i]) continue;
        memcpy(now, y + i * POINT, sizeof now);
        for (long r = 0; r < rows && !failed[i]; r++) {
            double t = t0 + (double)r * interval, end = t0 + (double)(r + 1) * interval;
            while (t < end) {
                const long piece = piece_at(e, t);
                double stop = part_end(e, t, end);
                int last = t + 1.0000001 * step >= stop;
                double length = last ? stop - t : t + 2 * step > stop ? (stop - t) / 2 : step;
                stages(t, length, now, e, piece, i, 1, k, next);
                double sum = 0;
                for (int m = 0; m < ALGEBRA; m++) {
                    const double *a = now + POINT - ALGEBRA + m, *b = next + POINT - ALGEBRA + m;
                    double size = m < RIGID ? 1 : fmax(fabs(*a), fabs(*b)), scaled = error(k, m) * length / (atol + rtol * size);
                    sum += scaled * scaled;
                }
                double defect = sqrt(sum / ALGEBRA), factor;
                if (defect <= 1) {
                    factor = 0.9 * pow(fmax(defect, 1e-10), -0.7 / ERROR_ORDER) * pow(before, 0.4 / ERROR_ORDER);
                    before = fmax(defect, 1e-4);
                    factor = fmin(fmax(factor, 0.2), 10);
                    t = last ? stop : t + length;
                    finish(t, next, e, piece, i, 1, now);
                    taken[0]++;
                    if (!last || factor < 1 || length >= step) step = length * factor;
                } else { /* NaN comes here too */
                    factor = defect > 1 ? fmax(0.9 * pow(defect, -1.0 / ERROR_ORDER), 0.2) : 0.2;
                    step = length * factor;
                    taken[1]++;
                    if (step < 1e-14 * fmax(fabs(end), interval)) {
                        failed[i] = first + r + 1;
                        break;
                    }
                }
            }
            double bad = 0;
            for (int j = 0; j < POINT; j++) bad += now[j] - now[j];
            if (bad != 0 && !failed[i]) failed[i] = first + r + 1;
            if (failed[i]) break;
            memcpy(record + (i * records + first + r) * POINT, now, sizeof now);
        }
        memcpy(y + i * POINT, now, sizeof now);
        h[i] = step;
    }
    restore(mode);
}
#endif
