/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a table in memory of a caller's values. */
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "schema/columns.h"

static qk_status own_info(qk_columns *c, qk_column_info *info, qk_error *err)
{
    const char **const texts[] = {&info->name,   &info->unit,   &info->range,
                                  &info->symbol, &info->label,  &info->about,
                                  &info->read,   &info->method, &info->option};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        QK_TRY(qk__columns_own(c, *texts[i], texts[i], err));
    return QK_OK;
}

static qk_status mark_empty(qk_columns *c, size_t k, qk_error *err)
{
    for (size_t i = 0; i < c->num_rows; i++) {
        if (c->values[k][i].integer != QK_NO_INTEGER)
            continue;
        if (!c->empty[k] && !(c->empty[k] = qk__calloc(c->num_rows, sizeof **c->empty)))
            return qk__nomem(err);
        c->empty[k][i] = true;
        c->values[k][i].integer = 0;
    }
    return QK_OK;
}

static qk_status own_values(qk_columns *c, size_t k, const void *from, qk_error *err)
{
    qk_column_type type = c->columns[k]->info.type;
    if (c->num_rows > 0 && type != QK_COLUMN_TEXT)
        memcpy(c->values[k], from, c->num_rows * sizeof **c->values);
    if (type == QK_COLUMN_INTEGER)
        return mark_empty(c, k, err);
    const char *const *texts = from;
    for (size_t i = 0; i < c->num_rows && type == QK_COLUMN_TEXT; i++)
        QK_TRY(qk__columns_own(c, texts[i], &c->values[k][i].text, err));
    return QK_OK;
}

static qk_status check_values(const qk_column_info *info, size_t k, const void *values,
                              size_t rows, qk_error *err)
{
    if (!info->name || !info->about || (unsigned)info->type > QK_COLUMN_REAL)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "column %zu has no name, no type or no sentence about it", k);
    if (rows > 0 && !values)
        return qk__fail(err, QK_ERR_ARGUMENT, "column %s has no values", info->name);
    return QK_OK;
}

static qk_status fill_made(qk_columns *c, const qk_column_info *infos, size_t count,
                           const void *const *values, qk_error *err)
{
    QK_TRY(QK__CREATE_ARRAYS(err, {&c->made, count + 1, sizeof *c->made},
                             {&c->columns, count + 1, sizeof *c->columns},
                             {&c->values, count + 1, sizeof *c->values},
                             {&c->empty, count + 1, sizeof *c->empty}));
    for (size_t k = 0; k < count; k++) {
        QK_TRY(check_values(&infos[k], k, values[k], c->num_rows, err));
        c->made[k] = (qk__column){.info = infos[k], .storage = QK__INT64};
        c->columns[k] = &c->made[k];
        QK_TRY(own_info(c, &c->made[k].info, err));
        c->values[k] = qk__calloc(c->num_rows + 1, sizeof **c->values);
        if (!c->values[k])
            return qk__nomem(err);
        c->count++;
        QK_TRY(own_values(c, k, values[k], err));
    }
    return QK_OK;
}

qk_status qk_columns_make(qk_columns **columns, const qk_column_info *infos, size_t count,
                          size_t rows, const void *const *values, qk_error *err)
{
    QK_NEED(err, columns);
    *columns = NULL;
    QK_NEED(err, infos, values);
    if (rows > SIZE_MAX / 2 / sizeof(qk__value))
        return qk__nomem(err);
    qk_columns *c = qk__calloc(1, sizeof *c);
    if (!c)
        return qk__nomem(err);
    c->num_rows = rows;
    qk_status status = fill_made(c, infos, count, values, err);
    if (status == QK_OK)
        *columns = c;
    else
        qk_columns_free(&c);
    return status;
}
