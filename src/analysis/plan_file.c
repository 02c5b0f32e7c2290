/* SPDX-License-Identifier: Apache-2.0 */
/* plan.json beside the units of a run: its settings by name, so that `qkscope merge` can end a run
 * that it knows nothing of. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/config.h"
#include "analysis/sharing.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "settings/settings.h"

#define PLAN "plan.json"
#define KIND "analysis"
enum { VERSION = 1, LIMIT = 1 << 20 };

/* ---- settings as texts ------------------------------------------------------------------ */

typedef struct visit {
    qk__see_setting_fn *see;
    void *user;
    qk_status status;
    qk_error *err;
} visit;

static void visit_setting(void *user, const qk_setting *row, const void *member)
{
    visit *v = user;
    if (v->status != QK_OK || !row->name)
        return;
    size_t size = qk__setting_format(row, member, NULL, 0) + 1;
    char *text = malloc(size);
    if (!text)
        v->status = qk__nomem(v->err);
    else if (qk__setting_format(row, member, text, size) > 0)
        v->status = v->see(v->user, row->name, text, v->err);
    free(text);
}

qk_status qk__each_setting(const qk_analysis_settings *settings, qk__see_setting_fn *see,
                           void *user, qk_error *err)
{
    visit v = {see, user, QK_OK, err};
    qk__settings_each(&qk_analysis_settings_table, settings, visit_setting, &v);
    return v.status;
}

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

/* Whether it is an analysis; then the settings of run `name`, unless config is NULL. */
static qk_status load(const char *folder, const char *name, qk_config *config, bool *is,
                      qk_error *err)
{
    qk__unit_folder units;
    json_t *root = NULL;
    QK_TRY(qk__units_open(&units, folder, name, err));
    char *path = qk__units_path(&units, NULL, PLAN);
    qk_status status = path ? QK_OK : qk__nomem(err);
    *is = false;
    if (status == QK_OK && qk__is_file(path))
        status = qk__json_read_file(&root, path, LIMIT, QK__JSON_NO_ZEROS, err);
    if (status == QK_OK && root) {
        const char *kind = json_string_value(json_object_get(root, "kind"));
        *is = kind && strcmp(kind, KIND) == 0;
        if (*is && config)
            status = qk__context(err, take_plan(config, root, err), "%s", path);
    }
    json_decref(root);
    free(path);
    qk__units_close(&units);
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
        status = load(folder, runs.items[r], seen == i ? config : NULL, &is, err);
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
