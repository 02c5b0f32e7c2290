/* SPDX-License-Identifier: Apache-2.0 */
/* What figures ask the tables (ask.c): one SELECT each. Its first column is the model (models.model_id) of a row, or 0
 * for rows of no model. Rows are sorted by it. */
#ifndef QK_FIGURE_ASK_H
#define QK_FIGURE_ASK_H

#include "base/buffer.h"
#include "results/results.h"
#include "schema/schema.h"
#include "stats/means.h"
#include "tables/tables.h"

/* Some rows of a SELECT. */
typedef struct qk__found {
    const qk_columns *of;
    size_t first, count;
} qk__found;

/* NaN where there is nothing, or a text. */
double qk__number_in(const qk__found *rows, size_t row, size_t column);
/* Whether any row has one. */
bool qk__any_number(const qk__found *rows, size_t column);
/* NULL where there is nothing, or a number. */
const char *qk__text_in(const qk__found *rows, size_t row, size_t column);
/* A qk_category by its name, or -1. */
int qk__category_in(const qk__found *rows, size_t row, size_t column);
/* The rows from `row` on with the same number in a column. */
qk__found qk__same_in(const qk__found *rows, size_t row, size_t column);

/* The index of the model whose number is in a column; SIZE_MAX: no model. */
size_t qk__model_in(const qk__results *results, const qk__found *rows, size_t row,
                    size_t column);
/* The rows of a model. */
qk__found qk__rows_of_model(const qk__found *rows, const qk__result_model *model);

#endif
