/* One loop through time for every method, in two forms: `fixed_steps`, whose lanes go together, and
   `march`, in which every lane has a member of the ensemble, a time and a step of its own.

   Before this text stand samples.h and a step (explicit.h or implicit.h):
       Work                                       what a step needs and leaves behind
       open_work, close_work                      close_work returns 1 as WATCHED says, or 0
       step(t, h, y, u, w, next, lost)            from y at t to next at t + h; efforts u
       complete(t, h, end, y, u, v, w, next, z)   the state z at the end of a step that is kept;
                                                  there efforts are v, and it has come to `next`
   and the dimensions POINT (of a state), EFFORTS and NODES (of u). ALL_NODES: all rows of u are
   read, also where efforts are the same at all of them; IDLE_STEP is the h of lanes without a
   member. Switches:
       WATCHED     steps are watched for dependent constraints (watch.h); the loops return 1, with
                   nothing of what they did to be used, where a step has to be taken carefully and
                   cannot be
       REMEMBERS   y holds what the method remembers of its last step, of length made:
                   fit(y, made, h, z), and, where efforts jump, JUMPS: restart(y, made, t, h, u, z)
   and of `march` alone (MARCH):
       CONTROLLED  steps are as long as an estimate of their error allows:
                   defect(t, h, y, u, next, w, rtol, atol, lost), its mean square, accepted up to 1
       DENSE       records are states within steps, within(s, t, h, y, u, next, w, z) at t + s h,
                   and steps end at the end of the run; otherwise at each record
       GUARDS      how many guards there are: guards(t, y, u, g). An event is a change of the sign
                   of one in its `direction`: upwards (1), downwards (-1), or both (0); a `terminal`
                   one ends the run
       LOOKS       the system chooses its steps and updates its state after each of them. A state is
                   memory m and a point x, of lengths MEMORY and MOVING, and only x moves in a step:
                       look(t, x, m, u, g, h, s)    guards, the step to take, whether to stop: s > 0
                       after(t, x, m, u, e, G, z, g, h, s)
                   the guards G at the end of a step, and the state z after it, where e_i is +1 or
                   -1 if guard i has changed its sign; g, h, s as `look` finds them. Without LOOKS
                   MEMORY is 0
       CALLS       how many compiled functions are called between steps:
                       call(functions, t, y, u, active, g, h)
                   makes the calls that are due in the active lanes, which are returned. It changes
                   their memory at the head of y, guards and the next step */

#define NODES_OF(e) (ALL_NODES || (e)->linear ? NODES : 1)

#ifndef PATIENCE
#define PATIENCE
#ifdef __CUDACC__ /* no signals reach a device */
typedef void Signals;
typedef int Patience;
INLINE Patience patience(Signals *signals) { return signals != 0; }
INLINE int interrupted(Patience *p) { return *p; }
#else
#include <time.h>
typedef struct { /* by which a loop learns that it shall end where it is, because of a signal */
    int (*lock)(void); /* PyGILState_Ensure and PyGILState_Release; NULL: others handle signals */
    void (*unlock)(int);
    int (*handle)(void);                     /* PyErr_CheckSignals: runs handlers of Python */
    void (*take)(void **, void **, void **); /* PyErr_Fetch */
    int stopped;    /* whether to end, also of the loops of other threads */
    void *error[3]; /* what a handler has raised, for Python to raise it again after the loop */
} Signals;

typedef struct {        /* with which a loop looks for signals about every 20 ms */
    Signals *signals;   /* NULL: it does not */
    int64_t left, wait; /* steps until the clock is read next, and between two looks at it */
    double last;        /* when it looked for signals */
} Patience;

static double clock_now(void) {
#if defined(_WIN32) /* where `clock` is not of the processor */
    return (double)clock() / CLOCKS_PER_SEC;
#else
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#endif
}
static __attribute__((noinline)) int look_at_clock(Patience *p) {
    const double now = clock_now(), since = now - p->last;
    if (since >= 0 && since < 0.02) {
        p->left = p->wait *= 2;
        return 0;
    }
    if (since > 0.04 && p->wait > 1) p->wait /= 2;
    p->left = p->wait, p->last = now;
    Signals *s = p->signals;
    if (s->lock && !s->stopped) {
        const int held = s->lock();
        if (s->handle()) s->take(s->error, s->error + 1, s->error + 2), s->stopped = 1;
        s->unlock(held);
    }
    return __atomic_load_n(&s->stopped, __ATOMIC_RELAXED);
}
INLINE int interrupted(Patience *p) { return p->signals && --p->left <= 0 && look_at_clock(p); }
static Patience patience(Signals *signals) {
    return (Patience){signals, 1, 1, signals ? clock_now() : 0};
}
#endif
#endif

#if SINGLE && (WATCHED || MARCH && (CONTROLLED || DENSE))
#error "error control, dense records and the watch of constraints need the digits of doubles"
#endif

#if !MARCH
#ifndef RECORD
#define RECORD
typedef struct {  /* the rows of a run that are kept */
    real *values; /* (n, rows, POINT) */
    int64_t rows;
    int64_t *failed; /* (n): 1 + the row at which a member was found not finite, or 0 */
    double *losses; /* (n, 2): time at which a step began that could not be taken, and the reason */
    double *nearest; /* (n, NEAREST) of watch.h */
} Record;

typedef struct { /* what `fixed_steps` is to do */
    int64_t n;   /* members */
    real *y;     /* (n, POINT): their states, which come in and go out */
    const Samples *efforts;
    double t, h;          /* time at the start; length of a step */
    int64_t steps, every; /* how many; every `every`-th state is kept, */
    const Record *record;
    int64_t row;    /* from this row on */
    int64_t *taken; /* steps that all members took, fewer only after a signal; -1: of each another
                       number */
    Signals *signals;
} StepsCall;

/* Row `row` for members i .. i + count - 1. */
INLINE void keep(const Record *r, const T *now, int64_t i, int64_t count, int64_t row) {
    save(now, POINT, r->values + (i * r->rows + row) * POINT, r->rows * POINT, count);
    const T bad = unless_finite(now, POINT, splat(0));
    if (any(MASK(bad != 0)))
        for (int lane = 0; lane < count; lane++)
            if (LANE(bad) != 0 && !r->failed[i + lane]) r->failed[i + lane] = row + 1;
}

#endif

/* Efforts of members i .. i + members - 1 at the nodes of a step from t; more lanes are like the
   last. */
INLINE void sample_nodes(const Samples *e, double t, double h, int64_t i, int64_t members, T *u) {
    const int64_t piece = piece_at(e, t);
    for (int k = 0; k < NODES_OF(e); k++)
        for (int j = 0; j < EFFORTS; j++)
            for (int lane = 0; lane < LANES; lane++)
                LANE(u[k * EFFORTS + j]) = (real)effort(
                    e, piece, t + nodes[k] * h, i + (lane < members ? lane : members - 1), j);
}

/* Steps of one length. Those with samples in them are taken in parts, which end there. A member
   whose step cannot be taken is NaN from there on. Returns 0; -1 without memory; 1 as WATCHED
   says. */
EXPORTED int64_t fixed_steps(const StepsCall *c) {
    const int64_t n = c->n, steps = c->steps, every = c->every;
    const double t0 = c->t, h = c->h;
    const Samples *e = c->efforts;
    const Record *r = c->record;
    real *y = c->y;
    LOCAL Work work;
    if (!open_work(&work, e)) return -1;
    const uint64_t mode = flush_subnormals();
    Patience waiting = patience(c->signals);
    int64_t taken = steps;
    for (int64_t i = 0; i < n && taken == steps; i += LANES) {
        const int64_t members = n - i < LANES ? n - i : LANES;
        LOCAL T states[1 + WATCHED][POINT], next[POINT], u[NODES * EFFORTS + 1];
        T *now = states[0];
        I lost = bits(splat(0));
        load(now, POINT, y + i * POINT, POINT, members);
#if WATCHED
        int64_t member[LANES];
        I there = bits(splat(0));
        for (int lane = 0; lane < LANES; lane++) {
            member[lane] = i + (lane < members ? lane : 0), LANE(there) = lane < members ? -1 : 0;
            watch_member(&work.watch, lane, r->nearest + member[lane] * NEAREST);
        }
#endif
        for (int64_t s = 0, row = c->row; s < steps; s++) {
            /* Step s, in parts if samples lie within it. */
            const double begin = t0 + (double)s * h, end = t0 + (double)(s + 1) * h;
            double from = begin, stop, made = h;
            do {
                stop = part_end(e, from, end);
                const double length = from == begin && stop == end ? h : stop - from;
                const T t = splat((real)from), to = splat((real)stop),
                        duration = splat((real)length);
                if (!s || e->samples > 1) sample_nodes(e, from, length, i, members, u);
#if REMEMBERS
                const T past = splat((real)made);
                int fitted = 0;
#if JUMPS
                if ((fitted = jumps(e, from))) restart(now, &past, &t, &duration, u, next);
#endif
                if (!fitted && (fitted = length != made)) fit(now, &past, &duration, next);
                if (fitted) memcpy(now, next, sizeof next);
#endif
                const I lost_before = lost;
                step(&t, &duration, now, u, &work, next, &lost);
                const T *u_end = u + (NODES_OF(e) - 1) * EFFORTS;
#if !WATCHED
                complete(&t, &duration, &to, now, u, u_end, &work, next, now);
#else
                T *then = states[now == states[0]];
                complete(&t, &duration, &to, now, u, u_end, &work, next, then);
                now = then;
                remember(&work.watch, there, &t, &duration, member, r->nearest);
#endif
                if (any(MASK(lost != 0)))
                    for (int lane = 0; lane < members; lane++) {
                        if (!LANE(lost)) continue;
                        for (int j = 0; j < POINT; j++) LANE(now[j]) = NAN;
                        double *loss = r->losses + 2 * (i + lane);
                        if (!LANE(lost_before) && !r->failed[i + lane])
                            loss[0] = from, loss[1] = (double)LANE(lost);
                    }
                from = stop, made = length;
            } while (from < end);
#if REMEMBERS
            if (made != h) {
                const T past = splat((real)made), duration = splat((real)h);
                fit(now, &past, &duration, next);
                memcpy(now, next, sizeof next);
            }
#endif
#if WATCHED
            if (work.watch.unable) break;
#endif
            if ((s + 1) % every == 0) keep(r, now, i, members, row++);
            if (interrupted(&waiting)) {
                taken = s + 1;
                break;
            }
        }
        save(now, POINT, y + i * POINT, POINT, members);
#if WATCHED
        for (int lane = 0; lane < members; lane++)
            leave_member(&work.watch, lane, r->nearest + member[lane] * NEAREST);
        if (work.watch.unable) break;
#endif
    }
    *c->taken = taken == steps || n <= LANES ? taken : -1;
    restore(mode);
    return close_work(&work);
}
#else

/* Times of the lanes are doubles D, also where T has floats: added to a float, a step of 1 ms would
   be lost after some hours, and round-off would leave slivers of steps before records. D becomes T
   where a step begins. */
#if !SINGLE
typedef T D;
#define TIMES_MASK MASK
#define where_times where
INLINE T rounded_times(D x) { return x; }
INLINE D as_times(T x) { return x; }
INLINE D size_of_times(D x) { return absolute(x); }
#elif LANES == 1
typedef double D;
#define TIMES_MASK MASK
INLINE D where_times(I mask, D a, D b) { return mask ? a : b; }
INLINE T rounded_times(D x) { return (T)x; }
INLINE D as_times(T x) { return x; }
INLINE D size_of_times(D x) { return fabs(x); }
#else
typedef double D __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t TimesMask __attribute__((vector_size(LANES * sizeof(double))));
#define TIMES_MASK(condition) __builtin_convertvector(condition, I)
INLINE D where_times(I mask, D a, D b) {
    const TimesMask chosen = __builtin_convertvector(mask, TimesMask);
    return (D)(((TimesMask)a & chosen) | ((TimesMask)b & ~chosen));
}
INLINE T rounded_times(D x) { return __builtin_convertvector(x, T); }
INLINE D as_times(T x) { return __builtin_convertvector(x, D); }
INLINE D size_of_times(D x) { return where_times(TIMES_MASK(x < 0), -x, x); }
#endif
INLINE D every_time(double x) { return x - ZERO(D); }

typedef struct { /* of one member, as it comes in and goes out: y is the state at t */
    double t, step, made, last_defect; /* time; next step; length of the last one; its defect */
    int64_t row;                       /* next row of the record */
} Clock;

typedef struct { /* a member's log, which grows */
    double *entries;
    int64_t room, kept;
} Log;

typedef struct {
    int64_t n, rows, until;  /* members; rows of the record; those before `until` are to be known */
    const double *times;     /* (rows): of the record; the last step ends at the last of them */
    const real *start;       /* (n, POINT): states that y begins with; NULL: y has them */
    real *y;                 /* (n, POINT) */
    Clock *clock;            /* (n) */
    real *record;            /* (n, rows, POINT) */
    double *ends;            /* (n, 2): time and reason, where a member ended before that */
    int64_t *counts;         /* (n, 4): events, those not located, steps, rejected ones */
    double *last;            /* (n, GUARDS): time of the last event of each guard */
    double *nearest;         /* (n, NEAREST) of watch.h */
    Log *logs;               /* (n): of each event its time, +-(1 + guard), the state after it */
    int64_t *queue;          /* the next member to take, shared by threads */
    double rtol, atol;       /* of the error control */
    double tolerance, least; /* to which the time of an event is located (negative: events are taken
                                at the ends of steps), but no sooner than this after the last one of
                                its guard */
    int64_t limit, most;     /* most steps between two records; most events that a log keeps */
    Signals *signals;        /* for which all members are left where they are */
    const void *const *calls; /* functions that are called between steps (calls.h) */
} March;

/* A lane's member, the piece of samples it is in, the bracket of an event it looks for. */
typedef struct {
    int64_t member, row, piece;
    double last_defect, low, high, glow[GUARDS + 1], ghigh[GUARDS + 1];
    int side, tries;
} Lane;

#ifdef __CUDACC__ /* each thread has a queue, and logs have room for `most` entries */
INLINE int64_t next_member(int64_t *queue) {
    const int64_t i = *queue;
    *queue += (int64_t)gridDim.x * blockDim.x;
    return i;
}
#else
INLINE int64_t next_member(int64_t *queue) {
    return __atomic_fetch_add(queue, 1, __ATOMIC_RELAXED);
}
#endif

/* The place of a new entry; NULL if there is no memory for it. */
static double *new_entry(Log *log) {
    const int64_t width = 2 + POINT;
#ifndef __CUDACC__
    if (log->kept == log->room) {
        const int64_t room = 2 * log->room + 8;
        double *entries = realloc(log->entries, (size_t)(room * width) * sizeof *entries);
        if (!entries) return NULL;
        log->entries = entries, log->room = room;
    }
#endif
    return log->entries + width * log->kept++;
}

#ifndef __CUDACC__
/* Move the entries of n logs to `entries`, one log after the other. */
void drain(int64_t n, Log *logs, double *entries) {
    for (int64_t i = 0; i < n; i++) {
        const size_t size = (size_t)((2 + POINT) * logs[i].kept);
        if (size) memcpy(entries, logs[i].entries, size * sizeof *entries);
        entries += size;
        free(logs[i].entries);
    }
}
#endif

/* Efforts of each lane's member: at one time t, and at the nodes of a step from t. */
static void sample_at(const Samples *e, const Lane *of, const D *t, T *u) {
    for (int lane = 0; lane < LANES; lane++)
        for (int j = 0; j < EFFORTS; j++)
            LANE(u[j]) = (real)effort(e, of[lane].piece, LANE(*t), of[lane].member, j);
}
static void sample_lanes(const Samples *e, const Lane *of, const D *t, const D *h, T *u) {
    for (int k = 0; k < NODES_OF(e); k++) {
        const D node = *t + nodes[k] * *h;
        sample_at(e, of, &node, u + k * EFFORTS);
    }
}

#if GUARDS
/* Whether guard j changes its sign from a to b, in its direction. */
static int changed(int j, double a, double b) {
    return (a > 0) != (b > 0) && b == b && direction[j] * (b > 0 ? 1 : -1) >= 0;
}

/* A step of `length` from time t leads from guards `start` to `end`, past an event (`crossed`) or,
   while one is looked for, not. Returns the length to try next; 0 if the step is accepted, because
   it ends where the event is, or at most `least` after the last one. */
static double locate(Lane *l, const March *m, double t, double length, const double *start,
                     const double *end, int crossed, int looking) {
    const double *last = m->last + l->member * GUARDS, tolerance = m->tolerance * fmax(1, fabs(t));
    double root = INFINITY;
    if (crossed) {
        int early = 0;
        for (int j = 0; j < GUARDS; j++)
            early |= changed(j, start[j], end[j]) && t + length <= last[j] + m->least;
        if (!looking) {
            l->low = 0, l->side = 0, l->tries = 0;
            memcpy(l->glow, start, GUARDS * sizeof *start);
        } else if (l->side == 1)
            for (int j = 0; j < GUARDS; j++) l->glow[j] *= 0.5; /* the Illinois method */
        l->high = length, l->side = 1;
        memcpy(l->ghigh, end, GUARDS * sizeof *end);
        if (l->high - l->low <= tolerance || early) {
            m->counts[4 * l->member + 1] += early && l->high - l->low > tolerance;
            return 0;
        }
    } else {
        if (l->side == -1)
            for (int j = 0; j < GUARDS; j++) l->ghigh[j] *= 0.5;
        l->low = length, l->side = -1;
        memcpy(l->glow, end, GUARDS * sizeof *end);
    }
    for (int j = 0; j < GUARDS; j++) {
        const double a = l->glow[j], b = l->ghigh[j];
        if (!changed(j, a, b)) continue;
        const double x = l->low + (l->high - l->low) * (a / (a - b)),
                     until = last[j] + m->least - t;
        root = fmin(root, fmax(x, fmin(until, l->high))); /* no sooner than it may be located */
    }
    if (++l->tries > 40 || !(root < INFINITY)) root = 0.5 * (l->low + l->high);
    if (l->high - l->low <= tolerance) return l->high;
    return fmin(fmax(root, l->low + 0.5 * tolerance), l->high - 0.5 * tolerance);
}
#endif

#if CONTROLLED
/* The step after one of `length` with this defect, by proportional-integral control (Gustafsson
   1991). */
static double next_step(double length, double defect, double *last_defect) {
    const double order = ERROR_ORDER;
    const double factor =
        0.9 * pow(fmax(defect, 1e-10), -0.7 / order) * pow(*last_defect, 0.4 / order);
    *last_defect = fmax(defect, 1e-4);
    return length * fmin(fmax(factor, 0.2), 10);
}
/* The step to try in place of one that was rejected; its defect may be infinite or NaN. */
static double shorter_step(double length, double defect) {
    return length * (defect < INFINITY ? fmax(0.9 * pow(defect, -1.0 / ERROR_ORDER), 0.2) : 0.2);
}
#endif

/* Most steps between two records, which each lane counts in an integer of its size. */
#define MOST_STEPS ((int64_t)(SINGLE ? INT32_MAX - 1 : INT64_MAX - 1))

/* The step to take of what is left until the next record, where `wanted` is the step to try. */
INLINE D part_of(D left, D wanted) {
#if SINGLE /* wanted is rounded: where whole steps fit but for that, take steps that fit */
    for (int lane = 0; lane < LANES; lane++) {
        const double steps = rint(LANE(left) / LANE(wanted));
        if (fabs(LANE(left) - steps * LANE(wanted)) < 0x1p-23 * LANE(left))
            LANE(wanted) = LANE(left) / steps;
    }
#endif
    const D half = where_times(TIMES_MASK(wanted * 2 > left), left * 0.5, wanted);
    return where_times(TIMES_MASK(wanted * 1.0000001 >= left), left, half);
}

/* The members go on until the rows before m->until of the record are known, or until they end. What
   a member does depends on nobody else. Returns 0; -1 without memory; 1 as WATCHED says. */
EXPORTED int64_t march(const March *m, const Samples *e) {
    LOCAL Work work;
    Patience waiting = patience(m->signals);
    if (!open_work(&work, e)) return -1;
    const uint64_t mode = flush_subnormals();
    const T zero = splat(0), one = splat(1);
    const D origin = every_time(0), unit = every_time(1), idle = every_time(IDLE_STEP);
    const I none = bits(zero);
    const whole limit_of_steps = (whole)(m->limit < MOST_STEPS ? m->limit : MOST_STEPS);
    /* until: time of the next record; limit: no step goes further; ahead: the wanted step */
    D t = origin, h = idle, until = origin, limit = origin, ahead = unit, made = unit;
    T stop[1] = {zero};
    LOCAL T states[2][POINT], next[POINT], fitted[POINT], inside[POINT];
    LOCAL T u[NODES * EFFORTS + 1], u_end[EFFORTS + 1];
    T *now = states[0], *then = states[1], *there = e->linear ? u_end : u;
    T guards_before[GUARDS + 1], guards_after[GUARDS + 1], g[GUARDS + 1], change[GUARDS + 1];
    I active = none, looking = none, taken = none;
    Lane of[LANES];
#if WATCHED
    int64_t member[LANES];
    memset(member, 0, sizeof member);
#endif
    int fresh = 1, stale = 1;
    memset(of, 0, sizeof of), memset(u, 0, sizeof u),
        memset(guards_before, 0, sizeof guards_before);
    memset(states, 0, sizeof states);
    const real *const start = m->start ? m->start : m->y;
    for (int lane = 0; lane < LANES && m->n; lane++)
        for (int j = 0; j < POINT; j++) LANE(now[j]) = start[j];
    for (;;) {
        if (fresh) { /* members for the lanes that have none */
            I entering = none;
            fresh = 0, stale = 1;
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                while (!LANE(active)) {
                    const int64_t i = next_member(m->queue);
                    if (i >= m->n) break;
                    /* each thread copies its members, just before it needs them */
                    if (m->start)
                        memcpy(m->y + i * POINT, start + i * POINT, POINT * sizeof *start);
                    const Clock *c = m->clock + i;
                    if (m->ends[2 * i + 1] != RAN || c->row >= m->until) continue;
                    l->member = i, l->row = c->row, l->last_defect = c->last_defect,
                    l->piece = piece_at(e, c->t);
                    LANE(t) = c->t, LANE(ahead) = c->step, LANE(made) = c->made;
                    LANE(until) = m->times[DENSE ? m->rows - 1 : c->row];
                    LANE(limit) = part_end(e, c->t, LANE(until));
                    for (int j = 0; j < POINT; j++) LANE(now[j]) = start[i * POINT + j];
                    LANE(taken) = LANE(looking) = 0, LANE(active) = LANE(entering) = -1;
#if WATCHED
                    member[lane] = i;
                    watch_member(&work.watch, lane, m->nearest + i * NEAREST);
#endif
                }
            }
            if (!any(active)) break;
#if GUARDS || LOOKS
            sample_at(e, of, &t, u_end);
#endif
#if LOOKS
            T wanted[1];
            const T t_start = rounded_times(t);
            look(&t_start, now + MEMORY, now, u_end, guards_after, wanted, stop);
            ahead = where_times(entering, as_times(wanted[0]), ahead);
            for (int lane = 0; lane < LANES; lane++) {
                if (!LANE(entering) || (!(LANE(stop[0]) > 0) && LANE(wanted[0]) > 0)) continue;
                double *end = m->ends + 2 * of[lane].member;
                end[0] = LANE(t), end[1] = LANE(stop[0]) > 0 ? STOPPED : NO_STEP;
                LANE(active) = 0, LANE(h) = IDLE_STEP, fresh = 1;
            }
#elif GUARDS
            const T t_start = rounded_times(t);
            guards(&t_start, now, u_end, guards_after);
            stop[0] = where(entering, zero, stop[0]);
#endif
#if GUARDS
            for (int j = 0; j < GUARDS; j++)
                guards_before[j] = where(entering, guards_after[j], guards_before[j]);
#endif
            if (fresh) continue;
            h = where_times(entering & active, part_of(limit - t, ahead), h);
        }

        /* Efforts, and what the method remembers, for a step of this length. */
        if (stale || e->linear) sample_lanes(e, of, &t, &h, u), stale = 0;
#if CALLS
        /* What is due is computed from the state here, and changes its memory and the next step.
           Numbers are doubles, as times are. */
        const I called = call(m->calls, &t, now, u, active, guards_before, &ahead);
        if (any(called)) {
            h = where(called, part_of(limit - t, ahead), h);
            if (e->linear) sample_lanes(e, of, &t, &h, u);
        }
#endif
        const T *from = now;
        const T t_step = rounded_times(t), h_step = rounded_times(h);
#if REMEMBERS
        const T made_step = rounded_times(made);
        fit(now, &made_step, &h_step, fitted);
        from = fitted;
#if JUMPS
        for (int lane = 0, restarted = 0; lane < LANES; lane++) {
            if (!jumps(e, LANE(t))) continue;
            if (!restarted++) restart(now, &made_step, &t_step, &h_step, u, inside);
            for (int j = 0; j < POINT; j++) LANE(fitted[j]) = LANE(inside[j]);
        }
#endif
#endif
        /* Take the step. Under error control lanes whose error is too large reject it. */
        I lost = ~active & IDLE, accepted = active, crossed = none;
        step(&t_step, &h_step, from, u, &work, next, &lost);
        const D end = t + h;
        const T t_end = rounded_times(end);
        if (e->linear) sample_at(e, of, &end, u_end);
#if CONTROLLED
        const T square = defect(&t_step, &h_step, from, u, next, &work, m->rtol, m->atol, &lost);
        accepted &= MASK(square <= 1) & MASK(lost == 0);
        I rejected = active & ~accepted;
#endif
        memset(change, 0, sizeof change);
#if LOOKS
        T wanted[1];
        after(&t_end, next, now, there, change, guards_after, then, g, wanted, stop);
#else
        complete(&t_step, &h_step, &t_end, from, u, there, &work, next, then);
#if GUARDS
        guards(&t_end, then, there, guards_after);
        memcpy(g, guards_after, sizeof g);
#endif
#endif

#if GUARDS
        /* Is this the end of the step, or is an event before it? */
        for (int j = 0; j < GUARDS; j++) {
            const I up = MASK(guards_after[j] > 0);
            I changes =
                (up ^ MASK(guards_before[j] > 0)) & MASK(guards_after[j] == guards_after[j]);
            if (direction[j]) changes &= direction[j] > 0 ? up : ~up;
            change[j] = where(changes, where(up, one, -one), zero);
            crossed |= changes;
        }
        if (m->tolerance >= 0 && any((crossed | looking) & accepted))
            for (int lane = 0; lane < LANES; lane++) {
                if (!LANE(accepted) || !(LANE(crossed) | LANE(looking))) continue;
                double a[GUARDS], b[GUARDS];
                for (int j = 0; j < GUARDS; j++)
                    a[j] = LANE(guards_before[j]), b[j] = LANE(guards_after[j]);
                const double length = locate(of + lane, m, LANE(t), LANE(h), a, b,
                                             LANE(crossed) != 0, LANE(looking) != 0);
                LANE(looking) = length > 0 ? -1 : 0;
                if (length > 0) LANE(h) = length, LANE(accepted) = 0;
            }
#endif
#if LOOKS
        if (any(crossed & accepted))
            after(&t_end, next, now, there, change, guards_after, then, g, wanted, stop);
        ahead = as_times(wanted[0]);
#endif

        /* Lanes with an accepted and finite step go on to its end; the others stay. */
        const I finite = accepted & MASK(unless_finite(then, POINT, zero) == 0);
        const I reached = finite & TIMES_MASK(end >= limit - 1e-13 * size_of_times(limit));
        const I sampled = reached & TIMES_MASK(limit == until);
        const D began = t;
#if WATCHED
        remember(&work.watch, finite, &t_step, &h_step, member, m->nearest);
        if (work.watch.unable) break;
#endif
        t = where_times(finite, where_times(reached, limit, end), t);
        made = where_times(finite, h, made);
        if (any(active & ~finite)) {
            for (int j = 0; j < POINT; j++) then[j] = where(finite, then[j], now[j]);
            for (int j = 0; j < GUARDS; j++) g[j] = where(finite, g[j], guards_before[j]);
        }
        T *free_state = now;
        now = then, then = free_state;
        memcpy(guards_before, g, GUARDS * sizeof *g);
        taken -= finite; /* a mask is -1 */
        /* Who ends here: not finite, too many steps, stopped, or without a next step. */
        I over = accepted & ~finite;
        over |= finite & MASK(taken > limit_of_steps) & ~sampled;
#if LOOKS
        over |= finite & (MASK(stop[0] > 0) | ~TIMES_MASK(ahead > 0));
#endif
#if CONTROLLED
        for (int lane = 0; lane < LANES; lane++) {
            Lane *l = of + lane;
            const double size = sqrt(LANE(square)), length = LANE(h);
            if (LANE(finite)) {
                const double wanted = next_step(length, size, &l->last_defect);
                if (length >= LANE(ahead) || wanted < length) LANE(ahead) = wanted;
            } else if (LANE(rejected)) {
                const double shorter = shorter_step(length, LANE(lost) ? INFINITY : size);
                LANE(ahead) = shorter, LANE(looking) = 0, m->counts[4 * l->member + 3]++;
                if (shorter <= 1e-14 * fabs(LANE(t))) LANE(over) = -1;
            }
        }
#endif
        /* Log the events of accepted steps, and write the rows that steps have ended at. */
        if (any(sampled | (crossed & finite)))
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                const int64_t i = l->member;
                int64_t *counts = m->counts + 4 * i;
                if (!LANE(active)) continue;
                for (int j = 0; LANE(finite) && j < GUARDS; j++) {
                    if (LANE(change[j]) == 0) continue;
                    m->last[i * GUARDS + j] = LANE(t);
                    if (terminal[j]) LANE(over) = -1, LANE(stop[0]) = 1;
                    double *entry = counts[0]++ < m->most ? new_entry(m->logs + i) : NULL;
                    if (!entry) continue;
                    entry[0] = LANE(t), entry[1] = LANE(change[j]) * (1 + j);
                    for (int k = 0; k < POINT; k++) entry[2 + k] = LANE(now[k]);
                }
#if !DENSE
                if (LANE(sampled)) {
                    real *row = m->record + (i * m->rows + l->row++) * POINT;
                    for (int j = 0; j < POINT; j++) row[j] = LANE(now[j]);
                    if (l->row < m->rows) LANE(until) = m->times[l->row];
                }
#endif
                if (LANE(sampled)) counts[2] += LANE(taken), LANE(taken) = 0;
            }
#if DENSE
        /* Rows within the steps, of each lane the next one. */
        for (int waiting = any(finite); waiting;) {
            D part = every_time(2);
            int due[LANES];
            waiting = 0;
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t row = of[lane].row;
                due[lane] = LANE(finite) && row < m->rows && m->times[row] <= LANE(t);
                if (due[lane]) LANE(part) = (m->times[row] - LANE(began)) / LANE(h), waiting = 1;
            }
            if (!waiting) break;
            const T part_step = rounded_times(part);
            within(&part_step, &t_step, &h_step, from, u, now, &work, inside);
            for (int lane = 0; lane < LANES; lane++) {
                if (!due[lane]) continue;
                const T *state = LANE(part) < 1 - 1e-12 ? inside : now;
                real *row = m->record + (of[lane].member * m->rows + of[lane].row++) * POINT;
                for (int j = 0; j < POINT; j++) row[j] = LANE(state[j]);
            }
        }
#endif
        const int leave = interrupted(&waiting);
        const int some = DENSE || leave || any(sampled | over);
        /* Members that end, or are where they should be. */
        for (int lane = 0; some && lane < LANES; lane++) {
            Lane *l = of + lane;
            const int64_t i = l->member;
            if (!LANE(active) || !(leave || LANE(over) || l->row >= m->until)) continue;
            if (LANE(over)) {
                double reason = LANE(stop[0]) > 0 ? STOPPED : LANE(ahead) > 0 ? TOO_MANY : NO_STEP;
                if (!LANE(finite)) reason = LANE(lost) ? (double)LANE(lost) : TOLERANCE_EXCEEDED;
                if (!LANE(finite) && LANE(accepted)) reason = NOT_FINITE;
                m->ends[2 * i] = LANE(t), m->ends[2 * i + 1] = reason;
            }
            m->counts[4 * i + 2] += LANE(taken);
#if WATCHED
            leave_member(&work.watch, lane, m->nearest + i * NEAREST);
#endif
            Clock *clock = m->clock + i;
            clock->t = LANE(t), clock->step = LANE(ahead), clock->made = LANE(made);
            clock->last_defect = l->last_defect, clock->row = l->row;
            for (int j = 0; j < POINT; j++) m->y[i * POINT + j] = LANE(now[j]);
            LANE(active) = 0, LANE(h) = IDLE_STEP, fresh = 1;
        }
        if (leave) break;

        /* The next step ends at the next record, or before, where a piece of the samples ends. */
        limit = where_times(sampled, until, limit);
        if (e->samples > 1)
            for (int lane = 0; lane < LANES; lane++) {
                Lane *l = of + lane;
                if (!LANE(active)) continue;
                const int64_t piece = piece_at(e, LANE(t));
                LANE(limit) = part_end(e, LANE(t), LANE(until));
                stale |= piece != l->piece, l->piece = piece;
            }
        h = where_times(active & ~looking, part_of(limit - t, ahead), h);
    }
    restore(mode);
    return close_work(&work);
}
#endif
