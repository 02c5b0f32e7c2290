/* SPDX-License-Identifier: Apache-2.0 */
/* p-values of many tests, corrected together: Benjamini and Hochberg, Journal of the Royal
 * Statistical Society B 57(1), 1995. */
#ifndef QK_STATS_FALSE_DISCOVERY_H
#define QK_STATS_FALSE_DISCOVERY_H

#include <stddef.h>

#include <qkscope/common.h>

/* corrected[i]: the smallest share of false discoveries at which test i is one. NaN are no tests
 * and stay. */
QK_MUST_CHECK qk_status qk__correct_p_values(const double *p, size_t count, double *corrected,
                                             qk_error *err);

#endif
