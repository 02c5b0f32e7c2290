/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of results as TransformerLens and others take them: [[layer, head], ...]. */
#include <string.h>

#include <qkscope/results.h>

#include "base/error.h"
#include "base/json_build.h"
#include "export/export.h"

static qk_status write_list(qk__export *x, const qk_columns *columns, qk_error *err)
{
    const size_t rows = qk_columns_num_rows(columns);
    const char *const *models = qk_columns_texts(columns, "model");
    const int64_t *layers = qk_columns_integers(columns, "layer");
    const int64_t *heads = qk_columns_integers(columns, "q_head");
    json_t *list = json_array();
    for (size_t i = 0; i < rows; i++) {
        if (strcmp(models[i], models[0]) != 0) {
            json_decref(list);
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "where: these heads are of more than one model, and a list is of "
                            "one: add \"model == '%s'\"",
                            models[0]);
        }
        list = qk__json_append(
            list, json_pack("[I, I]", (json_int_t)layers[i], (json_int_t)heads[i]));
    }
    x->outcome->heads = rows;
    return qk__export_json(x, QK__EXPORT_HEADS, list, err);
}

qk_status qk__export_head_list(qk__export *x, qk_error *err)
{
    const qk_export_settings *s = x->settings;
    const qk_head_query query = {.results = s->source,
                                 .columns = "model,layer,q_head",
                                 .where = s->where,
                                 .sort = s->sort,
                                 .top = s->top};
    qk_columns *columns;
    qk_head_totals of;
    QK_TRY(qk_head_list(&query, &columns, &of, err));
    qk_status status =
        qk_columns_num_rows(columns) > 0
            ? write_list(x, columns, err)
            : qk__fail(err, QK_ERR_DEGENERATE, "there is no such head among %zu", of.heads);
    qk_columns_free(&columns);
    return status;
}
