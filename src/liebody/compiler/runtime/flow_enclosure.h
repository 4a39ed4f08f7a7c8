/* Values of functions, and ends of motions, for all states in a box. Behind taylor.h and the
   printed functions: `nodes_of`, `inputs_of`, `outputs_of` and `compute(part, nodes, k, d)`. A part
   with as many results as inputs, MOST_STATES at most, is a vector field.

   Arrays of Python hold (-lower, upper) of each value, followed by those of its derivatives. Bounds
   of constants come with each call, so that other ones need no other code. */
static void read_numbers(Series *nodes, const Scalar *in, int n, int d) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= d; j++, in += 2) nodes[i][0].v[j] = (Interval){in[0], in[1]};
}

static void write_number(Scalar **out, const Number *x, int d) {
    for (int j = 0; j <= d; j++) {
        *(*out)++ = x->v[j].minus;
        *(*out)++ = x->v[j].upper;
    }
}

APART void evaluate_apart(int part, const Scalar *in, int d, Scalar *out) {
    Series *nodes = malloc(nodes_of[part] * sizeof(Series));
    if (!nodes) {
        failure = NO_MEMORY;
        return;
    }
    read_numbers(nodes, in, inputs_of[part], d);
    compute(part, nodes, 0, d);
    for (int i = 0; i < outputs_count[part]; i++)
        write_number(&out, &nodes[outputs_of[part][i]][0], d);
    free(nodes);
}

/* A part at a box with derivatives along d directions. */
int evaluate(int part, const Scalar *constants, const Scalar *in, int d, Scalar *out) {
    constant = (const Interval *)constants;
    ENTER
    if (!failure) evaluate_apart(part, in, d, out);
    LEAVE
}

/* Coefficients 0 to `order` of the motion of a field that starts in nodes[.][0]; those of the state
   are kept in the first nodes. */
static void motion_series(int field, Series *nodes, int order, int d) {
    for (int k = 0; k < order; k++) {
        compute(field, nodes, k, d);
        for (int i = 0; i < inputs_of[field]; i++)
            nodes[i][k + 1] = number_shared(nodes[outputs_of[field][i]][k], k + 1, d);
    }
}

/* The sum of s_k t^k for k up to `order`, and of `rest` t^(order + 1), by Horner's rule. */
static Number polynomial(const Series s, const Number *rest, Interval t, int order, int d) {
    Number p = *rest;
    for (int k = order; k >= 0; k--) p = number_plus(number_scaled(p, t, d), &s[k], d);
    return p;
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
static void follow(int field, int observed, Series *x, Series *z, int order, int d, Scalar end,
                   int pieces, Scalar *tube) {
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
            Number at = polynomial(y[node], &rest[node][order + 1], t, order, d);
            write_number(&tube, &at, d);
        }
    }
    free(own);
}

/* The motion of a field over [0, `time`] from all states of a box, with derivatives by the start
   along d directions, at time in [from, to].

   1. Taylor coefficients S_k of all starts, k <= order.
   2. A box Z with sum S_k [0, t]^k + R [0, t]^(order + 1) inside its interior, where R is the
      coefficient order + 1 of motions from Z. Then every motion, and its derivative, stays in Z:
      where it left Z first, Taylor's formula with the remainder of Lagrange, a coefficient of a
      point in Z, puts it into the interior (Nedialkov, Jackson, Pryce 2001, section 4).
   3. The same formula at [from, to].

   The derivatives are motions, too, of the linear equation along, so steps 2 and 3 are theirs. */
APART void enclose_apart(int field, const Scalar *in, int d, int order, Interval time, int pieces,
                         int observed, Scalar *out, Scalar *tube) {
    int n = nodes_of[field], states = inputs_of[field];
    Series *x = malloc(2 * n * sizeof(Series)), *z = x + n;
    if (!x) {
        failure = NO_MEMORY;
        return;
    }
    read_numbers(x, in, states, d);
    motion_series(field, x, order, d);
    Interval whole = between(0.0, time.upper), power[LENGTH + 1];
    power[0] = point(1.0);
    for (int k = 1; k <= order + 1; k++) power[k] = times(power[k - 1], whole);
    Number path[MOST_STATES];
    for (int i = 0; i < states; i++) {
        path[i] = zero_number(d);
        for (int k = 0; k <= order; k++) {
            Number term = number_scaled(x[i][k], power[k], d);
            path[i] = number_plus(path[i], &term, d);
        }
        for (int j = 0; j <= d; j++) z[i][0].v[j] = inflated(path[i].v[j], 0.01);
    }
    int found = 0;
    for (int tries = 0; tries < 8 && !found && !failure; tries++) {
        motion_series(field, z, order + 1, d);
        found = 1;
        for (int i = 0; i < states; i++) {
            Number term = number_scaled(z[i][order + 1], power[order + 1], d);
            term = number_plus(path[i], &term, d);
            for (int j = 0; j <= d; j++)
                if (!inside(term.v[j], z[i][0].v[j])) found = 0;
            if (!found)
                for (int j = 0; j <= d; j++)
                    z[i][0].v[j] = hull(z[i][0].v[j], inflated(term.v[j], 0.1 * (tries + 1)));
        }
    }
    if (!found && !failure) failure = NO_ENCLOSURE;
    for (int i = 0; i < states && !failure; i++) {
        Number end = polynomial(x[i], &z[i][order + 1], time, order, d);
        write_number(&out, &end, d);
    }
    if (pieces && !failure) follow(field, observed, x, z, order, d, whole.upper, pieces, tube);
    free(x);
}

/* The box of the end out (states, 1 + d), and of the states, or of the results of the part
   `observed`, in each of so many equal pieces of the time, tube (pieces, results, 1 + d). `time` is
   (-from, to). */
int enclose(int field, const Scalar *constants, const Scalar *in, int d, int order,
            const Scalar *time, int pieces, int observed, Scalar *out, Scalar *tube) {
    constant = (const Interval *)constants;
    ENTER
    Interval t = {time[0], time[1]};
    if (t.minus > 0.0) undefined(); /* a time before the start */
    if (!failure) enclose_apart(field, in, d, order, t, pieces, observed, out, tube);
    LEAVE
}
