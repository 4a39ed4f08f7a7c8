/* Taylor coefficients of a motion, each with its derivatives along some directions. Behind
   interval_sums.h.

   A Number is a value with derivatives along `d` directions, an even number up to WIDTH, by the
   rules of sums and products. A series has a Number for each power of time, up to LENGTH of
   them; its values stand side by side, and so do the derivatives of each. Each function below
   computes the coefficient k of a result from the coefficients up to k of its operands and those
   below k of itself: the recurrences of Moore (1966), Griewank and Walther (2008), table 13.2.
   All is done in intervals, so that coefficients at one state are those of all states in a box,
   and derivatives too. */
typedef struct {
    Interval v[1 + WIDTH];
} Number;

typedef struct {
    Interval value[LENGTH];
    Row along[LENGTH];
} Series;

static inline void read_number(Number *z, const Series *s, int k, int d) {
    z->v[0] = s->value[k];
    for (int i = 0; i < d; i++) z->v[1 + i] = s->along[k][i];
}

static inline void write_number(Series *s, int k, const Number *x, int d) {
    s->value[k] = x->v[0];
    for (int i = 0; i < d; i++) s->along[k][i] = x->v[1 + i];
}

static inline void set_zero(Number *z, int d) {
    for (int i = 0; i <= d; i++) z->v[i] = (Interval){0.0, 0.0};
}

/* z + x, x - z, -z, z s and z / by, in place of z */
static inline void number_plus(Number *z, const Number *x, int d) {
    for (int i = 0; i <= d; i++) z->v[i] = plus(z->v[i], x->v[i]);
}

static inline void number_taken_from(Number *z, const Number *x, int d) {
    for (int i = 0; i <= d; i++) z->v[i] = less(x->v[i], z->v[i]);
}

static inline void number_opposite(Number *z, int d) {
    for (int i = 0; i <= d; i++) z->v[i] = opposite(z->v[i]);
}

static inline void number_times(Number *z, Interval s, int d) {
    for (int i = 0; i <= d; i++) z->v[i] = times(z->v[i], s);
}

static inline void number_scaled(Number *z, Scalar positive, int d) {
    for (int i = 0; i <= d; i++) z->v[i] = scaled(z->v[i], positive);
}

static inline void number_shared(Number *z, Scalar by, int d) { /* by > 0 */
    for (int i = 0; i <= d; i++) z->v[i] = over(z->v[i], point(by));
}

/* q in place of z, with q b = z; so q' b + q b' = z' */
static inline void number_over(Number *z, const Number *b, int d) {
    Interval q = over(z->v[0], b->v[0]);
    z->v[0] = q;
    for (int i = 1; i <= d; i++) z->v[i] = over(less(z->v[i], times(q, b->v[i])), b->v[0]);
}

/* A function of z with this value and this slope there, in place of z. */
static inline void number_along(Number *z, Interval value, Interval slope, int d) {
    z->v[0] = value;
    for (int i = 1; i <= d; i++) z->v[i] = times(slope, z->v[i]);
}

/* The sum of a_j b_(k - j) for j from `first` to `last`. */
static void products(Number *sum, const Series *a, const Series *b, int k, int first, int last,
                     int d) {
    set_zero(sum, d);
    int n = last - first + 1, j = k - first;
    if (n <= 0) return;
    sum->v[0] = convolved(a->value + first, b->value + j, n);
    convolved_rows(sum->v + 1, a->value + first, a->along + first, b->value + j, b->along + j, n,
                   d);
}

/* The sum of j a_j b_(k - j) for j from 1 to `last`. */
static void weighted(Number *sum, const Series *a, const Series *b, int k, int last, int d) {
    Interval A[LENGTH], B[LENGTH]; /* j a_j and j b_(k - j) */
    set_zero(sum, d);
    if (last <= 0) return;
    for (int j = 1; j <= last; j++) {
        A[j] = scaled(a->value[j], j);
        B[k - j] = scaled(b->value[k - j], j);
    }
    sum->v[0] = convolved(A + 1, b->value + k - 1, last);
    convolved_rows(sum->v + 1, A + 1, a->along + 1, B + k - 1, b->along + k - 1, last, d);
}

/* -- operations -------------------------------------------------------------------------------- */

#define EACH_DIRECTION for (int i = 0; i < d; i++)

static void series_constant(Series *y, Interval c, int k, int d) {
    y->value[k] = k == 0 ? c : point(0.0);
    EACH_DIRECTION y->along[k][i] = point(0.0);
}

static void series_shift(Series *y, const Series *a, Interval c, int k, int d) {
    y->value[k] = k == 0 ? plus(a->value[0], c) : a->value[k];
    EACH_DIRECTION y->along[k][i] = a->along[k][i];
}

static void series_scale(Series *y, const Series *a, Interval c, int k, int d) {
    y->value[k] = times(a->value[k], c);
    EACH_DIRECTION y->along[k][i] = times(a->along[k][i], c);
}

static void series_plus(Series *y, const Series *a, const Series *b, int k, int d) {
    y->value[k] = plus(a->value[k], b->value[k]);
    EACH_DIRECTION y->along[k][i] = plus(a->along[k][i], b->along[k][i]);
}

static void series_less(Series *y, const Series *a, const Series *b, int k, int d) {
    y->value[k] = less(a->value[k], b->value[k]);
    EACH_DIRECTION y->along[k][i] = less(a->along[k][i], b->along[k][i]);
}

static void series_opposite(Series *y, const Series *a, int k, int d) {
    y->value[k] = opposite(a->value[k]);
    EACH_DIRECTION y->along[k][i] = opposite(a->along[k][i]);
}

static void series_times(Series *y, const Series *a, const Series *b, int k, int d) {
    Number sum;
    products(&sum, a, b, k, 0, k, d);
    write_number(y, k, &sum, d);
}

/* Twice the products of unequal coefficients, and the square in the middle for an even k. */
static void series_square(Series *y, const Series *a, int k, int d) {
    Number sum;
    products(&sum, a, a, k, 0, (k + 1) / 2 - 1, d);
    number_scaled(&sum, 2.0, d);
    if (k % 2 == 0) {
        Interval middle = a->value[k / 2];
        sum.v[0] = plus(sum.v[0], square(middle));
        add_multiples(scaled(middle, 2.0), a->along[k / 2], sum.v + 1, d);
    }
    write_number(y, k, &sum, d);
}

/* y b = a */
static void series_over(Series *y, const Series *a, const Series *b, int k, int d) {
    Number rest, term, divisor;
    products(&rest, y, b, k, 0, k - 1, d);
    read_number(&term, a, k, d);
    read_number(&divisor, b, 0, d);
    number_taken_from(&rest, &term, d);
    number_over(&rest, &divisor, d);
    write_number(y, k, &rest, d);
}

/* y^2 = a */
static void series_root(Series *y, const Series *a, int k, int d) {
    Number rest, term, twice;
    read_number(&term, a, k, d);
    if (k == 0) {
        Interval s = root(term.v[0]);
        term.v[0] = s; /* d = 0 needs no slope, which the root of zero lacks */
        for (int i = 1; i <= d; i++) term.v[i] = over(term.v[i], scaled(s, 2.0));
        write_number(y, 0, &term, d);
        return;
    }
    products(&rest, y, y, k, 1, k - 1, d);
    read_number(&twice, y, 0, d);
    number_scaled(&twice, 2.0, d);
    number_taken_from(&rest, &term, d);
    number_over(&rest, &twice, d);
    write_number(y, k, &rest, d);
}

/* y' = y a' */
static void series_exponential(Series *y, const Series *a, int k, int d) {
    Number z;
    if (k == 0) {
        read_number(&z, a, 0, d);
        Interval e = exponential(z.v[0]);
        number_along(&z, e, e, d);
    } else {
        weighted(&z, a, y, k, k, d);
        number_shared(&z, k, d);
    }
    write_number(y, k, &z, d);
}

/* a y' = a' */
static void series_logarithm(Series *y, const Series *a, int k, int d) {
    Number z, term, divisor;
    read_number(&term, a, k, d);
    if (k == 0) {
        z = term;
        number_along(&z, logarithm(z.v[0]), over(point(1.0), z.v[0]), d);
    } else {
        weighted(&z, y, a, k, k - 1, d);
        number_shared(&z, k, d);
        number_taken_from(&z, &term, d);
        read_number(&divisor, a, 0, d);
        number_over(&z, &divisor, d);
    }
    write_number(y, k, &z, d);
}

/* s' = c a', c' = -s a' */
static void series_sine_and_cosine(Series *s, Series *c, const Series *a, int k, int d) {
    Number sine, cosine;
    if (k == 0) {
        Interval S, C;
        read_number(&sine, a, 0, d);
        read_number(&cosine, a, 0, d);
        sine_and_cosine_of(a->value[0], &S, &C);
        number_along(&sine, S, C, d);
        number_along(&cosine, C, opposite(S), d);
    } else {
        weighted(&sine, a, c, k, k, d);
        weighted(&cosine, a, s, k, k, d);
        number_shared(&sine, k, d);
        number_shared(&cosine, k, d);
        number_opposite(&cosine, d);
    }
    write_number(s, k, &sine, d);
    write_number(c, k, &cosine, d);
}

/* r w' = x y' - y x' for the angle w of (x, y), r = x^2 + y^2 */
static void series_angle(Series *w, const Series *y, const Series *x, const Series *r, int k,
                         int d) {
    if (k == 0) {
        w->value[0] = angle(y->value[0], x->value[0]);
        EACH_DIRECTION { /* x y_i - y x_i */
            Interval a = times(x->value[0], y->along[0][i]), b = times(y->value[0], x->along[0][i]);
            w->along[0][i] = over(less(a, b), r->value[0]);
        }
        return;
    }
    Number rest, other, first, divisor;
    weighted(&rest, w, r, k, k - 1, d);
    weighted(&other, x, y, k, k, d);
    weighted(&first, y, x, k, k, d);
    number_plus(&rest, &other, d);
    number_taken_from(&rest, &first, d);
    number_shared(&rest, k, d);
    read_number(&divisor, r, 0, d);
    number_over(&rest, &divisor, d);
    write_number(w, k, &rest, d);
}
