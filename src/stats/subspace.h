/* SPDX-License-Identifier: Apache-2.0 */
/* How two subspaces lie to each other: their principal angles. */
#ifndef QK_STATS_SUBSPACE_H
#define QK_STATS_SUBSPACE_H

#include <stddef.h>

#include <qkscope/common.h>

enum { QK_MOST_SUBSPACE = 10 };

/* Of the spaces that orthonormal rows a[count][dim] and b[count][dim] span, in radians, ascending;
 * count <= QK_MOST_SUBSPACE. By sines where they are small and by cosines where they are not, so
 * that small ones keep their digits (Knyazev and Argentati, SIAM Journal on Scientific Computing
 * 23(6), 2002). */
QK_MUST_CHECK qk_status qk__subspace_angles(const double *a, const double *b, size_t count,
                                            size_t dim, double angles[QK_MOST_SUBSPACE],
                                            qk_error *err);

/* Mean squared cosine of the angles: the share of one that lies in the other, 0..1; that of
 * unrelated ones is count / dim on average. */
double qk__subspace_overlap(const double *angles, size_t count);

#endif
