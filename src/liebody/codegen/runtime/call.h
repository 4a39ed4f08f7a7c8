/* The call from Python: `call(args...)`, with `out=array` (a tuple where there are several results)
   and `threads=1` or without. Where all arrays are float64, of the right shape or batches of one
   shape of such, C-contiguous and aligned (a float or np.float64 where the shape is (), lists and
   tuples of numbers where they make such an array), it goes straight to the loops; every other call
   goes to a Python callable. `self` is a tuple of that and of the options that the entry is for,
   (callable, name, value, ...): the very objects must be given, behind the arrays in this order or
   by keyword.
   Python's and NumPy's headers are not needed: the structures below are part of their stable layout
   (checked by liebody.codegen.entry before use), and the functions come as pointers through
   `setup`. */
typedef struct {
    intptr_t count;
    void *type;
} object;
typedef struct {
    object head;
    char *data;
    int dimensions;
    intptr_t *shape, *strides;
    void *base, *description;
    int flags;
    void *weak_references;
} array;
enum {
    CONTIGUOUS = 0x1,
    OWNER = 0x4,
    ALIGNED = 0x100,
    WRITEABLE = 0x400,
    DOUBLE = 12,
    MOST_AXES = 16
};

static struct {
    void *array_type, *float_type, *scalar_type, *list_type, *tuple_type, *float64;
    void *out, *threads, *one; /* keywords; the number 1 */
    intptr_t first_item;       /* of a tuple, in words from its beginning */
    array *(*new_array)(void *type, int nd, intptr_t *shape, int number, intptr_t *strides,
                        void *data, int size, int flags, void *of);
    array *(*as_array)(void *of, void *type, int least_nd, int most_nd, int flags, void *context);
    void *(*new_scalar)(const void *number, void *type, void *of);
    void *(*vectorcall)(void *callable, void *const *args, size_t count, void *names);
    void *(*new_tuple)(intptr_t size);
    int (*set_item)(void *tuple, intptr_t index, void *item);
    void (*keep)(void *item);
    void (*drop)(void *item);
    void (*forget_error)(void);
    void *(*unlock)(void);      /* lets other threads of Python run ... */
    void (*lock)(void *thread); /* ... until here */
} python;

typedef int64_t Run(int64_t, const real *const *, const int64_t *, real *const *, const int64_t *,
                    int);
static Run *single_run,
    *lanes_run; /* the loops over one lane and over many, where they are there */

void setup(void *const *table) { memcpy(&python, table, sizeof python); }

void use_loops(Run *over_one, Run *over_lanes) { single_run = over_one, lanes_run = over_lanes; }

typedef struct { /* leading axes of a batch */
    int axes;    /* -1: not known yet */
    intptr_t shape[MOST_AXES];
} Lead;

/* Whether an array has this shape, or is a batch of such with the leading axes of the others; then
   `stride` becomes the distance of its rows, 0 for one row. */
INLINE int fits(const array *a, int dimensions, const intptr_t *shape, int flags, Lead *lead,
                int64_t size, int64_t *stride) {
    if (a->head.type != python.array_type || a->description != python.float64 ||
        (a->flags & flags) != flags)
        return 0;
    const int axes = a->dimensions - dimensions;
    if (axes < 0 || axes > MOST_AXES) return 0;
    for (int i = 0; i < dimensions; i++)
        if (a->shape[axes + i] != shape[i]) return 0;
    *stride = axes ? size : 0;
    if (!axes) return 1;
    if (lead->axes < 0) {
        lead->axes = axes;
        for (int i = 0; i < axes; i++) lead->shape[i] = a->shape[i];
        return 1;
    }
    if (lead->axes != axes) return 0;
    for (int i = 0; i < axes; i++)
        if (lead->shape[i] != a->shape[i]) return 0;
    return 1;
}

/* A result of this shape: one of the last arrays of its kind, where nobody else knows it any more
   (making an array takes longer than most functions of a robot), or a new one. */
enum { USABLE = CONTIGUOUS | OWNER | ALIGNED | WRITEABLE, LAST = 2, LARGEST = 1 << 16 /* bytes */ };
static array *last[OUTPUTS][LAST];
static unsigned oldest[OUTPUTS];

INLINE array *new_result(int k, int dimensions, intptr_t *shape, int64_t size) {
    for (int i = 0; i < LAST; i++) {
        array *a = last[k][i];
        Lead none;
        int64_t stride;
        none.axes = 0;
        if (a && a->head.count == 1 && !a->base && !a->weak_references &&
            fits(a, dimensions, shape, USABLE, &none, 0, &stride)) {
            python.keep(a);
            return a;
        }
    }
    array *a = python.new_array(python.array_type, dimensions, shape, DOUBLE, 0, 0, 0, 0, 0);
    if (a && size * (int64_t)sizeof(real) <= LARGEST) {
        array **place = &last[k][oldest[k]++ % LAST], *before = *place;
        python.keep(a);
        *place = a;
        if (before) python.drop(before);
    }
    return a;
}

/* The loop for so many rows, if it is there. */
INLINE Run *loop_for(int64_t rows) {
    return rows == 1 || (!lanes_run && rows < FEW) ? single_run : lanes_run;
}

INLINE intptr_t length(void *const *tuple) { return (intptr_t)tuple[2]; } /* its third word */

void *call(void *const *self, void *const *args, intptr_t count, void *const *names) {
    const real *in[INPUTS + 1];
    real *out[OUTPUTS];
    int64_t in_stride[INPUTS + 1], out_stride[OUTPUTS], rows = 1;
    void *made[OUTPUTS];
    real number[OUTPUTS];               /* results without dimensions */
    array *read[INPUTS + 1];            /* arrays of lists */
    void *whole = 0, *const *given = 0; /* `out`, and the arrays in it */
    int lists = 0;
    Lead lead;
    lead.axes = -1;
    void *const *items = self + python.first_item, *general = items[0], *const *option = items + 1;
    intptr_t options = (length(self) - 1) / 2, found = count - INPUTS;
    if (found < 0 || found > options) goto general;
    for (intptr_t j = 0; j < found; j++)
        if (args[INPUTS + j] != option[2 * j + 1]) goto general;
    for (intptr_t k = 0; k < (names ? length(names) : 0); k++) {
        void *name = names[python.first_item + k], *value = args[count + k];
        intptr_t j = count - INPUTS;
        while (j < options && name != option[2 * j]) j++;
        if (j < options && value == option[2 * j + 1]) found++;
        else if (name == python.out && OUTPUTS == 1) whole = value, given = &whole;
        else if (name == python.out && ((object *)value)->type == python.tuple_type &&
                 length(value) == OUTPUTS)
            whole = value, given = (void *const *)value + python.first_item;
        else if (name != python.threads || value != python.one) goto general;
    }
    if (found != options) goto general;
    for (int k = 0; k < INPUTS; k++) {
        array *a = args[k];
        void *type = a->head.type;
        if (!input_dimensions[k] && (type == python.float_type || type == python.scalar_type)) {
            in[k] = (const real *)&a->data; /* where both have their value */
            in_stride[k] = 0;
            continue;
        }
        if (type == python.list_type || type == python.tuple_type) {
            python.keep(python.float64); /* the next line takes one */
            a = python.as_array(a, python.float64, 0, 0, CONTIGUOUS | ALIGNED, 0);
            if (!a) {
                python.forget_error();
                goto general;
            }
            read[lists++] = a;
        }
        if (!fits(a, input_dimensions[k], input_shape[k], CONTIGUOUS | ALIGNED, &lead,
                  input_size[k], &in_stride[k]))
            goto general;
        in[k] = (const real *)a->data;
    }
    if (lead.axes < 0) lead.axes = 0;
    for (int i = 0; i < lead.axes; i++) rows *= lead.shape[i];
    Run *loop = loop_for(rows);
    if (!loop || !rows) goto general;
    for (int k = 0; k < OUTPUTS; k++) {
        const int dimensions = lead.axes + output_dimensions[k];
        intptr_t shape[MOST_AXES + OUTPUT_RANK];
        array *a = given ? given[k] : 0;
        for (int i = 0; i < lead.axes; i++) shape[i] = lead.shape[i];
        for (int i = 0; i < output_dimensions[k]; i++) shape[lead.axes + i] = output_shape[k][i];
        out_stride[k] = output_size[k];
        if (given) {
            int64_t stride;
            Lead none;
            none.axes = 0;
            if (!fits(a, dimensions, shape, CONTIGUOUS | ALIGNED | WRITEABLE, &none, 0, &stride))
                goto general;
            for (int j = 0; j < INPUTS; j++) {
                const int64_t in_rows = in_stride[j] ? rows : 1;
                if ((real *)a->data < in[j] + in_rows * input_size[j] &&
                    in[j] < (real *)a->data + rows * output_size[k])
                    goto general;
            }
        } else if (!dimensions) {
            made[k] = 0;
            out[k] = number + k;
            continue;
        } else {
            a = new_result(k, dimensions, shape, rows * output_size[k]);
            if (!a) {
                while (k--) python.drop(made[k]);
                while (lists--) python.drop(read[lists]);
                return 0;
            }
        }
        made[k] = a;
        out[k] = (real *)a->data;
    }
    int64_t wrong;
    if (rows == 1) wrong = loop(1, in, in_stride, out, out_stride, 0);
    else {
        void *thread = python.unlock();
        wrong = loop(rows, in, in_stride, out, out_stride, 0);
        python.lock(thread);
    }
    if (wrong) {
        if (!given)
            for (int k = 0; k < OUTPUTS; k++) python.drop(made[k]);
        goto general;
    }
    while (lists--) python.drop(read[lists]);
    if (given) {
        python.keep(whole);
        return whole;
    }
    for (int k = 0; k < OUTPUTS; k++) {
        if (!made[k]) made[k] = python.new_scalar(number + k, python.float64, 0);
        if (!made[k]) { /* no memory; dropping nothing does nothing */
            for (int j = 0; j < OUTPUTS; j++) python.drop(made[j]);
            return 0;
        }
    }
    if (OUTPUTS == 1) return made[0];
    void *tuple = python.new_tuple(OUTPUTS);
    for (int k = 0; k < OUTPUTS; k++) {
        if (tuple) python.set_item(tuple, k, made[k]);
        else python.drop(made[k]);
    }
    return tuple;
general:
    while (lists--) python.drop(read[lists]);
    return python.vectorcall(general, args, (size_t)count, names);
}
