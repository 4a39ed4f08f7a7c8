/* The call from XLA on the CPU. Before this text are that of xla_frame.h, and
       FEW          rows from which on the loop over lanes serves
       output_size  numbers of each output */
typedef int64_t Run(int64_t, const void *const *, const int64_t *, void *const *, const int64_t *,
                    int);
static Run *single_run,
    *lanes_run; /* the loops over one lane and over many, where they are there */

void use_loops(Run *over_one, Run *over_lanes) { single_run = over_one, lanes_run = over_lanes; }

XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame) {
    if (asked_about(frame)) return 0;
    const void *in[INPUTS + 1];
    void *out[OUTPUTS];
    int64_t in_step[INPUTS + 1], out_step[OUTPUTS];
    const int64_t rows = rows_of(frame, in, in_step, out);
    for (int k = 0; k < OUTPUTS; k++) out_step[k] = output_size[k];
    Run *const run = rows < FEW ? single_run : lanes_run;
    if (run(rows, in, in_step, out, out_step, 0) >= 0) return 0;
    return failed(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                  "no memory for intermediate results");
}
