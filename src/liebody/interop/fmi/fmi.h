/* A model by FMI 3.0, for Model Exchange and Co-Simulation: the part that all models share.

   The text before this one has the model, with y = (memory, x) and the inputs and parameters u:
       model_field(t, y, u, f)          velocity f of x in the algebra
       model_normalized(y, z)           z: y with unit quaternions
       model_rate(y, f, dx)             dx/dt of coordinates x that move with the velocity f
       stages(t, h, y, 0, u, 0, k, z)   z: y after a step of length h; k: velocities of its stages
       error(k, i)                      estimated error of entry i of the algebra over h
       model_settle(t, y, u, z)         z: y put back onto constraints, if SETTLES
       model_signals(t, y, u, s)        outputs
       model_guards(t, y, u, g)         event indicators, if GUARDS
       model_look(t, y, u, g, h, stop)  guards, the step, a number above 0 to end, if HYBRID
       model_after(t, y, u, e, z, ...)  z: y after the update at events e, if HYBRID; as `look`
       model_start(q, v, m, u, z)       memory at the start, if STARTS
   (of a model without states: model_signals alone)
       model_..._jvp(..., dy, du, d)    change of these along dy, du
       model_..._vjp(..., w, gy, gu)    gradients of the sum of these times w
   and the dimensions POINT of y, MEMORY, STATES = POINT - MEMORY of x, ALGEBRA, U of u, STEP (place
   of the step in u; U if the model itself does not use it), OUTPUTS, GUARDS, STAGES, ORDER of the
   error, with arrays `start_y`, `start_u`, `size_of` (the entry of y that measures an entry of the
   algebra, or -1: its size is 1), `direction` and `terminal` of guards.

   Numbers of variables: 0 is time; then x, dx/dt, memory, u (with the step), outputs, guards. */

typedef enum { fmi3OK, fmi3Warning, fmi3Discard, fmi3Error, fmi3Fatal } fmi3Status;
typedef enum { fmi3NotYetKnown, fmi3Unchanged, fmi3Changed } fmi3IntervalQualifier;
typedef int fmi3DependencyKind;
typedef void *fmi3Instance, *fmi3InstanceEnvironment, *fmi3FMUState;
typedef uint32_t fmi3ValueReference;
typedef double fmi3Float64;
typedef bool fmi3Boolean, fmi3Clock;
typedef const char *fmi3String;
typedef uint8_t fmi3Byte;
typedef const fmi3Byte *fmi3Binary;
typedef void (*fmi3LogMessageCallback)(fmi3InstanceEnvironment, fmi3Status, fmi3String, fmi3String);
typedef void (*fmi3IntermediateUpdateCallback)(fmi3InstanceEnvironment, fmi3Float64, fmi3Boolean,
                                               fmi3Boolean, fmi3Boolean, fmi3Boolean, fmi3Boolean *,
                                               fmi3Float64 *);
typedef void (*fmi3Callback)(void);

#if defined _WIN32
#define EXPORT __declspec(dllexport)
#elif defined __GNUC__
#define EXPORT __attribute__((visibility("default")))
#else
#define EXPORT
#endif

#define LOCATED 1e-14 /* to which times of events are located, times max(1, t) */
#define LEAST 1e-7    /* an event sooner than this after the last one of its guard is not located */
#define DRIFT 1e-9    /* from constraints, or of norms, above which a state is put back */
#define AT_LEAST(n) ((n) > 0 ? (n) : 1)

enum {
    X = 1,
    DX = X + STATES,
    M = DX + STATES,
    P = M + MEMORY,
    Y = P + STEP + 1,
    G = Y + OUTPUTS,
    END = G + GUARDS
};
typedef enum { INSTANTIATED, INITIALIZING, EVENTS, CONTINUOUS, STEPPING, TERMINATED } Mode;

typedef struct { /* all that fmi3GetFMUState keeps */
    double t, y[AT_LEAST(POINT)], u[STEP + 1];
    double guards[AT_LEAST(GUARDS)]; /* when the last event was treated */
    double last[AT_LEAST(GUARDS)];   /* times of the last events */
    double h, rtol;                  /* the next step under error control, and its tolerance */
    int mode, initial;               /* `initial`: no update has been asked for yet */
} State;

typedef struct {
    State now;
    bool exchange, logging, evaluated;
    double rates[AT_LEAST(STATES)], signals[AT_LEAST(OUTPUTS)]; /* of `now`, if evaluated */
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback log;
    fmi3IntermediateUpdateCallback intermediate;
} Instance;

static fmi3Status failed(Instance *c, const char *message) {
    if (c && c->log) c->log(c->environment, fmi3Error, "logStatusError", message);
    return fmi3Error;
}
static int positive(double x) { return x > 0; }

static void reset(Instance *c) {
    State *s = &c->now;
    memset(s, 0, sizeof *s);
    memcpy(s->y, start_y, sizeof s->y);
    memcpy(s->u, start_u, sizeof s->u);
    for (int i = 0; i < GUARDS; i++) s->last[i] = -INFINITY;
    s->rtol = RTOL;
    s->initial = 1;
    c->evaluated = false;
}

/* -- the model at one state ------------------------------------------------------------------- */

/* Values of the guards. 0 counts as negative: it is shifted by the least number, so that a root
   of an importer lies where the sign has changed. */
static void guards_of(const State *s, double *g) {
#if GUARDS
    model_guards(&s->t, s->y, s->u, g);
    for (int i = 0; i < GUARDS; i++) g[i] -= g[i] == 0 ? DBL_MIN : 0;
#else
    (void)s, (void)g;
#endif
}

static void evaluate(Instance *c) {
    if (c->evaluated) return;
    const State *s = &c->now;
    double y[AT_LEAST(POINT)] = {0};
#if HAS_STATES
    double f[ALGEBRA];
    model_normalized(s->y, y);
    model_field(&s->t, y, s->u, f);
    model_rate(s->y, f, c->rates);
#endif
#if OUTPUTS
    model_signals(&s->t, y, s->u, c->signals);
#endif
    c->evaluated = true;
}

/* y with unit quaternions, on the constraints; whether it had drifted further than DRIFT. */
static bool put_back(State *s, double *z) {
    bool drifted = false;
    memcpy(z, s->y, sizeof s->y);
#if HAS_STATES
    model_normalized(s->y, z);
#endif
#if SETTLES
    double y[AT_LEAST(POINT)];
    memcpy(y, z, sizeof y);
    model_settle(&s->t, y, s->u, z);
#endif
    for (int i = 0; i < POINT; i++) drifted |= fabs(z[i] - s->y[i]) > DRIFT;
    return drifted;
}

static bool finite_point(const double *z) {
    for (int i = 0; i < POINT; i++)
        if (!isfinite(z[i])) return false;
    return true;
}

/* The events between the signs of the guards before and now: +1 or -1, each in its direction. */
static bool events_of(const double *before, const double *now, double *e) {
    bool any = false;
    for (int i = 0; i < GUARDS; i++) {
        const int change = positive(now[i]) - positive(before[i]);
        e[i] = change && (!direction[i] || direction[i] == change) ? change : 0;
        any |= e[i] != 0;
    }
    return any;
}

/* The update at events e; returns whether the simulation ends. */
static bool update(State *s, const double *e) {
    bool ends = false;
    for (int i = 0; i < GUARDS; i++) {
        if (e[i] == 0) continue;
        s->last[i] = s->t;
        ends |= terminal[i];
    }
#if HYBRID
    double z[AT_LEAST(POINT)], g[AT_LEAST(GUARDS)], h, stop;
    model_after(&s->t, s->y, s->u, e, z, g, &h, &stop);
    memcpy(s->y, z, sizeof z);
    ends |= stop > 0;
#endif
    guards_of(s, s->guards);
    return ends;
}

/* -- steps of Co-Simulation ------------------------------------------------------------------- */

#if HAS_STATES
/* z = y after a step of h; returns the error in units of the tolerance, 0 without an estimate. */
static double step(const State *s, double h, double *z) {
    double k[STAGES * ALGEBRA], largest = 0;
    stages(s->t, h, s->y, 0, s->u, 0, k, z);
#if SETTLES
    double y[AT_LEAST(POINT)];
    const double t = s->t + h;
    memcpy(y, z, sizeof y);
    model_settle(&t, y, s->u, z);
#endif
#if CONTROLLED
    for (int i = 0; i < ALGEBRA; i++) {
        const double size = size_of[i] < 0 ? 1 : fabs(z[size_of[i]]);
        const double e = fabs(h * error(k, i)) / (ATOL + s->rtol * size);
        if (!(e <= largest)) largest = e;
    }
#endif
    return largest;
}

/* Go to z after h, and treat the events e that happened there; whether the simulation ends. */
static bool arrive(State *s, double h, const double *z, const double *e) {
    s->t += h;
    memcpy(s->y, z, sizeof s->y);
    return update(s, e);
}

#if GUARDS
/* The first event within a step of h that ends at z with events e: Illinois' method on the length.
   Returns that length, and makes z and e the state and the events there. */
static double locate(const State *s, double h, double *z, double *e) {
    const double accuracy = LOCATED * fmax(1, fabs(s->t));
    double low = 0, high = h, y[AT_LEAST(POINT)], at_low[AT_LEAST(GUARDS)],
           at_high[AT_LEAST(GUARDS)];
    double g[AT_LEAST(GUARDS)], other[AT_LEAST(GUARDS)], weight = 1;
    State end = *s;
    int i = 0, side = 0;
    memcpy(at_low, s->guards, sizeof at_low);
    end.t = s->t + h;
    memcpy(end.y, z, sizeof end.y);
    guards_of(&end, at_high);
    for (int j = 0; j < GUARDS; j++) /* events just after the last one of their guard stay here */
        if (e[j] != 0 && s->t - s->last[j] < LEAST) return h;
    for (int round = 0; round < 200 && high - low > accuracy; round++) {
        while (e[i] == 0) i = (i + 1) % GUARDS; /* the guard that is searched for */
        const double a = at_low[i] * (side < 0 ? weight : 1),
                     b = at_high[i] * (side > 0 ? weight : 1);
        double length = (low * b - high * a) / (b - a);
        if (!(length > low && length < high) || round % 8 == 7) length = (low + high) / 2;
        (void)step(s, length, y);
        end.t = s->t + length;
        memcpy(end.y, y, sizeof end.y);
        guards_of(&end, g);
        if (events_of(s->guards, g, other)) {
            high = length;
            memcpy(at_high, g, sizeof g), memcpy(e, other, sizeof other), memcpy(z, y, sizeof y);
            weight = side < 0 ? weight / 2 : 1, side = -1;
        } else {
            low = length;
            memcpy(at_low, g, sizeof g);
            weight = side > 0 ? weight / 2 : 1, side = 1;
        }
    }
    return high;
}
#endif

/* Steps up to the time `end`. */
static fmi3Status march(Instance *c, double end, bool *ends) {
    State *s = &c->now;
    double z[AT_LEAST(POINT)], g[AT_LEAST(GUARDS)], e[AT_LEAST(GUARDS)] = {0};
    *ends = false;
    while (!*ends) {
        const double left = end - s->t;
        if (left <= 1e-14 * fmax(1, fabs(end))) {
            s->t = end;
            break;
        }
        double h = s->u[STEP];
#if HYBRID
        double stop;
        model_look(&s->t, s->y, s->u, g, &h, &stop);
        if (stop > 0) {
            *ends = true;
            break;
        }
#elif CONTROLLED
        h = s->h > 0 ? s->h : fmin(h, left);
#endif
        if (!(h > 0)) return failed(c, "the step is not a positive number");
        const bool whole = h < left * (1 - 1e-9);
        h = whole ? h : left;
        const double error = step(s, h, z);
        if (!finite_point(z) || !isfinite(error)) {
            if (CONTROLLED && h > 1e-12) {
                s->h = h / 10;
                continue;
            }
            return failed(c, "a state is not finite; take a shorter step, or look for forces that "
                             "pump energy in");
        }
#if CONTROLLED
        const double change = error > 0 ? 0.9 * pow(error, -1.0 / ORDER) : 5;
        const double next = h * fmin(5, fmax(0.2, change));
        if (error > 1) {
            s->h = next;
            if (s->h < 1e-14 * fmax(1, fabs(s->t))) return failed(c, "the step becomes too short");
            continue;
        }
        if (whole || next < s->h || !(s->h > 0)) s->h = next;
#endif
        State reached = *s;
        reached.t = s->t + h;
        memcpy(reached.y, z, sizeof z);
        guards_of(&reached, g);
#if GUARDS
        if (events_of(s->guards, g, e)) h = locate(s, h, z, e);
#endif
        *ends = arrive(s, h, z, e);
        c->evaluated = false;
        if (c->intermediate) {
            fmi3Boolean early = false;
            double when = s->t;
            c->intermediate(c->environment, s->t, false, true, true, false, &early, &when);
        }
    }
    c->evaluated = false;
    return fmi3OK;
}

#else
static fmi3Status march(Instance *c, double end, bool *ends) {
    *ends = false;
    c->now.t = end;
    c->evaluated = false;
    return fmi3OK;
}
#endif

/* -- instances -------------------------------------------------------------------------------- */

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }

static Instance *new_instance(fmi3String token, bool exchange, bool logging,
                              fmi3InstanceEnvironment environment, fmi3LogMessageCallback log) {
    if (!token || strcmp(token, TOKEN)) {
        if (log)
            log(environment, fmi3Error, "logStatusError",
                "the instantiation token is not that of this model");
        return 0;
    }
    Instance *c = calloc(1, sizeof *c);
    if (!c) return 0;
    c->exchange = exchange, c->logging = logging;
    c->environment = environment, c->log = log;
    reset(c);
    return c;
}
EXPORT fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String path,
                                                 fmi3Boolean visible, fmi3Boolean logging,
                                                 fmi3InstanceEnvironment environment,
                                                 fmi3LogMessageCallback log) {
    (void)name, (void)path, (void)visible;
    return new_instance(token, true, logging, environment, log);
}
EXPORT fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String path,
                                                fmi3Boolean visible, fmi3Boolean logging,
                                                fmi3Boolean events, fmi3Boolean early,
                                                const fmi3ValueReference *needed, size_t count,
                                                fmi3InstanceEnvironment environment,
                                                fmi3LogMessageCallback log,
                                                fmi3IntermediateUpdateCallback intermediate) {
    (void)name, (void)path, (void)visible, (void)early, (void)needed, (void)count;
    if (events) {
        if (log) log(environment, fmi3Error, "logStatusError", "there is no event mode in steps");
        return 0;
    }
    Instance *c = new_instance(token, false, logging, environment, log);
    if (c) c->intermediate = intermediate;
    return c;
}
EXPORT fmi3Instance fmi3InstantiateScheduledExecution(
    fmi3String name, fmi3String token, fmi3String path, fmi3Boolean visible, fmi3Boolean logging,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback log, void *update_clock,
    fmi3Callback lock, fmi3Callback unlock) {
    (void)name, (void)token, (void)path, (void)visible, (void)logging;
    (void)update_clock, (void)lock, (void)unlock;
    if (log) log(environment, fmi3Error, "logStatusError", "there is no scheduled execution");
    return 0;
}
EXPORT void fmi3FreeInstance(fmi3Instance instance) { free(instance); }
EXPORT fmi3Status fmi3SetDebugLogging(fmi3Instance instance, fmi3Boolean on, size_t count,
                                      const fmi3String *categories) {
    Instance *c = instance;
    for (size_t i = 0; i < count; i++)
        if (strcmp(categories[i], "logStatusError"))
            return failed(c, "unknown category of messages");
    c->logging = on;
    return fmi3OK;
}
EXPORT fmi3Status fmi3Reset(fmi3Instance instance) {
    reset(instance);
    return fmi3OK;
}
EXPORT fmi3Status fmi3Terminate(fmi3Instance instance) {
    ((Instance *)instance)->now.mode = TERMINATED;
    return fmi3OK;
}

/* -- initialization --------------------------------------------------------------------------- */

EXPORT fmi3Status fmi3EnterInitializationMode(fmi3Instance instance, fmi3Boolean has_tolerance,
                                              fmi3Float64 tolerance, fmi3Float64 start,
                                              fmi3Boolean has_stop, fmi3Float64 stop) {
    Instance *c = instance;
    (void)has_stop, (void)stop;
    if (c->now.mode != INSTANTIATED) return failed(c, "initialization comes after instantiation");
    if (has_tolerance && !(tolerance > 0)) return failed(c, "the tolerance is not positive");
    if (has_tolerance) c->now.rtol = tolerance;
    c->now.t = start;
    c->now.mode = INITIALIZING;
    c->evaluated = false;
    return fmi3OK;
}
EXPORT fmi3Status fmi3ExitInitializationMode(fmi3Instance instance) {
    Instance *c = instance;
    State *s = &c->now;
    double z[AT_LEAST(POINT)];
    if (s->mode != INITIALIZING) return failed(c, "initialization was not entered");
    put_back(s, z);
    if (!finite_point(z))
        return failed(c, "the start is not finite: a quaternion is zero, or a value is missing");
    memcpy(s->y, z, sizeof z);
#if STARTS
    double memory[AT_LEAST(REMEMBERED)];
    model_start(s->y + MEMORY, s->y + MEMORY + COORDINATES, s->y, s->u, memory);
    memcpy(s->y, memory, MEMORY * sizeof *memory);
    memcpy(s->y + MEMORY + COORDINATES + VELOCITIES, memory + MEMORY,
           (REMEMBERED - MEMORY) * sizeof *memory);
#endif
    guards_of(s, s->guards);
    s->mode = c->exchange ? EVENTS : STEPPING;
    c->evaluated = false;
    return fmi3OK;
}
EXPORT fmi3Status fmi3EnterConfigurationMode(fmi3Instance instance) {
    return failed(instance, "there are no structural parameters");
}
EXPORT fmi3Status fmi3ExitConfigurationMode(fmi3Instance instance) {
    return failed(instance, "there are no structural parameters");
}

/* -- variables -------------------------------------------------------------------------------- */

EXPORT fmi3Status fmi3GetFloat64(fmi3Instance instance, const fmi3ValueReference *which,
                                 size_t count, fmi3Float64 *values, size_t size) {
    Instance *c = instance;
    const State *s = &c->now;
    double g[AT_LEAST(GUARDS)];
    if (size != count) return failed(c, "variables are single numbers, one for each reference");
    for (size_t i = 0; i < count; i++) {
        const fmi3ValueReference k = which[i];
        if (k >= END) return failed(c, "there is no variable of this reference");
        if (k == 0) values[i] = s->t;
        else if (k < DX) values[i] = s->y[MEMORY + k - X];
        else if (k < M) evaluate(c), values[i] = c->rates[k - DX];
        else if (k < P) values[i] = s->y[k - M];
        else if (k < Y) values[i] = s->u[k - P];
        else if (k < G) evaluate(c), values[i] = c->signals[k - Y];
        else guards_of(s, g), values[i] = g[k - G];
    }
    return fmi3OK;
}
EXPORT fmi3Status fmi3SetFloat64(fmi3Instance instance, const fmi3ValueReference *which,
                                 size_t count, const fmi3Float64 *values, size_t size) {
    Instance *c = instance;
    State *s = &c->now;
    const bool starting = s->mode == INSTANTIATED || s->mode == INITIALIZING;
    if (size != count) return failed(c, "variables are single numbers, one for each reference");
    for (size_t i = 0; i < count; i++) {
        const fmi3ValueReference k = which[i];
        if (k >= P && k < Y) s->u[k - P] = values[i];
        else if (k >= X && k < DX && starting) s->y[MEMORY + k - X] = values[i];
        else if (k >= M && k < P && starting) s->y[k - M] = values[i];
        else return failed(c, "this variable cannot be set now");
    }
    c->evaluated = false;
    return fmi3OK;
}

#define NONE_OF(name, type) \
    EXPORT fmi3Status fmi3Get##name(fmi3Instance instance, const fmi3ValueReference *which, \
                                    size_t count, type *values, size_t size) { \
        (void)which, (void)values; \
        return count || size ? failed(instance, "there are no variables of type " #name) : fmi3OK; \
    } \
    EXPORT fmi3Status fmi3Set##name(fmi3Instance instance, const fmi3ValueReference *which, \
                                    size_t count, const type *values, size_t size) { \
        (void)which, (void)values; \
        return count || size ? failed(instance, "there are no variables of type " #name) : fmi3OK; \
    }
NONE_OF(Float32, float)
NONE_OF(Int8, int8_t)
NONE_OF(UInt8, uint8_t)
NONE_OF(Int16, int16_t)
NONE_OF(UInt16, uint16_t)
NONE_OF(Int32, int32_t)
NONE_OF(UInt32, uint32_t)
NONE_OF(Int64, int64_t)
NONE_OF(UInt64, uint64_t)
NONE_OF(Boolean, fmi3Boolean)
NONE_OF(String, fmi3String)

EXPORT fmi3Status fmi3GetBinary(fmi3Instance instance, const fmi3ValueReference *which,
                                size_t count, size_t *sizes, fmi3Binary *values, size_t size) {
    (void)which, (void)sizes, (void)values;
    return count || size ? failed(instance, "there are no variables of type Binary") : fmi3OK;
}
EXPORT fmi3Status fmi3SetBinary(fmi3Instance instance, const fmi3ValueReference *which,
                                size_t count, const size_t *sizes, const fmi3Binary *values,
                                size_t size) {
    (void)which, (void)sizes, (void)values;
    return count || size ? failed(instance, "there are no variables of type Binary") : fmi3OK;
}
EXPORT fmi3Status fmi3GetClock(fmi3Instance instance, const fmi3ValueReference *which, size_t count,
                               fmi3Clock *values) {
    (void)which, (void)values;
    return count ? failed(instance, "there are no clocks") : fmi3OK;
}
EXPORT fmi3Status fmi3SetClock(fmi3Instance instance, const fmi3ValueReference *which, size_t count,
                               const fmi3Clock *values) {
    (void)which, (void)values;
    return count ? failed(instance, "there are no clocks") : fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance instance,
                                                      fmi3ValueReference which, size_t *count) {
    (void)which, (void)count;
    return failed(instance, "dependencies are not told one by one");
}
EXPORT fmi3Status fmi3GetVariableDependencies(fmi3Instance instance, fmi3ValueReference which,
                                              size_t *element, fmi3ValueReference *independents,
                                              size_t *elements, fmi3DependencyKind *kinds,
                                              size_t count) {
    (void)which, (void)element, (void)independents, (void)elements, (void)kinds, (void)count;
    return failed(instance, "dependencies are not told one by one");
}

/* -- states that are kept --------------------------------------------------------------------- */

EXPORT fmi3Status fmi3GetFMUState(fmi3Instance instance, fmi3FMUState *state) {
    if (!*state) *state = malloc(sizeof(State));
    if (!*state) return failed(instance, "no memory for a state");
    memcpy(*state, &((Instance *)instance)->now, sizeof(State));
    return fmi3OK;
}
EXPORT fmi3Status fmi3SetFMUState(fmi3Instance instance, fmi3FMUState state) {
    Instance *c = instance;
    if (!state) return failed(c, "the state is a null pointer");
    memcpy(&c->now, state, sizeof(State));
    c->evaluated = false;
    return fmi3OK;
}
EXPORT fmi3Status fmi3FreeFMUState(fmi3Instance instance, fmi3FMUState *state) {
    (void)instance;
    if (state) {
        free(*state);
        *state = 0;
    }
    return fmi3OK;
}
EXPORT fmi3Status fmi3SerializedFMUStateSize(fmi3Instance instance, fmi3FMUState state,
                                             size_t *size) {
    (void)instance, (void)state;
    *size = sizeof(State);
    return fmi3OK;
}
EXPORT fmi3Status fmi3SerializeFMUState(fmi3Instance instance, fmi3FMUState state, fmi3Byte *bytes,
                                        size_t size) {
    if (size < sizeof(State)) return failed(instance, "there is too little room for the state");
    memcpy(bytes, state, sizeof(State));
    return fmi3OK;
}
EXPORT fmi3Status fmi3DeserializeFMUState(fmi3Instance instance, const fmi3Byte *bytes, size_t size,
                                          fmi3FMUState *state) {
    if (size != sizeof(State)) return failed(instance, "these bytes are no state of this model");
    if (!*state) *state = malloc(sizeof(State));
    if (!*state) return failed(instance, "no memory for a state");
    memcpy(*state, bytes, sizeof(State));
    return fmi3OK;
}

/* -- derivatives ------------------------------------------------------------------------------ */

EXPORT fmi3Status fmi3GetDirectionalDerivative(fmi3Instance instance,
                                               const fmi3ValueReference *unknown, size_t unknowns,
                                               const fmi3ValueReference *known, size_t knowns,
                                               const fmi3Float64 *seed, size_t seeds,
                                               fmi3Float64 *change, size_t changes) {
    Instance *c = instance;
    const State *s = &c->now;
    double y[AT_LEAST(POINT)] = {0}, from[AT_LEAST(POINT)] = {0}, dy[AT_LEAST(POINT)] = {0};
    double du[STEP + 1] = {0}, rates[AT_LEAST(STATES)], signals[AT_LEAST(OUTPUTS)];
    if (seeds != knowns || changes != unknowns)
        return failed(c, "variables are single numbers, one for each reference");
    for (size_t i = 0; i < knowns; i++) {
        const fmi3ValueReference k = known[i];
        if (k >= X && k < DX) from[MEMORY + k - X] = seed[i];
        else if (k >= P && k < Y) du[k - P] = seed[i];
        else return failed(c, "derivatives are those by states, inputs and parameters");
    }
#if HAS_STATES
    double f[ALGEBRA], df[ALGEBRA];
    model_normalized(s->y, y);
    model_normalized_jvp(s->y, from, dy);
    model_field(&s->t, y, s->u, f);
    model_field_jvp(&s->t, y, s->u, dy, du, df);
    model_rate_jvp(s->y, f, from, df, rates);
#endif
#if OUTPUTS
    model_signals_jvp(&s->t, y, s->u, dy, du, signals);
#endif
    for (size_t i = 0; i < unknowns; i++) {
        const fmi3ValueReference k = unknown[i];
        if (k >= X && k < DX) change[i] = from[MEMORY + k - X];
        else if (k >= DX && k < M) change[i] = rates[k - DX];
        else if (k >= Y && k < G) change[i] = signals[k - Y];
        else return failed(c, "derivatives are those of states, their rates, and outputs");
    }
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetAdjointDerivative(fmi3Instance instance, const fmi3ValueReference *unknown,
                                           size_t unknowns, const fmi3ValueReference *known,
                                           size_t knowns, const fmi3Float64 *seed, size_t seeds,
                                           fmi3Float64 *change, size_t changes) {
    /* The chain of fmi3GetDirectionalDerivative backwards: w are weights of its results, g
       gradients of the sum of weights times results. */
    Instance *c = instance;
    const State *s = &c->now;
    double y[AT_LEAST(POINT)] = {0}, g[AT_LEAST(POINT)] = {0}, gu[STEP + 1] = {0};
    double w_rates[AT_LEAST(STATES)] = {0}, w_signals[AT_LEAST(OUTPUTS)] = {0};
    if (seeds != unknowns || changes != knowns)
        return failed(c, "variables are single numbers, one for each reference");
    for (size_t i = 0; i < unknowns; i++) {
        const fmi3ValueReference k = unknown[i];
        if (k >= X && k < DX) g[MEMORY + k - X] += seed[i];
        else if (k >= DX && k < M) w_rates[k - DX] += seed[i];
        else if (k >= Y && k < G) w_signals[k - Y] += seed[i];
        else return failed(c, "derivatives are those of states, their rates, and outputs");
    }
    double gy[AT_LEAST(POINT)] = {0}, more[AT_LEAST(POINT)] = {0};
#if HAS_STATES
    double f[ALGEBRA], gf[ALGEBRA];
    model_normalized(s->y, y);
    model_field(&s->t, y, s->u, f);
    model_rate_vjp(s->y, f, w_rates, more, gf);
    for (int i = 0; i < POINT; i++) g[i] += more[i];
    model_field_vjp(&s->t, y, s->u, gf, gy, gu);
#endif
#if OUTPUTS
    double more_u[STEP + 1] = {0};
    model_signals_vjp(&s->t, y, s->u, w_signals, more, more_u);
    for (int i = 0; i < POINT; i++) gy[i] += more[i];
    for (int i = 0; i <= STEP; i++) gu[i] += more_u[i];
#endif
#if HAS_STATES
    model_normalized_vjp(s->y, gy, more);
    for (int i = 0; i < POINT; i++) g[i] += more[i];
#endif
    for (size_t i = 0; i < knowns; i++) {
        const fmi3ValueReference k = known[i];
        if (k >= X && k < DX) change[i] = g[MEMORY + k - X];
        else if (k >= P && k < Y) change[i] = gu[k - P];
        else return failed(c, "derivatives are those by states, inputs and parameters");
    }
    return fmi3OK;
}

/* -- Model Exchange --------------------------------------------------------------------------- */

EXPORT fmi3Status fmi3EnterEventMode(fmi3Instance instance) {
    ((Instance *)instance)->now.mode = EVENTS;
    return fmi3OK;
}
EXPORT fmi3Status fmi3UpdateDiscreteStates(fmi3Instance instance, fmi3Boolean *again,
                                           fmi3Boolean *ends, fmi3Boolean *nominals,
                                           fmi3Boolean *values, fmi3Boolean *has_next,
                                           fmi3Float64 *next) {
    Instance *c = instance;
    State *s = &c->now;
    double before[AT_LEAST(POINT)], z[AT_LEAST(POINT)], g[AT_LEAST(GUARDS)] = {0},
                                                        e[AT_LEAST(GUARDS)] = {0};
    if (s->mode != EVENTS) return failed(c, "the event mode was not entered");
    *again = *ends = *nominals = *values = *has_next = false, *next = 0;
    memcpy(before, s->y, sizeof before);
    if (!s->initial) {
        if (put_back(s, z)) memcpy(s->y, z, sizeof z);
        guards_of(s, g);
        (void)events_of(s->guards, g, e);
        *ends = update(s, e);
    }
    s->initial = 0;
    for (int i = MEMORY; i < POINT; i++) *values |= s->y[i] != before[i];
    c->evaluated = false;
    return finite_point(s->y) ? fmi3OK : failed(c, "a state is not finite after an event");
}
EXPORT fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance instance) {
    ((Instance *)instance)->now.mode = CONTINUOUS;
    return fmi3OK;
}
EXPORT fmi3Status fmi3CompletedIntegratorStep(fmi3Instance instance, fmi3Boolean kept,
                                              fmi3Boolean *events, fmi3Boolean *ends) {
    Instance *c = instance;
    State *s = &c->now;
    double z[AT_LEAST(POINT)];
    (void)kept;
    double g[AT_LEAST(GUARDS)] = {0}, e[AT_LEAST(GUARDS)] = {0};
    *ends = false;
    *events = put_back(s, z); /* states may change in event mode only */
    guards_of(s, g);
    if (events_of(s->guards, g, e)) { /* the importer's root lay just before the event */
        *events = true;
        return fmi3OK;
    }
#if HYBRID
    double h, stop;
    model_after(&s->t, s->y, s->u, e, z, g, &h, &stop);
    for (int i = 0; i < POINT; i++) *events |= z[i] != s->y[i];
    *ends = stop > 0;
#endif
    return fmi3OK;
}
EXPORT fmi3Status fmi3SetTime(fmi3Instance instance, fmi3Float64 t) {
    Instance *c = instance;
    c->now.t = t;
    c->evaluated = false;
    return fmi3OK;
}
EXPORT fmi3Status fmi3SetContinuousStates(fmi3Instance instance, const fmi3Float64 *x,
                                          size_t count) {
    Instance *c = instance;
    if (count != STATES) return failed(c, "the number of continuous states is another one");
    memcpy(c->now.y + MEMORY, x, STATES * sizeof *x);
    c->evaluated = false;
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetContinuousStates(fmi3Instance instance, fmi3Float64 *x, size_t count) {
    Instance *c = instance;
    if (count != STATES) return failed(c, "the number of continuous states is another one");
    memcpy(x, c->now.y + MEMORY, STATES * sizeof *x);
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance instance, fmi3Float64 *rates,
                                                    size_t count) {
    Instance *c = instance;
    if (count != STATES) return failed(c, "the number of continuous states is another one");
    evaluate(c);
    memcpy(rates, c->rates, STATES * sizeof *rates);
    for (int i = 0; i < STATES; i++)
        if (!isfinite(rates[i])) return fmi3Discard;
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance instance, fmi3Float64 *sizes,
                                                    size_t count) {
    if (count != STATES) return failed(instance, "the number of continuous states is another one");
    for (size_t i = 0; i < count; i++) sizes[i] = 1;
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetEventIndicators(fmi3Instance instance, fmi3Float64 *values, size_t count) {
    if (count != GUARDS) return failed(instance, "the number of event indicators is another one");
    guards_of(&((Instance *)instance)->now, values);
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance instance, size_t *count) {
    (void)instance;
    *count = GUARDS;
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance instance, size_t *count) {
    (void)instance;
    *count = STATES;
    return fmi3OK;
}

/* -- Co-Simulation ---------------------------------------------------------------------------- */

EXPORT fmi3Status fmi3EnterStepMode(fmi3Instance instance) {
    return failed(instance, "there is no event mode in steps");
}
EXPORT fmi3Status fmi3GetOutputDerivatives(fmi3Instance instance, const fmi3ValueReference *which,
                                           size_t count, const int32_t *orders, fmi3Float64 *values,
                                           size_t size) {
    (void)which, (void)orders, (void)values;
    return count || size ? failed(instance, "there are no derivatives of outputs by time") : fmi3OK;
}
EXPORT fmi3Status fmi3DoStep(fmi3Instance instance, fmi3Float64 t, fmi3Float64 size,
                             fmi3Boolean kept, fmi3Boolean *events, fmi3Boolean *ends,
                             fmi3Boolean *early, fmi3Float64 *reached) {
    Instance *c = instance;
    bool over;
    (void)kept;
    *events = *ends = *early = false;
    if (c->now.mode != STEPPING) return failed(c, "steps come after initialization");
    if (fabs(t - c->now.t) > 1e-9 * fmax(1, fabs(t)))
        return failed(c, "the step does not begin where the last one ended");
    if (!(size > 0)) return failed(c, "the step is not a positive number");
    const fmi3Status status = march(c, t + size, &over);
    *ends = over;
    *reached = c->now.t;
    return status;
}

/* -- clocks, of which there are none ---------------------------------------------------------- */

EXPORT fmi3Status fmi3ActivateModelPartition(fmi3Instance instance, fmi3ValueReference clock,
                                             fmi3Float64 t) {
    (void)clock, (void)t;
    return failed(instance, "there are no clocks");
}
EXPORT fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance instance) {
    (void)instance;
    return fmi3OK;
}
#define ONE(name, A) \
    EXPORT fmi3Status fmi3##name(fmi3Instance instance, const fmi3ValueReference *which, \
                                 size_t count, A a) { \
        (void)which, (void)a; \
        return count ? failed(instance, "there are no clocks") : fmi3OK; \
    }
#define TWO(name, A, B) \
    EXPORT fmi3Status fmi3##name(fmi3Instance instance, const fmi3ValueReference *which, \
                                 size_t count, A a, B b) { \
        (void)which, (void)a, (void)b; \
        return count ? failed(instance, "there are no clocks") : fmi3OK; \
    }
#define THREE(name, A, B, C) \
    EXPORT fmi3Status fmi3##name(fmi3Instance instance, const fmi3ValueReference *which, \
                                 size_t count, A a, B b, C c) { \
        (void)which, (void)a, (void)b, (void)c; \
        return count ? failed(instance, "there are no clocks") : fmi3OK; \
    }
TWO(GetIntervalDecimal, fmi3Float64 *, fmi3IntervalQualifier *)
THREE(GetIntervalFraction, uint64_t *, uint64_t *, fmi3IntervalQualifier *)
ONE(GetShiftDecimal, fmi3Float64 *)
TWO(GetShiftFraction, uint64_t *, uint64_t *)
ONE(SetIntervalDecimal, const fmi3Float64 *)
TWO(SetIntervalFraction, const uint64_t *, const uint64_t *)
ONE(SetShiftDecimal, const fmi3Float64 *)
TWO(SetShiftFraction, const uint64_t *, const uint64_t *)
