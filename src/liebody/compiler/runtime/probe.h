/* Whether there are the headers that all code needs, how many bits a vector has, and numbers that
   compilers change where options such as -ffast-math let them. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(_WIN32) && !defined(__clang__)
int vector_bits = 128; /* GCC aligns stacks to 16 bytes there: its bug 54412 */
#elif defined(__AVX512F__)
int vector_bits = 512;
#elif defined(__AVX__)
int vector_bits = 256;
#else
int vector_bits = 128;
#endif

/* x: NaN, infinity, -0, 1, half the distance from 1 to the next number, the smallest normal number,
   1/2, and three others. build.py has what comes out by IEEE 754. */
void numbers(const double *x, double *y) {
    const double nan = x[0], infinity = x[1], zero = x[2], one = x[3], tiny = x[4], small = x[5];
    const double half = x[6], *other = x + 7;
    const double to_integer = 6755399441055744.0; /* 1.5 2^52 */
    y[0] = isnan(nan) && nan != nan && !(nan < one) && !(nan >= one) && !isfinite(nan);
    y[1] = !isfinite(infinity) && infinity > one && infinity - infinity != 0.0;
    y[2] = nan < one ? nan : one;
    y[3] = copysign(one, zero + 0.0);
    y[4] = one / (0.0 - (zero + 0.0));
    y[5] = (one + tiny) - one;
    y[6] = (other[0] + to_integer) - to_integer;
    y[7] = one / other[1] * other[1];
    for (int k = 0; k < 3; k++) y[8 + k] = other[k] / other[1];
    y[11] = one * 0.1;
    y[12] = small * half;
    y[13] = sin(other[0]);
    y[14] = exp(other[2]);
    y[15] = sqrt(other[0]);
    y[16] = (float)other[0] / (float)other[1];
    y[17] = sqrtf((float)other[0]);
}
