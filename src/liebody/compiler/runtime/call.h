/* The call of a kernel from Python, one compiled function for all kernels: `call(args...)`, with
   `out=array` (a tuple where there are several results) and `threads=1` or without. Where all
   arrays are of the kernel's own type, float64 or float32, of the right shape or batches of one
   shape of such, C-contiguous and aligned, it goes straight to the kernel's loops; every other call
   goes to a Python callable. For float64 the loops also take a float or np.float64 where the shape
   is (), and lists and tuples of numbers where they make such an array.
   `self` is a tuple (callable, kernel, last, name, value, ...): the kernel as an array of integers
   (`Kernel` below), the results that it returned last as an array of objects, and the options that
   the entry is for: the very objects must be given, behind the arrays in this order or by keyword.
   Python's and NumPy's headers are not needed: the structures below are part of their stable layout
   (checked by liebody.compiler.native.entry before use), and the functions come as pointers through
   `setup`. */
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

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
    MOST_AXES = 16, /* of a batch, and of one state */
    MOST = 32       /* inputs, and results */
};

static struct {
    void *array_type, *float_type, *scalar_type, *list_type, *tuple_type, *float64;
    void *out, *threads, *one; /* keywords; the number 1 */
    intptr_t first_item;       /* of a tuple, in words from its beginning */
    array *(*new_array)(void *type, int nd, intptr_t *shape, int number, intptr_t *strides,
                        void *data, int size, int flags, void *of);
    array *(*as_array)(void *of, void *type, int least_nd, int most_nd, int flags, void *context);
    void *(*new_scalar)(const void *number, void *type, void *of);
    void *(*vectorcall)(void *callable, void *const *args, size_t count, void *const *names);
    void *(*new_tuple)(intptr_t size);
    int (*set_item)(void *tuple, intptr_t index, void *item);
    void (*keep)(void *item);
    void (*drop)(void *item);
    void (*forget_error)(void);
    void *(*unlock)(void);              /* lets other threads of Python run ... */
    void (*lock)(void *thread);         /* ... until here */
    void *(*use_memory)(void *handler); /* of arrays from now on; returns the handler before */
    void *pool;                         /* the handler of runtime/pool.h */
} python;

void setup(void *const *table) { memcpy(&python, table, sizeof python); }

typedef int64_t Run(int64_t, const void *const *, const int64_t *, void *const *, const int64_t *,
                    int);
typedef struct {         /* an input or a result, in words of the size of a pointer */
    intptr_t dimensions; /* of one state */
    const intptr_t *shape;
    intptr_t size, oldest; /* of a result, which of the last arrays is the oldest */
} Argument;
typedef struct Kernel {
    intptr_t inputs, outputs;
    intptr_t few;               /* rows from which on the loop over lanes serves */
    void *numbers;              /* NumPy's description of the type of numbers */
    intptr_t type, bytes;       /* of a number: NumPy's code for its type, its size */
    struct Kernel *single;      /* the same in float32, which takes calls with such arrays; or 0 */
    Run *over_one, *over_lanes; /* the loops that are there */
    Argument of[];              /* the inputs, then the results */
} Kernel;

typedef struct { /* leading axes of a batch */
    int axes;    /* -1: not known yet */
    intptr_t shape[MOST_AXES];
} Lead;

/* Whether an array has this shape, or is a batch of such with the leading axes of the others; then
   `stride` becomes the distance of its rows, 0 for one row. */
INLINE int fits(const Kernel *kernel, const array *a, int dimensions, const intptr_t *shape,
                int flags, Lead *lead, int64_t size, int64_t *stride) {
    if (a->head.type != python.array_type || a->description != kernel->numbers ||
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

/* A new array, in memory of the pool if it is large. */
INLINE array *new_array(int type, int dimensions, intptr_t *shape, int large) {
    void *usual = large ? python.use_memory(python.pool) : 0;
    if (large && !usual) python.forget_error();
    array *a = python.new_array(python.array_type, dimensions, shape, type, 0, 0, 0, 0, 0);
    if (usual) {
        python.drop(python.use_memory(usual));
        python.drop(usual);
    }
    return a;
}

INLINE array *new_result(const Kernel *kernel, Argument *result, array **last, int dimensions,
                         intptr_t *shape, int64_t size) {
    const int large = size * kernel->bytes > LARGEST;
    for (int i = 0; i < LAST && !large; i++) {
        array *a = last[i];
        Lead none;
        int64_t stride;
        none.axes = 0;
        if (a->head.count == 1 && !a->base && !a->weak_references &&
            fits(kernel, a, dimensions, shape, USABLE, &none, 0, &stride)) {
            python.keep(a);
            return a;
        }
    }
    array *a = new_array((int)kernel->type, dimensions, shape, large);
    if (a && !large) {
        array **place = &last[result->oldest++ % LAST], *oldest = *place; /* None at first */
        python.keep(a);
        *place = a;
        python.drop(oldest);
    }
    return a;
}

/* The loop for so many rows, if it is there. The size alone decides, not what is there: the two
   loops round differently. */
INLINE Run *loop_for(const Kernel *kernel, int64_t rows) {
    return rows < kernel->few ? kernel->over_one : kernel->over_lanes;
}

INLINE intptr_t length(void *const *tuple) { return (intptr_t)tuple[2]; } /* its third word */

void *call(void *const *self, void *const *args, intptr_t count, void *const *names) {
    void *const *items = self + python.first_item, *general = items[0], *const *option = items + 3;
    Kernel *kernel = (Kernel *)((const array *)items[1])->data;
    const intptr_t inputs = kernel->inputs, outputs = kernel->outputs;
    if (kernel->single && inputs && inputs <= count) { /* the first array decides for all */
        const array *a = args[0];
        if (a->head.type == python.array_type && a->description == kernel->single->numbers)
            kernel = kernel->single;
    }
    const int wide = kernel->numbers == python.float64; /* as Python's floats are */
    Argument *const results = kernel->of + inputs;
    array **const last = (array **)((const array *)items[2])->data;
    const char *in[MOST];
    char *out[MOST];
    int64_t in_stride[MOST], out_stride[MOST], rows = 1;
    void *made[MOST];
    double number[MOST];                /* places of results without dimensions */
    array *read[MOST];                  /* arrays of lists */
    void *whole = 0, *const *given = 0; /* `out`, and the arrays in it */
    int lists = 0;
    Lead lead;
    lead.axes = -1;
    intptr_t options = (length(self) - 3) / 2, chosen = count - inputs;
    if (chosen < 0 || chosen > options) goto general;
    for (intptr_t j = 0; j < chosen; j++)
        if (args[inputs + j] != option[2 * j + 1]) goto general;
    for (intptr_t k = 0; k < (names ? length(names) : 0); k++) {
        void *name = names[python.first_item + k], *value = args[count + k];
        intptr_t j = count - inputs;
        while (j < options && name != option[2 * j]) j++;
        if (j < options && value == option[2 * j + 1]) chosen++;
        else if (name == python.out && outputs == 1) whole = value, given = &whole;
        else if (name == python.out && ((object *)value)->type == python.tuple_type &&
                 length(value) == outputs)
            whole = value, given = (void *const *)value + python.first_item;
        else if (name != python.threads || value != python.one) goto general;
    }
    if (chosen != options) goto general;
    for (int k = 0; k < inputs; k++) {
        const Argument *const input = kernel->of + k;
        array *a = args[k];
        void *type = a->head.type;
        if (wide && !input->dimensions &&
            (type == python.float_type || type == python.scalar_type)) {
            in[k] = (const char *)&a->data; /* where both have their value */
            in_stride[k] = 0;
            continue;
        }
        if (wide && (type == python.list_type || type == python.tuple_type)) {
            python.keep(python.float64); /* the next line takes one */
            a = python.as_array(a, python.float64, 0, 0, CONTIGUOUS | ALIGNED, 0);
            if (!a) {
                python.forget_error();
                goto general;
            }
            read[lists++] = a;
        }
        if (!fits(kernel, a, input->dimensions, input->shape, CONTIGUOUS | ALIGNED, &lead,
                  input->size, &in_stride[k]))
            goto general;
        in[k] = a->data;
    }
    if (lead.axes < 0) lead.axes = 0;
    for (int i = 0; i < lead.axes; i++) rows *= lead.shape[i];
    Run *loop = loop_for(kernel, rows);
    if (!loop || !rows) goto general;
    for (int k = 0; k < outputs; k++) {
        Argument *const result = results + k;
        const int dimensions = lead.axes + result->dimensions;
        intptr_t shape[2 * MOST_AXES];
        array *a = given ? given[k] : 0;
        for (int i = 0; i < lead.axes; i++) shape[i] = lead.shape[i];
        for (int i = 0; i < result->dimensions; i++) shape[lead.axes + i] = result->shape[i];
        out_stride[k] = result->size;
        if (given) {
            int64_t stride;
            Lead none;
            none.axes = 0;
            if (!fits(kernel, a, dimensions, shape, CONTIGUOUS | ALIGNED | WRITEABLE, &none, 0,
                      &stride))
                goto general;
            for (int j = 0; j < inputs; j++) {
                const int64_t in_rows = in_stride[j] ? rows : 1;
                if (a->data < in[j] + in_rows * kernel->of[j].size * kernel->bytes &&
                    in[j] < a->data + rows * result->size * kernel->bytes)
                    goto general;
            }
        } else if (!dimensions) {
            made[k] = 0;
            out[k] = (char *)(number + k);
            continue;
        } else {
            a = new_result(kernel, result, last + k * LAST, dimensions, shape, rows * result->size);
            if (!a) {
                while (k--) python.drop(made[k]);
                while (lists--) python.drop(read[lists]);
                return 0;
            }
        }
        made[k] = a;
        out[k] = a->data;
    }
    const void *const *from = (const void *const *)in;
    void *const *to = (void *const *)out;
    int64_t wrong;
    if (rows == 1) wrong = loop(1, from, in_stride, to, out_stride, 0);
    else {
        void *thread = python.unlock();
        wrong = loop(rows, from, in_stride, to, out_stride, 0);
        python.lock(thread);
    }
    if (wrong) {
        if (!given)
            for (int k = 0; k < outputs; k++) python.drop(made[k]);
        goto general;
    }
    while (lists--) python.drop(read[lists]);
    if (given) {
        python.keep(whole);
        return whole;
    }
    for (int k = 0; k < outputs; k++) {
        if (!made[k]) made[k] = python.new_scalar(number + k, kernel->numbers, 0);
        if (!made[k]) { /* no memory; dropping nothing does nothing */
            for (int j = 0; j < outputs; j++) python.drop(made[j]);
            return 0;
        }
    }
    if (outputs == 1) return made[0];
    void *tuple = python.new_tuple(outputs);
    for (int k = 0; k < outputs; k++) {
        if (tuple) python.set_item(tuple, k, made[k]);
        else python.drop(made[k]);
    }
    return tuple;
general:
    while (lists--) python.drop(read[lists]);
    return python.vectorcall(general, args, (size_t)count, names);
}
