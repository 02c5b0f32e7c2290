/* SPDX-License-Identifier: Apache-2.0 */
/* The planar rotation model. rotation.c leads: it fits the axes to moments; rotation_scan.c looks at the rows again. */
#ifndef QK_STATS_ROTATION_H
#define QK_STATS_ROTATION_H

#include <qkscope/stats.h>

/* What needs the rows again: the sinusoid along a, the angles in the planes.
 *
 *     qk__rotation_fit(q, k, &settings, &rotation, &err);
 *     qk__rotation_scan_create(&scan, rotation, 0, rotation->num_planes, NULL, 0, &err);
 *     qk__rotation_scan_add(scan, true, &queries, &err);   (all queries)
 *     qk__rotation_scan_add(scan, false, &keys, &err);     (all keys)
 *     qk__rotation_scan_finish(&scan, rotation, &err); */
typedef struct qk__rotation_scan qk__rotation_scan;

/* Fits the model. A degenerate head is QK_OK with `degenerate` set.
 * Errors: QK_ERR_INCONSISTENT (different dimensions), QK_ERR_NOMEM. */
QK_MUST_CHECK qk_status qk__rotation_fit(const qk_moments *q, const qk_moments *k,
                                         const qk_rotation_settings *settings,
                                         qk_rotation **rotation, qk_error *err);

void qk__rotation_free(qk_rotation **rotation);

/* Starts a scan for omega (when first_plane is 0) and for planes first_plane ..
 * first_plane + planes - 1. It keeps 16 bytes a row and 8 a row and plane: with very many
 * rows scan the planes in several goes. Of a degenerate rotation nothing is kept. Planes turn at the
 * best of `frequencies` (of the model, radians per token; they must outlive the scan), or with
 * none at the best of a grid; docs/methods.md#rotation-model. */
QK_MUST_CHECK qk_status qk__rotation_scan_create(qk__rotation_scan **scan,
                                                 const qk_rotation *rotation,
                                                 size_t first_plane, size_t planes,
                                                 const double *frequencies,
                                                 size_t num_frequencies, qk_error *err);

void qk__rotation_scan_free(qk__rotation_scan **scan);

/* Adds rows with their positions, all queries before all keys, each kind in the order of its
 * moments. Another order or more rows than the fit had: QK_ERR_ARGUMENT. */
QK_MUST_CHECK qk_status qk__rotation_scan_add(qk__rotation_scan *scan, bool queries,
                                              const qk_block *rows, qk_error *err);

/* Fills omega, omega_r_squared and the scanned planes of `rotation`, the one the scan was made
 * for (axes may change sign). Frees the scan and sets *scan to NULL in any case. */
QK_MUST_CHECK qk_status qk__rotation_scan_finish(qk__rotation_scan **scan,
                                                 qk_rotation *rotation, qk_error *err);

#endif
