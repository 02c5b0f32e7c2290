/* SPDX-License-Identifier: Apache-2.0 */
/* Every head of a capture: whether it is there, and its moments, from rows or as the capture keeps them. */
#include "analysis/head_grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/head_data.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "state/layer_file.h"
#include "stats/moments.h"

/* ---- what the capture is ---------------------------------------------------------------- */

/* Vectors of the other stage would look as good. */
static qk_status check_stage(const qk__grid *grid, qk_stage wanted, qk_error *err)
{
    const char *path = qk_capture_path(grid->run.capture);
    const qk_stage is = qk_capture_get_info(grid->run.capture)->stage;
    const bool before = wanted == QK_STAGE_PRE_ROPE;
    if (is == wanted)
        return QK_OK;
    if (is == QK_STAGE_UNKNOWN)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: nothing says whether these vectors are from before or after RoPE: "
                        "if from %s it, add \"stage\": \"%s-rope\" to capture.json",
                        path, before ? "before" : "after", before ? "pre" : "post");
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: capture.json says that it is %s RoPE, and vectors from %s it are "
                    "needed: capture with --stage %s, or both",
                    path, before ? "after" : "before", before ? "before" : "after",
                    before ? "pre" : "post");
}

static const qk_head *head_at(const qk__grid *grid, qk_kind kind, size_t place, qk_head_id *id)
{
    *id =
        (qk_head_id){(int)(place / grid->heads[kind]), (int)(place % grid->heads[kind]), kind};
    const qk_head *head = qk_capture_find(grid->run.capture, *id);
    return head && !head->missing ? head : NULL;
}

/* Finds the heads of the model, as far as capture.json says, and those that are there. */
static qk_status find_heads(qk__grid *grid, qk_kind kind, qk_error *err)
{
    const qk_capture *capture = grid->run.capture;
    const qk_capture_info *info = qk_capture_get_info(capture);
    int most = kind == QK_QUERY ? info->num_q_heads : info->num_k_heads;
    size_t missing = 0;
    char first[QK_HEAD_NAME_SIZE] = "";
    for (size_t i = 0; i < qk_capture_num_heads(capture); i++) {
        const qk_head_id id = qk_capture_head(capture, i)->id;
        most = id.kind == kind && id.head >= most ? id.head + 1 : most;
    }
    grid->heads[kind] = (size_t)most;
    for (size_t i = 0; i < grid->layers * grid->heads[kind]; i++) {
        qk_head_id id;
        if (!head_at(grid, kind, i, &id) && missing++ == 0)
            qk_head_name(id, first);
    }
    if (missing == 0 && most > 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: %zu of %zu %s heads are not there, the first is %s: all heads of all "
                    "%zu layers are needed: capture without --layers, --heads and "
                    "--sample-heads",
                    qk_capture_path(capture), missing, grid->layers * grid->heads[kind],
                    kind == QK_QUERY ? "query" : "key", first, grid->layers);
}

static qk_status find_groups(qk__grid *grid, qk_error *err)
{
    const qk_group *group = &grid->run.results->group;
    QK_TRY(find_heads(grid, QK_KEY, err));
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the run is open
    grid->group = (size_t)group->size;
    if (group->consistent && grid->heads[QK_KEY] * grid->group == grid->heads[QK_QUERY])
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: %zu query and %zu key heads a layer are no groups of %zu: give "
                    "--q-per-kv-group",
                    qk_capture_path(grid->run.capture), grid->heads[QK_QUERY],
                    grid->heads[QK_KEY], grid->group);
}

/* ---- heads ------------------------------------------------------------------------------ */

typedef struct seeing {
    qk__grid *grid;
    qk_kind kind;
    qk__see_moments_fn *see;
    void *user;
} seeing;

static qk_status see_head(void *context, size_t place, int worker, qk_error *err)
{
    seeing *s = context;
    qk__run *run = &s->grid->run;
    qk__head_data data;
    qk_head_id id;
    char name[QK_HEAD_NAME_SIZE];
    const qk_head *head = head_at(s->grid, s->kind, place, &id);
    qk_head_name(id, name);
    if (atomic_load(&run->cancelled))
        return qk__fail(err, QK_ERR_CANCELLED, "stopped at %s", name);
    QK_TRY(qk__head_data_read(run, worker, head, &data, err));
    qk_status status = QK_OK;
    if (data.moments->dim != s->grid->dim)
        status =
            qk__fail(err, QK_ERR_INCONSISTENT, "vectors of %zu values, and of %zu elsewhere",
                     data.moments->dim, s->grid->dim);
    double *lengths = s->kind == QK_QUERY ? s->grid->sum_abs : NULL;
    if (status == QK_OK && lengths && data.state && data.state->pairs <= s->grid->dim / 2)
        memcpy(lengths + place * (s->grid->dim / 2), data.state->sum_abs,
               data.state->pairs * sizeof *lengths);
    if (status == QK_OK)
        status = s->see(s->user, place, data.moments, err);
    qk__run_progress(run, 1, data.bytes, data.moments->count);
    qk__head_data_free(run, &data);
    return qk__context(err, status, "%s", name);
}

qk_status qk__grid_each(qk__grid *grid, qk_kind kind, qk__see_moments_fn *see, void *user,
                        qk_error *err)
{
    seeing s = {grid, kind, see, user};
    return qk__parallel_try(grid->layers * grid->heads[kind], grid->run.threads, see_head, &s,
                            err);
}

static qk_status copy_moments(void *user, size_t place, const qk_moments *moments,
                              qk_error *err)
{
    qk_moments **of = user, *none = qk__moments_create(moments->dim);
    qk_status status =
        none ? qk__moments_merge(moments, none, &of[place], err) : qk__nomem(err);
    qk_moments_free(&none);
    return status;
}

qk_status qk__grid_moments(qk__grid *grid, qk_kind kind, qk_moments ***of, qk_error *err)
{
    *of = qk__calloc(grid->layers * grid->heads[kind], sizeof **of);
    return *of ? qk__grid_each(grid, kind, copy_moments, *of, err) : qk__nomem(err);
}

static qk_status find_length(qk__grid *grid, const qk_head *head, qk_error *err)
{
    qk_rows *rows;
    qk_block block;
    QK_TRY(qk_rows_open(&rows, head, QK_COLUMN_POSITION, 0, err));
    qk_status status = qk_rows_next(rows, (size_t)qk_rows_total(rows) + 1, &block, err);
    for (size_t i = 0; status == QK_OK && i < block.rows; i++)
        if (block.position[i] >= grid->length)
            grid->length = block.position[i] + 1;
    qk_rows_close(&rows);
    return status;
}

/* Takes from the first head what holds for all. */
static qk_status look_at_first(qk__grid *grid, qk_error *err)
{
    qk_head_id id;
    qk__head_data data;
    const qk_head *head = head_at(grid, QK_QUERY, 0, &id);
    QK_TRY(qk__head_data_read(&grid->run, 0, head, &data, err));
    grid->dim = data.moments->dim;
    grid->texts = (int64_t)qk__run_count_texts(&grid->run, data.num_texts);
    grid->length = data.state ? data.state->last_position + 1 : 0;
    qk_status status = data.state ? QK_OK : find_length(grid, head, err);
    qk__head_data_free(&grid->run, &data);
    return status;
}

/* ---- opening ---------------------------------------------------------------------------- */

qk_status qk__grid_open(qk__grid *grid, const qk_analysis_settings *settings, qk_stage stage,
                        bool groups, qk_error *err)
{
    *grid = (qk__grid){.settings = *settings};
    grid->settings.combined = groups;
    grid->settings.analyses = 0; /* only moments */
    QK_TRY(qk__run_open(&grid->run, &grid->settings, err));
    QK_TRY(check_stage(grid, stage, err));
    grid->layers = (size_t)qk_capture_num_layers(grid->run.capture);
    QK_TRY(find_heads(grid, QK_QUERY, err));
    if (groups)
        QK_TRY(find_groups(grid, err));
    grid->run.total_jobs = grid->layers * (grid->heads[QK_QUERY] + grid->heads[QK_KEY]);
    return look_at_first(grid, err);
}

void qk__grid_close(qk__grid *grid)
{
    qk__run_close(&grid->run);
    qk_analysis_results_free(&grid->run.results);
}

/* ---- in public -------------------------------------------------------------------------- */

static qk_status read_moments(qk__grid *grid, qk_kinds kinds, qk_head_moments **made,
                              qk_error *err)
{
    qk_head_moments *m = *made = qk__calloc(1, sizeof *m);
    if (!m)
        return qk__nomem(err);
    m->capture = qk__strdup(qk_capture_path(grid->run.capture));
    m->model = qk__strdup(grid->run.results->model);
    if (!m->capture || !m->model)
        return qk__nomem(err);
    m->layers = grid->layers;
    m->group = grid->group;
    m->dim = grid->dim;
    m->texts = grid->texts;
    m->length = grid->length;
    for (int kind = 0; kind < 2; kind++)
        m->heads[kind] = grid->heads[kind];
    const size_t lengths = grid->layers * grid->heads[QK_QUERY] * (grid->dim / 2);
    if (grid->run.states.count > 0) {
        grid->sum_abs = m->sum_abs = qk__calloc(lengths + 1, sizeof *m->sum_abs);
        if (!m->sum_abs)
            return qk__nomem(err);
        for (size_t i = 0; i < lengths; i++)
            m->sum_abs[i] = NAN;
    }
    if (kinds & QK_KINDS_Q)
        QK_TRY(qk__grid_moments(grid, QK_QUERY, &m->of[QK_QUERY], err));
    return kinds & QK_KINDS_K ? qk__grid_moments(grid, QK_KEY, &m->of[QK_KEY], err) : QK_OK;
}

qk_status qk_head_moments_read(const qk_analysis_settings *settings, qk_stage stage,
                               qk_head_moments **moments, qk_error *err)
{
    qk__grid grid;
    QK_NEED(err, moments);
    *moments = NULL;
    QK_NEED(err, settings);
    qk_status status = qk__grid_open(&grid, settings, stage, settings->combined, err);
    if (status == QK_OK)
        status = read_moments(&grid, settings->kinds, moments, err);
    qk__grid_close(&grid);
    if (status != QK_OK)
        qk_head_moments_free(moments);
    return status;
}

void qk_head_moments_free(qk_head_moments **moments)
{
    qk_head_moments *m = *moments;
    for (int kind = 0; m && kind < 2; kind++) {
        for (size_t i = 0; m->of[kind] && i < m->layers * m->heads[kind]; i++)
            qk_moments_free(&m->of[kind][i]);
        free(m->of[kind]);
    }
    if (m) {
        free(m->sum_abs);
        free(m->capture);
        free(m->model);
    }
    free(m);
    *moments = NULL;
}
