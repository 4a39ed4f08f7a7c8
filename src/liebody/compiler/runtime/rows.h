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
#define TRANSPOSE_1 (void)0
#define TRANSPOSE_2 SWAP(1, 0, 1)
#define TRANSPOSE_4 SWAP(1, 0, 1), SWAP(1, 2, 3), SWAP(2, 0, 2), SWAP(2, 1, 3)
#define TRANSPOSE_8 \
    SWAP(1, 0, 1), SWAP(1, 2, 3), SWAP(1, 4, 5), SWAP(1, 6, 7), SWAP(2, 0, 2), SWAP(2, 1, 3), \
        SWAP(2, 4, 6), SWAP(2, 5, 7), SWAP(4, 0, 4), SWAP(4, 1, 5), SWAP(4, 2, 6), SWAP(4, 3, 7)
#define TRANSPOSE_16 \
    SWAP(1, 0, 1), SWAP(1, 2, 3), SWAP(1, 4, 5), SWAP(1, 6, 7), SWAP(1, 8, 9), SWAP(1, 10, 11), \
        SWAP(1, 12, 13), SWAP(1, 14, 15), SWAP(2, 0, 2), SWAP(2, 1, 3), SWAP(2, 4, 6), \
        SWAP(2, 5, 7), SWAP(2, 8, 10), SWAP(2, 9, 11), SWAP(2, 12, 14), SWAP(2, 13, 15), \
        SWAP(4, 0, 4), SWAP(4, 1, 5), SWAP(4, 2, 6), SWAP(4, 3, 7), SWAP(4, 8, 12), \
        SWAP(4, 9, 13), SWAP(4, 10, 14), SWAP(4, 11, 15), SWAP(8, 0, 8), SWAP(8, 1, 9), \
        SWAP(8, 2, 10), SWAP(8, 3, 11), SWAP(8, 4, 12), SWAP(8, 5, 13), SWAP(8, 6, 14), \
        SWAP(8, 7, 15)
#define OF_SIZE(name, size) OF_SIZE_(name, size)
#define OF_SIZE_(name, size) name##size

#define VECTOR(i) a##i
#define PARAMETER(i) T a##i
#define PUT(i) x[i] = a##i

/* Blocks of LANES rows and `size` columns, size <= LANES, transposed in registers: vector i holds
   `size` numbers of each of the rows i, i + size, i + 2 size, ... one after the other. Transposing
   all squares of `size` numbers at once makes the columns of them. What is left of rows behind the
   last whole block is in blocks of ..., 4, 2, 1 columns: nothing beside the rows is read or
   written. */
typedef real V1;
#define PIECES(size) \
    typedef real V##size __attribute__((vector_size(size * sizeof(real)))); \
    COLLECT_AND_SPREAD(size)
#define COLLECT_AND_SPREAD(size) \
    INLINE V##size collect_##size##_##size(const real *const *row, int j) { \
        V##size v; \
        memcpy(&v, row[0] + j, sizeof v); \
        return v; \
    } \
    INLINE void spread_##size##_##size(real *first, int64_t step, V##size v) { \
        (void)step; \
        memcpy(first, &v, sizeof v); \
    }
COLLECT_AND_SPREAD(1)
PIECES(2)

/* Two halves of a vector, and the vector of two halves. */
INLINE V2 join_2(V1 a, V1 b) { return (V2){a, b}; }
INLINE V1 lower_2(V2 v) { return v[0]; }
INLINE V1 upper_2(V2 v) { return v[1]; }
#ifdef RESIZING_SHUFFLE
#define LOWER_2(i) i
#define LOWER_4(i) i
#define LOWER_8(i) i
#define LOWER_16(i) i
#define UPPER_2(i) 2 + i
#define UPPER_4(i) 4 + i
#define UPPER_8(i) 8 + i
#define OF_TWO(v, whole, half, a, b) v = SHUFFLE(a, b, UP_TO_##whole(LOWER_##whole))
#define OF_ONE(a, half, v, part) a = SHUFFLE(v, v, UP_TO_##half(part##_##half))
#else
#define LOWER 0
#define UPPER sizeof(a) / sizeof(real)
#define OF_TWO(v, whole, half, a, b) \
    UNROLL for (int l = 0; l < half; l++) \
    v[l] = a[l], v[half + l] = b[l]
#define OF_ONE(a, half, v, part) \
    UNROLL for (int l = 0; l < half; l++) \
    a[l] = v[part + l]
#endif
#define JOIN(whole, half, OF_TWO) \
    INLINE V##whole join_##whole(V##half a, V##half b) { \
        V##whole v = {0}; \
        OF_TWO(v, whole, half, a, b); \
        return v; \
    } \
    INLINE V##half lower_##whole(V##whole v) { \
        V##half a = {0}; \
        OF_ONE(a, half, v, LOWER); \
        return a; \
    } \
    INLINE V##half upper_##whole(V##whole v) { \
        V##half a = {0}; \
        OF_ONE(a, half, v, UPPER); \
        return a; \
    }

/* GCC has shuffles for joining halves; insertions take the second one from memory, and leave the
   unit for shuffles free. */
#define OF_TWO_16 OF_TWO
#define OF_TWO_32 OF_TWO
#define OF_TWO_64 OF_TWO
#if defined(__AVX__) && !defined(__clang__)
typedef double Bytes16 __attribute__((vector_size(16)));
typedef double Bytes32 __attribute__((vector_size(32)));
#undef OF_TWO_32
#define OF_TWO_32(v, whole, half, a, b) \
    v = (V##whole)__builtin_ia32_vinsertf128_pd256(__builtin_ia32_pd256_pd((Bytes16)a), \
                                                   (Bytes16)b, 1)
#endif
#if defined(__AVX512F__) && !defined(__clang__)
typedef double Bytes64 __attribute__((vector_size(64)));
#undef OF_TWO_64
#define OF_TWO_64(v, whole, half, a, b) \
    v = (V##whole)__builtin_ia32_insertf64x4_mask(__builtin_ia32_pd512_256pd((Bytes32)a), \
                                                  (Bytes32)b, 1, (Bytes64){0}, -1)
#endif
#if SINGLE
#define JOIN_4 JOIN(4, 2, OF_TWO_16)
#define JOIN_8 JOIN(8, 4, OF_TWO_32)
#define JOIN_16 JOIN(16, 8, OF_TWO_64)
#else
#define JOIN_4 JOIN(4, 2, OF_TWO_32)
#define JOIN_8 JOIN(8, 4, OF_TWO_64)
#define JOIN_16 JOIN(16, 8, OF_TWO)
#endif

/* Vectors of `whole` numbers, `size` of each row. */
#define HALVES(whole, half, size) \
    INLINE V##whole collect_##whole##_##size(const real *const *row, int j) { \
        return join_##whole(collect_##half##_##size(row, j), \
                            collect_##half##_##size(row + half, j)); \
    } \
    INLINE void spread_##whole##_##size(real *first, int64_t step, V##whole v) { \
        spread_##half##_##size(first, step, lower_##whole(v)); \
        spread_##half##_##size(first + half * step, step, upper_##whole(v)); \
    }
HALVES(2, 1, 1)
#if LANES >= 4
PIECES(4)
JOIN_4
HALVES(4, 2, 1)
HALVES(4, 2, 2)
#endif
#if LANES >= 8
PIECES(8)
JOIN_8
HALVES(8, 4, 1)
HALVES(8, 4, 2)
HALVES(8, 4, 4)
#endif
#if LANES >= 16
PIECES(16)
JOIN_16
HALVES(16, 8, 1)
HALVES(16, 8, 2)
HALVES(16, 8, 4)
HALVES(16, 8, 8)
#endif

/* Blocks come in and go out; those of `size` columns from column j on. */
#define COLLECT(i, size) a##i = OF_SIZE(OF_SIZE(collect_, LANES), _##size)(row + i, j)
#define SPREAD(i, size) OF_SIZE(OF_SIZE(spread_, LANES), _##size)(first + i * step, step, a##i)
#define BLOCKS(size) \
    INLINE void load_##size(T *x, const real *const *row, int j) { \
        T UP_TO_##size(VECTOR), upper; \
        (void)upper; \
        UP_TO_##size(COLLECT_##size); \
        TRANSPOSE_##size; \
        UP_TO_##size(PUT); \
    } \
    INLINE void store_##size(real *first, int64_t step, UP_TO_##size(PARAMETER)) { \
        T upper; \
        (void)upper; \
        TRANSPOSE_##size; \
        UP_TO_##size(SPREAD_##size); \
    }
#define COLLECT_1(i) COLLECT(i, 1)
#define COLLECT_2(i) COLLECT(i, 2)
#define COLLECT_4(i) COLLECT(i, 4)
#define COLLECT_8(i) COLLECT(i, 8)
#define COLLECT_16(i) COLLECT(i, 16)
#define SPREAD_1(i) SPREAD(i, 1)
#define SPREAD_2(i) SPREAD(i, 2)
#define SPREAD_4(i) SPREAD(i, 4)
#define SPREAD_8(i) SPREAD(i, 8)
#define SPREAD_16(i) SPREAD(i, 16)
BLOCKS(1)
BLOCKS(2)
#if LANES >= 4
BLOCKS(4)
#endif
#if LANES >= 8
BLOCKS(8)
#endif
#if LANES >= 16
BLOCKS(16)
#endif
#define load_block OF_SIZE(load_, LANES)
#define store OF_SIZE(store_, LANES)

/* The columns of x[j], x[j + 1], ... that are left behind the whole blocks: fewer than LANES. */
#if LANES >= 4
#define LEFT_2(run) \
    if (left & 2) run(2), j += 2
#else
#define LEFT_2(run)
#endif
#if LANES >= 8
#define LEFT_4(run) \
    if (left & 4) run(4), j += 4
#else
#define LEFT_4(run)
#endif
#if LANES >= 16
#define LEFT_8(run) \
    if (left & 8) run(8), j += 8
#else
#define LEFT_8(run)
#endif
#define IN_PARTS(run) \
    LEFT_8(run); \
    LEFT_4(run); \
    LEFT_2(run); \
    if (left & 1) run(1)

/* Rows first .. first + rows - 1 of an array. */
INLINE void load(T *x, int width, const real *first, int64_t stride, int64_t rows) {
#define LOAD(size) load_##size(x + j, row, j)
    const real *row[LANES];
    const int left = width % LANES;
    int j = 0;
    if (!stride) { /* one row that all share */
        for (; j < width; j++) x[j] = splat(first[j]);
        return;
    }
    if (width == 1 && stride == 1 && rows == LANES) {
        memcpy(x, first, sizeof(T));
        return;
    }
    UNROLL for (int l = 0; l < LANES; l++)
        row[l] = first + (l < rows ? l : rows - 1) * stride;
    UNROLL for (; j + LANES <= width; j += LANES)
        load_block(x + j, row, j);
    IN_PARTS(LOAD);
}

/* The inverse of load. */
INLINE void save(const T *x, int width, real *first, int64_t stride, int64_t rows) {
#define ENTRY(i) x[j + i]
#define SAVE(size) store_##size(first + j, stride, UP_TO_##size(ENTRY))
    const int left = width % LANES;
    int j = 0;
    if (rows < LANES) {
        for (; j < width; j++)
            for (int l = 0; l < rows; l++) first[l * stride + j] = x[j][l];
        return;
    }
    if (width == 1 && stride == 1) {
        memcpy(first, x, sizeof(T));
        return;
    }
    for (; j + LANES <= width; j += LANES) store(first + j, stride, EACH(ENTRY));
    IN_PARTS(SAVE);
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

/* Rows shorter than a vector; those without gaps may go past the caches. */
INLINE void write_short(real *row, int64_t step, const T *y, const int64_t *from, int width,
                        int past) {
#define OF_SHORT(i) AT(from[j + i])
#define STORE_SHORT(size) store_##size(to + j, step, UP_TO_##size(OF_SHORT))
    real block[LANES * LANES] __attribute__((aligned(64)));
    const int left = width, together = past && step == width;
    real *to = together ? block : row;
    int j = 0;
    if (width == 1 && step == 1) {
        memcpy(row, &AT(from[0]), sizeof(T));
        return;
    }
    IN_PARTS(STORE_SHORT);
    if (together) write_row(row, block, LANES * width, past);
}
#endif
