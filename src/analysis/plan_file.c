/* SPDX-License-Identifier: Apache-2.0 */
/* plan.json beside the units of a run: its settings by name, so that `qkscope merge` can end a run
 * that it knows nothing of, and processes that were given different ones can tell. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/config.h"
#include "analysis/sharing.h"
#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "base/json_build.h"
#include "paths/path_kind.h"

#define PLAN "plan.json"
#define KIND "analysis"
enum { VERSION = 1 };

/* ---- writing ---------------------------------------------------------------------------- */

static qk_status add_setting(void *user, const char *name, const char *text, qk_error *err)
{
    json_t **object = user;
    *object = qk__json_set(*object, name, qk__json_text(text));
    return *object ? QK_OK : qk__nomem(err);
}

/* Those that are not the defaults, some of which no text can set. Where the tables go and on how many
 * threads is not the run's. */
static json_t *list_settings(const qk_analysis_settings *values)
{
    qk_analysis_settings standard;
    json_t *settings = json_object(), *defaults = json_object();
    const char *name;
    json_t *value;
    qk_analysis_settings_default(&standard);
    bool done = settings && defaults &&
                qk__each_setting(values, add_setting, &settings, NULL) == QK_OK &&
                qk__each_setting(&standard, add_setting, &defaults, NULL) == QK_OK;
    json_object_foreach(defaults, name, value)
    {
        if (json_equal(value, json_object_get(settings, name)))
            json_object_del(settings, name);
    }
    json_object_del(settings, "output");
    json_object_del(settings, "threads");
    json_decref(defaults);
    if (done)
        return settings;
    json_decref(settings);
    return NULL;
}

qk_status qk__plan_write(const qk__run *run, qk_error *err)
{
    const qk_analysis_settings *s = run->settings;
    qk__outfile *file;
    char *path = qk__units_path(&run->units_at, NULL, PLAN);
    char *here = realpath(".", NULL);
    qk_status status = path ? QK_OK : qk__nomem(err);
    if (status == QK_OK && !qk__is_file(path)) {
        json_t *root =
            json_pack("{s:s, s:i, s:s, s:o, s:I, s:o, s:o, s:o}", "kind", KIND, "version",
                      VERSION, "qkscope", QK_VERSION, "folder", qk__json_text_or_null(here),
                      "units", (json_int_t)run->num_units, "settings", list_settings(s),
                      "device", qk__json_text_or_null(s->device), "pca_backend",
                      qk__json_text_or_null(s->pca_backend));
        status = qk__json_write(root, run->units_at.path, PLAN, &file, err);
        if (status == QK_OK)
            status = qk__outfile_commit(&file, err);
    }
    free(path);
    free(here);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------- */

static qk_status set_all(qk_settings *named, json_t *settings, qk_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(settings, name, value)
    {
        if (!json_is_string(value))
            return qk__fail(err, QK_ERR_MALFORMED, "settings.%s is no text", name);
        QK_TRY(qk_settings_set(named, name, json_string_value(value), err));
    }
    return QK_OK;
}

/* A capture that was named from another folder is found from there. */
static qk_status find_capture(qk_config *config, const json_t *root, qk_error *err)
{
    const char *folder = json_string_value(json_object_get(root, "folder"));
    const char *capture = config->settings.capture;
    char *here = realpath(".", NULL);
    bool moved = folder && capture && *capture != '/' && here && strcmp(here, folder) != 0;
    free(here);
    if (!moved)
        return QK_OK;
    char *path = qk__path_join(folder, capture);
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (qk__is_dir(path)) /* else it is org/name */
        status = qk_settings_set(config->named, "capture", path, err);
    free(path);
    config->settings.capture =
        ((const qk_analysis_settings *)qk_settings_values(config->named))->capture;
    return status;
}

static qk_status take_plan(qk_config *config, json_t *root, qk_error *err)
{
    const char *version = json_string_value(json_object_get(root, "qkscope"));
    json_t *settings = json_object_get(root, "settings");
    if (json_integer_value(json_object_get(root, "version")) != VERSION || !version ||
        strcmp(version, QK_VERSION) != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "its units are of qkscope %.40s, and this is %s: end the run with that "
                        "one, or remove the folder and run it anew",
                        version ? version : "(no version)", QK_VERSION);
    if (!json_is_object(settings))
        return qk__fail(err, QK_ERR_MALFORMED, "it has no settings");
    QK_TRY(qk_settings_new(&config->named, &qk_analysis_settings_table, NULL, err));
    QK_TRY(set_all(config->named, settings, err));
    config->settings = *(const qk_analysis_settings *)qk_settings_values(config->named);
    config->plan = json_incref(root);
    config->settings.device = json_string_value(json_object_get(root, "device"));
    config->settings.pca_backend = json_string_value(json_object_get(root, "pca_backend"));
    return find_capture(config, root, err);
}

/* The plan of run `name`; NULL where it is no analysis, or none is there. */
static qk_status read_plan(const char *folder, const char *name, json_t **plan, qk_error *err)
{
    qk__unit_folder units;
    *plan = NULL;
    QK_TRY(qk__units_open(&units, folder, name, err));
    char *path = qk__units_path(&units, NULL, PLAN);
    qk_status status = path ? QK_OK : qk__nomem(err);
    if (status == QK_OK && qk__is_file(path))
        status = qk__json_read_file(plan, path, QK__JSON_RUN, err);
    const char *kind = json_string_value(json_object_get(*plan, "kind"));
    if (*plan && (!kind || strcmp(kind, KIND) != 0)) {
        json_decref(*plan);
        *plan = NULL;
    }
    free(path);
    qk__units_close(&units);
    return status;
}

/* Whether it is an analysis; then the settings of run `name`, unless config is NULL. */
static qk_status load_plan(const char *folder, const char *name, qk_config *config, bool *is,
                           qk_error *err)
{
    json_t *root;
    qk_status status = read_plan(folder, name, &root, err);
    *is = root != NULL;
    if (root && config)
        status = qk__context(err, take_plan(config, root, err), "%s/%s/%s/%s", folder,
                             QK__UNITS_NAME, name, PLAN);
    json_decref(root);
    return status;
}

/* Of both stages of RoPE a capture lies in two folders. A finished one has all that it lists. */
static qk_status check_capture(const char *folder, bool *there, qk_error *err)
{
    char *post = qk__path_join(folder, "post"), *pre = qk__path_join(folder, "pre");
    const char *const places[] = {folder, post, pre};
    qk_status status = post && pre ? QK_OK : qk__nomem(err);
    *there = false;
    for (size_t i = 0; status == QK_OK && i < sizeof places / sizeof *places; i++) {
        if (qk__path_look(places[i]) != QK__PATH_CAPTURE)
            continue;
        *there = true;
        status = qk__capture_check_whole(places[i], err);
    }
    free(post);
    free(pre);
    return status;
}

static qk_status fail_none(const char *folder, size_t seen, qk_error *err)
{
    qk__manifest results;
    QK_TRY(qk__manifest_read(&results, folder, err));
    bool whole = seen == 0 && results.complete && json_array_size(results.runs) > 0;
    qk__manifest_free(&results);
    if (whole)
        return qk__fail(err, QK_ERR_EXISTS,
                        "%s: its tables are there, and nothing waits to be merged", folder);
    bool capture = false;
    if (seen == 0)
        QK_TRY(check_capture(folder, &capture, err));
    if (capture)
        return qk__fail(err, QK_ERR_EXISTS,
                        "%s: a finished capture, and nothing waits to be merged", folder);
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "%s: no %sanalysis of several processes waits here to be merged, and no pieces "
        "of a capture",
        folder, seen > 0 ? "other " : "");
}

static qk_status load_run(qk_config *config, const char *folder, size_t i, qk_error *err)
{
    qk__names runs;
    bool is = false;
    size_t seen = 0;
    QK_TRY(qk__units_runs(folder, &runs, err));
    qk_status status = QK_OK;
    for (size_t r = 0; r < runs.count && status == QK_OK && seen <= i; r++) {
        status = load_plan(folder, runs.items[r], seen == i ? config : NULL, &is, err);
        seen += status == QK_OK && is;
    }
    qk__names_free(&runs);
    return status == QK_OK && seen <= i ? fail_none(folder, seen, err) : status;
}

qk_status qk_config_load_shared(qk_config **config, const char *folder, size_t i, qk_error *err)
{
    QK_NEED(err, config);
    *config = NULL;
    QK_NEED(err, folder);
    qk_config *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return qk__nomem(err);
    qk_status status = load_run(loaded, folder, i, err);
    if (status == QK_OK) {
        loaded->settings.output = loaded->output = qk__strdup(folder);
        loaded->settings.merge = true;
        status = loaded->output ? QK_OK : qk__nomem(err);
    }
    if (status != QK_OK)
        qk_config_free(&loaded);
    *config = loaded;
    return status;
}

/* ---- other runs -------------------------------------------------------------------------- */

static const char *text_or_default(const json_t *settings, const char *name)
{
    const char *text = json_string_value(json_object_get(settings, name));
    return text ? text : "the default";
}

/* Appends "seed (3 there, the default here)" for each setting that differs. */
static qk_status add_differences(qk__buffer *text, json_t *there, json_t *here, qk_error *err)
{
    json_t *all = json_copy(there);
    const char *name;
    json_t *value;
    if (!all || json_object_update(all, here) != 0) {
        json_decref(all);
        return qk__nomem(err);
    }
    qk_status status = QK_OK;
    json_object_foreach(all, name, value)
    {
        const char *a = text_or_default(there, name), *b = text_or_default(here, name);
        if (status == QK_OK && qk__setting_decides(name) && strcmp(a, b) != 0)
            status = qk__buffer_printf(text, err, "%s%s (%s there, %s here)",
                                       text->size > 0 ? ", " : "", name, a, b);
    }
    json_decref(all);
    return status;
}

/* What else names of runs follow from. */
static const char *other_difference(const json_t *plan)
{
    const char *version = json_string_value(json_object_get(plan, "qkscope"));
    return version && strcmp(version, QK_VERSION) == 0
               ? "the capture: its files, capture.json or the model's name"
               : "the version of qkscope";
}

static qk_status tell_difference(qk__run *run, const char *name, const json_t *plan,
                                 json_t *here, qk_error *err)
{
    json_t *there = json_object_get(plan, "settings");
    if (!json_is_object(there) ||
        strcmp(text_or_default(there, "analyses"), text_or_default(here, "analyses")) != 0)
        return QK_OK; /* two commands may share a folder */
    qk__buffer text = {0};
    qk_status status = add_differences(&text, there, here, err);
    if (status == QK_OK)
        qk__tell_notice(
            &run->context, QK_NOTICE_WARNING,
            "units of another run lie in %s/" QK__UNITS_NAME
            ", too: they differ in %.*s. Units of two "
            "runs are never put together: start all processes with the same options "
            "on the same capture; if nobody needs the other run, remove %s/" QK__UNITS_NAME
            "/%s",
            run->units_at.folder, text.size > 0 ? (int)text.size : 200,
            text.size > 0 ? (const char *)text.data : other_difference(plan),
            run->units_at.folder, name);
    run->others_told = true;
    qk__buffer_free(&text);
    return status;
}

qk_status qk__plan_tell_others(qk__run *run, qk_error *err)
{
    qk__names runs;
    if (run->others_told)
        return QK_OK;
    QK_TRY(qk__units_runs(run->settings->output, &runs, err));
    const char *own = strrchr(run->units_at.path, '/') + 1;
    json_t *here = list_settings(run->settings), *plan;
    qk_status status = here ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < runs.count && status == QK_OK; i++) {
        if (strcmp(runs.items[i], own) == 0 ||
            read_plan(run->settings->output, runs.items[i], &plan, NULL) != QK_OK)
            continue; /* what cannot be read, merge tells */
        if (plan)
            status = tell_difference(run, runs.items[i], plan, here, err);
        json_decref(plan);
    }
    json_decref(here);
    qk__names_free(&runs);
    return status;
}
