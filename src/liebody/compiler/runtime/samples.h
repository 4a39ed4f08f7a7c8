/* What goes into the steps of an ensemble. Before this text: EFFORTS, the dimension of u, which are
   efforts or parameters. They are given as samples (stepping/samples.py). Between two samples they
   are smooth; at a sample they jump, or their slope does. No step goes across a sample, so that
   methods keep their order. */

typedef struct {
    const double *table;   /* u: samples rows of EFFORTS, per member or shared */
    int64_t member_stride; /* numbers between members' tables; 0 when shared */
    int64_t samples;
    double first, interval; /* time of the first sample, time between samples */
    int linear;             /* between samples: 0 hold the last one, 1 interpolate */
} Samples;

/* Times that are closer to t than this are the same, but for round-off. */
static inline double together(const Samples *e, double t) {
    return 1e-9 * e->interval + 1e-15 * fabs(t);
}

/* The piece that a step from t lies in, the number of the sample it begins with; before
   interpolated ones it is -1. */
static inline int64_t piece_at(const Samples *e, double t) {
    if (e->samples < 2) return 0;
    double k = floor((t + together(e, t) - e->first) / e->interval);
    return (int64_t)fmin(fmax(k, e->linear ? -1 : 0), (double)(e->samples - 1));
}

/* Where a step from t to `end` has to stop: there, or before, where a piece ends. */
static inline double part_end(const Samples *e, double t, double end) {
    int64_t k = piece_at(e, t) + 1;
    if (k >= e->samples) return end;
    double change = e->first + (double)k * e->interval;
    return change < end - together(e, end) ? change : end;
}

/* Whether the efforts jump at t. */
static inline int jumps(const Samples *e, double t) {
    int64_t k = piece_at(e, t);
    return !e->linear && k > 0 && fabs(e->first + (double)k * e->interval - t) <= together(e, t);
}

/* Effort j of a member at time t within a piece. */
static inline double effort(const Samples *e, int64_t piece, double t, int64_t member, int j) {
    const int64_t k = piece < 0 ? 0 : piece;
    const double *low = e->table + member * e->member_stride + k * EFFORTS + j;
    if (!e->linear || piece < 0 || k + 1 >= e->samples) return *low;
    return *low + ((t - e->first) / e->interval - (double)k) * (low[EFFORTS] - *low);
}

/* What becomes of a step. */
enum { RAN, NOT_FINITE, SINGULAR, NOT_CONVERGED, TOLERANCE_EXCEEDED, STOPPED, NO_STEP, TOO_MANY };
