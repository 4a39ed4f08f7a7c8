/* The call frame of XLA, the compiler below JAX, by its interface for foreign functions: the text
   in front of xla.h and xla_cuda.h. Before this text are
       INPUTS, OUTPUTS               their numbers
       input_dimensions, input_size  axes and numbers of each input of one state
   Buffers have the leading axes of the batch, or an input has none: one row that all share.

   The types of what XLA hands over are taken from the members of its structures (`__typeof__`), and
   members are set by name: minor versions of the interface rename types and add members. */
#include <xla/ffi/api/c_api.h>

typedef __typeof__(((XLA_FFI_Metadata_Extension *)0)->metadata) About;

/* What XLA asks about the function, with the versions set, if this call asks that; or else null. */
static About asked_about(const XLA_FFI_CallFrame *frame) {
    const __typeof__(*frame->extension_start) *asked = frame->extension_start;
    if (!asked || asked->type != XLA_FFI_Extension_Metadata) return 0;
    About about = ((const XLA_FFI_Metadata_Extension *)asked)->metadata;
    about->api_version.major_version = XLA_FFI_API_MAJOR;
    about->api_version.minor_version = XLA_FFI_API_MINOR;
    about->state_type_id.type_id = 0; /* none */
    return about;
}

/* The number of rows, the addresses of all buffers, and the numbers between rows of each input. */
static int64_t rows_of(const XLA_FFI_CallFrame *frame, const void **in, int64_t *in_step,
                       void **out) {
    int64_t rows = 1;
    for (int k = 0; k < INPUTS; k++) {
        const XLA_FFI_Buffer *buffer = frame->args.args[k];
        const int64_t leading = buffer->rank - input_dimensions[k];
        in[k] = buffer->data;
        in_step[k] = leading ? input_size[k] : 0;
        if (!leading) continue;
        rows = 1;
        for (int64_t i = 0; i < leading; i++) rows *= buffer->dims[i];
    }
    for (int k = 0; k < OUTPUTS; k++) out[k] = ((const XLA_FFI_Buffer *)frame->rets.rets[k])->data;
    return rows;
}

static XLA_FFI_Error *failed(const XLA_FFI_CallFrame *frame, int code, const char *message) {
    /* XLA copies the message */
    XLA_FFI_Error_Create_Args error = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = message, .errc = code};
    return frame->api->XLA_FFI_Error_Create(&error);
}
