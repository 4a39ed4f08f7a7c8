/* Calls of compiled functions between the steps of a march, for the lanes in which they are due: a
   controller that computes what it holds from then on. One state after the other goes to such a
   function, which is the batch loop of a kernel over one lane (batch.h): so results are those of a
   call from Python, bit for bit, whatever lanes there are.

   Before this text: LARGEST_IN, LARGEST_OUT, MOST_ARRAYS, the largest sizes of what goes in and
   out, and the largest number of arrays on one side. */

typedef int64_t (*Run)(int64_t n, const double *const *in, const int64_t *in_stride,
                       double *const *out, const int64_t *out_stride, int kept);

/* The results, one array behind the other, of the arrays `in`; NaN where the function refuses
   them. Lanes that are not due get zeros. */
static void call_lanes(Run run, I due, const T *in, const int *in_sizes, int ins, T *out,
                       const int *out_sizes, int outs) {
    double from[LARGEST_IN + 1], to[LARGEST_OUT + 1];
    const double *sources[MOST_ARRAYS];
    double *targets[MOST_ARRAYS];
    int64_t in_stride[MOST_ARRAYS], out_stride[MOST_ARRAYS];
    int width = 0, results = 0;
    for (int k = 0; k < ins; k++) {
        sources[k] = from + width, in_stride[k] = in_sizes[k];
        width += in_sizes[k];
    }
    for (int k = 0; k < outs; k++) {
        targets[k] = to + results, out_stride[k] = out_sizes[k];
        results += out_sizes[k];
    }
    for (int j = 0; j < results; j++) out[j] = splat(0);
    for (int lane = 0; lane < LANES; lane++) {
        if (!LANE(due)) continue;
        for (int j = 0; j < width; j++) from[j] = LANE(in[j]);
        const int refused = run(1, sources, in_stride, targets, out_stride, 0) != 0;
        for (int j = 0; j < results; j++) LANE(out[j]) = refused ? NAN : to[j];
    }
}
