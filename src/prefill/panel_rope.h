/* SPDX-License-Identifier: Apache-2.0 */
/* Rotating panels of queries and keys, from tables of cosines and sines. */
#ifndef QK_PREFILL_PANEL_ROPE_H
#define QK_PREFILL_PANEL_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "model/rope.h"
#include "prefill/panel_kernel.h"
#include "prefill/rounding.h"

/* Cosines and sines of every position of the longest sequence, for the frequencies of a short
 * one. */
typedef struct qk__rope_table {
    const qk__rope *rope; /* NULL: not used by this model */
    qk__rounding rounding;
    float *cosines, *sines; /* [panels][pairs][lanes] */
} qk__rope_table;

QK_MUST_CHECK qk_status qk__rope_table_init(qk__rope_table *table, const qk__rope *rope,
                                            size_t panels, qk__rounding rounding, int threads,
                                            qk_error *err);
void qk__rope_table_free(qk__rope_table *table);

/* Panels of a sequence as their rotation needs them: the table's where its frequencies are
 * those of the sequence, else made in scratch, of qk__rope_scratch() floats. */
typedef struct qk__panel_rotation {
    const float *cosines, *sines; /* [count][pairs][lanes] */
    size_t pairs;
    bool interleaved;
    qk__rounding rounding;
} qk__panel_rotation;

size_t qk__rope_scratch(size_t pairs, size_t panels);
qk__panel_rotation qk__rotation_at(const qk__rope_table *table, int64_t length,
                                   size_t first_panel, size_t count, float *scratch);

/* Panels whose tokens stand at `positions` [count][lanes], but for pairs that are frozen (may be NULL), which stand at
 * position 0. As the table has them, to the last bit. */
qk__panel_rotation qk__rotation_of(const qk__rope_table *table, int64_t length,
                                   const int32_t *positions, const bool *frozen, size_t count,
                                   float *scratch);

/* Rotates the features of one head in the i-th panel of the rotation. */
void qk__rotate(const qk__panel_kernel *kernel, const qk__panel_rotation *rotation, size_t i,
                float *head);

#endif
