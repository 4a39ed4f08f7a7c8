/* The two passes of differential dynamic programming over the knots k = 0 ... N - 1 of a trajectory
   of states x with inputs u. Before this text there are

       difference(a, b, d)         d with a exp(d) = b
       advance(x, d, y)            y = x exp(d)
       next(x, u, p, y, l)         the next state, and the cost of the knot
       end(x, p, l)                the cost of the last state

   over T, and the dimensions STATE, TANGENT, INPUT, PARAMETERS and ALL = TANGENT + INPUT. The model
   of a knot is a row of numbers: gap, cost, and what the entries of F, g and H are multiples of,
   derivatives by (d, u) of the next state and of the cost. SCOPE is what functions of the library
   are declared with; exported C, of plain.h, makes them static. */

#ifndef SCOPE
#define SCOPE
#endif
#if SINGLE
#define FABS fabsf
#define FMAX fmaxf
#define FMIN fminf
#define SQRT sqrtf
#else
#define FABS fabs
#define FMAX fmax
#define FMIN fmin
#define SQRT sqrt
#endif

enum {
    NV = (TANGENT + LANES - 1) / LANES, /* vectors that hold a row */
    AV = (ALL + LANES - 1) / LANES,
    WIDE_N = NV * LANES,
    WIDE = AV * LANES
};

/* Matrices of one knot. */
typedef struct {
    real V[TANGENT][WIDE_N], W[TANGENT][WIDE], K[INPUT][WIDE_N], M[INPUT][WIDE_N];
    real model[TANGENT + 1 + ALL][WIDE];
} Scratch;

typedef struct {
    int64_t knots, apart;        /* numbers between the parameters of knots */
    int64_t gapped, bounded;     /* whether there are gaps, and bounds */
    int64_t width, pieces;       /* of a row of models; of F, g and H, in rows */
    real damping;                /* added to the diagonal of Q_uu */
    real change, gradient, gaps; /* predicted change of the cost; largest |Q_u|; sum of |gap| */
    real *x, *u;
    const real *p, *models, *end, *low, *high;
    real *alpha;
    const real *constant; /* F, g and H = constant, and [at + j] += factor * row[of + j] */
    const int64_t *at, *of;
    const real *factor;
    const int64_t *length;
    real *k, *K, *slopes, *states, *inputs, *costs; /* states and inputs of lanes, lane by lane */
    Scratch *scratch;
} Shooting;

#ifndef PLAIN
const int lanes = LANES; /* step lengths that a forward pass tries */
#endif

INLINE T lanes_of(const real *x) {
    T y;
    memcpy(&y, x, sizeof y);
    return y;
}
INLINE void put(real *x, T y) { memcpy(x, &y, sizeof y); }

#ifdef PLAIN
/* y (rows, columns) += sum over k of a[i * a_row + k * a_sum] b[k]. */
static void accumulate(int rows, int columns, int sum, const real *a, int64_t a_row, int64_t a_sum,
                       const real *b, int64_t b_step, real *y, int64_t y_step) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            real s = y[i * y_step + j];
            for (int k = 0; k < sum; k++) s += a[i * a_row + k * a_sum] * b[k * b_step + j];
            y[i * y_step + j] = s;
        }
}
#else
/* R rows and C vectors of y += a^T b. */
INLINE void tile(int R, int C, int sum, const real *a, int64_t a_row, int64_t a_sum, const real *b,
                 int64_t b_step, real *y, int64_t y_step) {
    T s[4][3];
    UNROLL for (int i = 0; i < R; i++) UNROLL
        for (int j = 0; j < C; j++) s[i][j] = lanes_of(y + i * y_step + j * LANES);
    for (int k = 0; k < sum; k++) UNROLL
        for (int i = 0; i < R; i++) UNROLL
            for (int j = 0; j < C; j++)
                s[i][j] += splat(a[i * a_row + k * a_sum]) * lanes_of(b + k * b_step + j * LANES);
    UNROLL for (int i = 0; i < R; i++) UNROLL
        for (int j = 0; j < C; j++) put(y + i * y_step + j * LANES, s[i][j]);
}

/* R rows of whole length. */
INLINE void strip(int R, int vectors, int sum, const real *a, int64_t a_row, int64_t a_sum,
                  const real *b, int64_t b_step, real *y, int64_t y_step) {
    int j = 0;
    for (; j + 3 <= vectors; j += 3)
        tile(R, 3, sum, a, a_row, a_sum, b + j * LANES, b_step, y + j * LANES, y_step);
    if (vectors - j == 2)
        tile(R, 2, sum, a, a_row, a_sum, b + j * LANES, b_step, y + j * LANES, y_step);
    if (vectors - j == 1)
        tile(R, 1, sum, a, a_row, a_sum, b + j * LANES, b_step, y + j * LANES, y_step);
}

/* y (rows, vectors) += sum over k of a[i * a_row + k * a_sum] b[k]. */
INLINE void accumulate(int rows, int vectors, int sum, const real *a, int64_t a_row, int64_t a_sum,
                       const real *b, int64_t b_step, real *y, int64_t y_step) {
    int i = 0;
    for (; i + 4 <= rows; i += 4)
        strip(4, vectors, sum, a + i * a_row, a_row, a_sum, b, b_step, y + i * y_step, y_step);
    for (; i < rows; i++)
        strip(1, vectors, sum, a + i * a_row, a_row, a_sum, b, b_step, y + i * y_step, y_step);
}
#endif

/* Rows of `width` numbers into rows of whole vectors, with zeros behind them. */
INLINE void widen(int rows, int width, int wide, const real *from, int64_t step, real *to) {
    for (int i = 0; i < rows; i++) {
        memcpy(to + i * wide, from + i * step, (size_t)width * sizeof(real));
        for (int j = width; j < wide; j++) to[i * wide + j] = 0;
    }
}

/* L of L L^T = A in the rows and columns of `free`; on the diagonal 1/L. Whether A is positive. */
static int factor(const int *free, int n, real A[INPUT][INPUT], real damping,
                  real L[INPUT][INPUT]) {
    for (int a = 0; a < n; a++)
        for (int b = 0; b <= a; b++) {
            real s = A[free[a]][free[b]] + (a == b ? damping : 0);
            for (int c = 0; c < b; c++) s -= L[a][c] * L[b][c];
            if (a != b) L[a][b] = s * L[b][b];
            else if (s > 0 && s < (real)INFINITY) L[a][a] = 1 / SQRT(s);
            else return 0;
        }
    return 1;
}

static void solve(const int *free, int n, real L[INPUT][INPUT], real *y) {
    for (int a = 0; a < n; a++) {
        real s = y[free[a]];
        for (int c = 0; c < a; c++) s -= L[a][c] * y[free[c]];
        y[free[a]] = s * L[a][a];
    }
    for (int a = n; a--;) {
        real s = y[free[a]];
        for (int c = a + 1; c < n; c++) s -= L[c][a] * y[free[c]];
        y[free[a]] = s * L[a][a];
    }
}

/* The least of q^T y + y^T A y / 2 with low <= y <= high, from y on, by projected Newton steps
   (Tassa, Mansard and Todorov 2014); the entries that are free at the end, and their factor.
   Returns their number, or -1 if A is not positive. */
static int in_box(real A[INPUT][INPUT], const real *q, real damping, const real *low,
                  const real *high, real *y, int *free, real L[INPUT][INPUT]) {
    real slope[INPUT], way[INPUT], trial[INPUT];
    int n = 0, factored = -1, last[INPUT];
    for (int i = 0; i < INPUT; i++) y[i] = FMIN(FMAX(y[i], low[i]), high[i]);
    for (int round = 0; round < ROUNDS; round++) {
        real largest = 0, scale = 0, down = 0, step = 1;
        n = 0;
        for (int i = 0; i < INPUT; i++) {
            real s = q[i] + damping * y[i];
            for (int j = 0; j < INPUT; j++) s += A[i][j] * y[j];
            slope[i] = s, scale = FMAX(scale, FABS(q[i]));
            if ((y[i] > low[i] || s < 0) && (y[i] < high[i] || s > 0)) free[n++] = i;
            else way[i] = 0;
        }
        if (n != factored || memcmp(last, free, (size_t)n * sizeof n)) {
            if (!factor(free, n, A, damping, L)) return -1;
            memcpy(last, free, (size_t)n * sizeof n);
            factored = n;
        }
        for (int a = 0; a < n; a++) {
            way[free[a]] = -slope[free[a]];
            largest = FMAX(largest, FABS(slope[free[a]]));
        }
        if (!(largest > ZERO_SLOPE * scale)) break;
        solve(free, n, L, way);
        for (int a = 0; a < n; a++) down += slope[free[a]] * way[free[a]];
        for (;; step *= (real)0.6) { /* until it leads down by a tenth of what the slope says */
            real change = 0, said = 0;
            for (int i = 0; i < INPUT; i++)
                trial[i] = FMIN(FMAX(y[i] + step * way[i], low[i]), high[i]);
            for (int i = 0; i < INPUT; i++) {
                real s = damping * (trial[i] - y[i]);
                for (int j = 0; j < INPUT; j++) s += A[i][j] * (trial[j] - y[j]);
                change += (trial[i] - y[i]) * (slope[i] + s / 2);
                said += (trial[i] - y[i]) * slope[i];
            }
            if (change <= (real)0.1 * said || step < (real)1e-12) break;
        }
        memcpy(y, trial, sizeof trial);
    }
    return n;
}

/* F, g and H of a knot, rows of WIDE numbers, where they are not constant. */
INLINE void unpack(const Shooting *s, int64_t knot, real *model) {
    const real *row = s->models + knot * s->width;
    for (int64_t r = 0; r < s->pieces; r++) {
        const real *from = row + s->of[r], *constant = s->constant + s->at[r];
        const real factor = s->factor[r];
        real *to = model + s->at[r];
        int64_t j = 0;
        for (; j + LANES <= s->length[r]; j += LANES)
            put(to + j, lanes_of(constant + j) + splat(factor) * lanes_of(from + j));
        for (; j < s->length[r]; j++) to[j] = constant[j] + factor * from[j];
    }
}

/* y = -(L L^T)^-1 b in C vectors of the rows `free`; several vectors hide the latency of sums. */
INLINE void substitute(int C, const int *free, int n, real L[INPUT][INPUT], const real *b,
                       int64_t b_step, real *y, int64_t y_step) {
    T x[INPUT][3], s[3];
    for (int i = 0; i < n; i++) {
        UNROLL for (int c = 0; c < C; c++)
            s[c] = -lanes_of(b + free[i] * b_step + c * LANES);
        for (int j = 0; j < i; j++) UNROLL
            for (int c = 0; c < C; c++) s[c] -= splat(L[i][j]) * x[j][c];
        UNROLL for (int c = 0; c < C; c++)
            x[i][c] = s[c] * splat(L[i][i]);
    }
    for (int i = n; i--;) {
        UNROLL for (int c = 0; c < C; c++)
            s[c] = x[i][c];
        for (int j = i + 1; j < n; j++) UNROLL
            for (int c = 0; c < C; c++) s[c] -= splat(L[j][i]) * x[j][c];
        UNROLL for (int c = 0; c < C; c++) {
            x[i][c] = s[c] * splat(L[i][i]);
            put(y + free[i] * y_step + c * LANES, x[i][c]);
        }
    }
}

/* From the last knot to the first: gains k, K of the inputs u + alpha k + K d. Returns 0, or 1 +
   the knot at which Q_uu is not positive definite. */
SCOPE int64_t backward(Shooting *s) {
    real(*V)[WIDE_N] = s->scratch->V, (*W)[WIDE] = s->scratch->W, (*K)[WIDE_N] = s->scratch->K;
    real(*M)[WIDE_N] = s->scratch->M, (*model)[WIDE] = s->scratch->model;
    real(*F)[WIDE] = model, *q = model[TANGENT], (*Q)[WIDE] = model + TANGENT + 1;
    real v[TANGENT], uu[INPUT][INPUT], L[INPUT][INPUT], low[INPUT], high[INPUT];
    real change = 0, gradient = 0, gaps = 0, k[INPUT], c[INPUT];
    int free[INPUT], n = INPUT;
    memcpy(v, s->end + 1, sizeof v);
    memcpy(model, s->constant, sizeof s->scratch->model);
    widen(TANGENT, TANGENT, WIDE_N, s->end + 1 + TANGENT, TANGENT, V[0]);
    for (int i = 0; i < INPUT; i++) free[i] = i, k[i] = 0;
    for (int64_t t = s->knots; t--;) {
        const real *u = s->u + t * INPUT, *gap = s->models + t * s->width;
        if (s->gapped) {
            real turned[TANGENT];
            for (int i = 0; i < TANGENT; i++) {
                turned[i] = 0;
                for (int j = 0; j < TANGENT; j++) turned[i] += V[i][j] * gap[j];
                change += gap[i] * (v[i] + turned[i] / 2), gaps += FABS(gap[i]);
            }
            for (int i = 0; i < TANGENT; i++) v[i] += turned[i];
        }
        memcpy(s->slopes + t * TANGENT, v, sizeof v);
        memcpy(q, s->constant + TANGENT * WIDE, (1 + ALL) * WIDE * sizeof(real));
        unpack(s, t, model[0]);
        memset(W, 0, sizeof s->scratch->W);
        accumulate(TANGENT, AV, TANGENT, V[0], WIDE_N, 1, F[0], WIDE, W[0], WIDE);
        accumulate(TANGENT, NV, TANGENT, F[0], 1, WIDE, W[0], WIDE, Q[0], WIDE);
        accumulate(INPUT, AV, TANGENT, F[0] + TANGENT, 1, WIDE, W[0], WIDE, Q[TANGENT], WIDE);
        accumulate(1, AV, TANGENT, v, 0, 1, F[0], WIDE, q, WIDE);
        for (int i = 0; i < INPUT; i++) {
            memcpy(uu[i], Q[TANGENT + i] + TANGENT, sizeof uu[i]);
            low[i] = s->low[i] - u[i], high[i] = s->high[i] - u[i];
            gradient = FMAX(gradient, FABS(FMIN(FMAX(-q[TANGENT + i], low[i]), high[i])));
        }
        if (s->bounded) {
            n = in_box(uu, q + TANGENT, s->damping, low, high, k, free, L);
        } else {
            if (!factor(free, n, uu, s->damping, L)) n = -1;
            for (int i = 0; i < INPUT; i++) k[i] = -q[TANGENT + i];
            if (n >= 0) solve(free, n, L, k);
        }
        if (n < 0) return t + 1;
        memset(K, 0, sizeof s->scratch->K);
        { /* K = -Q_uu^-1 Q_ux in the free rows */
            int j = 0;
            for (; j + 3 <= NV; j += 3)
                substitute(3, free, n, L, Q[TANGENT] + j * LANES, WIDE, K[0] + j * LANES, WIDE_N);
            for (; j < NV; j++)
                substitute(1, free, n, L, Q[TANGENT] + j * LANES, WIDE, K[0] + j * LANES, WIDE_N);
        }
        for (int i = 0; i < INPUT; i++)
            for (int j = TANGENT; j < WIDE_N; j++) K[i][j] = 0;
        memcpy(s->k + t * INPUT, k, sizeof k);
        for (int i = 0; i < INPUT; i++)
            memcpy(s->K + (t * INPUT + i) * TANGENT, K[i], TANGENT * sizeof(real));
        /* v = q_x + K^T (Q_uu k + q_u) + Q_xu k,  V = Q_xx + K^T (Q_uu K + Q_ux) + Q_xu K; the
           brackets are zero where no input is damped or held at a bound */
        widen(TANGENT, TANGENT, WIDE_N, Q[0], WIDE, V[0]);
        accumulate(TANGENT, NV, INPUT, Q[TANGENT], 1, WIDE, K[0], WIDE_N, V[0], WIDE_N);
        if (n == INPUT && !(s->damping > 0)) {
            for (int i = 0; i < INPUT; i++) change += k[i] * q[TANGENT + i] / 2;
        } else {
            widen(INPUT, TANGENT, WIDE_N, Q[TANGENT], WIDE, M[0]);
            for (int i = 0; i < INPUT; i++) {
                c[i] = q[TANGENT + i];
                for (int j = 0; j < INPUT; j++) c[i] += uu[i][j] * k[j];
                change += k[i] * (c[i] + q[TANGENT + i]) / 2;
            }
            accumulate(1, NV, INPUT, c, 0, 1, K[0], WIDE_N, q, WIDE);
            accumulate(INPUT, NV, INPUT, uu[0], INPUT, 1, K[0], WIDE_N, M[0], WIDE_N);
            accumulate(TANGENT, NV, INPUT, K[0], 1, WIDE_N, M[0], WIDE_N, V[0], WIDE_N);
        }
        accumulate(1, NV, INPUT, k, 0, 1, Q[TANGENT], WIDE, q, WIDE); /* q_u is used no more */
        memcpy(v, q, sizeof v);
        for (int i = 0; i < TANGENT; i++)
            for (int j = 0; j < i; j++) V[i][j] = V[j][i] = (V[i][j] + V[j][i]) / 2;
    }
    s->change = change, s->gradient = gradient, s->gaps = gaps;
    return 0;
}

/* Trajectories with the inputs u + alpha k + K d, in whose gaps 1 - alpha is left; a step length
   alpha in each lane. */
SCOPE void forward(Shooting *s) {
    T x[STATE], y[STATE], own[STATE], d[TANGENT], u[INPUT], p[PARAMETERS], l[1];
    const T alpha = lanes_of(s->alpha);
    T cost = splat(0);
    for (int j = 0; j < STATE; j++) x[j] = splat(s->x[j]);
    for (int64_t t = 0; t < s->knots; t++) {
        const real *k = s->k + t * INPUT, *K = s->K + t * INPUT * TANGENT;
        for (int j = 0; j < STATE; j++) {
            own[j] = splat(s->x[t * STATE + j]);
            put(s->states + (t * STATE + j) * LANES, x[j]);
        }
        for (int j = 0; j < PARAMETERS; j++) p[j] = splat(s->p[t * s->apart + j]);
        difference(own, x, d);
        for (int i = 0; i < INPUT; i++) {
            T sum = splat(s->u[t * INPUT + i]) + alpha * splat(k[i]);
            for (int j = 0; j < TANGENT; j++) sum += splat(K[i * TANGENT + j]) * d[j];
            u[i] = minimum(maximum(sum, splat(s->low[i])), splat(s->high[i]));
            put(s->inputs + (t * INPUT + i) * LANES, u[i]);
        }
        next(x, u, p, y, l);
        cost += l[0];
        if (s->gapped) {
            for (int j = 0; j < TANGENT; j++)
                d[j] = (alpha - splat(1)) * splat(s->models[t * s->width + j]);
            advance(y, d, x);
        } else {
            memcpy(x, y, sizeof x);
        }
    }
    for (int j = 0; j < STATE; j++) put(s->states + (s->knots * STATE + j) * LANES, x[j]);
    for (int j = 0; j < PARAMETERS; j++) p[j] = splat(s->p[s->knots * s->apart + j]);
    end(x, p, l);
    put(s->costs, cost + l[0]);
}
