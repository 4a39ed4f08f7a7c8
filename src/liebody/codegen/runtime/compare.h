/* Comparison of results with expected ones, in C99. Before this text: TOLERANCE, of the largest
   difference relative to the largest of the expected numbers, or to 1. */
#include <math.h>
#include <stdio.h>

static double worst = 0.0;

static void compare(const char *name, const double *got, const double *expected, int n) {
    double size = 1.0;
    for (int i = 0; i < n; i++)
        if (fabs(expected[i]) > size) size = fabs(expected[i]);
    for (int i = 0; i < n; i++) {
        double difference = fabs(got[i] - expected[i]) / size;
        if (!(difference <= worst)) {
            worst = difference;
            if (!(difference <= TOLERANCE))
                printf("%s: entry %d is %.17g, expected %.17g\n", name, i, got[i], expected[i]);
        }
    }
}

/* Prints the largest difference; returns 0, or 1 where it is too large. */
static int report(const char *name, int comparisons) {
    printf("%s: %d comparisons, largest relative difference %.2e\n", name, comparisons, worst);
    return worst <= TOLERANCE ? 0 : 1;
}
