/* While steps are taken, numbers below the smallest normal one (2.2e-308) are zero: arithmetic with
   them takes many times as long, and what dies out along a chain of bodies passes through them.
   `flush_subnormals` returns what `restore` takes. */
#if defined(__SSE2__) && !defined(__CUDACC__)
static unsigned flush_subnormals(void) {
    unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode | 0x8040); /* results to zero, operands as zero */
    return mode;
}
static void restore(unsigned mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__) && !defined(__CUDACC__)
static uint64_t flush_subnormals(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | 1u << 24));
    return mode;
}
static void restore(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
static int flush_subnormals(void) { return 0; }
static void restore(int mode) { (void)mode; }
#endif
