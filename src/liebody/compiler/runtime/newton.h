/* Newton's method for r(x; z, t, h, y, u) = 0, where z is what has been solved before. Before this
   text: the settings TOLERANCE and ITERATIONS. */

/* LOOSE: relative corrections that may be the last, if they no longer shrink; ROUND_OFF: those for
   which a new Jacobian is then not worth making. */
#if SINGLE
#define LOOSE 1e-4f
#define ROUND_OFF 1e-5f
#define SMALLEST_PIVOT 1e-6f
#else
#define LOOSE 1e-8
#define ROUND_OFF 1e-13
#define SMALLEST_PIVOT 1e-14
#endif
#define SLOW (real)0.1       /* ratio of two corrections from which on the Jacobian is made again */
#define SMALL_PART (real)0.1 /* of a correction: below it is taken, and the Jacobian made again */
#define SMALLEST_PART (real)1e-6 /* of a correction: below it the member is lost */

typedef void Residual(const T *restrict x, const T *restrict z, const T *restrict t,
                      const T *restrict h, const T *restrict y, const T *restrict u, T *restrict r);
typedef void Both(const T *restrict x, const T *restrict z, const T *restrict t,
                  const T *restrict h, const T *restrict y, const T *restrict u, T *restrict r,
                  T *restrict values);
/* Of a Jacobian: its entries, and the bounds of stepping/banded.py; entry (i, j) is kept at
   stride * i + j from `origin` on, in a memory of `size`. */
typedef struct {
    int64_t n, entries, stride, origin, size;
    const int *place, *start, *stop, *rows, *columns;
} Shape;

/* Exchange row k and, in each lane, its own row `row`. */
INLINE void swap_rows(T *a, int64_t k, I row, int64_t stride, int64_t count) {
    for (int lane = 0; lane < LANES; lane++) {
        int64_t other = (int64_t)LANE(row);
        if (other == k) continue;
        for (int64_t j = 0; j < count; j++) {
            real kept = LANE(a[k * stride + j]);
            LANE(a[k * stride + j]) = LANE(a[other * stride + j]);
            LANE(a[other * stride + j]) = kept;
        }
    }
}

/* L U = diag(scale) A with rows exchanged, in the place of A, with the reciprocals of U's
   diagonal; rows are scaled to largest entries of 1, pivots chosen in each lane. Returns the lanes
   whose matrix is singular to round-off. */
INLINE I factor(const Shape *shape, T *restrict A, T *restrict scale, I *restrict pivot) {
    const int64_t n = shape->n, stride = shape->stride;
    I singular = MASK(splat(0) != splat(0));
    for (int64_t i = 0; i < n; i++) {
        T largest = splat(0);
        for (int64_t j = shape->start[i]; j < shape->stop[i]; j++)
            largest = maximum(absolute(A[i * stride + j]), largest);
        scale[i] = 1 / largest;
        for (int64_t j = shape->start[i]; j < shape->stop[i]; j++) A[i * stride + j] *= scale[i];
    }
    for (int64_t k = 0; k < n; k++) {
        const int64_t rows = shape->rows[k], columns = shape->columns[k];
        T best = absolute(A[k * stride + k]);
        I row = bits(splat(0)) + (whole)k;
        for (int64_t i = k + 1; i < rows; i++) {
            T candidate = absolute(A[i * stride + k]);
            I better = MASK(candidate > best);
            best = where(better, candidate, best);
            row = (better & (whole)i) | (~better & row);
        }
        singular |= ~MASK(best > SMALLEST_PIVOT);
        pivot[k] = row;
        if (any(MASK(row != (whole)k))) swap_rows(A + k, k, row, stride, columns - k);
        T reciprocal = A[k * stride + k] = 1 / A[k * stride + k];
        for (int64_t i = k + 1; i < rows; i++) {
            T multiple = A[i * stride + k] *= reciprocal;
            if (!any(MASK(multiple != 0))) continue;
            for (int64_t j = k + 1; j < columns; j++)
                A[i * stride + j] -= multiple * A[k * stride + j];
        }
    }
    return singular;
}

/* b becomes A^-1 b, from the result of `factor`. */
INLINE void substitute(const Shape *shape, const T *restrict A, const T *restrict scale,
                       const I *restrict pivot, T *restrict b) {
    const int64_t n = shape->n, stride = shape->stride;
    for (int64_t i = 0; i < n; i++) b[i] *= scale[i];
    for (int64_t k = 0; k < n; k++) {
        if (any(MASK(pivot[k] != (whole)k))) swap_rows(b, k, pivot[k], 1, 1);
        for (int64_t i = k + 1; i < shape->rows[k]; i++) b[i] -= A[i * stride + k] * b[k];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < shape->columns[i]; j++) b[i] -= A[i * stride + j] * b[j];
        b[i] *= A[i * stride + i];
    }
}

/* x with residual(x) = 0, from a first guess in x, by Newton's method with the norm max
   |correction_i| / (1 + |x_i|). It goes on to round-off: until what the next correction would be,
   judged by the ratio of the last two, is below TOLERANCE of each unknown, or corrections no longer
   shrink. The Jacobian is kept as long as convergence is fast. Corrections are halved until the
   next one, with the same Jacobian, is shorter (the natural monotonicity test of Deuflhard, "Newton
   Methods for Nonlinear Problems", section 3.3). Lanes that were lost before stay as they are;
   those that are lost here get the reason. A linear system takes one correction, and needs no
   `residual`. */
INLINE void newton(const Shape *shape, int linear, Residual *residual, Both *both, T *restrict x,
                   const T *z, const T *t, const T *h, const T *y, const T *u, T *work, I *pivot,
                   I *lost) {
    const int64_t n = shape->n;
    T *D = work + shape->origin, *r = work + shape->size, *scale = r + n;
    T *base = scale + n, *direction = base + n, *values = direction + n;
    T last_norm = splat(INFINITY), part = splat(1);
    I active = MASK(*lost == 0);
    int fresh = 1;
    for (int k = 0; k < (linear ? 1 : ITERATIONS) && any(active); k++) {
        const int fresh_now = fresh;
        /* Evaluate, with a new Jacobian if convergence was slow, and factor it. Lanes with a
           residual or Jacobian that is not finite, or a singular one, end here. */
        if (fresh) {
            both(x, z, t, h, y, u, r, values);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = shape->start[i]; j < shape->stop[i]; j++)
                    D[i * shape->stride + j] = splat(0);
            for (int64_t i = 0; i < shape->entries; i++) D[shape->place[i]] = values[i];
            T sum = unless_finite(values, shape->entries, unless_finite(r, n, splat(0)));
            I bad = active & ~MASK(sum == 0);
            *lost |= bad & NOT_FINITE;
            active &= ~bad;
            I singular = active & factor(shape, D, scale, pivot);
            *lost |= singular & SINGULAR;
            active &= ~singular;
        } else residual(x, z, t, h, y, u, r);
        substitute(shape, D, scale, pivot, r);
        /* Measure the correction in r, relative to the unknowns. */
        T largest = splat(0), norm = splat(0);
        for (int64_t i = 0; i < n; i++) {
            T size = absolute(x[i]);
            largest = maximum(size, largest);
            norm = maximum(absolute(r[i]) / (1 + size), norm);
        }
        /* Decide in each lane: is this the last correction, or is it too long (`worse`)? Both
           need a ratio of two corrections, so not at the first one. */
        T rate = norm / last_norm;
        I done = MASK(norm == 0), worse = bits(splat(0));
        if (linear) done = ~bits(splat(0));
        if (k) {
            I sharp = MASK(rate < 0.5);
            for (int64_t i = 0; i < n; i++)
                sharp &=
                    MASK(rate * absolute(r[i]) <= TOLERANCE * (absolute(x[i]) + largest * 0x1p-10));
            done |= sharp | (MASK(rate > 0.25) & MASK(norm <= (fresh_now ? LOOSE : ROUND_OFF)));
            I shorter = MASK(norm <= (1 - (real)0.25 * part) * last_norm) | MASK(norm <= LOOSE);
            /* Beyond a kink: go on from there. */
            I enough = MASK(part < SMALL_PART) & MASK(norm < INFINITY);
            if (!fresh_now) worse = active & ~(done | shorter | enough);
        }
        /* Correct, or go back and take half of the last correction. */
        part = where(worse, (real)0.5 * part, splat(1));
        I stuck = worse & MASK(part < SMALLEST_PART);
        *lost |= stuck & NOT_FINITE;
        active &= ~stuck;
        for (int64_t i = 0; i < n; i++) {
            base[i] = where(worse, base[i], x[i]);
            direction[i] = where(worse, direction[i], r[i]);
            x[i] = where(active, base[i] - part * direction[i], x[i]);
        }
        last_norm = where(worse, last_norm, norm);
        active &= ~done;
        fresh = k && !any(active & worse) && any(active & MASK(rate > SLOW));
    }
    *lost |= active & NOT_CONVERGED;
}
