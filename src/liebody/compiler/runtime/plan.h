/* A controller over a receding horizon in memory of the caller: a plan of KNOTS steps, made again
   at each call from the last one. control/optimal/lagrangian.py has the same in Python, with the
   reasons. Before this text there are descent.h over plain.h, and

       Memory, Result      structures of the header, whose comments say what is in them
       run_knot, run_last, run_stage, run_terminal   the batch loops of models and constraints
       OWN                 parameters of the user's in a row of p, before mu and the multipliers
       STAGE, TERMINAL     entries of constraints at the knots and at the end
       WIDTH, PIECES       of a row of models, and its tables constant ... length
       low, high           bounds of inputs; hard_..., uncontrolled_... say of each entry of
                           constraints whether it has no slack, and whether no input acts on it
       PLAN_...            settings, and the outcomes CONVERGED ... */

enum { CONSTRAINED = STAGE + TERMINAL > 0 };

typedef struct {
    Memory *memory;
    Shooting passes;
    Descent descent;
    Batch knot, last, values[2];
    Multipliers terms[2];
    const real *knot_in[5], *last_in[2], *stage_in[4], *terminal_in[3];
    real *knot_out, *last_out, *values_out[2];
    real penalty, residual, paid; /* mu; the largest residual of constraints; their cost */
    real cost, gradient;          /* at the last linearisation */
    int64_t linearisations, steps, most;
} Search;

static const int64_t knot_stride[5] = {STATE, INPUT, STATE, PARAMETERS, TANGENT};
static const int64_t last_stride[2] = {STATE, PARAMETERS};
static const int64_t stage_stride[4] = {STATE, STATE, INPUT, PARAMETERS};
static const int64_t terminal_stride[3] = {STATE, STATE, PARAMETERS};
static const int64_t knot_width = WIDTH, last_width = 1 + TANGENT + TANGENT * TANGENT;
static const int64_t values_width[2] = {2 * STAGE, 2 * TERMINAL};

/* Lets the pointers of a search show into its memory. */
static void begin_search(Search *s, Memory *m) {
    real *x = m->x, *p = m->p, *end_x = m->x + KNOTS * STATE, *end_p = m->p + KNOTS * PARAMETERS;
    memset(s, 0, sizeof *s);
    s->memory = m;

    s->passes.knots = KNOTS, s->passes.apart = PARAMETERS, s->passes.bounded = BOUNDED;
    s->passes.width = WIDTH, s->passes.pieces = PIECES;
    s->passes.x = x, s->passes.u = m->u, s->passes.p = p;
    s->passes.models = m->models, s->passes.end = m->end;
    s->passes.low = low, s->passes.high = high, s->passes.alpha = &m->alpha;
    s->passes.constant = constant, s->passes.at = at, s->passes.of = of;
    s->passes.factor = factors, s->passes.length = length;
    s->passes.k = m->k, s->passes.K = m->K, s->passes.slopes = m->slopes;
    s->passes.states = m->states, s->passes.inputs = m->inputs, s->passes.costs = &m->cost;
    s->passes.scratch = (Scratch *)(void *)m->scratch;

    s->knot_in[0] = x, s->knot_in[1] = m->u, s->knot_in[2] = x + STATE, s->knot_in[3] = p;
    s->knot_in[4] = m->slopes, s->knot_out = m->models;
    s->last_in[0] = end_x, s->last_in[1] = end_p, s->last_out = m->end;
    s->knot.run = run_knot, s->knot.rows = KNOTS;
    s->knot.in = s->knot_in, s->knot.in_stride = knot_stride;
    s->knot.out = &s->knot_out, s->knot.out_stride = &knot_width;
    s->last.run = run_last, s->last.rows = 1;
    s->last.in = s->last_in, s->last.in_stride = last_stride;
    s->last.out = &s->last_out, s->last.out_stride = &last_width;
    s->descent.passes = &s->passes, s->descent.knot = &s->knot, s->descent.end = &s->last;

    s->stage_in[0] = x, s->stage_in[1] = x + POSITION, s->stage_in[2] = m->u, s->stage_in[3] = p;
    s->terminal_in[0] = end_x, s->terminal_in[1] = end_x + POSITION, s->terminal_in[2] = end_p;
    s->values[0].run = run_stage, s->values[0].rows = KNOTS;
    s->values[0].in = s->stage_in, s->values[0].in_stride = stage_stride;
    s->values[1].run = run_terminal, s->values[1].rows = 1;
    s->values[1].in = s->terminal_in, s->values[1].in_stride = terminal_stride;
    s->values_out[0] = m->stage, s->values_out[1] = m->terminal;
    for (int k = 0; k < 2; k++) {
        s->values[k].out = &s->values_out[k], s->values[k].out_stride = &values_width[k];
        s->terms[k].values = &s->values[k], s->terms[k].apart = PARAMETERS;
        s->terms[k].multipliers = (k ? end_p : p) + OWN + CONSTRAINED;
        s->terms[k].uncontrolled = k ? uncontrolled_terminal : uncontrolled_stage;
        s->terms[k].size = k ? TERMINAL : STAGE, s->terms[k].first = !k;
    }
}

static void set_penalty(Search *s, real mu) {
    s->penalty = mu;
#if STAGE + TERMINAL
    for (int t = 0; t <= KNOTS; t++) s->memory->p[t * PARAMETERS + OWN] = mu;
#endif
}

/* Residual of the constraints, and the cost of them all; `update`: multipliers are renewed. */
static void assess(Search *s, int update) {
    s->residual = s->paid = 0;
    for (int k = 0; k < 2; k++) {
        Multipliers *m = &s->terms[k];
        if (!m->size) continue;
        m->penalty = s->penalty;
        renew(m, update);
        s->residual = FMAX(s->residual, m->residual);
        s->paid += (k ? 1 : PLAN_DT) * m->paid;
    }
    if (s->residual < (real)INFINITY) s->memory->largest = FMAX(s->memory->largest, s->residual);
}

static int is_converged(int64_t ended) {
    return ended == WITHIN_TOLERANCE || ended == WITHIN_ROUND_OFF;
}

static int status_of(int64_t ended) {
    if (is_converged(ended)) return CONVERGED;
    return ended == NO_MINIMUM ? NO_MINIMUM_LEFT : ended == NO_DESCENT ? NO_DESCENT_LEFT : LIMIT;
}

/* Forgets what earlier iterations have learnt: damping, weight of gaps, curvature of steps. */
static void restart(Descent *d) {
    d->begun = d->curved = 0;
    d->damping = d->weight = 0;
    straighten(d);
}

static int64_t iterate_and_count(Search *s, real tolerance, int may_step) {
    s->descent.tolerance = tolerance, s->descent.may_step = may_step;
    const int64_t ended = iterate(&s->descent);
    if (ended != NO_MINIMUM) {
        s->linearisations++;
        s->steps += s->descent.step > 0;
        s->cost = s->descent.cost, s->gradient = s->descent.gradient;
    }
    return ended;
}

/* The best trajectory at fixed multipliers, by at most so many iterations. */
static int64_t search(Search *s, int64_t iterations, real tolerance) {
    const int64_t first = s->linearisations;
    int64_t ended;
    restart(&s->descent);
    do {
        const int64_t tried = s->linearisations - first;
        ended = iterate_and_count(s, tolerance, tried < iterations && s->linearisations < s->most);
    } while (ended == STEPPED || ended == REJECTED);
    return ended;
}

/* The largest violation of constraints without slack: infinite where a value is no number. */
static real violation(const Search *s) {
    real largest = 0;
    for (int k = 0; k < 2; k++) {
        const Multipliers *m = &s->terms[k];
        const int *hard = k ? hard_terminal : hard_stage;
        for (int64_t t = 0; t < (m->size ? m->values->rows : 0); t++)
            for (int64_t i = 0; i < m->size; i++) {
                const real size = FABS(s->values_out[k][2 * t * m->size + i]);
                if (hard[i]) largest = FMAX(largest, size >= 0 ? size : (real)INFINITY);
            }
    }
    return largest;
}

static real largest_gap(const Search *s) {
    real largest = 0;
    for (int t = 0; t < KNOTS && s->passes.gapped; t++)
        for (int i = 0; i < TANGENT; i++)
            largest = FMAX(largest, FABS(s->memory->models[t * WIDTH + i]));
    return largest;
}

static void tell(const Search *s, int status, real cost, real gap, Result *result) {
    result->violation = violation(s);
    if (status == CONVERGED && result->violation > PLAN_FEASIBILITY) status = START;
    /* a search that could not begin has no model of its trajectory, or one without numbers */
    if (!s->linearisations || !(FABS(cost) < (real)INFINITY)) status = FAILED;
    result->status = status;
    result->cost = cost, result->gap = gap, result->gradient = s->gradient;
    result->penalty = s->memory->penalty;
    result->iterations = (int)s->steps, result->linearisations = (int)s->linearisations;
}

/* The best trajectory near that in memory, by a search for each of its multipliers. */
static void solve_anew(Search *s, int64_t iterations, Result *result) {
    const int64_t earlier = s->steps;
    Memory *m = s->memory;
    real enough = CONSTRAINED ? FMAX(PLAN_LOOSE, PLAN_TOLERANCE) : PLAN_TOLERANCE;
    real left_by[PLAN_PENALTIES], least = (real)INFINITY, last_residual, little;
    int status = LIMIT, stiffness = 0;
    s->most = s->linearisations + PLAN_LINEARISATIONS(iterations);
    set_penalty(s, PLAN_PENALTY);
    m->largest = 0;
    s->residual = (real)INFINITY;
    for (int k = 0; k < PLAN_PENALTIES; k++) left_by[k] = -1;
    while (s->linearisations < s->most) {
        const int64_t before = s->steps;
        const int64_t ended = search(s, iterations - (before - earlier), enough);
        const int is_tight = !(enough > PLAN_TOLERANCE), has_moved = is_tight || s->steps > before;
        last_residual = s->residual;
        status = status_of(ended);
        assess(s, is_converged(ended) && has_moved);
        left_by[stiffness] = s->residual;
        if (status != CONVERGED || (s->residual <= PLAN_FEASIBILITY && is_tight)) break;
        status = LIMIT;
        /* penalties grow where a search with new multipliers has not helped enough */
        if (has_moved && s->residual > FMAX(PLAN_FEASIBILITY, PLAN_SLOW * last_residual)) {
            if (++stiffness == PLAN_PENALTIES) {
                status = CONSTRAINTS;
                break;
            }
            set_penalty(s, s->penalty * PLAN_STIFFER);
        }
        enough = s->residual <= PLAN_FEASIBILITY ? PLAN_TOLERANCE
                                                 : FMAX(PLAN_TOLERANCE, enough * PLAN_TIGHTER);
    }
    /* the softest penalty that left little, or about as little as any is kept */
    for (int k = 0; k < PLAN_PENALTIES; k++)
        if (left_by[k] >= 0) least = FMIN(least, left_by[k]);
    little = FMAX(PLAN_LITTLE * m->largest, 2 * least);
    m->penalty = PLAN_PENALTY;
    for (int k = 0; k < PLAN_PENALTIES && (left_by[k] < 0 || left_by[k] > little); k++)
        m->penalty *= PLAN_STIFFER;
    tell(s, status, s->cost - s->paid, largest_gap(s), result);
}

/* A better trajectory than that in memory, with its multipliers and its penalty. */
static void improve(Search *s, Result *result) {
    const int64_t limit = PLAN_ITERATIONS ? PLAN_ITERATIONS : CONSTRAINED ? PLAN_MOST : PLAN_FEW;
    Descent *d = &s->descent;
    Memory *m = s->memory;
    int64_t ended;
    int is_near, is_kept;
    set_penalty(s, m->penalty > 0 ? m->penalty : PLAN_PENALTY);
    s->most = limit;
    s->residual = CONSTRAINED ? (real)INFINITY : 0;
    restart(d);
    for (;;) {
        /* new multipliers change the trajectory little: no decrease is too small meanwhile */
        ended = iterate_and_count(s, s->residual <= PLAN_FEASIBILITY ? PLAN_TOLERANCE : 0, 1);
        is_near = d->step >= PLAN_LONG || is_converged(ended);
        assess(s, is_near);
        if (is_near && s->residual > FMAX(PLAN_FEASIBILITY, PLAN_LITTLE * m->largest))
            set_penalty(s, FMIN(s->penalty * PLAN_STIFFER, PLAN_STIFFEST));
        else if (!is_near && d->step < PLAN_SHORT)
            set_penalty(s, FMAX(s->penalty / PLAN_STIFFER, PLAN_PENALTY));
        is_kept = s->residual <= PLAN_FEASIBILITY;
        if (ended == NO_MINIMUM || ended == NO_DESCENT || (is_kept && is_converged(ended))) break;
        if (s->linearisations >= limit ||
            (!PLAN_ITERATIONS && is_kept && is_near && s->linearisations >= PLAN_FEW)) {
            ended = LIMITED;
            break;
        }
    }
    m->penalty = s->penalty;
    if (!PLAN_ITERATIONS && !is_near) {
        for (int k = 0; k < 2; k++)
            for (int64_t t = 0; t < (k ? 1 : KNOTS); t++)
                for (int64_t i = 0; i < s->terms[k].size; i++)
                    s->terms[k].multipliers[t * PARAMETERS + i] = 0;
        solve_anew(s, PLAN_ANEW, result);
        return;
    }
    tell(s, status_of(ended), (d->step > 0 ? d->reached : d->cost) - s->paid,
         largest_gap(s) * (1 - d->step), result);
}

/* The last plan, a knot further on, and its multipliers: those of the end stay there. */
static void move_on(Memory *m) {
    memmove(m->x, m->x + STATE, KNOTS * STATE * sizeof(real));
    memmove(m->u, m->u + INPUT, (KNOTS - 1) * INPUT * sizeof(real));
    for (int t = 0; t + 1 < KNOTS; t++)
        for (int i = OWN; i < PARAMETERS; i++)
            m->p[t * PARAMETERS + i] = m->p[(t + 1) * PARAMETERS + i];
}

/* The motion that inputs of zero, or those of the bounds, make from the first state on. Where it
   goes too far, states stay at the first one. Whether it is a motion. */
static int roll(Search *s) {
    Memory *m = s->memory;
    int stays = 1;
    memset(m->k, 0, sizeof m->k);
    memset(m->K, 0, sizeof m->K);
    for (int i = STATE; i < (KNOTS + 1) * STATE; i++) m->x[i] = m->x[i - STATE];
    for (int i = 0; i < KNOTS * INPUT; i++)
        m->u[i] = FMIN(FMAX(0, low[i % INPUT]), high[i % INPUT]);
    m->alpha = 1;
    forward(&s->passes);
    for (int i = 0; i < (KNOTS + 1) * STATE; i++) stays = stays && FABS(m->states[i]) <= PLAN_FAR;
    if (stays) memcpy(m->x, m->states, sizeof m->x);
    return stays;
}

static void forget(Memory *m) { m->planned = 0; }

/* p: the user's parameters of knot k begin at p[k * apart]. */
static void control(Memory *m, const real *q, const real *v, const real *p, int apart, real *u,
                    Result *result) {
    Search s;
    const int is_first = !m->planned;
    real at[STATE], knots;
    begin_search(&s, m);
    for (int i = 0; i < STATE; i++) at[i] = i < POSITION ? q[i] : v[i - POSITION];
    if (is_first) {
        memset(m->p, 0, sizeof m->p);
        m->penalty = m->largest = 0;
    } else {
        elapsed(m->x, m->x + STATE, at, &knots);
        if (knots > 0) move_on(m);
    }
    for (int t = 0; t <= KNOTS; t++)
        for (int i = 0; i < OWN; i++) m->p[t * PARAMETERS + i] = p[t * apart + i];
    memcpy(m->x, at, sizeof at);
    s.passes.gapped = !is_first || !roll(&s);
    if (is_first) {
        solve_anew(&s, PLAN_FIRST_ITERATIONS, result);
    } else {
        improve(&s, result);
    }
    m->planned = !is_first || result->status != FAILED;
    for (int i = 0; i < INPUT; i++) u[i] = m->u[i];
}
