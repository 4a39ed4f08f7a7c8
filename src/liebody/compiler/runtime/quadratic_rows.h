/* What methods for quadratic programs share, a problem in each lane: vectors, triangles, rows.

   Before this text: the text of lanes.h; N unknowns, EQUALITIES, of which the first HELD are kept
   as rows and the others belong to the cost, INEQUALITIES, and tables. dense_c has the numbers of
   DENSE_C rows of C with many entries, sparse_c those of SPARSE_C others: entries sparse_start[i]
   ... sparse_start[i + 1] - 1 of the row sparse_c[i] are in the columns sparse_column. dense_f has
   the numbers of DENSE_F rows of the cost with many entries, counted from its first row, sparse_f
   those of SPARSE_F others, which are zero but for columns first_f[k] ... stop_f[k] - 1. */

#ifndef PLAIN
#define UNROLL_2 _Pragma("GCC unroll 2")
#define UNROLL_4 _Pragma("GCC unroll 4")
#endif
/* All of -O2, also where the functions before and behind are too long for it. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(PLAIN)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif
typedef struct {
    T *H, *g, *A, *b, *weight_a, *C, *l, *u, *weight_c, *scale;
} Problem;
typedef struct {
    T *x, *y, *z;         /* unknowns, multipliers of A and of C */
    T *slack_a, *slack_c; /* b - A x; how far C x is outside of l and u */
    T *measures;          /* iterations, errors of stationarity and of rows, gap, solved */
} Solution;

/* Arithmetic on chunks V of PER entries of a vector: over one lane as wide as the processor has
   them, over many lanes an entry at a time, because a number T is a vector already. */
#if LANES == 1 && !defined(PLAIN)
typedef W V;
typedef whole M __attribute__((vector_size(sizeof(W))));
enum { PER = WIDE };
#define ABOVE(a, b) ((M)((a) > (b)))
INLINE V all(T x) { return wide(x); }
INLINE V pick(M mask, V a, V b) { return (V)(((M)a & mask) | ((M)b & ~mask)); }
INLINE V size_of(V a) { return (V)((M)a & ~(M)wide((real)-0.0)); }
INLINE V largest(V a, V b) { return pick((M)(a > b) | (M)(a != a), a, b); } /* NaN if a or b is */
/* In pairs, and pairs of pairs: additions need not wait for each other. */
INLINE T sum_of(V v) {
    T part[WIDE];
    memcpy(part, &v, sizeof v);
    UNROLL for (int half = WIDE / 2; half; half /= 2)
        for (int l = 0; l < half; l++) part[l] += part[l + half];
    return part[0];
}
INLINE T largest_in(V v) {
    T part[WIDE];
    memcpy(part, &v, sizeof v);
    UNROLL for (int half = WIDE / 2; half; half /= 2)
        for (int l = 0; l < half; l++) part[l] = maximum(part[l], part[l + half]);
    return part[0];
}
#else
typedef T V;
typedef I M;
enum { PER = 1 };
#define ABOVE(a, b) MASK((a) > (b))
INLINE V all(T x) { return x; }
INLINE V pick(M mask, V a, V b) { return where(mask, a, b); }
INLINE V size_of(V a) { return absolute(a); }
INLINE V largest(V a, V b) { return maximum(a, b); }
INLINE T sum_of(V v) { return v; }
INLINE T largest_in(V v) { return v; }
#endif
INLINE V larger(V a, V b) { return pick(ABOVE(a, b), a, b); } /* b if a is NaN */

/* Vectors and rows of matrices have STRIDE entries, with zeros behind the N unknowns, vectors over
   rows of C have PADDED, and over dense rows ROWS, so that loops over chunks need no rest. Products
   of matrices are made in blocks of BLOCK rows and SIDE chunks, which stay in registers; systems of
   equations are solved for GROUP unknowns at a time. */
#define ROUNDED(n, unit) (((n) + (unit) - 1) / (unit) * (unit))
#define CHUNKS_AT_ONCE(n) \
    ((n) / PER % 4 == 0 ? 4 : (n) / PER % 3 == 0 ? 3 : (n) / PER % 2 == 0 ? 2 : 1)
enum {
    BLOCK = 4,
    GROUP = PER > BLOCK ? PER : BLOCK,
    STRIDE = ROUNDED(N, GROUP),
    SIDE = CHUNKS_AT_ONCE(STRIDE),
    DENSE = HELD + DENSE_C,
    ROWS = ROUNDED(DENSE ? DENSE : 1, GROUP),
    ROWS_SIDE = CHUNKS_AT_ONCE(ROWS),
    ROWS_A = EQUALITIES ? EQUALITIES : 1,
    ROWS_C = INEQUALITIES ? INEQUALITIES : 1,
    ROWS_F = ROUNDED(DENSE_F ? DENSE_F : 1, GROUP),
    PADDED = ROUNDED(ROWS_C, PER),
    ENTRIES = SPARSE_C * LONG + 1
};
INLINE V chunk(const T *x) {
    V v;
    memcpy(&v, x, sizeof v);
    return v;
}
INLINE void put(T *x, V v) { memcpy(x, &v, sizeof v); }
#define EACH_CHUNK(count) for (int i = 0; i < (count); i += PER)
INLINE int down(int j) { return j / PER * PER; }

/* y += sum of m_i rows_i over `count` rows of `width` entries, `side` chunks at once. */
INLINE void combine(T *restrict y, const T *restrict rows, const T *restrict m, int count,
                    int width, int side) {
    for (int c = 0; c < width; c += side * PER) {
        V sums[4];
        UNROLL for (int j = 0; j < side; j++)
            sums[j] = chunk(y + c + j * PER);
        UNROLL_4 for (int i = 0; i < count; i++) {
            const V factor = all(m[i]);
            UNROLL for (int j = 0; j < side; j++)
                sums[j] += factor * chunk(rows + i * width + c + j * PER);
        }
        UNROLL for (int j = 0; j < side; j++)
            put(y + c + j * PER, sums[j]);
    }
}

/* The largest |x|, or `least`. */
INLINE T largest_of(const T *x, int n, T least) {
    V value = all(least);
    for (int j = 0; j < n; j += PER) value = largest(size_of(chunk(x + j)), value);
    return largest_in(value);
}

/* The block of K at row p and column c is that of `from` + sum of weight_i rows_i[p ...]
   rows_i[c ...], over the first `count` rows. */
INLINE void add_block(T *K, const T *from, const T *rows, const T *weight, int count, int p,
                      int c) {
    V sums[BLOCK][SIDE];
    UNROLL for (int i = 0; i < BLOCK; i++) UNROLL
        for (int j = 0; j < SIDE; j++) sums[i][j] = chunk(from + (p + i) * STRIDE + c + j * PER);
    UNROLL_2 for (int k = 0; k < count; k++) {
        const T *row = rows + k * STRIDE;
        V side[SIDE];
        UNROLL for (int j = 0; j < SIDE; j++)
            side[j] = chunk(row + c + j * PER);
        UNROLL for (int i = 0; i < BLOCK; i++) {
            const V m = all(weight[k] * row[p + i]);
            UNROLL for (int j = 0; j < SIDE; j++)
                sums[i][j] += m * side[j];
        }
    }
    UNROLL for (int i = 0; i < BLOCK; i++) UNROLL
        for (int j = 0; j < SIDE; j++) put(K + (p + i) * STRIDE + c + j * PER, sums[i][j]);
}

/* The upper triangle of K is that of `from` + rows' diag(weight) rows. */
static void add_squares(T *K, const T *from, const T *rows, const T *weight, int count) {
    for (int p = 0; p < STRIDE; p += BLOCK)
        for (int c = p / (SIDE * PER) * (SIDE * PER); c < STRIDE; c += SIDE * PER)
            add_block(K, from, rows, weight, count, p, c);
}

/* With K = U' D^-1 U, D the diagonal of U, b becomes s = U'^-1 b, from the group of the unknown
   `first` on, in front of which b is zero. In a group the unknowns follow one from the other as
   numbers; what they give to the others, forward, and what they get from them, backward, are
   products without such waiting. */
static void forward_with(const T *restrict K, const T *restrict inverse, T *restrict b, int first) {
    for (int p = first / GROUP * GROUP; p < STRIDE; p += GROUP) {
        T y[GROUP];
        UNROLL for (int i = 0; i < GROUP; i++)
            y[i] = b[p + i];
        UNROLL for (int i = 0; i < GROUP; i++) {
            const T *row = K + (p + i) * STRIDE + p;
            y[i] *= inverse[p + i];
            UNROLL for (int j = i + 1; j < GROUP; j++)
                y[j] -= row[j] * y[i];
        }
        for (int c = p + GROUP; c < STRIDE; c += PER) {
            V rest = chunk(b + c);
            UNROLL for (int i = 0; i < GROUP; i++)
                rest -= all(y[i]) * chunk(K + (p + i) * STRIDE + c);
            put(b + c, rest);
        }
        memcpy(b + p, y, sizeof y);
    }
}
/* s becomes K^-1 b. */
static void backward_with(const T *restrict K, const T *restrict inverse, T *restrict b) {
    for (int p = STRIDE - GROUP; p >= 0; p -= GROUP) {
        V known[GROUP];
        UNROLL for (int i = 0; i < GROUP; i++)
            known[i] = all(splat(0));
        for (int c = p + GROUP; c < STRIDE; c += PER) {
            const V x = chunk(b + c);
            UNROLL for (int i = 0; i < GROUP; i++)
                known[i] += x * chunk(K + (p + i) * STRIDE + c);
        }
        T x[GROUP];
        UNROLL for (int i = 0; i < GROUP; i++)
            x[i] = b[p + i] - sum_of(known[i]) * inverse[p + i];
        UNROLL for (int i = GROUP - 1; i > 0; i--) UNROLL
            for (int j = 0; j < i; j++) x[j] -= K[(p + j) * STRIDE + p + i] * inverse[p + j] * x[i];
        memcpy(b + p, x, sizeof x);
    }
}

/* Rows of A and C: the dense ones, those of A first, are rows of E; over one lane its columns are
   kept, too. Others have their entries. */
typedef struct {
    T *E, *columns, *entries;
    T *m; /* numbers for the dense rows */
} Rows;

/* a = A x and c = C x. */
static void multiply(const Rows *rows, const T *restrict x, T *restrict a, T *restrict c) {
#if LANES == 1 && !defined(PLAIN)
    memset(rows->m, 0, ROWS * sizeof(T));
    if (DENSE) combine(rows->m, rows->columns, x, N, ROWS, ROWS_SIDE);
#else
    for (int r = 0; r < DENSE; r += BLOCK) {
        T sums[BLOCK];
        UNROLL for (int i = 0; i < BLOCK; i++)
            sums[i] = splat(0);
        for (int j = 0; j < N; j++) UNROLL
            for (int i = 0; i < BLOCK; i++) sums[i] += rows->E[(r + i) * STRIDE + j] * x[j];
        memcpy(rows->m + r, sums, sizeof sums);
    }
#endif
    memcpy(a, rows->m, HELD * sizeof(T));
    for (int i = 0; i < DENSE_C; i++) c[dense_c[i]] = rows->m[HELD + i];
    for (int i = 0; i < SPARSE_C; i++) {
        T sum = splat(0);
        for (int e = sparse_start[i]; e < sparse_start[i + 1]; e++)
            sum += rows->entries[e] * x[sparse_column[e]];
        c[sparse_c[i]] = sum;
    }
}

/* y -= A' a + C' c, and terms += the sizes of its terms. */
static void pull(const Rows *rows, T *restrict y, T *restrict terms, const T *restrict a,
                 const T *restrict c) {
    memcpy(rows->m, a, HELD * sizeof(T));
    for (int i = 0; i < DENSE_C; i++) rows->m[HELD + i] = c[dense_c[i]];
    for (int first = 0; first < STRIDE; first += SIDE * PER) {
        V sums[SIDE], sizes[SIDE];
        UNROLL for (int j = 0; j < SIDE; j++)
            sums[j] = chunk(y + first + j * PER), sizes[j] = chunk(terms + first + j * PER);
        for (int i = 0; i < DENSE; i++) {
            const V factor = all(rows->m[i]);
            UNROLL for (int j = 0; j < SIDE; j++) {
                const V part = factor * chunk(rows->E + i * STRIDE + first + j * PER);
                sums[j] -= part, sizes[j] += size_of(part);
            }
        }
        UNROLL for (int j = 0; j < SIDE; j++)
            put(y + first + j * PER, sums[j]), put(terms + first + j * PER, sizes[j]);
    }
    for (int i = 0; i < SPARSE_C; i++)
        for (int e = sparse_start[i]; e < sparse_start[i + 1]; e++) {
            const T part = rows->entries[e] * c[sparse_c[i]];
            y[sparse_column[e]] -= part;
            terms[sparse_column[e]] += absolute(part);
        }
}

/* A row is copied, scaled to a largest entry of 1; returns what it is divided by. */
INLINE T scale_row(T *restrict row, const T *from) {
    memcpy(row, from, N * sizeof(T));
    const T most = largest_of(row, N, splat(0));
    const T size = where(MASK(most > 0), most, splat(1));
    const V by = all(1 / size);
    for (int j = 0; j < STRIDE; j += PER) put(row + j, chunk(row + j) * by);
    return size;
}

/* Rows of A and C, each scaled to a largest entry of 1, and what they are divided by. */
static void scale_rows(const Problem *p, const Rows *rows, T *restrict size_a, T *restrict size_c) {
    for (int i = 0; i < HELD; i++) size_a[i] = scale_row(rows->E + i * STRIDE, p->A + i * N);
    for (int i = 0; i < DENSE_C; i++)
        size_c[dense_c[i]] = scale_row(rows->E + (HELD + i) * STRIDE, p->C + dense_c[i] * N);
    if (LANES == 1)
        for (int i = 0; i < DENSE; i++)
            for (int j = 0; j < N; j++) rows->columns[j * ROWS + i] = rows->E[i * STRIDE + j];
    for (int i = 0; i < SPARSE_C; i++) {
        const T *row = p->C + sparse_c[i] * N;
        T most = splat(0);
        for (int e = sparse_start[i]; e < sparse_start[i + 1]; e++)
            most = maximum(absolute(row[sparse_column[e]]), most);
        const T size = where(MASK(most > 0), most, splat(1)), by = 1 / size;
        for (int e = sparse_start[i]; e < sparse_start[i + 1]; e++)
            rows->entries[e] = row[sparse_column[e]] * by;
        size_c[sparse_c[i]] = size;
    }
}

/* The rows behind HELD become a part of the cost: H + A' w A and g - A' w b. F (ROWS_F, STRIDE),
   which was zero, gets the dense ones, m (ROWS_F) and dy (ROWS_F) are working memory. */
static void fold(const Problem *p, T *restrict H, T *restrict g, T *restrict F, T *restrict m,
                 T *restrict dy) {
    for (int i = 0; i < N; i++) {
        memcpy(H + i * STRIDE, p->H + i * N, N * sizeof(T));
        for (int j = N; j < STRIDE; j++) H[i * STRIDE + j] = splat(0);
    }
    for (int i = N * STRIDE; i < STRIDE * STRIDE; i++) H[i] = splat(0);
    memcpy(g, p->g, N * sizeof(T));
    for (int k = 0; k < DENSE_F; k++) {
        const int i = HELD + dense_f[k];
        memcpy(F + k * STRIDE, p->A + i * N, N * sizeof(T));
        m[k] = p->weight_a[i];
        dy[k] = -m[k] * p->b[i];
    }
    combine(g, F, dy, DENSE_F, STRIDE, SIDE);
    add_squares(H, H, F, m, DENSE_F);
    for (int k = 0; k < SPARSE_F; k++) {
        const int i = HELD + sparse_f[k];
        const T *row = p->A + i * N;
        for (int j = first_f[k]; j < stop_f[k]; j++) {
            const T by = p->weight_a[i] * row[j];
            g[j] -= by * p->b[i];
            for (int l = j; l < stop_f[k]; l++) H[j * STRIDE + l] += by * row[l];
        }
    }
    if (HELD < EQUALITIES)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < i; j++) H[i * STRIDE + j] = H[j * STRIDE + i];
}

/* Slack and multipliers of the rows behind HELD. */
static void unfold(const Problem *p, const Solution *s, const T *F, const T *x) {
    for (int k = 0; k < DENSE_F; k++) {
        V sum = all(splat(0));
        EACH_CHUNK(STRIDE) sum += chunk(F + k * STRIDE + i) * chunk(x + i);
        s->slack_a[HELD + dense_f[k]] = sum_of(sum);
    }
    for (int k = 0; k < SPARSE_F; k++) {
        const int i = HELD + sparse_f[k];
        s->slack_a[i] = splat(0);
        for (int j = first_f[k]; j < stop_f[k]; j++) s->slack_a[i] += p->A[i * N + j] * x[j];
    }
    for (int i = HELD; i < EQUALITIES; i++) {
        const I on = MASK(p->weight_a[i] > 0);
        s->slack_a[i] = where(on, p->b[i] - s->slack_a[i], splat(0));
        s->y[i] = p->weight_a[i] * s->slack_a[i];
    }
}
