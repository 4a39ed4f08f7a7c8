/* An iteration of differential dynamic programming with gaps (FDDP), and the multipliers of an
   augmented Lagrangian: stepping/descent.py has the equations, and the same in NumPy. Before this
   text there are the passes of shooting.h, the constants of stepping/descent.py, and its outcomes
   STEPPED ... of an iteration. Models of knots and values of constraints come from other libraries:
   a `Batch` is a call of their batch loop, `run` of batch.h. */

typedef int64_t Run(int64_t rows, const real *const *in, const int64_t *in_stride, real *const *out,
                    const int64_t *out_stride, int kept);

typedef struct {
    Run *run;
    int64_t rows;
    const real *const *in;
    const int64_t *in_stride;
    real *const *out;
    const int64_t *out_stride;
} Batch;

typedef struct {
    Shooting *passes;
    const Batch *knot, *end;
    int64_t may_step, begun; /* whether a step is allowed, and whether there was an iteration */
    int64_t curved;          /* whether second derivatives of steps are in use */
    real damping, weight, scale, tolerance;
    real cost, gaps, gradient, expected, tried, step, reached; /* results of the last iteration */
} Descent;

INLINE int evaluate(const Batch *b) {
    return b->run(b->rows, b->in, b->in_stride, b->out, b->out_stride, 0) < 0;
}

/* Models of all knots and of the end. Returns whether there is no memory. */
static int linearize(const Descent *d) { return evaluate(d->knot) || evaluate(d->end); }

/* The mean of |H_uu| on the diagonal, in which damping is measured; 1 if it is zero. */
static real curvature_of_inputs(const Shooting *s) {
    real(*model)[WIDE] = s->scratch->model, sum = 0;
    memcpy(model, s->constant, sizeof s->scratch->model);
    for (int64_t t = 0; t < s->knots; t++) {
        unpack(s, t, model[0]);
        for (int i = TANGENT; i < ALL; i++) sum += FABS(model[TANGENT + 1 + i][i]);
    }
    return sum > 0 ? sum / (real)(s->knots * INPUT) : 1;
}

static void straighten(Descent *d) {
    d->curved = 0;
    memset(d->passes->slopes, 0, (size_t)(d->passes->knots * TANGENT) * sizeof(real));
}

static int64_t damp(Descent *d) {
    d->damping = FMAX(d->damping * FACTOR, LEAST);
    return d->damping > MOST;
}

SCOPE int64_t iterate(Descent *d) {
    Shooting *s = d->passes;
    real alpha[LENGTHS], largest = 0;
    int best = -1;
    d->step = 0;

    /* 1. quadratic models of all knots at the present trajectory */
    if (linearize(d)) return NO_MEMORY;
    d->cost = s->end[0];
    for (int64_t t = 0; t < s->knots; t++) {
        d->cost += s->models[t * s->width + TANGENT];
        for (int i = 0; i < TANGENT; i++)
            largest = FMAX(largest, FABS(s->models[t * s->width + i]));
    }
    s->gapped = s->gapped && largest > CLOSED;
    if (!d->begun) d->begun = 1, d->scale = curvature_of_inputs(s);

    /* 2. backward pass; without a minimum, second derivatives are left out or Q_uu is damped */
    while (s->damping = d->damping * d->scale, backward(s)) {
        if (d->curved) {
            straighten(d);
            if (linearize(d)) return NO_MEMORY;
        } else if (damp(d)) {
            return NO_MINIMUM;
        }
    }

    /* 3. the merit weighs gaps so much that the step must lower it, also where the cost rises */
    if (s->change > 0) d->weight = FMAX(d->weight, 2 * s->change / FMAX(s->gaps, CLOSED));
    d->expected = d->weight * s->gaps - s->change;
    d->gaps = s->gaps, d->gradient = s->gradient, d->tried = d->damping;
    if (!s->gapped && d->expected <= d->tolerance * FMAX(FABS(d->cost), d->tolerance))
        return WITHIN_TOLERANCE;
    if (!d->may_step) return LIMITED;

    /* 4. forward passes, a length in each lane; the longest good step wins */
    for (int i = 0; i < LENGTHS; i++) alpha[i] = i ? alpha[i - 1] / 2 : 1;
    for (int first = 0; first < LENGTHS && best < 0; first += LANES) {
        for (int l = 0; l < LANES; l++) s->alpha[l] = alpha[first + l];
        forward(s);
        for (int l = 0; l < LANES && best < 0; l++) {
            const real length = alpha[first + l];
            const real drop =
                d->cost + d->weight * s->gaps - s->costs[l] - d->weight * (1 - length) * s->gaps;
            if (drop >= ACCEPTED * length * d->expected) best = l, d->step = length;
        }
    }

    /* 5. near the end full steps succeed: second derivatives of steps then give Newton's method */
    d->curved = best >= 0 && !(d->step < 1) && d->expected <= NEAR * FABS(d->cost);
    if (!d->curved) straighten(d);
    if (best < 0) {
        if (!s->gapped && d->expected <= ROUND_OFF * FABS(d->cost)) return WITHIN_ROUND_OFF;
        return damp(d) ? NO_DESCENT : REJECTED;
    }

    /* 6. take the step; long steps lower the damping, very short ones raise it */
    d->reached = s->costs[best];
    for (int64_t i = 0; i < (s->knots + 1) * STATE; i++) s->x[i] = s->states[i * LANES + best];
    for (int64_t i = 0; i < s->knots * INPUT; i++) s->u[i] = s->inputs[i * LANES + best];
    s->gapped = s->gapped && d->step < 1;
    if (d->step > (real)0.5) d->damping = d->damping > LEAST ? d->damping / FACTOR : 0;
    else if (d->step < (real)0.02) damp(d);
    return STEPPED;
}

typedef struct {
    const Batch *values;         /* distances to the bounds, then the next multipliers, in a row */
    const int64_t *uncontrolled; /* whether no input acts on an entry before the next knot */
    real *multipliers;           /* of the first knot */
    int64_t size, apart, first;  /* entries, numbers between knots, whether row 0 is the start */
    real penalty, residual, paid;
} Multipliers;

/* The largest change from these multipliers to the next ones, by the penalty; what the residuals
   add to the cost; `update`: let the next multipliers be these. Returns whether there is no
   memory. */
SCOPE int64_t renew(Multipliers *m, int64_t update) {
    if (evaluate(m->values)) return 1;
    m->residual = m->paid = 0;
    for (int64_t t = 0; t < m->values->rows; t++) {
        const real *next = m->values->out[0] + t * 2 * m->size + m->size;
        real *now = m->multipliers + t * m->apart;
        for (int64_t i = 0; i < m->size; i++) {
            const real change = FABS(next[i] - now[i]) / m->penalty;
            m->paid += next[i] * next[i] / (2 * m->penalty);
            if (m->first && !t && m->uncontrolled[i]) continue;
            m->residual = FMAX(m->residual, change < (real)INFINITY ? change : (real)INFINITY);
            if (update) now[i] = next[i];
        }
    }
    return 0;
}
