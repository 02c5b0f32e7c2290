/* SPDX-License-Identifier: Apache-2.0 */
/* What a head attends to in one text: some rows of its attention, as strips. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/attention_source.h"
#include "base/buffer.h"
#include "base/error.h"
#include "scatter/scatter.h"
#include "stats/attention_rows.h"
#include "stats/block_rows.h"

/* Queries (0) and keys (1) of one text. */
typedef struct text {
    int64_t id, last; /* position */
    const qk__head_data *of[2];
    double *x[2];    /* [last + 1][dim] by position */
    bool *there[2];  /* [last + 1] */
    double *weights; /* [2][last + 1] */
} text;

qk_status qk__keep_texts(qk__run *run, qk_error *err)
{
    run->attention_of_rows = true;
    if (qk_capture_get_info(run->capture)->stage == QK_STAGE_PRE_ROPE || run->states.count > 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: attention needs every row of a text, after RoPE: capture with "
                        "--sampler all, --keep rows and --stage post",
                        qk_capture_path(run->capture));
    return QK_OK;
}

static qk_status fail_missing(const text *t, int side, qk_error *err)
{
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: attention needs every row of a text, and of text %" PRId64
                    " some before position %" PRId64 " are missing: capture with --sampler all",
                    t->of[side]->head->files[0], t->id, t->last);
}

/* The text that is named, else the first of those that reach furthest. */
static qk_status find_text(const qk_scatter_settings *settings, text *t, qk_error *err)
{
    const qk_block *keys = &t->of[1]->rows;
    const int64_t named = settings->example_id;
    char some_texts[QK__SCATTER_TEXT];
    qk__value_set all = {0};
    for (size_t r = 0; r < keys->rows; r++)
        if (keys->position[r] > t->last && (named < 0 || keys->example[r] == named)) {
            t->id = keys->example[r];
            t->last = keys->position[r];
        }
    if (t->last >= (int64_t)keys->rows)
        return fail_missing(t, 1, err);
    if (t->last >= 0)
        return QK_OK;
    qk_status status = qk__value_set_add(&all, keys->example, keys->rows, err);
    qk__list_texts(&all, some_texts);
    qk__value_set_free(&all);
    return status == QK_OK ? qk__fail_no_text(t->of[1]->head, named, some_texts, err) : status;
}

static qk_status place_rows(text *t, int side, qk_error *err)
{
    const qk_block *rows = &t->of[side]->rows;
    for (size_t r = 0; r < rows->rows; r++) {
        int64_t position = rows->position[r];
        if (rows->example[r] != t->id || position < 0 || position > t->last)
            continue;
        if (t->there[side][position])
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: text %" PRId64 " has position %" PRId64 " twice: several "
                            "texts have that id",
                            t->of[side]->head->files[0], t->id, position);
        t->there[side][position] = true;
        qk__row_of(rows, r, t->x[side] + (size_t)position * rows->dim);
    }
    for (int64_t j = 0; side == 1 && j <= t->last; j++)
        if (!t->there[side][j])
            return fail_missing(t, side, err);
    return QK_OK;
}

static qk_status read_text(text *t, qk_error *err)
{
    const size_t rows = (size_t)t->last + 1, dim = t->of[1]->rows.dim;
    if (t->of[0]->rows.dim != dim)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: queries have %zu dimensions, keys %zu",
                        t->of[1]->head->files[0], t->of[0]->rows.dim, dim);
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&t->x[0], rows * dim, sizeof(double)}, {&t->x[1], rows * dim, sizeof(double)},
        {&t->there[0], rows, sizeof(bool)}, {&t->there[1], rows, sizeof(bool)},
        {&t->weights, 2 * rows, sizeof(double)}));
    QK_TRY(place_rows(t, 1, err));
    return place_rows(t, 0, err);
}

/* The last row, and others at equal steps; columns of keys whose number is a power of two. */
static qk_status plan_strips(int64_t last, qk__strips *strips, qk_error *err)
{
    strips->rows = last < QK__STRIPS ? (size_t)last + 1 : QK__STRIPS;
    const int64_t step = (last + 1) / (int64_t)strips->rows;
    for (size_t i = 0; i < strips->rows; i++) {
        strips->row[i] = last - (int64_t)(strips->rows - 1 - i) * step;
        snprintf(strips->texts[i], sizeof strips->texts[i], "%" PRId64, strips->row[i]);
        strips->labels[i] = strips->texts[i];
    }
    for (strips->width = 1; last / strips->width >= QK__STRIP_COLUMNS;)
        strips->width *= 2;
    strips->columns = (size_t)(last / strips->width) + 1;
    const size_t cells = strips->rows * strips->columns;
    QK_TRY(QK__CREATE_ARRAYS(err, {&strips->weight, cells, sizeof(double)},
                             {&strips->from, cells, sizeof *strips->from}));
    for (size_t i = 0; i < cells; i++)
        strips->weight[i] = NAN;
    return QK_OK;
}

static qk_status fill_strip(const qk__look *look, const text *t, size_t strip, qk_error *err)
{
    qk__strips *of = &look->view->strips;
    const qk_block *queries = &t->of[0]->rows;
    const int64_t i = of->row[strip], window = queries->window[0];
    qk__attention_row row = {.i = i,
                             .low = window > 0 && window <= i ? i - window + 1 : 0,
                             .a = t->weights,
                             .ln = t->weights + i + 1};
    if (!t->there[0][i])
        return fail_missing(t, 0, err);
    if (!qk__attention_weights(t->x[0] + (size_t)i * queries->dim, t->x[1], queries->dim,
                               qk__attention_scale(look->run, queries->dim), &row))
        return qk__fail(err, QK_ERR_MALFORMED, "a score of position %" PRId64 " is not finite",
                        i);
    for (int64_t j = row.low; j <= i; j++) {
        size_t at = strip * of->columns + (size_t)(j / of->width);
        look->view->num_points += isnan(of->weight[at]);
        if (of->weight[at] >= row.a[j])
            continue;
        of->weight[at] = row.a[j];
        of->from[at][0] = (double)j;
        of->from[at][1] = (double)i;
    }
    return QK_OK;
}

static qk_status fill_strips(const qk__look *look, text *t, qk_error *err)
{
    qk__head_view *view = look->view;
    QK_TRY(find_text(look->settings, t, err));
    QK_TRY(read_text(t, err));
    QK_TRY(plan_strips(t->last, &view->strips, err));
    for (size_t i = 0; i < view->strips.rows; i++)
        QK_TRY(fill_strip(look, t, i, err));
    if (!(view->texts = qk__calloc(1, sizeof *view->texts)))
        return qk__nomem(err);
    view->num_panels = 1;
    snprintf(view->texts->title, QK__SCATTER_TEXT, "Layer %d, Head %d", view->head.layer,
             view->head.head);
    int used =
        snprintf(view->subtitle, QK__SCATTER_TEXT, "Rows of attention of text %" PRId64, t->id);
    if (view->strips.width > 1)
        snprintf(view->subtitle + used, (size_t)(QK__SCATTER_TEXT - used),
                 "; largest weight of every %" PRId64 " keys", view->strips.width);
    return QK_OK;
}

qk_status qk__make_strips(const qk__look *look, const qk__head_data *queries,
                          const qk__head_data *keys, qk_error *err)
{
    text t = {.last = -1, .of = {queries, keys}};
    qk_status status = fill_strips(look, &t, err);
    for (int side = 0; side < 2; side++) {
        free(t.x[side]);
        free(t.there[side]);
    }
    free(t.weights);
    return status;
}
