/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the sample: the expressions of all questions in one statement, so that each table is read once. The same weights
 * twice are one model, that of the first. */
#include "report/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <qkscope/analysis.h>

#include "base/buffer.h"
#include "base/error.h"
#include "report/questions.h"

static qk_status ask_for_numbers(qk__buffer *sql, qk_error *err)
{
    QK_TRY(qk__buffer_printf(sql, err,
                             "SELECT head_id, head_id >> 42 AS model_id, layer, q_head, "
                             "coalesce(k_head, q_head) AS shared, depth"));
    for (size_t i = 0; i < qk__num_questions; i++) {
        const qk__question *q = &qk__questions[i];
        QK_TRY(qk__buffer_printf(sql, err, ", 1.0 * (%s) AS y%zu", q->y, i));
        if (q->x)
            QK_TRY(qk__buffer_printf(sql, err, ", 1.0 * (%s) AS x%zu", q->x, i));
    }
    return qk__buffer_printf(sql, err,
                             " FROM head_numbers WHERE coalesce(n_q >= %d, 1) AND "
                             "coalesce(n_k >= %d, 1) AND head_id >> 42 IN "
                             "(SELECT model_id FROM models WHERE coalesce(same_as, '') = '') "
                             "ORDER BY head_id",
                             QK_FEW_ROWS, QK_FEW_ROWS);
}

static qk_status read_tables(qk__store *tables, qk__sample *sample, qk_error *err)
{
    qk__buffer sql = {0};
    qk_status status = ask_for_numbers(&sql, err);
    if (status == QK_OK)
        status = qk__store_ask(tables, &sample->heads, err, "%s", (const char *)sql.data);
    qk__buffer_free(&sql);
    QK_TRY(status);
    QK_TRY(
        qk__store_ask(tables, &sample->models, err,
                      "SELECT model_id, coalesce(label, '') || '' AS label, coalesce(family, "
                      "'') || '' AS family, coalesce(phase, '') || '' AS phase FROM models "
                      "WHERE model_id IN (SELECT head_id >> 42 FROM head_numbers) "
                      "AND coalesce(same_as, '') = '' ORDER BY model_id"));
    return qk__store_ask(
        tables, &sample->components, err,
        "SELECT head_id, pc, 1.0 * r_q AS r_q FROM qk WHERE pc > 0 ORDER BY pc, head_id");
}

/* Finds where each model begins; heads are in the order of models. */
static qk_status find_models(qk__sample *sample, qk_error *err)
{
    const int64_t *id = qk_columns_integers(sample->models, "model_id");
    const int64_t *of = qk_columns_integers(sample->heads, "model_id");
    sample->begin = qk__calloc(sample->num_models + 1, sizeof *sample->begin);
    if (!sample->begin)
        return qk__nomem(err);
    for (size_t m = 0, i = 0; m < sample->num_models; m++) {
        while (i < sample->count && of[i] <= id[m])
            i++;
        sample->begin[m + 1] = i;
    }
    return QK_OK;
}

qk_status qk__sample_read(qk__store *tables, qk__sample *sample, qk_error *err)
{
    *sample = (qk__sample){0};
    QK_TRY(read_tables(tables, sample, err));
    sample->count = qk_columns_num_rows(sample->heads);
    sample->num_models = qk_columns_num_rows(sample->models);
    sample->id = qk_columns_integers(sample->heads, "head_id");
    sample->layer = qk_columns_integers(sample->heads, "layer");
    sample->q_head = qk_columns_integers(sample->heads, "q_head");
    sample->k_head = qk_columns_integers(sample->heads, "shared");
    sample->depth = qk_columns_reals(sample->heads, "depth");
    sample->labels = qk_columns_texts(sample->models, "label");
    sample->families = qk_columns_texts(sample->models, "family");
    sample->phases = qk_columns_texts(sample->models, "phase");
    sample->checkpoints = sample->num_models > 0;
    for (size_t m = 0; m < sample->num_models; m++)
        sample->checkpoints &= *sample->phases[m] != 0;
    return find_models(sample, err);
}

void qk__sample_free(qk__sample *sample)
{
    qk_columns_free(&sample->heads);
    qk_columns_free(&sample->models);
    qk_columns_free(&sample->components);
    free(sample->begin);
    *sample = (qk__sample){0};
}

const double *qk__sample_column(const qk__sample *sample, char axis, size_t question)
{
    char name[32];
    snprintf(name, sizeof name, "%c%zu", axis, question);
    const double *values = qk_columns_reals(sample->heads, name);
    for (size_t i = 0; values && i < sample->count; i++)
        if (isfinite(values[i]))
            return values;
    return NULL;
}

size_t qk__model_of(const qk__sample *sample, size_t head)
{
    size_t low = 0, high = sample->num_models;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (sample->begin[middle] <= head)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t qk__layer_end(const qk__sample *sample, size_t first)
{
    size_t end = first + 1, last = sample->begin[qk__model_of(sample, first) + 1];
    while (end < last && sample->layer[end] == sample->layer[first])
        end++;
    return end;
}

size_t qk__group_end(const qk__sample *sample, size_t first)
{
    size_t end = first + 1, last = qk__layer_end(sample, first);
    while (end < last && sample->k_head[end] == sample->k_head[first])
        end++;
    return end;
}
