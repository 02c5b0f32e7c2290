/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of the tables of heads and their values in a qk__result_head. */
#include "results/head_columns.h"

#include <string.h>

/* Those that are no qk__field. */
#define HEAD(member)  offsetof(qk__result_head, member)
#define MODEL(member) offsetof(qk__result_model, member)
static const struct {
    const char *name;
    int kind;
    size_t offset;
} PLACES[] = {
    {"model", QK__HEAD_MODEL, MODEL(name)},
    {"label", QK__HEAD_MODEL, MODEL(label)},
    {"family", QK__HEAD_MODEL, MODEL(family)},
    {"phase", QK__HEAD_MODEL, MODEL(phase)},
    {"source", QK__HEAD_MODEL, MODEL(source)},
    {"layer", QK__HEAD_ID, HEAD(layer)},
    {"q_head", QK__HEAD_ID, HEAD(q_head)},
    {"k_head", QK__HEAD_ID, HEAD(k_head)},
    {"category", QK__HEAD_CATEGORY, HEAD(category)},
    {"category_before", QK__HEAD_CATEGORY, HEAD(category_before)},
    {"category_after", QK__HEAD_CATEGORY, HEAD(category_after)},
    {"category_without_first", QK__HEAD_CATEGORY, HEAD(category_without_first)},
    {"n_q", QK__HEAD_ROWS, HEAD(n_q)},
    {"n_k", QK__HEAD_ROWS, HEAD(n_k)},
};

/* What is added to the name of a number for its interval. */
static const struct {
    const char *ending;
    size_t offset;
} ENDS[] = {{"", HEAD(v)}, {"_lo", HEAD(lo)}, {"_hi", HEAD(hi)}, {"_cv", HEAD(cv)}};

const char *const qk__head_table_files[QK__NUM_HEAD_TABLES] = {
    [QK__HEADS] = "heads.csv",           [QK__QK] = "qk.csv",
    [QK__ROTATED] = "rotated.csv",       [QK__METRICS] = "head_metrics.csv",
    [QK__STAGES] = "stages.csv",         [QK__ATTENDED] = "attention.csv",
    [QK__ABLATED] = "ablation_heads.csv"};

static bool find_place(const qk__column *column, qk__head_column *placed)
{
    const char *name = column->info.name;
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (strcmp(PLACES[i].name, name) == 0) {
            placed->kind = PLACES[i].kind;
            placed->offset = PLACES[i].offset;
            return true;
        }
    for (size_t e = 0; e < sizeof ENDS / sizeof *ENDS; e++)
        for (size_t i = 0; i < qk__num_fields; i++) {
            const qk__field *field = &qk__fields[i];
            size_t length = strlen(field->info.name);
            if (strncmp(field->info.name, name, length) == 0 &&
                strcmp(name + length, ENDS[e].ending) == 0 &&
                strcmp(field->file, column->file) == 0) {
                placed->kind = QK__HEAD_REAL;
                placed->offset = ENDS[e].offset + field->number;
                return true;
            }
        }
    return false;
}

bool qk__place_head_column(const qk__column *column, qk__head_column *placed)
{
    *placed = (qk__head_column){.info = column->info};
    if (!find_place(column, placed))
        return false;
    if (placed->kind == QK__HEAD_REAL || placed->kind == QK__HEAD_ROWS)
        placed->info.type = QK_COLUMN_REAL;
    return true;
}
