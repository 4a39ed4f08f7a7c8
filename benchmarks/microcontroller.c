/* Counts the instructions and the stack of exported functions on a bare Cortex-M of QEMU.

   cases.h, which benchmarks/microcontroller.py writes, defines REAL and the table `cases`. Virtual
   time goes on by NANOSECONDS for each instruction (`-icount shift=6`), and the timer SysTick counts
   down 25 times in a microsecond, so its ticks tell instructions. Output goes by semihosting. */
#include <math.h>
#include <stdint.h>

typedef struct {
    const char *name;
    void (*call)(void), (*before)(void); /* `before` is not counted */
    const REAL *results, *expected; /* of `size` numbers */
    int size;
} Case;

static void nothing(void) {}

#include "cases.h"

enum { NANOSECONDS = 64, TICK = 40, UNTOUCHED = 0x5a5a5a5a, PAINTED = 1 << 16 };

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYSTICK_CONTROL REGISTER(0xe000e010)
#define SYSTICK_RELOAD REGISTER(0xe000e014)
#define SYSTICK_VALUE REGISTER(0xe000e018)
#define COPROCESSORS REGISTER(0xe000ed88)

extern char stack_top[];
int main(void);
void reset(void);

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {stack_top, reset};

/* A request to the emulator: 4 writes a text, 32 ends the program. */
static int semihosting(int request, const void *argument) {
    register int r0 __asm__("r0") = request;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void reset(void) {
    extern uint32_t data_begin[], data_end[], bss_begin[], bss_end[];
    extern const uint32_t data_in_flash[];
    const uint32_t *from = data_in_flash;
    COPROCESSORS |= 0xfU << 20; /* the floating-point unit */
    __asm__ volatile("dsb\n isb");
    for (uint32_t *to = data_begin; to < data_end; to++) *to = *from++;
    for (uint32_t *to = bss_begin; to < bss_end; to++) *to = 0;
    const int status = main();
    const uint32_t reason[] = {0x20026, (uint32_t)status};
    semihosting(32, reason);
    for (;;) {}
}

static void print(const char *text) { semihosting(4, text); }

static void print_number(uint32_t x) {
    char text[12], *at = text + sizeof text - 1;
    *at = 0;
    do *--at = (char)('0' + x % 10);
    while (x /= 10);
    print(at);
}

__attribute__((noinline)) static uint32_t instructions(void (*call)(void)) {
    const uint32_t before = SYSTICK_VALUE;
    call();
    const uint32_t ticks = (before - SYSTICK_VALUE) & 0xffffff;
    return (uint32_t)((uint64_t)ticks * TICK / NANOSECONDS);
}

/* How many bytes below the stack pointer a call touches: they are painted before. */
__attribute__((noinline)) static uint32_t stack(void (*call)(void)) {
    volatile uint32_t *top;
    __asm__ volatile("mov %0, sp" : "=r"(top));
    volatile uint32_t *lowest = top - PAINTED / 4;
    for (volatile uint32_t *at = lowest; at < top; at++) *at = UNTOUCHED;
    call();
    while (lowest < top && *lowest == UNTOUCHED) lowest++;
    return (uint32_t)((uintptr_t)top - (uintptr_t)lowest);
}

static void thousand(void) { __asm__ volatile(".rept 1000\n nop\n .endr"); }

static int wrong(const Case *one) {
    double size = 1;
    for (int i = 0; i < one->size; i++) size = fmax(size, fabs((double)one->expected[i]));
    for (int i = 0; i < one->size; i++)
        if (!(fabs((double)one->results[i] - (double)one->expected[i]) <= TOLERANCE * size)) return 1;
    return 0;
}

int main(void) {
    int failures = 0;
    SYSTICK_RELOAD = 0xffffff;
    SYSTICK_VALUE = 0;
    SYSTICK_CONTROL = 5; /* on, by the clock of the processor */
    const uint32_t empty = instructions(nothing);
    print("calibration ");
    print_number(instructions(thousand) - empty);
    print("\n");
    for (const Case *one = cases; one < cases + sizeof cases / sizeof *cases; one++) {
        one->before();
        const uint32_t count = instructions(one->call) - empty;
        one->before();
        const uint32_t bytes = stack(one->call);
        print(one->name);
        print(" ");
        print_number(count);
        print(" ");
        print_number(bytes);
        print("\n");
        failures += wrong(one);
    }
    return failures;
}
