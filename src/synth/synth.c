/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a capture of synthetic heads: settings checked, heads in parallel, truth last. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json_build.h"
#include "base/parallel.h"
#include "capture/capture_writer.h"
#include "parquet/writer.h"
#include "settings/settings.h"
#include "synth/parameters.h"

/* One run. Jobs are heads in the order of qk_head_compare. */
typedef struct synth_run {
    const qk_synth_settings *settings;
    qk_capture_writer *writer;
    size_t num_heads;
    qk_head_id *ids;
    json_t **truths; /* one object a head */
    qk__meter heads;
} synth_run;

/* ---- checks ----------------------------------------------------------------------------- */

static qk_status check_range(const char *name, double value, double low, double high,
                             qk_error *err)
{
    if (value >= low && value <= high)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT, "%s is %.17g: give %.17g to %.17g", name, value, low,
                    high);
}

static qk_status check_synth_settings(const qk_synth_settings *s, qk_error *err)
{
    QK_TRY(qk__settings_check(&qk_synth_settings_table, s, err));
    if (s->query_heads % s->group != 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "query_heads (%d) is not a multiple of group (%d)", s->query_heads,
                        s->group);
    double span = (double)s->buckets * s->bucket_width;
    QK_TRY(
        check_range("last position", (double)s->position_offset + span - 1, 0, INT32_MAX, err));
    QK_TRY(check_range("rows_per_example", (double)s->rows_per_example, 1, span, err));
    QK_TRY(check_range("rope_planes", s->rope_planes, 0, (double)(s->dim - 1) / 2, err));
    for (int p = 0; s->rope_frequencies && p < s->rope_planes; p++)
        QK_TRY(check_range("rope_frequencies", s->rope_frequencies[p], 0, 3.1415926535897932,
                           err));
    return QK_OK;
}

/* ---- heads ------------------------------------------------------------------------------ */

/* Lists the heads in the order of every table; returns how many. */
static size_t list_heads(const qk_synth_settings *s, qk_head_id *ids)
{
    size_t n = 0;
    for (int layer = 0; layer < s->layers; layer++)
        for (int head = 0; head < s->query_heads; head++) {
            ids[n++] = (qk_head_id){layer, head, QK_QUERY};
            if (head < s->query_heads / s->group)
                ids[n++] = (qk_head_id){layer, head, QK_KEY};
        }
    return n;
}

static qk_status write_shard(const synth_run *run, const qk__synth_head *head,
                             qk__synth_rows *rows, int shard, qk_error *err)
{
    const qk_synth_settings *s = run->settings;
    int64_t total = (int64_t)s->examples * (int64_t)s->rows_per_example;
    int64_t left = total / s->shards + (shard < total % s->shards);
    qk_head_writer *file;
    const qk__head_shape shape = {
        .dim = head->dim, .strings = s->strings, .shard = shard, .shards = s->shards};
    QK_TRY(qk__head_writer_open_as(&file, run->writer, head->id, &shape, &s->writer, err));
    while (left > 0) {
        qk_block block;
        const char *const *strings;
        qk__synth_rows_next(rows, (size_t)left, &block, &strings);
        qk_status status = qk_head_writer_add(file, &block, strings, err);
        if (status != QK_OK) {
            qk_head_writer_abort(&file);
            return status;
        }
        left -= (int64_t)block.rows;
    }
    return qk_head_writer_finish(&file, err);
}

static qk_status write_head(synth_run *run, size_t i, qk_error *err)
{
    qk__synth_head *head;
    qk__synth_rows *rows;
    QK_TRY(qk__synth_head_draw(run->settings, run->ids[i], &head, err));
    qk_status status = qk__synth_rows_open(&rows, run->settings, head, err);
    for (int shard = 0; status == QK_OK && shard < run->settings->shards; shard++)
        status = write_shard(run, head, rows, shard, err);
    if (status == QK_OK) {
        run->truths[i] = qk__synth_truth_head(run->settings, head);
        if (!run->truths[i])
            status = qk__nomem(err);
    }
    qk__synth_rows_close(&rows);
    qk__synth_head_free(&head);
    return status;
}

static qk_status head_job(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    synth_run *run = context;
    const qk_synth_settings *s = run->settings;
    QK_TRY(write_head(run, i, err));
    if (qk__meter_add(&run->heads, 1,
                      (int64_t)s->examples *
                          (int64_t)(s->rows_per_example * s->dim * sizeof(float))))
        return QK_OK;
    return qk__fail(err, QK_ERR_CANCELLED,
                    "stopped after %lld of %zu heads; nothing was written",
                    (long long)run->heads.now.done, run->num_heads);
}

/* The heads of a packed file, one after the other. */
static qk_status file_job(void *context, size_t i, int worker, qk_error *err)
{
    synth_run *run = context;
    int layer = (int)(i / 2);
    qk_kind kind = i % 2 == 0 ? QK_QUERY : QK_KEY;
    for (size_t h = 0; h < run->num_heads; h++)
        if (run->ids[h].layer == layer && run->ids[h].kind == kind)
            QK_TRY(head_job(run, h, worker, err));
    return qk_capture_writer_end_layer(run->writer, layer, kind, err);
}

/* ---- truth.json ------------------------------------------------------------------------- */

static json_t *build_truth(synth_run *run)
{
    json_t *heads = json_array();
    for (size_t i = 0; i < run->num_heads; i++)
        heads = qk__json_append(heads, json_incref(run->truths[i]));
    return json_pack("{s:s, s:i, s:o, s:f, s:f, s:o}", "format", "qkscope-truth",
                     "format_version", 1, "settings", qk__synth_truth_settings(run->settings),
                     "position_center", qk__synth_center(run->settings), "position_variance",
                     qk__synth_position_variance(run->settings), "heads", heads);
}

static qk_status write_truth(synth_run *run, const char *dir, qk_error *err)
{
    json_t *truth = build_truth(run);
    char *text = qk__json_dumps(truth, JSON_COMPACT | JSON_REAL_PRECISION(17));
    qk_status status =
        text ? qk__write_file_in(dir, "truth.json", text, strlen(text), err) : qk__nomem(err);
    free(text);
    json_decref(truth);
    return status;
}

/* What capture.json says beyond its own keys: where the truth is, and the frequencies as a
 * captured model would state them. NULL when out of memory. */
static char *describe_extra(const qk_synth_settings *s)
{
    json_t *root = json_pack("{s:s}", "truth", "truth.json");
    json_t *frequencies = json_array();
    bool turning = s->rope_planes > 0;
    for (size_t p = 0; p < (size_t)s->rope_planes; p++) {
        double omega = qk__synth_frequency(s, p);
        turning = turning && omega > 0;
        frequencies = qk__json_append(frequencies, json_real(omega));
    }
    if (turning)
        root = qk__json_set(root, "rope_frequencies", json_incref(frequencies));
    char *text = qk__json_dumps(root, JSON_REAL_PRECISION(17));
    json_decref(frequencies);
    json_decref(root);
    return text;
}

/* ---- the run ---------------------------------------------------------------------------- */

static bool is_any(const char *name, const void *context)
{
    (void)name;
    (void)context;
    return true;
}

static qk_status write_capture(synth_run *run, const char *dir, qk_error *err)
{
    const qk_synth_settings *s = run->settings;
    char *extra = describe_extra(s);
    if (!extra)
        return qk__nomem(err);
    const qk_capture_meta meta = {
        .model = s->model ? s->model : "synth",
        .q_per_kv_group = s->group,
        .source = "qkscope synth",
        .extra_json = extra,
        .layout = s->layout,
    };
    bool packed = s->layout == QK_LAYOUT_PACKED;
    qk_status status = qk_capture_writer_open(&run->writer, dir, &meta, err);
    free(extra);
    QK_TRY(status);
    status = qk__parallel_try(packed ? 2 * (size_t)s->layers : run->num_heads,
                              qk__count_threads(&s->context), packed ? file_job : head_job, run,
                              err);
    if (status == QK_OK)
        status = write_truth(run, dir, err);
    if (status == QK_OK)
        status = qk_capture_writer_finish(&run->writer, err);
    qk_capture_writer_abort(&run->writer);
    /* The folder was empty, so all that is in it is ours. */
    if (status != QK_OK && qk__empty_below(dir, "", is_any, NULL, NULL) == QK_OK)
        rmdir(dir);
    return status;
}

qk_status qk_synth_write(const qk_synth_settings *settings, const char *dir, qk_error *err)
{
    QK_NEED(err, settings, dir);
    QK_TRY(check_synth_settings(settings, err));
    QK_TRY(qk__writer_check_settings(&settings->writer, err));
    size_t most = 2 * (size_t)settings->layers * (size_t)settings->query_heads;
    synth_run run = {.settings = settings};
    run.ids = qk__calloc(most, sizeof *run.ids);
    run.truths = qk__calloc(most, sizeof *run.truths);
    qk_status status = run.ids && run.truths ? QK_OK : qk__nomem(err);
    if (status == QK_OK) {
        run.num_heads = list_heads(settings, run.ids);
        qk__meter_open(&run.heads,
                       (qk_progress){.what = "heads", .total = (int64_t)run.num_heads},
                       &settings->context);
        status = write_capture(&run, dir, err);
        qk__meter_close(&run.heads);
    }
    for (size_t i = 0; i < run.num_heads; i++)
        json_decref(run.truths[i]);
    free(run.truths);
    free(run.ids);
    return status;
}
