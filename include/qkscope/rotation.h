/* SPDX-License-Identifier: Apache-2.0 */
/* The planar rotation model: the axis a along which queries and keys drift with position, the
 * axis b off it that tells queries from keys best, and the planes of what is left.
 *
 * The axes and nearly every number follow from qk_moments. What needs the rows again (the
 * sinusoid along a, the angles in the complement's planes) is added by a qk_rotation_scan:
 *
 *     qk_rotation_fit(q, k, &settings, &rotation, &err);
 *     qk_rotation_scan_create(&scan, rotation, 0, rotation->num_planes, &err);
 *     qk_rotation_scan_add_f32(scan, true, queries, positions, rows, &err);   (all queries)
 *     qk_rotation_scan_add_f32(scan, false, keys, positions, rows, &err);     (all keys)
 *     qk_rotation_scan_finish(&scan, rotation, &err);
 *
 * docs/rotation.md has the formulas. Numbers that the data leave undefined are NaN here and
 * empty fields in the tables. */
#ifndef QKSCOPE_ROTATION_H
#define QKSCOPE_ROTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/moments.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

typedef enum qk_b_axis {
    QK_B_PAIRS,    /* largest mean squared difference of query-key pairs, off a */
    QK_B_CENTROID, /* difference of the means, off a */
} qk_b_axis;

typedef struct qk_rotation_settings {
    qk_b_axis b_axis;
    int planes; /* of the complement, at most; 0 = none */
} qk_rotation_settings;

/* QK_B_PAIRS, no planes. */
QK_API void qk_rotation_settings_default(qk_rotation_settings *settings);

/* One plane of the complement. */
typedef struct qk_plane {
    double variance_share;   /* of the pooled variance, 0..1 */
    double omega, resultant; /* radians per token, > 0; 0..1. NaN until a scan has them */
    double angle_r;          /* -1..1; NaN likewise */
    /* the nearest of the model's own frequencies, in ratio, and |omega / it - 1|; NaN until
     * qk_analysis_run, which reads them from the capture, has set them */
    double rope_frequency, rope_relative_error;
} qk_plane;

typedef struct qk_rotation {
    size_t dim;
    int64_t n_q, n_k;
    bool degenerate;   /* no drift, or fewer than 3 rows of a kind: every number is NaN */
    double position_r; /* |corr(a.x, position)| of the pooled rows */
    double r_q_a, r_k_a;
    double alpha_q, alpha_k;               /* slopes of a.q and a.k on position, per token */
    double mu_q_a, mu_k_a, mu_q_b, mu_k_b; /* means of the projections, not centred */
    double bias_strength;                  /* mu_q_a * alpha_k */
    double separation_strength;            /* 0..1 */
    double var_frac_a, var_frac_b, plane_var_fraction; /* of the pooled variance */
    double content_var_b;
    double residual_pos_r;
    double omega, omega_r_squared; /* NaN until a scan has them */
    size_t num_planes;
    qk_plane *planes;
    double *a;    /* [dim] unit vector; NULL if degenerate */
    double *b;    /* [dim] unit vector orthogonal to a; NULL where there is none */
    double *axes; /* [2 * num_planes][dim] of the planes, orthonormal, orthogonal to a, b */
    double *mean_q, *mean_k; /* [dim] */
} qk_rotation;

/* Fits the model. A degenerate head is QK_OK with `degenerate` set.
 * Errors: QK_ERR_INCONSISTENT (different dimensions), QK_ERR_NOMEM. */
QK_API QK_MUST_CHECK qk_status qk_rotation_fit(const qk_moments *q, const qk_moments *k,
                                               const qk_rotation_settings *settings,
                                               qk_rotation **rotation, qk_error *err);
QK_API void qk_rotation_free(qk_rotation **rotation);

/* ---- what needs the rows again ---------------------------------------------------------- */

typedef struct qk_rotation_scan qk_rotation_scan;

/* Starts a scan for omega (when first_plane is 0) and for planes first_plane ..
 * first_plane + planes - 1. It keeps 16 bytes a row and 8 a row and plane: with very many
 * rows scan the planes in several goes. Of a degenerate rotation nothing is kept. */
QK_API QK_MUST_CHECK qk_status qk_rotation_scan_create(qk_rotation_scan **scan,
                                                       const qk_rotation *rotation,
                                                       size_t first_plane, size_t planes,
                                                       qk_error *err);
QK_API void qk_rotation_scan_free(qk_rotation_scan **scan);

/* Adds rows x (row-major, rows x dim) at positions t, all queries before all keys, each kind in
 * the order of its moments. Another order or more rows than the fit had: QK_ERR_ARGUMENT. */
QK_API QK_MUST_CHECK qk_status qk_rotation_scan_add_f32(qk_rotation_scan *scan, bool queries,
                                                        const float *x, const int64_t *t,
                                                        size_t rows, qk_error *err);
QK_API QK_MUST_CHECK qk_status qk_rotation_scan_add_f64(qk_rotation_scan *scan, bool queries,
                                                        const double *x, const int64_t *t,
                                                        size_t rows, qk_error *err);

/* Fills omega, omega_r_squared and the scanned planes of `rotation`, the one the scan was made
 * for (axes may change sign). Frees the scan and sets *scan to NULL in any case. */
QK_API QK_MUST_CHECK qk_status qk_rotation_scan_finish(qk_rotation_scan **scan,
                                                       qk_rotation *rotation, qk_error *err);

QK_END_DECLS

#endif
