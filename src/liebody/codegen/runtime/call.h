/* The call from Python with one state: `call(args...)` or `call(args..., out=array)`. Where all
   arrays are float64 of the right shape, C-contiguous and aligned (or a float or np.float64 where
   that shape is ()), it goes straight to `run`; every other call goes to `self`, a Python callable.
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
} array;
enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400, DOUBLE = 12 };

static struct {
    void *array_type, *float_type, *scalar_type, *float64, *out;
    intptr_t first_item; /* of a tuple, in words from its beginning */
    array *(*new_array)(void *type, int nd, intptr_t *shape, int number, intptr_t *strides,
                        void *data, int size, int flags, void *of);
    void *(*as_scalar)(void *of_no_dimensions);
    void *(*vectorcall)(void *callable, void *const *args, size_t count, void *names);
    void *(*new_tuple)(intptr_t size);
    int (*set_item)(void *tuple, intptr_t index, void *item);
    void (*keep)(void *item);
    void (*drop)(void *item);
} python;

void setup(void *const *table) { memcpy(&python, table, sizeof python); }

INLINE int fits(const array *a, int dimensions, const intptr_t *shape, int flags) {
    if (a->head.type != python.array_type || a->description != python.float64 ||
        a->dimensions != dimensions || (a->flags & flags) != flags)
        return 0;
    for (int i = 0; i < dimensions; i++)
        if (a->shape[i] != shape[i]) return 0;
    return 1;
}

static const long no_strides[INPUTS + OUTPUTS];

void *call(void *self, void *const *args, intptr_t count, void *const *names) {
    const real *in[INPUTS + 1];
    real *out[OUTPUTS];
    void *made[OUTPUTS];
    int given = 0;
    if (count != INPUTS) goto general;
    if (names) { /* a tuple, whose length is its third word */
        given = OUTPUTS == 1 && (intptr_t)names[2] == 1 && names[python.first_item] == python.out;
        if (!given) goto general;
    }
    for (int k = 0; k < INPUTS; k++) {
        const array *a = args[k];
        if (!input_dimensions[k] &&
            (a->head.type == python.float_type || a->head.type == python.scalar_type)) {
            in[k] = (const real *)&a->data; /* where both have their value */
            continue;
        }
        if (!fits(a, input_dimensions[k], input_shape[k], CONTIGUOUS | ALIGNED)) goto general;
        in[k] = (const real *)a->data;
    }
    if (given) {
        array *a = args[INPUTS];
        if (!fits(a, output_dimensions[0], output_shape[0], CONTIGUOUS | ALIGNED | WRITEABLE))
            goto general;
        out[0] = (real *)a->data;
        for (int k = 0; k < INPUTS; k++)
            if (out[0] < in[k] + input_size[k] && in[k] < out[0] + output_size[0]) goto general;
        if (run(1, in, no_strides, out, no_strides, 0)) goto general;
        python.keep(a);
        return a;
    }
    for (int k = 0; k < OUTPUTS; k++) {
        array *a = python.new_array(python.array_type, output_dimensions[k], output_shape[k],
                                    DOUBLE, 0, 0, 0, 0, 0);
        if (!a) {
            while (k--) python.drop(made[k]);
            return 0;
        }
        made[k] = a;
        out[k] = (real *)a->data;
    }
    if (run(1, in, no_strides, out, no_strides, 0)) {
        for (int k = 0; k < OUTPUTS; k++) python.drop(made[k]);
        goto general;
    }
    for (int k = 0; k < OUTPUTS; k++)
        if (!output_dimensions[k]) made[k] = python.as_scalar(made[k]);
    if (OUTPUTS == 1) return made[0];
    void *tuple = python.new_tuple(OUTPUTS);
    for (int k = 0; k < OUTPUTS; k++) {
        if (tuple) python.set_item(tuple, k, made[k]);
        else python.drop(made[k]);
    }
    return tuple;
general:
    return python.vectorcall(self, args, (size_t)count, names);
}
