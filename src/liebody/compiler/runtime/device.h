/* The words of C that CUDA C++ writes otherwise, for nvcc and NVRTC, which needs no include folder.
   This text comes first in a translation unit; lanes.h follows, with LANES 1: one thread has one
   state. Behind it functions and tables are of the device, as `static` says there. */
#ifdef __CUDACC_RTC__ /* without an include folder: types of 64-bit Linux, Windows and devices */
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
#define INT32_MAX 0x7fffffff
#define INT64_MAX 0x7fffffffffffffff
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

/* Headers define more functions, and set more variables, than a kernel needs. */
#pragma nv_diag_suppress 177, 550

#define static static __device__
#define restrict __restrict__
#define INLINE static __forceinline__
#define RARE static __noinline__
#define THREAD_STATIC /* arrays of a thread are in its local memory */
#define UNROLL _Pragma("unroll")
#define ASK_ONCE(pointer) (void)(pointer)
#define ZERO(type) ((type)0)
#define HIGH_PRODUCT __umul64hi
#define UNLIKELY(condition) (condition)
#define EXPORTED static /* the kernel calls it */
#define SHORT_VECTORS
