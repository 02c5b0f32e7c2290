/* SPDX-License-Identifier: Apache-2.0 */
/* The tables with numbers of heads (qk__head_table). */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/builder.h"

/* A value and its interval for each number. */
enum { MAX_NUMBERS = 4 * (sizeof(qk__head_numbers) / sizeof(double)), MAX_INDEX = 1 << 30 };

/* A table being read: where its numbers are and where they go. */
typedef struct head_table {
    qk__builder *builder;
    qk__csv_reader *csv;
    qk__head_table which;
    qk__id_columns ids;
    size_t num_numbers;
    size_t columns[MAX_NUMBERS], offsets[MAX_NUMBERS]; /* into the built head */
    size_t pc, explained_variance, r_q, r_k;           /* of qk.csv */
    size_t category;                                   /* of heads.csv */
    size_t n_q, n_k;                                   /* of any */
} head_table;

static const char *const FILES[QK__NUM_HEAD_TABLES] = {
    [QK__HEADS] = "heads.csv",           [QK__QK] = "qk.csv",
    [QK__ROTATED] = "rotated.csv",       [QK__METRICS] = "head_metrics.csv",
    [QK__STAGES] = "stages.csv",         [QK__ATTENDED] = "attention.csv",
    [QK__ABLATED] = "ablation_heads.csv"};

/* What is added to the name of a number for its interval, and where in a qk__result_head its values are. */
static const struct {
    const char *ending;
    size_t offset;
} ENDS[] = {{"", offsetof(qk__result_head, v)},
            {"_lo", offsetof(qk__result_head, lo)},
            {"_hi", offsetof(qk__result_head, hi)},
            {"_cv", offsetof(qk__result_head, cv)}};

static bool find_offset(const qk__column *column, size_t *offset)
{
    for (size_t e = 0; e < sizeof ENDS / sizeof *ENDS; e++)
        for (size_t i = 0; i < qk__num_fields; i++) {
            const qk__field *field = &qk__fields[i];
            size_t length = strlen(field->info.name);
            if (strncmp(field->info.name, column->info.name, length) == 0 &&
                strcmp(column->info.name + length, ENDS[e].ending) == 0 &&
                strcmp(field->file, column->file) == 0) {
                *offset = ENDS[e].offset + field->number;
                return true;
            }
        }
    return false;
}

/* Of a number, where it goes. */
static qk_status find_number(head_table *t, const qk__column *column, qk_error *err)
{
    size_t found, offset;
    if (!find_offset(column, &offset))
        return QK_OK;
    QK_TRY(qk__reader_find(t->csv, column->info.name, false, &found, err));
    if (found == QK__NO_COLUMN)
        return QK_OK;
    t->columns[t->num_numbers] = found;
    t->offsets[t->num_numbers++] = offset;
    return QK_OK;
}

static qk_status find_columns(head_table *t, qk_error *err)
{
    const qk__csv_reader *csv = t->csv;
    const qk__table *table = qk__find_table(FILES[t->which]);
    QK_TRY(qk__find_ids(csv, &t->ids, err));
    for (size_t i = 0; i < table->num_columns && t->num_numbers < MAX_NUMBERS; i++)
        QK_TRY(find_number(t, &table->columns[i], err));
    QK_TRY(qk__reader_find(csv, "pc", t->which == QK__QK, &t->pc, err));
    QK_TRY(qk__reader_find(csv, "explained_variance", false, &t->explained_variance, err));
    QK_TRY(qk__reader_find(csv, "r_q", false, &t->r_q, err));
    QK_TRY(qk__reader_find(csv, "r_k", false, &t->r_k, err));
    QK_TRY(qk__reader_find(csv, "category", false, &t->category, err));
    QK_TRY(qk__reader_find(csv, "n_q", false, &t->n_q, err));
    return qk__reader_find(csv, "n_k", false, &t->n_k, err);
}

qk_status qk__read_category(const qk__csv_reader *csv, size_t column, int *category,
                            qk_error *err)
{
    const char *text = qk__reader_text(csv, column);
    *category = -1;
    for (int i = 0; i < QK_NUM_CATEGORIES && *text != 0; i++)
        if (strcmp(text, qk_category_name((qk_category)i)) == 0)
            *category = i;
    if (*text != 0 && *category < 0)
        return qk__reader_fail(csv, column, QK_ERR_MALFORMED, "is no category", err);
    return QK_OK;
}

/* Keeps the row for the head's components; *pc says which it is. */
static qk_status add_component(const head_table *t, size_t head, int64_t *pc, qk_error *err)
{
    qk__series_row row = {.head = head, .row = qk__reader_row(t->csv)};
    QK_TRY(qk__reader_integer(t->csv, t->pc, 0, MAX_INDEX, &row.index, err));
    QK_TRY(qk__reader_number(t->csv, t->explained_variance, &row.values[0], err));
    QK_TRY(qk__reader_number(t->csv, t->r_q, &row.values[1], err));
    QK_TRY(qk__reader_number(t->csv, t->r_k, &row.values[2], err));
    *pc = row.index;
    return qk__series_add(&t->builder->components, row, err);
}

static qk_status read_rows(const head_table *t, size_t column, double *rows, qk_error *err)
{
    double value;
    QK_TRY(qk__reader_number(t->csv, column, &value, err));
    if (isfinite(value))
        *rows = value;
    return QK_OK;
}

static qk_status read_row(const head_table *t, qk_error *err)
{
    size_t index;
    int64_t pc = 0;
    QK_TRY(qk__builder_head(t->builder, t->csv, &t->ids, &index, err));
    qk__built_head *head = &t->builder->heads[index];
    if (t->which == QK__QK)
        QK_TRY(add_component(t, index, &pc, err));
    size_t row = qk__reader_row(t->csv);
    if (pc == 0 && head->row[t->which] != 0) {
        char text[QK__HEAD_TEXT_SIZE];
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: rows %zu and %zu are of the same head: %s",
                        qk__reader_path(t->csv), head->row[t->which], row,
                        qk__head_text(t->builder, index, text));
    }
    if (pc == 0)
        head->row[t->which] = row;
    for (size_t i = 0; i < t->num_numbers; i++) {
        double value; /* checked where it is not needed, too */
        QK_TRY(qk__reader_number(t->csv, t->columns[i], &value, err));
        if (pc == 0)
            memcpy((char *)&head->head + t->offsets[i], &value, sizeof value);
    }
    QK_TRY(read_rows(t, t->n_q, &head->head.n_q, err));
    QK_TRY(read_rows(t, t->n_k, &head->head.n_k, err));
    if (t->which == QK__HEADS)
        QK_TRY(qk__read_category(t->csv, t->category, &head->head.category, err));
    return QK_OK;
}

static qk_status check_model(const head_table *t, size_t known, qk_error *err)
{
    const qk__text_set *names = &t->builder->names;
    if (t->which != QK__ABLATED || known == 0 || names->count == known)
        return QK_OK;
    return qk__refuse_ablation(t->builder, qk__reader_path(t->csv), names->items[known], err);
}

static qk_status read_table(head_table *t, qk_error *err)
{
    const size_t known = t->builder->names.count;
    bool more = true;
    QK_TRY(find_columns(t, err));
    if (t->which == QK__QK)
        QK_TRY(qk__series_begin(&t->builder->components, qk__reader_path(t->csv), "component",
                                err));
    for (;;) {
        QK_TRY(qk__reader_next(t->csv, &more, err));
        if (!more)
            return QK_OK;
        QK_TRY(read_row(t, err));
        QK_TRY(check_model(t, known, err));
    }
}

qk_status qk__read_head_tables(qk__builder *builder, qk_error *err)
{
    for (int i = 0; i < QK__NUM_HEAD_TABLES; i++) {
        head_table t = {.builder = builder, .which = (qk__head_table)i};
        QK_TRY(qk__open_table(builder, FILES[i], &t.csv, err));
        qk_status status = t.csv ? read_table(&t, err) : QK_OK;
        qk__reader_close(&t.csv);
        QK_TRY(status);
    }
    return QK_OK;
}
