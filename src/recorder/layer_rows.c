/* SPDX-License-Identifier: Apache-2.0 */
/* Writes rows of a model into the spool. Where in its file a row belongs is known before the
 * first block of a layer is written, so blocks may come from any thread in any order. */
#include "recorder/layer_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"

/* ---- one layer -------------------------------------------------------------------------- */

static void free_part(qk__part_rows *p, size_t num_sequences)
{
    for (size_t i = 0; p->sequences && i < num_sequences; i++)
        free(p->sequences[i].rows);
    for (size_t i = 0; p->files && i < QK__STAGES * p->num_heads; i++)
        if (p->files[i] >= 0)
            close(p->files[i]);
    free(p->sequences);
    free(p->heads);
    free(p->files);
    *p = (qk__part_rows){0};
}

static int compare_kept(const void *a, const void *b)
{
    const qk__kept_row *x = a;
    const qk__kept_row *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

/* Rows are written in the order in which the sampler chose the positions, which with max_rows
 * is not that of the text; here they are looked up by position. */
static qk_status choose_rows(const qk__layer_rows *rows, qk__part_rows *p, qk_kind kind,
                             size_t i, int64_t first, qk_error *err)
{
    int64_t *positions = NULL;
    size_t count = 0;
    QK_TRY(qk_sampler_positions(&rows->r->sampler, rows->ids[i], rows->layer, kind, p->heads[0],
                                rows->sequences[i].count, &positions, &count, err));
    qk__kept_list *list = &p->sequences[i];
    list->rows = qk__calloc(count, sizeof *list->rows);
    if (count > 0 && !list->rows) {
        free(positions);
        return qk__nomem(err);
    }
    bool sorted = true;
    for (size_t j = 0; j < count; j++) {
        list->rows[j] = (qk__kept_row){positions[j], first + (int64_t)j};
        sorted &= j == 0 || positions[j] > positions[j - 1];
    }
    if (!sorted)
        qsort(list->rows, count, sizeof *list->rows, compare_kept);
    list->count = count;
    free(positions);
    return QK_OK;
}

static qk_status open_files(const qk__layer_rows *rows, qk__part_rows *p, qk_kind kind,
                            qk_error *err)
{
    for (int stage = 0; stage < QK__STAGES; stage++)
        for (size_t h = 0; rows->r->stages[stage] && h < p->num_heads; h++) {
            qk_head_id id = {rows->layer, p->heads[h], kind};
            QK_TRY(
                qk__spool_open(rows->r, stage, id, &p->files[stage * p->num_heads + h], err));
        }
    return QK_OK;
}

static qk_status begin_part(const qk__layer_rows *rows, qk__part_rows *p, qk_kind kind,
                            qk_error *err)
{
    int limit = qk__num_heads(rows->r, kind);
    p->sequences = qk__calloc(rows->count, sizeof *p->sequences);
    p->heads = qk__calloc((size_t)limit, sizeof *p->heads);
    p->files = qk__calloc(QK__STAGES * (size_t)limit, sizeof *p->files);
    if (!p->sequences || !p->heads || !p->files)
        return qk__nomem(err);
    for (int h = 0; h < limit; h++)
        if (qk__is_kept(rows->r, (qk_head_id){rows->layer, h, kind}))
            p->heads[p->num_heads++] = h;
    for (size_t i = 0; i < QK__STAGES * p->num_heads; i++)
        p->files[i] = -1;
    if (p->num_heads == 0)
        return QK_OK;
    int64_t first = rows->r->journal.rows[qk__part(rows->layer, kind)];
    for (size_t i = 0; i < rows->count; i++) {
        QK_TRY(choose_rows(rows, p, kind, i, first + p->rows, err));
        p->rows += (int64_t)p->sequences[i].count;
    }
    return p->rows > 0 ? open_files(rows, p, kind, err) : QK_OK;
}

/* Every row that was chosen must have come. */
static qk_status end_layer(qk__layer_rows *rows, qk_error *err)
{
    qk_status status = QK_OK;
    for (int kind = QK_QUERY; rows->layer >= 0 && kind <= QK_KEY; kind++) {
        qk__part_rows *p = &rows->parts[kind];
        int64_t expected = p->rows * (int64_t)p->num_heads;
        for (int stage = 0; stage < QK__STAGES; stage++)
            if (rows->r->stages[stage] && p->written[stage] != expected)
                status = qk__fail(
                    err, QK_ERR_INCONSISTENT, "layer %d: %lld of %lld rows came from the model",
                    rows->layer, (long long)p->written[stage], (long long)expected);
        rows->rows[qk__part(rows->layer, (qk_kind)kind)] += p->rows;
        free_part(p, rows->count);
    }
    rows->layer = -1;
    return status;
}

/* ---- blocks from the model -------------------------------------------------------------- */

static qk_status turn_to_layer(qk__layer_rows *rows, int layer, qk_error *err)
{
    if (rows->layer == layer)
        return QK_OK;
    QK_TRY(end_layer(rows, err));
    rows->layer = layer;
    QK_TRY(begin_part(rows, &rows->parts[QK_QUERY], QK_QUERY, err));
    return begin_part(rows, &rows->parts[QK_KEY], QK_KEY, err);
}

/* The part of a list that lies in a block. */
static qk__kept_list rows_of_block(const qk__kept_list *list, const qk_prefill_block *block)
{
    size_t begin = 0;
    if (list->count == 0)
        return *list;
    for (size_t step = list->count; step > 0; step /= 2)
        while (begin + step <= list->count &&
               list->rows[begin + step - 1].position < block->first_token)
            begin += step;
    size_t end = begin;
    while (end < list->count &&
           list->rows[end].position < block->first_token + block->num_tokens)
        end++;
    return (qk__kept_list){list->rows + begin, end - begin};
}

static bool is_finite(const float *values, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite &= isfinite(values[i]) != 0;
    return finite;
}

/* Nothing can be told from such a row, nor from those after it. */
static qk_status fail_not_finite(const qk__layer_rows *rows, const qk_prefill_block *block,
                                 int head, const qk__kept_row *kept, qk_error *err)
{
    return qk__fail(
        err, QK_ERR_DEGENERATE,
        "layer %d, %s head %d: the vector at position %lld of example %lld is not "
        "finite: weights of this layer or one before it are damaged (fetch the "
        "model again), or the numbers overflow%s",
        block->layer, block->kind == QK_QUERY ? "query" : "key", head,
        (long long)kept->position, (long long)rows->ids[block->sequence],
        rows->r->settings->arithmetic == QK_ARITHMETIC_F16_SIM ? " (try --dtype f32)" : "");
}

/* Rows of one head; those that follow each other in the file are written at once. */
static qk_status write_head(const qk__layer_rows *rows, const qk_prefill_block *block,
                            const qk__kept_list *kept, size_t head, int fd, uint8_t *scratch,
                            qk_error *err)
{
    const int *heads = rows->parts[block->kind].heads;
    size_t size = qk__spool_row_bytes(rows->r);
    size_t dim = (size_t)block->head_dim;
    size_t run = 0; /* first row of those not written yet */
    for (size_t i = 0; i < kept->count; i++) {
        const qk__kept_row *k = &kept->rows[i];
        qk__spool_row row = {rows->ids[block->sequence], (int32_t)k->position,
                             rows->sequences[block->sequence].tokens[k->position]};
        size_t token = (size_t)(k->position - block->first_token);
        const float *vector = block->rows + (token * block->num_heads + head) * dim;
        uint8_t *out = scratch + (i - run) * size;
        if (!is_finite(vector, dim))
            return fail_not_finite(rows, block, heads[head], k, err);
        memcpy(out, &row, sizeof row);
        memcpy(out + sizeof row, vector, dim * sizeof(float));
        if (i + 1 < kept->count && kept->rows[i + 1].row == k->row + 1)
            continue;
        QK_TRY(qk__spool_write(fd, scratch, (i + 1 - run) * size,
                               kept->rows[run].row * (int64_t)size, err));
        run = i + 1;
    }
    return QK_OK;
}

static qk_status write_block(const qk__layer_rows *rows, const qk__part_rows *p,
                             const qk_prefill_block *block, const qk__kept_list *kept,
                             int stage, qk_error *err)
{
    uint8_t *scratch = qk__calloc(kept->count, qk__spool_row_bytes(rows->r));
    if (!scratch)
        return qk__nomem(err);
    qk_status status = QK_OK;
    for (size_t h = 0; status == QK_OK && h < p->num_heads; h++)
        status = write_head(rows, block, kept, h, p->files[(size_t)stage * p->num_heads + h],
                            scratch, err);
    free(scratch);
    return status;
}

qk_status qk__layer_rows_take(void *user, const qk_prefill_block *block, qk_error *err)
{
    qk__layer_rows *rows = user;
    int stage = block->rotated ? QK__POST : QK__PRE;
    qk__part_rows *p = &rows->parts[block->kind];
    pthread_mutex_lock(&rows->lock);
    qk_status status = turn_to_layer(rows, block->layer, err);
    pthread_mutex_unlock(&rows->lock);
    if (status != QK_OK)
        return status;
    qk__kept_list kept = {0};
    if (p->rows > 0 && rows->r->stages[stage])
        kept = rows_of_block(&p->sequences[block->sequence], block);
    if (kept.count > 0)
        status = write_block(rows, p, block, &kept, stage, err);
    pthread_mutex_lock(&rows->lock);
    p->written[stage] += (int64_t)(kept.count * p->num_heads);
    pthread_mutex_unlock(&rows->lock);
    return status;
}

/* ---- a group of texts ------------------------------------------------------------------- */

qk_status qk__layer_rows_end(qk__layer_rows *rows, qk_error *err)
{
    return end_layer(rows, err);
}

void qk__layer_rows_free(qk__layer_rows *rows)
{
    for (int kind = QK_QUERY; kind <= QK_KEY; kind++)
        free_part(&rows->parts[kind], rows->count);
    pthread_mutex_destroy(&rows->lock);
}

qk_status qk__layer_rows_init(qk__layer_rows *rows, const qk__recording *r,
                              const qk_sequence *sequences, const int64_t *ids, size_t count,
                              int64_t *kept, qk_error *err)
{
    *rows = (qk__layer_rows){
        .r = r, .sequences = sequences, .ids = ids, .count = count, .rows = kept, .layer = -1};
    return pthread_mutex_init(&rows->lock, NULL) == 0 ? QK_OK : qk__nomem(err);
}
