/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a run's capture, collects its inputs, and ends it. */
#include "analysis/run.h"
#include "analysis/attention_source.h"
#include "analysis/run_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/capture.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "capture/capture.h"
#include "schema/schema.h"

/* ---- what was read ---------------------------------------------------------------------- */

qk_status qk__run_list_inputs(qk__run *run, qk_error *err)
{
    size_t heads = qk_capture_num_heads(run->capture), files = 0;
    run->first_input = qk__calloc(heads + 1, sizeof *run->first_input);
    if (!run->first_input)
        return qk__nomem(err);
    for (size_t i = 0; i < heads; i++) {
        run->first_input[i] = files;
        files += qk_capture_head(run->capture, i)->num_files;
    }
    run->first_input[heads] = files;
    run->num_inputs = files + run->states.files;
    run->inputs = qk__calloc(run->num_inputs, sizeof *run->inputs);
    return run->inputs ? QK_OK : qk__nomem(err);
}

/* Doubts about the group size: queries paired with keys of other groups give plausible numbers, even where the size
 * fits the heads that are there. On the Hub the names of all files have settled it. */
static void doubt_group(const qk__run *run, char *text, size_t size)
{
    const qk_group *group = &run->results->group;
    int given = run->settings->q_per_kv_group;
    int own = qk_capture_get_info(run->capture)->q_per_kv_group;
    char hint[128] = "no other size fits either";
    if (group->alternative)
        snprintf(hint, sizeof hint, "%d fits: use --q-per-kv-group %d", group->alternative,
                 group->alternative);
    if (!group->consistent)
        snprintf(text, size, "group size %d does not fit the heads of this capture; %s",
                 group->size, hint);
    else if (given > 0 && own > 0 && given != own)
        snprintf(
            text, size,
            "group size %d contradicts capture.json, which says %d: give that one, or none",
            given, own);
    else if (group->source == QK_GROUP_INFERRED && group->num_consistent > 1 &&
             run->listed_group == 0)
        snprintf(text, size,
                 "group size %d is a guess: %d sizes that pair queries with different keys fit "
                 "the heads present, %d among them: give the model's with --q-per-kv-group",
                 group->size, group->num_consistent, group->alternative);
}

static qk_status settle_group(qk__run *run, qk_error *err)
{
    qk_group *group = &run->results->group;
    int given = run->settings->q_per_kv_group;
    char doubt[256] = "";
    QK_TRY(qk_capture_group(run->capture, given > 0 ? given : run->listed_group, group, err));
    if (given == 0 && run->listed_group > 0)
        group->source = QK_GROUP_INFERRED;
    doubt_group(run, doubt, sizeof doubt);
    if (doubt[0] && run->settings->strict)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s", doubt);
    if (doubt[0])
        qk__run_warn(run, "%s", doubt);
    else if (group->source == QK_GROUP_INFERRED)
        qk__tell_notice(&run->context, QK_NOTICE_INFO,
                        "group size %d (query heads per key head) inferred from the heads "
                        "present",
                        group->size);
    return QK_OK;
}

/* The model's name in tables: given, or from the capture, or from the Hub. The name of a folder says nothing about the
 * model, and would give equal captures different tables. */
static const char *model_name(const qk__run *run, bool is_folder)
{
    const char *own = qk_capture_get_info(run->capture)->model;
    if (run->settings->model_name)
        return run->settings->model_name;
    if (own[0])
        return own;
    return is_folder ? "" : run->settings->capture;
}

qk_hub_wanted qk__run_hub(const qk_analysis_settings *s)
{
    return (qk_hub_wanted){.name = s->capture,
                           .revision = s->revision,
                           .local_root = s->local_root,
                           .part = QK_HUB_CAPTURE,
                           .layers = s->layers,
                           .heads = s->heads,
                           .q_per_kv_group = s->q_per_kv_group,
                           .prefix = s->prefix,
                           .context = s->context};
}

static qk_status find_capture(const qk__run *run, qk_hub_place *place, qk_error *err)
{
    qk_hub_wanted wanted = qk__run_hub(run->settings);
    wanted.context = run->context;
    return qk_hub_get(&wanted, place, err);
}

/* The files of a capture on the Hub that were fetched do not say how many layers it has, nor query heads per key head;
 * the names of all its files do. */
static void take_shape(qk__run *run, const qk_hub_place *place)
{
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    int layers = qk_capture_num_layers(run->capture);
    run->listed_group = info->q_per_kv_group > 0 ? 0 : place->q_per_kv_group;
    run->results->num_layers =
        place->num_layers > layers && !info->has_manifest ? place->num_layers : layers;
}

static qk_status read_text_ids(qk__run *run, qk_error *err)
{
    qk__text_ids *ids = &run->text_ids;
    QK_TRY(qk__text_ids_read(ids, run->capture, err));
    if (ids->joined)
        qk__run_warn(run,
                     "examples.csv: %zu examples are %zu text%s (windows of a text, and equal "
                     "texts, are one): numbers over texts are over these",
                     ids->count, ids->texts, ids->texts == 1 ? "" : "s");
    if (ids->unknown)
        qk__run_warn(
            run,
            "%s: has windows of texts, and no text_id in examples.csv that tells which "
            "are of one text: probabilities and intervals over texts are empty; "
            "capture again",
            qk_capture_path(run->capture));
    return QK_OK;
}

qk_status qk__run_open(qk__run *run, const qk_analysis_settings *settings, qk_error *err)
{
    *run = (qk__run){.settings = settings, .jobs = "heads", .folder.lock = -1};
    run->relay = (qk__relay){.to = &settings->context, .lock = &run->lock};
    run->context = qk__relay_context(&run->relay);
    run->warnings = json_array();
    pthread_mutex_init(&run->lock, NULL);
    atomic_init(&run->cancelled, false);
    double start = qk__now();
    qk_status status = QK_ERR_ARGUMENT;
    if (!settings->capture)
        return qk__fail(err, status, "no capture given");
    run->results = calloc(1, sizeof *run->results);
    if (!run->results || !run->warnings)
        return qk__nomem(err);
    bool is_folder = qk__is_dir(settings->capture);
    qk_hub_place place;
    QK_TRY(find_capture(run, &place, err));
    status = qk_capture_open(&run->capture, place.path, settings->prefix, err);
    free(place.path);
    if (status != QK_OK)
        return status;
    QK_TRY(read_text_ids(run, err));
    QK_TRY(qk__states_open(run, err));
    QK_TRY(qk__find_attention(run, err));
    QK_TRY(qk__find_tokens(run, err));
    settings = run->settings;
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    if (info->has_manifest && !info->complete)
        qk__run_warn(run, "%s: capture.json says that this capture was not finished",
                     qk_capture_path(run->capture));
    char names[QK_HEAD_NAME_SIZE * 10];
    /* Of a capture on the Hub only what was asked for is fetched. */
    size_t missing =
        qk__capture_missing(run->capture, is_folder ? NULL : &settings->layers,
                            is_folder ? NULL : &settings->heads, names, sizeof names);
    if (missing > 0 &&
        !qk__run_does(run, QK__ANALYSE_STAGES)) /* which names all missing heads */
        qk__run_warn(run, "%s: %zu of the %zu heads that capture.json lists are not there: %s",
                     qk_capture_path(run->capture), missing, qk_capture_num_heads(run->capture),
                     names);
    run->threads = qk__count_threads(&settings->context);
    run->results->threads = run->threads;
    run->results->contents = qk__contents_of(settings) |
                             (run->states.has_rows ? QK__RESERVOIR : 0U) |
                             (run->lists_tokens ? QK__TOKENS : 0U);
    take_shape(run, &place);
    run->block_rows = settings->block_rows > 0 ? settings->block_rows : QK__BLOCK_ROWS;
    run->results->capture = qk__strdup(qk_capture_path(run->capture));
    run->results->model = qk__strdup(model_name(run, is_folder));
    if (!run->results->capture || !run->results->model)
        return qk__nomem(err);
    run->readers = qk__calloc((size_t)run->threads, sizeof *run->readers);
    run->spare = qk__calloc((size_t)run->threads * SPARE_SUMS, sizeof *run->spare);
    if (!run->readers || !run->spare)
        return qk__nomem(err);
    if (settings->combined)
        QK_TRY(settle_group(run, err));
    run->seconds_open = qk__now() - start;
    return QK_OK;
}

qk_status qk__run_open_rows(qk__run *run, int worker, const qk_head *head, unsigned columns,
                            int64_t max_rows, qk_error *err)
{
    QK_TRY(qk__rows_reopen(&run->readers[worker], head, columns, max_rows, err));
    return qk__rows_skip_below(run->readers[worker], run->settings->from_position, err);
}

size_t qk__run_count_texts(const qk__run *run, size_t examples)
{
    int64_t texts = qk_capture_get_info(run->capture)->num_texts;
    if (run->text_ids.joined && run->text_ids.texts < examples)
        examples = run->text_ids.texts;
    return texts > 0 && (size_t)texts < examples ? (size_t)texts : examples;
}

void qk__run_close(qk__run *run)
{
    qk__long_tables_drop(run);
    qk__text_ids_free(&run->text_ids);
    qk__file_set_discard(&run->outputs);
    for (int i = 0; run->readers && i < run->threads; i++)
        qk_rows_close(&run->readers[i]);
    free(run->readers);
    for (size_t i = 0; i < run->num_spare; i++)
        free(run->spare[i].memory);
    free(run->spare);
    qk__states_close(&run->states);
    qk_capture_close(&run->capture);
    free(run->inputs);
    free(run->first_input);
    json_decref(run->staying);
    json_decref(run->warnings);
    qk__manifest_free(&run->before);
    qk__place_release(&run->folder);
    pthread_mutex_destroy(&run->lock);
}

qk_status qk__run_set_heads(qk__run *run, const qk_head_id *ids, size_t count, qk_error *err)
{
    qk_analysis_results *results = run->results;
    results->heads = qk__calloc(count, sizeof *results->heads);
    if (!results->heads)
        return qk__nomem(err);
    results->num_heads = count;
    for (size_t i = 0; i < count; i++)
        results->heads[i] = (qk_head_results){.id = ids[i], .k_head = -1};
    return QK_OK;
}
