/* Steps of an explicit Lie-group method for hybrid systems: every lane has a member of the ensemble, a time and a step
   of its own, and takes the next member when it has finished one.
       field(t, y, u, f)        left-trivialised velocity      advance(y, psi, z)   z = y exp(psi), normalised
       pull(psi, f, k)          k = dexp^-1_(-psi) f, for Runge-Kutta-Munthe-Kaas methods
       guards(t, y, u, g)       an event is a change of the sign of a g_i
       look(t, y, u, g, h, s)   guards, the step to take from here, and whether to stop: s > 0
       after(t, y, u, e, z, g, h, s)   the state z after a step, e_i = +1 or -1 where guard i changed its sign; as `look` there
   These come before this text, as do their dimensions POINT, ALGEBRA, PARAMETERS (of y, psi, u), GUARDS and STAGES, and
   `direction` of each guard: whether only changes upwards (1), downwards (-1), or both (0) are events. The function `stages` for the method's coefficients is printed in the place marked so. */

/* STAGES */

enum { RAN, STOPPED, NOT_FINITE, NO_STEP, TOO_MANY };

typedef struct {
    double interval;  /* between samples */
    double tolerance; /* to which the time of an event is located; negative: events are taken at the ends of steps */
    double least;     /* events sooner than this after the last one of the same guard are taken then, and not located */
    long limit;       /* most steps of a member between two samples */
    long most;        /* events that the log of a member can hold */
} Control;

/* Whether guard j changes its sign from a to b, in its direction. */
static int changed(int j, double a, double b) {
    return (a > 0) != (b > 0) && b == b && direction[j] * (b > 0 ? 1 : -1) >= 0;
}

typedef struct { /* of one member; the arrays are those of the ensemble */
    double t, low, high, sampled;
    double glow[GUARDS], ghigh[GUARDS], g[GUARDS];
    long member, row, steps;
    int locating, side, tries;
} Lane;

/* Rows first + 1 .. first + rows of record (n, records, POINT), where row 0 is at t0; y (n, POINT) goes in and comes out.
   log (n, most, 2 + POINT): time, +-(1 + guard), state after; counts (n, 3): events, those not located, steps.
   last (n, GUARDS): time of the last event of each guard. ends (n, 2): time and reason, written for the members that do
   not reach the end; those that had ended before are left alone. queue: the next member to take, shared by threads. */
void hybrid_steps(long n, long *queue, double *y, const double *u, long u_stride, double t0, long rows, const Control *c,
                  double *record, long records, long first, double *log, long *counts, double *last, double *ends) {
    T t = splat(0), h = splat(0), p[PARAMETERS + 1], now[POINT], next[POINT], z[POINT], k[STAGES * ALGEBRA];
    T g[GUARDS], e[GUARDS], ahead[1], stop[1];
    Lane of[LANES];
    int active = 0, fresh = 1;
    memset(p, 0, sizeof p), memset(now, 0, sizeof now), memset(of, 0, sizeof of);
    for (int lane = 0; lane < LANES; lane++) of[lane].member = -1;
    for (;;) {
        if (fresh) { /* members for the lanes that have none */
            int taken[LANES] = {0};
            active = fresh = 0;
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                while (l->member < 0) {
                    long i = __atomic_fetch_add(queue, 1, __ATOMIC_RELAXED);
                    if (i >= n) break;
                    if (ends[2 * i + 1] != RAN) continue;
                    *l = (Lane){.t = t0, .sampled = t0, .member = i, .row = first};
                    LANE(t) = t0;
                    for (int j = 0; j < PARAMETERS; j++) LANE(p[j]) = u[i * u_stride + j];
                    for (int j = 0; j < POINT; j++) LANE(now[j]) = y[i * POINT + j];
                    taken[lane] = 1;
                }
                active += l->member >= 0;
            }
            if (!active) return;
            look(&t, now, p, g, ahead, stop);
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                if (!taken[lane]) continue;
                for (int j = 0; j < GUARDS; j++) l->g[j] = LANE(g[j]);
                LANE(h) = fmin(LANE(ahead[0]), c->interval);
                if (LANE(stop[0]) > 0 || !(LANE(h) > 0)) {
                    ends[2 * l->member] = t0, ends[2 * l->member + 1] = LANE(stop[0]) > 0 ? STOPPED : NO_STEP;
                    l->member = -1, fresh = 1, LANE(h) = 0;
                }
            }
            if (fresh) continue;
        }

        stages(t, h, now, p, k, next);
        T end = t + h;
        guards(&end, next, p, g);

        int accepted[LANES];
        for (int lane = 0; lane < LANES; lane++) { /* is this the end of the step, or is an event before it? */
            Lane *l = of + lane;
            double length = LANE(h), root = INFINITY;
            int crossed = 0, early = 0;
            for (int j = 0; j < GUARDS; j++) {
                double to = LANE(g[j]);
                int now_changed = changed(j, l->g[j], to);
                LANE(e[j]) = now_changed ? to > 0 ? 1 : -1 : 0;
                crossed |= now_changed;
                if (now_changed && l->t + length <= last[(l->member < 0 ? 0 : l->member) * GUARDS + j] + c->least) early = 1;
            }
            accepted[lane] = l->member >= 0;
            if (l->member < 0 || c->tolerance < 0 || (!crossed && !l->locating)) continue;
            double tolerance = c->tolerance * fmax(1, fabs(l->t));
            if (crossed) {
                if (!l->locating) {
                    l->low = 0, l->side = 0, l->tries = 0, l->locating = 1;
                    memcpy(l->glow, l->g, sizeof l->glow);
                } else if (l->side == 1)
                    for (int j = 0; j < GUARDS; j++) l->glow[j] *= 0.5; /* the Illinois method */
                l->high = length, l->side = 1;
                for (int j = 0; j < GUARDS; j++) l->ghigh[j] = LANE(g[j]);
                if (l->high - l->low <= tolerance || early) {
                    counts[3 * l->member + 1] += early && l->high - l->low > tolerance;
                    l->locating = 0;
                    continue;
                }
            } else {
                if (l->side == -1)
                    for (int j = 0; j < GUARDS; j++) l->ghigh[j] *= 0.5;
                l->low = length, l->side = -1;
                for (int j = 0; j < GUARDS; j++) l->glow[j] = LANE(g[j]);
            }
            accepted[lane] = 0;
            for (int j = 0; j < GUARDS; j++) {
                double a = l->glow[j], b = l->ghigh[j];
                if (!changed(j, a, b)) continue;
                double x = l->low + (l->high - l->low) * (a / (a - b)), until = last[l->member * GUARDS + j] + c->least - l->t;
                x = fmax(x, fmin(until, l->high)); /* no sooner than it may be located */
                root = fmin(root, x);
            }
            if (++l->tries > 40 || !(root < INFINITY)) root = 0.5 * (l->low + l->high);
            if (l->high - l->low <= tolerance) root = l->high;
            else root = fmin(fmax(root, l->low + 0.5 * tolerance), l->high - 0.5 * tolerance);
            LANE(h) = root;
        }

        after(&end, next, p, e, z, g, ahead, stop);
        for (int lane = 0; lane < LANES; lane++) {
            Lane *l = of + lane;
            if (!accepted[lane]) continue;
            long i = l->member;
            double bad = 0, sample = t0 + (double)(l->row - first + 1) * c->interval;
            for (int j = 0; j < POINT; j++) bad += LANE(z[j]) * 0;
            int over = bad != 0 ? NOT_FINITE : RAN, sampled = 0;
            if (!over) {
                l->t = LANE(end);
                if (l->t >= sample - 1e-13 * fmax(1, fabs(sample))) l->t = sample, sampled = 1;
                LANE(t) = l->t;
                for (int j = 0; j < POINT; j++) LANE(now[j]) = LANE(z[j]);
                for (int j = 0; j < GUARDS; j++) {
                    l->g[j] = LANE(g[j]);
                    if (LANE(e[j]) == 0) continue;
                    last[i * GUARDS + j] = l->t;
                    long number = counts[3 * i]++;
                    if (number >= c->most) continue;
                    double *entry = log + (i * c->most + number) * (2 + POINT);
                    entry[0] = l->t, entry[1] = LANE(e[j]) * (1 + j);
                    for (int m = 0; m < POINT; m++) entry[2 + m] = LANE(z[m]);
                }
                counts[3 * i + 2]++, l->steps++;
                if (sampled) {
                    for (int j = 0; j < POINT; j++) record[(i * records + l->row + 1) * POINT + j] = LANE(z[j]);
                    l->row++, l->steps = 0;
                    sample += c->interval;
                }
                LANE(h) = LANE(ahead[0]);
                if (LANE(stop[0]) > 0) over = STOPPED;
                else if (!(LANE(h) > 0)) over = NO_STEP;
                else if (l->steps > c->limit) over = TOO_MANY;
                double left = sample - l->t;
                LANE(h) = LANE(h) * 1.0000001 >= left ? left : LANE(h) * 2 > left ? left / 2 : LANE(h);
            }
            if (over || l->row == first + rows) {
                if (over) ends[2 * i] = l->t, ends[2 * i + 1] = over;
                for (int j = 0; j < POINT; j++) y[i * POINT + j] = LANE(now[j]);
                l->member = -1, LANE(h) = 0, fresh = 1;
            }
        }
    }
}
