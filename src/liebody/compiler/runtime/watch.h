/* Steps of systems whose constraints can come to depend on each other (stepping/singular.py).
   Before this text there is
       after(t, y, u, z, worst)   which puts y on the constraints, where PROJECTED, or else
       field(t, y, u, f, worst)
   where `worst` is one over the smallest pivot of the constraints at y, relative to their size.
   Close to a position where they depend on each other the pivot goes with the square of the
   distance, and accelerations off the constraints have little to do with those on them. Steps next
   to such a place are taken carefully, with all stages put on the constraints, by
       careful_field(t, y, u, f)      careful_after(t, y, u, z, worst)
   Without these (CAREFUL is 0) loops end with the first such step. */

#define FAR 1e3      /* from which `worst` on a step may be next to such a place */
#define APPROACH 0.5 /* of a step: the way left where the next one is taken carefully */
#define DROP 4.0     /* of the pivot in a step, which is then taken again */

typedef struct {
    T start, last_start, end; /* `worst` where the step begins, the last one began, and it ends */
    I careful;                /* lanes whose step is taken carefully */
    T most;                   /* the largest `worst` of the step */
    T ever;                   /* and of all steps that were taken */
    T length;                 /* of the last step, 0 if there was none */
    int unable;     /* whether a step was to be taken carefully without the functions for that */
    T state[POINT]; /* where a careful step had `most` */
} Watch;

enum {
    SMALLEST,
    SMALLEST_TIME,
    SINGULAR_PIVOT,
    SINGULAR_TIME,
    START,
    LAST_START,
    SINGULAR_STATE,
    NEAREST = SINGULAR_STATE + POINT
};

/* What is known of a member, row (NEAREST), comes into a lane, and goes out of it. */
INLINE void watch_member(Watch *w, int lane, const double *row) {
    LANE(w->ever) = 1 / row[SMALLEST], LANE(w->start) = row[START],
    LANE(w->last_start) = row[LAST_START];
    LANE(w->length) = 0;
}
INLINE void leave_member(const Watch *w, int lane, double *row) {
    row[START] = LANE(w->start), row[LAST_START] = LANE(w->last_start);
}

/* Whether the larger of a and b is FAR, and so many times the other. */
INLINE I differ(T a, T b, T times) {
    return (MASK(a > FAR) & MASK(a > times * b)) | (MASK(b > FAR) & MASK(b > times * a));
}

/* Before a step of length h from y: whether it comes so close that it is taken carefully. */
INLINE void begin_step(Watch *w, const T *y, T h) {
    w->careful = bits(splat(0)), w->most = w->start;
    if (__builtin_expect(!any(MASK(w->start > FAR) | MASK(w->last_start > FAR)), 1)) return;
    const T left = 1 + APPROACH * where(MASK(w->length != 0), w->length / h, splat(1));
    w->careful = differ(w->start, w->last_start, left * left) & MASK(w->last_start > 0);
    if (any(w->careful)) memcpy(w->state, y, sizeof w->state);
}

/* Whether the step has come closer than it seemed, so that it is taken again. NaN is as close as
   can be. */
INLINE int again(Watch *w, const T *y) {
    if (__builtin_expect(!any(MASK(w->start > FAR) | ~MASK(w->end <= FAR)), 1)) return 0;
    const I near = differ(w->end, w->start, splat(DROP)) | MASK(w->end != w->end);
    const I new = near & ~w->careful & MASK(w->start == w->start);
    if (__builtin_expect(!any(new), 1)) return 0;
    w->careful |= new, w->most = w->start;
    memcpy(w->state, y, sizeof w->state);
    return 1;
}

INLINE void note(Watch *w, const T *y, T worst) {
    const I more = MASK(worst > w->most);
    for (int j = 0; j < POINT; j++) w->state[j] = where(more, y[j], w->state[j]);
    w->most = where(more, worst, w->most);
}

#if PROJECTED
#define ordinary_velocity_at_start(t, y, u, w, f) field(t, y, u, f)
#define ordinary_velocity(t, y, u, w, f) field(t, y, u, f)
#if CAREFUL
#define careful_velocity_at_start(t, y, u, w, f) careful_field(t, y, u, f)

/* The velocity at a stage, put on the constraints. */
static void careful_velocity(const T *t, const T *y, const T *u, Watch *w, T *f) {
    LOCAL T on[POINT];
    T worst;
    careful_after(t, y, u, on, &worst);
    careful_field(t, on, u, f);
    note(w, on, worst);
}
#endif
#else
INLINE void ordinary_velocity_at_start(const T *t, const T *y, const T *u, Watch *w, T *f) {
    w->last_start = w->start;
    field(t, y, u, f, &w->start);
    w->end = w->start;
}

INLINE void ordinary_velocity(const T *t, const T *y, const T *u, Watch *w, T *f) {
    T worst;
    (void)w;
    field(t, y, u, f, &worst);
}
#endif

/* z, from y at the end of a step. */
INLINE void settle_watched(const T *t, const T *y, const T *u, Watch *w, T *z) {
#if PROJECTED
    after(t, y, u, z, &w->end);
    if (__builtin_expect(!any(w->careful), 1)) return;
#if CAREFUL
    LOCAL T on[POINT];
    T worst;
    careful_after(t, y, u, on, &worst);
    for (int j = 0; j < POINT; j++) z[j] = where(w->careful, on[j], z[j]);
    w->end = where(w->careful, worst, w->end);
    note(w, z, w->end);
#endif
#else
    (void)t, (void)u, (void)w;
    memcpy(z, y, POINT * sizeof *z);
#endif
}

/* The lanes `taken` have taken a step from t of length h: remember where their members were
   closest. */
INLINE void remember(Watch *w, I taken, const T *t, const T *h, const int64_t *member,
                     double *nearest) {
    const I known = MASK(w->start > 0); /* not before the first step: it may be small everywhere */
    w->most = where(MASK(w->end > w->most), w->end, w->most);
    w->length = where(taken, *h, w->length);
#if PROJECTED
    w->last_start = where(taken, w->start, w->last_start),
    w->start = where(taken, w->end, w->start);
#endif
    const I closer = taken & MASK(w->most > w->ever), careful = taken & known & w->careful;
    if (__builtin_expect(!any(closer | careful), 1)) return;
    w->ever = where(closer, w->most, w->ever);
    for (int lane = 0; lane < LANES; lane++) {
        if (!LANE(closer) && !LANE(careful)) continue;
        double *row = nearest + member[lane] * NEAREST;
        const double pivot = 1 / LANE(w->most);
        if (LANE(closer)) row[SMALLEST] = pivot, row[SMALLEST_TIME] = LANE(*t);
        if (!LANE(careful) || !(pivot < row[SINGULAR_PIVOT])) continue;
        row[SINGULAR_PIVOT] = pivot, row[SINGULAR_TIME] = LANE(*t);
        for (int j = 0; j < POINT; j++) row[SINGULAR_STATE + j] = LANE(w->state[j]);
    }
}
