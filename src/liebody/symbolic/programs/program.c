#include <stdio.h>

enum { NQ = @nq@, NV = @nv@, N = NQ + NV };

static const double start[N] = {@start@};

/* dy/dt of y = (q, v): dq/dt = E(q) v, M(q) dv/dt = force. M is factored as L D L^T in its lower triangle. */
static void field(double t, const double y[N], double dy[N])
{
    const double *q = y, *v = y + NQ;
    double M[NV * NV], force[NV], rate[NQ];
    (void)t;
    @call@
    for (int j = 0; j < NV; j++) {
        for (int k = 0; k < j; k++)
            M[j * NV + j] -= M[j * NV + k] * M[j * NV + k] * M[k * NV + k];
        for (int i = j + 1; i < NV; i++) {
            for (int k = 0; k < j; k++)
                M[i * NV + j] -= M[i * NV + k] * M[j * NV + k] * M[k * NV + k];
            M[i * NV + j] /= M[j * NV + j];
            force[i] -= M[i * NV + j] * force[j];
        }
    }
    for (int i = 0; i < NQ; i++)
        dy[i] = rate[i];
    for (int i = NV - 1; i >= 0; i--) {
        dy[NQ + i] = force[i] / M[i * NV + i];
        for (int k = i + 1; k < NV; k++)
            dy[NQ + i] -= M[k * NV + i] * dy[NQ + k];
    }
}

int main(void)
{
    const long steps = @steps@;
    const double h = @end@ / (double)steps;
    const double reach[4] = {0, 0.5, 0.5, 1}, weight[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
    double y[N], stage[N], sum[N], slope[N] = {0};
    for (int i = 0; i < N; i++)
        y[i] = start[i];
    for (long n = 0; n < steps; n++) {
        for (int i = 0; i < N; i++)
            sum[i] = 0;
        for (int k = 0; k < 4; k++) {
            for (int i = 0; i < N; i++)
                stage[i] = y[i] + h * reach[k] * slope[i];
            field(h * ((double)n + reach[k]), stage, slope);
            for (int i = 0; i < N; i++)
                sum[i] += weight[k] * slope[i];
        }
        for (int i = 0; i < N; i++)
            y[i] += h * sum[i];
@unit@    }
    for (int i = 0; i < N; i++)
        printf("%.17g\n", y[i]);
    return 0;
}
