/* The call from XLA, the compiler below JAX, by its interface for foreign functions. Before this
   text are
       INPUTS, OUTPUTS               their numbers
       FEW                           rows from which on the loop over lanes serves
       input_dimensions, input_size  axes and numbers of each input of one state
       output_size                   numbers of each output
   Buffers have leading axes, those of the batch, or an input has none: one row that all share.

   The types of what XLA hands over are taken from the members of its structures (`__typeof__`), and
   members are set by name: minor versions of the interface rename types and add members. */
#include <xla/ffi/api/c_api.h>

typedef int64_t Run(int64_t, const void *const *, const int64_t *, void *const *, const int64_t *,
                    int);
static Run *single_run,
    *lanes_run; /* the loops over one lane and over many, where they are there */

void use_loops(Run *over_one, Run *over_lanes) { single_run = over_one, lanes_run = over_lanes; }

XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame) {
    const __typeof__(*frame->extension_start) *asked = frame->extension_start;
    if (asked && asked->type == XLA_FFI_Extension_Metadata) {
        __typeof__(((XLA_FFI_Metadata_Extension *)0)->metadata) about =
            ((const XLA_FFI_Metadata_Extension *)asked)->metadata;
        about->api_version.major_version = XLA_FFI_API_MAJOR;
        about->api_version.minor_version = XLA_FFI_API_MINOR;
        about->state_type_id.type_id = 0; /* none */
        return 0;
    }
    const void *in[INPUTS + 1];
    void *out[OUTPUTS];
    int64_t in_stride[INPUTS + 1], out_stride[OUTPUTS], rows = 1;
    for (int k = 0; k < INPUTS; k++) {
        const XLA_FFI_Buffer *buffer = frame->args.args[k];
        const int64_t leading = buffer->rank - input_dimensions[k];
        in[k] = buffer->data;
        in_stride[k] = leading ? input_size[k] : 0;
        if (!leading) continue;
        rows = 1;
        for (int64_t i = 0; i < leading; i++) rows *= buffer->dims[i];
    }
    for (int k = 0; k < OUTPUTS; k++) {
        out[k] = ((const XLA_FFI_Buffer *)frame->rets.rets[k])->data;
        out_stride[k] = output_size[k];
    }
    Run *const run = rows < FEW ? single_run : lanes_run;
    if (run(rows, in, in_stride, out, out_stride, 0) >= 0) return 0;
    XLA_FFI_Error_Create_Args error = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                       .message = "no memory for intermediate results",
                                       .errc = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED};
    return frame->api->XLA_FFI_Error_Create(&error);
}
