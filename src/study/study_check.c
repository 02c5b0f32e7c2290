/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the results of a model can be kept: they were made by this version, with these settings, from the files that
 * a run would read now. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/common.h>

#include "analysis/run.h"
#include "analysis/run_manifest.h"
#include "analysis/run_states.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "base/parallel.h"
#include "capture/packed_file.h"
#include "tables/text_lengths.h"
#include "schema/schema.h"
#include "study/study.h"

typedef struct checker {
    const qk__study_work *work;
    qk__study_check *check;
    qk__run run;            /* opened, nothing read */
    const json_t *manifest; /* entry of the run; NULL: no single complete run */
    size_t num_inputs;      /* run.inputs has the files to read, named as in the manifest */
} checker;

/* Notes why the results cannot be kept; the first reason stays. */
static void reject(qk__study_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void reject(qk__study_check *check, const char *fmt, ...)
{
    va_list args;
    if (!check->stands)
        return;
    check->stands = false;
    va_start(args, fmt);
    vsnprintf(check->reason, sizeof check->reason, fmt, args);
    va_end(args);
}

/* ---- settings --------------------------------------------------------------------------- */

static bool same(const json_t *object, const char *key, json_t *expected)
{
    bool equal = expected && json_equal(json_object_get(object, key), expected);
    json_decref(expected);
    return equal;
}

/* Name of the first key whose value differs, for the user. */
static const char *find_difference(json_t *was, json_t *is)
{
    const char *key;
    json_t *value;
    json_object_foreach(is, key, value)
    {
        json_t *other = json_object_get(was, key);
        if (json_equal(value, other))
            continue;
        if (json_is_object(value) && json_is_object(other))
            return find_difference(other, value);
        return key;
    }
    return "analyses";
}

static void check_settings(qk__study_check *check, const json_t *manifest,
                           const qk_analysis_settings *s)
{
    const char *version = json_string_value(json_object_get(manifest, "qkscope"));
    json_t *settings = qk__describe_settings(s);
    json_t *was = json_object_get(manifest, "settings");
    if (!version || strcmp(version, QK_VERSION) != 0)
        reject(check, "made by qkscope %.40s, this is %s", version ? version : "?", QK_VERSION);
    else if (!json_equal(was, settings))
        reject(check, "other settings: %.60s", find_difference(was, settings));
    else if (!same(manifest, "model", qk__json_text(s->model_name)))
        reject(check, "another name in the model column");
    else if (json_integer_value(json_object_get(manifest, "heads_without_numbers")) != 0)
        reject(check, "some heads had no numbers");
    json_decref(settings);
}

/* Compares what the manifest says of the capture. */
static void check_capture(checker *c)
{
    if (!same(c->manifest, "group", qk__describe_group(&c->run.results->group)))
        reject(c->check, "another group size");
    else if (!same(c->manifest, "capture_json", qk__describe_capture_json(&c->run)))
        reject(c->check, "capture.json has changed");
}

/* The tables must be there, as the run wrote them. */
static qk_status check_tables(qk__study_check *check, const qk__manifest *before,
                              const char *folder, qk_error *err)
{
    json_t *changes;
    for (size_t i = 0; i < qk__num_tables; i++) {
        const char *name = qk__tables[i].info.name;
        if (qk__has_table(&qk__tables[i], check->contents) && !qk__is_file_in(folder, name))
            reject(check, "%s is missing", name);
    }
    if (!check->stands)
        return QK_OK;
    QK_TRY(qk__manifest_changes(before, folder, &changes, err));
    if (json_array_size(changes) > 0)
        reject(check, "%s", json_string_value(json_array_get(changes, 0)));
    json_decref(changes);
    return QK_OK;
}

/* ---- inputs ----------------------------------------------------------------------------- */

/* Marks the heads that a run would read: the selected query heads, and their key heads. */
static qk_status mark_heads(const qk__run *run, bool *wanted, qk_error *err)
{
    qk__targets targets;
    QK_TRY(qk__select_heads(run, QK_KINDS_Q, &targets, err));
    for (size_t i = 0; i < targets.count; i++) {
        qk_head_id q = targets.ids[i], k;
        const qk_head *key = qk__find_keys(run, q.layer, q.head, &k);
        wanted[qk_capture_find(run->capture, q)->index] = key != NULL;
        if (key)
            wanted[key->index] = true;
    }
    free(targets.ids);
    return QK_OK;
}

/* Pairs a file with its entry in the manifest: both lists are in capture order. */
static void add_input(checker *c, const char *path, const qk_head *head, size_t file)
{
    const json_t *entry = json_array_get(json_object_get(c->manifest, "inputs"), c->num_inputs);
    const char *hash = json_string_value(json_object_get(entry, "xxh3_128"));
    qk__input *input = &c->run.inputs[c->num_inputs++];
    *input = (qk__input){.path = path, .head = head, .file = file};
    char *name = qk__input_name(&c->run, input);
    if (!name || !same(entry, "file", qk__json_text(name)))
        reject(c->check, "%.200s is not the file read then", name ? name : "?");
    free(name);
    input->print.bytes = json_integer_value(json_object_get(entry, "bytes"));
    snprintf(input->print.hash, sizeof input->print.hash, "%s", hash ? hash : "");
}

static bool wants_layer(const qk__run *run, const bool *wanted, int layer)
{
    bool wants = false;
    for (size_t i = 0; i < qk_capture_num_heads(run->capture); i++)
        wants = wants || (wanted[i] && qk_capture_head(run->capture, i)->id.layer == layer);
    return wants;
}

static void list_inputs(checker *c, const bool *wanted)
{
    for (size_t i = 0; i < qk_capture_num_heads(c->run.capture); i++) {
        const qk_head *head = qk_capture_head(c->run.capture, i);
        bool read = wanted[i] && qk__states_need_rows(&c->run);
        for (size_t f = 0; read && f < head->num_files; f++)
            add_input(c, head->files[f], head, f);
    }
    const bool attends = qk__run_does(&c->run, QK_ANALYSE_ATTENTION);
    for (size_t l = 0; l < (attends ? c->run.states.files : c->run.states.count); l++)
        if (wants_layer(&c->run, wanted, c->run.states.layers[l].layer))
            add_input(c, c->run.states.layers[l].path, NULL, 0);
    size_t were = json_array_size(json_object_get(c->manifest, "inputs"));
    if (were != c->num_inputs)
        reject(c->check, "%zu files to read, %zu were read then", c->num_inputs, were);
}

static qk_status compare_file(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    qk__run *run = context;
    const qk__input *in = &run->inputs[i];
    qk__file_print now;
    if (atomic_load(&run->cancelled))
        return QK_OK;
    bool equal = qk__input_print(in, true, &now) == QK_OK && now.bytes == in->print.bytes &&
                 strcmp(now.hash, in->print.hash) == 0;
    qk__run_progress(run, 1, now.bytes, 0);
    if (equal)
        return QK_OK;
    char *name = qk__input_name(run, in);
    qk_status status =
        qk__fail(err, QK_ERR_INCONSISTENT, "%.200s has changed", name ? name : "a file");
    free(name);
    return status;
}

/* Reads every file, and so comes last. */
static qk_status compare_files(checker *c, qk_error *err)
{
    qk_error why;
    c->run.jobs = "files";
    c->run.total_jobs = c->num_inputs;
    qk_status status =
        qk__parallel_try(c->num_inputs, c->work->context.threads, compare_file, &c->run, &why);
    if (atomic_load(&c->run.cancelled))
        return qk__fail(err, QK_ERR_CANCELLED, "stopped before the end");
    if (status != QK_OK)
        reject(c->check, "%s", why.message);
    return QK_OK;
}

static qk_status check_inputs(checker *c, qk_error *err)
{
    QK_TRY(qk__run_list_inputs(&c->run, err));
    bool *wanted = qk__calloc(qk_capture_num_heads(c->run.capture), sizeof *wanted);
    qk_status status = wanted ? mark_heads(&c->run, wanted, err) : qk__nomem(err);
    if (status == QK_OK)
        list_inputs(c, wanted);
    free(wanted);
    QK_TRY(status);
    return c->check->stands ? compare_files(c, err) : QK_OK;
}

/* ---- all together ----------------------------------------------------------------------- */

/* Checks all but what the capture says. */
static qk_status check_results(qk__study_check *check, const qk__manifest *before,
                               const json_t *manifest, const qk_analysis_settings *settings,
                               qk_error *err)
{
    check->stands = true;
    check->num_heads = (size_t)json_integer_value(json_object_get(manifest, "heads"));
    if (!manifest)
        reject(check, "%s",
               !before->complete ? "a run was stopped before its end"
               : before->runs    ? "another command wrote into its folder"
                                 : "no results yet");
    else
        check_settings(check, manifest, settings);
    return check_tables(check, before, settings->output, err);
}

static qk_status check_manifest(checker *c, qk_error *err)
{
    QK_TRY(check_results(c->check, &c->run.before, c->manifest, c->run.settings, err));
    if (c->check->stands)
        check_capture(c);
    if (c->check->stands && c->work->run->force)
        reject(c->check, "forced");
    return c->check->stands ? check_inputs(c, err) : QK_OK;
}

/* A folder that also has runs of others is computed again. */
static const json_t *only_run(const qk__manifest *manifest)
{
    bool alone = manifest->complete && json_array_size(manifest->runs) == 1;
    return alone ? json_array_get(manifest->runs, 0) : NULL;
}

qk_status qk__study_check_model(const qk__study_work *work, size_t i, qk__study_check *check,
                                qk_error *err)
{
    checker c = {.work = work, .check = check};
    /* Warnings about opening a capture belong to the run that follows. */
    qk__relay relay = {.to = &work->context,
                       .held_back = QK__ALL_NOTICES & ~(1U << QK_NOTICE_REMARK)};
    qk_analysis_settings settings = qk__study_settings(work, i);
    *check = (qk__study_check){0};
    settings.context = qk__relay_context(&relay);
    if (work->plan->folders[i] && !qk__is_dir(settings.capture)) /* say what was written */
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: no such folder (a dataset would be written {dataset: org/name})",
                        settings.capture);
    qk_status status = qk__run_open(&c.run, &settings, err);
    if (status == QK_OK) {
        status = qk__manifest_read(&c.run.before, settings.output, err);
        c.manifest = only_run(&c.run.before);
        check->contents = c.run.results->contents;
        if (status == QK_OK)
            status = check_manifest(&c, err);
        check->warnings = json_incref(json_object_get(c.manifest, "warnings"));
        check->lengths = qk__lengths_of_json(json_object_get(c.manifest, "lengths"));
        check->num_layers = c.run.results->num_layers;
        check->rowless = c.run.states.count > 0 && !c.run.states.has_rows;
        check->capture = qk__strdup(qk_capture_path(c.run.capture));
        check->shape = qk__study_shape_of(c.run.capture);
    }
    qk_analysis_results_free(&c.run.results);
    qk__run_close(&c.run);
    return status;
}
