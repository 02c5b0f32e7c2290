/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a comparison as files. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "compare/compare.h"
#include "schema/schema.h"

static qk_status write_table(qk__comparing *c, const char *table, const char *file,
                             qk_error *err)
{
    qk_columns *rows;
    char *text = NULL;
    QK_TRY(qk__store_ask(c->tables, &rows, err, "SELECT * FROM \"%w\" ORDER BY rowid", table));
    qk_status status = qk_columns_csv(rows, &text, err);
    if (status == QK_OK)
        status =
            qk__file_set_write(&c->files, c->settings->output, file, text, strlen(text), err);
    free(text);
    qk_columns_free(&rows);
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
    QK_TRY(write_table(c, "compare", "compare.csv", err));
    QK_TRY(write_table(c, "compare_heads", "compare_heads.csv", err));
    QK_TRY(qk__json_write(qk__compare_summary(c), c->settings->output, "compare_summary.json",
                          &file, err));
    QK_TRY(qk__file_set_add(&c->files, "compare_summary.json", file, QK_OK));
    return write_schema(c, err);
}
