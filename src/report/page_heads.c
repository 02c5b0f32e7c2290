/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for numbers of all heads, with their intervals. */
#include "report/page_heads.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "schema/columns.h"

/* The columns of a number, as far as its table may have them. */
static qk_status put_field(const qk__field *field, qk__buffer *sql, qk_error *err)
{
    static const char *const ENDINGS[] = {"", "_lo", "_hi", "_cv"};
    const qk__table *table = qk__find_table(field->file);
    for (size_t e = 0; e < sizeof ENDINGS / sizeof *ENDINGS; e++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", field->info.name, ENDINGS[e]);
        for (size_t c = 0; c < table->num_columns; c++)
            if (strcmp(table->columns[c].info.name, name) == 0)
                QK_TRY(qk__buffer_printf(sql, err, ", \"%s\"", name));
    }
    return QK_OK;
}

static qk_status put_columns(qk__store *tables, qk__buffer *sql, qk_error *err)
{
    QK_TRY(qk__buffer_printf(
        sql, err,
        "SELECT head_id >> 42 AS model_id, head_id, layer, q_head, k_head, category"));
    for (size_t f = 0; f < qk__num_fields; f++)
        if (qk__fields[f].use != QK__LISTED &&
            qk__store_has(tables, "main", qk__fields[f].file))
            QK_TRY(put_field(&qk__fields[f], sql, err));
    QK_TRY(qk__put_sentence(tables, "main", "'{head}'", true, sql, err));
    return qk__buffer_printf(sql, err, " FROM head_numbers ORDER BY head_id");
}

qk_status qk__page_heads_expect(qk__store *tables, qk_error *err)
{
    return qk__store_expect(tables, "SELECT * FROM head_numbers", err);
}

qk_status qk__page_heads_ask(qk__store *tables, qk__page_heads *heads, qk_error *err)
{
    qk__buffer sql = {0};
    qk_status status = put_columns(tables, &sql, err);
    if (status == QK_OK)
        status = qk__store_ask(tables, &heads->rows, err, "%s", (const char *)sql.data);
    qk__buffer_free(&sql);
    QK_TRY(status);
    heads->found = (qk__found){heads->rows, 0, qk_columns_num_rows(heads->rows)};
    heads->model = qk_columns_integers(heads->rows, "model_id");
    heads->id = qk_columns_integers(heads->rows, "head_id");
    heads->layer = qk_columns_integers(heads->rows, "layer");
    heads->q_head = qk_columns_integers(heads->rows, "q_head");
    return QK_OK;
}

void qk__page_heads_free(qk__page_heads *heads)
{
    qk_columns_free(&heads->rows);
    *heads = (qk__page_heads){0};
}

size_t qk__page_column(const qk__page_heads *heads, const char *name, const char *ending)
{
    const size_t length = strlen(name);
    for (size_t c = 0; c < heads->rows->count; c++) {
        const char *own = heads->rows->columns[c]->info.name;
        if (strncmp(own, name, length) == 0 && strcmp(own + length, ending) == 0)
            return c;
    }
    return SIZE_MAX;
}

size_t qk__page_model(const qk__page_heads *heads, int64_t model, size_t *first)
{
    size_t end;
    for (*first = 0; *first < heads->found.count && heads->model[*first] < model;)
        ++*first;
    for (end = *first; end < heads->found.count && heads->model[end] == model;)
        end++;
    return end - *first;
}
