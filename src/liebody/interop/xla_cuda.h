/* The call from XLA on a CUDA device: it queues the kernel in XLA's stream. Before this text are
   that of xla_frame.h, and
       BLOCK, MOST_BLOCKS  threads of a block, the most blocks of a grid
   Buffers are memory of the device. The kernel is (rows, inputs ..., outputs ..., steps of the
   inputs ...).

   NVIDIA's functions are declared here by hand, because cuda.h is not needed otherwise; CUresult is
   an int. */
#include <stdio.h>

typedef struct {
    int (*context_of)(void *stream, void **context); /* cuStreamGetCtx */
    int (*push)(void *context);                      /* cuCtxPushCurrent */
    int (*pop)(void **context);                      /* cuCtxPopCurrent */
    int (*launch)(void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared, void *stream,
                  void **parameters, void **extra); /* cuLaunchKernel */
    int (*name_of)(int error, const char **name);   /* cuGetErrorName */
} Driver;

typedef struct {
    void *context; /* the primary context of a device */
    void *kernel;  /* the kernel that is loaded in it */
} Loaded;

static Driver driver;
static const Loaded *loaded; /* one for each device, which the caller of use_kernels keeps */
static int devices;

void use_kernels(const Driver *functions, int count, const Loaded *kernels) {
    driver = *functions, devices = count, loaded = kernels;
}

static XLA_FFI_Error *refused(const XLA_FFI_CallFrame *frame, const char *function, int status) {
    char message[300];
    const char *name = 0;
    driver.name_of(status, &name);
    snprintf(
        message, sizeof message,
        "the driver of CUDA refused %s for %.100s: %.60s (error %d); errors of earlier work on "
        "the device show here, too",
        function, called, name ? name : "an unknown error", status);
    return failed(frame, XLA_FFI_Error_Code_INTERNAL, message);
}

XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame) {
    const About about = asked_about(frame);
    if (about) {
        about->traits = 0; /* not for command buffers */
        return 0;
    }
    const void *in[INPUTS + 1];
    void *out[OUTPUTS];
    int64_t step[INPUTS + 1];
    int64_t rows = rows_of(frame, in, step, out);
    if (!rows) return 0;

    /* XLA's stream, and the kernel that is loaded in its context */
    XLA_FFI_Stream_Get_Args queue = {.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE,
                                     .ctx = frame->ctx};
    XLA_FFI_Error *const error = frame->api->XLA_FFI_Stream_Get(&queue);
    if (error) return error;
    void *context = 0, *kernel = 0;
    if (devices) {
        const int status = driver.context_of(queue.stream, &context);
        if (status) return refused(frame, "cuStreamGetCtx", status);
    }
    for (int k = 0; k < devices; k++)
        if (loaded[k].context == context) kernel = loaded[k].kernel;
    if (!kernel) {
        char message[300];
        snprintf(
            message, sizeof message,
            "%.100s is not loaded on the device of this call: kernels are loaded in the primary "
            "contexts of the devices that JAX has when a function is first lowered",
            called);
        return failed(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, message);
    }

    /* addresses of the kernel's arguments, which the driver copies before it returns */
    void *parameters[1 + 2 * INPUTS + OUTPUTS];
    void **next = parameters;
    *next++ = &rows;
    for (int k = 0; k < INPUTS; k++) *next++ = &in[k];
    for (int k = 0; k < OUTPUTS; k++) *next++ = &out[k];
    for (int k = 0; k < INPUTS; k++) *next++ = &step[k];
    const int64_t full = (rows - 1) / BLOCK + 1;
    const unsigned blocks = full < MOST_BLOCKS ? full : MOST_BLOCKS;
    int status = driver.push(context);
    if (status) return refused(frame, "cuCtxPushCurrent", status);
    status = driver.launch(kernel, blocks, 1, 1, BLOCK, 1, 1, 0, queue.stream, parameters, 0);
    driver.pop(&context);
    return status ? refused(frame, "cuLaunchKernel", status) : 0;
}
