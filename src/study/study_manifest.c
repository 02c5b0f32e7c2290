/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json of a study: what was asked for, and the result for each model. Only "timings" and the command line
 * show whether a model was computed or its results were kept. */
#include <stdlib.h>
#include <string.h>

#include <qkscope/common.h>

#include "analysis/run_manifest.h"
#include "base/error.h"
#include "base/json_build.h"
#include "schema/schema.h"
#include "study/study.h"

static const char *state_name(qk_study_state state)
{
    return state == QK_STUDY_FAILED ? "failed" : state == QK_STUDY_PARTIAL ? "partial" : "ok";
}

/* The file's name without folders, so that the manifest does not depend on its place. */
static json_t *describe_file(const qk_study *plan)
{
    const char *slash = strrchr(plan->path, '/');
    return json_pack("{s:o, s:I, s:s}", "file", qk__json_text(slash ? slash + 1 : plan->path),
                     "bytes", (json_int_t)plan->file_bytes, "xxh3_128", plan->file_hash);
}

static json_t *describe_model(const qk__study_work *work, size_t i)
{
    const qk_study_model *model = &work->plan->models[i];
    const qk_study_result *result = &work->outcome->models[i];
    bool has_results = qk__study_has_results(result);
    bool tell = result->state == QK_STUDY_FAILED || result->state == QK_STUDY_PARTIAL;
    qk__buffer folder = {0};
    if (qk__buffer_printf(&folder, NULL, "models/%s", work->slugs[i]) != QK_OK)
        return NULL;
    json_t *entry =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:I}", "model",
                  qk__json_text(model->name), "label", qk__json_text(model->label), "family",
                  qk__json_text(model->family), "phase", qk__json_text(model->phase), "source",
                  qk__json_text(model->source), "folder",
                  qk__json_text_or_null(has_results ? (char *)folder.data : NULL), "state",
                  state_name(result->state), "message",
                  qk__json_text_or_null(tell ? result->message : NULL), "related",
                  qk__json_text_or_null(work->places[i].warning), "heads",
                  (json_int_t)(has_results ? result->num_heads : 0));
    qk__buffer_free(&folder);
    return entry;
}

static json_t *list_models(const qk__study_work *work)
{
    json_t *array = json_array();
    for (size_t i = 0; i < work->plan->num_models; i++)
        array = qk__json_append(array, describe_model(work, i));
    return array;
}

static json_t *list_tables(const qk__study_work *work)
{
    unsigned contents = qk__study_contents(work);
    json_t *array = json_array();
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__has_table(&qk__tables[i], contents))
            array = qk__json_append(array, json_string(qk__tables[i].info.name));
    array = qk__json_append(array, json_string("models.csv"));
    if (work->plan->scores)
        array = qk__json_append(array, json_string("scores.csv"));
    return array;
}

/* Size and hash of each, so that a later report sees whether they changed. */
static qk_status list_contents(const qk__study_work *work, const json_t *tables,
                               json_t **contents, qk_error *err)
{
    size_t count = json_array_size(tables);
    *contents = json_object();
    qk_status status = QK_OK;
    for (size_t i = 0; i <= count && status == QK_OK; i++) {
        const char *name =
            i < count ? json_string_value(json_array_get(tables, i)) : QK__SCHEMA_NAME;
        char *path = qk__path_join(work->run->output, name);
        status = path ? qk__describe_table(contents, name, path, err) : qk__nomem(err);
        free(path);
    }
    if (status != QK_OK) {
        json_decref(*contents);
        *contents = NULL;
    }
    return status;
}

static json_t *describe_figures(const qk__study_work *work)
{
    const qk_report_outcome *report = work->outcome->report;
    if (!report)
        return json_null();
    json_t *failed = json_array();
    for (size_t i = 0; i < report->num_failed; i++)
        failed = qk__json_append(failed, qk__json_text(report->failures[i]));
    json_t *files = json_array();
    for (size_t i = 0; i < report->num_files; i++)
        files = qk__json_append(files, qk__json_text(report->files[i]));
    return json_pack("{s:I, s:o, s:b, s:o}", "drawn", (json_int_t)report->num_figures, "failed",
                     failed, "report", report->html != NULL, "files", files);
}

static json_t *describe_timings(const qk__study_work *work)
{
    json_t *models = json_array();
    for (size_t i = 0; i < work->plan->num_models; i++) {
        const qk_study_result *result = &work->outcome->models[i];
        bool computed = result->state == QK_STUDY_COMPUTED || result->state == QK_STUDY_PARTIAL;
        models = qk__json_append(models, json_pack("{s:o, s:b, s:o}", "model",
                                                   qk__json_text(work->plan->models[i].name),
                                                   "computed", computed, "seconds",
                                                   qk__json_number(result->seconds)));
    }
    return json_pack("{s:o, s:o}", "seconds", qk__json_number(work->outcome->seconds), "models",
                     models);
}

qk_status qk__study_write_manifest(const qk__study_work *work, qk__study_stage stage,
                                   qk_error *err)
{
    const qk_study_settings *run = work->run;
    qk__outfile *file;
    json_t *root = json_pack(
        "{s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:i}", "qkscope", QK_VERSION, "kind", "study",
        "title", qk__json_text(work->plan->title), "command_line",
        qk__json_text_or_null(run->command_line), "complete", stage == QK__STUDY_DONE,
        "study_file", describe_file(work->plan), "settings",
        qk__describe_settings(&work->plan->config.settings), "threads", work->context.threads);
    if (stage != QK__STUDY_BEGUN) {
        root = qk__json_set(root, "models", list_models(work));
        json_t *contents, *tables = list_tables(work);
        qk_status status = list_contents(work, tables, &contents, err);
        root = qk__json_set(root, "tables", tables);
        if (status != QK_OK) {
            json_decref(root);
            return status;
        }
        root = qk__json_set(root, "contents", contents);
        root = qk__json_set(root, "figures", describe_figures(work));
        root = qk__json_set(root, "timings", describe_timings(work));
    }
    QK_TRY(qk__json_write(root, run->output, QK__MANIFEST_NAME, &file, err));
    return qk__outfile_commit(&file, err);
}
