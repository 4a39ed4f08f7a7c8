/* Values of functions, and ends of motions, for all states in a box. Behind taylor.h and the
   printed functions: `nodes_of`, `inputs_of`, `outputs_of` and `compute(part, nodes, k, d)`. A
   part with as many results as inputs, MOST_STATES at most, is a vector field.

   Arrays of Python hold (-lower, upper) of each value, followed by those of its derivatives, for
   `count` boxes one after the other. An odd number of directions gets one more, of zeros. Bounds
   of constants come with each call, so that other ones need no other code. */
static inline int even(int directions) { return directions + directions % 2; }

static void take_numbers(Series *nodes, const Scalar *in, int n, int directions) {
    for (int i = 0; i < n; i++) {
        Number x;
        set_zero(&x, even(directions));
        for (int j = 0; j <= directions; j++, in += 2) x.v[j] = (Interval){in[0], in[1]};
        write_number(nodes + i, 0, &x, even(directions));
    }
}

static void give_number(Scalar **out, const Number *x, int directions) {
    for (int j = 0; j <= directions; j++) {
        *(*out)++ = x->v[j].minus;
        *(*out)++ = x->v[j].upper;
    }
}

/* How many numbers of Python's arrays the values of a box have. */
static inline int64_t numbers_of(int values, int directions) {
    return 2 * values * (1 + directions);
}

APART void evaluate_apart(int part, int64_t count, const Scalar *in, int directions, Scalar *out) {
    int d = even(directions), inputs = inputs_of[part];
    Series *nodes = malloc(nodes_of[part] * sizeof(Series));
    if (!nodes) {
        failure = NO_MEMORY;
        return;
    }
    for (int64_t k = 0; k < count && !failure; k++) {
        take_numbers(nodes, in + k * numbers_of(inputs, directions), inputs, directions);
        compute(part, nodes, 0, d);
        for (int i = 0; i < outputs_count[part]; i++) {
            Number result;
            read_number(&result, nodes + outputs_of[part][i], 0, d);
            give_number(&out, &result, directions);
        }
    }
    free(nodes);
}

/* A part at boxes, with derivatives along d directions. */
int evaluate(int part, const Scalar *constants, int64_t count, const Scalar *in, int d,
             Scalar *out) {
    constant = (const Interval *)constants;
    ENTER
    if (!failure) evaluate_apart(part, count, in, d, out);
    LEAVE
}

/* Coefficients 0 to `order` of the motion of a field, from the coefficients 0 of the first
   nodes, which are the states; their other ones are kept there, too. */
static void motion_series(int field, Series *nodes, int order, int d) {
    for (int k = 0; k < order; k++) {
        compute(field, nodes, k, d);
        for (int i = 0; i < inputs_of[field]; i++) {
            Number rate;
            read_number(&rate, nodes + outputs_of[field][i], k, d);
            number_shared(&rate, k + 1, d);
            write_number(nodes + i, k + 1, &rate, d);
        }
    }
}

/* The sum of s_k t^k for k up to `order`, and of rest t^(order + 1), by Horner's rule, in place
   of `rest`. */
static void polynomial(Number *rest, const Series *s, Interval t, int order, int d) {
    for (int k = order; k >= 0; k--) {
        Number term;
        read_number(&term, s, k, d);
        number_times(rest, t, d);
        number_plus(rest, &term, d);
    }
}

/* A box with the middle of x that is wider by a share of its width and of its size. */
static Interval inflated(Interval x, Scalar share) {
    Scalar more = share * (width(x) + magnitude(x) * 0x1p-20 + 0x1p-40);
    return (Interval){x.minus + more, x.upper + more};
}

/* The time at the end of so many pieces. */
static Interval share_of(Scalar time, int p, int pieces) {
    return over(times(point(p), point(time)), point(pieces));
}

/* Bounds of a part along the motion, with derivatives by the start, in equal pieces of [0, end]; of
   the states for observed = -1.

   x has the Taylor coefficients up to `order` of motions from the box at the start, z those up to
   order + 1 from the box Z of all states on the way. The coefficients of a function along the
   motion follow from them, and the one of z bounds its remainder. */
static void follow(int field, int observed, Series *x, Series *z, int order, int directions,
                   Scalar end, int pieces, Scalar **tube) {
    int d = even(directions);
    Series *y = x, *rest = z, *own = 0;
    const int *shown = 0;
    int count = inputs_of[field];
    if (observed >= 0) {
        int n = nodes_of[observed];
        own = malloc(2 * n * sizeof(Series));
        if (!own) {
            failure = NO_MEMORY;
            return;
        }
        y = own;
        rest = own + n;
        memcpy(y, x, inputs_of[observed] * sizeof(Series));
        memcpy(rest, z, inputs_of[observed] * sizeof(Series));
        for (int k = 0; k <= order; k++) compute(observed, y, k, d);
        for (int k = 0; k <= order + 1; k++) compute(observed, rest, k, d);
        shown = outputs_of[observed];
        count = outputs_count[observed];
    }
    for (int p = 0; p < pieces; p++) {
        Interval t = hull(share_of(end, p, pieces), share_of(end, p + 1, pieces));
        for (int i = 0; i < count; i++) {
            int node = shown ? shown[i] : i;
            Number at;
            read_number(&at, rest + node, order + 1, d);
            polynomial(&at, y + node, t, order, d);
            give_number(tube, &at, directions);
        }
    }
    free(own);
}

/* A box of all states over [0, `whole`] of the motions x, and the coefficients of motions from
   it, z. False where none is found.

   Let S_k be the coefficients of x, and R the coefficient order + 1 of motions from a box Z. If
   sum S_k [0, t]^k + R [0, t]^(order + 1) lies inside of Z, then every motion of x, and its
   derivative, stays in Z: where it left Z first, Taylor's formula with the remainder of
   Lagrange, a coefficient of a point in Z, puts it into the interior (Nedialkov, Jackson, Pryce
   2001, section 4). The derivatives are motions, too, of the linear equation along. */
static int remain_in_a_box(int field, const Series *x, Series *z, int order, int d,
                           Interval whole) {
    int states = inputs_of[field];
    Interval power[LENGTH];
    power[0] = point(1.0);
    for (int k = 1; k <= order + 1; k++) power[k] = times(power[k - 1], whole);
    Number path[MOST_STATES], box, term;
    for (int i = 0; i < states; i++) {
        set_zero(path + i, d);
        for (int k = 0; k <= order; k++) {
            read_number(&term, x + i, k, d);
            number_times(&term, power[k], d);
            number_plus(path + i, &term, d);
        }
        for (int j = 0; j <= d; j++) box.v[j] = inflated(path[i].v[j], 0.01);
        write_number(z + i, 0, &box, d);
    }
    for (int tries = 0; tries < 8 && !failure; tries++) {
        motion_series(field, z, order + 1, d);
        int found = 1;
        for (int i = 0; i < states; i++) {
            read_number(&term, z + i, order + 1, d);
            number_times(&term, power[order + 1], d);
            number_plus(&term, path + i, d);
            read_number(&box, z + i, 0, d);
            for (int j = 0; j <= d; j++)
                if (!inside(term.v[j], box.v[j])) found = 0;
            if (found) continue;
            for (int j = 0; j <= d; j++)
                box.v[j] = hull(box.v[j], inflated(term.v[j], 0.1 * (tries + 1)));
            write_number(z + i, 0, &box, d);
        }
        if (found) return 1;
    }
    if (!failure) failure = NO_ENCLOSURE;
    return 0;
}

/* The motions of a field over [0, time] from all states of boxes, with derivatives by the start,
   at times in [from, to]: Taylor's formula with the remainder of a box that the motions do not
   leave. `remainder`: its coefficients instead, without derivatives. */
APART void enclose_apart(int field, int64_t count, const Scalar *in, int directions, int order,
                         const Scalar *times, int pieces, int observed, int remainder, Scalar *out,
                         Scalar *tube) {
    int n = nodes_of[field], states = inputs_of[field], d = even(directions);
    Series *x = malloc(2 * n * sizeof(Series)), *z = x + n;
    if (!x) {
        failure = NO_MEMORY;
        return;
    }
    for (int64_t k = 0; k < count && !failure; k++) {
        Interval time = {times[2 * k], times[2 * k + 1]};
        if (time.minus > 0.0) undefined(); /* a time before the start */
        take_numbers(x, in + k * numbers_of(states, directions), states, directions);
        motion_series(field, x, order, d);
        if (!remain_in_a_box(field, x, z, order, d, between(0.0, time.upper))) break;
        for (int i = 0; i < states; i++) {
            Number end;
            read_number(&end, z + i, order + 1, d);
            if (!remainder) polynomial(&end, x + i, time, order, d);
            give_number(&out, &end, directions);
        }
        if (pieces) follow(field, observed, x, z, order, directions, time.upper, pieces, &tube);
    }
    free(x);
}

/* The motions from states at their times, with the coefficients of their remainders in `rest`. */
APART void end_apart(int field, int64_t count, const Scalar *in, int order, const Scalar *times,
                     const Scalar *rest, Scalar *out) {
    int states = inputs_of[field];
    Series *x = malloc(nodes_of[field] * sizeof(Series));
    if (!x) {
        failure = NO_MEMORY;
        return;
    }
    for (int64_t k = 0; k < count && !failure; k++, times += 2) {
        take_numbers(x, in + k * numbers_of(states, 0), states, 0);
        motion_series(field, x, order, 0);
        for (int i = 0; i < states; i++, rest += 2) {
            Number end;
            end.v[0] = (Interval){rest[0], rest[1]};
            polynomial(&end, x + i, (Interval){times[0], times[1]}, order, 0);
            give_number(&out, &end, 0);
        }
    }
    free(x);
}

/* The ends out (count, states, 1 + d), and boxes of the states, or of the results of the part
   `observed`, in each of so many equal pieces of the time, tube (count, pieces, results, 1 + d).
   Each of `times` is (-from, to). */
int enclose(int field, const Scalar *constants, int64_t count, const Scalar *in, int d, int order,
            const Scalar *times, int pieces, int observed, Scalar *out, Scalar *tube) {
    constant = (const Interval *)constants;
    ENTER
    if (!failure) enclose_apart(field, count, in, d, order, times, pieces, observed, 0, out, tube);
    LEAVE
}

/* Bounds (count, states) of the coefficients order + 1 of motions over [0, time], for
   `ends_of_motions`. */
int remainders(int field, const Scalar *constants, int64_t count, const Scalar *in, int order,
               const Scalar *times, Scalar *out) {
    constant = (const Interval *)constants;
    ENTER
    if (!failure) enclose_apart(field, count, in, 0, order, times, 0, -1, 1, out, 0);
    LEAVE
}

/* The ends of motions, by coefficients of their remainders that are known for as long times. */
int ends_of_motions(int field, const Scalar *constants, int64_t count, const Scalar *in, int order,
                    const Scalar *times, const Scalar *rest, Scalar *out) {
    constant = (const Interval *)constants;
    ENTER
    if (!failure) end_apart(field, count, in, order, times, rest, out);
    LEAVE
}
