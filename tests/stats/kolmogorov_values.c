/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "ks n d" and "t probability degrees" and prints the p-value of the
 * Kolmogorov-Smirnov statistic d, and the quantile of Student's t. */
#include <stdio.h>
#include <string.h>

#include "stats/kolmogorov.h"
#include "stats/student.h"

int main(void)
{
    char name[8];
    double first, second;
    while (scanf("%7s %lf %lf", name, &first, &second) == 3)
        printf("%.17g\n", strcmp(name, "t") == 0 ? qk__student_quantile(first, second)
                                                 : qk__kolmogorov_p((int64_t)first, second));
    return 0;
}
