/* SPDX-License-Identifier: Apache-2.0 */
/* What a list of heads says of its folders, and whether named heads are there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "settings/head_set.h"
#include "tables/store.h"
#include "tables/text_lengths.h"

/* Of models, where they are known; or of ablations, known or not. */
static qk_status tell_lengths(qk__store *store, const char *set, bool ablated,
                              char text[QK_LENGTHS_SIZE], qk_error *err)
{
    qk_columns *rows;
    QK_TRY(qk__store_ask(store, &rows, err, "SELECT * FROM \"%w\".%s", set,
                         ablated ? "ablated" : "models"));
    const size_t count = qk_columns_num_rows(rows);
    qk_text_lengths *all = qk__calloc(count + 1, sizeof *all);
    for (size_t i = 0; i < count && all; i++)
        for (size_t k = 0; k < QK__NUM_LENGTHS; k++) {
            const double *values = qk_columns_reals(rows, qk__length_members[k].name);
            *qk__length_of(&all[i], k) = values ? values[i] : NAN;
        }
    if (all && count > 0 && (ablated || isfinite(all[0].most)))
        qk__lengths_of_all(all, count, text);
    free(all);
    qk_columns_free(&rows);
    return all ? QK_OK : qk__nomem(err);
}

qk_status qk__ablation_lengths(qk__store *store, const char *set, const char *others,
                               char text[QK_LENGTHS_SIZE], qk_error *err)
{
    *text = 0;
    QK_TRY(tell_lengths(store, set, true, text, err));
    if (strcmp(text, others) == 0)
        *text = 0;
    return QK_OK;
}

qk_status qk__tell_side(qk__store *store, const char *set, const char *other, bool ablation,
                        qk_head_side *side, qk_error *err)
{
    const qk__table_folder *folder = &qk__store_set_of(store, set)->sources[0];
    qk_columns *rows;
    double alone;
    const char *failed;
    side->failed = qk__manifest_failures(&folder->manifest, &failed);
    snprintf(side->first_failed, sizeof side->first_failed, "%s", failed);
    QK_TRY(tell_lengths(store, set, false, side->lengths, err));
    if (ablation)
        QK_TRY(qk__ablation_lengths(store, set, side->lengths, side->ablation, err));
    if (!other)
        return QK_OK;
    QK_TRY(qk__store_ask(store, &rows, err, "SELECT model FROM \"%w\".head_ids LIMIT 1", set));
    const char *const *names = qk_columns_texts(rows, "model");
    snprintf(side->model, sizeof side->model, "%s", names && names[0] ? names[0] : "");
    qk_columns_free(&rows);
    snprintf(side->capture, sizeof side->capture, "%s",
             qk__json_string(json_array_get(folder->manifest.runs, 0), "capture"));
    QK_TRY(qk__sql_number(store, &alone, err,
                          "SELECT count(*) FROM \"%w\".head_ids WHERE head_id NOT IN (SELECT "
                          "head_id FROM \"%w\".head_ids)",
                          set, other));
    side->alone = (size_t)alone;
    return QK_OK;
}

qk_status qk__note_empty(char names[QK_EMPTY_SIZE], const char *name)
{
    const size_t used = strlen(names);
    snprintf(names + used, QK_EMPTY_SIZE - used, "%s%s", used > 0 ? ", " : "", name);
    return QK_OK;
}

qk_status qk__put_named_heads(const qk_head_set *heads, qk__buffer *sql, qk_error *err)
{
    for (size_t i = 0; i < heads->count; i++) {
        const qk_head_range *r = &heads->items[i];
        QK_TRY(qk__buffer_printf(
            sql, err, "%s(layer BETWEEN %d AND %d AND q_head BETWEEN %d AND %d)%s",
            i == 0 ? " AND (" : " OR ", r->first_layer, r->last_layer, r->first_head,
            r->last_head, i + 1 == heads->count ? ")" : ""));
    }
    return QK_OK;
}

qk_status qk__need_named_heads(qk__store *store, const char *from, const qk_head_set *heads,
                               qk_error *err)
{
    for (size_t i = 0; i < heads->count; i++) {
        const qk_head_range *r = &heads->items[i];
        char text[QK__HEAD_RANGE_SIZE];
        double there;
        QK_TRY(
            qk__sql_number(store, &there, err,
                           "SELECT count(*) FROM %s WHERE layer BETWEEN %d AND %d AND q_head "
                           "BETWEEN %d AND %d",
                           from, r->first_layer, r->last_layer, r->first_head, r->last_head));
        if (there == 0)
            return qk__fail(
                err, QK_ERR_NOT_FOUND,
                "heads %s: these results have none of them; without --heads all are listed",
                qk__head_range_text(r, text));
    }
    return QK_OK;
}
