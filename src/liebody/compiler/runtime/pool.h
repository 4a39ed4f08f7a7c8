/* Memory of large results, which later results use again: an allocator for NumPy's arrays
   (PyDataMem_Handler). Fresh memory of the system costs a page fault for every 4 kB, which takes
   longer than computing most results.

   Memory that an array gives back is idle. It waits in a slot of its size class for the next array
   of this class. No more is idle than arrays of the pool hold at that time, or than LIMIT, if that
   is more; what has been idle for longest goes back to the system first. Slots are exchanged in
   single atomic operations, without locks. So any thread may allocate and release at any time, and
   the child of a fork finds every slot either full or empty. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum {
    LIMIT = 1 << 28,           /* bytes that may be idle whatever is in use */
    SMALLEST = 14,             /* the logarithm of the least size of a class */
    PER_OCTAVE = 4,            /* classes between a power of two and the next one */
    CLASSES = 24 * PER_OCTAVE, /* larger blocks are not kept */
    DEPTH = 16,                /* blocks of a class that may be idle */
    LINE_BYTES = 64,           /* arrays begin at multiples of this */
    HUGE_FROM = 1 << 22        /* bytes from which on large pages are asked for, as NumPy does */
};

typedef struct { /* in front of the memory of an array */
    void *start; /* what malloc returned */
    size_t size; /* of the memory behind this head */
    int class;
} Block;

static struct {
    Block *block;
    intptr_t since; /* the number of the call that gave it back */
} idle[CLASSES][DEPTH];
static intptr_t idle_bytes, used_bytes, releases;

#define ADD(to, number) __atomic_add_fetch(&(to), (intptr_t)(number), __ATOMIC_RELAXED)
#define READ_NOW(from) __atomic_load_n(&(from), __ATOMIC_RELAXED)

/* The memory behind a head, and back. */
static void *memory_of(Block *block) { return (char *)block + LINE_BYTES; }
static Block *block_of(void *memory) { return (Block *)((char *)memory - LINE_BYTES); }

/* The class of the least size that holds `size` bytes, and this size: a quarter, two quarters, ...
   more than a power of two. CLASSES if there is none. */
static int class_of(size_t *size) {
    const size_t least = (size_t)1 << SMALLEST;
    if (*size <= least) return *size = least, 0;
    const int octave = 63 - __builtin_clzll((unsigned long long)*size - 1);
    const size_t step = ((size_t)1 << octave) / PER_OCTAVE;
    const size_t steps = (*size - 1 - ((size_t)1 << octave)) / step + 1;
    const int class = (octave - SMALLEST) * PER_OCTAVE + (int)steps;
    if (class >= CLASSES) return CLASSES;
    *size = ((size_t)1 << octave) + steps * step;
    return class;
}

/* Takes the block out of a slot; NULL if it is empty. */
static Block *emptied(int class, int place) {
    if (!READ_NOW(idle[class][place].block)) return 0;
    Block *block = __atomic_exchange_n(&idle[class][place].block, (Block *)0, __ATOMIC_ACQ_REL);
    if (block) ADD(idle_bytes, -(intptr_t)block->size);
    return block;
}

/* Gives idle memory back to the system, what is oldest first, until no more than `most` is left. */
static void shrink(intptr_t most) {
    while (READ_NOW(idle_bytes) > most) {
        int class = -1, place = 0;
        intptr_t oldest = INTPTR_MAX;
        for (int c = 0; c < CLASSES; c++) {
            for (int k = 0; k < DEPTH; k++) {
                const intptr_t since = READ_NOW(idle[c][k].since);
                if (READ_NOW(idle[c][k].block) && since < oldest)
                    class = c, place = k, oldest = since;
            }
        }
        if (class < 0) return;
        Block *block = emptied(class, place);
        if (block) free(block->start);
    }
}

/* Larger pages than 4 kB, as NumPy asks for: fewer faults, and fewer pages to look up. */
static void prefer_large_pages(void *start, size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = ((uintptr_t)start + 4095) & ~(uintptr_t)4095;
    madvise((void *)page, (uintptr_t)start + size - page, MADV_HUGEPAGE);
#else
    (void)start, (void)size;
#endif
}

static void *new_memory(void *context, size_t size) {
    (void)context;
    if (size > PTRDIFF_MAX / 2) return 0;
    const int class = class_of(&size);
    Block *block = 0;
    for (int k = 0; class < CLASSES && k < DEPTH && !block; k++) block = emptied(class, k);
    if (!block) {
        const size_t whole = size + 2 * LINE_BYTES;
        void *start = malloc(whole);
        if (!start) {
            shrink(0);
            start = malloc(whole);
        }
        if (!start) return 0;
        block = (Block *)(((uintptr_t)start + LINE_BYTES - 1) & ~(uintptr_t)(LINE_BYTES - 1));
        *block = (Block){start, size, class};
        if (whole >= HUGE_FROM) prefer_large_pages(start, whole);
    }
    ADD(used_bytes, block->size);
    return memory_of(block);
}

static void release_memory(void *context, void *memory, size_t size) {
    (void)context, (void)size;
    if (!memory) return;
    Block *block = block_of(memory), *none = 0;
    ADD(used_bytes, -(intptr_t)block->size);
    const int class = block->class;
    const intptr_t bytes = (intptr_t)block->size, now = ADD(releases, 1);
    for (int k = 0; class < CLASSES && k < DEPTH; k++) {
        if (READ_NOW(idle[class][k].block)) continue;
        __atomic_store_n(&idle[class][k].since, now, __ATOMIC_RELAXED);
        ADD(idle_bytes, bytes); /* before another thread can take it */
        if (__atomic_compare_exchange_n(&idle[class][k].block, &none, block, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            block = 0;
            break;
        }
        ADD(idle_bytes, -bytes);
        none = 0;
    }
    if (block) free(block->start); /* every slot of its class is full */
    const intptr_t used = READ_NOW(used_bytes);
    shrink(used > LIMIT ? used : LIMIT);
}

static void *new_zeros(void *context, size_t number, size_t each) {
    if (each && number > PTRDIFF_MAX / 2 / each) return 0;
    void *memory = new_memory(context, number * each);
    return memory ? memset(memory, 0, number * each) : 0;
}

static void *resized_memory(void *context, void *memory, size_t size) {
    if (!memory) return new_memory(context, size);
    const size_t old_size = block_of(memory)->size;
    if (size <= old_size && old_size - size <= old_size / 2) return memory;
    void *other = new_memory(context, size);
    if (!other) return 0;
    memcpy(other, memory, size < old_size ? size : old_size);
    release_memory(context, memory, old_size);
    return other;
}

/* NumPy's PyDataMem_Handler, version 1. */
struct {
    char name[127];
    uint8_t version;
    void *context;
    void *(*of_size)(void *context, size_t size);
    void *(*of_zeros)(void *context, size_t number, size_t each);
    void *(*resized)(void *context, void *memory, size_t size);
    void (*release)(void *context, void *memory, size_t size);
} pool = {"liebody", 1, 0, new_memory, new_zeros, resized_memory, release_memory};

/* Idle bytes, and bytes in use; the idle ones above `most` go back to the system before. */
void pool_state(intptr_t most, intptr_t *bytes) {
    shrink(most);
    bytes[0] = READ_NOW(idle_bytes), bytes[1] = READ_NOW(used_bytes);
}
