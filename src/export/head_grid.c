/* SPDX-License-Identifier: Apache-2.0 */
/* Every head of a capture: whether it is there, and its moments, of rows or as the capture keeps them. */
#include "export/head_grid.h"

#include <stdlib.h>

#include "analysis/head_data.h"
#include "base/error.h"
#include "base/parallel.h"
#include "state/layer_file.h"

/* ---- what the capture is ---------------------------------------------------------------- */

/* Vectors of the other stage would look as good. */
static qk_status check_stage(const qk__grid *grid, qk_stage wanted, qk_error *err)
{
    static const char *const WORDS[] = {
        [QK_STAGE_PRE_ROPE] = "pre", [QK_STAGE_POST_ROPE] = "post"};
    const char *path = qk_capture_path(grid->run.capture);
    const qk_stage is = qk_capture_get_info(grid->run.capture)->stage;
    if (is == wanted)
        return QK_OK;
    if (is == QK_STAGE_UNKNOWN)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: nothing says whether these vectors are from before or after RoPE: "
                        "if from %s it, add \"stage\": \"%s-rope\" to capture.json",
                        path, wanted == QK_STAGE_PRE_ROPE ? "before" : "after", WORDS[wanted]);
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: capture.json says that it is %s RoPE, and this format needs vectors "
                    "from %s it: capture with --stage %s, or both",
                    path, is == QK_STAGE_PRE_ROPE ? "before" : "after",
                    wanted == QK_STAGE_PRE_ROPE ? "before" : "after", WORDS[wanted]);
}

/* Heads of a layer: of the model where capture.json tells it, and those that are there. */
static size_t count_heads(const qk_capture *capture, qk_kind kind)
{
    const qk_capture_info *info = qk_capture_get_info(capture);
    int count = kind == QK_QUERY ? info->num_q_heads : info->num_k_heads;
    for (size_t i = 0; i < qk_capture_num_heads(capture); i++) {
        const qk_head_id id = qk_capture_head(capture, i)->id;
        if (id.kind == kind && id.head >= count)
            count = id.head + 1;
    }
    return (size_t)count;
}

static const qk_head *head_at(const qk__grid *grid, qk_kind kind, size_t place, qk_head_id *id)
{
    const size_t width = kind == QK_QUERY ? grid->q_heads : grid->k_heads;
    *id = (qk_head_id){(int)(place / width), (int)(place % width), kind};
    const qk_head *head = qk_capture_find(grid->run.capture, *id);
    return head && !head->missing ? head : NULL;
}

static qk_status check_all_there(const qk__grid *grid, qk_kind kind, qk_error *err)
{
    const size_t width = kind == QK_QUERY ? grid->q_heads : grid->k_heads;
    size_t missing = 0;
    char first[QK_HEAD_NAME_SIZE] = "";
    for (size_t i = 0; i < grid->layers * width; i++) {
        qk_head_id id;
        if (head_at(grid, kind, i, &id))
            continue;
        if (missing++ == 0)
            qk_head_name(id, first);
    }
    return missing == 0 && width > 0
               ? QK_OK
               : qk__fail(err, QK_ERR_NOT_FOUND,
                          "%s: %zu of %zu %s heads are not there, the first is %s: this format "
                          "needs all heads of all %zu layers: capture without --layers, "
                          "--heads and --sample-heads",
                          qk_capture_path(grid->run.capture), missing, grid->layers * width,
                          kind == QK_QUERY ? "query" : "key", first, grid->layers);
}

qk_status qk__grid_fits(const qk__grid *grid, const char *whose, int layers, int q_heads,
                        int k_heads, int dim, qk_error *err)
{
    const struct {
        const char *what;
        size_t is, other;
    } numbers[] = {{"layers", grid->layers, (size_t)layers},
                   {"query heads", grid->q_heads, (size_t)q_heads},
                   {"key heads", grid->k_heads, (size_t)k_heads},
                   {"dimensions", grid->dim, (size_t)dim}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].other > 0 && numbers[i].is != numbers[i].other)
            return qk__fail(err, QK_ERR_INCONSISTENT, "%s: has %zu %s, and %s %zu",
                            qk_capture_path(grid->run.capture), numbers[i].is, numbers[i].what,
                            whose, numbers[i].other);
    return QK_OK;
}

/* Of key heads that are missing is told by name first. */
static qk_status settle_groups(qk__grid *grid, const qk__grid_wish *wish, qk_error *err)
{
    const qk_group *group = &grid->run.results->group;
    const int keys = qk_capture_get_info(grid->run.capture)->num_k_heads;
    grid->group = (size_t)group->size;
    grid->k_heads = wish->keys ? count_heads(grid->run.capture, QK_KEY)
                               : grid->q_heads / grid->group;
    if (wish->keys)
        QK_TRY(check_all_there(grid, QK_KEY, err));
    if (group->consistent && grid->k_heads * grid->group == grid->q_heads &&
        (keys == 0 || grid->k_heads == (size_t)keys))
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: %zu query heads a layer, in groups of %zu, do not go with its key "
                    "heads: give --q-per-kv-group",
                    qk_capture_path(grid->run.capture), grid->q_heads, grid->group);
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
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "vectors of %zu values, and of %zu in other heads", data.moments->dim,
                          s->grid->dim);
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
    const size_t width = kind == QK_QUERY ? grid->q_heads : grid->k_heads;
    return qk__parallel_try(grid->layers * width, grid->run.threads, see_head, &s, err);
}

/* The position behind the last row. */
static qk_status find_length(qk__grid *grid, const qk_head *head, const qk__head_data *data,
                             qk_error *err)
{
    qk_rows *rows;
    qk_block block = {0};
    if (data->state) {
        grid->length = data->state->last_position + 1;
        return QK_OK;
    }
    QK_TRY(qk_rows_open(&rows, head, QK_COLUMN_POSITION, 0, err));
    qk_status status;
    do {
        status = qk_rows_next(rows, QK__BLOCK_ROWS, &block, err);
        for (size_t i = 0; status == QK_OK && i < block.rows; i++)
            if (block.position[i] >= grid->length)
                grid->length = block.position[i] + 1;
    } while (status == QK_OK && block.rows > 0);
    qk_rows_close(&rows);
    return status;
}

/* What the first head tells of all. */
static qk_status look_at_first(qk__grid *grid, qk_error *err)
{
    qk_head_id id;
    qk__head_data data;
    const qk_head *head = head_at(grid, QK_QUERY, 0, &id);
    QK_TRY(qk__head_data_read(&grid->run, 0, head, &data, err));
    grid->dim = data.moments->dim;
    grid->texts = (int64_t)qk__run_count_texts(&grid->run, data.num_texts);
    qk_status status = find_length(grid, head, &data, err);
    qk__head_data_free(&grid->run, &data);
    return status;
}

/* ---- opening ---------------------------------------------------------------------------- */

qk_status qk__grid_open(qk__grid *grid, const qk_export_settings *settings,
                        const qk__grid_wish *wish, qk_error *err)
{
    *grid = (qk__grid){0};
    qk_analysis_settings *s = &grid->settings;
    qk_analysis_settings_default(s);
    s->capture = settings->source;
    s->revision = settings->revision;
    s->prefix = settings->prefix;
    s->q_per_kv_group = settings->q_per_kv_group;
    s->from_position = wish->from;
    s->combined = wish->groups;
    s->analyses = 0; /* moments alone */
    s->context = settings->context;
    QK_TRY(qk__run_open(&grid->run, s, err));
    QK_TRY(check_stage(grid, wish->stage, err));
    const qk_capture *capture = grid->run.capture;
    grid->layers = (size_t)qk_capture_num_layers(capture);
    grid->q_heads = count_heads(capture, QK_QUERY);
    QK_TRY(check_all_there(grid, QK_QUERY, err));
    if (wish->groups)
        QK_TRY(settle_groups(grid, wish, err));
    grid->run.total_jobs = grid->layers * (grid->q_heads + (wish->keys ? grid->k_heads : 0));
    return look_at_first(grid, err);
}

void qk__grid_close(qk__grid *grid)
{
    qk__run_close(&grid->run);
    qk_analysis_results_free(&grid->run.results);
}
