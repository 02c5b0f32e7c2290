/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run gets attention from: sums that the capture keeps, else rows that are whole texts. And whether keys have the
 * strings of their tokens. */
#include "analysis/attention_source.h"

#include <math.h>

#include "analysis/run_states.h"
#include "base/error.h"
#include "capture/capture.h"
#include "capture/row_columns.h"
#include "stats/attention_rows.h"

/* Positions and texts of a head, in memory. */
static qk_status read_places(const qk__run *run, const qk_head *head, qk_rows **rows,
                             qk_block *block, qk_error *err)
{
    const unsigned columns = QK_COLUMN_POSITION | QK_OPTIONAL_EXAMPLE;
    const unsigned refused = run->settings->allow_repeats ? 0 : QK_REFUSE_REPEATS;
    QK_TRY(qk_rows_open(rows, head, columns | refused, 0, err));
    return qk_rows_next(*rows, (size_t)qk_rows_total(*rows) + 1, block, err);
}

/* The first head that has rows. NULL: there is none. */
static const qk_head *first_head(const qk__run *run, qk_kind kind)
{
    for (size_t i = 0; i < qk_capture_num_heads(run->capture); i++) {
        const qk_head *head = qk_capture_head(run->capture, i);
        if (head->id.kind == kind && !head->missing && !head->failure && head->num_files > 0)
            return head;
    }
    return NULL;
}

/* Whether the first query head and the first key head have whole texts. Other heads are checked when they are read. */
static qk_status find_whole_texts(const qk__run *run, bool *whole, qk_error *err)
{
    const qk_head *first[2] = {first_head(run, QK_QUERY), first_head(run, QK_KEY)};
    qk_rows *rows[2] = {NULL, NULL};
    qk_block blocks[2];
    *whole = false;
    if (!first[0] || !first[1])
        return QK_OK;
    qk_status status = QK_OK;
    for (int side = 0; side < 2 && status == QK_OK; side++)
        status = read_places(run, first[side], &rows[side], &blocks[side], err);
    if (status == QK_OK)
        status = qk__are_whole_texts(&blocks[0], &blocks[1], whole, err);
    qk_rows_close(&rows[0]);
    qk_rows_close(&rows[1]);
    return status;
}

qk_status qk__find_attention(qk__run *run, qk_error *err)
{
    const qk_analysis_settings *s = run->settings;
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    const bool some = s->max_samples > 0 || s->from_position > 0;
    const bool alone = s->analyses == QK_ANALYSE_ATTENTION;
    if (info->has_attention) /* files of the capture, which other runs of the folder may have read */
        QK_TRY(qk__states_open_attention(run, err));
    if (!qk__run_does(run, QK_ANALYSE_ATTENTION) || (!some && info->has_attention))
        return QK_OK;
    /* Computing every score takes far longer than the other analyses: only where it is asked for. */
    if (alone && !some && run->states.count == 0 && info->stage != QK_STAGE_PRE_ROPE)
        QK_TRY(find_whole_texts(run, &run->attention_of_rows, err));
    if (run->attention_of_rows)
        return QK_OK;
    if (alone)
        return some ? qk__fail(err, QK_ERR_ARGUMENT,
                               "attention is of all rows: leave --max-samples and "
                               "--from-position out")
                    : qk__fail(err, QK_ERR_NOT_FOUND,
                               "%s: keeps no sums of attention, and not the rows after RoPE of "
                               "every position of its texts: capture with --keep "
                               "rows,attention",
                               qk_capture_path(run->capture));
    run->adapted = *s;
    run->adapted.analyses &= ~(unsigned)QK_ANALYSE_ATTENTION;
    run->settings = &run->adapted;
    return QK_OK;
}

/* By the first file of keys. A file that cannot be read is its head's failure. */
qk_status qk__find_tokens(qk__run *run, qk_error *err)
{
    const qk_head *keys = first_head(run, QK_KEY);
    qk_rows *reader = NULL;
    const qk_parquet *file;
    qk_error own = {0};
    int column = -1;
    if (!keys || !run->settings->combined || !qk__run_does(run, QK_ANALYSE_PLASTICITY))
        return QK_OK;
    qk_status status = qk__rows_file(&reader, keys, 0, &file, &own);
    if (status == QK_OK)
        status = qk__row_column_find(file, QK__TOKEN, false, &column, &own);
    qk_rows_close(&reader);
    run->lists_tokens = column >= 0;
    return status == QK_ERR_NOMEM ? qk__nomem(err) : QK_OK;
}

double qk__attention_scale(const qk__run *run, size_t dim)
{
    double own = qk_capture_get_info(run->capture)->attention_scale;
    if (run->settings->attention_scale > 0)
        return run->settings->attention_scale;
    return own > 0 ? own : 1 / sqrt((double)dim);
}

/* Predictions need them, too, where sums are kept. */
bool qk__needs_rows_for_attention(const qk__run *run)
{
    return qk__run_does(run, QK_ANALYSE_ATTENTION) && run->states.count == 0;
}
