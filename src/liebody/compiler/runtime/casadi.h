/* A function as CasADi loads it, `casadi.external`. Before this text there are
       casadi_int, FUNCTION(suffix)      its integers; names that begin with the function's
       INPUTS, OUTPUTS                   their numbers
       input_names, output_names
       input_patterns, output_patterns   rows, columns, where columns begin, rows of nonzeros
       output_size, MOST_RESULTS         nonzeros of each output, and of all of them
       MOST_INPUT                        nonzeros of the largest input
   and behind it FUNCTION(), which calls `arrays`. */

casadi_int FUNCTION(_n_in)(void) { return INPUTS; }
casadi_int FUNCTION(_n_out)(void) { return OUTPUTS; }
const char *FUNCTION(_name_in)(casadi_int i) { return input_names[i]; }
const char *FUNCTION(_name_out)(casadi_int i) { return output_names[i]; }
const casadi_int *FUNCTION(_sparsity_in)(casadi_int i) { return input_patterns[i]; }
const casadi_int *FUNCTION(_sparsity_out)(casadi_int i) { return output_patterns[i]; }
int FUNCTION(_work)(casadi_int *arg, casadi_int *res, casadi_int *iw, casadi_int *w) {
    *arg = INPUTS, *res = OUTPUTS, *iw = 0, *w = MOST_RESULTS;
    return 0;
}

/* The arrays of a call: what is not given is zero, what is not wanted goes to `w`. */
static void arrays(const double **arg, double **res, double *w, const double **in, double **out) {
    static const double zeros[MOST_INPUT];
    for (int k = 0; k < INPUTS; k++) in[k] = arg[k] ? arg[k] : zeros;
    for (int k = 0; k < OUTPUTS; w += output_size[k++]) out[k] = res[k] ? res[k] : w;
}
