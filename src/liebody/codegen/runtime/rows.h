/* Rows of row-major arrays, one for each lane, come into vectors and go out of them: x[j] holds
   entry j of LANES rows. */

#if LANES == 1
INLINE void load(T *x, int width, const real *first, int64_t stride, int64_t rows) {
    (void)stride, (void)rows;
    memcpy(x, first, width * sizeof(real));
}

INLINE void save(const T *x, int width, real *first, int64_t stride, int64_t rows) {
    (void)stride, (void)rows;
    memcpy(first, x, width * sizeof(real));
}
#else
/* Vectors a0, a1, ... become the columns of the matrix whose rows they are. For d = 1, 2, 4, ...
   those at the distance d exchange the off-diagonal parts of blocks of size d. */
#define UPPER_ROW(d, j) ((j) & (d) ? LANES + ((j) ^ (d)) : (j))
#define LOWER_ROW(d, j) ((j) & (d) ? LANES + (j) : (j) | (d))
#define UPPER_ROW_1(j) UPPER_ROW(1, j)
#define LOWER_ROW_1(j) LOWER_ROW(1, j)
#define UPPER_ROW_2(j) UPPER_ROW(2, j)
#define LOWER_ROW_2(j) LOWER_ROW(2, j)
#define UPPER_ROW_4(j) UPPER_ROW(4, j)
#define LOWER_ROW_4(j) LOWER_ROW(4, j)
#define UPPER_ROW_8(j) UPPER_ROW(8, j)
#define LOWER_ROW_8(j) LOWER_ROW(8, j)
#define SWAP(d, i, j) \
    upper = SHUFFLE(a##i, a##j, EACH(UPPER_ROW_##d)), \
    a##j = SHUFFLE(a##i, a##j, EACH(LOWER_ROW_##d)), a##i = upper
#if LANES == 2
#define TRANSPOSE SWAP(1, 0, 1)
#elif LANES == 4
#define TRANSPOSE SWAP(1, 0, 1), SWAP(1, 2, 3), SWAP(2, 0, 2), SWAP(2, 1, 3)
#elif LANES == 8
#define TRANSPOSE \
    SWAP(1, 0, 1), SWAP(1, 2, 3), SWAP(1, 4, 5), SWAP(1, 6, 7), SWAP(2, 0, 2), SWAP(2, 1, 3), \
        SWAP(2, 4, 6), SWAP(2, 5, 7), SWAP(4, 0, 4), SWAP(4, 1, 5), SWAP(4, 2, 6), SWAP(4, 3, 7)
#else
#define TRANSPOSE \
    SWAP(1, 0, 1), SWAP(1, 2, 3), SWAP(1, 4, 5), SWAP(1, 6, 7), SWAP(1, 8, 9), SWAP(1, 10, 11), \
        SWAP(1, 12, 13), SWAP(1, 14, 15), SWAP(2, 0, 2), SWAP(2, 1, 3), SWAP(2, 4, 6), \
        SWAP(2, 5, 7), SWAP(2, 8, 10), SWAP(2, 9, 11), SWAP(2, 12, 14), SWAP(2, 13, 15), \
        SWAP(4, 0, 4), SWAP(4, 1, 5), SWAP(4, 2, 6), SWAP(4, 3, 7), SWAP(4, 8, 12), \
        SWAP(4, 9, 13), SWAP(4, 10, 14), SWAP(4, 11, 15), SWAP(8, 0, 8), SWAP(8, 1, 9), \
        SWAP(8, 2, 10), SWAP(8, 3, 11), SWAP(8, 4, 12), SWAP(8, 5, 13), SWAP(8, 6, 14), \
        SWAP(8, 7, 15)
#endif

/* Blocks of LANES x LANES entries, transposed in registers. */
#define VECTOR(i) a##i
#define PARAMETER(i) T a##i
INLINE void load_block(T *x, const real *const *row, int j) {
#define READ(i) memcpy(&a##i, row[i] + j, sizeof(T))
#define PUT(i) x[i] = a##i
    T EACH(VECTOR), upper;
    EACH(READ);
    TRANSPOSE;
    EACH(PUT);
}

INLINE void store(real *first, int64_t step, EACH(PARAMETER)) {
#define WRITE(i) memcpy(first + i * step, &a##i, sizeof(T))
    T upper;
    TRANSPOSE;
    EACH(WRITE);
}

/* Rows first .. first + rows - 1 of an array. */
INLINE void load(T *x, int width, const real *first, int64_t stride, int64_t rows) {
    const real *row[LANES];
    UNROLL for (int l = 0; l < LANES; l++)
        row[l] = first + (l < rows ? l : rows - 1) * stride;
    if (width < LANES) {
        for (int j = 0; j < width; j++)
            for (int l = 0; l < LANES; l++) x[j][l] = row[l][j];
        return;
    }
    UNROLL for (int j = 0; j + LANES <= width; j += LANES)
        load_block(x + j, row, j);
    if (width % LANES) load_block(x + width - LANES, row, width - LANES);
}

/* The inverse of load. */
INLINE void save(const T *x, int width, real *first, int64_t stride, int64_t rows) {
#define ENTRY(i) x[j + i]
    if (width < LANES || rows < LANES) {
        for (int j = 0; j < width; j++)
            for (int l = 0; l < rows; l++) first[l * stride + j] = x[j][l];
        return;
    }
    int j = 0;
    for (; j + LANES <= width; j += LANES) store(first + j, stride, EACH(ENTRY));
    if (j < width) {
        j = width - LANES;
        store(first + j, stride, EACH(ENTRY));
    }
}

/* Results, of which entry j of a row is the vector at the distance from[j] in bytes from y. */
#define AT(offset) (*(const T *)((const char *)y + (offset)))

INLINE void store_same(real *first, int64_t step, const real *values) {
    for (int l = 0; l < LANES; l++) memcpy(first + l * step, values, sizeof(T));
}

/* Whole lines of memory go past the caches, and so need not be read before; nobody may read what is
   written so before SETTLE. */
enum { LINE = LANES > 64 / (int)sizeof(real) ? LANES : 64 / (int)sizeof(real), STRIP = 8 * LINE };
#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(to, v) __builtin_nontemporal_store(v, (T *)(to))
#endif
#endif
#if SINGLE
#define STREAM_REALS(size) __builtin_ia32_movntps##size
#else
#define STREAM_REALS(size) __builtin_ia32_movntpd##size
#endif
#if !defined(STREAM) && defined(__AVX512F__) && VECTOR_BYTES == 64
#define STREAM STREAM_REALS(512)
#elif !defined(STREAM) && defined(__AVX__) && VECTOR_BYTES == 32
#define STREAM STREAM_REALS(256)
#elif !defined(STREAM) && defined(__SSE2__) && VECTOR_BYTES == 16
#define STREAM STREAM_REALS()
#elif !defined(STREAM)
#define STREAM(to, v) memcpy(to, &v, sizeof(T))
#endif
#ifdef __SSE2__
#define SETTLE __builtin_ia32_sfence
#else
#define SETTLE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

/* n entries go to memory; `past`: whole lines past the caches. Parts of a line go through them: the
   rest of the line comes from another row, and a line that is written in both ways is written
   several times. */
INLINE void write_row(real *to, const real *of, int n, int past) {
    T v;
    for (; n && (uintptr_t)to % (LINE * sizeof(real)); n--) *to++ = *of++;
    for (; past && n >= LINE; n -= LINE) {
        for (int k = 0; k < LINE; k += LANES, to += LANES, of += LANES) {
            memcpy(&v, of, sizeof v);
            STREAM(to, v);
        }
    }
    for (; n >= LANES; n -= LANES, to += LANES, of += LANES) {
        memcpy(&v, of, sizeof v);
        memcpy(to, &v, sizeof v);
    }
    for (; n; n--) *to++ = *of++;
}

/* Blocks of LANES entries, in order: at[b] is i for a block from entry i on that comes from y, and
   ~i < 0 for one of constants. Columns are gathered in strips, of which whole lines of memory are
   written; what begins the next line waits in front of the next strip. Short rows without gaps are
   gathered all together, because most lines hold parts of two of them. */
static __attribute__((noinline)) void write(real *row, int64_t step, const T *y,
                                            const int64_t *from, const real *fixed, const int *at,
                                            int blocks, int past) {
#define OF_Y(i) AT(f[i])
    real strip[LANES][LINE + STRIP] __attribute__((aligned(64)));
    const int width = (at[blocks - 1] < 0 ? ~at[blocks - 1] : at[blocks - 1]) + LANES;
    if (step == width && width <= LINE + STRIP) {
        for (int b = 0; b < blocks; b++) {
            const int i = at[b] < 0 ? ~at[b] : at[b];
            const int64_t *f = from + i;
            if (at[b] >= 0) store(strip[0] + i, width, EACH(OF_Y));
            else store_same(strip[0] + i, width, fixed + i);
        }
        write_row(row, strip[0], LANES * width, past);
        return;
    }
    for (int first = 0, b = 0; first < width; first += STRIP) {
        const int last = first + STRIP < width ? first + STRIP : width;
        for (; b < blocks; b++) {
            const int i = at[b] < 0 ? ~at[b] : at[b];
            const int64_t *f = from + i;
            real *here = strip[0] + LINE + i - first;
            if (i + LANES > last) break;
            if (at[b] >= 0) store(here, LINE + STRIP, EACH(OF_Y));
            else store_same(here, LINE + STRIP, fixed + i);
        }
        for (int l = 0; l < LANES; l++) {
            real *to = row + l * step, *of = strip[l];
            const int ahead = (int)((uintptr_t)to / sizeof(real) % LINE); /* of a line's start */
            const int begin = first ? first - ahead : 0, end = last < width ? last - ahead : last;
            write_row(to + begin, of + LINE + begin - first, end - begin, past);
            memcpy(of, of + STRIP, LINE * sizeof(real));
        }
    }
}

/* The first of LANES rows without gaps go where they belong. */
INLINE void copy_rows(real *first, int64_t step, const real *row, int64_t width, int64_t rows) {
    for (int64_t l = 0; l < rows; l++)
        memcpy(first + l * step, row + l * width, width * sizeof(real));
}

INLINE void write_short(real *row, int64_t step, const T *y, const int64_t *from, int width) {
    for (int j = 0; j < width; j++)
        for (int l = 0; l < LANES; l++) row[l * step + j] = AT(from[j])[l];
}
#endif
