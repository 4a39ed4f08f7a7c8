/* Compares double_pendulum.c with numbers of the library that generated it. */
#include "double_pendulum.h"
#define REAL double

/* Comparison of results with expected ones, in C99. Before this text: REAL, the type of numbers. */
#include <math.h>
#include <stdio.h>

static double worst = 0.0;
static int wrong = 0;

/* The tolerance is of the largest difference relative to the largest of the expected numbers, or to
   1. Where NaN or infinity is expected, it must be there. */
static void compare(const char *name, const REAL *got, const REAL *expected, int n,
                    double tolerance) {
    double size = 1.0;
    for (int i = 0; i < n; i++)
        if (isfinite(expected[i]) && fabs((double)expected[i]) > size)
            size = fabs((double)expected[i]);
    for (int i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - (double)expected[i]) / size;
        if (!(difference >= 0.0) &&
            (got[i] == expected[i] || (isnan(got[i]) && isnan(expected[i]))))
            difference = 0.0;
        if (!(difference <= worst)) worst = difference;
        if (!(difference <= tolerance)) {
            wrong = 1;
            printf("%s: entry %d is %.17g, expected %.17g\n", name, i, (double)got[i],
                   (double)expected[i]);
        }
    }
}

/* Prints the largest difference; returns 0, or 1 where one is too large. */
static int report(const char *name, int comparisons) {
    printf("%s: %d comparisons, largest relative difference %.2e\n", name, comparisons, worst);
    return wrong;
}

static void test_mass_matrix(void)
{
    static const double in0_0[] = {0.8605556614246863, (-1.4464727375963786)};
    static const double expected0_0[] = {3.2480071433915474, 1.1240035716957737, 1.1240035716957737, 1.0};
    double out0_0[4];
    double_pendulum_mass_matrix(in0_0, out0_0);
    compare("mass_matrix", out0_0, expected0_0, 4, 1e-09);
    static const double in1_0[] = {(-2.8841484100105235), (-3.03774645687452)};
    static const double expected1_0[] = {1.0107743447753825, 0.005387172387691264, 0.005387172387691264, 1.0};
    double out1_0[4];
    double_pendulum_mass_matrix(in1_0, out1_0);
    compare("mass_matrix", out1_0, expected1_0, 4, 1e-09);
    static const double in2_0[] = {1.9683349641197863, 2.5934197786078093};
    static const double expected2_0[] = {1.2930437731735647, 0.14652188658678234, 0.14652188658678234, 1.0};
    double out2_0[4];
    double_pendulum_mass_matrix(in2_0, out2_0);
    compare("mass_matrix", out2_0, expected2_0, 4, 1e-09);
}

int main(void)
{
    test_mass_matrix();
    return report("double_pendulum", 3);
}
