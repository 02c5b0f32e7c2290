/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one head into moments and, where they are needed again, rows. */
#include "analysis/head_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/attention_source.h"
#include "analysis/head_lengths.h"
#include "analysis/run_states.h"
#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "schema/schema.h"
#include "stats/first_tokens.h"
#include "stats/key_index.h"
#include "stats/moments.h"

/* Names the file in which a message's row number counts. */
static qk_status name_file(const qk__run *run, qk_status status, const qk_head *head,
                           qk_error *err)
{
    char more[64] = "", counted[64] = "";
    if (head->num_files > 1)
        snprintf(more, sizeof more, " and %zu more files, rows counted through",
                 head->num_files - 1);
    if (run->settings->from_position > 0)
        snprintf(counted, sizeof counted, ", counting rows from position %lld on",
                 (long long)run->settings->from_position);
    return qk__context(err, status, "%s%s%s: column 'vector'", head->files[0], more, counted);
}

/* Pairs of keys, shapes of queries, stages, attention and intervals use rows repeatedly. */
static bool keeps_rows(const qk__run *run)
{
    return qk__run_does(run, QK_ANALYSE_PLASTICITY) || qk__run_does(run, QK__ANALYSE_STAGES) ||
           qk__needs_rows_for_attention(run) || run->attention_of_rows || run->settings->ci > 0;
}

/* ---- keeping rows ----------------------------------------------------------------------- */

/* Rows being collected. Room grows with the rows that arrive: the number that a footer promises is not trusted with
 * memory. */
typedef struct keeper {
    qk__head_data *data;
    size_t total, capacity; /* rows promised, rows there is room for */
    size_t row_bytes;
    const qk_rows *reader;
    size_t integers; /* of a row */
} keeper;

enum { FIRST_ROWS = 1 << 16, NUM_INTEGERS = 5 };

static bool wants_tokens(const qk__run *run, const qk_head *head)
{
    return run->lists_tokens && head->id.kind == QK_KEY;
}

static keeper start_keeping(const qk__run *run, const qk_rows *reader, qk__head_data *data)
{
    return (keeper){.data = data,
                    .total = (size_t)qk_rows_total(reader),
                    .reader = reader,
                    .integers = NUM_INTEGERS - !wants_tokens(run, data->head)};
}

/* Points the sample, which its users only read, to the arrays. */
static void publish(keeper *k, const qk_block *block)
{
    const int64_t *integers = k->data->integers;
    k->data->rows = (qk_block){.rows = k->data->rows.rows,
                               .dim = block->dim,
                               .f32 = block->f32 ? k->data->vectors : NULL,
                               .f64 = block->f32 ? NULL : k->data->vectors,
                               .position = integers,
                               .bucket = integers + k->capacity,
                               .example = integers + 2 * k->capacity,
                               .window = integers + 3 * k->capacity};
    if (k->integers == NUM_INTEGERS)
        k->data->tokens = integers + 4 * k->capacity;
}

static qk_status grow(keeper *k, const qk_block *block, qk_error *err)
{
    size_t needed = k->data->rows.rows + block->rows;
    if (k->data->vectors && needed <= k->capacity)
        return QK_OK;
    size_t capacity = 2 * k->capacity > FIRST_ROWS ? 2 * k->capacity : FIRST_ROWS;
    capacity = capacity > k->total ? k->total : capacity;
    capacity = capacity < needed ? needed : capacity;
    k->row_bytes = block->dim * (block->f32 ? sizeof(float) : sizeof(double));
    void *vectors = qk__alloc_aligned(capacity, k->row_bytes);
    int64_t *integers = qk__calloc(capacity, k->integers * sizeof *integers);
    if (!vectors || !integers) {
        free(vectors);
        free(integers);
        return qk__nomem(err);
    }
    if (k->capacity > 0) {
        memcpy(vectors, k->data->vectors, k->data->rows.rows * k->row_bytes);
        for (size_t i = 0; i < k->integers; i++)
            memcpy(integers + i * capacity, k->data->integers + i * k->capacity,
                   k->data->rows.rows * sizeof *integers);
    }
    free(k->data->vectors);
    free(k->data->integers);
    k->data->vectors = vectors;
    k->data->integers = integers;
    k->capacity = capacity;
    publish(k, block);
    return QK_OK;
}

static qk_status keep(keeper *k, const qk__buckets *buckets, const qk_block *block,
                      qk_error *err)
{
    QK_TRY(grow(k, block, err));
    const int64_t *const from[NUM_INTEGERS] = {block->position, block->bucket, block->example,
                                               block->window, qk__rows_tokens(k->reader)};
    size_t at = k->data->rows.rows;
    const void *vectors = block->f32 ? (const void *)block->f32 : (const void *)block->f64;
    memcpy((char *)k->data->vectors + at * k->row_bytes, vectors, block->rows * k->row_bytes);
    for (size_t i = 0; i < k->integers; i++)
        if (from[i]) /* else they are 0 */
            memcpy(k->data->integers + i * k->capacity + at, from[i],
                   block->rows * sizeof(int64_t));
    if (buckets->count > 0)
        qk__buckets_cut(buckets, block->position, block->rows,
                        k->data->integers + k->capacity + at);
    k->data->rows.rows += block->rows;
    return QK_OK;
}

/* ---- reading ---------------------------------------------------------------------------- */

/* How a head's rows are read. */
typedef struct reading {
    size_t block_rows;
    bool keeping;
    /* The probability of a category needs moments by groups of texts. Other analyses sum in the same order, so
     * that each gives the same bytes alone as with all others. */
    bool by_text;
    const qk__text_ids *text_ids;
    qk__buffer texts;        /* int64_t for each row of a block */
    bool constant;           /* all positions are equal */
    qk_accumulator *first;   /* of first tokens; NULL: not asked for, or it failed */
    qk__text_groups counted; /* texts, where the moments do not know them */
    qk__length_sums lengths;
} reading;

static reading plan_reading(const qk__run *run, const qk_rows *reader)
{
    reading how = {.block_rows = run->block_rows,
                   .keeping = keeps_rows(run),
                   .by_text = run->settings->combined,
                   .text_ids = &run->text_ids,
                   .constant = true};
    size_t batch = qk__accumulator_batch(qk_rows_dim(reader));
    if (how.by_text && how.block_rows < batch)
        how.block_rows = batch;
    qk__text_groups_start(&how.counted, QK_TEXT_GROUPS);
    return how;
}

/* last: no more rows come. */
static qk_status accumulate(reading *how, const qk_block *b, bool last, qk_accumulator *acc,
                            qk_error *err)
{
    qk_block rows;
    QK_TRY(qk__text_ids_see(how->text_ids, b, &how->texts, &rows, err));
    if (rows.example && !how->by_text)
        QK_TRY(qk__text_groups_add(&how->counted, rows.example, rows.rows, err));
    if (!how->by_text)
        rows.example = NULL;
    QK_TRY(qk__accumulator_add_block(acc, &rows, last, err));
    QK_TRY(qk__length_sums_add(&how->lengths, b, err));
    return qk__add_positions(&how->first, 0, QK_FIRST_TOKENS, b, err);
}

/* After the last row. */
static qk_status finish_rows(const qk__run *run, qk_rows *reader, qk__head_data *data,
                             qk_error *err)
{
    data->strings = qk__rows_take_strings(reader);
    const qk_analysis_settings *s = run->settings;
    if (data->head->id.kind == QK_KEY && qk__run_does(run, QK_ANALYSE_PLASTICITY) &&
        s->plasticity.convention == QK_CONVENTION_PUBLISHED)
        QK_TRY(qk__key_sign(&data->rows, &data->sign, err));
    return QK_OK;
}

static qk_status fail_no_rows(const qk__run *run, const char *file, qk_error *err)
{
    return qk__fail(err, QK_ERR_DEGENERATE,
                    "%s: no rows from position %lld on: choose a smaller --from-position", file,
                    (long long)run->settings->from_position);
}

static qk_status add_rows(qk__run *run, qk_rows *reader, qk__head_data *data,
                          qk_accumulator *acc, reading *how, qk_error *err)
{
    keeper k = start_keeping(run, reader, data);
    qk_block block;
    int64_t first_position = 0;
    for (;;) {
        QK_TRY(qk_rows_next(reader, how->block_rows, &block, err));
        if (block.rows == 0 && block.first_row == 0)
            return fail_no_rows(run, data->head->files[0], err);
        if (block.rows == 0)
            return finish_rows(run, reader, data, err);
        if (block.first_row == 0)
            first_position = block.position[0];
        for (size_t i = 0; i < block.rows && how->constant; i++)
            how->constant = block.position[i] == first_position;
        if (how->keeping)
            QK_TRY(keep(&k, &run->buckets, &block, err));
        bool last = block.first_row + (int64_t)block.rows == qk_rows_total(reader);
        qk_status status = accumulate(how, &block, last, acc, err);
        if (status != QK_OK)
            return name_file(run, status, data->head, err);
        if (!last && qk__run_stopped(run))
            return qk__fail(err, QK_ERR_CANCELLED, "stopped");
    }
}

/* Gives an accumulator the memory of an earlier head. */
static void reuse_sums(qk__run *run, qk_accumulator *acc)
{
    qk__spare_sums spare = {0};
    pthread_mutex_lock(&run->lock);
    if (run->num_spare > 0)
        spare = run->spare[--run->num_spare];
    pthread_mutex_unlock(&run->lock);
    qk__accumulator_reuse(acc, spare);
}

static void release_texts(qk__run *run, qk__text_moments **texts)
{
    qk__spare_sums spare = qk__text_moments_end(texts);
    pthread_mutex_lock(&run->lock);
    if (spare.memory && run->num_spare < (size_t)run->threads * SPARE_SUMS) {
        run->spare[run->num_spare++] = spare;
        spare.memory = NULL;
    }
    pthread_mutex_unlock(&run->lock);
    free(spare.memory);
}

/* The inputs of a head's files, if the run lists them. */
static qk__input *inputs_of(const qk__run *run, const qk_head *head)
{
    return run->inputs ? &run->inputs[run->first_input[head->index]] : NULL;
}

static void note_files(const qk__run *run, const qk_head *head, const qk_rows *reader,
                       int64_t *bytes)
{
    qk__input *inputs = inputs_of(run, head);
    for (size_t i = 0; i < head->num_files; i++) {
        const qk__file_print *print = qk__rows_file_print(reader, i);
        if (inputs)
            inputs[i].print = *print;
        *bytes += print->bytes;
    }
}

/* Notices name the first such heads; the run counts all. */
static void note_constant(qk__run *run, const qk__head_data *data)
{
    enum { TOLD = 3 };
    pthread_mutex_lock(&run->lock);
    bool told = run->num_constant++ < TOLD;
    pthread_mutex_unlock(&run->lock);
    if (told)
        qk__tell_notice(&run->context, QK_NOTICE_WARNING,
                        "%s: column 'position': all %lld positions are equal; correlations "
                        "are 0 and slopes empty",
                        data->head->files[0], (long long)data->moments->count);
}

/* Opens the head's files for the columns that the run uses. */
static qk_status open_rows(qk__run *run, int worker, const qk_head *head, qk__head_data *data,
                           qk_error *err)
{
    unsigned columns = QK_COLUMN_VECTOR | QK_COLUMN_POSITION;
    if (run->inputs)
        columns |= QK__FINGERPRINT;
    if (!run->settings->allow_repeats)
        columns |= QK_REFUSE_REPEATS;
    if (keeps_rows(run))
        columns |= QK_COLUMN_EXAMPLE | QK_COLUMN_WINDOW;
    else
        columns |= QK_OPTIONAL_EXAMPLE;
    if (qk__run_does(run, QK_ANALYSE_PLASTICITY) && run->buckets.count == 0)
        columns |= QK_COLUMN_BUCKET;
    if (wants_tokens(run, head))
        columns |= QK__TOKEN_STRINGS;
    QK_TRY(qk__run_open_rows(run, worker, head, columns, run->settings->max_samples, err));
    note_files(run, head, run->readers[worker], &data->bytes);
    return qk_rows_dim(run->readers[worker]) > 0
               ? QK_OK
               : qk__fail(err, QK_ERR_DEGENERATE, "%s: no rows", head->files[0]);
}

static qk_status read_all(qk__run *run, int worker, const qk_head *head, qk__head_data *data,
                          qk_error *err)
{
    QK_TRY(open_rows(run, worker, head, data, err));
    qk_rows *reader = run->readers[worker];
    qk_accumulator *acc;
    reading how = plan_reading(run, reader);
    QK_TRY(qk_accumulator_create(&acc, qk_rows_dim(reader), err));
    reuse_sums(run, acc);
    qk_status status = QK_OK;
    if (run->settings->combined && qk__run_does(run, QK_ANALYSE_PCA))
        status = qk_accumulator_create(&how.first, qk_rows_dim(reader), err);
    if (status == QK_OK)
        status = qk__length_sums_begin(run, qk_rows_dim(reader), &how.lengths, err);
    if (status == QK_OK)
        status = add_rows(run, reader, data, acc, &how, err);
    if (status == QK_OK && how.first &&
        qk_accumulator_finish(&how.first, &data->first, err) == QK_ERR_NOMEM)
        status = QK_ERR_NOMEM;
    if (status == QK_OK) {
        status = qk__accumulator_finish_texts(&acc, &data->moments, &data->texts, err);
        data->num_texts =
            how.by_text ? qk__text_moments_count(data->texts) : how.counted.num_texts;
        if (status != QK_OK)
            name_file(run, status, head, err);
    }
    if (status == QK_OK)
        status = qk__length_sums_end(&how.lengths, data->moments->mean_t, &data->lengths,
                                     data->below, err);
    if (status == QK_OK && run->settings->ci > 0)
        status = qk__text_ids_parts(&run->text_ids, &data->rows, &data->parts, err);
    qk__buffer_free(&how.texts);
    if (status == QK_OK && how.constant && data->moments->count > 1)
        note_constant(run, data);
    if (!qk__run_does(run, QK_ANALYSE_PCA) || run->text_ids.unknown) /* not asked for */
        release_texts(run, &data->texts);
    qk__text_groups_free(&how.counted);
    qk__length_sums_free(&how.lengths);
    qk_accumulator_free(&how.first);
    qk_accumulator_free(&acc);
    return status;
}

/* Reads only the rows of a reservoir. */
static qk_status read_reservoir(qk__run *run, int worker, const qk_head *head,
                                qk__head_data *data, qk_error *err)
{
    QK_TRY(open_rows(run, worker, head, data, err));
    qk_rows *reader = run->readers[worker];
    keeper k = start_keeping(run, reader, data);
    qk_block block;
    QK_TRY(qk__states_fit(head, qk_rows_total(reader), qk_rows_dim(reader),
                          data->moments->count, data->moments->dim, err));
    do {
        QK_TRY(qk_rows_next(reader, run->block_rows, &block, err));
        if (block.rows > 0)
            QK_TRY(keep(&k, &run->buckets, &block, err));
    } while (block.rows > 0);
    return finish_rows(run, reader, data, err);
}

/* Takes the moments of each group that has rows, by as many bits as intervals use. */
static qk_status take_parts(qk__head_data *data, qk_error *err)
{
    qk__head_state *state = data->state;
    qk__text_parts all = {.mask = state->mask};
    for (size_t g = 0; g < state->num_groups && g < QK_MOST_GROUPS; g++)
        if (state->parts[g]->count > 0) {
            all.label[all.count] = state->labels[g];
            all.part[all.count++] = state->parts[g];
        }
    uint64_t mask = qk__text_groups_mask(all.label, all.count, QK_INTERVAL_GROUPS, all.mask);
    return qk__text_parts_join(&data->parts, &all, mask, err);
}

/* Leaves rows of first positions out, or takes their moments. */
static qk_status take_first(const qk__run *run, qk__head_data *data, qk_error *err)
{
    qk__head_state *state = data->state, *first = state->first;
    const int64_t from = run->settings->from_position;
    if (!first && qk_capture_get_info(run->capture)->first > 0)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: has no moments of first positions, which capture.json lists: fetch "
            "both again, or capture again",
            data->head->moments);
    if (from > 0 && first)
        QK_TRY(qk__head_state_leave_out_first(state, err));
    if (state->moments->count == 0)
        return fail_no_rows(run, data->head->moments, err);
    if (!qk__states_tell_first(run))
        return QK_OK;
    if (from == 0 && first) {
        data->first = first->moments;
        first->moments = NULL;
        return QK_OK;
    }
    data->first = qk__moments_create(state->moments->dim);
    return data->first ? QK_OK : qk__nomem(err);
}

/* Reads a head of a capture that keeps moments in place of all rows. */
static qk_status read_state(qk__run *run, int worker, const qk_head *head, qk__head_data *data,
                            qk_error *err)
{
    QK_TRY(qk__states_read(run, head, &data->state, err));
    qk__head_state *state = data->state;
    QK_TRY(take_first(run, data, err));
    data->moments = state->moments;
    state->moments = NULL;
    data->num_texts = (size_t)state->num_texts;
    data->bytes = (int64_t)(state->num_groups * (data->moments->dim + 5) * data->moments->dim *
                            sizeof(double) / 2);
    if (qk__run_does(run, QK_ANALYSE_PCA) && !run->text_ids.unknown) {
        data->texts = state->texts;
        state->texts = NULL;
    }
    data->lengths = qk__lengths_up_to((double)state->first_position,
                                      (double)state->last_position, data->moments->mean_t);
    if (run->settings->ci > 0 && state->mask != 0 && !run->text_ids.unknown)
        QK_TRY(take_parts(data, err));
    if (data->moments->sum_tt == 0 && data->moments->count > 1)
        note_constant(run, data);
    return qk__states_need_rows(run) ? read_reservoir(run, worker, head, data, err) : QK_OK;
}

qk_status qk__head_data_read(qk__run *run, int worker, const qk_head *head, qk__head_data *data,
                             qk_error *err)
{
    *data = (qk__head_data){.head = head, .sign = 1};
    qk__input *inputs = inputs_of(run, head);
    for (size_t i = 0; inputs && qk__states_need_rows(run) && i < head->num_files; i++)
        inputs[i] = (qk__input){.path = head->files[i], .head = head, .file = i};
    qk_status status = run->states.count > 0 ? read_state(run, worker, head, data, err)
                                             : read_all(run, worker, head, data, err);
    if (status != QK_OK)
        qk__head_data_free(run, data);
    return status;
}

void qk__head_data_free(qk__run *run, qk__head_data *data)
{
    qk_moments_free(&data->moments);
    qk_moments_free(&data->first);
    for (size_t i = 0; i < run->num_lengths; i++)
        qk_moments_free(&data->below[i]);
    release_texts(run, &data->texts);
    qk__text_parts_free(&data->parts);
    qk__head_state_free(&data->state);
    free(data->vectors);
    free(data->integers);
    qk__token_strings_free(&data->strings);
    data->vectors = data->integers = NULL;
    data->tokens = NULL;
    data->rows = (qk_block){0};
}

/* ---- looking again ---------------------------------------------------------------------- */

qk_status qk__head_data_scan(qk__run *run, int worker, const qk__head_data *data,
                             qk__see_rows_fn *see, void *context, qk_error *err)
{
    qk_block block;
    if (data->rows.rows > 0) {
        block = (qk_block){.rows = data->rows.rows,
                           .dim = data->rows.dim,
                           .f32 = data->rows.f32,
                           .f64 = data->rows.f64,
                           .position = data->rows.position};
        return see(context, &block, err);
    }
    QK_TRY(qk__run_open_rows(run, worker, data->head, QK_COLUMN_VECTOR | QK_COLUMN_POSITION,
                             run->settings->max_samples, err));
    for (;;) {
        QK_TRY(qk_rows_next(run->readers[worker], run->block_rows, &block, err));
        if (block.rows == 0)
            return QK_OK;
        QK_TRY(see(context, &block, err));
    }
}
