/* Steps under error control. Besides what implicit.h takes, there are
       estimate(t, h, y, u, x, z, ...)            solves the phases of the estimate, as `phases` the step's
       error(z, t, h, y, u, after, e, size)       the estimate e, and the sizes that rtol multiplies
       between(s, z, t, h, y, u, after, inside)   the state `inside` at t + s h
       change(y, made, h, fitted)                 only where CONTROL_CHANGES is set
   with the dimension ERRORS (of e and size) and the order ERROR_ORDER of the estimate. `after` is the state
   at the end of a step; `fitted` is y in which what is remembered of steps of length `made` is made to fit
   steps of length h. */

enum { TOLERANCE_EXCEEDED = 4, IDLE = 64 };

typedef struct { /* of one member, as it comes in and goes out */
    double t, step, made, before, row;
} Clock;

/* Efforts at the nodes of the step of each lane. */
static void efforts_at_nodes(const Efforts *e, const T *t, const T *h, long i, long rows, T *u) {
    T at[EFFORTS + 1];
    for (int k = 0; k < NODES; k++)
        for (int lane = 0; lane < LANES; lane++) {
            sample(e, LANE(*t) + nodes[k] * LANE(*h), i, rows, at);
            for (int j = 0; j < EFFORTS; j++) LANE(u[k * EFFORTS + j]) = LANE(at[j]);
        }
}

/* Steps are taken until row `until` - 1 of record (n, records, POINT) is known. Row r is the state at
   times[r], found within a step; the last step ends at times[records - 1]. Every lane has a time and a step
   of its own. The root mean square of error_i / (atol + rtol size_i) stays below 1; steps that miss that,
   or whose equations cannot be solved, are tried again, shorter. Proportional-integral control (Gustafsson
   1991). failed and losses as in `implicit_steps`; count[2] counts steps, count[3] rejected ones. */
long implicit_controlled(long n, double *y, const Efforts *e, const double *times, long until, double rtol,
                         double atol, Clock *clock, double *record, long records, long *failed,
                         double *losses, long *count) {
    T *work = aligned_alloc(sizeof(T), (SYSTEM + LARGEST + KEPT) * sizeof(T));
    T *x = work + SYSTEM, *z = x + LARGEST;
    I *pivot = aligned_alloc(sizeof(I), LARGEST * sizeof(I));
    if (!work || !pivot) {
        free(work), free(pivot);
        return -1;
    }
    const double end = times[records - 1];
    for (long i = 0; i < n; i += LANES) {
        long rows = n - i < LANES ? n - i : LANES;
        T now[POINT], fitted[POINT], after[POINT], inside[POINT], u[NODES * EFFORTS + 1];
        T defects[ERRORS], sizes[ERRORS], t = splat(0), h = splat(1), made = splat(1);
        I idle = bits(splat(0));
        Clock of[LANES];
        load(now, POINT, y + i * POINT, POINT, rows);
        for (int lane = 0; lane < LANES; lane++) {
            of[lane] = clock[i + (lane < rows ? lane : 0)];
            LANE(idle) = lane >= rows || failed[i + lane] || of[lane].row >= (double)until ? IDLE : 0;
        }
        if (EFFORTS) efforts_at_nodes(e, &t, &h, i, rows, u);
        while (any(MASK(idle == 0))) {
            int last[LANES];
            for (int lane = 0; lane < LANES; lane++) {
                Clock *c = of + lane;
                last[lane] = c->t + 1.0000001 * c->step >= end;
                double length = c->t + 2 * c->step > end ? (end - c->t) / 2 : c->step;
                if (last[lane]) length = end - c->t;
                LANE(t) = c->t, LANE(made) = c->made, LANE(h) = length > 0 ? length : 1;
            }
            if (EFFORTS && e->samples > 1) efforts_at_nodes(e, &t, &h, i, rows, u);
            I lost = idle;
#if CONTROL_CHANGES
            change(now, &made, &h, fitted);
#else
            memcpy(fitted, now, sizeof fitted);
#endif
            phases(&t, &h, fitted, u, x, z, work, pivot, &lost, count);
            finish(z, &t, &h, fitted, u, after);
            estimate(&t, &h, fitted, u, x, z, work, pivot, &lost, count);
            error(z, &t, &h, fitted, u, after, defects, sizes);
            T sum = unless_finite(after, POINT, splat(0));
            for (int m = 0; m < ERRORS; m++) {
                T scaled = defects[m] / (atol + rtol * sizes[m]);
                sum += scaled * scaled;
            }
            T part = splat(2);
            int accepted[LANES], waiting = 0;
            for (int lane = 0; lane < LANES; lane++) {
                Clock *c = of + lane;
                accepted[lane] = 0;
                if (LANE(idle)) continue;
                double defect = LANE(lost) ? INFINITY : sqrt(LANE(sum) / ERRORS), length = LANE(h);
                if (defect <= 1) {
                    double factor = 0.9 * pow(fmax(defect, 1e-10), -0.7 / ERROR_ORDER) *
                                    pow(c->before, 0.4 / ERROR_ORDER);
                    factor = fmin(fmax(factor, 0.2), 10);
                    c->before = fmax(defect, 1e-4);
                    if (!last[lane] || factor < 1 || length >= c->step) c->step = length * factor;
                    accepted[lane] = 1, waiting = 1;
                    count[2]++;
                } else { /* NaN comes here too */
                    c->step = length * 0.2;
                    if (defect < INFINITY)
                        c->step = length * fmax(0.9 * pow(defect, -1.0 / ERROR_ORDER), 0.2);
                    count[3]++;
                    if (c->step < 1e-14 * fmax(fabs(end), fabs(c->t))) {
                        failed[i + lane] = (long)c->row + 1;
                        losses[2 * (i + lane)] = c->t;
                        losses[2 * (i + lane) + 1] = LANE(lost) ? (double)LANE(lost) : TOLERANCE_EXCEEDED;
                        for (int j = 0; j < POINT; j++) LANE(now[j]) = NAN;
                        LANE(idle) = IDLE;
                    }
                }
            }
            while (waiting) { /* rows within the accepted steps, the next one of each lane at a time */
                waiting = 0;
                int at[LANES];
                for (int lane = 0; lane < LANES; lane++) {
                    Clock *c = of + lane;
                    double reached = last[lane] ? end : LANE(t) + LANE(h);
                    at[lane] = accepted[lane] && c->row < (double)records && times[(long)c->row] <= reached;
                    if (at[lane]) LANE(part) = (times[(long)c->row] - LANE(t)) / LANE(h), waiting = 1;
                }
                if (!waiting) break;
                between(&part, z, &t, &h, fitted, u, after, inside);
                for (int lane = 0; lane < LANES; lane++) {
                    if (!at[lane]) continue;
                    const T *state = LANE(part) < 1 - 1e-12 ? inside : after;
                    double *to = record + ((i + lane) * records + (long)of[lane].row++) * POINT;
                    for (int j = 0; j < POINT; j++) to[j] = LANE(state[j]);
                }
            }
            for (int lane = 0; lane < LANES; lane++) {
                if (!accepted[lane]) continue;
                Clock *c = of + lane;
                c->t = last[lane] ? end : LANE(t) + LANE(h), c->made = LANE(h);
                for (int j = 0; j < POINT; j++) LANE(now[j]) = LANE(after[j]);
                if (c->row >= (double)until) LANE(idle) = IDLE;
            }
        }
        save(now, POINT, y + i * POINT, POINT, rows);
        for (int lane = 0; lane < rows; lane++) clock[i + lane] = of[lane];
    }
    free(work), free(pivot);
    return 0;
}
