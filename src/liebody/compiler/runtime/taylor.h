/* Taylor coefficients of a motion, each with its derivatives along some directions. Behind
   interval.h.

   A Number is a value with derivatives along `d` directions, d <= DIRECTIONS (which the printer
   defines), by the rules of sums and products. A series has a Number for each power of time, up to
   LENGTH of them. Each function below computes the coefficient k of a result from the coefficients
   up to k of its operands and those below k of itself: the recurrences of Moore (1966), Griewank
   and Walther (2008), table 13.2. All is done in intervals, so that coefficients at one state are
   those of all states in a box, and derivatives too. */
typedef struct {
    Interval v[1 + DIRECTIONS];
} Number;
typedef Number Series[LENGTH];

static inline Number zero_number(int d) {
    Number z;
    for (int i = 0; i <= d; i++) z.v[i] = (Interval){0.0, 0.0};
    return z;
}

static inline Number number_plus(Number a, const Number *b, int d) {
    for (int i = 0; i <= d; i++) a.v[i] = plus(a.v[i], b->v[i]);
    return a;
}

static inline Number number_less(Number a, const Number *b, int d) {
    for (int i = 0; i <= d; i++) a.v[i] = less(a.v[i], b->v[i]);
    return a;
}

/* z_i + x y_i for i from 1 to d, where the sign of x is looked at once: of x >= 0 the bounds of a
   product are those of multiples of the same bound of y. */
static inline void add_multiples(Interval x, const Interval *y, Interval *z, int d) {
    if (DIRECTIONS == 0) return;
    if (x.minus <= 0.0) {
        Scalar lower = -x.minus;
        for (int i = 1; i <= d; i++) {
            z[i].minus += larger(lower * y[i].minus, x.upper * y[i].minus);
            z[i].upper += larger(lower * y[i].upper, x.upper * y[i].upper);
        }
    } else if (x.upper <= 0.0) { /* -x >= 0 times -y */
        Scalar lower = -x.upper;
        for (int i = 1; i <= d; i++) {
            z[i].minus += larger(lower * y[i].upper, x.minus * y[i].upper);
            z[i].upper += larger(lower * y[i].minus, x.minus * y[i].minus);
        }
    } else {
        for (int i = 1; i <= d; i++) z[i] = plus(z[i], times(x, y[i]));
    }
}

/* sum + a b */
static inline void add_product(Number *sum, const Number *a, const Number *b, int d) {
    sum->v[0] = plus(sum->v[0], times(a->v[0], b->v[0]));
    add_multiples(a->v[0], b->v, sum->v, d);
    add_multiples(b->v[0], a->v, sum->v, d);
}

/* rest - a b */
static inline void subtract_product(Number *rest, const Number *a, const Number *b, int d) {
    rest->v[0] = less(rest->v[0], times(a->v[0], b->v[0]));
    add_multiples(opposite(a->v[0]), b->v, rest->v, d);
    add_multiples(opposite(b->v[0]), a->v, rest->v, d);
}

static inline Number number_scaled(Number a, Interval s, int d) {
    for (int i = 0; i <= d; i++) a.v[i] = times(a.v[i], s);
    return a;
}

static inline Number number_shared(Number a, Scalar by, int d) { /* a / by, by > 0 */
    for (int i = 0; i <= d; i++) a.v[i] = over(a.v[i], point(by));
    return a;
}

/* q b = a, so q' b + q b' = a'. */
static inline Number number_over(const Number *a, const Number *b, int d) {
    Number q;
    q.v[0] = over(a->v[0], b->v[0]);
    for (int i = 1; i <= d; i++) q.v[i] = over(less(a->v[i], times(q.v[0], b->v[i])), b->v[0]);
    return q;
}

/* A function with this value and this slope at a. */
static inline Number number_along(const Number *a, Interval value, Interval slope, int d) {
    Number f;
    f.v[0] = value;
    for (int i = 1; i <= d; i++) f.v[i] = times(slope, a->v[i]);
    return f;
}

/* The sum of j a_j b_(k - j) for j from 1 to `last`. */
static Number weighted(const Series a, const Series b, int k, int last, int d) {
    Number sum = zero_number(d);
    for (int j = 1; j <= last; j++) {
        Number multiple = a[j];
        for (int i = 0; i <= d; i++) multiple.v[i] = scaled(multiple.v[i], j);
        add_product(&sum, &multiple, &b[k - j], d);
    }
    return sum;
}

static void series_constant(Series y, Interval c, int k, int d) {
    y[k] = zero_number(d);
    if (k == 0) y[0].v[0] = c;
}

static void series_shift(Series y, const Series a, Interval c, int k, int d) {
    y[k] = a[k];
    if (k == 0) y[0].v[0] = plus(y[0].v[0], c);
    (void)d;
}

static void series_scale(Series y, const Series a, Interval c, int k, int d) {
    y[k] = number_scaled(a[k], c, d);
}

static void series_plus(Series y, const Series a, const Series b, int k, int d) {
    y[k] = number_plus(a[k], &b[k], d);
}

static void series_less(Series y, const Series a, const Series b, int k, int d) {
    y[k] = number_less(a[k], &b[k], d);
}

static void series_opposite(Series y, const Series a, int k, int d) {
    for (int i = 0; i <= d; i++) y[k].v[i] = opposite(a[k].v[i]);
}

static void series_times(Series y, const Series a, const Series b, int k, int d) {
    Number sum = zero_number(d);
    for (int j = 0; j <= k; j++) add_product(&sum, &a[j], &b[k - j], d);
    y[k] = sum;
}

/* Twice the products of unequal coefficients, and the square in the middle for an even k. */
static void series_square(Series y, const Series a, int k, int d) {
    Number sum = zero_number(d);
    for (int j = 0; 2 * j < k; j++) add_product(&sum, &a[j], &a[k - j], d);
    for (int i = 0; i <= d; i++) sum.v[i] = scaled(sum.v[i], 2.0);
    if (k % 2 == 0) {
        const Number *middle = &a[k / 2];
        sum.v[0] = plus(sum.v[0], square(middle->v[0]));
        for (int i = 1; i <= d; i++)
            sum.v[i] = plus(sum.v[i], scaled(times(middle->v[0], middle->v[i]), 2.0));
    }
    y[k] = sum;
}

static void series_over(Series y, const Series a, const Series b, int k, int d) {
    Number rest = a[k];
    for (int j = 0; j < k; j++) subtract_product(&rest, &y[j], &b[k - j], d);
    y[k] = number_over(&rest, &b[0], d);
}

/* y^2 = a */
static void series_root(Series y, const Series a, int k, int d) {
    if (k == 0) {
        Interval s = root(a[0].v[0]);
        y[0] = a[0]; /* d = 0 needs no slope, which the root of zero lacks */
        y[0].v[0] = s;
        for (int i = 1; i <= d; i++) y[0].v[i] = over(a[0].v[i], scaled(s, 2.0));
        return;
    }
    Number rest = a[k], twice = y[0];
    for (int j = 1; j < k; j++) subtract_product(&rest, &y[j], &y[k - j], d);
    for (int i = 0; i <= d; i++) twice.v[i] = scaled(twice.v[i], 2.0);
    y[k] = number_over(&rest, &twice, d);
}

/* y' = y a' */
static void series_exponential(Series y, const Series a, int k, int d) {
    if (k == 0) {
        Interval e = exponential(a[0].v[0]);
        y[0] = number_along(&a[0], e, e, d);
        return;
    }
    y[k] = number_shared(weighted(a, y, k, k, d), k, d);
}

/* a y' = a' */
static void series_logarithm(Series y, const Series a, int k, int d) {
    if (k == 0) {
        y[0] = number_along(&a[0], logarithm(a[0].v[0]), over(point(1.0), a[0].v[0]), d);
        return;
    }
    Number sum = number_shared(weighted(y, a, k, k - 1, d), k, d);
    Number rest = number_less(a[k], &sum, d);
    y[k] = number_over(&rest, &a[0], d);
}

/* s' = c a', c' = -s a' */
static void series_sine_and_cosine(Series s, Series c, const Series a, int k, int d) {
    if (k == 0) {
        Interval sine, cosine;
        sine_and_cosine_of(a[0].v[0], &sine, &cosine);
        s[0] = number_along(&a[0], sine, cosine, d);
        c[0] = number_along(&a[0], cosine, opposite(sine), d);
        return;
    }
    s[k] = number_shared(weighted(a, c, k, k, d), k, d);
    Number sum = number_shared(weighted(a, s, k, k, d), k, d);
    for (int i = 0; i <= d; i++) c[k].v[i] = opposite(sum.v[i]);
}

/* r w' = x y' - y x' for the angle w of (x, y), r = x^2 + y^2 */
static void series_angle(Series w, const Series y, const Series x, const Series r, int k, int d) {
    if (k == 0) {
        Number a = zero_number(d), b = a;
        for (int i = 1; i <= d; i++) { /* x y_i - y x_i */
            a.v[i] = times(x[0].v[0], y[0].v[i]);
            b.v[i] = times(y[0].v[0], x[0].v[i]);
            w[0].v[i] = over(less(a.v[i], b.v[i]), r[0].v[0]);
        }
        w[0].v[0] = angle(y[0].v[0], x[0].v[0]);
        return;
    }
    Number sum = weighted(y, x, k, k, d), other = weighted(x, y, k, k, d);
    Number own = weighted(w, r, k, k - 1, d);
    sum = number_less(sum, &other, d);
    sum = number_shared(number_less(sum, &own, d), k, d);
    w[k] = number_over(&sum, &r[0], d);
}
