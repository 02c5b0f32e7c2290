/* SPDX-License-Identifier: Apache-2.0 */
/* From the rows of a head to points: which are drawn, where they lie, and in what order. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "capture/capture.h"
#include "scatter/scatter.h"

/* Streams of random numbers, told apart by their last word. */
enum { STREAM_PICK_Q, STREAM_PICK_K, STREAM_MIX };

/* Points of all panels of a head; a capture of billions of rows with --max-points 0 has more. */
static const int64_t MAX_POINTS = (int64_t)1 << 28;

static void start_stream(qk__rng *rng, const qk__look *look, uint64_t stream)
{
    qk_scatter_head head = look->view->head;
    const uint64_t words[] = {(uint64_t)head.layer, (uint64_t)head.head, stream};
    qk__rng_init(rng, (uint64_t)look->settings->input.seed, words, 3);
}

/* Rows per kind and panel that are drawn at most; 0 = all. */
static int64_t max_points(const qk_scatter_settings *settings)
{
    if (settings->max_points >= 0)
        return settings->max_points;
    return settings->basis == QK_BASIS_COMPLEMENT ? 2000 : 8000;
}

void qk__picked_rows_free(qk__picked_rows *picked)
{
    qk__buffer_free(&picked->values);
    qk__buffer_free(&picked->points);
    picked->count = 0;
}

/* ---- which rows ------------------------------------------------------------------------- */

/* One row out of each of `parts` stretches of about equal length: even over the file, but free
 * of the rhythm that a fixed stride would share with its buckets. */
typedef struct thinner {
    qk__rng rng;
    int64_t parts, short_length, long_parts; /* the first long_parts have one row more */
    int64_t part, end, chosen;               /* the stretch we are in, its end, its row */
} thinner;

static void next_part(thinner *t)
{
    int64_t length = t->short_length + (t->part < t->long_parts);
    t->part++;
    t->chosen = t->end + (int64_t)qk__rng_below(&t->rng, (uint64_t)length);
    t->end += length;
}

static void start_thinner(thinner *t, int64_t total, int64_t most)
{
    t->parts = most > 0 && most < total ? most : total;
    t->short_length = t->parts > 0 ? total / t->parts : 0;
    t->long_parts = t->parts > 0 ? total % t->parts : 0;
    t->part = t->end = 0;
    t->chosen = -1;
    if (t->parts > 0)
        next_part(t);
}

/* Asked of rows 0, 1, 2, ... in turn. */
static bool is_picked(thinner *t, int64_t row)
{
    bool picked = row == t->chosen;
    if (row == t->end - 1 && t->part < t->parts)
        next_part(t);
    return picked;
}

/* ---- where they lie --------------------------------------------------------------------- */

/* Not a BLAS call, whose sums depend on the processor: the same rows give the same figure. */
static double project_rows(const qk_block *block, size_t row, const double *axis)
{
    double sum = 0;
    if (block->f32) {
        const float *x = block->f32 + row * block->dim;
        for (size_t i = 0; i < block->dim; i++)
            sum += (double)x[i] * axis[i];
    } else {
        const double *x = block->f64 + row * block->dim;
        for (size_t i = 0; i < block->dim; i++)
            sum += x[i] * axis[i];
    }
    return sum;
}

typedef struct pass {
    const qk__look *look;
    bool is_key;
    thinner thin;
    qk__picked_rows *picked;
    qk__value_set texts; /* those there are, while the wanted one was not seen */
} pass;

/* -1: none, or nobody asks. */
static qk_status find_token(const pass *p, size_t row, int32_t *token, qk_error *err)
{
    const qk_rows *reader = p->look->run->readers[p->look->worker];
    const int64_t *tokens = p->look->tokens ? qk__rows_tokens(reader) : NULL;
    int64_t number = -1;
    if (tokens && tokens[row] >= 0)
        QK_TRY(qk__token_strings_add(&p->look->view->strings,
                                     qk__rows_token_text(reader, tokens[row]), &number, err));
    *token = (int32_t)number;
    return QK_OK;
}

static qk_status add_point(pass *p, const qk_block *block, size_t row, bool in_text,
                           qk_error *err)
{
    const qk__head_view *view = p->look->view;
    qk__point point = {.position = block->position[row],
                       .is_key = p->is_key,
                       .is_background = p->look->settings->example_id >= 0 && !in_text};
    QK_TRY(find_token(p, row, &point.token, err));
    QK_TRY(qk__buffer_append(&p->picked->points, &point, sizeof point, err));
    for (size_t a = 0; a < 2 * view->num_panels; a++) {
        double value = project_rows(block, row, view->axes + a * view->dim);
        value -= a < 2 ? view->origin[a] : 0;
        QK_TRY(qk__buffer_append(&p->picked->values, &value, sizeof value, err));
    }
    p->picked->count++;
    return QK_OK;
}

static qk_status see_block(pass *p, const qk_block *block, qk_error *err)
{
    qk__position_span *span = &p->picked->span;
    int64_t wanted = p->look->settings->example_id;
    if (block->dim != p->look->view->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT, "the file has changed while it was read");
    for (size_t row = 0; row < block->rows; row++) {
        int64_t position = block->position[row];
        bool first = block->first_row == 0 && row == 0;
        span->low = first || position < span->low ? position : span->low;
        span->high = first || position > span->high ? position : span->high;
        bool in_text = wanted >= 0 && block->example[row] == wanted;
        p->picked->in_text += in_text;
        if (is_picked(&p->thin, block->first_row + (int64_t)row) || in_text)
            QK_TRY(add_point(p, block, row, in_text, err));
    }
    if (wanted >= 0 && p->picked->in_text == 0)
        QK_TRY(qk__value_set_add(&p->texts, block->example, block->rows, err));
    return QK_OK;
}

void qk__list_texts(qk__value_set *set, char text[QK__SCATTER_TEXT])
{
    enum { SHOWN = 6 };
    qk_values values;
    qk__value_set_take(set, &values);
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < values.count && i < SHOWN; i++)
        used += (size_t)snprintf(text + used, QK__SCATTER_TEXT - used, "%s%" PRId64,
                                 i > 0 ? ", " : "", values.items[i]);
    if (values.count > SHOWN)
        snprintf(text + used, QK__SCATTER_TEXT - used, ", ... %" PRId64 " (%zu texts)",
                 values.items[values.count - 1], values.count);
    free(values.items);
}

qk_status qk__fail_no_text(const qk_head *head, int64_t text, const char *some_texts,
                           qk_error *err)
{
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: there is no text with example_id %" PRId64 "; there are %s",
                    head->files[0], text, some_texts);
}

static qk_status read_points(pass *p, const qk_head *head, qk_error *err)
{
    qk__run *run = p->look->run;
    unsigned columns = QK_COLUMN_VECTOR | QK_COLUMN_POSITION;
    if (p->look->settings->example_id >= 0)
        columns |= QK_COLUMN_EXAMPLE;
    if (p->look->tokens)
        columns |= QK__TOKEN_STRINGS;
    QK_TRY(qk__run_open_rows(run, p->look->worker, head, columns, run->settings->max_samples,
                             err));
    qk_block block;
    for (;;) {
        QK_TRY(qk_rows_next(run->readers[p->look->worker], run->block_rows, &block, err));
        if (block.rows == 0)
            return QK_OK;
        qk_status status = see_block(p, &block, err);
        if (status != QK_OK)
            return qk__context(err, status, "%s", head->files[0]);
    }
}

qk_status qk__pick_rows(const qk__look *look, const qk_head *head, int64_t total,
                        qk__picked_rows *picked, char some_texts[QK__SCATTER_TEXT],
                        qk_error *err)
{
    *picked = (qk__picked_rows){.span = {0, -1}};
    pass p = {.look = look, .is_key = head->id.kind == QK_KEY, .picked = picked};
    start_stream(&p.thin.rng, look, p.is_key ? STREAM_PICK_K : STREAM_PICK_Q);
    start_thinner(&p.thin, total, max_points(look->settings));
    if (p.thin.parts > MAX_POINTS / (int64_t)look->view->num_panels)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: %" PRId64 " rows are too many points: give --max-points",
                        head->files[0], p.thin.parts);
    qk_status status = read_points(&p, head, err);
    if (status == QK_OK && some_texts && picked->in_text == 0)
        qk__list_texts(&p.texts, some_texts);
    qk__value_set_free(&p.texts);
    if (status != QK_OK)
        qk__picked_rows_free(picked);
    return status;
}

/* ---- in what order ---------------------------------------------------------------------- */

/* Point i of the rows of both kinds, one after the other, on the axes of one panel. */
static qk__point point_at(const qk__picked_rows *q, const qk__picked_rows *k, size_t i,
                          size_t panel, size_t num_axes)
{
    const qk__picked_rows *from = i < q->count ? q : k;
    size_t row = i < q->count ? i : i - q->count;
    qk__point point = ((const qk__point *)(const void *)from->points.data)[row];
    const double *values = (const double *)(const void *)from->values.data + row * num_axes;
    point.x = values[2 * panel];
    point.y = values[2 * panel + 1];
    return point;
}

qk_status qk__mix_points(const qk__look *look, const qk__picked_rows *q,
                         const qk__picked_rows *k, qk_error *err)
{
    qk__head_view *view = look->view;
    size_t count = q->count + k->count;
    size_t *order = qk__calloc(count, sizeof *order);
    view->points =
        view->num_panels > 0 && count <= SIZE_MAX / sizeof(qk__point) / view->num_panels
            ? qk__calloc(count * view->num_panels, sizeof *view->points)
            : NULL;
    if (!order || !view->points) {
        free(order);
        return qk__nomem(err);
    }
    qk__rng rng;
    start_stream(&rng, look, STREAM_MIX);
    for (size_t i = 0; i < count; i++) {
        size_t j = (size_t)qk__rng_below(&rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (size_t panel = 0; panel < view->num_panels; panel++)
        for (size_t i = 0; i < count; i++)
            view->points[panel * count + i] =
                point_at(q, k, order[i], panel, 2 * view->num_panels);
    view->num_points = count;
    free(order);
    return QK_OK;
}
