/* A step of an explicit Lie-group method (march.h). psi and k lie in the algebra:
       field(t, x, u, f)      left-trivialised velocity f at a point x; with memory m behind x
       advance(x, psi, z)     z = x exp(psi), normalised
       pull(psi, f, k)        k = dexp^-1_(-psi) f, for Runge-Kutta-Munthe-Kaas methods
       settle(t, y, u, z)     what becomes of the end of a step that is kept, where PROJECTED
       error(k, i)            the estimated error in units of the step
       stages(t, h, x, m, u, apart, k, next)    velocities k of the stages, and the end of a step
   come before this text, with the dimensions MEMORY, MOVING, POINT (of m, x and both), ALGEBRA,
   STAGES and RIGID, how many of the first entries of the algebra have size 1 in the error control:
   the others are as large as the last coordinates of y. With RETRIES there are guesses, DEFECT and
   tolerance (stepping/print_explicit.py). Where constraints are WATCHED (watch.h)
   there are `ordinary_stages` and `careful_stages`, and there is no `settle`. */

typedef struct {
    int64_t apart;         /* numbers between the efforts of nodes; 0 if all are the same */
    T k[STAGES * ALGEBRA]; /* velocities of the stages */
#if WATCHED
    Watch watch;
#endif
} Work;

static int open_work(Work *w, const Samples *e) {
    w->apart = e->linear ? EFFORTS : 0;
#if WATCHED
    memset(&w->watch, 0, sizeof w->watch);
#endif
    return 1;
}
/* Returns what the loops return. */
static int64_t close_work(Work *w) {
#if WATCHED
    return w->watch.unable;
#else
    (void)w;
    return 0;
#endif
}

#if WATCHED
/* The stages of a step, in some lanes taken carefully. */
static void take(const T *t, const T *h, const T *y, const T *u, Work *w, T *next) {
    ordinary_stages(*t, *h, y, &w->watch, u, w->apart, w->k, next);
#if PROJECTED
    const I careful = w->watch.careful;
    if (__builtin_expect(!any(careful), 1)) return;
#if CAREFUL
    LOCAL T careful_k[STAGES * ALGEBRA], careful_next[POINT];
    careful_stages(*t, *h, y, &w->watch, u, w->apart, careful_k, careful_next);
    for (int i = 0; i < STAGES * ALGEBRA; i++) w->k[i] = where(careful, careful_k[i], w->k[i]);
    for (int j = 0; j < POINT; j++) next[j] = where(careful, careful_next[j], next[j]);
#else
    w->watch.unable = 1;
#endif
#endif
}
#endif

#if RETRIES
#define GUESSES ((int)(sizeof guesses / sizeof *guesses))
#define DEPTH 4 /* differences of earlier attempts that the next one is extrapolated from */
#define SHIFT (SINGLE ? (real)1e-5 : (real)1e-12) /* of normal equations, relative to the trace */
#define NO_CHANGE \
    (SINGLE ? (real)1e-30 : (real)1e-300) /* the trace where all differences are zero */

static T inner(const T *a, const T *b) {
    T sum = splat(0);
    for (int j = 0; j < GUESSES; j++) sum += a[j] * b[j];
    return sum;
}

/* Coefficients c of the least |f - dF c| over n differences, by normal equations with a small
   shift. */
static void least_squares(const T dF[DEPTH][GUESSES], const T *f, int n, T *c) {
    T N[DEPTH][DEPTH], trace = splat(NO_CHANGE);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) N[i][k] = N[k][i] = inner(dF[i], dF[k]);
        c[i] = inner(dF[i], f);
        trace += N[i][i];
    }
    for (int i = 0; i < n; i++) N[i][i] += SHIFT * trace;
    for (int i = 0; i < n; i++) /* elimination: N is positive definite */
        for (int k = i + 1; k < n; k++) {
            const T factor = N[k][i] / N[i][i];
            for (int j = i; j < n; j++) N[k][j] -= factor * N[i][j];
            c[k] -= factor * c[i];
        }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++) c[i] -= N[i][j] * c[j];
        c[i] /= N[i][i];
    }
}

/* The step anew, from the guesses x that it made of the last ones, in lanes with a defect above the
   tolerance; each lane keeps its best attempt. Attempts are a fixed-point iteration x <- x + f(x).
   Anderson's method (1965) extrapolates it from the last differences dX, dF: in slow directions it
   converges in few attempts. Where f grew, the next attempt goes on without extrapolation. */
static void repeat(const T *t, const T *h, const T *y, const T *u, Work *w, T *next) {
    LOCAL T from[POINT], other[POINT], x[GUESSES], f[GUESSES];
    LOCAL T dX[DEPTH][GUESSES], dF[DEPTH][GUESSES], c[DEPTH];
    T size = splat(0);
    memcpy(from, y, sizeof from);
    memcpy(other, next, MOVING * sizeof *other);
    for (int round = 0; round <= RETRIES; round++) {
        const I open = MASK(next[DEFECT - MEMORY] > tolerance);
        if (round == RETRIES || !any(open)) return;
        const int slot = (round + DEPTH - 1) % DEPTH; /* of the difference to the attempt before */
        for (int j = 0; j < GUESSES; j++) {
            const T start = from[guesses[j]], change = other[guesses[j] - MEMORY] - start;
            if (round) dX[slot][j] = start - x[j], dF[slot][j] = change - f[j];
            x[j] = start, f[j] = change;
        }
        const int n = round < DEPTH ? round : DEPTH;
        const T last = size;
        size = inner(f, f);
        least_squares((const T(*)[GUESSES])dF, f, n, c);
        const I grew = MASK(size > 4 * last);
        for (int j = 0; j < GUESSES; j++) {
            T shift = splat(0);
            for (int i = 0; i < n; i++) shift += c[i] * (dX[i][j] + dF[i][j]);
            from[guesses[j]] = x[j] + f[j] - where(grew, splat(0), shift);
        }
        stages(*t, *h, from + MEMORY, from, u, w->apart, w->k, other);
        const I kept = open & MASK(other[DEFECT - MEMORY] < next[DEFECT - MEMORY]);
        for (int j = 0; j < MOVING; j++) next[j] = where(kept, other[j], next[j]);
    }
}
#endif

static void step(const T *t, const T *h, const T *y, const T *u, Work *w, T *next, I *lost) {
    (void)lost;
#if WATCHED
    begin_step(&w->watch, y, *h);
    take(t, h, y, u, w, next);
#else
    stages(*t, *h, y + MEMORY, y, u, w->apart, w->k, next);
#if RETRIES
    repeat(t, h, y, u, w, next);
#endif
#endif
}

#if !LOOKS
INLINE void complete(const T *t, const T *h, const T *end, const T *y, const T *u, const T *u_end,
                     Work *w, T *next, T *z) {
#if WATCHED
    settle_watched(end, next, u_end, &w->watch, z);
    if (!again(&w->watch, y)) return;
    take(t, h, y, u, w, next);
    settle_watched(end, next, u_end, &w->watch, z);
#else
    (void)t, (void)h, (void)y, (void)u, (void)w;
#if PROJECTED
    settle(end, next, u_end, z);
#else
    (void)end, (void)u_end;
    memcpy(z, next, POINT * sizeof *z);
#endif
#endif
}
#endif

#if CONTROLLED
static T defect(const T *t, const T *h, const T *y, const T *u, const T *next, Work *w, double rtol,
                double atol, I *lost) {
    T sum = splat(0);
    (void)t, (void)u, (void)lost;
    for (int i = 0; i < ALGEBRA; i++) {
        T size = splat(1);
        if (i >= RIGID) {
            const int j = MOVING - ALGEBRA + i; /* the coordinate of entry i */
            size = maximum(absolute(y[MEMORY + j]), absolute(next[j]));
        }
        const T scaled = error(w->k, i) * *h / (atol + rtol * size);
        sum += scaled * scaled;
    }
    return sum / ALGEBRA;
}
#endif
