/* The batch loop. Rows of inputs and of results are `in_stride` and `out_stride` numbers apart; 0
   for one row that all share. Returns 0, or 1 + the number of the first row (or of its block) that
   breaks the guard; -1 without memory. `kept`: constants among the results are there already, from
   the last call, and need not be written.

   Before this text, with LANES 1, there is
       one_row(i, in, in_stride, out, out_stride)   whether row i breaks the guard
   and otherwise, of the `rows` from i on, LANES at most, by a Workspace *s of vectors which is on
   the stack if it is SMALL,
       begin(s)                                  constants
       take(s, i, rows, in, in_stride)           inputs come in; whether one breaks the guard
       compute(s)
       give(s, i, rows, out, out_stride, same, past)   results go out, without constants if `same`,
                                                      past the caches if `past` */
int64_t run(int64_t n, const real *const *in, const int64_t *in_stride, real *const *out,
            const int64_t *out_stride, int kept) {
#if LANES == 1
    (void)kept;
    for (int64_t i = 0; i < n; i++)
        if (one_row(i, in, in_stride, out, out_stride)) return i + 1;
    return 0;
#else
    const int past = n > WITHIN;
    Workspace here[SMALL], *s = SMALL ? here : vector_memory(sizeof(Workspace));
    int64_t bad_row = 0;
    if (!s) return -1;
    begin(s);
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t rows = n - i < LANES ? n - i : LANES;
        if (take(s, i, rows, in, in_stride)) {
            bad_row = i + 1;
            break;
        }
        compute(s);
        give(s, i, rows, out, out_stride, kept && rows == LANES, past && rows == LANES);
    }
    if (past) SETTLE();
    if (!SMALL) release(s);
    return bad_row;
#endif
}
