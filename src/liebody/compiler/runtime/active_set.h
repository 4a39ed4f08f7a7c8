/* Convex quadratic programs by a dual active set method, one at a time:

       minimize    x' H x / 2 + g' x + sum of w_i s_i^2 / 2
       subject to  A x + s = b,    l <= C x + s <= u

   compiler/programs/active_set.py has the same algorithm in NumPy, with its derivation.

   Before this text: the text of quadratic_rows.h with LANES 1, place_c, ITERATIONS at most,
   TOLERANCE, PROXIMAL, STALLED, CORRECTIONS, and the settings of the Python module. The row i of C
   is the dense row place_c[i], or if that is negative the other row -1 - place_c[i]. */

enum {
    MOST = HELD + INEQUALITIES, /* rows: those of A first, then those of C */
    MOST_ROWS = ROUNDED(MOST ? MOST : 1, PER),
    SET_MEMORY = (2 * STRIDE + 2 * ROWS + ROWS_F + MOST_ROWS + 13) * STRIDE + ROWS + 2 * ROWS_F +
        (MOST_ROWS + 13) * MOST_ROWS + ENTRIES
};

/* The program that is solved, and its active rows; Python's names are the same. */
typedef struct {
    Rows rows;
    T *U, *inverse, *pivots;                                /* H + R = U' D^-1 U, and D^-1, D */
    T *size, *soft, *used, *low, *high, *shift, *value, *z; /* of all rows */
    T *value_c;                                             /* of rows of C */
    T *s0, *x, *s, *y;                                      /* of the unknowns */
    T *S, *L, *d, *w, *r; /* of active rows: S has STRIDE columns, L has MOST_ROWS */
    int *active, *signs;  /* their numbers, and 0: equality; 1: lower, -1: upper bound */
    int *is_active;       /* of all rows */
    int count, changes;
    T firm; /* the least slack per multiplier */
} Set;

INLINE T dot(const T *a, const T *b, int n) {
    V even = all(splat(0)), odd = even;
    int i = 0;
    for (; i + PER < n; i += 2 * PER) {
        even += chunk(a + i) * chunk(b + i);
        odd += chunk(a + i + PER) * chunk(b + i + PER);
    }
    if (i < n) even += chunk(a + i) * chunk(b + i);
    return sum_of(even + odd);
}

/* y += m a. */
INLINE void add_times(T *restrict y, T m, const T *restrict a, int n) {
    const V factor = all(m);
    EACH_CHUNK(n) put(y + i, chunk(y + i) + factor * chunk(a + i));
}

/* Factorises the matrix in U, in place; the lower triangle is not used. Pivots of round-off are
   raised; `raised` is what that adds to the diagonal of H. */
static void factorise_raised(const Set *set, T *restrict raised, T scale) {
    T *U = set->U, *units = set->s;
    for (int k = 0; k < N; k++) units[k] = maximum(U[k * STRIDE + k], scale);
    T *minus = set->y;
    for (int p = 0; p < N; p += BLOCK) {
        /* less the products of the rows above, then one row after the other */
        for (int c = p / (SIDE * PER) * (SIDE * PER); p && c < STRIDE; c += SIDE * PER)
            add_block(U, U, U, minus, p, p, c);
        for (int k = p; k < p + BLOCK && k < N; k++) {
            T *row = U + k * STRIDE;
            if (!(row[k] > SMALLEST_PIVOT * units[k])) {
                raised[k] = RAISED_PIVOT * units[k] - row[k];
                row[k] = RAISED_PIVOT * units[k];
            }
            set->pivots[k] = row[k];
            set->inverse[k] = 1 / row[k];
            minus[k] = -set->inverse[k];
            for (int i = k + 1; i < p + BLOCK && i < N; i++) {
                const V factor = all(minus[k] * row[i]);
                T *next = U + i * STRIDE;
                for (int j = down(i); j < STRIDE; j += PER)
                    put(next + j, chunk(next + j) + factor * chunk(row + j));
            }
        }
    }
}

/* Copies the row i; returns the first column that may differ from zero. */
static int copy_row(const Set *set, int i, T *restrict row) {
    const int place = i < HELD ? i : place_c[i - HELD];
    if (place >= 0) {
        memcpy(row, set->rows.E + (i < HELD ? place : HELD + place) * STRIDE, STRIDE * sizeof(T));
        return 0;
    }
    memset(row, 0, STRIDE * sizeof(T));
    const int first = sparse_start[-1 - place], stop = sparse_start[-place];
    for (int e = first; e < stop; e++) row[sparse_column[e]] = set->rows.entries[e];
    return first < stop ? sparse_column[first] : 0;
}

/* w becomes L^-1 w; behind the active rows it is zero. In a group one number follows from the
   other; products with those in front of it need not wait. */
static void through_L(const Set *set, T *restrict w) {
    for (int p = 0; p < set->count; p += GROUP) {
        const int n = set->count - p < GROUP ? set->count - p : GROUP;
        const T *L = set->L + p * MOST_ROWS;
        T y[GROUP];
        for (int i = 0; i < n; i++) y[i] = w[p + i] - dot(L + i * MOST_ROWS, w, p);
        for (int i = 1; i < n; i++)
            for (int j = 0; j < i; j++) y[i] -= L[i * MOST_ROWS + p + j] * y[j];
        memcpy(w + p, y, (size_t)n * sizeof(T));
    }
}

/* r = L'^-1 d^-1 w. */
static void back(const Set *set, T *restrict r, const T *restrict w) {
    memset(r, 0, MOST_ROWS * sizeof(T));
    for (int k = 0; k < set->count; k++) r[k] = w[k] / set->d[k];
    for (int k = set->count - 1; k > 0; k--) add_times(r, -r[k], set->L + k * MOST_ROWS, k);
}

/* What L d L' needs for the row i, which is not active: s, and w = L^-1 S D s of the active rows.
   Returns its pivot. */
static T see(const Set *set, int i) {
    const int q = set->count;
    T *s = set->s, *y = set->y, *w = set->w;
    forward_with(set->U, set->inverse, s, copy_row(set, i, s));
    EACH_CHUNK(STRIDE) put(y + i, chunk(s + i) * chunk(set->pivots + i));
    memset(w, 0, MOST_ROWS * sizeof(T));
    for (int k = 0; k < q; k++) w[k] = dot(set->S + k * STRIDE, y, STRIDE);
    through_L(set, w);
    set->used[i] = maximum(set->soft[i], set->firm);
    const T own = dot(s, y, STRIDE) + set->used[i];
    T pivot = own;
    for (int k = 0; k < q; k++) pivot -= w[k] * w[k] / set->d[k];
    const T least = DEPENDENT * own;
    if (pivot < least) set->used[i] += least - pivot;
    return maximum(pivot, least);
}

/* The row i, as `see` left it, becomes active. */
static void join(Set *set, int i, int sign, T pivot) {
    const int q = set->count++;
    T *row = set->L + q * MOST_ROWS;
    memset(row, 0, MOST_ROWS * sizeof(T));
    for (int k = 0; k < q; k++) row[k] = set->w[k] / set->d[k];
    set->d[q] = pivot;
    memcpy(set->S + q * STRIDE, set->s, STRIDE * sizeof(T));
    set->active[q] = i, set->signs[q] = sign;
    set->is_active[i] = 1;
}

/* The active row at place k leaves: L d L' of those behind it gets a rank-one update. */
static void leave(Set *set, int k) {
    const int q = --set->count;
    T *L = set->L, *d = set->d, *w = set->r;
    T alpha = d[k];
    set->z[set->active[k]] = splat(0);
    set->is_active[set->active[k]] = 0;
    for (int i = k; i < q; i++) {
        T *row = L + i * MOST_ROWS;
        const T *old = row + MOST_ROWS;
        w[i] = old[k];
        memcpy(row, old, (size_t)k * sizeof(T));
        for (int j = k; j < i; j++) row[j] = old[j + 1];
        d[i] = d[i + 1];
        memcpy(set->S + i * STRIDE, set->S + (i + 1) * STRIDE, STRIDE * sizeof(T));
        set->active[i] = set->active[i + 1], set->signs[i] = set->signs[i + 1];
    }
    for (int i = k; i < q; i++) {
        const T p = w[i], pivot = d[i] + alpha * p * p, beta = alpha * p / pivot;
        alpha *= d[i] / pivot;
        d[i] = pivot;
        for (int j = i + 1; j < q; j++) {
            T *entry = L + j * MOST_ROWS + i;
            w[j] -= p * *entry;
            *entry += beta * w[j];
        }
    }
}

/* x += what s and multipliers m of the active rows add to the unknowns. */
static void add_move(const Set *set, T *restrict s, const T *restrict m) {
    for (int k = 0; k < set->count; k++) add_times(s, m[k], set->S + k * STRIDE, STRIDE);
    backward_with(set->U, set->inverse, s);
    add_times(set->x, splat(1), s, STRIDE);
}

/* r = the multipliers by which active rows move by w, which is overwritten; they are added to z. */
static void add_multipliers(const Set *set) {
    through_L(set, set->w);
    back(set, set->r, set->w);
    for (int k = 0; k < set->count; k++) set->z[set->active[k]] += set->r[k];
}

/* The values of all rows, and w = what active rows lack; returns the largest of it. */
static T see_rest(const Set *set) {
    multiply(&set->rows, set->x, set->value, set->value_c);
    memset(set->w, 0, MOST_ROWS * sizeof(T));
    for (int k = 0; k < set->count; k++) {
        const int i = set->active[k];
        const T bound = set->signs[k] < 0 ? set->high[i] : set->low[i];
        set->w[k] = bound - set->shift[i] - set->used[i] * set->z[i] - set->value[i];
    }
    return largest_of(set->w, MOST_ROWS, splat(0));
}

/* x by the multipliers. */
static void follow(const Set *set) {
    for (int k = 0; k < set->count; k++) set->r[k] = set->z[set->active[k]];
    memcpy(set->s, set->s0, STRIDE * sizeof(T));
    memset(set->x, 0, STRIDE * sizeof(T));
    add_move(set, set->s, set->r);
}

INLINE T met(const Set *set) { return MET * TOLERANCE * largest_of(set->x, STRIDE, splat(1)); }

/* x by the multipliers, and the values of all rows; where multipliers are so large that round-off
   moves active rows, both follow. */
static void follow_exactly(const Set *set) {
    follow(set);
    for (int k = 0; k < CORRECTIONS && see_rest(set) > met(set); k++) {
        add_multipliers(set);
        memset(set->s, 0, STRIDE * sizeof(T));
        add_move(set, set->s, set->r);
    }
}

/* Multipliers of the active rows; those of wrong signs leave, until all are right. */
static void settle(Set *set) {
    for (int wrong = 1; wrong;) {
        follow(set);
        see_rest(set);
        add_multipliers(set);
        wrong = 0;
        for (int k = set->count - 1; k >= 0; k--)
            if ((real)set->signs[k] * set->z[set->active[k]] < 0) {
                leave(set, k);
                wrong++;
            }
        set->changes += wrong;
    }
    follow_exactly(set);
}

/* The minimum of the program with the set's shift and s0. */
static void solve_program(Set *set) {
    settle(set);
    while (set->changes < ITERATIONS) {
        T rest = met(set);
        int i = -1, sign = 0;
        for (int j = HELD; j < MOST; j++) {
            const T value = set->value[j] + set->shift[j];
            const T below = set->low[j] - value, above = value - set->high[j];
            const T missed = below >= above ? below : above;
            if (missed > rest && !set->is_active[j])
                rest = missed, i = j, sign = below >= above ? 1 : -1;
        }
        if (i < 0) break;
        for (int leaves = 0; leaves >= 0;) {
            const T pivot = see(set, i);
            back(set, set->r, set->w);
            T length = rest / pivot;
            leaves = -1;
            for (int k = 0; k < set->count; k++) {
                const T slope = (real)(sign * set->signs[k]) * set->r[k];
                const T left = maximum((real)set->signs[k] * set->z[set->active[k]], splat(0));
                if (slope > 0 && left < length * slope) length = left / slope, leaves = k;
            }
            const T by = (real)sign * length;
            for (int k = 0; k < set->count; k++) set->z[set->active[k]] -= by * set->r[k];
            set->z[i] += by;
            set->changes++;
            if (leaves < 0) join(set, i, sign, pivot);
            else {
                rest -= length * pivot;
                leave(set, leaves);
            }
        }
        follow_exactly(set);
    }
}

/* start: multipliers of C, or NULL. A row that has one is active at first, at the bound of its
   sign. */
static void quadratic_program(const Problem *p, const Solution *s, const T *start,
                              T *restrict memory) {
    T *next = memory;
    Set set;
#define TAKE(name, size) \
    T *const name = next; \
    next += size;
#define TAKE_INTO_SET(name, size) \
    set.name = next; \
    next += size;
    TAKE_INTO_SET(U, STRIDE * STRIDE)
    TAKE_INTO_SET(S, MOST_ROWS * STRIDE)
    TAKE_INTO_SET(L, MOST_ROWS * MOST_ROWS)
    TAKE(H, STRIDE * STRIDE)
    T *const zeros = next; /* from here on */
    TAKE(E, ROWS * STRIDE)
    TAKE(F, ROWS_F * STRIDE)
    TAKE(columns, ROWS * STRIDE)
    TAKE(entries, ENTRIES)
    TAKE(m, ROWS + 2 * ROWS_F)
    TAKE(g, STRIDE)
    TAKE(rd, STRIDE)
    TAKE(hx, STRIDE)
    TAKE(terms, STRIDE)
    TAKE(best_x, STRIDE)
    TAKE(place, STRIDE)
    TAKE(raised, STRIDE)
    TAKE_INTO_SET(inverse, STRIDE)
    TAKE_INTO_SET(pivots, STRIDE)
    TAKE_INTO_SET(s0, STRIDE)
    TAKE_INTO_SET(x, STRIDE)
    TAKE_INTO_SET(s, STRIDE)
    TAKE_INTO_SET(y, STRIDE)
    TAKE(best_z, MOST_ROWS)
    TAKE(before, MOST_ROWS)
    TAKE_INTO_SET(size, MOST_ROWS)
    TAKE_INTO_SET(soft, MOST_ROWS)
    TAKE_INTO_SET(used, MOST_ROWS)
    TAKE_INTO_SET(low, MOST_ROWS)
    TAKE_INTO_SET(high, MOST_ROWS)
    TAKE_INTO_SET(shift, MOST_ROWS)
    TAKE_INTO_SET(value, MOST_ROWS)
    TAKE_INTO_SET(z, MOST_ROWS)
    TAKE_INTO_SET(d, MOST_ROWS)
    TAKE_INTO_SET(w, MOST_ROWS)
    TAKE_INTO_SET(r, MOST_ROWS)
#undef TAKE_INTO_SET
#undef TAKE
    memset(zeros, 0, (size_t)((char *)next - (char *)zeros));
    int active[MOST_ROWS], signs[MOST_ROWS], is_active[MOST_ROWS] = {0};
    set.active = active, set.signs = signs, set.is_active = is_active;
    set.count = set.changes = 0;
    set.rows.E = E, set.rows.columns = columns, set.rows.entries = entries, set.rows.m = m;
    set.value_c = set.value + HELD;
    const T scale = p->scale[0];
    /* 1. Scale rows; bounds that contradict each other meet in their middle. */
    T *const size_c = set.size + HELD;
    scale_rows(p, &set.rows, set.size, size_c);
    T smallest = (T)INFINITY; /* 1/w */
    for (int i = 0; i < MOST; i++) {
        const int k = i - HELD;
        const T size = set.size[i],
                weight = (k < 0 ? p->weight_a[i] : p->weight_c[k]) * size * size;
        const int on = weight > 0;
        set.soft[i] = on && !(weight > LARGEST_WEIGHT) ? 1 / weight : splat(0);
        if (set.soft[i] > 0) smallest = minimum(smallest, set.soft[i]);
        const T low = k < 0 ? p->b[i] : p->l[k], high = k < 0 ? p->b[i] : p->u[k];
        set.low[i] = on && low > -UNBOUNDED ? low / size : -(T)INFINITY;
        set.high[i] = on && high < UNBOUNDED ? high / size : (T)INFINITY;
        if (set.low[i] > set.high[i])
            set.low[i] = set.high[i] = (set.low[i] + set.high[i]) * (real)0.5;
    }
    fold(p, H, g, F, m, m + ROWS_F);
    memcpy(set.U, H, STRIDE * STRIDE * sizeof(T));
    factorise_raised(&set, raised, scale);
    const T reach = largest_of(set.inverse, STRIDE, splat(0));
    set.firm = minimum(GIVEN_WAY * reach, maximum(HARDER * smallest, FIRMEST * reach));
    for (int i = 0; i < MOST; i++) set.used[i] = maximum(set.soft[i], set.firm);
    /* 2. Equalities, and the rows of the start. */
    for (int i = 0; i < MOST; i++) {
        const int k = i - HELD;
        int sign = 0;
        if (k < 0) {
            if (!(set.low[i] > -(T)INFINITY)) continue;
        } else {
            if (!start) break;
            sign = start[k] > 0 && set.low[i] > -(T)INFINITY;
            sign -= start[k] < 0 && set.high[i] < (T)INFINITY;
            if (!sign) continue;
        }
        const T pivot = see(&set, i);
        join(&set, i, sign, pivot);
    }
    /* 3. One program after the other; the best point is kept. */
    T best = 1 / SMALLEST, best_dual = best, best_primal = best, best_gap = best;
    T compared = (T)INFINITY; /* the error of the last program that made progress */
    for (int k = 0, stalled = 0; k < PROXIMAL; k++) {
        for (int i = 0; i < MOST; i++) set.shift[i] = (set.soft[i] - set.used[i]) * before[i];
        for (int i = 0; i < N; i++) set.s0[i] = raised[i] * place[i] - g[i];
        forward_with(set.U, set.inverse, set.s0, 0);
        solve_program(&set);
        /* Errors of stationarity, rows and gap, as the interior point method has them. */
        memset(hx, 0, STRIDE * sizeof(T));
        combine(hx, H, set.x, N, STRIDE, SIDE);
        V curved = all(splat(0)), sloped = curved, most_dual = curved;
        EACH_CHUNK(STRIDE) {
            const V bent = chunk(hx + i), slope = chunk(g + i), at = chunk(set.x + i);
            put(rd + i, bent + slope);
            put(terms + i, size_of(bent) + size_of(slope));
            curved += bent * at, sloped += slope * at;
        }
        pull(&set.rows, rd, terms, set.z, set.z + HELD);
        const V faint = all(maximum(FAINT * largest_of(terms, STRIDE, splat(0)), splat(SMALLEST)));
        EACH_CHUNK(STRIDE)
        most_dual = largest(size_of(chunk(rd + i)) / largest(chunk(terms + i), faint), most_dual);
        multiply(&set.rows, set.x, set.value, set.value_c);
        T primal = splat(0), gap = splat(0);
        T size = absolute(sum_of(curved)) + absolute(sum_of(sloped));
        for (int i = 0; i < MOST; i++) {
            const T z = set.z[i], R = set.value[i] + set.soft[i] * z;
            const T below = set.low[i] - R, above = R - set.high[i];
            primal = maximum(primal, maximum(below, above));
            if (z == 0) continue;
            if (i >= HELD) gap += absolute(z) * maximum(z > 0 ? -below : -above, splat(0));
            size += absolute(z * (z > 0 ? set.low[i] : set.high[i]));
        }
        const T dual = largest_in(most_dual);
        primal /= largest_of(set.x, STRIDE, splat(1));
        gap /= maximum(size, scale);
        const T error = maximum(maximum(dual, primal), gap), last = best;
        if (error < best) {
            best = error, best_dual = dual, best_primal = primal, best_gap = gap;
            memcpy(best_x, set.x, STRIDE * sizeof(T));
            memcpy(best_z, set.z, MOST_ROWS * sizeof(T));
        }
        if (!(error < (T)INFINITY) || error <= REFINED * TOLERANCE) break;
        if (last <= TOLERANCE && error > SLOW * last) break;
        stalled = error > SLOW * compared ? stalled + 1 : 0;
        if (!stalled) compared = error;
        if (set.changes >= ITERATIONS || stalled == STALLED) break;
        memcpy(before, set.z, MOST_ROWS * sizeof(T));
        memcpy(place, set.x, STRIDE * sizeof(T));
    }
    /* 4. Results in the units of the rows that came in. */
    memcpy(s->x, best_x, N * sizeof(T));
    multiply(&set.rows, best_x, set.value, set.value_c);
    for (int i = 0; i < HELD; i++) {
        const int on = set.low[i] > -(T)INFINITY;
        s->slack_a[i] = on ? (set.low[i] - set.value[i]) * set.size[i] : splat(0);
        s->y[i] = best_z[i] / set.size[i];
    }
    unfold(p, s, F, best_x);
    for (int i = 0; i < INEQUALITIES; i++) {
        const int j = HELD + i;
        const T below = maximum(set.low[j] - set.value[j], splat(0));
        const T above = maximum(set.value[j] - set.high[j], splat(0));
        s->slack_c[i] = (below - above) * set.size[j];
        s->z[i] = best_z[j] / set.size[j];
    }
    const T measures[] = {(T)set.changes, best_dual, best_primal, best_gap, (T)(best <= TOLERANCE)};
    memcpy(s->measures, measures, sizeof measures);
}
#if defined(__GNUC__) && !defined(__clang__) && !defined(PLAIN)
#pragma GCC pop_options
#endif
