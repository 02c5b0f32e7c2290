/* SPDX-License-Identifier: Apache-2.0 */
/* Reads in the manifests of a results folder what a reader of the page asks first: which data, when, where,
 * which version, and which warnings. */
#include "report/manifests.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "tables/manifest.h"

static bool holds(const json_t *array, const char *text)
{
    size_t i;
    const json_t *one;
    json_array_foreach(array, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), text) == 0)
            return true;
    }
    return false;
}

/* ---- one run ---------------------------------------------------------------------------- */

/* ".../datasets--org--name/snapshots/0123abcd/post" is org/name at 0123abcd; any other path is
 * itself. */
static json_t *name_source(json_t *entry, const char *capture)
{
    static const char DATASET[] = "datasets--", SNAPSHOT[] = "/snapshots/";
    const char *start = strstr(capture, DATASET), *commit = "";
    const char *end = start ? strstr(start, SNAPSHOT) : NULL;
    char *name = NULL;
    if (end && !memchr(start, '/', (size_t)(end - start))) {
        start += sizeof DATASET - 1;
        commit = end + sizeof SNAPSHOT - 1;
        const char *split = strstr(start, "--");
        int first = (int)((split && split < end ? split : end) - start);
        name = split && split < end
                   ? qk__format("%.*s/%.*s", first, start, (int)(end - split - 2), split + 2)
                   : qk__format("%.*s", first, start);
    } else {
        name = qk__strdup(capture);
    }
    char *hash = qk__format("%.*s", (int)strcspn(commit, "/"), commit);
    entry = qk__json_set(entry, "source", qk__json_text(name));
    entry = qk__json_set(entry, "commit", qk__json_text(hash));
    free(name);
    free(hash);
    return entry;
}

static json_t *add_warning(json_t *warnings, const char *text, const char *model)
{
    json_t *models = json_object_get(warnings, text);
    if (!models) {
        warnings = qk__json_set(warnings, text, json_array());
        models = json_object_get(warnings, text);
    }
    if (models && !holds(models, model) &&
        json_array_append_new(models, qk__json_text(model)) != 0) {
        json_decref(warnings);
        return NULL;
    }
    return warnings;
}

static void add_failures(qk__manifests *p, const json_t *run, const char *model)
{
    size_t i;
    const json_t *failure;
    json_array_foreach(json_object_get(run, "failures"), i, failure)
    {
        p->failures = qk__json_append(
            p->failures, json_pack("{s:o, s:o}", "model", qk__json_text(model), "head",
                                   qk__json_text(qk__json_string(failure, "head"))));
    }
}

static void add_run(qk__manifests *p, const json_t *run, const char *label)
{
    size_t i;
    const json_t *warning;
    const char *model = *label ? label : qk__json_string(run, "model");
    const json_t *settings = json_object_get(run, "settings");
    json_t *tables = json_object_get(run, "tables");
    tables = json_is_array(tables) ? json_incref(tables) : json_array();
    json_t *entry = json_pack(
        "{s:O, s:O, s:b, s:o, s:o, s:o, s:o, s:o}", "run", run, "tables", tables, "ci",
        json_number_value(json_object_get(settings, "ci")) > 0, "model", qk__json_text(model),
        "capture", qk__json_text(qk__json_string(run, "capture")), "date",
        qk__json_text(qk__json_string(run, "date")), "host",
        qk__json_text(qk__json_string(run, "host")), "version",
        qk__json_text(qk__json_string(run, "qkscope")));
    json_decref(tables);
    p->runs = qk__json_append(p->runs, name_source(entry, qk__json_string(run, "capture")));
    json_array_foreach(json_object_get(run, "warnings"), i, warning)
    {
        if (json_is_string(warning))
            p->warnings = add_warning(p->warnings, json_string_value(warning), model);
    }
    add_failures(p, run, model);
    p->failed_heads += json_integer_value(json_object_get(run, "heads_without_numbers"));
    p->heads_with_files += json_integer_value(json_object_get(run, "heads"));
}

/* ---- all of them ------------------------------------------------------------------------ */

static qk_status add_folder_runs(qk__manifests *p, const char *folder, const char *label,
                                 qk_error *err)
{
    size_t i;
    const json_t *run;
    qk__manifest manifest;
    QK_TRY(qk__manifest_read(&manifest, folder, err));
    json_array_foreach(manifest.runs, i, run)
    {
        add_run(p, run, label);
    }
    qk__manifest_free(&manifest);
    return QK_OK;
}

/* The runs of a study's model; its folder lies in the study's, whatever the manifest says. */
static qk_status add_model_runs(qk__manifests *p, const char *study, const json_t *model,
                                qk_error *err)
{
    const char *folder = qk__json_string(model, "folder"),
               *label = qk__json_string(model, "label");
    static const char *const TOLD[] = {"message", "related"};
    for (size_t i = 0; i < sizeof TOLD / sizeof *TOLD; i++)
        if (*qk__json_string(model, TOLD[i]))
            p->warnings = add_warning(p->warnings, qk__json_string(model, TOLD[i]), label);
    if (strncmp(folder, "models/", 7) != 0 || strstr(folder, ".."))
        return QK_OK;
    char *path = qk__path_join(study, folder);
    qk_status status = path ? add_folder_runs(p, path, label, err) : qk__nomem(err);
    free(path);
    return status;
}

static qk_status add_models(qk__manifests *p, const char *study, const json_t *models,
                            qk_error *err)
{
    size_t i;
    const json_t *model;
    json_array_foreach(models, i, model)
    {
        QK_TRY(add_model_runs(p, study, model, err));
    }
    return QK_OK;
}

qk_status qk__manifests_read(const char *folder, qk__manifests *manifests, qk_error *err)
{
    qk__manifest manifest;
    *manifests = (qk__manifests){
        .runs = json_array(), .warnings = json_object(), .failures = json_array()};
    QK_TRY(qk__manifest_read(&manifest, folder, err));
    qk_status status =
        manifest.is_study
            ? add_models(manifests, folder, json_object_get(manifest.root, "models"), err)
            : add_folder_runs(manifests, folder, "", err);
    qk__manifest_free(&manifest);
    if (status == QK_OK && (!manifests->runs || !manifests->warnings || !manifests->failures))
        status = qk__nomem(err);
    return status;
}

void qk__manifests_free(qk__manifests *manifests)
{
    json_decref(manifests->runs);
    json_decref(manifests->warnings);
    json_decref(manifests->failures);
    *manifests = (qk__manifests){0};
}

static bool has_made(const json_t *entry, const char *table)
{
    return holds(json_object_get(json_object_get(entry, "run"), "tables"), table);
}

const json_t *qk__manifests_run(const qk__manifests *manifests, const char *name,
                                const char *label)
{
    size_t i;
    const json_t *entry, *found = NULL;
    json_array_foreach(manifests->runs, i, entry)
    {
        const char *model = qk__json_string(entry, "model"),
                   *capture = qk__json_string(entry, "capture");
        if (!*capture || (strcmp(model, name) != 0 && strcmp(model, label) != 0))
            continue;
        if (found && strcmp(qk__json_string(found, "capture"), capture) != 0)
            return NULL;
        if (!found || has_made(entry, "heads.csv"))
            found = entry;
    }
    return found;
}

const json_t *qk__manifests_stages(const qk__manifests *manifests, const char *name,
                                   const char *label)
{
    size_t i;
    const json_t *entry, *found = NULL;
    json_array_foreach(manifests->runs, i, entry)
    {
        const char *model = qk__json_string(entry, "model");
        const json_t *run = json_object_get(entry, "run");
        if (json_object_get(run, "before_rope") &&
            (strcmp(model, name) == 0 || strcmp(model, label) == 0))
            found = run;
    }
    return found;
}

const char *qk__manifests_capture(const qk__manifests *manifests, const char *name,
                                  const char *label)
{
    const json_t *entry = qk__manifests_run(manifests, name, label);
    return entry ? qk__json_string(entry, "capture") : NULL;
}
