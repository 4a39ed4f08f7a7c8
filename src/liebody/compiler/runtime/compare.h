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
        /* Infinities of one sign are equal; their difference is no number. */
        int equal = got[i] <= expected[i] && got[i] >= expected[i];
        if (!(difference >= 0.0) && (equal || (isnan(got[i]) && isnan(expected[i]))))
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
