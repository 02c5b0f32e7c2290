/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rows of heads, and has them drawn. */
#include "report/head_points.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/json_build.h"
#include "figure/figure.h"
#include "report/extreme_heads.h"
#include "report/packed_points.h"
#include "settings/head_set.h"

enum { POINTS = 1000 /* of each kind in a picture */ };

const char *const qk__point_plane_names[QK__NUM_POINT_STAGES][QK__NUM_POINT_PLANES] = {
    {"pca", "ab"}, {"pre_pca", "pre_ab"}};
static const qk_scatter_basis BASES[QK__NUM_POINT_PLANES] = {QK_BASIS_PCA, QK_BASIS_AB};

static void free_plane(qk__points_plane *plane)
{
    for (size_t i = 0; plane->packed && i < plane->cells.count; i++)
        qk__buffer_free(&plane->packed[i]);
    for (size_t i = 0; plane->tokens && i < plane->cells.count; i++)
        qk__buffer_free(&plane->tokens[i]);
    free(plane->packed);
    free(plane->tokens);
    free(plane->listed);
    qk__head_cells_free(&plane->cells);
}

void qk__points_free(qk__points *points)
{
    for (size_t m = 0; m < points->num_models; m++) {
        qk__model_points *of = &points->models[m];
        for (int s = 0; s < QK__NUM_POINT_STAGES; s++) {
            for (int p = 0; p < QK__NUM_POINT_PLANES; p++)
                free_plane(&of->stages[s].planes[p]);
            free(of->stages[s].why);
            free(of->stages[s].command);
        }
        qk_head_set_free(&of->chosen);
    }
    free(points->models);
    *points = (qk__points){0};
}

/* ---- the capture ------------------------------------------------------------------------ */

/* Texts come from qk__format and are NULL without memory. */
static qk_status give_reason(qk__stage_points *of, char *why, char *command, qk_error *err)
{
    of->why = why;
    of->command = command;
    return why && command ? QK_OK : qk__nomem(err);
}

/* Whether the file has this size; a file inside a packed one is not looked at. */
static bool has_size(const char *capture, const char *file, int64_t bytes)
{
    struct stat st;
    char *path = strchr(file, '#') ? NULL : qk__path_join(capture, file);
    bool other = path && (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != bytes);
    free(path);
    return !other;
}

static bool is_same_manifest(const char *capture, const json_t *was)
{
    int64_t bytes;
    char hash[QK__FINGERPRINT_SIZE];
    char *path = qk__path_join(capture, "capture.json");
    bool same = path && qk__fingerprint_file(path, &bytes, hash, NULL) == QK_OK &&
                strcmp(hash, qk__json_string(was, "xxh3_128")) == 0;
    free(path);
    return same;
}

/* Compares capture.json and the sizes of files: hashes of all rows would take longer than the page. */
static bool is_unchanged(const char *capture, const json_t *run)
{
    size_t i;
    const json_t *entry, *manifest = json_object_get(run, "capture_json");
    if (json_is_object(manifest) && !is_same_manifest(capture, manifest))
        return false;
    json_array_foreach(json_object_get(run, "inputs"), i, entry)
    {
        if (!has_size(capture, qk__json_string(entry, "file"),
                      json_integer_value(json_object_get(entry, "bytes"))))
            return false;
    }
    return true;
}

/* A manifest has the capture's path as it was given. A relative path is looked for from here, then from each of the
 * folders that the results are in: a report is often made from another place, and whole folders are moved. */
static char *find_folder(const char *capture, const char *results)
{
    const int most_up = 3;
    char *found = qk__strdup(capture), *up = qk__strdup(results);
    const bool relative = *capture && *capture != '/';
    for (int i = 0; relative && i < most_up && found && up && !qk__is_dir(found); i++) {
        char *above = qk__path_join(up, "..");
        free(up);
        up = above;
        free(found);
        found = up ? qk__path_join(up, capture) : NULL;
    }
    free(up);
    return found;
}

/* Leaves a reason where the capture is not as `files` has it. get: the command that brings the capture, which is
 * released; again: the command that reads it again. */
static qk_status check_files(const char *capture, const char *folder, const json_t *files,
                             char *get, const char *again, qk__stage_points *of, qk_error *err)
{
    if (!qk__is_dir(folder))
        return give_reason(
            of, qk__format("the capture %s was not there when this page was made", capture),
            get, err);
    free(get);
    if (!is_unchanged(folder, files))
        return give_reason(of, qk__format("the capture %s is not as it was analysed", capture),
                           qk__strdup(again), err);
    return QK_OK;
}

/* Leaves a reason where there are no rows of this model to draw. */
static qk_status look_for_rows(const json_t *entry, const char *folder, qk__stage_points *of,
                               qk_error *err)
{
    if (!entry)
        return give_reason(
            of, qk__strdup("no manifest says which capture these numbers are of"),
            qk__strdup("qkscope scatter CAPTURE --heads LAYER:HEAD -o figures"), err);
    const char *capture = qk__json_string(entry, "capture"),
               *source = qk__json_string(entry, "source"),
               *commit = qk__json_string(entry, "commit");
    const json_t *run = json_object_get(entry, "run"), *kept = json_object_get(run, "kept");
    if (strcmp(qk__json_string(kept, "rows"), "none") == 0)
        return give_reason(of, qk__format("the capture %s keeps moments, and no rows", capture),
                           qk__strdup("qkscope capture --model MODEL --text TEXT -o CAPTURE"),
                           err);
    char *get = *commit ? qk__format("hf download %s --repo-type dataset --revision %s && "
                                     "qkscope report RESULTS",
                                     source, commit)
                        : qk__strdup("qkscope report RESULTS");
    return check_files(capture, folder, run, get, "qkscope analyze CAPTURE -o RESULTS", of,
                       err);
}

/* ---- which heads ------------------------------------------------------------------------ */

/* What pictures are drawn for. */
typedef struct page_models {
    const qk_report_settings *settings;
    const qk__results *results;
    qk__store *tables;
    const qk__page_heads *heads;
    const qk__manifests *manifests;
} page_models;

static bool is_named(const qk_head_set *set, int layer, int q_head)
{
    for (size_t i = 0; i < set->count; i++)
        if (qk__range_has(&set->items[i], layer, q_head))
            return true;
    return false;
}

bool qk__points_has(const qk__model_points *of, int layer, int q_head)
{
    return is_named(&of->chosen, layer, q_head);
}

static qk_status choose_head(const page_models *all, size_t row, qk_head_set *chosen,
                             qk_error *err)
{
    const int layer = (int)all->heads->layer[row], head = (int)all->heads->q_head[row];
    return qk__head_set_add(chosen, (qk_head_range){layer, layer, head, head}, err);
}

/* Chooses `most` heads: the extreme ones, and others at equal steps. */
static qk_status take_some(const page_models *all, const qk__result_model *model, size_t most,
                           qk_head_set *chosen, qk_error *err)
{
    qk__extremes extremes;
    size_t first, count = qk__page_model(all->heads, model->id, &first);
    QK_TRY(qk__extreme_heads(all->tables, model->name, &extremes, err));
    for (size_t i = 0; i < extremes.count; i++)
        QK_TRY(qk__head_set_add(chosen, extremes.heads[i], err));
    for (size_t i = 0; i < most && chosen->count < most; i++) {
        const size_t row = first + i * count / most;
        if (!is_named(chosen, (int)all->heads->layer[row], (int)all->heads->q_head[row]))
            QK_TRY(choose_head(all, row, chosen, err));
    }
    return QK_OK;
}

static qk_status choose_heads(const page_models *all, const qk__result_model *model,
                              qk_head_set *chosen, qk_error *err)
{
    const qk_head_set *named = &all->settings->heads;
    const bool every = all->results->num_heads <= QK__MOST_HEADS_SHOWN;
    size_t first, count = qk__page_model(all->heads, model->id, &first);
    if (named->count == 0 && !every)
        return take_some(all, model, QK__MOST_HEADS_SHOWN / all->results->num_models, chosen,
                         err);
    for (size_t i = first; i < first + count; i++)
        if (named->count == 0 ||
            is_named(named, (int)all->heads->layer[i], (int)all->heads->q_head[i]))
            QK_TRY(choose_head(all, i, chosen, err));
    return QK_OK;
}

/* ---- drawing ---------------------------------------------------------------------------- */

static int64_t setting(const json_t *run, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(run, "settings"), name));
}

/* The rows that the run read: then the axes are those of its numbers. */
static qk_scatter_settings scatter_settings(const json_t *run, const char *folder,
                                            const qk_head_set *heads, const qk_context *context)
{
    qk_scatter_settings s;
    qk_settings_default(&qk_scatter_settings_table, &s);
    s.input.capture = folder;
    s.input.max_samples = setting(run, "max_samples");
    s.input.from_position = setting(run, "from_position");
    s.input.allow_repeats =
        json_is_true(json_object_get(json_object_get(run, "settings"), "allow_repeats"));
    s.input.seed = setting(run, "seed");
    s.input.q_per_kv_group = (int)setting(run, "q_per_kv_group");
    s.input.context = *context;
    s.heads = *heads;
    s.max_points = POINTS;
    return s;
}

/* What is drawn for one model. */
typedef struct drawing {
    const qk_report_settings *settings;
    qk__model_points *of;
} drawing;

static qk_status draw_plane(const drawing *d, qk_scatter_settings s, int stage, int p,
                            qk_error *err)
{
    qk__points_plane *plane = &d->of->stages[stage].planes[p];
    s.output = d->settings->results; /* nothing is written there */
    s.basis = BASES[p];
    QK_TRY(qk__scatter_cells(&s, &plane->cells, err));
    plane->packed = qk__calloc(plane->cells.count, sizeof *plane->packed);
    return plane->packed ? QK_OK : qk__nomem(err);
}

/* A failure that keeps pictures from the page stops nothing else. */
static qk_status forgive(qk_status status, qk__stage_points *of, qk_error *err)
{
    if (status == QK_OK || status == QK_ERR_NOMEM || status == QK_ERR_CANCELLED ||
        qk__is_unwritten(status, err->message))
        return status;
    for (int p = 0; p < QK__NUM_POINT_PLANES; p++)
        qk__head_cells_free(&of->planes[p].cells);
    return give_reason(of, qk__format("they could not be drawn: %s", err->message),
                       qk__strdup("qkscope report RESULTS"), err);
}

static qk_status draw_rows(const drawing *d, const json_t *run, const char *folder, int stage,
                           qk_error *err)
{
    qk__stage_points *of = &d->of->stages[stage];
    if (d->of->chosen.count == 0 || of->why)
        return QK_OK;
    qk__relay relay = {.to = &d->settings->context, .held_back = QK__ALL_NOTICES};
    qk_context context = qk__relay_context(&relay);
    context.progress = NULL; /* progress counts figures, not these pictures */
    const qk_scatter_settings s = scatter_settings(run, folder, &d->of->chosen, &context);
    qk_status status = QK_OK;
    for (int p = 0; p < QK__NUM_POINT_PLANES && status == QK_OK; p++)
        status = draw_plane(d, s, stage, p, err);
    return forgive(status, of, err);
}

static qk_status draw_own(const drawing *d, const json_t *entry, qk_error *err)
{
    char *folder = find_folder(qk__json_string(entry, "capture"), d->settings->results);
    qk_status status = folder ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status = look_for_rows(entry, folder, &d->of->stages[QK__POINTS_OWN], err);
    if (status == QK_OK)
        status = draw_rows(d, json_object_get(entry, "run"), folder, QK__POINTS_OWN, err);
    free(folder);
    return status;
}

/* run: a run of compare-stages. */
static qk_status draw_before(const drawing *d, const json_t *run, qk_error *err)
{
    static const char AGAIN[] = "qkscope compare-stages PRE POST -o RESULTS";
    const json_t *before = json_object_get(run, "before_rope");
    const char *capture = qk__json_string(before, "capture");
    char *folder = find_folder(capture, d->settings->results);
    qk_status status = folder ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status = check_files(capture, folder, before, qk__strdup("qkscope report RESULTS"),
                             AGAIN, &d->of->stages[QK__POINTS_BEFORE], err);
    if (status == QK_OK)
        status = draw_rows(d, run, folder, QK__POINTS_BEFORE, err);
    free(folder);
    return status;
}

static qk_status draw_model(const page_models *all, size_t m, qk__model_points *of,
                            qk_error *err)
{
    const qk__result_model *model = &all->results->models[m];
    const drawing d = {all->settings, of};
    QK_TRY(choose_heads(all, model, &of->chosen, err));
    if (!all->settings->points)
        return give_reason(&of->stages[QK__POINTS_OWN], qk__strdup("they were not asked for"),
                           qk__strdup("qkscope report RESULTS"), err);
    QK_TRY(draw_own(&d, qk__manifests_run(all->manifests, model->name, model->label), err));
    const json_t *stages = qk__manifests_stages(all->manifests, model->name, model->label);
    return stages ? draw_before(&d, stages, err) : QK_OK;
}

/* ---- all of it -------------------------------------------------------------------------- */

qk_status qk__points_draw(const qk_report_settings *settings, const qk__results *results,
                          qk__store *tables, const qk__page_heads *heads,
                          const qk__manifests *manifests, qk__points *points, qk_error *err)
{
    const page_models all = {settings, results, tables, heads, manifests};
    qk_error own = {0};
    qk_status status = QK_OK;
    err = err ? err : &own;
    *points =
        (qk__points){.models = qk__calloc(results->num_models + 1, sizeof *points->models)};
    if (!points->models)
        return qk__nomem(err);
    points->num_models = results->num_models;
    for (size_t m = 0; m < results->num_models && status == QK_OK; m++)
        status = draw_model(&all, m, &points->models[m], err);
    if (status == QK_OK)
        status = qk__points_pack(points, err);
    if (status != QK_OK)
        qk__points_free(points);
    return status;
}
