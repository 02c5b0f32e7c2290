/* SPDX-License-Identifier: Apache-2.0 */
/* A model to measure times with, where only its shape is known. */
#ifndef QK_MODEL_MADE_WEIGHTS_H
#define QK_MODEL_MADE_WEIGHTS_H

#include <qkscope/common.h>

/* Makes the folder `output`, with the config.json of `folder` and weights that fit it with these overrides. Layers up to the last
 * one to be run take room on disk. */
QK_MUST_CHECK qk_status qk__make_weights(const char *folder, const char *overrides,
                                         int last_layer, const char *output, qk_error *err);

#endif
