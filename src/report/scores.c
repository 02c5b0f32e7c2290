/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the scores of an external benchmark before anything is drawn, and pairs them with a number of the models. */
#include "report/scores.h"

#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "figure/catalog.h"

enum { LIST = 800 };

/* Columns of scores; whether the metric is a column; the score that is taken; models without a score, and scores
 * without a model. */
static const char ASKED[] =
    "WITH names AS (SELECT score, min(rowid) AS place FROM scores GROUP BY score),"
    " taken AS (SELECT score FROM names WHERE score = coalesce(%Q, score)"
    "  AND (%Q IS NOT NULL OR score <> %Q) ORDER BY place LIMIT 1)"
    " SELECT coalesce((SELECT group_concat(score, ', ') FROM"
    "  (SELECT score FROM names ORDER BY place)), '') || '' AS there,"
    " %Q IN (SELECT score FROM names) AS in_file,"
    " coalesce((SELECT score FROM taken), '') || '' AS score,"
    " coalesce((SELECT group_concat(model, ', ') FROM (SELECT model FROM models m WHERE NOT EXISTS"
    "  (SELECT 1 FROM scores s WHERE s.score = (SELECT score FROM taken) AND s.value IS NOT NULL"
    "   AND s.model IN (m.model, m.label)) ORDER BY model_id)), '') || '' AS without,"
    " coalesce((SELECT group_concat(model, ', ') FROM (SELECT model FROM scores WHERE scored IS NULL"
    "  GROUP BY model ORDER BY min(rowid))), '') || '' AS strange";

static void tell(const qk_columns *rows, const qk_context *context)
{
    const char *without = qk_columns_texts(rows, "without")[0],
               *strange = qk_columns_texts(rows, "strange")[0];
    if (*without)
        qk__tell_notice(context, QK_NOTICE_WARNING, "models without a score in column %s: %.*s",
                        qk_columns_texts(rows, "score")[0], LIST, without);
    if (*strange)
        qk__tell_notice(context, QK_NOTICE_WARNING, "scores of models that are not here: %.*s",
                        LIST, strange);
}

static qk_status check(const qk_columns *rows, const qk__score_choice *choice,
                       const qk_context *context, qk_error *err)
{
    const char *there = qk_columns_texts(rows, "there")[0];
    const qk__field *field = qk__find_field(choice->metric);
    const bool in_file = qk_columns_integers(rows, "in_file")[0];
    const bool known = in_file || (field && field->use != QK__LISTED);
    if (!*there && !choice->column)
        return QK_OK;
    if (!known)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "score-metric: there is no column of scores, nor number of a head, "
                        "'%s'; there are: %.*s",
                        choice->metric, LIST, there);
    if (!*qk_columns_texts(rows, "score")[0])
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "score-column: there is no column of scores '%s'; there are: %.*s",
                        choice->column ? choice->column : "", LIST, there);
    if (!in_file)
        tell(rows, context);
    return QK_OK;
}

qk_status qk__check_scores(qk__store *tables, const qk__score_choice *choice,
                           const qk_context *context, qk_error *err)
{
    qk_columns *rows;
    QK_TRY(qk__store_ask(tables, &rows, err, ASKED, choice->column, choice->column,
                         choice->metric, choice->metric));
    qk_status status = check(rows, choice, context, err);
    qk_columns_free(&rows);
    return status;
}

qk_status qk__read_scores(qk__store *tables, const qk__score_choice *scores,
                          qk_columns **scored, qk_error *err)
{
    const qk__subject subject = {.score_metric = scores->metric,
                                 .score_column = scores->column};
    qk__buffer sql = {0};
    qk_status status = qk__ask_scored(&subject, &sql, err);
    if (status == QK_OK)
        status = qk__store_ask(tables, scored, err, "%s", (const char *)sql.data);
    qk__buffer_free(&sql);
    return status;
}
