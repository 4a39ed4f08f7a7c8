/* Arithmetic of quadratic_rows.h and what follows it, and of shooting.h, over one number, in C99
   alone: for processors without vectors. It takes the place of lanes.h. Before this text: SINGLE,
   whether numbers are floats. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define PLAIN
#define LANES 1
#define INLINE static inline
#define UNROLL
#define UNROLL_2
#define UNROLL_4
#define MASK(condition) (-(I)(condition))
#if SINGLE
typedef float real;
typedef int32_t I;
#else
typedef double real;
typedef int64_t I;
#endif
typedef real T;
INLINE T splat(real x) { return x; }
INLINE int any(I mask) { return mask != 0; }
INLINE T where(I mask, T a, T b) { return mask ? a : b; }
INLINE T absolute(T a) { return a < 0 ? -a : a; }
INLINE T minimum(T a, T b) { return a < b || isnan(a) ? a : b; } /* NaN in, NaN out */
INLINE T maximum(T a, T b) { return a > b || isnan(a) ? a : b; }
