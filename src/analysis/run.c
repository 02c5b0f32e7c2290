/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of one run use: the capture opened, notices, progress, heads that fail, the end. */
#include "analysis/run.h"

#include <stdarg.h>
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

void qk__run_notice(qk__run *run, qk_notice_level level, const char *fmt, ...)
{
    if (!run->settings->notice || run->silent)
        return;
    char message[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    pthread_mutex_lock(&run->lock);
    run->settings->notice(run->settings->user, level, message);
    pthread_mutex_unlock(&run->lock);
}

void qk__run_progress(qk__run *run, int64_t bytes, int64_t rows)
{
    pthread_mutex_lock(&run->lock);
    run->done_jobs++;
    run->done_bytes += bytes;
    run->done_rows += rows;
    const qk_analysis_settings *settings = run->settings;
    if (settings->progress &&
        !settings->progress(settings->user, &(qk_progress){.what = run->jobs,
                                                           .done = (int64_t)run->done_jobs,
                                                           .total = (int64_t)run->total_jobs,
                                                           .bytes = run->done_bytes}))
        atomic_store(&run->cancelled, true);
    pthread_mutex_unlock(&run->lock);
}

void qk__run_note_failure(qk__run *run, size_t i, qk_status status, const char *message)
{
    qk_head_results *head = &run->results->heads[i];
    if (head->status == QK_OK) {
        head->status = status;
        head->message = qk__strdup(message);
    }
}

void qk__run_fail_head(qk__run *run, size_t i, qk_status status, const char *message)
{
    char name[QK_HEAD_NAME_SIZE];
    qk__run_note_failure(run, i, status, message);
    qk_head_name(run->results->heads[i].id, name);
    qk__run_notice(run, QK_NOTICE_ERROR, "%s: %s", name, message);
}

/* ---- failures for the same reason ------------------------------------------------------- */

static const char *reason_of(const qk_head_results *head)
{
    return head->message ? head->message : qk_status_text(head->status);
}

/* Equal but for numbers, those of heads, rows and texts. */
static bool is_alike(const char *a, const char *b)
{
    static const char NUMBER[] = "+-.0123456789";
    while (*a && *b) {
        a += strspn(a, NUMBER);
        b += strspn(b, NUMBER);
        if (*a != *b)
            return false;
        a += *a != 0;
        b += *b != 0;
    }
    return a[strspn(a, NUMBER)] == 0 && b[strspn(b, NUMBER)] == 0;
}

/* How many heads from `from` up to `end` failed as head i did; their names, the first few, go
 * into text. */
static size_t count_alike(const qk_analysis_results *results, size_t i, size_t from, size_t end,
                          char *text, size_t size)
{
    enum { LISTED = 8 };
    size_t count = 0, used = 0;
    text[0] = 0;
    for (size_t k = from; k < end; k++) {
        char name[QK_HEAD_NAME_SIZE];
        if (k == i || results->heads[k].status == QK_OK ||
            !is_alike(reason_of(&results->heads[i]), reason_of(&results->heads[k])))
            continue;
        qk_head_name(results->heads[k].id, name);
        if (count++ < LISTED && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (count > LISTED && used < size)
        snprintf(text + used, size - used, " and %zu more", count - LISTED);
    return count;
}

void qk__run_tell_failures(qk__run *run)
{
    const qk_analysis_results *results = run->results;
    size_t failed = 0;
    for (size_t i = 0; i < results->num_heads; i++)
        failed += results->heads[i].status != QK_OK;
    for (size_t i = 0; i < results->num_heads; i++) {
        char name[QK_HEAD_NAME_SIZE], others[QK_HEAD_NAME_SIZE * 10];
        const qk_head_results *head = &results->heads[i];
        if (head->status == QK_OK || count_alike(results, i, 0, i, others, sizeof others) > 0)
            continue;
        size_t count =
            1 + count_alike(results, i, i + 1, results->num_heads, others, sizeof others);
        if (count == failed && (count == 1 || count == results->num_heads))
            return; /* the verdict says it */
        qk_head_name(head->id, name);
        if (count > 1)
            qk__run_notice(run, QK_NOTICE_ERROR, "%s: %s (likewise %s)", name, reason_of(head),
                           others);
        else
            qk__run_notice(run, QK_NOTICE_ERROR, "%s: %s", name, reason_of(head));
    }
}

/* ---- what was read ---------------------------------------------------------------------- */

void qk__run_add_output(qk__run *run, const char *name, qk__outfile *file)
{
    run->outputs[run->num_outputs++] = file;
    run->results->outputs[run->results->num_outputs++] = name;
}

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
    run->inputs = qk__calloc(files, sizeof *run->inputs);
    return run->inputs ? QK_OK : qk__nomem(err);
}

/* A given size that contradicts what the capture says of itself pairs queries with keys of
 * others, even where it fits the heads that are there. */
static qk_status check_given_group(qk__run *run, int given, qk_error *err)
{
    int own = qk_capture_get_info(run->capture)->q_per_kv_group;
    if (given <= 0 || own <= 0 || given == own)
        return QK_OK;
    char message[128];
    snprintf(message, sizeof message,
             "group size %d contradicts capture.json, which says %d: give that one, or none",
             given, own);
    if (run->settings->strict)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s", message);
    qk__run_notice(run, QK_NOTICE_WARNING, "%s", message);
    return QK_OK;
}

static qk_status settle_group(qk__run *run, qk_error *err)
{
    qk_group *group = &run->results->group;
    int given = run->settings->q_per_kv_group;
    QK_TRY(qk_capture_group(run->capture, given, group, err));
    if (group->consistent)
        QK_TRY(check_given_group(run, given, err));
    if (!group->consistent) {
        char hint[128] = "no other size fits either";
        if (group->alternative)
            snprintf(hint, sizeof hint, "%d fits: use --q-per-kv-group %d", group->alternative,
                     group->alternative);
        if (run->settings->strict)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "group size %d does not fit the heads of this capture; %s",
                            group->size, hint);
        qk__run_notice(run, QK_NOTICE_WARNING,
                       "group size %d does not fit the heads of this capture; %s", group->size,
                       hint);
    } else if (group->source == QK_GROUP_INFERRED) {
        qk__run_notice(run, QK_NOTICE_INFO,
                       "group size %d (query heads per key head) inferred from the heads "
                       "present%s",
                       group->size,
                       group->num_consistent > 1 ? "; larger sizes fit too: give "
                                                   "--q-per-kv-group to choose"
                                                 : "");
    }
    return QK_OK;
}

/* The name in the tables' model column: given, or the capture's own, or the Hub's. A folder
 * name says nothing about the model, and would make equal captures give unequal tables. */
static const char *model_name(const qk__run *run, bool is_folder)
{
    const char *own = qk_capture_get_info(run->capture)->model;
    if (run->settings->model_name)
        return run->settings->model_name;
    if (own[0])
        return own;
    return is_folder ? "" : run->settings->capture;
}

qk_status qk__run_open(qk__run *run, const qk_analysis_settings *settings, qk_error *err)
{
    *run = (qk__run){.settings = settings, .jobs = "heads", .folder.lock = -1};
    run->silent = settings->shard.index > 0;
    pthread_mutex_init(&run->lock, NULL);
    atomic_init(&run->cancelled, false);
    double start = qk__now();
    char *path = NULL;
    qk_status status = QK_ERR_ARGUMENT;
    if (!settings->capture)
        return qk__fail(err, status, "no capture given");
    run->results = calloc(1, sizeof *run->results);
    if (!run->results)
        return qk__nomem(err);
    status = qk_hub_find_dataset(settings->capture, settings->revision, settings->local_root,
                                 &path, err);
    if (status != QK_OK)
        return status;
    status = qk_capture_open(&run->capture, path, settings->prefix, err);
    bool is_folder = qk__is_dir(settings->capture);
    free(path);
    if (status != QK_OK)
        return status;
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    if (info->has_manifest && !info->complete)
        qk__run_notice(run, QK_NOTICE_WARNING,
                       "%s: capture.json says that this capture was not finished",
                       qk_capture_path(run->capture));
    char names[QK_HEAD_NAME_SIZE * 10];
    size_t missing = qk__capture_missing(run->capture, names, sizeof names);
    if (missing > 0 && !qk__run_does(run, QK__ANALYSE_STAGES)) /* which names them all */
        qk__run_notice(run, QK_NOTICE_WARNING,
                       "%s: %zu of the %zu heads that capture.json lists are not there: %s",
                       qk_capture_path(run->capture), missing,
                       qk_capture_num_heads(run->capture), names);
    run->threads = settings->threads > 0 ? settings->threads : qk__available_threads();
    run->results->threads = run->threads;
    run->results->contents = qk__contents_of(settings);
    run->results->num_layers = qk_capture_num_layers(run->capture);
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

size_t qk__run_count_texts(const qk__run *run, size_t examples)
{
    int64_t texts = qk_capture_get_info(run->capture)->num_texts;
    return texts > 0 && (size_t)texts < examples ? (size_t)texts : examples;
}

void qk__run_close(qk__run *run)
{
    for (size_t i = 0; i < run->num_outputs; i++)
        qk__outfile_discard(&run->outputs[i]);
    for (int i = 0; run->readers && i < run->threads; i++)
        qk_rows_close(&run->readers[i]);
    free(run->readers);
    for (size_t i = 0; i < run->num_spare; i++)
        free(run->spare[i].memory);
    free(run->spare);
    qk_capture_close(&run->capture);
    free(run->inputs);
    free(run->first_input);
    json_decref(run->staying);
    qk__manifest_free(&run->before);
    qk__folder_release(&run->folder);
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
