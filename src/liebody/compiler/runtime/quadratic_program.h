/* Convex quadratic programs by a primal-dual interior point method, a problem in each lane:

       minimize    x' H x / 2 + g' x + sum of w_i s_i^2 / 2
       subject to  A x + s = b,    l <= C x + s <= u

   A row with an infinite weight w has no slack s; one with the weight 0 is switched off.
   compiler/programs/quadratic_program.py has the same algorithm in NumPy, with its derivation.

   Before this text: the text of quadratic_rows.h, ITERATIONS at most, TOLERANCE, and the settings
   of the Python module. The first LOWER rows of C may have lower, the first UPPER upper bounds. */

enum {
    QP_MEMORY = (3 * STRIDE + 11 + 2 * ROWS + ROWS_F) * STRIDE + ROWS + ROWS_F + 9 * ROWS_A +
    19 * PADDED + 5 * (ROUNDED(LOWER, PER) + ROUNDED(UPPER, PER)) + ENTRIES
};
/* U' D^-1 U = K with D the diagonal of U: U is in the upper triangle of K, what is below it means
   nothing, and `inverse` is D^-1. A pivot that is round-off of its diagonal entry is raised to
   that; an unknown that nothing asks for stays. */
static void factorise(T *restrict K, T *restrict inverse, T *restrict minus, T *restrict least) {
    for (int k = 0; k < N; k++) least[k] = SMALLEST_PIVOT * K[k * STRIDE + k];
    for (int p = 0; p < N; p += BLOCK) {
        /* less the products of the rows above, then one row after the other */
        for (int c = p / (SIDE * PER) * (SIDE * PER); p && c < STRIDE; c += SIDE * PER)
            add_block(K, K, K, minus, p, p, c);
        for (int k = p; k < p + BLOCK && k < N; k++) {
            T *row = K + k * STRIDE;
            const T pivot = maximum(row[k], least[k]);
            const I used = MASK(pivot > 0);
            inverse[k] = where(used, 1 / where(used, pivot, splat(1)), splat(0));
            minus[k] = -inverse[k];
            for (int i = k + 1; i < p + BLOCK && i < N; i++) {
                const V factor = all(minus[k] * row[i]);
                T *next = K + i * STRIDE;
                for (int j = down(i); j < STRIDE; j += PER)
                    put(next + j, chunk(next + j) + factor * chunk(row + j));
            }
        }
    }
}

/* y += C' c. */
static void add_transposed(const Rows *rows, T *restrict y, const T *restrict c) {
    for (int i = 0; i < DENSE_C; i++) rows->m[i] = c[dense_c[i]];
    combine(y, rows->E + HELD * STRIDE, rows->m, DENSE_C, STRIDE, SIDE);
    for (int i = 0; i < SPARSE_C; i++)
        for (int e = sparse_start[i]; e < sparse_start[i + 1]; e++)
            y[sparse_column[e]] += rows->entries[e] * c[sparse_c[i]];
}

/* The upper triangle of K is that of K0 + C' diag(weight) C. */
static void add_curvature(const Rows *rows, T *restrict K, const T *restrict K0,
                          const T *restrict weight) {
    for (int i = 0; i < DENSE_C; i++) rows->m[i] = weight[dense_c[i]];
    add_squares(K, K0, rows->E + HELD * STRIDE, rows->m, DENSE_C);
    for (int i = 0; i < SPARSE_C; i++)
        for (int e = sparse_start[i]; e < sparse_start[i + 1]; e++) {
            const T m = rows->entries[e] * weight[sparse_c[i]];
            T *row = K + sparse_column[e] * STRIDE;
            for (int d = e; d < sparse_start[i + 1]; d++)
                row[sparse_column[d]] += m * rows->entries[d];
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

/* The lower bounds of C x, with the sign 1, or the upper ones, with the sign -1: distances t from
   them are sign (C x - bound), and z are their multipliers. */
typedef struct {
    int count; /* of rows that may have such a bound */
    real sign;
    T *on;            /* 1 where there is one, otherwise 0 */
    T *bound, *t, *z; /* where there is none, z is 0 and t is 1 */
    T *r, *per_t;     /* residuals of t, and reciprocals */
    T *c;             /* the predictor's dz dt, then by how much products z t should change */
    T *dt, *dz;
} Side;

/* A step of t and z; all += sign z. */
INLINE void move(const Side *s, V by, T *restrict all_z) {
    EACH_CHUNK(s->count) {
        const V z = chunk(s->z + i) + by * chunk(s->dz + i);
        put(s->t + i, chunk(s->t + i) + by * chunk(s->dt + i));
        put(s->z + i, z);
        put(all_z + i, chunk(all_z + i) + s->sign * z);
    }
}
/* Residuals of distances; the largest is `primal`. Sums of products z t, and of |bound z|. Then
   what the matrix and the predictor need, which wants products to become 0: curvature += z/t, and
   what bounds ask of multipliers. */
INLINE void prepare(const Side *s, const T *R, T *restrict curvature, T *restrict rho, V *primal,
                    V *products, V *sizes) {
    EACH_CHUNK(s->count) {
        const V z = chunk(s->z + i), t = chunk(s->t + i), bound = chunk(s->bound + i);
        const V on = chunk(s->on + i), r = on * (s->sign * (bound - chunk(R + i)) + t);
        const V per_t = on / t, bend = z * per_t;
        put(s->r + i, r), put(s->per_t + i, per_t);
        *primal = largest(size_of(r), *primal);
        *products += z * t;
        *sizes += size_of(bound * z);
        put(curvature + i, chunk(curvature + i) + bend);
        put(rho + i, chunk(rho + i) + s->sign * bend * (r - t));
    }
}
/* The predictor's step while rows move by dR: its dt dz, and their sum; `most` is the reciprocal of
   the longest step. Because z dt + t dz = -z t, the share -dz/z is 1 + dt/t. */
INLINE void predict(const Side *s, const T *dR, V *most, V *sum) {
    V most_t = *most, most_z = *most;
    EACH_CHUNK(s->count) {
        const V on = chunk(s->on + i);
        const V dt = on * (s->sign * chunk(dR + i) - chunk(s->r + i));
        const V share = dt * chunk(s->per_t + i);
        const V product = -chunk(s->z + i) * (on + share) * dt;
        put(s->c + i, product);
        *sum += product;
        most_t = larger(-share, most_t), most_z = larger(on + share, most_z);
    }
    *most = larger(most_t, most_z);
}
/* Products should become `centre`, with Mehrotra's term of second order; what bounds then ask of
   multipliers. */
INLINE void correct(const Side *s, T centre, T *restrict rho) {
    const V aim = all(centre);
    EACH_CHUNK(s->count) {
        const V z = chunk(s->z + i);
        const V c = chunk(s->on + i) * (aim - z * chunk(s->t + i) - chunk(s->c + i));
        const V force = (c + z * chunk(s->r + i)) * chunk(s->per_t + i);
        put(s->c + i, c);
        put(rho + i, chunk(rho + i) + s->sign * force);
    }
}
/* Steps of t and z while rows move by dR; `most` is the reciprocal of the longest step. */
INLINE void step(const Side *s, const T *dR, V *most) {
    V most_t = *most, most_z = *most;
    EACH_CHUNK(s->count) {
        const V per_t = chunk(s->per_t + i), z = chunk(s->z + i);
        const V dt = chunk(s->on + i) * (s->sign * chunk(dR + i) - chunk(s->r + i));
        const V dz = (chunk(s->c + i) - z * dt) * per_t;
        put(s->dt + i, dt), put(s->dz + i, dz);
        most_t = larger(-dt * per_t, most_t);
        most_z = larger(-dz / pick(ABOVE(z, all(splat(0))), z, all(splat(1))), most_z);
    }
    *most = larger(most_t, most_z);
}
INLINE void advance(T *x, const T *dx, V by, int count) {
    EACH_CHUNK(count) put(x + i, chunk(x + i) + by * chunk(dx + i));
}
INLINE void keep(T *best, const T *x, I better, int count) {
#if LANES == 1
    if (better) memcpy(best, x, (size_t)count * sizeof(T));
#else
    for (int i = 0; i < count; i++) best[i] = where(better, x[i], best[i]);
#endif
}

static void quadratic_program(const Problem *p, const Solution *s, T *restrict memory) {
    T *next = memory;
#define TAKE(name, size) \
    T *restrict name = next; \
    next += size;
    TAKE(H, STRIDE * STRIDE)
    TAKE(K0, STRIDE * STRIDE)
    TAKE(K, STRIDE * STRIDE)
    T *const zeros = next; /* from here on */
    TAKE(E, ROWS * STRIDE)
    TAKE(F, ROWS_F * STRIDE)
    TAKE(columns, LANES == 1 ? ROWS * STRIDE : 0)
    TAKE(entries, ENTRIES)
    TAKE(m, ROWS + ROWS_F)
    TAKE(g, STRIDE)
    TAKE(rd, STRIDE)
    TAKE(hx, STRIDE)
    TAKE(dx, STRIDE)
    TAKE(rest, STRIDE)
    TAKE(inverse, STRIDE)
    TAKE(minus, STRIDE)
    TAKE(least, STRIDE)
    TAKE(x, STRIDE)
    TAKE(terms, STRIDE)
    TAKE(best_x, STRIDE)
    TAKE(size_a, ROWS_A)
    TAKE(soft_a, ROWS_A)
    TAKE(used_a, ROWS_A)
    TAKE(W, ROWS_A)
    TAKE(y, ROWS_A)
    TAKE(rp, ROWS_A)
    TAKE(ax, ROWS_A)
    TAKE(dy, ROWS_A)
    TAKE(best_y, ROWS_A)
    TAKE(size_c, PADDED)
    TAKE(soft_c, PADDED)
    TAKE(used_c, PADDED)
    TAKE(weight, PADDED)
    TAKE(shrink, PADDED)
    TAKE(z, PADDED)
    TAKE(R, PADDED)
    TAKE(cx, PADDED)
    TAKE(dR, PADDED)
    TAKE(rho, PADDED)
    TAKE(best_z, PADDED)
#define SIDE_OF(name, count, sign) \
    TAKE(name##_arrays, 4 * PADDED + 5 * ROUNDED(count, PER)) \
    const Side name = {count, \
                       sign, \
                       name##_arrays, \
                       name##_arrays + PADDED, \
                       name##_arrays + 2 * PADDED, \
                       name##_arrays + 3 * PADDED, \
                       name##_arrays + 4 * PADDED, \
                       name##_arrays + 4 * PADDED + ROUNDED(count, PER), \
                       name##_arrays + 4 * PADDED + 2 * ROUNDED(count, PER), \
                       name##_arrays + 4 * PADDED + 3 * ROUNDED(count, PER), \
                       name##_arrays + 4 * PADDED + 4 * ROUNDED(count, PER)};
    SIDE_OF(lower, LOWER, 1)
    SIDE_OF(upper, UPPER, -1)
#undef SIDE_OF
#undef TAKE
    memset(zeros, 0, (size_t)((char *)next - (char *)zeros));
    const Rows rows = {E, columns, entries, m};
    const T scale = p->scale[0];
    /* 1. Scale rows; rows that are off, and bounds that are infinite, are masked. Bounds that meet
       are moved apart, because the method needs an interior. */
    scale_rows(p, &rows, size_a, size_c);
    for (int i = 0; i < HELD; i++) p->weight_a[i] *= size_a[i] * size_a[i];
    for (int i = 0; i < INEQUALITIES; i++) p->weight_c[i] *= size_c[i] * size_c[i];
    softness(p->weight_a, soft_a, used_a, HELD, scale);
    softness(p->weight_c, soft_c, used_c, INEQUALITIES, scale);
    for (int i = 0; i < HELD; i++) {
        p->b[i] /= size_a[i];
        W[i] = where(MASK(p->weight_a[i] > 0), 1 / used_a[i], splat(0));
    }
    T count = splat(0);
    for (int i = 0; i < PADDED; i++) lower.t[i] = upper.t[i] = splat(1);
    for (int i = 0; i < INEQUALITIES; i++) {
        const I on = MASK(p->weight_c[i] > 0);
        const I below = on & MASK(p->l[i] > -UNBOUNDED), above = on & MASK(p->u[i] < UNBOUNDED);
        const T is_l = where(below, splat(1), splat(0)), is_u = where(above, splat(1), splat(0));
        const T l = where(below, p->l[i] / size_c[i], splat(0));
        const T u = where(above, p->u[i] / size_c[i], splat(0));
        const T width = APART * (1 + absolute(l) + absolute(u));
        const T gap = maximum(width - (u - l), splat(0)) * is_l * is_u * (real)0.5;
        lower.on[i] = is_l, lower.bound[i] = l - gap;
        upper.on[i] = is_u, upper.bound[i] = u + gap;
        count += is_l + is_u;
    }
    count = maximum(count, splat(1));
    fold(p, H, g, F, m, dy);
    /* K0 = H + A' W A is the part of the matrix that stays. */
    add_squares(K0, H, E, W, HELD);
    /* 2. Start: the minimum with weak springs in the place of inequalities. */
    for (int i = 0; i < INEQUALITIES; i++) {
        const T is_l = lower.on[i], is_u = upper.on[i], l = lower.bound[i], u = upper.bound[i];
        T middle = is_l * maximum(l, splat(0)) + is_u * minimum(u, splat(0));
        middle = where(MASK(is_l * is_u > 0), (l + u) * (real)0.5, middle);
        weight[i] = where(MASK(is_l + is_u > 0), WEAK * scale, splat(0));
        rho[i] = weight[i] * middle;
    }
    for (int i = 0; i < HELD; i++) dy[i] = W[i] * p->b[i];
    add_curvature(&rows, K, K0, weight);
    factorise(K, inverse, minus, least);
    for (int j = 0; j < N; j++) x[j] = -g[j];
    combine(x, E, dy, HELD, STRIDE, SIDE);
    add_transposed(&rows, x, rho);
    forward_with(K, inverse, x, 0);
    backward_with(K, inverse, x);
    multiply(&rows, x, ax, cx);
    T violation = splat(0);
    for (int i = 0; i < HELD; i++)
        y[i] = where(MASK(soft_a[i] > 0) & MASK(soft_a[i] >= used_a[i]), W[i] * (p->b[i] - ax[i]),
                     splat(0));
    for (int i = 0; i < INEQUALITIES; i++) {
        violation = maximum(violation, lower.on[i] * (lower.bound[i] - cx[i]));
        violation = maximum(violation, upper.on[i] * (cx[i] - upper.bound[i]));
    }
    memcpy(rd, g, STRIDE * sizeof(T));
    combine(rd, H, x, N, STRIDE, SIDE);
    for (int i = 0; i < HELD; i++) dy[i] = -y[i];
    combine(rd, E, dy, HELD, STRIDE, SIDE);
    const T far = maximum(violation, NEAR * largest_of(x, N, splat(1)));
    const T start = far * largest_of(rd, N, NEAR * scale * far);
    for (int i = 0; i < INEQUALITIES; i++) {
        const T is_l = lower.on[i], is_u = upper.on[i];
        lower.t[i] = where(MASK(is_l > 0), maximum(cx[i] - lower.bound[i], far), splat(1));
        upper.t[i] = where(MASK(is_u > 0), maximum(upper.bound[i] - cx[i], far), splat(1));
        lower.z[i] = is_l * start / lower.t[i], upper.z[i] = is_u * start / upper.t[i];
    }
    /* 3. Iterations. Lanes that have converged keep still; each lane keeps its best point. */
    T best = splat(INFINITY), iterations = splat(0);
    T best_dual = best, best_primal = best, best_gap = best;
    I active = MASK(splat(0) >= 0);
    V by = all(splat(0)); /* the length of the step before */
    for (int k = 0;; k++) {
        /* Residuals of stationarity, of rows, and of products z t. */
        memset(z, 0, PADDED * sizeof(T));
        move(&lower, by, z);
        move(&upper, by, z);
        multiply(&rows, x, ax, cx);
        memset(hx, 0, STRIDE * sizeof(T));
        combine(hx, H, x, N, STRIDE, SIDE);
        /* Each component of the gradient is measured by the sizes of its own terms: next to hard
           rows that contradict each other it may be much smaller than others. */
        V curved = all(splat(0)), sloped = curved, most_dual = curved, most_primal = curved;
        V sum_products = curved, sizes = curved;
        EACH_CHUNK(STRIDE) {
            const V bent = chunk(hx + i), slope = chunk(g + i), at = chunk(x + i);
            put(rd + i, bent + slope);
            put(terms + i, size_of(bent) + size_of(slope));
            curved += bent * at, sloped += slope * at;
        }
        pull(&rows, rd, terms, y, z);
        const V faint = all(maximum(FAINT * largest_of(terms, N, splat(0)), splat(SMALLEST)));
        EACH_CHUNK(STRIDE)
        most_dual = largest(size_of(chunk(rd + i)) / largest(chunk(terms + i), faint), most_dual);
        T primal = splat(0), size_gap = absolute(sum_of(curved)) + absolute(sum_of(sloped));
        for (int i = 0; i < HELD; i++) {
            rp[i] = where(MASK(W[i] > 0), p->b[i] - ax[i] - soft_a[i] * y[i], splat(0));
            primal = maximum(primal, absolute(rp[i]));
            size_gap += absolute(p->b[i] * y[i]);
        }
        EACH_CHUNK(INEQUALITIES) put(R + i, chunk(cx + i) + chunk(soft_c + i) * chunk(z + i));
        memset(weight, 0, PADDED * sizeof(T));
        memset(rho, 0, PADDED * sizeof(T));
        prepare(&lower, R, weight, rho, &most_primal, &sum_products, &sizes);
        prepare(&upper, R, weight, rho, &most_primal, &sum_products, &sizes);
        primal = maximum(primal, largest_in(most_primal));
        const T products = sum_of(sum_products), dual = largest_in(most_dual);
        size_gap = maximum(size_gap + sum_of(sizes), scale);
        const T gap = products / size_gap;
        primal /= largest_of(x, N, splat(1));
        const T error = maximum(maximum(dual, primal), gap);
        /* Keep the best point; stop lanes that are done, or not finite. */
        const I better = active & MASK(error < best);
        best = where(better, error, best);
        best_dual = where(better, dual, best_dual),
        best_primal = where(better, primal, best_primal);
        best_gap = where(better, gap, best_gap);
        iterations = where(active, splat((real)k), iterations);
        keep(best_x, x, better, N);
        keep(best_y, y, better, HELD);
        keep(best_z, z, better, INEQUALITIES);
        active &= MASK(error > TOLERANCE) & MASK(error < splat(INFINITY));
        active &= MASK(error <= WORSE * maximum(best, splat(TOLERANCE)));
        if (k == ITERATIONS || !any(active)) break;
        /* The matrix of this iteration, and its factors. */
        EACH_CHUNK(INEQUALITIES) {
            const V per = 1 / (1 + chunk(used_c + i) * chunk(weight + i));
            put(shrink + i, per);
            put(weight + i, chunk(weight + i) * per);
        }
        add_curvature(&rows, K, K0, weight);
        factorise(K, inverse, minus, least);
        /* Predictor, then with the centering that it suggests the corrector (Mehrotra, 1992). */
        for (int i = 0; i < HELD; i++) dy[i] = W[i] * rp[i];
        EACH_CHUNK(STRIDE) put(rest + i, -chunk(rd + i));
        combine(rest, E, dy, HELD, STRIDE, SIDE);
        T length = splat(1);
        for (int corrector = 0; corrector < 2; corrector++) {
            EACH_CHUNK(INEQUALITIES) put(rho + i, chunk(rho + i) * chunk(shrink + i));
            memcpy(dx, rest, STRIDE * sizeof(T));
            add_transposed(&rows, dx, rho);
            forward_with(K, inverse, dx, 0);
            backward_with(K, inverse, dx);
            multiply(&rows, dx, ax, cx);
            EACH_CHUNK(INEQUALITIES) {
                const V by = chunk(cx + i), dz = chunk(rho + i) - chunk(weight + i) * by;
                put(dR + i, by + chunk(used_c + i) * dz);
            }
            V most = all(splat(0)), second = most;
            if (corrector) {
                step(&lower, dR, &most);
                step(&upper, dR, &most);
                length = minimum(splat(1), SHORTER / maximum(largest_in(most), splat(SMALLEST)));
                break;
            }
            predict(&lower, dR, &most, &second);
            predict(&upper, dR, &most, &second);
            length = minimum(splat(1), 1 / maximum(largest_in(most), splat(SMALLEST)));
            /* (z + length dz) (t + length dt), where z dt + t dz = -z t */
            const T after = (1 - length) * products + length * length * sum_of(second);
            const T ratio = after / maximum(products, splat(SMALLEST));
            const T centre = maximum(ratio * ratio * ratio * products, FLOOR * size_gap) / count;
            memset(rho, 0, PADDED * sizeof(T));
            correct(&lower, centre, rho);
            correct(&upper, centre, rho);
        }
        length = where(active, length, splat(0));
        by = all(length);
        advance(x, dx, by, STRIDE);
        for (int i = 0; i < HELD; i++) y[i] += length * W[i] * (rp[i] - ax[i]);
    }
    /* 4. Results in the units of the rows that came in. */
    memcpy(s->x, best_x, N * sizeof(T));
    multiply(&rows, best_x, ax, cx);
    for (int i = 0; i < HELD; i++) {
        s->slack_a[i] = where(MASK(W[i] > 0), (p->b[i] - ax[i]) * size_a[i], splat(0));
        s->y[i] = best_y[i] / size_a[i];
    }
    unfold(p, s, F, best_x);
    for (int i = 0; i < INEQUALITIES; i++) {
        const T below = maximum(lower.on[i] * (lower.bound[i] - cx[i]), splat(0));
        const T above = maximum(upper.on[i] * (cx[i] - upper.bound[i]), splat(0));
        s->slack_c[i] = (below - above) * size_c[i];
        s->z[i] = best_z[i] / size_c[i];
    }
    const T measures[] = {iterations, best_dual, best_primal, best_gap,
                          where(MASK(best <= TOLERANCE), splat(1), splat(0))};
    memcpy(s->measures, measures, sizeof measures);
}
#if defined(__GNUC__) && !defined(__clang__) && !defined(PLAIN)
#pragma GCC pop_options
#endif
