/* A step of an implicit one-step method (march.h) solves equations in phases, r(x; z, t, h, y, u) =
   0 for x by Newton's method, where z is what earlier phases have kept. Phase p has the functions
       predict_p(z, t, h, y, u, x)          the first guess x
       residual_p(x, z, t, h, y, u, r)      r
       both_p(x, z, t, h, y, u, r, values)  r, and the entries of dr/dx as values
       keep_p(x, z, t, h, y, u, k)          what is appended to z
   and finish(z, t, h, y, u, next) gives y at the end of the step. These functions, samples.h and
   newton.h come before this text, with the dimensions POINT, EFFORTS, NODES (of y, of u, and times
   per step at which u is taken), KEPT (of z), LARGEST (of x), SYSTEM (what `newton` needs), and
       phases(t, h, y, u, x, z, work, pivot, lost)    goes through the phases in order
   Under error control (CONTROLLED) there are also, with the dimension ERRORS of the estimate and
   its order ERROR_ORDER,
       estimate(...)                             goes through the phases of the error estimate
       error(z, t, h, y, u, next, e, size)       the estimate e, and the sizes that rtol multiplies
       between(s, z, t, h, y, u, next, inside)   the state at t + s h */

typedef struct {
    T *system, *x, *z; /* z: what the phases of the last step have kept */
    I *pivot;
} Work;

static int open_work(Work *w, const Samples *e) {
    (void)e;
    w->system = vector_memory((SYSTEM + LARGEST + KEPT) * sizeof(T));
    w->pivot = vector_memory(LARGEST * sizeof(I));
    w->x = w->system + SYSTEM, w->z = w->x + LARGEST;
    if (w->system && w->pivot) return 1;
    release(w->system), release(w->pivot);
    return 0;
}
static int64_t close_work(Work *w) {
    release(w->system), release(w->pivot);
    return 0;
}

static void step(const T *t, const T *h, const T *y, const T *u, Work *w, T *next, I *lost) {
    phases(t, h, y, u, w->x, w->z, w->system, w->pivot, lost);
    finish(w->z, t, h, y, u, next);
}

INLINE void complete(const T *t, const T *h, const T *end, const T *y, const T *u, const T *u_end,
                     Work *w, T *next, T *z) {
    (void)t, (void)h, (void)end, (void)y, (void)u, (void)u_end, (void)w;
    memcpy(z, next, POINT * sizeof *z);
}

#if CONTROLLED
static T defect(const T *t, const T *h, const T *y, const T *u, const T *next, Work *w, double rtol,
                double atol, I *lost) {
    T errors[ERRORS], sizes[ERRORS], sum = unless_finite(next, POINT, splat(0));
    estimate(t, h, y, u, w->x, w->z, w->system, w->pivot, lost);
    error(w->z, t, h, y, u, next, errors, sizes);
    for (int i = 0; i < ERRORS; i++) {
        const T scaled = errors[i] / (atol + rtol * sizes[i]);
        sum += scaled * scaled;
    }
    return sum / ERRORS;
}
static void within(const T *s, const T *t, const T *h, const T *y, const T *u, const T *next,
                   Work *w, T *z) {
    between(s, w->z, t, h, y, u, next, z);
}
#endif
