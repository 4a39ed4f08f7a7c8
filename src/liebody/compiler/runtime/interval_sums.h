/* Sums of products of intervals, on which nearly all the time of a proof is spent. Behind
   interval.h, and behind the number of DIRECTIONS of derivatives.

   A row is as many intervals as there are directions, or one more, so that their number is even.
   Where the processor has vectors of four doubles (AVX), two intervals are multiplied at once;
   on other processors, and in 80 bits, one by one. */
#define WIDTH (DIRECTIONS + DIRECTIONS % 2)
typedef Interval Row[WIDTH];

/* Adds x y_i to z_i for i < d. The sign of x is looked at once for all i: where x >= 0, the lower
   bound of x y is one of the two multiples of the lower bound of y, and so for the upper bounds. */
static inline void add_multiples(Interval x, const Interval *restrict y, Interval *restrict z,
                                 int d) {
    if (x.minus <= 0.0) {
        Scalar lower = -x.minus;
        for (int i = 0; i < d; i++) {
            z[i].minus += larger(lower * y[i].minus, x.upper * y[i].minus);
            z[i].upper += larger(lower * y[i].upper, x.upper * y[i].upper);
        }
    } else if (x.upper <= 0.0) { /* -x >= 0 times -y */
        Scalar lower = -x.upper;
        for (int i = 0; i < d; i++) {
            z[i].minus += larger(lower * y[i].upper, x.minus * y[i].upper);
            z[i].upper += larger(lower * y[i].minus, x.minus * y[i].minus);
        }
    } else {
        for (int i = 0; i < d; i++) z[i] = plus(z[i], times(x, y[i]));
    }
}

/* GCC aligns stacks to 16 bytes on Windows, too few for these vectors: its bug 54412. */
#if defined(__AVX__) && !defined(EXTENDED) && !(defined(_WIN32) && !defined(__clang__))
#include <immintrin.h>
typedef __m256d Lanes;

static inline Lanes all_lanes(double x) { return (Lanes){x, x, x, x}; }
static inline Lanes two_intervals(const Interval *x) { return _mm256_loadu_pd(&x->minus); }
static inline Lanes larger_lanes(Lanes x, Lanes y) { return _mm256_max_pd(x, y); }
static inline Lanes exchanged(Lanes x) { return _mm256_permute_pd(x, 5); } /* their bounds */

/* The sum of x_j y_(-j) for j from 0 to n - 1.

   Let X = (x-, x+) be an interval as it is kept, and X' = (x+, x-). The eight products of bounds
   in `times` are the entries of X Y' and -X Y, whose largest one is the first bound, and of X Y
   and -X Y', whose largest one is the second. Each vector has the terms j and j + 1. */
static inline Interval convolved(const Interval *x, const Interval *y, int n) {
    Lanes sum = all_lanes(0.0);
    int j = 0;
    for (; j + 2 <= n; j += 2) {
        Lanes X = two_intervals(x + j), behind = two_intervals(y - j - 1);
        Lanes Y = _mm256_permute2f128_pd(behind, behind, 1), turned = exchanged(Y);
        Lanes first = larger_lanes(X * turned, -X * Y), second = larger_lanes(X * Y, -X * turned);
        sum += larger_lanes(_mm256_unpacklo_pd(first, second), _mm256_unpackhi_pd(first, second));
    }
    Interval z = {sum[0] + sum[2], sum[1] + sum[3]};
    return j < n ? plus(z, times(x[j], y[-j])) : z;
}

#define EACH_BLOCK _Pragma("GCC unroll 16") for (int i = 0; i < WIDTH / 2; i++)

/* As `add_multiples`, for a whole row in vectors. With x- and x+ in all lanes, the bounds of x Y
   are the largest of x- Y', -x- Y, x+ Y and -x+ Y'. */
static inline __attribute__((always_inline)) void add_lanes(Interval x, const Interval *y,
                                                            Lanes *sum) {
    Lanes minus = all_lanes(x.minus), upper = all_lanes(x.upper);
    if (x.minus <= 0.0) {
        EACH_BLOCK {
            Lanes Y = two_intervals(y + 2 * i);
            sum[i] += larger_lanes(-minus * Y, upper * Y);
        }
    } else if (x.upper <= 0.0) {
        EACH_BLOCK {
            Lanes turned = exchanged(two_intervals(y + 2 * i));
            sum[i] += larger_lanes(minus * turned, -upper * turned);
        }
    } else {
        EACH_BLOCK {
            Lanes Y = two_intervals(y + 2 * i), turned = exchanged(Y);
            sum[i] += larger_lanes(larger_lanes(minus * turned, -minus * Y),
                                   larger_lanes(upper * Y, -upper * turned));
        }
    }
}

/* Sums of whole rows; see `convolved_rows`. */
static inline void convolved_whole_rows(Interval *sum, const Interval *x, const Row *X,
                                        const Interval *y, const Row *Y, int n) {
    Lanes blocks[WIDTH / 2 + 1];
    EACH_BLOCK blocks[i] = all_lanes(0.0);
    for (int j = 0; j < n; j++) {
        add_lanes(x[j], Y[-j], blocks);
        add_lanes(y[-j], X[j], blocks);
    }
    memcpy(sum, blocks, sizeof(Row));
}
#define WHOLE_ROWS_IN_LANES
#else
static inline Interval convolved(const Interval *x, const Interval *y, int n) {
    Interval sum = {0.0, 0.0};
    for (int j = 0; j < n; j++) sum = plus(sum, times(x[j], y[-j]));
    return sum;
}

#endif

/* The sum of x_j Y_(-j) + y_(-j) X_j for j from 0 to n - 1, with d entries of the rows X and Y. */
static inline void convolved_rows(Interval *sum, const Interval *x, const Row *X, const Interval *y,
                                  const Row *Y, int n, int d) {
    if (d == 0) return;
#ifdef WHOLE_ROWS_IN_LANES
    if (d == WIDTH) {
        convolved_whole_rows(sum, x, X, y, Y, n);
        return;
    }
#endif
    for (int i = 0; i < d; i++) sum[i] = (Interval){0.0, 0.0};
    for (int j = 0; j < n; j++) {
        add_multiples(x[j], Y[-j], sum, d);
        add_multiples(y[-j], X[j], sum, d);
    }
}
