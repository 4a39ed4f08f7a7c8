/* Arithmetic of arrays of intervals, each (-lower, upper), for proofs. Behind interval.h. */
#define EACH for (int64_t i = 0; i < n; i++)

APART void combine_apart(int op, int64_t n, const Interval *x, const Interval *y, Interval *z) {
    switch (op) {
    case 0:
        EACH z[i] = plus(x[i], y[i]);
        break;
    case 1:
        EACH z[i] = less(x[i], y[i]);
        break;
    case 2:
        EACH z[i] = times(x[i], y[i]);
        break;
    case 3:
        EACH z[i] = over(x[i], y[i]);
        break;
    case 4:
        EACH z[i] = root(x[i]);
        break;
    case 5:
        EACH z[i] = exponential(x[i]);
        break;
    case 6:
        EACH z[i] = logarithm(x[i]);
        break;
    case 7:
        EACH z[i] = arctangent(x[i]);
        break;
    case 8:
        EACH z[i] = angle(x[i], y[i]);
        break;
    case 9:
        EACH sine_and_cosine_of(x[i], &z[2 * i], &z[2 * i + 1]);
        break;
    case 10:
        EACH z[i] = square(x[i]);
        break;
    default:
        failure = UNDEFINED;
    }
}

/* z = x op y, entry by entry. */
int combine(int op, int64_t n, const Scalar *x, const Scalar *y, Scalar *z) {
    ENTER
    if (!failure) combine_apart(op, n, (const Interval *)x, (const Interval *)y, (Interval *)z);
    LEAVE
}

/* A number times an interval. */
static inline Interval multiple(Scalar y, Interval x) {
    Scalar minus = y >= 0.0 ? x.minus : x.upper, upper = y >= 0.0 ? x.upper : x.minus;
    Scalar size = fabs(y);
    return (Interval){size * minus, size * upper};
}

APART void multiplied_apart(int64_t n, int64_t m, int64_t p, const Scalar *Y, const Interval *x,
                            Interval *z) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < p; j++) {
            Interval sum = point(0.0);
            for (int64_t k = 0; k < m; k++) sum = plus(sum, multiple(Y[i * m + k], x[k * p + j]));
            z[i * p + j] = sum;
        }
}

/* z (n, p) = Y x for numbers Y (n, m) and intervals x (m, p). */
int multiplied(int64_t n, int64_t m, int64_t p, const Scalar *Y, const Scalar *x, Scalar *z) {
    ENTER
    if (!failure) multiplied_apart(n, m, p, Y, (const Interval *)x, (Interval *)z);
    LEAVE
}

APART void product_apart(int64_t n, int64_t m, int64_t p, const Interval *x, const Interval *y,
                         Interval *z) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < p; j++) {
            Interval sum = point(0.0);
            for (int64_t k = 0; k < m; k++) sum = plus(sum, times(x[i * m + k], y[k * p + j]));
            z[i * p + j] = sum;
        }
}

/* z (n, p) = x y for matrices of intervals x (n, m) and y (m, p). */
int product(int64_t n, int64_t m, int64_t p, const Scalar *x, const Scalar *y, Scalar *z) {
    ENTER
    if (!failure) product_apart(n, m, p, (const Interval *)x, (const Interval *)y, (Interval *)z);
    LEAVE
}

/* -- the probe: sums, products, quotients and roots as the functions above compile them -------- */

/* [|x|, 8 |x|], or with the opposite signs: each bound of a product of two of these is that of
   another pair of bounds. */
static Interval away_from_zero(Scalar x, int negative) {
    Interval wide = between(fabs(x), 8.0 * fabs(x));
    return negative ? opposite(wide) : wide;
}

APART void probe_apart(int64_t n, const Scalar *x, const Scalar *y, Interval *z) {
    EACH {
        *z++ = plus(point(x[i]), point(y[i]));
        *z++ = less(point(x[i]), point(y[i]));
        *z++ = over(point(x[i]), point(y[i]));
        *z++ = root(point(fabs(x[i])));
        *z++ = multiple(x[i], point(y[i]));
        for (int s = 0; s < 4; s++) {
            Interval a = away_from_zero(x[i], s & 1), b = away_from_zero(y[i], s & 2);
            *z++ = times(a, b);
        }
        for (int s = 0; s < 4; s++) { /* the same, beside products of zeros */
            Interval a[2] = {away_from_zero(x[i], s & 1), point(0.0)};
            Interval b[2] = {point(0.0), away_from_zero(y[i], s & 2)};
            *z++ = convolved(a, b + 1, 2);
        }
        for (int s = 0; s < 4; s++) {
            Interval a = away_from_zero(x[i], s & 1), b = away_from_zero(y[i], s & 2);
            Row zero[1], row[1], sum;
            for (int k = 0; k < WIDTH; k++) {
                zero[0][k] = point(0.0);
                row[0][k] = b;
            }
            convolved_rows(sum, &a, zero, &b, row, 1, WIDTH);
            *z++ = WIDTH ? sum[WIDTH - 1] : times(a, b);
        }
    }
}

/* Seventeen results for each pair of numbers, y not zero. */
int probe(int64_t n, const Scalar *x, const Scalar *y, Scalar *z) {
    ENTER
    if (!failure) probe_apart(n, x, y, (Interval *)z);
    LEAVE
}
