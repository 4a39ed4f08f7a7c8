/* Whether there are the headers that all code needs, and how many bits a vector has. */
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
