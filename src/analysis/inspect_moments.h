/* SPDX-License-Identifier: Apache-2.0 */
/* What the moments that a capture keeps say of a head (qkscope inspect). */
#ifndef QK_ANALYSIS_INSPECT_MOMENTS_H
#define QK_ANALYSIS_INSPECT_MOMENTS_H

#include <qkscope/capture.h>

/* Finds sets, texts and dimension; for a head without rows also positions and buckets. Checks its layer's file against
 * capture.json. */
QK_MUST_CHECK qk_status qk__inspect_moments(qk_head_inspection *head, const qk_head *on_disk,
                                            qk_error *err);

/* The number of files of moments, and their bytes. */
void qk__inspect_moments_files(qk_inspection *in, const qk_capture *capture);

#endif
