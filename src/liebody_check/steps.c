/* Steps of motions y' = f(y), with all errors: the part of liebody_check that takes time, in C.

   A ball (h, l, r) is the set of all numbers within r of h + l, where |l| <= 2^-53 |h|. All operations
   round to the nearest; what they lose is added to r. Let u = 2^-53, and let p_1, ..., p_n be the products
   (or single numbers) of a sum of n <= 130 terms. A sum of s and c is made by these transformations, which
   are exact (Knuth 1969; Dekker 1971):

       a + b = s + t,  s = fl(a + b),  |t| <= u |s|;     a b = p + e,  p = fl(a b),  |e| <= u |p|.

   For each term three products and sums of numbers of size 4 u |p| or less, and t, |t| <= u sum |p|, go into
   c by five rounded operations: |c| <= 1.01 (n + 4) u sum |p|, and what is lost is at most

       5 n u max |c|, and u^2 |p| for a product l l that is left out: together below 2^-89 sum |p|.

   So each ball is made wider than it needs to be, by SHARE |h| = 2^-87 |h|. Where it is a term or a factor
   later, the part 2^-88 |p| of the sum's r pays for the rounding of this sum. Sums of numbers that are not
   negative, r itself, lose less than 2^-41 of themselves (MORE). Products below 2^-1022 lose less than 2^-1070
   each (LITTLE). A number out of range becomes infinite or NaN, and so do all results made of it: all
   comparisons are false for NaN.
*/
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__FAST_MATH__) || \
    !(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 16)
#error "doubles are not evaluated as doubles of IEEE 754"
#endif

typedef struct {
    double h, l, r;
} ball;

/* An unfinished ball. */
typedef struct {
    double s, c, r;
} sum;

#define SHARE 0x1p-87
#define LITTLE 0x1p-1000
#define MORE (1.0 + 0x1p-40)
#define LESS (1.0 - 0x1p-40)

/* -- balls ------------------------------------------------------------------------------------- */

static inline double two_sum(double a, double b, double *t) {
    double s = a + b;
    double part = s - a;
    *t = (a - (s - part)) + (b - part);
    return s;
}

static inline double two_product(double a, double b, double *e) {
    double p = a * b;
    *e = __builtin_fma(a, b, -p);
    return p;
}

/* The ball around s + c, for c known but for what SHARE pays. */
static inline ball made(double s, double c, double r) {
    ball x;
    x.h = two_sum(s, c, &x.l);
    x.r = r * MORE + fabs(x.h) * SHARE + LITTLE;
    return x;
}

static inline ball number(double x) { return made(x, 0.0, 0.0); }

static inline ball zero(void) {
    ball x = {0.0, 0.0, 0.0};
    return x;
}

static inline ball undefined(void) {
    ball x = {NAN, NAN, NAN};
    return x;
}

static inline ball middle(ball x) { return made(x.h, x.l, 0.0); }

static inline ball wider(ball x, double r) { return made(x.h, x.l, x.r + r); }

static inline ball opposite(ball x) {
    ball z = {-x.h, -x.l, x.r};
    return z;
}

/* An upper and a lower bound of |x|; the lower one may be negative. */
static inline double largest(ball x) { return (fabs(x.h) + x.r) * MORE; }

static inline double smallest(ball x) {
    double z = fabs(x.h) * LESS - x.r;
    return z > 0.0 ? z * LESS : z;
}

static inline int sign_of(ball x) { return smallest(x) > 0.0 ? (x.h > 0.0 ? 1 : -1) : 0; }

static inline int is_finite(ball x) { return isfinite(x.h) && isfinite(x.l) && isfinite(x.r); }

static inline void add(sum *z, ball x) {
    double t;
    z->s = two_sum(z->s, x.h, &t);
    z->c += t + x.l;
    z->r += x.r;
}

static inline void add_product(sum *z, ball x, ball y) {
    double e, t;
    double p = two_product(x.h, y.h, &e);
    z->s = two_sum(z->s, p, &t);
    double c = __builtin_fma(x.h, y.l, e + t);
    z->c += __builtin_fma(x.l, y.h, c);
    z->r += fabs(x.h) * y.r + x.r * (fabs(y.h) + y.r);
}

static inline ball finished(sum z) { return made(z.s, z.c, z.r); }

static ball plus(ball x, ball y) {
    sum z = {0.0, 0.0, 0.0};
    add(&z, x);
    add(&z, y);
    return finished(z);
}

static ball minus(ball x, ball y) { return plus(x, opposite(y)); }

static ball times(ball x, ball y) {
    sum z = {0.0, 0.0, 0.0};
    add_product(&z, x, y);
    return finished(z);
}

/* x k, and x / k, for a whole number k > 0. */
static ball multiple(ball x, double k) {
    double e;
    double p = two_product(x.h, k, &e);
    return made(p, __builtin_fma(x.l, k, e), x.r * k);
}

static ball divided(ball x, double k) {
    double q = x.h / k;
    double rest = __builtin_fma(-q, k, x.h);
    return made(q, (rest + x.l) / k, x.r / k);
}

/* 1/x: for m near it, 1/x - m = m E / (1 - E) with E = 1 - x m. */
static ball inverse(ball x) {
    double q = 1.0 / x.h;
    ball m = made(q, q * (__builtin_fma(-q, x.h, 1.0) - q * x.l), 0.0);
    double error = largest(minus(number(1.0), times(x, m)));
    if (!(error < 1.0)) return undefined();
    return wider(m, largest(m) * error / (1.0 - error));
}

/* For m near it, sqrt(x) - m = (x - m^2) / (sqrt(x) + m). */
static ball root(ball x) {
    if (!(x.h > 0.0 && smallest(x) > 0.0)) return undefined();
    double s = sqrt(x.h);
    ball m = made(s, (__builtin_fma(-s, s, x.h) + x.l) / (2.0 * s), 0.0);
    double error = largest(minus(x, times(m, m)));
    return wider(m, error / ((sqrt(smallest(x)) + smallest(m)) * LESS));
}

/* -- elementary functions -----------------------------------------------------------------------

   Each is computed for the middle of a ball. What its values differ from that over the ball is bounded by
   the mean value theorem. Guesses by the C library are only guesses. */

static const ball LN2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56, 0x1p-87};
static const ball HALF_PI = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, 0x1p-86};

/* e^x = 2^k e^z with |z| < 1/2: the sum of z^n / n! for n <= 26, and less than 2^-116 more. */
static ball exponential(ball x) {
    if (!(largest(x) < 700.0)) return undefined();
    double k = rint(x.h / LN2.h);
    sum rest = {0.0, 0.0, 0.0};
    add(&rest, middle(x));
    add_product(&rest, number(-k), LN2);
    ball z = finished(rest);
    if (!(largest(z) < 0.5)) return undefined();
    ball y = number(1.0);
    for (int n = 26; n > 0; n--) y = plus(number(1.0), divided(times(z, y), n));
    y = wider(y, 0x1p-116);
    double power = ldexp(1.0, (int)k);
    y = made(y.h * power, y.l * power, y.r * power);
    /* |e^(x + d) - e^x| <= e^x |d| e^|d|, and e^|d| <= 1 / (1 - |d|) */
    double d = x.r;
    if (d < 0.5) return wider(y, largest(y) * d / (1.0 - d));
    return wider(y, largest(y) * d * largest(exponential(number(d))));
}

/* sin x and cos x: x = k pi/2 + z with |z| < 1, and sums up to z^28 / 28!, and less than 2^-102 more. */
static void sine_and_cosine(ball x, ball *sine, ball *cosine) {
    *sine = *cosine = undefined();
    if (!(fabs(x.h) < 0x1p20)) return;
    double k = rint(x.h / HALF_PI.h);
    sum rest = {0.0, 0.0, 0.0};
    add(&rest, middle(x));
    add_product(&rest, number(-k), HALF_PI);
    ball z = finished(rest);
    if (!(largest(z) < 1.0)) return;
    ball w = opposite(times(z, z));
    ball even = number(1.0), odd = number(1.0);
    for (int n = 28; n > 0; n -= 2) {
        even = plus(number(1.0), divided(times(w, even), n * (n - 1)));
        odd = plus(number(1.0), divided(times(w, odd), n * (n + 1)));
    }
    ball s = wider(times(z, odd), 0x1p-102), c = wider(even, 0x1p-102);
    int quarter = (int)k & 3;
    if (quarter == 1 || quarter == 3) {
        ball other = s;
        s = c;
        c = opposite(other);
    }
    if (quarter >= 2) {
        s = opposite(s);
        c = opposite(c);
    }
    /* |sin(x + d) - sin x| <= |cos x| |d| + d^2/2, and so for the cosine; and <= |d| */
    double d = x.r;
    double of_sine = largest(c) * d + d * d * 0.5, of_cosine = largest(s) * d + d * d * 0.5;
    *sine = wider(s, of_sine < d ? of_sine : d);
    *cosine = wider(c, of_cosine < d ? of_cosine : d);
}

/* log x = y + log(1 + d), with y near it, and d = x e^-y - 1: d - d^2/2 + d^3/3, and less than d^4 more. */
static ball logarithm(ball x) {
    double least = smallest(x);
    if (!(x.h > 0.0 && least > 0.0)) return undefined();
    ball y = number(log(x.h));
    ball d = minus(times(middle(x), exponential(opposite(y))), number(1.0));
    if (!(largest(d) < 0x1p-26)) return undefined();
    ball tail = minus(divided(times(d, d), 3.0), divided(d, 2.0));
    ball z = wider(plus(y, plus(d, times(d, tail))), 0x1p-104);
    return wider(z, x.r / least);
}

/* The angle of the middle of (x, y): w + atan(z), with w near it, and z the slope in axes turned by w. */
static ball angle_of_middle(ball y, ball x) {
    ball sine, cosine;
    ball w = number(atan2(y.h, x.h));
    y = middle(y);
    x = middle(x);
    sine_and_cosine(w, &sine, &cosine);
    ball along = plus(times(x, cosine), times(y, sine));
    ball across = minus(times(y, cosine), times(x, sine));
    if (!(sign_of(along) > 0)) return undefined();
    ball z = times(across, inverse(along));
    if (!(largest(z) < 0x1p-26)) return undefined();
    ball cube = times(z, divided(times(z, z), 3.0));
    ball result = wider(plus(w, minus(z, cube)), 0x1p-120);
    /* which of the angles that differ by 2 pi: the one within pi/2 of the half plane's middle */
    return fabs(result.h - sign_of(y) * HALF_PI.h) < 2.0 ? result : undefined();
}

/* The angle w of (x, y), away from the negative half of the first axis: dw = (x dy - y dx) / (x^2 + y^2). */
static ball angle(ball y, ball x) {
    if (!(sign_of(x) > 0 || sign_of(y) != 0)) return undefined();
    double least_x = smallest(x), least_y = smallest(y);
    double least =
        (least_x > 0.0 ? least_x * least_x : 0.0) + (least_y > 0.0 ? least_y * least_y : 0.0);
    if (!(least > 0.0)) return undefined();
    return wider(angle_of_middle(y, x), (largest(x) * y.r + largest(y) * x.r) / (least * LESS));
}

static ball tangent(ball x) {
    ball sine, cosine;
    sine_and_cosine(middle(x), &sine, &cosine);
    double c = smallest(cosine), d = x.r;
    if (!(c - d > 0.0)) return undefined();
    /* |tan(x + d) - tan x| = |sin d| / |cos x cos(x + d)| */
    return wider(times(sine, inverse(cosine)), d / (c * ((c - d) * LESS)));
}

/* asin x, or acos x, whose slopes are at most 1 / sqrt(1 - x^2) */
static ball arc(ball x, int of_cosine) {
    double most = largest(x);
    if (!(most < 1.0)) return undefined();
    ball m = middle(x);
    ball other = root(times(minus(number(1.0), m), plus(number(1.0), m)));
    ball w = of_cosine ? angle_of_middle(other, m) : angle_of_middle(m, other);
    return wider(w, x.r / (sqrt((1.0 - most) * (1.0 + most)) * LESS));
}

enum { EXP, LOG, SIN, COS, TAN, ARCSIN, ARCCOS };

static ball elementary(int function, ball x) {
    ball sine, cosine;
    switch (function) {
    case EXP:
        return exponential(x);
    case LOG:
        return logarithm(x);
    case SIN:
        sine_and_cosine(x, &sine, &cosine);
        return sine;
    case COS:
        sine_and_cosine(x, &sine, &cosine);
        return cosine;
    case TAN:
        return tangent(x);
    case ARCSIN:
        return arc(x, 0);
    case ARCCOS:
        return arc(x, 1);
    default:
        return undefined();
    }
}

/* -- functions as series ------------------------------------------------------------------------

   A function is a list of instructions. Each has as its result a power series of time: of a value, or of
   derivatives in some directions (a row). Coefficients of all instructions are computed together, the k-th
   ones after those before. The first values and rows are the arguments. */

enum { CONSTANT, ADD, SUB, NEG, HALF, MUL, SCALE, INVERSE, ROOT, INTEGRAL, CROSS, ANGLE };
enum { UNIT, ADD_ROWS, SUB_ROWS, NEG_ROW, COMBINE };

typedef struct {
    int op;
    int still; /* 1: only the coefficient 0 is not zero */
    int a, b, c, d;
} instruction;

/* COMBINE: row a + value b times row `of_b` + value c times row `of_c`, each of them or none (-1) */
typedef struct {
    int op;
    int a, b, of_b, c, of_c;
} row_instruction;

/* results: of each its value and its row (-1: zero) */
typedef struct {
    int inputs, values, rows, outputs;
    const instruction *value;
    const row_instruction *row;
    const int *results;
} function;

#define BLOCK 4
typedef double block __attribute__((vector_size(BLOCK * sizeof(double))));

/* Coefficients of a function's series: of values at [index * length + k], of rows in blocks, and of these
   the parts h, l, r one after the other. */
typedef struct {
    int length, width; /* coefficients of a series, blocks of a row */
    ball *value;
    block *row;
} series;

static inline ball *value_at(const series *z, int index) {
    return z->value + (size_t)index * z->length;
}

static inline block *row_at(const series *z, int index, int k) {
    return z->row + ((size_t)index * z->length + k) * 3 * z->width;
}

static ball row_entry(const series *z, int index, int k, int direction) {
    const double *parts = (const double *)row_at(z, index, k);
    int stride = z->width * BLOCK;
    ball x = {parts[direction], parts[stride + direction], parts[2 * stride + direction]};
    return x;
}

static void set_row_entry(const series *z, int index, int k, int direction, ball x) {
    double *parts = (double *)row_at(z, index, k);
    int stride = z->width * BLOCK;
    parts[direction] = x.h;
    parts[stride + direction] = x.l;
    parts[2 * stride + direction] = x.r;
}

static inline block all(double x) { return (block){x, x, x, x}; }

static inline block fma_of(block a, block b, block c) {
    block z;
    for (int i = 0; i < BLOCK; i++) z[i] = __builtin_fma(a[i], b[i], c[i]);
    return z;
}

static inline block size_of(block a) {
    block z;
    for (int i = 0; i < BLOCK; i++) z[i] = fabs(a[i]);
    return z;
}

static inline block two_sums(block a, block b, block *t) {
    block s = a + b;
    block part = s - a;
    *t = (a - (s - part)) + (b - part);
    return s;
}

/* As `made`, for a block of a row. */
static inline void make_block(block *row, int width, block s, block c, block r) {
    block l;
    block h = two_sums(s, c, &l);
    row[0] = h;
    row[width] = l;
    row[2 * width] = r * all(MORE) + size_of(h) * all(SHARE) + all(LITTLE);
}

/* s + c += sum over j <= last of x_j times the coefficient k - j of a row. */
static inline void add_products(block *s, block *c, block *r, const ball *x, int last,
                                const block *row, int k, int width) {
    block S = *s, C = *c, R = *r;
    for (int j = 0; j <= last; j++) {
        const block *y = row + (size_t)(k - j) * 3 * width;
        block h = all(x[j].h), l = all(x[j].l), q = all(x[j].r);
        block t;
        block p = h * y[0];
        block e = fma_of(h, y[0], -p);
        S = two_sums(S, p, &t);
        C += fma_of(l, y[0], fma_of(h, y[width], e + t));
        R += size_of(h) * y[2 * width] + q * (size_of(y[0]) + y[2 * width]);
    }
    *s = S;
    *c = C;
    *r = R;
}

/* The last coefficient of a value that is not surely zero, up to the k-th one. */
static int last_of(const function *f, int value, int k) {
    return value >= f->inputs && f->value[value - f->inputs].still ? 0 : k;
}

/* Coefficient k of the row `index`. */
static void combine(const function *f, const series *z, const row_instruction *n, int index,
                    int k) {
    int w = z->width;
    for (int i = 0; i < w; i++) {
        block s = all(0.0), c = all(0.0), r = all(0.0);
        if (n->a >= 0) {
            const block *x = row_at(z, n->a, k) + i;
            s = x[0];
            c = x[w];
            r = x[2 * w];
        }
        if (n->of_b >= 0)
            add_products(&s, &c, &r, value_at(z, n->b), last_of(f, n->b, k),
                         row_at(z, n->of_b, 0) + i, k, w);
        if (n->of_c >= 0)
            add_products(&s, &c, &r, value_at(z, n->c), last_of(f, n->c, k),
                         row_at(z, n->of_c, 0) + i, k, w);
        make_block(row_at(z, index, k) + i, w, s, c, r);
    }
}

/* Coefficient k of the sum, or the difference, of two rows, or of the opposite of one. */
static void combine_plainly(const series *z, const row_instruction *n, int index, int k) {
    int w = z->width;
    for (int i = 0; i < w; i++) {
        const block *x = row_at(z, n->a, k) + i;
        block *out = row_at(z, index, k) + i;
        if (n->op == NEG_ROW) {
            out[0] = -x[0];
            out[w] = -x[w];
            out[2 * w] = x[2 * w];
            continue;
        }
        const block *y = row_at(z, n->b, k) + i;
        block h = n->op == SUB_ROWS ? -y[0] : y[0];
        block l = n->op == SUB_ROWS ? -y[w] : y[w];
        block t;
        block s = two_sums(x[0], h, &t);
        make_block(out, w, s, t + (x[w] + l), x[2 * w] + y[2 * w]);
    }
}

/* Coefficient k of x y, without the terms j < first and j > last. */
static ball product_term(const ball *x, const ball *y, int k, int first, int last) {
    sum z = {0.0, 0.0, 0.0};
    for (int j = first; j <= last; j++) add_product(&z, x[j], y[k - j]);
    return finished(z);
}

/* Coefficient k of the value of an instruction. */
static ball value_term(const series *z, const instruction *n, const ball *self,
                       const double *constants, int k) {
    const ball *x = n->op == CONSTANT ? NULL : value_at(z, n->a);
    const ball *y = n->b >= 0 ? value_at(z, n->b) : NULL;
    sum total = {0.0, 0.0, 0.0};
    switch (n->op) {
    case CONSTANT:
        return made(constants[3 * n->a], constants[3 * n->a + 1], constants[3 * n->a + 2]);
    case ADD:
        return plus(x[k], y[k]);
    case SUB:
        return minus(x[k], y[k]);
    case NEG:
        return opposite(x[k]);
    case HALF:
        return divided(x[k], 2.0);
    case MUL:
        return product_term(x, y, k, 0, k);
    case SCALE:
        return times(x[0], y[k]);
    case INVERSE: /* sum x_j w_(k-j) = 0 */
        if (k == 0) return inverse(x[0]);
        return times(opposite(self[0]), product_term(x, self, k, 1, k));
    case ROOT: /* sum w_j w_(k-j) = x_k */
        if (k == 0) return root(x[0]);
        return times(minus(x[k], product_term(self, self, k, 1, k - 1)),
                     inverse(multiple(self[0], 2.0)));
    case INTEGRAL: /* w' = y x' */
        if (k == 0) return elementary(n->c, x[0]);
        for (int j = 1; j <= k; j++) add_product(&total, multiple(x[j], j), y[k - j]);
        return divided(finished(total), k);
    case CROSS: /* t (y x' - x y') */
        for (int j = 1; j <= k; j++) {
            add_product(&total, multiple(x[j], j), y[k - j]);
            add_product(&total, opposite(multiple(y[j], j)), x[k - j]);
        }
        return finished(total);
    case ANGLE: /* of (y, x): t w' = c d, with c = t (y x' - x y') and d = 1 / (x^2 + y^2) */
        if (k == 0) return angle(x[0], y[0]);
        return divided(product_term(value_at(z, n->c), value_at(z, n->d), k, 1, k), k);
    default:
        return undefined();
    }
}

/* Coefficient k of all series of a function, from those of its arguments. */
static void evaluate(const function *f, const series *z, const double *constants, int k,
                     int with_rows) {
    for (int i = 0; i < f->values; i++) {
        const instruction *n = f->value + i;
        ball *self = value_at(z, f->inputs + i);
        if (n->still && k > 0) self[k] = zero();
        else self[k] = value_term(z, n, self, constants, k);
    }
    if (!with_rows) return;
    for (int i = 0; i < f->rows; i++) {
        const row_instruction *n = f->row + i;
        int index = f->inputs + i;
        if (n->op == UNIT) /* of a parameter that changes at the rate 1 in all directions */
            for (int j = 0; j < z->width * BLOCK; j++)
                set_row_entry(z, index, k, j, k == 0 ? number(1.0) : zero());
        else if (n->op == COMBINE) combine(f, z, n, index, k);
        else combine_plainly(z, n, index, k);
    }
}

/* -- steps --------------------------------------------------------------------------------------

   Taylor's formula with the remainder of Lagrange, over a box that motions do not leave: if the formula,
   with the remainder of motions from the box, gives values inside of it at all times of the step, then a
   motion that left it would be inside where it leaves. */

enum { DONE, NO_BOX, NO_MEMORY, BAD_ROUNDING };

/* What the steps of a call share. `numbers` balls belong to each state: its value and its derivatives. */
typedef struct {
    const function *field;
    const double *constants;
    int states, numbers, order;
    series at;
    ball *coefficients; /* of each number: order + 1 of the motion, and that of the remainder */
    ball *path, *box;
} stepper;

static int allocate(series *z, int inputs, int values, int rows, int length, int directions) {
    z->length = length;
    z->width = (directions + BLOCK - 1) / BLOCK;
    z->value = calloc((size_t)(inputs + values) * length, sizeof(ball));
    size_t size = ((size_t)(inputs + rows) * length * 3 * z->width + 1) * sizeof(block);
    z->row = aligned_alloc(sizeof(block), size);
    if (z->row) memset(z->row, 0, size);
    return z->value && z->row;
}

static void release(series *z) {
    free(z->value);
    free(z->row);
}

static int start_stepper(stepper *m, const function *field, const double *constants, int directions,
                         int order) {
    memset(m, 0, sizeof *m);
    m->field = field;
    m->constants = constants;
    m->states = field->inputs;
    m->numbers = 1 + directions;
    m->order = order;
    size_t all_numbers = (size_t)m->states * m->numbers;
    m->coefficients = calloc(all_numbers * (order + 2), sizeof(ball));
    m->path = calloc(all_numbers, sizeof(ball));
    m->box = calloc(all_numbers, sizeof(ball));
    int ok = allocate(&m->at, field->inputs, field->values, field->rows, order + 2, directions);
    return ok && m->coefficients && m->path && m->box;
}

static void end_stepper(stepper *m) {
    free(m->coefficients);
    free(m->path);
    free(m->box);
    release(&m->at);
}

/* The arguments of a function, as coefficients 0. */
static void set_arguments(const series *z, int inputs, const ball *x, int numbers, int with_rows) {
    for (int i = 0; i < inputs; i++) {
        value_at(z, i)[0] = x[i * numbers];
        for (int j = 1; with_rows && j < numbers; j++)
            set_row_entry(z, i, 0, j - 1, x[i * numbers + j]);
    }
}

static ball result_row(const series *z, int index, int k, int direction) {
    return index < 0 ? zero() : row_entry(z, index, k, direction);
}

/* Coefficients up to `order` of the motions from a box: (k + 1) y_(k+1) = f_k. */
static void motions(stepper *m, const ball *start, int order, int with_rows) {
    const int *results = m->field->results;
    set_arguments(&m->at, m->states, start, m->numbers, with_rows);
    for (int k = 0; k < order; k++) {
        evaluate(m->field, &m->at, m->constants, k, with_rows);
        for (int i = 0; i < m->states; i++) {
            value_at(&m->at, i)[k + 1] = divided(value_at(&m->at, results[2 * i])[k], k + 1);
            for (int j = 0; with_rows && j < m->numbers - 1; j++)
                set_row_entry(&m->at, i, k + 1, j,
                              divided(result_row(&m->at, results[2 * i + 1], k, j), k + 1));
        }
    }
}

static ball coefficient(const stepper *m, int i, int j, int k) {
    return j == 0 ? value_at(&m->at, i)[k] : row_entry(&m->at, i, k, j - 1);
}

/* Whether x surely lies inside of a box. */
static int is_inside(ball x, ball box) {
    double apart = largest(minus(middle(x), middle(box)));
    return is_finite(x) && is_finite(box) &&
           (apart + x.r) * MORE < box.r * LESS - fabs(box.h) * (2.0 * SHARE);
}

/* A ball with both, around the middle of x. */
static ball with(ball x, ball y) {
    double r = largest(minus(middle(x), middle(y))) + y.r;
    return made(x.h, x.l, x.r > r ? x.r : r);
}

static ball somewhat_wider(ball x, double share) {
    return wider(x, x.r * share + largest(x) * 0x1p-30 + 0x1p-60);
}

/* All numbers between 0 and x. */
static ball from_zero_to(double x) { return made(0.5 * x, 0.0, 0.5 * x); }

/* Finds a box of the numbers `first` to `last` of each state that motions do not leave, and the remainder. */
static int find_remainder(stepper *m, ball whole, int first, int last) {
    int n = m->numbers, length = m->order + 2;
    for (int tries = 0; tries < 6; tries++) {
        motions(m, m->box, m->order + 1, last > 0);
        int inside = 1;
        for (int i = 0; i < m->states; i++) {
            for (int j = first; j <= last; j++) {
                ball rest = coefficient(m, i, j, m->order + 1);
                ball moved = plus(m->path[i * n + j], times(rest, whole));
                if (!is_finite(moved)) return 0;
                m->coefficients[(i * n + j) * length + length - 1] = rest;
                if (!is_inside(moved, m->box[i * n + j])) {
                    inside = 0;
                    m->box[i * n + j] =
                        with(m->box[i * n + j], somewhat_wider(moved, 0.2 * (tries + 1)));
                }
            }
        }
        if (inside) return 1;
    }
    return 0;
}

/* The motions from a box over [0, time]: `coefficients`; 0 where no box contains them. */
static int step(stepper *m, const ball *start, ball time) {
    int n = m->numbers, length = m->order + 2;
    if (!(sign_of(time) > 0)) return 0;
    double end = largest(time);
    motions(m, start, m->order, n > 1);
    double power = 1.0;
    for (int i = 0; i < m->states * n; i++) m->path[i] = start[i];
    for (int k = 1; k <= m->order; k++) {
        power = power * end * MORE;
        for (int i = 0; i < m->states; i++)
            for (int j = 0; j < n; j++)
                m->path[i * n + j] =
                    plus(m->path[i * n + j], times(coefficient(m, i, j, k), from_zero_to(power)));
    }
    ball whole = from_zero_to(power * end * MORE);
    for (int i = 0; i < m->states; i++)
        for (int j = 0; j < n; j++) {
            m->box[i * n + j] = somewhat_wider(m->path[i * n + j], 0.02);
            for (int k = 0; k <= m->order; k++)
                m->coefficients[(i * n + j) * length + k] = coefficient(m, i, j, k);
        }
    if (!find_remainder(m, whole, 0, 0)) return 0;
    return n == 1 || find_remainder(m, whole, 1, n - 1);
}

/* A number of a state at all times of a ball within the step. */
static ball at_time(const stepper *m, int number_index, ball time) {
    const ball *c = m->coefficients + (size_t)number_index * (m->order + 2);
    ball x = c[m->order + 1];
    for (int k = m->order; k >= 0; k--) {
        sum z = {0.0, 0.0, 0.0};
        add(&z, c[k]);
        add_product(&z, x, time);
        x = finished(z);
    }
    return x;
}

/* What is done with each step: 0 ends all. */
typedef int visitor(stepper *m, ball time, void *data);

/* Steps one after the other over a time: one, or halves of it where no box contains it; also where its
   values at the end are wider than `fine` (of 1 + |x|), for steps from numbers. */
static int advance(stepper *m, const ball *start, ball time, double fine, int depth, ball *end,
                   visitor *visit, void *data) {
    int count = m->states * m->numbers;
    if (step(m, start, time)) {
        int narrow = 1;
        for (int i = 0; i < count; i++) {
            end[i] = at_time(m, i, time);
            if (!is_finite(end[i])) return 0;
            if (i % m->numbers == 0 && !(end[i].r < fine * (1.0 + fabs(end[i].h)))) narrow = 0;
        }
        if (narrow || depth == 0) return visit ? visit(m, time, data) : 1;
    } else if (depth == 0) {
        return 0;
    }
    ball half = number(0.5 * time.h);
    ball *middle_of_it = calloc(count, sizeof(ball));
    if (!middle_of_it) return 0;
    int ok = advance(m, start, half, fine, depth - 1, middle_of_it, visit, data) &&
             advance(m, middle_of_it, minus(time, half), fine, depth - 1, end, visit, data);
    free(middle_of_it);
    return ok;
}

/* -- events -------------------------------------------------------------------------------------

   Signs over pieces of a step, as runs: a pair of signs for all pieces one after the other that have it. */

typedef struct {
    int sign, direction;
} wanted;

typedef struct {
    const function *field, *guards;
    const double *constants;
    const wanted *conditions;
    int guard_count, coordinate, most;
    const ball *origin; /* the states at the start of a phase */
    series field_at, guard_at;
    ball *box;
    signed char *runs; /* of each guard, and of returns to the start: `most` pairs */
    int *lengths;
} watch;

#define DEEPEST 10 /* halvings of a step */

static void append_run(watch *w, int list, int a, int b) {
    signed char *runs = w->runs + (size_t)list * w->most * 2;
    int *n = w->lengths + list;
    if (*n > 0 && runs[2 * *n - 2] == a && runs[2 * *n - 1] == b) return;
    if (*n == w->most) { /* nothing is known of the last pieces, which may meet the start */
        runs[2 * *n - 2] = list == w->guard_count;
        runs[2 * *n - 1] = 0;
        return;
    }
    runs[2 * *n] = (signed char)a;
    runs[2 * *n + 1] = (signed char)b;
    ++*n;
}

/* All times between two. */
static ball between(double a, double b) {
    double centre = 0.5 * (a + b);
    double below = centre - a, above = b - centre;
    return made(centre, 0.0, below > above ? below : above);
}

/* The box of all times of a ball, and the rates there. */
static void look(watch *w, stepper *m, ball time) {
    for (int i = 0; i < m->states; i++) w->box[i] = at_time(m, i * m->numbers, time);
    set_arguments(&w->field_at, m->states, w->box, 1, 0);
    evaluate(w->field, &w->field_at, w->constants, 0, 0);
}

static ball rate_of(const watch *w, int i) {
    return value_at(&w->field_at, w->field->results[2 * i])[0];
}

/* A guard in the box of `look`, and its rate along the motion. */
static ball guard_in_box(watch *w, const function *guard, ball *rate) {
    for (int i = 0; i < guard->inputs; i++) {
        value_at(&w->guard_at, i)[0] = w->box[i];
        set_row_entry(&w->guard_at, i, 0, 0, rate_of(w, i));
    }
    evaluate(guard, &w->guard_at, w->constants, 0, 1);
    ball value = value_at(&w->guard_at, guard->results[0])[0];
    /* an angle jumps where its derivatives are finite, and has no value over such a box */
    *rate = is_finite(value) ? result_row(&w->guard_at, guard->results[1], 0, 0) : undefined();
    return value;
}

/* Signs of a guard and of its rate over pieces of [a, b], halved until one of them tells enough. */
static void scan(watch *w, stepper *m, int g, double a, double b, int depth) {
    const function *guard = w->guards + g;
    double centre = 0.5 * (a + b);
    ball along, ignored;
    look(w, m, between(a, b));
    int value = sign_of(guard_in_box(w, guard, &along));
    int rate = sign_of(along);
    if (value == 0) { /* by the mean value theorem, from the centre */
        look(w, m, number(centre));
        ball there = guard_in_box(w, guard, &ignored);
        value = sign_of(plus(there, times(along, between(a - centre, b - centre))));
    }
    wanted condition = w->conditions[g];
    int quiet = condition.sign
                    ? value == condition.sign
                    : value != 0 || (condition.direction != 0 && rate == -condition.direction);
    if (depth == 0 || quiet || (rate != 0 && depth < DEEPEST - 3)) {
        append_run(w, g, value, rate);
        return;
    }
    scan(w, m, g, a, centre, depth - 1);
    scan(w, m, g, centre, b, depth - 1);
}

static int watch_step(stepper *m, ball time, void *data) {
    watch *w = data;
    double end = largest(time);
    for (int g = 0; g < w->guard_count; g++) scan(w, m, g, 0.0, end, DEEPEST);
    for (int k = 0; w->coordinate >= 0 && k < 4; k++) {
        look(w, m, between(k * 0.25 * end, (k + 1) * 0.25 * end));
        int meets = 1;
        for (int i = 0; i < m->states; i++) {
            double apart = smallest(minus(middle(w->box[i]), middle(w->origin[i])));
            if (apart > (w->box[i].r + w->origin[i].r) * MORE) meets = 0;
        }
        append_run(w, w->guard_count, meets, sign_of(rate_of(w, w->coordinate)));
    }
    return 1;
}

/* -- calls from outside -------------------------------------------------------------------------

   Balls are three doubles each: h, l, r. All calls return DONE or what is wrong. */

static ball *balls_of(const double *numbers, size_t count) {
    ball *x = malloc((count + 1) * sizeof(ball));
    for (size_t i = 0; x && i < count; i++)
        x[i] = made(numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]);
    return x;
}

static void write_ball(double *to, ball x) {
    to[0] = x.h;
    to[1] = x.l;
    to[2] = x.r;
}

/* Whether sums and products are rounded to the nearest, ties to even, and no operation is left out. */
static int rounds_as_assumed(void) {
    volatile double one = 1.0, tiny = 0x1p-53, more = 0x1.8p-53, p = 1.0 + 0x1p-30, zero = 0.0;
    double t, e;
    if (fegetround() != FE_TONEAREST) return 0;
    if (one + tiny != 1.0 || one + more != 1.0 + 0x1p-52 || -one - tiny != -1.0) return 0;
    if (one - tiny != 1.0 - 0x1p-53 || (one + 0x1p-52) + tiny != 1.0 + 0x1p-51) return 0;
    if (p * p != 1.0 + 0x1p-29 || p * p - (1.0 + 0x1p-29) != 0.0) return 0;
    if (two_product(p, p, &e) != 1.0 + 0x1p-29 || e != 0x1p-60) return 0;
    if (two_sum(one, tiny, &t) != 1.0 || t != 0x1p-53) return 0;
    if (two_sum(tiny, -one, &t) != -1.0 + 0x1p-53 || t != 0.0) return 0;
    if (one / (3.0 + zero) != 0x1.5555555555555p-2 || sqrt(2.0 + zero) != 0x1.6a09e667f3bcdp+0)
        return 0;
    block P = all(p), E = fma_of(P, P, -(P * P)), T, S = two_sums(all(one), all(tiny), &T);
    for (int i = 0; i < BLOCK; i++)
        if (E[i] != 0x1p-60 || S[i] != 1.0 || T[i] != 0x1p-53) return 0;
    volatile double nan = NAN;
    return !(nan < 1.0) && !(nan > 1.0) && !isfinite(nan);
}

int check_rounding(void) { return rounds_as_assumed() ? DONE : BAD_ROUNDING; }

/* Elementary functions of `count` balls; 7: the inverse, 8: the root, 9: the angle of (x, y). */
int check_elementary(int which, long count, const double *x, const double *y, double *z) {
    if (!rounds_as_assumed()) return BAD_ROUNDING;
    for (long i = 0; i < count; i++) {
        ball a = made(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
        ball b = made(y[3 * i], y[3 * i + 1], y[3 * i + 2]);
        ball result = which == 7   ? inverse(a)
                      : which == 8 ? root(a)
                      : which == 9 ? angle(b, a)
                                   : elementary(which, a);
        write_ball(z + 3 * i, result);
    }
    return DONE;
}

/* Coefficients 0 to `order` of a function's results, (outputs, order + 1), with those of rows in front, for
   arguments that are motions with given coefficients (inputs, order + 1, 1 + directions). */
int check_function(const function *f, const double *constants, int directions, int order,
                   const double *arguments, double *results) {
    if (!rounds_as_assumed()) return BAD_ROUNDING;
    series z;
    int numbers = 1 + directions;
    ball *x = balls_of(arguments, (size_t)f->inputs * (order + 1) * numbers);
    int ok = allocate(&z, f->inputs, f->values, f->rows, order + 1, directions) && x;
    for (int k = 0; ok && k <= order; k++) {
        for (int i = 0; i < f->inputs; i++) {
            const ball *from = x + ((size_t)i * (order + 1) + k) * numbers;
            value_at(&z, i)[k] = from[0];
            for (int j = 0; j < directions; j++) set_row_entry(&z, i, k, j, from[1 + j]);
        }
        evaluate(f, &z, constants, k, directions > 0);
        for (int i = 0; i < f->outputs; i++) {
            double *to = results + ((size_t)i * (order + 1) + k) * numbers * 3;
            write_ball(to, value_at(&z, f->results[2 * i])[k]);
            for (int j = 0; j < directions; j++)
                write_ball(to + 3 + 3 * j, result_row(&z, f->results[2 * i + 1], k, j));
        }
    }
    free(x);
    release(&z);
    return ok ? DONE : NO_MEMORY;
}

/* `count` steps from start (count, states, 1 + directions) over time (count): end, of the same shape, and the
   rates at the ends, (count, states). */
int check_steps(const function *field, const double *constants, int directions, int order,
                double fine, long count, const double *start, const double *time, double *end,
                double *rate, int *status) {
    if (!rounds_as_assumed()) return BAD_ROUNDING;
    stepper m;
    int n = field->inputs, numbers = 1 + directions;
    int ok = start_stepper(&m, field, constants, directions, order);
    ball *last = calloc((size_t)n * numbers, sizeof(ball));
    for (long i = 0; ok && last && i < count; i++) {
        ball *first = balls_of(start + (size_t)i * n * numbers * 3, (size_t)n * numbers);
        if (!first) {
            ok = 0;
            break;
        }
        ball duration = made(time[3 * i], time[3 * i + 1], time[3 * i + 2]);
        status[i] = advance(&m, first, duration, fine, 5, last, NULL, NULL) ? DONE : NO_BOX;
        free(first);
        if (status[i] != DONE) continue;
        set_arguments(&m.at, n, last, numbers, 0);
        evaluate(field, &m.at, constants, 0, 0);
        for (int j = 0; j < n; j++) {
            ball f = value_at(&m.at, field->results[2 * j])[0];
            write_ball(rate + 3 * ((size_t)i * n + j), f);
            if (!is_finite(f)) status[i] = NO_BOX;
            for (int k = 0; k < numbers; k++)
                write_ball(end + 3 * (((size_t)i * n + j) * numbers + k), last[j * numbers + k]);
        }
    }
    ok = ok && last;
    free(last);
    end_stepper(&m);
    return ok ? DONE : NO_MEMORY;
}

/* Runs of signs of guards and of their rates along `count` steps from start (count, states); with a
   `coordinate`, a last list of whether a quarter of a step may meet the box `origin`, and the sign of that
   coordinate's rate. */
int check_events(const function *field, const double *constants, int order, long count,
                 const double *start, const double *time, int guard_count, const function *guards,
                 const int *conditions, int coordinate, const double *origin, int most,
                 signed char *runs, int *lengths, int *status) {
    if (!rounds_as_assumed()) return BAD_ROUNDING;
    stepper m;
    watch w;
    int n = field->inputs, lists = guard_count + (coordinate >= 0);
    int values = 0, rows = 0;
    for (int g = 0; g < guard_count; g++) {
        values = guards[g].values > values ? guards[g].values : values;
        rows = guards[g].rows > rows ? guards[g].rows : rows;
    }
    int ok = start_stepper(&m, field, constants, 0, order);
    ok = allocate(&w.field_at, n, field->values, 0, 1, 0) && ok;
    ok = allocate(&w.guard_at, n, values, rows, 1, 1) && ok;
    w.field = field;
    w.guards = guards;
    w.constants = constants;
    w.conditions = (const wanted *)conditions;
    w.guard_count = guard_count;
    w.coordinate = coordinate;
    w.most = most;
    ball *from = balls_of(origin, n);
    ball *last = calloc(n, sizeof(ball));
    w.origin = from;
    w.box = calloc(n, sizeof(ball));
    ok = ok && from && last && w.box;
    for (long i = 0; ok && i < count; i++) {
        w.runs = runs + (size_t)i * lists * most * 2;
        w.lengths = lengths + (size_t)i * lists;
        memset(w.lengths, 0, sizeof(int) * lists);
        ball *first = balls_of(start + (size_t)i * n * 3, n);
        if (!first) {
            ok = 0;
            break;
        }
        ball duration = made(time[3 * i], time[3 * i + 1], time[3 * i + 2]);
        /* INFINITY: any width at the end is good enough */
        int moved = advance(&m, first, duration, INFINITY, 5, last, watch_step, &w);
        status[i] = moved ? DONE : NO_BOX;
        free(first);
    }
    free(from);
    free(last);
    free(w.box);
    release(&w.field_at);
    release(&w.guard_at);
    end_stepper(&m);
    return ok ? DONE : NO_MEMORY;
}
