/* Intervals of numbers of 64 or 80 bits whose bounds are proved, and elementary functions of them.

   An interval is kept as (-lower, upper). The processor always rounds upwards, so that both bounds
   are rounded outwards by the same operations, and no operation changes the mode of rounding:
   ENTER at the start of a call sets it, LEAVE sets it back. The flags of the processor tell at the
   end whether a number has left the range of its type or was none; OUT_OF_RANGE is then returned in
   place of a result, so NaN and infinity never are bounds.

   What is assumed: sums, products, quotients and roots are rounded upwards correctly (IEEE 754),
   and subnormal numbers are kept. ENTER looks at sums and subnormal numbers in each call;
   native/intervals.py looks at all operations, in code of the same compiler. A product that is
   fused with a sum is rounded upwards once, so it is a bound, too. */
#include <fenv.h>
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>
/* doubles are evaluated as doubles: 0 every type by itself, 1 floats as doubles, 16 every type by
   itself with _Float16 among them, where the processor has it */
#if FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 16
#define DOUBLES_ARE_DOUBLES 1
#else
#define DOUBLES_ARE_DOUBLES 0
#endif
#if defined(__FAST_MATH__) || !DOUBLES_ARE_DOUBLES || FLT_RADIX != 2 || DBL_MANT_DIG != 53
#error "intervals need IEEE 754 in 64 bits: take -ffast-math and -mfpmath=387 out of $CC"
#endif

/* Bounds are doubles, or in a library of its own numbers of 80 bits, with 64 digits: EXTENDED.
   Functions of <tgmath.h> are those of the type of their argument. */
#ifdef EXTENDED
#if LDBL_MANT_DIG != 64
#error "extended precision needs a long double of 80 bits"
#endif
typedef long double Scalar;
#define SCALAR_MIN LDBL_MIN
#define SCALAR_EPSILON LDBL_EPSILON
#else
typedef double Scalar;
#define SCALAR_MIN DBL_MIN
#define SCALAR_EPSILON DBL_EPSILON
#endif

typedef struct {
    Scalar minus, upper; /* minus the lower bound, the upper bound */
} Interval;

enum {
    PROVED = 0,
    NO_ROUNDING = 1,
    OUT_OF_RANGE = 2,
    UNDEFINED = 3,
    NO_ENCLOSURE = 4,
    NO_MEMORY = 5
};

/* The first reason why a call fails. UNDEFINED: a denominator contains zero, a root is taken of
   what may be negative, an angle of what may be the origin. */
static _Thread_local int failure;

static Interval undefined(void) {
    if (!failure) failure = UNDEFINED;
    return (Interval){1.0, 1.0};
}

/* -- rounding ---------------------------------------------------------------------------------- */

/* Whether sums are rounded upwards and subnormal numbers are kept, at this moment. */
static int rounds_upwards(void) {
    volatile Scalar one = 1.0, tiny = 0x1p-80, least = SCALAR_MIN, half = 0.5;
    volatile Scalar above = one + tiny, below = -one - tiny, product = least * half;
    return above == 1.0 + SCALAR_EPSILON && below == -1.0 && product > 0.0;
}

/* The work stands in functions of its own (APART): no compiler moves operations over ENTER. */
#define APART __attribute__((noinline)) static
#define ENTER \
    fenv_t before; \
    if (fegetenv(&before) || fesetround(FE_UPWARD)) return NO_ROUNDING; \
    feclearexcept(FE_ALL_EXCEPT); \
    failure = rounds_upwards() ? PROVED : NO_ROUNDING; \
    feclearexcept(FE_ALL_EXCEPT);
#define LEAVE \
    if (!failure && fetestexcept(FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO)) failure = OUT_OF_RANGE; \
    fesetenv(&before); \
    return failure;

/* -- arithmetic -------------------------------------------------------------------------------- */

static inline Scalar larger(Scalar x, Scalar y) { return x > y ? x : y; }
static inline Scalar smaller(Scalar x, Scalar y) { return x < y ? x : y; }
static inline Interval point(Scalar x) { return (Interval){-x, x}; }
static inline Interval between(Scalar lower, Scalar upper) { return (Interval){-lower, upper}; }
static inline Interval opposite(Interval x) { return (Interval){x.upper, x.minus}; }
static inline Scalar magnitude(Interval x) { return larger(x.minus, x.upper); }
static inline Scalar width(Interval x) { return x.upper + x.minus; }
static inline int inside(Interval x, Interval y) { return x.minus < y.minus && x.upper < y.upper; }
static inline Interval hull(Interval x, Interval y) {
    return (Interval){larger(x.minus, y.minus), larger(x.upper, y.upper)};
}

static inline Interval plus(Interval x, Interval y) {
    return (Interval){x.minus + y.minus, x.upper + y.upper};
}

static inline Interval less(Interval x, Interval y) {
    return (Interval){x.minus + y.upper, x.upper + y.minus};
}

/* The four products of bounds, and their opposites, rounded upwards: signs stand at factors. */
static inline Interval times(Interval x, Interval y) {
    Scalar a = -x.minus, b = -x.upper, c = -y.minus;
    Scalar upper =
        larger(larger(x.minus * y.minus, x.upper * y.upper), larger(a * y.upper, x.upper * c));
    Scalar minus =
        larger(larger(x.minus * y.upper, x.upper * y.minus), larger(a * y.minus, b * y.upper));
    return (Interval){minus, upper};
}

static inline Interval square(Interval x) {
    Scalar most = magnitude(x), least = larger(larger(-x.upper, -x.minus), 0.0);
    Scalar negative = -least;
    return (Interval){negative * least, most * most};
}

/* 1 / y of a y without zero, times x: bounds of the reciprocal are rounded first. */
static inline Interval over(Interval x, Interval y) {
    if (!(y.minus < 0.0 || y.upper < 0.0)) return undefined();
    Scalar lower = -y.minus;
    if (x.minus == -x.upper && y.minus == -y.upper) { /* of two numbers: one rounding */
        Scalar negative = -x.upper;
        return (Interval){negative / y.upper, x.upper / y.upper};
    }
    return times(x, (Interval){-1.0 / y.upper, 1.0 / lower});
}

static inline Interval scaled(Interval x, Scalar positive) { /* by a number that is not negative */
    return (Interval){x.minus * positive, x.upper * positive};
}

/* s = sqrt(upper) is rounded upwards. So lower / s <= sqrt(lower) where s >= sqrt(lower). */
static inline Interval root(Interval x) {
    if (x.minus > 0.0) return undefined();
    Scalar s = sqrt(-x.minus);
    return (Interval){s > 0.0 ? x.minus / s : 0.0, sqrt(x.upper)};
}

/* -- elementary functions of numbers ----------------------------------------------------------- */

/* pi/2 = P1 + P2 + P3, where P1, P2 have 33 bits, so products with integers below 2^20 are exact,
   and P3 is enclosed; ln 2 likewise. */
static const Scalar P1 = 0x1.921fb544p+0, P2 = 0x1.0b4611a6p-34;
static const Interval P3 = {-0x1.3198a2e037073p-69, 0x1.3198a2e037074p-69};
static const Scalar L1 = 0x1.62e42fefp-1, L2 = 0x1.473de6afp-34;
static const Interval L3 = {-0x1.3c7673007e5edp-69, 0x1.3c7673007e5eep-69};
static Interval half_pi(void) { return plus(point(P1), plus(point(P2), P3)); }
static const Scalar REDUCED = 0x1p19; /* up to which quarters of a turn are counted */

/* Sine and cosine of a number. x = n pi/2 + r for an integer n; any n will do that makes |r| < 1.

   Remainders: sin r = r p_0 with p_m = 1 - r^2 / ((2m + 2) (2m + 3)) p_{m+1}, and the p_m are
   alternating series 1 - ... of falling terms since r^2 < 6: so p_m is in [0, 1], which starts the
   recurrence at m = 12. Likewise cos r = p_0 with p_m = 1 - r^2 / ((2m + 1) (2m + 2)) p_{m+1},
   where r^2 < 2. */
static void sine_and_cosine(Scalar x, Interval *sine, Interval *cosine) {
    *sine = *cosine = (Interval){1.0, 1.0};
    Scalar n = floor(x * 0x1.45f306dc9c883p-1 + 0.5);
    if (!(fabs(n) < REDUCED)) return;
    Interval r = less(less(less(point(x), point(n * P1)), point(n * P2)), times(point(n), P3));
    if (!(magnitude(r) < 1.0)) return;
    Interval r2 = square(r), one = point(1.0), p = {0.0, 1.0}, s = p, c = p;
    for (int m = 11; m >= 0; m--) {
        s = less(one, times(over(r2, point((2.0 * m + 2.0) * (2.0 * m + 3.0))), s));
        c = less(one, times(over(r2, point((2.0 * m + 1.0) * (2.0 * m + 2.0))), c));
    }
    s = times(r, s);
    int quarter = (int)((int64_t)n & 3); /* of the turn: -1 & 3 is 3 */
    Interval both[4] = {s, c, opposite(s), opposite(c)};
    Interval range = {1.0, 1.0};
    Interval a = both[quarter], b = both[(quarter + 1) & 3];
    *sine = (Interval){smaller(a.minus, range.minus), smaller(a.upper, range.upper)};
    *cosine = (Interval){smaller(b.minus, range.minus), smaller(b.upper, range.upper)};
}

/* e^x of a number. x = n ln 2 + r; any integer n will do that makes |r| < 1/2.

   Remainder: e^r = p_0 with p_m = 1 + r / (m + 1) p_{m+1}, p_m = sum of r^j m! / (m + j)!, which is
   in [0, 2] for |r| < 1/2 as it is within 1 +- (1/2 + 1/4 + ...) = 1 +- 1. */
static Interval exponential_at(Scalar x) {
    Scalar n = floor(x * 0x1.71547652b82fep+0 + 0.5);
    if (n < -1000.0) return between(0.0, 0x1p-999); /* e^x < 2^(n + 1) */
    if (n > 1000.0) return undefined();
    Interval r = less(less(less(point(x), point(n * L1)), point(n * L2)), times(point(n), L3));
    if (!(magnitude(r) < 0.5)) return undefined();
    Interval p = {0.0, 2.0};
    for (int m = 20; m >= 1; m--) p = plus(point(1.0), times(over(r, point(m)), p));
    /* powers of two are exact; two of them, because 2^1000 e^r is in range and 2^1001 may not be */
    Scalar half = floor(n * 0.5);
    return scaled(scaled(p, ldexp(1.0, (int)half)), ldexp(1.0, (int)(n - half)));
}

/* ln x of a positive number: y0 of the C library is a guess, of which nothing is assumed.
   ln x = y0 + ln(1 + t), t = x e^-y0 - 1, and t - t^2 <= ln(1 + t) <= t for |t| < 1/2. */
static Interval logarithm_at(Scalar x) {
    if (!(x > 0x1p-1000 && x < 0x1p1000)) return undefined();
    Scalar y0 = log(x);
    if (!(fabs(y0) < 700.0)) return undefined();
    Interval t = less(times(point(x), exponential_at(-y0)), point(1.0));
    if (!(magnitude(t) < 0x1p-10)) return undefined();
    Interval small = {t.minus + magnitude(t) * magnitude(t), t.upper};
    return plus(point(y0), small);
}

/* The angle a of a slope x: y0 of the C library is a guess, of which nothing is assumed.
   sin(a - y0) = cos a (x cos y0 - sin y0), cos(a - y0) = cos a (cos y0 + x sin y0), and cos a > 0.
   With |y0| < 1.571, |a - y0| is below 3 pi/2, so where the cosine is positive it is below pi/2,
   and a - y0 = atan t for the quotient t. Then |atan t - t| < |t|^3 for |t| < 1/2. */
static Interval arctangent_at(Scalar x) {
    const Interval any = {0x1.921fb54442d19p+0, 0x1.921fb54442d19p+0};
    Scalar y0 = atan(x);
    if (!(fabs(y0) < 1.571)) return any;
    Interval s, c, slope = point(x);
    sine_and_cosine(y0, &s, &c);
    Interval below = plus(c, times(slope, s));
    if (!(below.minus < 0.0)) return any;
    Interval t = over(less(times(slope, c), s), below);
    Scalar size = magnitude(t);
    if (!(size < 0x1p-10)) return any;
    Scalar cube = size * size * size;
    return plus(point(y0), (Interval){t.minus + cube, t.upper + cube});
}

/* -- elementary functions of intervals --------------------------------------------------------- */

/* Monotone functions: from the values at both bounds. */
static Interval exponential(Interval x) {
    return (Interval){exponential_at(-x.minus).minus, exponential_at(x.upper).upper};
}

static Interval logarithm(Interval x) {
    return (Interval){logarithm_at(-x.minus).minus, logarithm_at(x.upper).upper};
}

static Interval arctangent(Interval x) {
    return (Interval){arctangent_at(-x.minus).minus, arctangent_at(x.upper).upper};
}

/* Whether an integer m with m = rest (mod 4) lies between two bounds. */
static int has_quarter(Scalar lower, Scalar upper, Scalar rest) {
    return 4.0 * floor((upper - rest) * 0.25) + rest >= lower;
}

/* Between its ends a sine is extreme at odd quarters of a turn only, at 1, 5, ... it is 1, at
   3, 7, ... -1; a cosine at even ones. The quarters are bounded outwards. */
static void sine_and_cosine_of(Interval x, Interval *sine, Interval *cosine) {
    *sine = *cosine = (Interval){1.0, 1.0};
    if (!(magnitude(x) < 0x1p18)) return;
    static const Interval TWO_OVER_PI = {-0x1.45f306dc9c882p-1, 0x1.45f306dc9c883p-1};
    Interval quarters = times(x, TWO_OVER_PI), s, c;
    Scalar a = -quarters.minus, b = quarters.upper;
    sine_and_cosine(-x.minus, &s, &c);
    sine_and_cosine(x.upper, sine, cosine);
    *sine = hull(*sine, s);
    *cosine = hull(*cosine, c);
    if (has_quarter(a, b, 1.0)) sine->upper = 1.0;
    if (has_quarter(a, b, 3.0)) sine->minus = 1.0;
    if (has_quarter(a, b, 0.0)) cosine->upper = 1.0;
    if (has_quarter(a, b, 2.0)) cosine->minus = 1.0;
}

/* The angle of (x, y), off the cut x <= 0, y = 0. */
static Interval angle(Interval y, Interval x) {
    if (x.minus < 0.0) return arctangent(over(y, x));
    if (y.minus < 0.0) return less(half_pi(), arctangent(over(x, y)));
    if (y.upper < 0.0) return less(opposite(half_pi()), arctangent(over(x, y)));
    return undefined();
}
