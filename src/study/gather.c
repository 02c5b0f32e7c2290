/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of one head, block by block, into moments or counts. */
#include <string.h>

#include "base/error.h"
#include "study/run.h"

/* Where a row number in a message is to be looked up. */
static qk_status name_file(qk_status status, const qk_head *head, qk_error *err)
{
    if (head->num_files == 1)
        return qk__context(err, status, "%s: column 'vector'", head->files[0]);
    return qk__context(err, status,
                       "%s and %zu more files, rows counted through: column 'vector'",
                       head->files[0], head->num_files - 1);
}

/* Where the head's files stand among the run's inputs. */
static qk_input *inputs_of(const qk_run *run, const qk_head *head)
{
    return &run->inputs[run->first_input[head->index]];
}

static qk_status add_rows(qk_run *run, qk_rows *rows, const qk_head *head, qk_accumulator *acc,
                          bool *constant, qk_error *err)
{
    qk_block block;
    int64_t first_position = 0;
    *constant = true;
    for (;;) {
        QK_TRY(qk_rows_next(rows, run->settings->block_rows, &block, err));
        if (block.rows == 0)
            return QK_OK;
        if (block.first_row == 0)
            first_position = block.position[0];
        for (size_t i = 0; i < block.rows && *constant; i++)
            *constant = block.position[i] == first_position;
        qk_status status =
            block.f32 ? qk_accumulator_add_f32(acc, block.f32, block.position, block.rows, err)
                      : qk_accumulator_add_f64(acc, block.f64, block.position, block.rows, err);
        if (status != QK_OK)
            return name_file(status, head, err);
    }
}

qk_status qk__gather_moments(qk_run *run, int worker, const qk_head *head, qk_moments **moments,
                             int64_t *bytes, qk_error *err)
{
    *moments = NULL;
    qk_input *inputs = inputs_of(run, head);
    for (size_t i = 0; i < head->num_files; i++)
        inputs[i].path = head->files[i];
    QK_TRY(qk_rows_reopen(&run->readers[worker], head,
                          QK_COLUMN_VECTOR | QK_COLUMN_POSITION | QK_FINGERPRINT,
                          run->settings->max_samples, err));
    qk_rows *rows = run->readers[worker];
    for (size_t i = 0; i < head->num_files; i++) {
        inputs[i].print = *qk_rows_file_print(rows, i);
        *bytes += inputs[i].print.bytes;
    }
    qk_accumulator *acc = NULL;
    bool constant = false;
    if (qk_rows_dim(rows) == 0)
        return qk__fail(err, QK_ERR_DEGENERATE, "%s: no rows", head->files[0]);
    qk_status status = qk_accumulator_create(&acc, qk_rows_dim(rows), err);
    if (status == QK_OK)
        status = add_rows(run, rows, head, acc, &constant, err);
    if (status == QK_OK) {
        status = qk_accumulator_finish(&acc, moments, err);
        if (status != QK_OK)
            name_file(status, head, err);
    }
    if (status == QK_OK && constant && (*moments)->count > 1)
        qk__run_notice(run, QK_NOTICE_WARNING,
                       "%s: column 'position': all %lld positions are equal; correlations "
                       "are 0 and slopes empty",
                       head->files[0], (long long)(*moments)->count);
    qk_accumulator_free(&acc);
    return status;
}

qk_status qk__gather_lda(qk_run *run, int worker, const qk_head *head, const qk_lda *lda,
                         int64_t *on_q_side, int64_t *count, qk_error *err)
{
    *on_q_side = *count = 0;
    QK_TRY(qk_rows_reopen(&run->readers[worker], head, QK_COLUMN_VECTOR,
                          run->settings->max_samples, err));
    for (;;) {
        qk_block block;
        QK_TRY(qk_rows_next(run->readers[worker], run->settings->block_rows, &block, err));
        if (block.rows == 0)
            return QK_OK;
        *count += (int64_t)block.rows;
        *on_q_side += block.f32 ? qk_lda_count_q_f32(lda, block.f32, block.rows)
                                : qk_lda_count_q_f64(lda, block.f64, block.rows);
    }
}
