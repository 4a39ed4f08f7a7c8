/* Steps of an explicit Lie-group method for hybrid systems: every lane has a member of the ensemble, a time and a step
   of its own, and takes the next member when it has finished one. A state is memory m, which is constant within a step, and
   a point x that moves.
       field(t, x, m, u, f)        left-trivialised velocity      advance(x, psi, z)   z = x exp(psi), normalised
       pull(psi, f, k)             k = dexp^-1_(-psi) f, for Runge-Kutta-Munthe-Kaas methods
       look(t, x, m, u, g, h, s)   guards, of which a change of sign is an event; the step to take from here; whether to
                                   stop: s > 0
       after(t, x, m, u, e, G, z, g, h, s)   the guards G at the end of a step, and the state z = (m, x) after it, where
                                             e_i = +1 or -1 if guard i changed its sign; as `look` there
   These and samples.h come before this text, as do their dimensions MEMORY, MOVING, POINT (of m, x and both), ALGEBRA,
   EFFORTS (of psi, and of the parameters u, which are constant or sampled), GUARDS and STAGES, and `direction` of each
   guard: whether only changes upwards (1), downwards (-1), or both (0) are events. The function `stages` for the
   method's coefficients is printed in the place marked so. */

typedef struct { /* a lane's member, the piece of samples it is in, and the bracket of the event that it looks for */
    long member, row, piece;
    double low, high, glow[GUARDS], ghigh[GUARDS];
    int side, tries;
} Lane;

/* Parameters of each lane's member at its own time. */
static void parameters(const Samples *e, const Lane *of, const T *t, T *u) {
    for (int lane = 0; lane < LANES; lane++)
        for (int j = 0; j < EFFORTS; j++) LANE(u[j]) = effort(e, of[lane].piece, LANE(*t), of[lane].member, j);
}

/* STAGES */

enum { RAN, STOPPED, NOT_FINITE, NO_STEP, TOO_MANY };

typedef struct {
    double interval;  /* between samples */
    double tolerance; /* to which the time of an event is located; negative: events are taken at the ends of steps */
    double least;     /* events sooner than this after the last one of the same guard are taken then, and not located */
    long limit;       /* most steps of a member between two samples */
    long most;        /* events of a member that its log keeps; more are counted only */
} Control;

typedef struct { /* a member's log, which grows */
    double *entries;
    long room, kept;
} Log;

/* The place of a new entry; NULL if there is no memory for it. */
static double *new_entry(Log *log) {
    const long width = 2 + POINT;
    if (log->kept == log->room) {
        long room = 2 * log->room + 8;
        double *entries = realloc(log->entries, (size_t)room * width * sizeof *entries);
        if (!entries) return NULL;
        log->entries = entries, log->room = room;
    }
    return log->entries + width * log->kept++;
}

/* Move the entries of n logs to `entries`, one log after the other. */
void hybrid_drain(long n, Log *logs, double *entries) {
    for (long i = 0; i < n; i++) {
        long size = (2 + POINT) * logs[i].kept;
        if (size) memcpy(entries, logs[i].entries, size * sizeof *entries);
        entries += size;
        free(logs[i].entries);
    }
}

/* Whether guard j changes its sign from a to b, in its direction. */
static int changed(int j, double a, double b) {
    return (a > 0) != (b > 0) && b == b && direction[j] * (b > 0 ? 1 : -1) >= 0;
}

/* A step of `length` from time t leads from guards `before` to g, past an event (`crossed`) or, while one is looked for,
   not. The length to try next; 0 if the step is accepted, as it ends where the event is, or `soon` after the last one. */
static double locate(Lane *l, const Control *c, double t, double length, const double *before, const double *g, int crossed,
                     int looking, const double *last, long *not_located) {
    double tolerance = c->tolerance * fmax(1, fabs(t)), root = INFINITY;
    if (crossed) {
        int early = 0;
        for (int j = 0; j < GUARDS; j++) early |= changed(j, before[j], g[j]) && t + length <= last[j] + c->least;
        if (!looking) {
            l->low = 0, l->side = 0, l->tries = 0;
            memcpy(l->glow, before, sizeof l->glow);
        } else if (l->side == 1)
            for (int j = 0; j < GUARDS; j++) l->glow[j] *= 0.5; /* the Illinois method */
        l->high = length, l->side = 1;
        memcpy(l->ghigh, g, sizeof l->ghigh);
        if (l->high - l->low <= tolerance || early) {
            *not_located += early && l->high - l->low > tolerance;
            return 0;
        }
    } else {
        if (l->side == -1)
            for (int j = 0; j < GUARDS; j++) l->ghigh[j] *= 0.5;
        l->low = length, l->side = -1;
        memcpy(l->glow, g, sizeof l->glow);
    }
    for (int j = 0; j < GUARDS; j++) {
        double a = l->glow[j], b = l->ghigh[j];
        if (!changed(j, a, b)) continue;
        double x = l->low + (l->high - l->low) * (a / (a - b)), until = last[j] + c->least - t;
        x = fmax(x, fmin(until, l->high)); /* no sooner than it may be located */
        root = fmin(root, x);
    }
    if (++l->tries > 40 || !(root < INFINITY)) root = 0.5 * (l->low + l->high);
    if (l->high - l->low <= tolerance) return l->high;
    return fmin(fmax(root, l->low + 0.5 * tolerance), l->high - 0.5 * tolerance);
}

/* Rows first + 1 .. first + rows of record (n, records, POINT), where row 0 is at t0; y (n, POINT) goes in and comes out.
   logs (n): of each event its time, +-(1 + guard), state after; counts (n, 3): events, those not located, steps.
   last (n, GUARDS): time of the last event of each guard. ends (n, 2): time and reason, written for the members that do
   not reach the end; those that had ended before are left alone. queue: the next member to take, shared by threads. */
void hybrid_steps(long n, long *queue, double *y, const Samples *e, double t0, long rows, const Control *c,
                  double *record, long records, long first, Log *logs, long *counts, double *last, double *ends) {
    const T zero = splat(0), one = splat(1);
    const I none = bits(zero);
    T t = zero, h = zero, until = zero, limit = zero; /* until: time of the next record; limit: no step goes further */
    T u[EFFORTS + 1], k[STAGES * ALGEBRA];
    T states[2][POINT], next[MOVING], *now = states[0], *then = states[1];
    T before[GUARDS], found[GUARDS], g[GUARDS], change[GUARDS], ahead[1], stop[1];
    I active = none, looking = none, taken = none; /* steps since the last sample */
    Lane of[LANES];
    int fresh = 1;
    memset(u, 0, sizeof u), memset(states, 0, sizeof states), memset(before, 0, sizeof before), memset(of, 0, sizeof of);
    for (;;) {
        if (fresh) { /* members for the lanes that have none */
            I new = none;
            fresh = 0;
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                while (!LANE(active)) {
                    long i = __atomic_fetch_add(queue, 1, __ATOMIC_RELAXED);
                    if (i >= n) break;
                    if (ends[2 * i + 1] != RAN) continue;
                    l->member = i, l->row = first, l->piece = piece_at(e, t0);
                    LANE(t) = t0, LANE(until) = t0 + c->interval, LANE(taken) = LANE(looking) = 0;
                    for (int j = 0; j < POINT; j++) LANE(now[j]) = y[i * POINT + j];
                    LANE(active) = LANE(new) = -1;
                }
            }
            if (!any(active)) return;
            parameters(e, of, &t, u);
            look(&t, now + MEMORY, now, u, g, ahead, stop);
            for (int j = 0; j < GUARDS; j++) before[j] = where(new, g[j], before[j]);
            for (int lane = 0; lane < LANES; lane++)
                if (LANE(new)) LANE(limit) = part_end(e, t0, LANE(until));
            h = where(new, minimum(ahead[0], limit - t), h);
            for (int lane = 0; lane < LANES; lane++) {
                if (!LANE(new) || (!(LANE(stop[0]) > 0) && LANE(h) > 0)) continue;
                double *end = ends + 2 * of[lane].member;
                end[0] = t0, end[1] = LANE(stop[0]) > 0 ? STOPPED : NO_STEP;
                LANE(active) = 0, LANE(h) = 0, fresh = 1;
            }
            if (fresh) continue;
        }

        stages(t, h, now + MEMORY, now, e, of, u, k, next);
        T end = t + h;
        if (e->linear) parameters(e, of, &end, u);
        memset(change, 0, sizeof change);
        after(&end, next, now, u, change, found, then, g, ahead, stop);

        I accepted = active, crossed = none; /* is this the end of the step, or is an event before it? */
        for (int j = 0; j < GUARDS; j++) {
            I up = MASK(found[j] > 0), here = (up ^ MASK(before[j] > 0)) & MASK(found[j] == found[j]);
            if (direction[j]) here &= direction[j] > 0 ? up : ~up;
            change[j] = where(here, where(up, one, -one), zero);
            crossed |= here;
        }
        if (c->tolerance >= 0 && any((crossed | looking) & active))
            for (int lane = 0; lane < LANES; lane++) {
                if (!LANE(active) || !(LANE(crossed) | LANE(looking))) continue;
                double from[GUARDS], to[GUARDS];
                for (int j = 0; j < GUARDS; j++) from[j] = LANE(before[j]), to[j] = LANE(found[j]);
                long i = of[lane].member;
                double length = locate(of + lane, c, LANE(t), LANE(h), from, to, LANE(crossed) != 0, LANE(looking) != 0,
                                       last + i * GUARDS, counts + 3 * i + 1);
                LANE(looking) = length > 0 ? -1 : 0;
                if (length > 0) LANE(h) = length, LANE(accepted) = 0;
            }
        if (any(crossed & accepted)) after(&end, next, now, u, change, found, then, g, ahead, stop);

        I finite = accepted & MASK(unless_finite(then, POINT, zero) == 0);
        I reached = finite & MASK(end >= limit - 1e-13 * maximum(one, absolute(limit)));
        I sampled = reached & MASK(limit == until);
        t = where(finite, where(reached, limit, end), t);
        if (any(active & ~finite)) {
            for (int j = 0; j < POINT; j++) now[j] = where(finite, then[j], now[j]);
            for (int j = 0; j < GUARDS; j++) before[j] = where(finite, g[j], before[j]);
        } else {
            T *free = now;
            now = then, then = free;
            memcpy(before, g, sizeof g);
        }
        taken -= finite; /* a mask is -1 */
        I over = finite & (MASK(stop[0] > 0) | ~MASK(ahead[0] > 0) | (MASK(taken > c->limit) & ~sampled));
        over |= accepted & ~finite;
        if (any(sampled | over | (crossed & finite)))
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                long i = l->member;
                for (int j = 0; LANE(finite) && j < GUARDS; j++) {
                    if (LANE(change[j]) == 0) continue;
                    last[i * GUARDS + j] = LANE(t);
                    double *entry = counts[3 * i]++ < c->most ? new_entry(logs + i) : NULL;
                    if (!entry) continue;
                    entry[0] = LANE(t), entry[1] = LANE(change[j]) * (1 + j);
                    for (int m = 0; m < POINT; m++) entry[2 + m] = LANE(now[m]);
                }
                if (LANE(sampled)) {
                    l->row++;
                    for (int j = 0; j < POINT; j++) record[(i * records + l->row) * POINT + j] = LANE(now[j]);
                    LANE(until) = t0 + (double)(l->row - first + 1) * c->interval;
                }
                if (LANE(sampled) | LANE(over)) counts[3 * i + 2] += LANE(taken), LANE(taken) = 0;
                if (LANE(over)) {
                    ends[2 * i] = LANE(t);
                    ends[2 * i + 1] = !LANE(finite) ? NOT_FINITE
                                      : LANE(stop[0]) > 0 ? STOPPED
                                      : !(LANE(ahead[0]) > 0) ? NO_STEP
                                                              : TOO_MANY;
                }
                if (LANE(over) || (LANE(sampled) && l->row == first + rows)) {
                    for (int j = 0; j < POINT; j++) y[i * POINT + j] = LANE(now[j]);
                    LANE(active) = 0, LANE(h) = 0, fresh = 1;
                }
            }
        limit = where(sampled, until, limit);
        if (e->samples > 1)
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                if (!LANE(active)) continue;
                LANE(limit) = part_end(e, LANE(t), LANE(until));
                const long piece = piece_at(e, LANE(t));
                if (piece == l->piece) continue;
                l->piece = piece;
                for (int j = 0; j < EFFORTS; j++) LANE(u[j]) = effort(e, piece, LANE(t), l->member, j);
            }
        T left = limit - t, length = where(MASK(ahead[0] * 2 > left), left * 0.5, ahead[0]);
        h = where(finite & active, where(MASK(ahead[0] * 1.0000001 >= left), left, length), h);
    }
}
