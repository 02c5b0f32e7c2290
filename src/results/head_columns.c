/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of the tables of heads and their values in a qk__result_head. */
#include "results/head_columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/spelling.h"

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

static bool find_named(const char *name, qk__head_column *column, qk__guess *guess)
{
    for (int t = -1; t < QK__NUM_HEAD_TABLES; t++) {
        /* first, since its words on the name of a model are the plainest */
        const qk__table *table = qk__find_table(t < 0 ? "models.csv" : qk__head_table_files[t]);
        for (size_t i = 0; i < table->num_columns; i++) {
            bool same = strcmp(table->columns[i].info.name, name) == 0;
            if (!same && !guess)
                continue;
            if (qk__place_head_column(&table->columns[i], column)) {
                if (same)
                    return true;
                qk__guess_try(guess, table->columns[i].info.name);
            }
        }
    }
    return false;
}

qk_status qk__find_head_column(const char *name, qk__head_column *column, qk_error *err)
{
    static const char *const PREFIXES[] = {
        [QK__OF_ONE] = "", [QK__OF_A] = "a.", [QK__OF_B] = "b.", [QK__B_LESS_A] = "diff."};
    int side = QK__B_LESS_A;
    while (strncmp(name, PREFIXES[side], strlen(PREFIXES[side])) != 0)
        side--;
    name += strlen(PREFIXES[side]);
    if (strcmp(name, "probability") == 0)
        name = "category_probability";
    if (find_named(name, column, NULL)) {
        snprintf(column->name, sizeof column->name, "%s%s", PREFIXES[side], name);
        column->side = side;
        if (side != QK__OF_ONE && column->kind == QK__HEAD_ID)
            return qk__fail(err, QK_ERR_ARGUMENT, "%s is the same in a and b: write %s",
                            column->name, name);
        if (side == QK__B_LESS_A && qk__is_head_text(column))
            return qk__fail(err, QK_ERR_ARGUMENT, "%s is a text, and has no difference", name);
        return QK_OK;
    }
    qk__guess guess = qk__guess_begin(name, strlen(name));
    if (!find_named(name, column, &guess) && guess.nearest)
        return qk__fail(err, QK_ERR_ARGUMENT, "there is no column '%.100s' (did you mean %s?)",
                        name, guess.nearest);
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "there is no column '%.100s' of heads; there are model, layer, q_head, "
                    "k_head, category, category_probability, r_q, r_k, bias_strength, "
                    "plane_var_fraction, ap_overall and the other numbers of a head in "
                    "heads.csv, qk.csv, rotated.csv, head_metrics.csv, stages.csv, "
                    "attention.csv and ablation_heads.csv "
                    "('qkscope explain' lists them)",
                    name);
}

bool qk__is_head_text(const qk__head_column *column)
{
    return column->kind == QK__HEAD_CATEGORY || column->kind == QK__HEAD_MODEL;
}

/* NULL: that one has no such head. */
static const qk__result_head *head_of(const qk__head_row *row, int side)
{
    if (side == QK__OF_ONE)
        side = row->head[0] ? QK__OF_A : QK__OF_B;
    return row->head[side == QK__OF_B];
}

static double number_of(const qk__head_column *column, const qk__result_head *head)
{
    double value = NAN;
    int id;
    if (!head || qk__is_head_text(column))
        return NAN;
    if (column->kind == QK__HEAD_ID) {
        memcpy(&id, (const char *)head + column->offset, sizeof id);
        return id;
    }
    memcpy(&value, (const char *)head + column->offset, sizeof value);
    return value;
}

double qk__head_number(const qk__head_column *column, const qk__head_row *row)
{
    if (column->side == QK__B_LESS_A)
        return number_of(column, row->head[1]) - number_of(column, row->head[0]);
    return number_of(column, head_of(row, column->side));
}

const char *qk__head_word(const qk__head_column *column, const qk__head_row *row)
{
    const qk__result_head *head = head_of(row, column->side);
    int category = -1;
    const char *text = "";
    if (head && column->kind == QK__HEAD_CATEGORY)
        memcpy(&category, (const char *)head + column->offset, sizeof category);
    if (head && column->kind == QK__HEAD_MODEL)
        memcpy(&text, (const char *)row->model[head == row->head[1]] + column->offset,
               sizeof text);
    return category >= 0 ? qk_category_name((qk_category)category) : text ? text : "";
}
