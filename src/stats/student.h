/* SPDX-License-Identifier: Apache-2.0 */
/* Student's t distribution. */
#ifndef QK_STATS_STUDENT_H
#define QK_STATS_STUDENT_H

#include <stdint.h>

/* The t below which a variable with `degrees` >= 1 of freedom (not necessarily a whole number)
 * lies with this probability, 0.5 <= probability < 1; NaN for anything else. Twelve digits up
 * to 10^5 degrees, beyond that gradually fewer (nine at 10^8). */
double qk__student_quantile(double probability, double degrees);

/* The probability that T is below t, as accurate as qk__student_p_value. */
double qk__student_below(double t, double degrees);

/* The probability that |T| is above |t|, degrees >= 1: as accurate as qk__correlation_p_value.
 * NaN of NaN or of fewer degrees. */
double qk__student_p_value(double t, double degrees);

/* Two-sided p-value of a Pearson correlation r over n rows (Student t with n - 2 degrees of
 * freedom); 1 for n < 3. Underflow gives 0. */
double qk__correlation_p_value(double r, int64_t n);

#endif
