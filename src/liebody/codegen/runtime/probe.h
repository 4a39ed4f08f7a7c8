/* Whether there are the headers that all code needs, and how many bits a vector has. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__)
int vector_bits = 512;
#elif defined(__AVX__)
int vector_bits = 256;
#else
int vector_bits = 128;
#endif
