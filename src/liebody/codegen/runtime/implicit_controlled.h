/* Steps under error control. Besides what implicit.h takes, there are
       estimate(t, h, y, u, x, z, ...), which solves the phases of the error estimate as `phases` does those of the step,
       error(z, t, h, y, u, after, e, size)   between(s, z, t, h, y, u, after, inside)   fit(y, made, h, fitted)
   with the dimension ERRORS (of e and size) and the order ERROR_ORDER of the estimate. `after` is the state at the end of a step,
   `inside` that at t + s h; `fitted` is y with what it remembers of steps of length `made` made to fit those of h (MEMORY), or, where
   efforts jump (JUMPS), those efforts: `restart` as in implicit_steps.h. */

enum { TOLERANCE_EXCEEDED = 4, IDLE = 64 };

typedef struct { /* of one member, as it comes in and goes out */
    double t, step, made, before, row;
} Clock;

/* Efforts at the nodes of the step of each lane. */
static void efforts_at_nodes(const Samples *e, const T *t, const T *h, long i, long rows, T *u) {
    T at[EFFORTS + 1];
    for (int k = 0; k < NODES; k++)
        for (int lane = 0; lane < LANES; lane++) {
            const double from = LANE(*t);
            sample(e, piece_at(e, from), from + nodes[k] * LANE(*h), i, rows, at);
            for (int j = 0; j < EFFORTS; j++) LANE(u[k * EFFORTS + j]) = LANE(at[j]);
        }
}

/* Until row `until` - 1 of record (n, records, POINT) is known. Row r is the state at times[r], found within a step; the last step ends
   at times[records - 1]. Every lane has a time and a step of its own. The root mean square of error_i / (atol + rtol size_i) stays
   below 1; steps that miss that, or whose equations cannot be solved, are tried again, shorter. Proportional-integral control
   (Gustafsson 1991). failed and losses as in `implicit_steps`; count[2] counts steps, count[3] rejected ones. */
long implicit_controlled(long n, double *y, const Samples *e, const double *times, long until, double rtol, double atol,
                         Clock *clock, double *record, long records, long *failed, double *losses, long *count) {
    T *work = aligned_alloc(sizeof(T), (SYSTEM + LARGEST + KEPT) * sizeof(T)), *x = work + SYSTEM, *z = x + LARGEST;
    I *pivot = aligned_alloc(sizeof(I), LARGEST * sizeof(I));
    if (!work || !pivot) {
        free(work), free(pivot);
        return -1;
    }
    const double end = times[records - 1];
    for (long i = 0; i < n; i += LANES) {
        long rows = n - i < LANES ? n - i : LANES;
        T now[POINT], fitted[POINT], after[POINT], inside[POINT], u[NODES * EFFORTS + 1], defects[ERRORS], sizes[ERRORS];
        T t = splat(0), h = splat(1), made = splat(1);
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
            double stop[LANES];
            for (int lane = 0; lane < LANES; lane++) {
                Clock *c = of + lane;
                stop[lane] = part_end(e, c->t, end);
                const double left = stop[lane] - c->t;
                last[lane] = 1.0000001 * c->step >= left;
                double length = last[lane] ? left : 2 * c->step > left ? left / 2 : c->step;
                LANE(t) = c->t, LANE(made) = c->made, LANE(h) = length > 0 ? length : 1;
            }
            if (EFFORTS && e->samples > 1) efforts_at_nodes(e, &t, &h, i, rows, u);
            I lost = idle;
#if MEMORY
            fit(now, &made, &h, fitted);
#if JUMPS
            for (int lane = 0, restarted = 0; lane < LANES; lane++) {
                if (!jumps(e, LANE(t))) continue;
                if (!restarted++) restart(now, &made, &t, &h, u, inside);
                for (int j = 0; j < POINT; j++) LANE(fitted[j]) = LANE(inside[j]);
            }
#endif
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
                    double factor = 0.9 * pow(fmax(defect, 1e-10), -0.7 / ERROR_ORDER) * pow(c->before, 0.4 / ERROR_ORDER);
                    factor = fmin(fmax(factor, 0.2), 10);
                    c->before = fmax(defect, 1e-4);
                    if (!last[lane] || factor < 1 || length >= c->step) c->step = length * factor;
                    accepted[lane] = 1, waiting = 1;
                    count[2]++;
                } else { /* NaN comes here too */
                    c->step = length * (defect < INFINITY ? fmax(0.9 * pow(defect, -1.0 / ERROR_ORDER), 0.2) : 0.2);
                    count[3]++;
                    if (c->step < 1e-14 * fmax(fabs(end), fabs(c->t))) {
                        failed[i + lane] = (long)c->row + 1;
                        losses[2 * (i + lane)] = c->t, losses[2 * (i + lane) + 1] = LANE(lost) ? (double)LANE(lost) : TOLERANCE_EXCEEDED;
                        for (int j = 0; j < POINT; j++) LANE(now[j]) = NAN;
                        LANE(idle) = IDLE;
                    }
                }
            }
            while (waiting) { /* rows within the steps that were accepted, the next one of each lane at a time */
                waiting = 0;
                int at[LANES];
                for (int lane = 0; lane < LANES; lane++) {
                    Clock *c = of + lane;
                    double reached = last[lane] ? stop[lane] : LANE(t) + LANE(h);
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
                c->t = last[lane] ? stop[lane] : LANE(t) + LANE(h), c->made = LANE(h);
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
