/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a list of query heads into a list of key heads, which are what a cache of keys and values holds: a key head
 * has the least, the mean and the largest number of its query heads. */
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "tables/store.h"

/* A text joins the different texts of its query heads, with slashes. */
static qk_status add_column(qk__buffer *sql, const qk__listed *c, qk_error *err)
{
    if (c->text)
        return qk__buffer_printf(
            sql, err, ", replace(group_concat(DISTINCT \"%s\"), ',', ' / ') AS \"%s\"", c->name,
            c->name);
    return qk__buffer_printf(
        sql, err,
        ", min(\"%s\") AS \"%s_min\", avg(\"%s\") AS \"%s_mean\", max(\"%s\") AS \"%s_max\"",
        c->name, c->name, c->name, c->name, c->name, c->name);
}

qk_status qk__list_key_heads(qk__buffer *sql, const qk__listed *columns, size_t count,
                             const char *query_heads, bool down, qk_error *err)
{
    bool models = false;
    for (size_t i = 0; i < count; i++)
        models = models || strcmp(columns[i].name, "model") == 0;
    QK_TRY(qk__buffer_printf(
        sql, err,
        "SELECT %slayer, k_head, count(*) AS q_heads, (SELECT count(*) FROM head_numbers n "
        "WHERE "
        "n.model = k.model AND n.layer = k.layer AND n.k_head = k.k_head) AS group_size",
        models ? "model, " : ""));
    for (size_t i = 0; i < count; i++)
        if (!columns[i].id && strcmp(columns[i].name, "model") != 0)
            QK_TRY(add_column(sql, &columns[i], err));
    return qk__buffer_printf(
        sql, err,
        " FROM (%s) k GROUP BY model, layer, k_head ORDER BY %s(place) IS NULL, %s(place)%s, "
        "min(head_id)",
        query_heads, down ? "max" : "min", down ? "max" : "min", down ? " DESC" : "");
}
