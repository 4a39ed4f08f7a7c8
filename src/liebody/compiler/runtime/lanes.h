/* Arithmetic over T: one number (LANES 1), or a vector of LANES numbers, one state in each lane.
   Before this text: LANES, a power of two, and SINGLE, whether numbers are floats; in CUDA also
   device.h, and LANES is 1. */
#ifndef __CUDACC__
/* Instructions are ordered for parallelism before registers are given out. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(LONG_CODE)
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif
/* Vectors of a loop over one lane would wait for numbers that were just stored one by one. */
#if LANES == 1 && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-vectorize")
#endif
/* Stacks are aligned to 16 bytes there, whatever lies on them: GCC's bug 54412. */
#if defined(_WIN32) && defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=128")
#define SHORT_VECTORS
#endif

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
/* A pointer to memory of the thread stays in a register: asking where it is takes a call. */
#define ASK_ONCE(pointer) __asm__("" : "+r"(pointer))
/* A function for what rarely happens; an array that is too long for stacks; the value zero. */
#define RARE static __attribute__((noinline, cold))
#define THREAD_STATIC static __thread
#define ZERO(type) ((type){0})
/* The upper 64 bits of a product of two numbers without sign. */
#define HIGH_PRODUCT(a, b) ((uint64_t)((unsigned __int128)(a) * (b) >> 64))
#define UNLIKELY(condition) __builtin_expect(condition, 0)
/* A loop that Python calls. */
#define EXPORTED
#endif

#if SINGLE
typedef float real;
typedef int32_t whole;
typedef uint32_t natural;
#else
typedef double real;
typedef int64_t whole;
typedef uint64_t natural;
#endif

/* Memory for `size` bytes that vectors may lie in; NULL if there is none. */
#if defined(__CUDACC__)
#define vector_memory(size) malloc(size)
#define release free
#elif defined(_WIN32)
#include <malloc.h>
#define vector_memory(size) _aligned_malloc(size, sizeof(T))
#define release _aligned_free
#else
#define vector_memory(size) aligned_alloc(sizeof(T), size)
#define release free
#endif

#if LANES == 1
typedef real T;
typedef whole I;
typedef natural U;
INLINE T splat(real x) { return x; }
INLINE I bits(T x) {
    I i;
    memcpy(&i, &x, sizeof i);
    return i;
}
INLINE T number(I i) {
    T x;
    memcpy(&x, &i, sizeof x);
    return x;
}
INLINE int any(I mask) { return mask != 0; }
/* Places of a program that do not wait for each other may be lanes, of as many as there are. */
#ifndef __CUDACC__
#if defined(SHORT_VECTORS) || !defined(__AVX__)
enum { WIDE = 16 / sizeof(real) };
#elif defined(__AVX512F__)
enum { WIDE = 64 / sizeof(real) };
#else
enum { WIDE = 32 / sizeof(real) };
#endif
typedef real W __attribute__((vector_size(WIDE * sizeof(real))));
INLINE W wide(real x) { return x - (W){0}; }
/* WIDE places from place k on, of which `left` are left; the last one is in all other lanes. */
#define EACH_PLACE(statement) \
    for (int l = 0; l < WIDE; l++) { \
        const int i = k + (l < left ? l : left - 1); \
        statement; \
    }
INLINE void take_lanes(W *x, const real *from, int step, int k, int left) {
    if (step == 1 && left >= WIDE) memcpy(x, from + k, sizeof *x);
    else EACH_PLACE((*x)[l] = from[step * i]);
}
INLINE void give_lanes(const W *x, real *to, int step, int k, int left) {
    if (step == 1 && left >= WIDE) memcpy(to + k, x, sizeof *x);
    else
        for (int l = 0; l < WIDE && l < left; l++) to[step * (k + l)] = (*x)[l];
}
#endif
#define MASK(condition) (-(I)(condition))
#define EACH_LANE(y, f, ...) ((y) = f(__VA_ARGS__))
#define LANE(x) (x)
#else
typedef real T __attribute__((vector_size(LANES * sizeof(real))));
typedef whole I __attribute__((vector_size(LANES * sizeof(real))));
typedef natural U __attribute__((vector_size(LANES * sizeof(real))));
INLINE T splat(real x) { return x - (T){0}; }
INLINE I bits(T x) { return (I)x; }
INLINE T number(I i) { return (T)i; }
#define MASK(condition) (condition)
#define UP_TO_1(f) f(0)
#define UP_TO_2(f) f(0), f(1)
#define UP_TO_4(f) UP_TO_2(f), f(2), f(3)
#define UP_TO_8(f) UP_TO_4(f), f(4), f(5), f(6), f(7)
#define UP_TO_16(f) UP_TO_8(f), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#if LANES == 2
#define EACH UP_TO_2
#elif LANES == 4
#define EACH UP_TO_4
#elif LANES == 8
#define EACH UP_TO_8
#else
#define EACH UP_TO_16
#endif
#define EACH_LANE(y, f, ...) \
    for (int lane = 0; lane < LANES; lane++) (y)[lane] = f(__VA_ARGS__)
#define LANE(x) ((x)[lane])
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define RESIZING_SHUFFLE
#endif
#endif
#ifndef SHUFFLE
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (I){__VA_ARGS__})
#endif
INLINE int any(I mask) {
#define VECTOR_BYTES (LANES * (SINGLE ? 4 : 8))
#if defined(__AVX512F__) && VECTOR_BYTES == 64 && !defined(__clang__)
    typedef long long words __attribute__((vector_size(64)));
    return __builtin_ia32_ptestmq512((words)mask, (words)mask, 255) != 0;
#elif defined(__AVX__) && VECTOR_BYTES == 32
    typedef long long words __attribute__((vector_size(32)));
    return !__builtin_ia32_ptestz256((words)mask, (words)mask);
#else
    whole together = 0;
    for (int lane = 0; lane < LANES; lane++) together |= mask[lane];
    return together != 0;
#endif
}
#endif

#if LANES == 1
INLINE T where(I mask, T a, T b) { return mask ? a : b; }
#else
INLINE T where(I mask, T a, T b) { return number((bits(a) & mask) | (bits(b) & ~mask)); }
#endif
INLINE T absolute(T a) { return number(bits(a) & ~bits(splat((real)-0.0))); }
INLINE T minimum(T a, T b) { return where(MASK((a < b) | (a != a)), a, b); } /* NaN in, NaN out */
INLINE T maximum(T a, T b) { return where(MASK((a > b) | (a != a)), a, b); }

/* bad, but NaN where one of x[0] ... x[n - 1] is not finite. */
INLINE T unless_finite(const T *x, int64_t n, T bad) {
    T b1 = splat(0), b2 = b1, b3 = b1;
    int64_t j = 0;
    UNROLL for (; j + 4 <= n; j += 4)
        bad += x[j] * 0, b1 += x[j + 1] * 0, b2 += x[j + 2] * 0, b3 += x[j + 3] * 0;
    for (; j < n; j++) bad += x[j] * 0;
    return (bad + b1) + (b2 + b3);
}

#define PER_LANE(name, f) \
    INLINE T name(T a) { \
        T y = a; \
        EACH_LANE(y, f, LANE(a)); \
        return y; \
    }
#define PER_LANE_OF_TWO(name, f) \
    INLINE T name(T a, T b) { \
        T y = a; \
        EACH_LANE(y, f, LANE(a), LANE(b)); \
        return y; \
    }
#if SINGLE
#define OF_REAL(name) name##f
#else
#define OF_REAL(name) name
#endif
PER_LANE(square_root, OF_REAL(sqrt))
PER_LANE(tangent, OF_REAL(tan))
PER_LANE(exponential, OF_REAL(exp))
PER_LANE(logarithm, OF_REAL(log))
PER_LANE(hyperbolic_sine, OF_REAL(sinh))
PER_LANE(hyperbolic_cosine, OF_REAL(cosh))
PER_LANE(arcsine, OF_REAL(asin))
PER_LANE(arccosine, OF_REAL(acos))
PER_LANE(floor_of, OF_REAL(floor))
PER_LANE_OF_TWO(hypotenuse, OF_REAL(hypot))

/* Whole numbers from 0 to 2^52 (of floats 2^23) as integers, all lanes at once. */
INLINE I whole_of(T x) {
    const T ones = splat(SINGLE ? 0x1p23 : 0x1p52);
    return bits(x + ones) ^ bits(ones);
}
/* Entry i of a table whose last index is given, or 0 beyond its ends; the first one for NaN. */
INLINE real entry_of(const real *table, whole i) { return table[i]; }
INLINE T lookup(const real *table, int64_t last, T i) {
    T y = i;
    const T within = where(MASK(i > 0), minimum(i, splat((real)last)), splat(0));
    const I place = whole_of(floor_of(within));
    EACH_LANE(y, entry_of, table, LANE(place));
    return y;
}
#if !SINGLE
/* The same in a table at an address, which begins behind its last index (scalars/tables.py). Idle
   lanes have the address 0. */
static const double no_table[2] = {0, 0};
INLINE double entry_at(int64_t address) { return *(const double *)(intptr_t)address; }
INLINE T lookup_at(T address, T i) {
    T y = i, last = i;
    const I none = ZERO(I) + (int64_t)(intptr_t)(no_table + 1), known = MASK(address > 0);
    const I table = (whole_of(address) & known) | (none & ~known), front = table - 8;
    EACH_LANE(last, entry_at, LANE(front));
    const T within = where(MASK(i > 0), minimum(i, last), splat(0));
    const I place = table + 8 * whole_of(floor_of(within));
    EACH_LANE(y, entry_at, LANE(place));
    return y;
}
#endif

INLINE T sign_of(T a) {
    I one = bits(splat(1)), minus = bits(splat(-1)), nan = bits(a) & MASK(a != a);
    return number((one & MASK(a > 0)) | (minus & MASK(a < 0)) | nan);
}

/* tanh x to 2 ulp: 1 - 2/(1 + exp(2 |x|)), and near 0 the rational function of Cephes (Moshier,
   1989). */
INLINE T hyperbolic_tangent(T x) {
    T a = absolute(x), z = x * x, far = 1 - 2 / (1 + exponential(2 * a));
    T p = (real)-1.61468768441708447952e3 +
          z * ((real)-9.92877231001918586564e1 + z * (real)-9.64399179425052238628e-1);
    T q = (real)4.84406305325125486048e3 +
          z * ((real)2.23548839060100448583e3 + z * ((real)1.12811678491632931402e2 + z));
    I sign = bits(x) & bits(splat((real)-0.0));
    return where(MASK(a < (real)0.625), x + x * (z * p / q), number(bits(far) | sign));
}

#if SINGLE
#define UPPER_HALF (~(whole)0xfff) /* of the digits */
#define NO_SMALLER 0x1p-60f        /* sizes between which nothing below leaves the normal numbers */
#define NO_LARGER 0x1p60f
#define TINY 0x1p-90f
#define QUARTER_PI 0x1.921fp-1f /* with zeros at its end: its multiples are exact */
#define REST_OF_IT 0x1.6a8886p-18f
#define ARCTANGENT(w, w2) \
    ((-3.3333236e-1f + w2 * (-1.4176136e-1f + w2 * -5.1413845e-2f)) + \
     w * (1.999432e-1f + w2 * 1.01653725e-1f))
#else
#define UPPER_HALF (~(whole)0x7ffffff)
#define NO_SMALLER 0x1p-500
#define NO_LARGER 0x1p500
#define TINY 0x1p-900
#define QUARTER_PI 0x1.921fb54442d18p-1
#define REST_OF_IT 0x1.1a62633145c07p-55
#define ARCTANGENT(w, w2) \
    ((-0x1.5555555555518p-2 + \
      w2 * (-0x1.249249216fa0fp-3 + \
            w2 * (-0x1.745cf54d06e4ep-4 + \
                  w2 * (-0x1.10f366af3b0aep-4 + \
                        w2 * (-0x1.a3a7788720007p-5 + w2 * -0x1.c1fb06ac5cb3dp-6))))) + \
     w * (0x1.99999999914cap-3 + \
          w2 * (0x1.c71c709678fadp-4 + \
                w2 * (0x1.3b114532755fcp-4 + \
                      w2 * (0x1.dfed0b4846bbfp-5 + \
                            w2 * (0x1.571dffbe3ec2cp-5 + w2 * 0x1.4c2903df95208p-7))))))
#endif

RARE void angles_one_by_one(const T *y, const T *x, const I *which, T *angle) {
    for (int lane = 0; lane < LANES; lane++)
        if (LANE(*which)) LANE(*angle) = (real)atan2((double)LANE(*y), (double)LANE(*x));
}

/* The angle of the point (x, y) from the x axis, in [-pi, pi], to 0.9 ulp: k pi/4 +- arctan(z) with
   z = m/n or (m - n)/(m + n), |z| <= 1/2, where 0 <= m <= n are |x| and |y|. The quotient has an
   upper half, of so few digits that its products are exact, and the rest; ARCTANGENT is the minimax
   polynomial P of arctan(z) = z + z^3 P(z^2). Zeros for both, NaN, and what is very large or small
   are left to the library of C. */
INLINE T angle_of(T y, T x) {
    T ax = absolute(x), ay = absolute(y);
    I steep = MASK(ay > ax), behind = MASK(bits(x) < 0), sign = bits(splat((real)-0.0));
    T n = where(steep, ay, ax), m = where(steep, ax, ay);
    I rare = ~(MASK(n >= NO_SMALLER) & MASK(n <= NO_LARGER) & (MASK(m >= TINY) | MASK(m == 0)));
    I wide = MASK(m + m > n);
    T more = number(bits(m) & wide), p = m - number(bits(n) & wide), q = n + more;
    T turns = number(bits(splat(1)) & wide);
    turns = where(steep, 2 - turns, turns);
    turns = where(behind, 4 - turns, turns);
    T inverse = 1 / q, high = number(bits(p * inverse) & UPPER_HALF),
      front = number(bits(q) & UPPER_HALF);
    T low = ((p - high * front) - high * ((q - front) + (more - (q - n)))) * inverse;
    I flip = (steep ^ behind) & sign;
    high = number(bits(high) ^ flip), low = number(bits(low) ^ flip);
    T z = high + low, w = z * z, w2 = w * w, whole_turns = turns * QUARTER_PI,
      sum = whole_turns + high;
    T rest = low + (z * (w * (ARCTANGENT(w, w2))) + turns * REST_OF_IT);
    T angle = sum + (((whole_turns - sum) + high) + rest);
    angle = number(bits(angle) ^ (bits(y) & sign));
    if (UNLIKELY(any(rare))) {
        T y_there = y, x_there = x, corrected = angle;
        angles_one_by_one(&y_there, &x_there, &rare, &corrected);
        angle = corrected;
    }
    return angle;
}

/* The bits of 2/pi behind a word of zeros. */
static const uint64_t two_over_pi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/* x > 0 mod pi/2, after Payne and Hanek (1983): x = m 2^e; of the product m (2/pi) only the 192
   bits from weight 2^(1-e) on matter, the others are multiples of 4. Two of them count quarter
   turns, 190 are the fraction. */
RARE void reduce_large(double x, double *high, double *low, int64_t *quadrant) {
    uint64_t word, window[3], p[3];
    memcpy(&word, &x, sizeof word);
    int start = (int)(word >> 52) - 1075 - 2 + 64; /* bit where the window begins */
    uint64_t m = (word & 0xfffffffffffff) | 0x10000000000000;
    for (int i = 0; i < 3; i++) {
        const uint64_t *limb = two_over_pi + start / 64 + i;
        window[i] = start % 64 ? limb[0] << start % 64 | limb[1] >> (64 - start % 64) : limb[0];
    }
    uint64_t carried = 0;
    for (int i = 2; i >= 0; i--) {
        p[i] = m * window[i] + carried;
        carried = HIGH_PRODUCT(m, window[i]) + (p[i] < carried);
    }
    *quadrant = (int64_t)(p[0] >> 62);
    for (int i = 0; i < 3; i++) p[i] = p[i] << 2 | (i < 2 ? p[i + 1] >> 62 : 0);
    int negative = (int)(p[0] >> 63); /* beyond 1/2: count from the next quarter turn back */
    if (negative) {
        *quadrant += 1;
        for (int i = 0; i < 3; i++) p[i] = ~p[i];
    }
    double f = ldexp((double)(p[0] >> 11), -53);
    double g = ldexp((double)((p[0] & 0x7ff) << 42 | p[1] >> 22), -106) +
               ldexp((double)(p[1] & 0x3fffff), -128) + ldexp((double)p[2], -192);
    double sum_high = f + g, sum_low = (f - sum_high) + g;
    double h = sum_high * 1.5707963267948966;
    double l = fma(sum_high, 1.5707963267948966, -h) + sum_high * 6.123233995736766e-17 +
               sum_low * 1.5707963267948966;
    *high = h + l;
    *low = (h - *high) + l;
    if (negative) *high = -*high, *low = -*low;
}

/* Lanes of a = |x| beyond LARGE: what is left of them after `quadrant` quarter turns, in two
   parts. */
#if SINGLE
#define LARGE 6e3
#else
#define LARGE 8e5
#endif
#define REDUCE_LARGE(a, r, e, quadrant) \
    for (int lane = 0; lane < LANES; lane++) { \
        double high = (double)LANE(a), low = 0; \
        int64_t turns = 0; \
        if (!(high > LARGE)) continue; \
        if (high > 1.7976931348623157e308) high = NAN; \
        else reduce_large(high, &high, &low, &turns); \
        LANE(r) = (real)high, LANE(e) = (real)low, LANE(quadrant) = (whole)turns; \
    }

#if SINGLE
/* 0 <= a <= LARGE as k pi/2 + r with |r| <= pi/4, but for round-off of k. The parts of pi/2 have 12
   bits, so that their products with k are exact; so are the first two differences, and `low` has
   what the third one loses. */
INLINE void quarter_turns(T a, T *r, I *quadrant) {
    const T shift = splat(0x1.8p23f), shifted = a * 0x1.45f306p-1f + shift, k = shifted - shift;
    const T rest = (a - k * 0x1.92p+0f) - k * 0x1.fb4p-12f, third = k * 0x1.444p-24f;
    const T high = rest - third, low = ((rest - high) - third) - k * 0x1.68c234p-39f;
    *r = high + low;
    *quadrant = bits(shifted);
}

/* The sign bit where a number of quarter turns has the bit 2; signed shifts may not reach it. */
#define HALF_TURN(k) ((I)((U)((k) & 2) << (8 * sizeof(real) - 2)))

/* sin x and cos x to 1.6 ulp: the minimax polynomials of Cephes (Moshier, 1989) for sin r and cos
   r, swapped and signed by k mod 4, where |x| = k pi/2 + r. */
INLINE void sine_and_cosine(T x, T *s, T *c) {
    T a = absolute(x), r, e;
    I quadrant;
    quarter_turns(a, &r, &quadrant);
    if (UNLIKELY(any(MASK(a > (real)LARGE)))) REDUCE_LARGE(a, r, e, quadrant)
    T z = r * r;
    T sine = r + r * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
    T cosine = 1.0f - (0.5f * z - z * z *
                                      (4.166664568298827e-2f +
                                       z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f)));
    I swap = -(quadrant & 1);
    *s = number(bits(where(swap, cosine, sine)) ^ HALF_TURN(quadrant) ^
                (bits(x) & bits(splat(-0.0f))));
    *c = number(bits(where(swap, sine, cosine)) ^ HALF_TURN(quadrant + 1));
}
#else
/* sin x and cos x to 1 ulp, from |x| = k pi/2 + r + e with |r| <= pi/4: pi/2 in two parts of 33
   bits, whose products with k are exact for |k| < 2^20, and a rest; then the minimax polynomials of
   fdlibm (Sun Microsystems, 1993) for sin(r + e) and cos(r + e), swapped and signed by k mod 4.
   `function` takes numbers T, which `bits` makes whole numbers I (U without sign) and `number`
   makes of these; `larger` is what is done about those beyond LARGE. */
#define SINE_AND_COSINE(function, T, I, U, bits, number, larger) \
    INLINE void function(T x, T *s, T *c) { \
        const T shift = 0x1.8p52 - ZERO(T); \
        const I sign = bits(-0.0 - ZERO(T)); \
        T a = number(bits(x) & ~sign), shifted = a * 6.36619772367581382433e-01 + shift; \
        T k = shifted - shift, t = a - k * 1.57079632673412561417e+00; \
        T w = k * 6.07710050630396597660e-11, high = t - w; \
        T low = ((t - high) - w) - k * 2.02226624879595063154e-21, r = high + low; \
        T e = (high - r) + low; \
        I quadrant = bits(shifted); \
        larger; \
        T z = r * r, z2 = z * z, half = 0.5 * z, one = 1.0 - half, zr = z * r; \
        T ps = (8.33333333332248946124e-03 + z * -1.98412698298579493134e-04) + \
               z2 * ((2.75573137070700676789e-06 + z * -2.50507602534068634195e-08) + \
                     z2 * 1.58969099521155010221e-10); \
        T pc = (4.16666666666666019037e-02 + z * -1.38888888888741095749e-03) + \
               z2 * ((2.48015872894767294178e-05 + z * -2.75573143513906633035e-07) + \
                     z2 * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)); \
        T sine = r - ((z * (0.5 * e - zr * ps) - e) - zr * -1.66666666666666324348e-01); \
        T cosine = one + (((1.0 - one) - half) + (z * (z * pc) - r * e)); \
        I swap = -(quadrant & 1), different = (bits(sine) ^ bits(cosine)) & swap; \
        I turned = (I)((U)(quadrant & 2) << 62), next = (I)((U)((quadrant + 1) & 2) << 62); \
        *s = number(bits(sine) ^ different ^ turned ^ (bits(x) & sign)); \
        *c = number(bits(cosine) ^ different ^ next); \
    }
#define ONE_BY_ONE \
    if (UNLIKELY(any(MASK(a > LARGE)))) REDUCE_LARGE(a, r, e, quadrant)
SINE_AND_COSINE(sine_and_cosine, T, I, U, bits, number, ONE_BY_ONE)
#endif

/* Sines and cosines of angles that are known from the beginning. A single state has up to four made
   at once, as lanes of a vector: KNOWN_ANGLES(name, x0, x1, ...), of which TURN(name, i, xi, s, c)
   takes one. Eight are slower: no other arithmetic goes on beside instructions of 64 bytes. */
#if LANES == 1 && !SINGLE && !defined(SHORT_VECTORS)
typedef double FourReal __attribute__((vector_size(32)));
typedef int64_t FourWhole __attribute__((vector_size(32)));
typedef uint64_t FourNatural __attribute__((vector_size(32)));
typedef struct {
    double s[4], c[4];
} FourTurns;
SINE_AND_COSINE(four_sines_and_cosines, FourReal, FourWhole, FourNatural, (FourWhole), (FourReal), )

RARE FourTurns four_one_by_one(FourReal x) {
    FourTurns turns;
    for (int i = 0; i < 4; i++) sine_and_cosine(x[i], turns.s + i, turns.c + i);
    return turns;
}

INLINE FourTurns four_turns(FourReal x) {
    FourTurns turns;
    FourReal s, c;
    int large = 0;
    UNROLL for (int i = 0; i < 4; i++)
        large |= absolute(x[i]) > LARGE;
    if (UNLIKELY(large)) return four_one_by_one(x);
    four_sines_and_cosines(x, &s, &c);
    memcpy(turns.s, &s, sizeof s), memcpy(turns.c, &c, sizeof c);
    return turns;
}
#define KNOWN_ANGLES(name, ...) const FourTurns name = four_turns((FourReal){__VA_ARGS__})
#define TURN(name, i, x, y, z) (*(y) = name.s[i], *(z) = name.c[i])
#else
#define KNOWN_ANGLES(...)
#define TURN(name, i, x, y, z) sine_and_cosine(x, y, z)
#endif
