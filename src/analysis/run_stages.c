/* SPDX-License-Identifier: Apache-2.0 */
/* Captures before and after RoPE side by side: opens both, goes head by head, gives the verdict. The run is that of
 * the capture after RoPE; the other run only lends its files. */
#include "analysis/stages.h"
#include "analysis/head_lengths.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "capture/capture.h"
#include "paths/path_kind.h"
#include "schema/schema.h"
#include "settings/settings.h"

/* Query heads that share a key head; neighbours in the results. */
typedef struct stage_group {
    qk_head_id key;
    size_t first, end;
} stage_group;

typedef struct stages {
    qk__run run, before;
    qk_stages_results *results;
    stage_group *groups;
    size_t num_groups;
} stages;

static const qk_setting ROWS[] = {
    {"before", QK_SETTING_TEXT, QK_SETTING_AT(qk_stages_settings, before), .value = "PRE",
     .help = "capture before RoPE, or a folder with both", .section = "Input", .commands = ""},
    {"after", QK_SETTING_TEXT, QK_SETTING_AT(qk_stages_settings, after), .value = "POST",
     .help = "capture after RoPE", .section = "Input", .commands = ""},
    QK_SETTING_PART(qk_stages_settings, input, qk_analysis_settings_table),
};

const qk_settings_table qk_stages_settings_table = {QK_SETTINGS_ROWS(qk_stages_settings, ROWS)};

void qk_stages_results_free(qk_stages_results **results)
{
    assert(results);
    qk_stages_results *r = *results;
    if (!r)
        return;
    for (size_t i = 0; r->run && r->heads && i < r->run->num_heads; i++)
        qk__head_stages_free(&r->heads[i]);
    free(r->heads);
    free(r->before);
    qk_analysis_results_free(&r->run);
    free(r);
    *results = NULL;
}

/* ---- the two captures ------------------------------------------------------------------- */

/* What a capture without its capture.json lacks: the frequencies after RoPE, and a name that shows that both belong
 * together. */
static qk_status check_manifests(const stages *c, qk_error *err)
{
    const char *after_path = qk_capture_path(c->run.capture);
    const char *before_path = qk_capture_path(c->before.capture);
    if (!qk_capture_get_info(c->run.capture)->has_manifest)
        return qk__fail(
            err, QK_ERR_NOT_FOUND,
            "%s has no capture.json, whose rope_frequencies and model's name are needed: put "
            "the file back, or copy that of another capture of this model after RoPE",
            after_path);
    if (!qk_capture_get_info(c->before.capture)->has_manifest && !c->run.settings->model_name)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s has no capture.json, so nothing says that it is of the model '%s', "
                        "as %s is: put the file back, or say so with --model-name '%s'",
                        before_path, c->run.results->model, after_path, c->run.results->model);
    return QK_OK;
}

/* Both are of the same model, and each of its own stage. */
static qk_status check_captures(const stages *c, qk_error *err)
{
    const qk__run *run = &c->run, *before = &c->before;
    const char *after_path = qk_capture_path(run->capture);
    const char *before_path = qk_capture_path(before->capture);
    qk_stage first = qk_capture_get_info(before->capture)->stage;
    qk_stage second = qk_capture_get_info(run->capture)->stage;
    QK_TRY(check_manifests(c, err));
    if (first == QK_STAGE_POST_ROPE && second == QK_STAGE_PRE_ROPE)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s is after RoPE and %s before it: swap the two", before_path,
                        after_path);
    if (first == QK_STAGE_POST_ROPE || second == QK_STAGE_PRE_ROPE)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: capture.json says that it is %s RoPE; give the capture before it "
                        "first, then the one after it",
                        first == QK_STAGE_POST_ROPE ? before_path : after_path,
                        first == QK_STAGE_POST_ROPE ? "after" : "before");
    if (strcmp(run->results->model, before->results->model) != 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s is of the model '%s', and %s of '%s': give both stages of one",
                        before_path, before->results->model, after_path, run->results->model);
    if (run->capture->rope.count == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: capture.json has no rope_frequencies, by which rows before RoPE "
                        "are turned: capture both stages with qkscope capture --stage both, or "
                        "add them (docs/formats.md)",
                        after_path);
    return QK_OK;
}

static qk_status open_side(qk__run *run, qk_analysis_settings *settings, const char *path,
                           const char *prefix, qk_error *err)
{
    settings->capture = path;
    settings->prefix = prefix;
    qk_status status = qk__run_open(run, settings, err);
    if (status == QK_ERR_NOT_FOUND && prefix && !run->capture && qk__is_dir(path)) {
        qk__context(err, status,
                    "%s does not hold both captures, pre and post (those of qkscope capture "
                    "--stage both): give two folders, PRE and POST",
                    path);
        return qk__path_tell(path, QK__PATH_CAPTURE, QK_ERR_NOT_FOUND, err);
    }
    return status;
}

static qk_status open_captures(stages *c, const qk_stages_settings *settings,
                               qk_analysis_settings input[2], qk_error *err)
{
    bool one = !settings->after;
    QK_TRY(open_side(&c->run, &input[0], one ? settings->before : settings->after,
                     one ? "post" : NULL, err));
    input[1].context = c->run.context; /* its notices go through this run */
    input[1].combined = false; /* the other side gives the group size, and has told of it */
    QK_TRY(open_side(&c->before, &input[1], settings->before, one ? "pre" : NULL, err));
    input[1].combined = true;
    c->run.before_rope = &c->before;
    QK_TRY(check_captures(c, err));
    QK_TRY(qk__run_list_inputs(&c->run, err));
    return qk__run_list_inputs(&c->before, err);
}

/* ---- heads ------------------------------------------------------------------------------ */

/* The heads of either capture, in order. */
static qk_status choose_heads(stages *c, qk_error *err)
{
    qk__targets a = {0}, b = {0};
    qk_status status = qk__select_heads(&c->run, QK_KINDS_Q, &a, err);
    if (status == QK_OK)
        qk__tell_absent_heads(&c->run);
    if (status == QK_OK)
        status = qk__select_heads(&c->before, QK_KINDS_Q, &b, err);
    qk_head_id *ids = status == QK_OK ? qk__calloc(a.count + b.count, sizeof *ids) : NULL;
    if (status == QK_OK && !ids)
        status = qk__nomem(err);
    size_t count = 0;
    for (size_t i = 0, j = 0; ids && (i < a.count || j < b.count);) {
        int order = i == a.count ? 1 : j == b.count ? -1 : qk__head_compare(a.ids[i], b.ids[j]);
        ids[count++] = order <= 0 ? a.ids[i] : b.ids[j];
        i += order <= 0;
        j += order >= 0;
    }
    free(a.ids);
    free(b.ids);
    if (status == QK_OK)
        status = qk__run_set_heads(&c->run, ids, count, err);
    free(ids);
    if (status != QK_OK)
        return status;
    c->results->heads = qk__calloc(count, sizeof *c->results->heads);
    c->groups = qk__calloc(count, sizeof *c->groups);
    return c->results->heads && c->groups ? QK_OK : qk__nomem(err);
}

static bool is_there(const qk__run *run, qk_head_id id)
{
    const qk_head *head = qk_capture_find(run->capture, id);
    return head && !head->missing;
}

/* The run whose capture lacks the head; NULL: both have it. */
static const qk__run *lacks(const stages *c, qk_head_id id)
{
    if (!is_there(&c->run, id))
        return &c->run;
    return is_there(&c->before, id) ? NULL : &c->before;
}

static void fail_missing(stages *c, size_t i, qk_head_id id, const qk__run *where)
{
    char message[1024], name[QK_HEAD_NAME_SIZE];
    qk_head_name(id, name);
    snprintf(message, sizeof message, "%s%s%snot in the capture %s RoPE (%s): skipped",
             id.kind == QK_KEY ? "its key head " : "", id.kind == QK_KEY ? name : "",
             id.kind == QK_KEY ? " is " : "", where == &c->run ? "after" : "before",
             qk_capture_path(where->capture));
    c->run.results->heads[i].key_missing = id.kind == QK_KEY;
    qk__run_note_failure(&c->run, i, QK_ERR_NOT_FOUND, message);
}

/* Whether any pair of a layer turns. */
static bool turns(const stages *c, int layer)
{
    size_t pairs;
    const double *omega = qk_capture_rope_frequencies(c->run.capture, layer, &pairs);
    for (size_t p = 0; p < pairs; p++)
        if (omega[p] > 0)
            return true;
    return false;
}

/* Whether a head can be analysed. A head that one capture lacks is told of, a head of a layer without RoPE is counted. */
static bool is_ready(stages *c, size_t i)
{
    qk_head_results *head = &c->run.results->heads[i];
    qk_head_id key = {head->id.layer, head->id.head / c->run.results->group.size, QK_KEY};
    head->k_head = key.head;
    const qk__run *where = lacks(c, head->id);
    if (where || (where = lacks(c, key))) {
        fail_missing(c, i, is_there(where, head->id) ? key : head->id, where);
        return false;
    }
    if (turns(c, head->id.layer))
        return true;
    c->results->num_unrotated++;
    return false;
}

static void plan(stages *c)
{
    const qk_analysis_results *results = c->run.results;
    for (size_t i = 0; i < results->num_heads; i++) {
        if (!is_ready(c, i))
            continue;
        qk_head_id key = {results->heads[i].id.layer, results->heads[i].k_head, QK_KEY};
        if (c->num_groups == 0 ||
            qk__head_compare(c->groups[c->num_groups - 1].key, key) != 0) {
            c->groups[c->num_groups++] = (stage_group){key, i, i + 1};
        }
        c->groups[c->num_groups - 1].end = i + 1;
        c->run.total_jobs++;
    }
}

/* ---- analysing -------------------------------------------------------------------------- */

static bool is_planned(const stages *c, size_t i)
{
    return c->run.results->heads[i].status == QK_OK &&
           turns(c, c->run.results->heads[i].id.layer);
}

static void analyse_head(stages *c, int worker, size_t i, const qk__stage_keys *keys)
{
    qk_error err = {0};
    qk__stage_data queries;
    qk_head_results *head = &c->run.results->heads[i];
    qk_status status = qk__stage_data_read(&c->run, worker, head->id, &queries, &err);
    int64_t bytes = queries.after.bytes + queries.before.bytes;
    if (status == QK_OK) {
        head->rows_q = (int64_t)queries.after.rows.rows;
        head->rows_k = (int64_t)keys->data.after.rows.rows;
        head->texts_q = qk__run_count_texts(&c->run, queries.after.num_texts);
        head->texts_k = qk__run_count_texts(&c->run, keys->data.after.num_texts);
        head->lengths = queries.after.lengths;
        qk__lengths_widen(&head->lengths, &keys->data.after.lengths);
        status = qk__stage_head_analyse(&c->run, &queries, keys, &c->results->heads[i], &err);
        head->stages = c->results->heads[i];
    }
    if (status != QK_OK)
        qk__run_note_failure(&c->run, i, status, err.message);
    qk__stage_data_free(&c->run, &queries);
    qk__run_progress(&c->run, 1, bytes, head->rows_q);
}

static void fail_group(stages *c, const stage_group *g, qk_status status, const char *message)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_error err;
    qk_head_name(g->key, name);
    qk__set_error(&err, status, "its key head %s has no numbers: %s", name, message);
    for (size_t i = g->first; i < g->end; i++)
        if (is_planned(c, i)) {
            qk__run_note_failure(&c->run, i, status, err.message);
            qk__run_progress(&c->run, 1, 0, 0);
        }
}

static void run_group(void *context, size_t g, int worker)
{
    stages *c = context;
    const stage_group *group = &c->groups[g];
    qk_error err = {0};
    qk__stage_keys keys;
    size_t pairs;
    if (atomic_load(&c->run.cancelled))
        return;
    const double *frequencies =
        qk_capture_rope_frequencies(c->run.capture, group->key.layer, &pairs);
    qk_status status =
        qk__stage_keys_read(&c->run, worker, group->key, frequencies, pairs, &keys, &err);
    qk__run_progress(&c->run, 0, keys.data.after.bytes + keys.data.before.bytes,
                     (int64_t)keys.data.after.rows.rows);
    if (status != QK_OK) {
        fail_group(c, group, status, err.message);
        return;
    }
    for (size_t i = group->first; i < group->end; i++)
        if (is_planned(c, i) && !atomic_load(&c->run.cancelled))
            analyse_head(c, worker, i, &keys);
    qk__stage_keys_free(&c->run, &keys);
}

/* Whether the keys of a group turn as capture.json says; else `err` says how they do. Keys that cannot be read do not
 * count. */
static bool is_turned(stages *c, size_t group, qk_error *err)
{
    qk__stage_keys keys;
    size_t pairs;
    qk_head_id key = c->groups[group].key;
    const double *frequencies = qk_capture_rope_frequencies(c->run.capture, key.layer, &pairs);
    qk_status status = qk__stage_keys_read(&c->run, 0, key, frequencies, pairs, &keys, err);
    if (status == QK_OK)
        qk__stage_keys_free(&c->run, &keys);
    return status == QK_OK || !keys.not_turned;
}

/* If capture.json does not say how rows turn, no head turns as expected: so some heads are tried before all are read.
 * One good head is enough to go on, since the others may be damaged. */
static qk_status check_some(stages *c, qk_error *err)
{
    enum { MOST = 3 };
    qk_error first = {0}, other = {0};
    size_t tried = c->num_groups < MOST ? c->num_groups : MOST;
    for (size_t i = 0; i < tried; i++) {
        size_t group = tried > 1 ? i * (c->num_groups - 1) / (tried - 1) : 0;
        if (is_turned(c, group, i == 0 ? &first : &other))
            return QK_OK;
    }
    if (tried == 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "stopped, since none of the %zu key heads tried is as it should be after "
                    "RoPE: %s",
                    tried, first.message);
}

/* ---- the run ---------------------------------------------------------------------------- */

static qk_status check_settings(const qk_stages_settings *s, qk_error *err)
{
    if (!s->before)
        return qk__fail(err, QK_ERR_ARGUMENT, "no capture given");
    return qk__settings_check(&qk_stages_settings_table, s, err);
}

static void note_unrotated(stages *c)
{
    if (c->results->num_unrotated > 0)
        qk__tell_notice(&c->run.context, QK_NOTICE_INFO,
                        "%zu of %zu heads are in layers for which capture.json has no "
                        "frequencies (NoPE): there is nothing to compare",
                        c->results->num_unrotated, c->run.results->num_heads);
}

static qk_status run_all(stages *c, qk_error *err)
{
    qk__run *run = &c->run;
    double start = qk__now();
    QK_TRY(choose_heads(c, err));
    plan(c);
    if (c->results->num_unrotated == run->results->num_heads)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: capture.json has no rope_frequencies for the layers asked for",
                        qk_capture_path(run->capture));
    note_unrotated(c);
    QK_TRY(check_some(c, err));
    qk__parallel_for(c->num_groups, run->threads, run_group, c);
    run->seconds_heads = qk__now() - start;
    if (atomic_load(&run->cancelled))
        return qk__fail(err, QK_ERR_CANCELLED, "stopped before the end; nothing was written");
    run->results->bytes_read = run->done_bytes;
    run->results->num_rows = (size_t)run->done_rows;
    qk__run_tell_failures(run);
    bool any = false;
    for (size_t i = 0; i < run->results->num_heads; i++)
        any = any || c->results->heads[i];
    qk_status verdict = qk__run_conclude(run, err);
    if (!any)
        return verdict == QK_ERR_PARTIAL ? QK_ERR_INCONSISTENT : verdict;
    QK_TRY(qk__find_lengths(run, err));
    qk__run_warn_of_few(run);
    if (run->settings->output)
        QK_TRY(qk__write_results(run, err));
    return verdict;
}

/* The settings of one side: a single analysis, with rows kept. */
static qk_analysis_settings side_of(const qk_stages_settings *settings)
{
    qk_analysis_settings input = settings->input;
    input.analyses = QK__ANALYSE_STAGES;
    input.combined = true;
    input.sample_heads = 0;
    input.allow_missing = false;
    input.ci = 0;
    return input;
}

static qk_status open_and_run(stages *c, const qk_stages_settings *settings,
                              qk_analysis_settings input[2], qk_error *err)
{
    QK_TRY(open_captures(c, settings, input, err));
    c->results->before = qk__strdup(qk_capture_path(c->before.capture));
    if (!c->results->before)
        return qk__nomem(err);
    if (settings->input.output)
        QK_TRY(qk__results_claim(&c->run, err));
    return run_all(c, err);
}

qk_status qk_stages_run(const qk_stages_settings *settings, qk_stages_results **results,
                        qk_error *err)
{
    QK_NEED(err, results);
    double start = qk__now();
    qk_error own = {0};
    err = err ? err : &own;
    *results = NULL;
    QK_NEED(err, settings);
    QK_TRY(check_settings(settings, err));
    qk_analysis_settings input[2] = {side_of(settings), side_of(settings)};
    stages c = {.run = {.folder.lock = -1}, .before = {.folder.lock = -1}};
    c.results = qk__calloc(1, sizeof *c.results);
    if (!c.results)
        return qk__nomem(err);
    qk_status status = open_and_run(&c, settings, input, err);
    c.results->run = c.run.results;
    if (c.run.results)
        c.run.results->seconds = qk__now() - start;
    if (status == QK_OK || status == QK_ERR_PARTIAL)
        *results = c.results;
    else
        qk_stages_results_free(&c.results);
    qk_analysis_results_free(&c.before.results);
    if (c.before.settings) /* it was opened, or tried to */
        qk__run_close(&c.before);
    qk__run_close(&c.run);
    free(c.groups);
    return status;
}
