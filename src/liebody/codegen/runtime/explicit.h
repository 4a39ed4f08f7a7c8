/* A step of an explicit Lie-group method (march.h). psi and k lie in the algebra:
       field(t, x, u, f)      left-trivialised velocity f at a point x; with memory, field(t, x, m, u, f)
       advance(x, psi, z)     z = x exp(psi), normalised
       pull(psi, f, k)        k = dexp^-1_(-psi) f, for Runge-Kutta-Munthe-Kaas methods
   These and `error`, the estimated error in units of the step, come before this text, with the dimensions
   MEMORY, MOVING, POINT (of m, x and both), ALGEBRA, STAGES and RIGID, how many of the first entries of the
   algebra have size 1 in the error control: the others are as large as the last coordinates of y. The
   function `stages`, which holds the method's coefficients, is printed in the place marked STAGES. */

typedef struct {
    long apart;            /* numbers between the efforts of one node and the next; 0 if all are the same */
    T k[STAGES * ALGEBRA]; /* velocities of the stages */
} Work;

static int open_work(Work *w, const Samples *e, long *count) {
    w->apart = e->linear ? EFFORTS : 0;
    (void)count;
    return 1;
}
static void close_work(Work *w) { (void)w; }

/* STAGES */

static void step(const T *t, const T *h, const T *y, const T *u, Work *w, T *next, I *lost) {
    (void)lost;
    stages(*t, *h, y + MEMORY, y, u, w->apart, w->k, next);
}

#if CONTROLLED
static T defect(const T *t, const T *h, const T *y, const T *u, const T *next, Work *w, double rtol,
                double atol, I *lost) {
    T sum = splat(0);
    (void)t, (void)u, (void)lost;
    for (int i = 0; i < ALGEBRA; i++) {
        T size = splat(1);
        if (i >= RIGID) {
            const int at = MOVING - ALGEBRA + i;
            size = maximum(absolute(y[MEMORY + at]), absolute(next[at]));
        }
        const T scaled = error(w->k, i) * *h / (atol + rtol * size);
        sum += scaled * scaled;
    }
    return sum / ALGEBRA;
}
#endif
