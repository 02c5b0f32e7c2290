/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a comparison as files. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "compare/compare.h"
#include "schema/schema.h"

/* Items of `size` bytes, but for changes of what neither has. */
static qk_status add_rows(const qk__table *table, const void *items, size_t count, size_t size,
                          qk__buffer *text, qk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const qk__row row = {.from = {[QK__OF_ITEM] = (const char *)items + i * size}};
        QK_TRY(qk__csv_row(table, QK__COMPARISON, &row, text, err));
    }
    return QK_OK;
}

/* By head, as every table: they were taken metric by metric. */
static qk_status add_changes(const qk__comparing *c, const qk__table *table, qk__buffer *text,
                             qk_error *err)
{
    const qk__comparison *from = &c->comparison;
    for (size_t i = 0; i < from->num_paired; i++)
        for (size_t m = 0; m < from->num_metrics; m++) {
            const qk__change *change = &from->changes[from->metrics[m].first + i];
            if (!isnan(change->a) || !isnan(change->b))
                QK_TRY(add_rows(table, change, 1, sizeof *change, text, err));
        }
    return QK_OK;
}

static qk_status write_table(qk__comparing *c, const char *name, qk_error *err)
{
    const qk__comparison *from = &c->comparison;
    const qk__table *table = qk__find_table(name);
    qk__buffer text = {0};
    qk_status status = qk__csv_header(table, QK__COMPARISON, &text, err);
    if (status == QK_OK && table == qk__find_table("compare.csv"))
        status = add_changes(c, table, &text, err);
    else if (status == QK_OK)
        status = add_rows(table, from->heads, from->num_heads, sizeof *from->heads, &text, err);
    if (status == QK_OK)
        status = qk__file_set_write(&c->files, c->settings->output, table->info.name, text.data,
                                    text.size, err);
    qk__buffer_free(&text);
    return status;
}

static qk_status write_schema(qk__comparing *c, qk_error *err)
{
    json_t *tables = json_object();
    qk__outfile *file;
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__has_table(&qk__tables[i], QK__COMPARISON) && qk__tables[i].columns)
            tables = qk__json_set(tables, qk__tables[i].info.name,
                                  qk__describe_columns(&qk__tables[i], QK__COMPARISON));
    QK_TRY(qk__json_write(tables, c->settings->output, "schema.json", &file, err));
    return qk__file_set_add(&c->files, "schema.json", file, QK_OK);
}

qk_status qk__compare_write_tables(qk__comparing *c, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(write_table(c, "compare.csv", err));
    QK_TRY(write_table(c, "compare_heads.csv", err));
    QK_TRY(qk__json_write(qk__compare_summary(c), c->settings->output, "compare_summary.json",
                          &file, err));
    QK_TRY(qk__file_set_add(&c->files, "compare_summary.json", file, QK_OK));
    return write_schema(c, err);
}
