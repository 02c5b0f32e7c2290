/* SPDX-License-Identifier: Apache-2.0 */
/* How far a number of a sample can be trusted: 95 % intervals of means, shares, correlations. */
#ifndef QK_REPORT_ESTIMATE_H
#define QK_REPORT_ESTIMATE_H

#include <stddef.h>

typedef struct qk__estimate {
    size_t count;     /* finite values */
    double value;     /* NaN without any */
    double low, high; /* NaN with fewer than 3 */
} qk__estimate;

/* Student's t about the mean. Values that are not finite are left out. */
qk__estimate qk__estimate_mean(const double *values, size_t count);
/* The same of shares, within 0..1. Where all are equal t says nothing, and it is
 * Wilson's interval about that share of count independent things. */
qk__estimate qk__estimate_share(const double *shares, size_t count);
/* Fisher's z about Pearson's r over that many independent pairs (not necessarily a whole number);
 * NaN interval below 4. */
qk__estimate qk__estimate_correlation(double r, double pairs);
/* Of several r by their z: the r of the mean z, and Student's interval about it. */
double qk__fisher_z(double r);
qk__estimate qk__estimate_correlations(const double *z, size_t count);

#endif
