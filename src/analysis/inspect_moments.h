/* SPDX-License-Identifier: Apache-2.0 */
/* What the moments that a capture keeps say of a head (qkscope inspect). */
#ifndef QK_ANALYSIS_INSPECT_MOMENTS_H
#define QK_ANALYSIS_INSPECT_MOMENTS_H

#include <qkscope/capture.h>

/* Sets summed, texts and dimension; of a head without rows also positions and buckets. Its
 * layer's file is checked, and agrees with what capture.json lists. */
QK_MUST_CHECK qk_status qk__inspect_moments(qk_head_inspection *head, const qk_head *on_disk,
                                            qk_error *err);

/* Files of moments and their bytes. */
void qk__inspect_moments_files(qk_inspection *in, const qk_capture *capture);

#endif
