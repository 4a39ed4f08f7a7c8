#include "double_pendulum.h"

#include <math.h>

void double_pendulum_mass_matrix(const double *q, double *mass_matrix_out)
{
    mass_matrix_out[3] = 1.0;
    const double t6 = sin(q[1]);
    const double t5 = cos(q[1]);
    const double t9 = t5 + 1.0;
    mass_matrix_out[1] = t9;
    mass_matrix_out[2] = t9;
    const double t10 = t6 * t6;
    const double t12 = 1.0 - t10;
    const double t17 = t5 * 2.0;
    const double t19 = t12 + t17;
    const double t21 = t19 + 2.0;
    const double t22 = t10 + t21;
    mass_matrix_out[0] = t22;
}
