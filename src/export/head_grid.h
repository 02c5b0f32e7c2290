/* SPDX-License-Identifier: Apache-2.0 */
/* A capture of which every head of every layer is wanted: is all of it there, and moments of each. */
#ifndef QK_EXPORT_HEAD_GRID_H
#define QK_EXPORT_HEAD_GRID_H

#include <qkscope/export.h>

#include "analysis/run.h"

typedef struct qk__grid {
    qk__run run;
    qk_analysis_settings settings;
    size_t layers, q_heads, k_heads; /* k_heads: 0 where only queries are asked for */
    size_t group;                    /* query heads per key head; likewise */
    size_t dim;
    int64_t texts,
        length; /* behind the first head; length: of the longest of them, as far as there are rows */
} qk__grid;

/* What is wanted of the capture that an export is of. */
typedef struct qk__grid_wish {
    qk_stage stage; /* that its vectors are from, not unknown */
    bool groups;    /* which key head a query head has, too */
    bool keys;      /* all key heads */
    int64_t from;   /* positions below it are left out */
} qk__grid_wish;

/* To be closed whatever is returned; it must not move. Errors name the capture, and what of it is missing. */
QK_MUST_CHECK qk_status qk__grid_open(qk__grid *grid, const qk_export_settings *settings,
                                      const qk__grid_wish *wish, qk_error *err);
void qk__grid_close(qk__grid *grid);

/* Calls see for each head of a kind, at place layer * heads of a layer + head, from several threads. The first failure is that
 * of the lowest place; messages name the head. */
typedef qk_status qk__see_moments_fn(void *user, size_t place, const qk_moments *moments,
                                     qk_error *err);
QK_MUST_CHECK qk_status qk__grid_each(qk__grid *grid, qk_kind kind, qk__see_moments_fn *see,
                                      void *user, qk_error *err);

/* Whether so many layers and heads of such a dimension are those of the grid; 0: not known. */
QK_MUST_CHECK qk_status qk__grid_fits(const qk__grid *grid, const char *whose, int layers,
                                      int q_heads, int k_heads, int dim, qk_error *err);

#endif
