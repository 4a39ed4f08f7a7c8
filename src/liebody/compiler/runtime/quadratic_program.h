/* Convex quadratic programs by a primal-dual interior point method, a problem in each lane:

       minimize    x' H x / 2 + g' x + sum of w_i s_i^2 / 2
       subject to  A x + s = b,    l <= C x + s <= u

   A row with an infinite weight w has no slack s; one with the weight 0 is switched off.
   compiler/programs/quadratic_program.py has the same algorithm in NumPy, with its derivation.

   Before this text: the text of lanes.h; N unknowns, EQUALITIES, INEQUALITIES, ITERATIONS at most,
   TOLERANCE, the settings of the Python module, and first_a, stop_a, first_c, stop_c, the ranges of
   columns in which rows of A and C are not zero, and dense_a, dense_c, the numbers of rows with
   DENSE_A, DENSE_C long ranges. */

typedef struct {
    T *H, *g, *A, *b, *weight_a, *C, *l, *u, *weight_c, *scale;
} Problem;
typedef struct {
    T *x, *y, *z;         /* unknowns, multipliers of A and of C */
    T *slack_a, *slack_c; /* b - A x; how far C x is outside of l and u */
    T *measures;          /* iterations, errors of stationarity and of rows, gap, solved */
} Solution;

/* Vectors and rows of matrices have STRIDE entries, with zeros behind the N unknowns, so that loops
   over chunks V of PER entries need no rest: one lane takes the entries as lanes. Products of
   matrices are made in blocks of BLOCK rows and SIDE chunks, which stay in registers. */
#if LANES == 1
typedef W V;
enum { PER = WIDE };
INLINE V all(T x) { return wide(x); }
#else
typedef T V;
enum { PER = 1 };
INLINE V all(T x) { return x; }
#endif
enum {
    BLOCK = 4,
    UNIT = PER > BLOCK ? PER : BLOCK,
    STRIDE = (N + UNIT - 1) / UNIT * UNIT,
    CHUNKS = STRIDE / PER,
    SIDE = CHUNKS % 4 == 0 ? 4
    : CHUNKS % 3 == 0      ? 3
    : CHUNKS % 2 == 0      ? 2
                           : 1,
    ROWS_A = EQUALITIES ? EQUALITIES : 1,
    ROWS_C = INEQUALITIES ? INEQUALITIES : 1,
    QP_MEMORY = (3 * STRIDE + 7 + ROWS_A + ROWS_C) * STRIDE + 8 * ROWS_A + 32 * ROWS_C
};
INLINE V chunk(const T *x) {
    V v;
    memcpy(&v, x, sizeof v);
    return v;
}
INLINE void put(T *x, V v) { memcpy(x, &v, sizeof v); }
INLINE int down(int j) { return j / PER * PER; }

/* y += m x, and the product of x and y, over the chunks that hold entries first <= j < stop. */
INLINE void add_multiple(T *y, const T *x, T m, int first, int stop) {
    const V factor = all(m);
    for (int j = down(first); j < stop; j += PER) put(y + j, chunk(y + j) + factor * chunk(x + j));
}
INLINE T dot(const T *x, const T *y, int first, int stop) {
    V even = all(splat(0)), odd = even;
    int j = down(first);
    for (; j + PER < stop; j += 2 * PER) {
        even += chunk(x + j) * chunk(y + j);
        odd += chunk(x + j + PER) * chunk(y + j + PER);
    }
    if (j < stop) even += chunk(x + j) * chunk(y + j);
    even += odd;
#if LANES == 1
    T total = 0;
    for (int l = 0; l < WIDE; l++) total += even[l];
    return total;
#else
    return even;
#endif
}

INLINE T largest_of(const T *x, int n, T largest) {
    for (int i = 0; i < n; i++) largest = maximum(absolute(x[i]), largest);
    return largest;
}

/* The block of K at row p and column c += sum of weight_i rows_i[p ...] rows_i[c ...], over the
   rows with the numbers in `list`, or over the first `count` rows. */
INLINE void add_block(T *K, const T *rows, const T *weight, const int *list, int count, int p,
                      int c) {
    V sums[BLOCK][SIDE];
    UNROLL for (int i = 0; i < BLOCK; i++) UNROLL
        for (int j = 0; j < SIDE; j++) sums[i][j] = chunk(K + (p + i) * STRIDE + c + j * PER);
    for (int k = 0; k < count; k++) {
        const int number = list ? list[k] : k;
        const T *row = rows + number * STRIDE;
        const T factor = weight ? weight[number] : splat(-1);
        V side[SIDE];
        UNROLL for (int j = 0; j < SIDE; j++)
            side[j] = chunk(row + c + j * PER);
        UNROLL for (int i = 0; i < BLOCK; i++) {
            const V m = all(factor * row[p + i]);
            UNROLL for (int j = 0; j < SIDE; j++)
                sums[i][j] += m * side[j];
        }
    }
    UNROLL for (int i = 0; i < BLOCK; i++) UNROLL
        for (int j = 0; j < SIDE; j++) put(K + (p + i) * STRIDE + c + j * PER, sums[i][j]);
}

/* The upper triangle of K += rows' diag(weight) rows: by blocks for the `many` rows in `dense`, and
   for the others, which have few entries, row by row. */
static void add_squares(T *restrict K, const T *rows, const T *weight, int count, const int *first,
                        const int *stop, const int *dense, int many) {
    if (many)
        for (int p = 0; p < STRIDE; p += BLOCK)
            for (int c = p / (SIDE * PER) * (SIDE * PER); c < STRIDE; c += SIDE * PER)
                add_block(K, rows, weight, dense, many, p, c);
    for (int i = 0, k = 0; i < count; i++) {
        const T *row = rows + i * STRIDE;
        if (k < many && dense[k] == i) k++;
        else
            for (int p = first[i]; p < stop[i]; p++)
                add_multiple(K + p * STRIDE, row, weight[i] * row[p], p, stop[i]);
    }
}

/* U' U = K, in the upper triangle of K, with zeros below and on the diagonal, whose reciprocals are
   in `inverse`. A pivot that is round-off of its diagonal entry is raised to that; an unknown that
   nothing asks for stays. */
static void cholesky(T *restrict K, T *restrict inverse, T *restrict least) {
    for (int k = 0; k < N; k++) least[k] = SMALLEST_PIVOT * K[k * STRIDE + k];
    for (int p = 0; p < N; p += BLOCK) {
        /* less the products of the rows above, then one row after the other */
        for (int c = p / (SIDE * PER) * (SIDE * PER); p && c < STRIDE; c += SIDE * PER)
            add_block(K, K, 0, 0, p, p, c);
        for (int k = p; k < p + BLOCK && k < N; k++) {
            T *row = K + k * STRIDE;
            const T pivot = maximum(row[k], least[k]);
            const I used = MASK(pivot > 0);
            inverse[k] = where(used, 1 / square_root(where(used, pivot, splat(1))), splat(0));
            for (int j = 0; j <= k; j++) row[j] = splat(0);
            for (int j = down(k); j < STRIDE; j += PER)
                put(row + j, chunk(row + j) * all(inverse[k]));
            for (int i = k + 1; i < p + BLOCK && i < N; i++)
                add_multiple(K + i * STRIDE, row, -row[i], i, STRIDE);
        }
    }
}

/* b becomes K^-1 b. */
static void solve_with(const T *restrict K, const T *restrict inverse, T *restrict b) {
    for (int i = 0; i < N; i++) {
        b[i] *= inverse[i];
        add_multiple(b, K + i * STRIDE, -b[i], i, STRIDE);
    }
    for (int i = N - 1; i >= 0; i--) b[i] = (b[i] - dot(K + i * STRIDE, b, i, STRIDE)) * inverse[i];
}

/* y += rows' m; y -= rows' m, with the sizes of its terms; and y = rows x. */
INLINE void add_transposed(T *y, const T *rows, const T *m, int count, const int *first,
                           const int *stop) {
    for (int i = 0; i < count; i++) add_multiple(y, rows + i * STRIDE, m[i], first[i], stop[i]);
}
INLINE void pull(T *y, T *terms, const T *rows, const T *m, int count, const int *first,
                 const int *stop) {
    for (int i = 0; i < count; i++)
        for (int j = first[i]; j < stop[i]; j++) {
            const T part = rows[i * STRIDE + j] * m[i];
            y[j] -= part;
            terms[j] += absolute(part);
        }
}
INLINE void multiply(T *y, const T *rows, const T *x, int count, const int *first,
                     const int *stop) {
    for (int i = 0; i < count; i++) y[i] = dot(rows + i * STRIDE, x, first[i], stop[i]);
}

INLINE T larger(T a, T b) { return where(MASK(a > b), a, b); }

/* Rows are copied, and scaled to largest entries of 1; `size` is what they are divided by. */
INLINE void scale_rows(T *restrict rows, const T *given, T *size, T *weight, int count,
                       const int *first, const int *stop) {
    for (int i = 0; i < count; i++) {
        const T *from = given + i * N;
        T *row = rows + i * STRIDE;
        const T largest = largest_of(from + first[i], stop[i] - first[i], splat(0));
        size[i] = where(MASK(largest > 0), largest, splat(1));
        const T inverse = 1 / size[i];
        for (int j = 0; j < STRIDE; j++) row[j] = splat(0);
        for (int j = first[i]; j < stop[i]; j++) row[j] = from[j] * inverse;
        weight[i] *= size[i] * size[i];
    }
}

/* The softness 1/w of a row, 0 without slack; and what the factors use in its place, so that the
   matrix stays within the reach of the digits: the rest is made up for by the next iterations. */
INLINE void softness(const T *weight, T *soft, T *used, int count, T scale) {
    for (int i = 0; i < count; i++) {
        const I on = MASK(weight[i] > 0), hard = MASK(weight[i] > LARGEST_WEIGHT);
        soft[i] = where(on & ~hard, 1 / where(on, weight[i], splat(1)), splat(0));
        used[i] = maximum(soft[i], 1 / (scale * where(hard, splat(HARD), splat(SOFT))));
    }
}

/* Over one lane, loops over rows are worth vectors of their own. */
#if LANES == 1 && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("tree-loop-vectorize", "vect-cost-model=dynamic")
#endif
static void quadratic_program(const Problem *p, const Solution *s, T *restrict memory) {
    T *next = memory;
#define TAKE(name, size) \
    T *restrict name = next; \
    next += size;
    TAKE(H, STRIDE * STRIDE)
    TAKE(K0, STRIDE * STRIDE)
    TAKE(K, STRIDE * STRIDE)
    TAKE(A, ROWS_A * STRIDE)
    TAKE(C, ROWS_C * STRIDE)
    TAKE(rd, STRIDE)
    TAKE(hx, STRIDE)
    TAKE(dx, STRIDE)
    TAKE(inverse, STRIDE)
    TAKE(least, STRIDE)
    TAKE(x, STRIDE)
    TAKE(terms, STRIDE)
    TAKE(size_a, ROWS_A)
    TAKE(soft_a, ROWS_A)
    TAKE(used_a, ROWS_A)
    TAKE(W, ROWS_A)
    TAKE(y, ROWS_A)
    TAKE(rp, ROWS_A)
    TAKE(ax, ROWS_A)
    TAKE(dy, ROWS_A)
    TAKE(size_c, ROWS_C)
    TAKE(soft_c, ROWS_C)
    TAKE(used_c, ROWS_C)
    TAKE(weight, ROWS_C)
    TAKE(shrink, ROWS_C)
    TAKE(z, ROWS_C)
    TAKE(R, ROWS_C)
    TAKE(cx, ROWS_C)
    TAKE(rho, ROWS_C)
    TAKE(l, ROWS_C)
    TAKE(u, ROWS_C)
    TAKE(is_l, ROWS_C)
    TAKE(is_u, ROWS_C)
    TAKE(t_l, ROWS_C)
    TAKE(t_u, ROWS_C)
    TAKE(z_l, ROWS_C)
    TAKE(z_u, ROWS_C)
    TAKE(r_l, ROWS_C)
    TAKE(r_u, ROWS_C)
    TAKE(dt_l, ROWS_C)
    TAKE(dt_u, ROWS_C)
    TAKE(dz_l, ROWS_C)
    TAKE(dz_u, ROWS_C)
    TAKE(c_l, ROWS_C)
    TAKE(c_u, ROWS_C)
    TAKE(o_l, ROWS_C)
    TAKE(o_u, ROWS_C)
    TAKE(q_l, ROWS_C)
    TAKE(q_u, ROWS_C)
#undef TAKE
    const T scale = p->scale[0];
    /* 1. Scale rows; rows that are off, and bounds that are infinite, are masked. Bounds that meet
       are moved apart, because the method needs an interior. */
    scale_rows(A, p->A, size_a, p->weight_a, EQUALITIES, first_a, stop_a);
    scale_rows(C, p->C, size_c, p->weight_c, INEQUALITIES, first_c, stop_c);
    softness(p->weight_a, soft_a, used_a, EQUALITIES, scale);
    softness(p->weight_c, soft_c, used_c, INEQUALITIES, scale);
    for (int i = 0; i < EQUALITIES; i++) {
        p->b[i] /= size_a[i];
        W[i] = where(MASK(p->weight_a[i] > 0), 1 / used_a[i], splat(0));
    }
    T count = splat(0);
    for (int i = 0; i < INEQUALITIES; i++) {
        const I on = MASK(p->weight_c[i] > 0);
        const I lower = on & MASK(p->l[i] > -UNBOUNDED), upper = on & MASK(p->u[i] < UNBOUNDED);
        is_l[i] = where(lower, splat(1), splat(0)), is_u[i] = where(upper, splat(1), splat(0));
        l[i] = where(lower, p->l[i] / size_c[i], splat(0));
        u[i] = where(upper, p->u[i] / size_c[i], splat(0));
        const T width = APART * (1 + absolute(l[i]) + absolute(u[i]));
        const T gap = maximum(width - (u[i] - l[i]), splat(0)) * is_l[i] * is_u[i] * (real)0.5;
        l[i] -= gap, u[i] += gap;
        count += is_l[i] + is_u[i];
    }
    count = maximum(count, splat(1));
    /* K0 = H + A' W A is the part of the matrix that stays. */
    for (int i = 0; i < STRIDE; i++)
        for (int j = 0; j < STRIDE; j++)
            H[i * STRIDE + j] = i < N && j < N ? p->H[i * N + j] : splat(0);
    memcpy(K0, H, STRIDE * STRIDE * sizeof(T));
    add_squares(K0, A, W, EQUALITIES, first_a, stop_a, dense_a, DENSE_A);
    /* 2. Start: the minimum with weak springs in the place of inequalities. */
    for (int i = 0; i < INEQUALITIES; i++) {
        const T both = is_l[i] * is_u[i];
        T middle = is_l[i] * maximum(l[i], splat(0)) + is_u[i] * minimum(u[i], splat(0));
        middle = where(MASK(both > 0), (l[i] + u[i]) * (real)0.5, middle);
        weight[i] = where(MASK(is_l[i] + is_u[i] > 0), WEAK * scale, splat(0));
        rho[i] = weight[i] * middle;
    }
    for (int i = 0; i < EQUALITIES; i++) dy[i] = W[i] * p->b[i];
    memcpy(K, K0, STRIDE * STRIDE * sizeof(T));
    add_squares(K, C, weight, INEQUALITIES, first_c, stop_c, dense_c, DENSE_C);
    cholesky(K, inverse, least);
    for (int j = 0; j < STRIDE; j++) x[j] = j < N ? -p->g[j] : splat(0);
    add_transposed(x, A, dy, EQUALITIES, first_a, stop_a);
    add_transposed(x, C, rho, INEQUALITIES, first_c, stop_c);
    solve_with(K, inverse, x);
    multiply(ax, A, x, EQUALITIES, first_a, stop_a);
    multiply(cx, C, x, INEQUALITIES, first_c, stop_c);
    T violation = splat(0);
    for (int i = 0; i < EQUALITIES; i++)
        y[i] = where(MASK(soft_a[i] > 0) & MASK(soft_a[i] >= used_a[i]), W[i] * (p->b[i] - ax[i]),
                     splat(0));
    for (int i = 0; i < INEQUALITIES; i++) {
        violation = maximum(violation, is_l[i] * (l[i] - cx[i]));
        violation = maximum(violation, is_u[i] * (cx[i] - u[i]));
    }
    for (int j = 0; j < N; j++) rd[j] = p->g[j] + dot(H + j * STRIDE, x, 0, N);
    for (int i = 0; i < EQUALITIES; i++) dy[i] = -y[i];
    add_transposed(rd, A, dy, EQUALITIES, first_a, stop_a);
    const T far = maximum(violation, NEAR * largest_of(x, N, splat(1)));
    const T start = far * largest_of(rd, N, NEAR * scale * far);
    for (int i = 0; i < INEQUALITIES; i++) {
        t_l[i] = where(MASK(is_l[i] > 0), maximum(cx[i] - l[i], far), splat(1));
        t_u[i] = where(MASK(is_u[i] > 0), maximum(u[i] - cx[i], far), splat(1));
        z_l[i] = is_l[i] * start / t_l[i], z_u[i] = is_u[i] * start / t_u[i];
    }
    /* 3. Iterations. Lanes that have converged keep still; each lane keeps its best point. */
    T best = splat(INFINITY), iterations = splat(0);
    T best_dual = best, best_primal = best, best_gap = best;
    I active = MASK(splat(0) == 0);
    for (int k = 0;; k++) {
        /* Residuals of stationarity, of rows, and of products z t. */
        for (int i = 0; i < INEQUALITIES; i++) z[i] = z_l[i] - z_u[i];
        multiply(ax, A, x, EQUALITIES, first_a, stop_a);
        multiply(cx, C, x, INEQUALITIES, first_c, stop_c);
        /* Each component of the gradient is measured by the sizes of its own terms: next to hard
           rows that contradict each other it may be much smaller than others. */
        for (int j = 0; j < N; j++) {
            hx[j] = dot(H + j * STRIDE, x, 0, N);
            rd[j] = hx[j] + p->g[j];
            terms[j] = absolute(hx[j]) + absolute(p->g[j]);
        }
        pull(rd, terms, A, y, EQUALITIES, first_a, stop_a);
        pull(rd, terms, C, z, INEQUALITIES, first_c, stop_c);
        const T least_size = maximum(FAINT * largest_of(terms, N, splat(0)), splat(SMALLEST));
        T dual = splat(0);
        for (int j = 0; j < N; j++)
            dual = maximum(dual, absolute(rd[j]) / maximum(terms[j], least_size));
        T primal = splat(0), products = splat(0), curved = splat(0), sloped = splat(0);
        for (int j = 0; j < N; j++) curved += hx[j] * x[j], sloped += p->g[j] * x[j];
        T size_gap = absolute(curved) + absolute(sloped);
        for (int i = 0; i < EQUALITIES; i++) {
            rp[i] = where(MASK(W[i] > 0), p->b[i] - ax[i] - soft_a[i] * y[i], splat(0));
            primal = maximum(primal, absolute(rp[i]));
            size_gap += absolute(p->b[i] * y[i]);
        }
        for (int i = 0; i < INEQUALITIES; i++) {
            R[i] = cx[i] + soft_c[i] * z[i];
            r_l[i] = is_l[i] * (l[i] - R[i] + t_l[i]), r_u[i] = is_u[i] * (R[i] - u[i] + t_u[i]);
            primal = maximum(primal, maximum(absolute(r_l[i]), absolute(r_u[i])));
            products += z_l[i] * t_l[i] + z_u[i] * t_u[i];
            size_gap += absolute(l[i] * z_l[i]) + absolute(u[i] * z_u[i]);
        }
        size_gap = maximum(size_gap, scale);
        const T rows = primal / largest_of(x, N, splat(1)), gap = products / size_gap;
        const T error = maximum(maximum(dual, rows), gap);
        /* Keep the best point; stop lanes that are done, or not finite. */
        const I better = active & MASK(error < best);
        best = where(better, error, best);
        best_dual = where(better, dual, best_dual), best_primal = where(better, rows, best_primal);
        best_gap = where(better, gap, best_gap);
        iterations = where(active, splat((real)k), iterations);
        for (int j = 0; j < N; j++) s->x[j] = where(better, x[j], k ? s->x[j] : splat(0));
        for (int i = 0; i < EQUALITIES; i++) s->y[i] = where(better, y[i], k ? s->y[i] : splat(0));
        for (int i = 0; i < INEQUALITIES; i++)
            s->z[i] = where(better, z[i], k ? s->z[i] : splat(0));
        active &= MASK(error > TOLERANCE) & MASK(error < INFINITY);
        active &= MASK(error <= WORSE * maximum(best, splat(TOLERANCE)));
        if (k == ITERATIONS || !any(active)) break;
        /* The matrix of this iteration, and its factors. */
        for (int i = 0; i < INEQUALITIES; i++) {
            o_l[i] = is_l[i] / t_l[i], o_u[i] = is_u[i] / t_u[i];
            q_l[i] = is_l[i] / where(MASK(z_l[i] > 0), z_l[i], splat(1));
            q_u[i] = is_u[i] / where(MASK(z_u[i] > 0), z_u[i], splat(1));
            const T D = z_l[i] * o_l[i] + z_u[i] * o_u[i];
            shrink[i] = 1 / (1 + used_c[i] * D);
            weight[i] = D * shrink[i];
            c_l[i] = -z_l[i] * t_l[i], c_u[i] = -z_u[i] * t_u[i];
        }
        memcpy(K, K0, STRIDE * STRIDE * sizeof(T));
        add_squares(K, C, weight, INEQUALITIES, first_c, stop_c, dense_c, DENSE_C);
        cholesky(K, inverse, least);
        /* Predictor, then with the centering that it suggests the corrector (Mehrotra, 1992). */
        T length = splat(1);
        for (int corrector = 0; corrector < 2; corrector++) {
            for (int i = 0; i < EQUALITIES; i++) dy[i] = W[i] * rp[i];
            for (int i = 0; i < INEQUALITIES; i++) {
                rho[i] = (c_l[i] + z_l[i] * r_l[i]) * o_l[i];
                rho[i] = (rho[i] - (c_u[i] + z_u[i] * r_u[i]) * o_u[i]) * shrink[i];
            }
            for (int j = 0; j < STRIDE; j++) dx[j] = j < N ? -rd[j] : splat(0);
            add_transposed(dx, A, dy, EQUALITIES, first_a, stop_a);
            add_transposed(dx, C, rho, INEQUALITIES, first_c, stop_c);
            solve_with(K, inverse, dx);
            multiply(cx, C, dx, INEQUALITIES, first_c, stop_c);
            T most = splat(0); /* the reciprocal of the longest step */
            for (int i = 0; i < INEQUALITIES; i++) {
                const T dz = rho[i] - weight[i] * cx[i], dR = cx[i] + used_c[i] * dz;
                dt_l[i] = is_l[i] * (dR - r_l[i]), dt_u[i] = is_u[i] * (-dR - r_u[i]);
                dz_l[i] = (c_l[i] - z_l[i] * dt_l[i]) * o_l[i];
                dz_u[i] = (c_u[i] - z_u[i] * dt_u[i]) * o_u[i];
                most = larger(most, larger(-dt_l[i] * o_l[i], -dt_u[i] * o_u[i]));
                most = larger(most, larger(-dz_l[i] * q_l[i], -dz_u[i] * q_u[i]));
            }
            length = minimum(splat(1), (corrector ? SHORTER : 1) / maximum(most, splat(SMALLEST)));
            if (corrector) break;
            T after = splat(0);
            for (int i = 0; i < INEQUALITIES; i++) {
                after += (z_l[i] + length * dz_l[i]) * (t_l[i] + length * dt_l[i]) * is_l[i];
                after += (z_u[i] + length * dz_u[i]) * (t_u[i] + length * dt_u[i]) * is_u[i];
            }
            const T ratio = after / maximum(products, splat(SMALLEST));
            const T centre = maximum(ratio * ratio * ratio * products, FLOOR * size_gap) / count;
            for (int i = 0; i < INEQUALITIES; i++) {
                c_l[i] = is_l[i] * (c_l[i] + centre - dz_l[i] * dt_l[i]);
                c_u[i] = is_u[i] * (c_u[i] + centre - dz_u[i] * dt_u[i]);
            }
        }
        multiply(ax, A, dx, EQUALITIES, first_a, stop_a);
        for (int j = 0; j < N; j++) x[j] = where(active, x[j] + length * dx[j], x[j]);
        for (int i = 0; i < EQUALITIES; i++)
            y[i] = where(active, y[i] + length * W[i] * (rp[i] - ax[i]), y[i]);
        for (int i = 0; i < INEQUALITIES; i++) {
            t_l[i] = where(active, t_l[i] + length * dt_l[i], t_l[i]);
            t_u[i] = where(active, t_u[i] + length * dt_u[i], t_u[i]);
            z_l[i] = where(active, z_l[i] + length * dz_l[i], z_l[i]);
            z_u[i] = where(active, z_u[i] + length * dz_u[i], z_u[i]);
        }
    }
    /* 4. Results in the units of the rows that came in. */
    memcpy(x, s->x, N * sizeof(T));
    multiply(ax, A, x, EQUALITIES, first_a, stop_a);
    multiply(cx, C, x, INEQUALITIES, first_c, stop_c);
    for (int i = 0; i < EQUALITIES; i++) {
        s->slack_a[i] = where(MASK(W[i] > 0), (p->b[i] - ax[i]) * size_a[i], splat(0));
        s->y[i] /= size_a[i];
    }
    for (int i = 0; i < INEQUALITIES; i++) {
        const T below = maximum(is_l[i] * (l[i] - cx[i]), splat(0));
        const T above = maximum(is_u[i] * (cx[i] - u[i]), splat(0));
        s->slack_c[i] = (below - above) * size_c[i];
        s->z[i] /= size_c[i];
    }
    const T measures[] = {iterations, best_dual, best_primal, best_gap,
                          where(MASK(best <= TOLERANCE), splat(1), splat(0))};
    memcpy(s->measures, measures, sizeof measures);
}
#if LANES == 1 && defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
