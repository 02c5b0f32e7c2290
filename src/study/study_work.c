/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of a study works with: where each model comes from and goes to, the settings of its analysis, the folder
 * that the run holds, and lines to the user. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/slug.h"
#include "figure/figure_settings.h"
#include "study/study.h"
#include "tables/text_lengths.h"

enum { MAX_SCORE_BYTES = 16 << 20 };

void qk__study_begins(const qk__study_work *work, size_t i, bool computed)
{
    const qk_study *plan = work->plan;
    pthread_mutex_lock(work->lock);
    if (work->run->model_begins)
        work->run->model_begins(work->run->user, i,
                                i < plan->num_models ? &plan->models[i] : NULL, computed);
    pthread_mutex_unlock(work->lock);
}

/* ---- settings of a model ----------------------------------------------------------------- */

qk_analysis_settings qk__study_settings(const qk__study_work *work, size_t i)
{
    const qk_study_settings *run = work->run;
    qk_analysis_settings settings = work->plan->models[i].settings;
    settings.output = work->places[i].folder;
    settings.command_line = run->command_line;
    settings.context = work->context;
    settings.context.notice = NULL;
    settings.context.progress = NULL;
    if (!work->plan->folders[i] && run->local_root)
        settings.local_root = run->local_root;
    if (work->places[i].local) {
        settings.capture = work->places[i].local;
        settings.local_root = NULL;
        settings.revision = NULL;
    }
    return settings;
}

qk__listed_model qk__study_listed(const qk__study_work *work, size_t i)
{
    const qk_study_model *model = &work->plan->models[i];
    const qk_study_result *result = &work->outcome->models[i];
    const size_t twin = qk__study_twin(work, i);
    return (qk__listed_model){.name = model->name,
                              .label = model->label,
                              .family = model->family,
                              .phase = model->phase,
                              .source = model->source,
                              .same_as = twin == i ? "" : work->plan->models[twin].name,
                              .layers = work->places[i].layers,
                              .lengths = result->lengths,
                              .heads = qk__study_has_results(result) ? result->num_heads : 0};
}

/* ---- preparing -------------------------------------------------------------------------- */

/* Revisions of a dataset side by side below a folder: local_root/org/name/REVISION. */
static qk_status find_local(qk__study_work *work, size_t i, qk_error *err)
{
    const qk_analysis_settings *own = &work->plan->models[i].settings;
    const char *root = work->run->local_root ? work->run->local_root : own->local_root;
    qk__buffer path = {0};
    if (work->plan->folders[i] || !root || !own->revision)
        return QK_OK;
    QK_TRY(qk__buffer_printf(&path, err, "%s/%s/%s", root, own->capture, own->revision));
    if (qk__is_dir((char *)path.data))
        work->places[i].local = (char *)path.data;
    else
        qk__buffer_free(&path);
    return QK_OK;
}

static qk_status name_folders(qk__study_work *work, qk_error *err)
{
    size_t count = work->plan->num_models;
    const char **names = qk__calloc(count, sizeof *names);
    char *models = qk__path_join(work->run->output, "models");
    for (size_t i = 0; names && i < count; i++)
        names[i] = work->plan->models[i].name;
    work->slugs = names ? qk__slugs(names, count) : NULL;
    work->places = qk__calloc(count, sizeof *work->places);
    work->figures = qk__path_join(work->run->output, "figures");
    bool complete = models && work->slugs && work->places && work->figures;
    qk_status status = complete ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        work->places[i].folder = qk__path_join(models, work->slugs[i]);
        status = work->places[i].folder ? find_local(work, i, err) : qk__nomem(err);
    }
    free(names);
    free(models);
    return status;
}

static qk_status make_outcome(qk__study_work *work, qk_error *err)
{
    size_t count = work->plan->num_models;
    work->outcome = calloc(1, sizeof *work->outcome);
    if (!work->outcome)
        return qk__nomem(err);
    work->outcome->models = qk__calloc(count, sizeof *work->outcome->models);
    if (!work->outcome->models)
        return qk__nomem(err);
    work->outcome->num_models = count;
    for (size_t i = 0; i < count; i++)
        work->outcome->models[i] = (qk_study_result){.state = QK_STUDY_FAILED,
                                                     .r_q = NAN,
                                                     .r_k = NAN,
                                                     .abs_r_k = NAN,
                                                     .recency = NAN,
                                                     .ap_drop = NAN,
                                                     .rows_least = NAN,
                                                     .rows_median = NAN,
                                                     .texts_least = NAN,
                                                     .certain = NAN,
                                                     .uncertain = NAN,
                                                     .lengths = qk__no_lengths};
    return QK_OK;
}

static void set_context(qk__study_work *work)
{
    work->told = json_object();
    work->relay =
        (qk__relay){.to = &work->run->context, .told = work->told, .lock = work->lock};
    work->context = qk__relay_context(&work->relay);
    work->context.offline |= work->run->dry_run;
    if (work->context.threads <= 0)
        work->context.threads = work->plan->config.settings.context.threads;
    work->context.threads = qk__count_threads(&work->context);
}

qk_status qk__study_prepare(qk__study_work *work, qk_error *err)
{
    const qk_study *plan = work->plan;
    const qk_study_settings *run = work->run;
    set_context(work);
    if (run->formats)
        QK_TRY(qk__figure_formats_parse(run->formats, &work->drawing.formats, err));
    if (run->theme)
        QK_TRY(qk__figure_theme_parse(run->theme, &work->drawing.theme, err));
    if (run->width > 0)
        work->drawing.width = run->width;
    work->drawing.no_title |= run->no_title;
    work->drawing.no_legend |= run->no_legend;
    work->drawing.symbols |= run->symbols;
    if (plan->scores)
        QK_TRY(qk__read_file(plan->scores, MAX_SCORE_BYTES, &work->scores, err));
    QK_TRY(make_outcome(work, err));
    for (size_t i = 0; i < qk__tree_num_notes(plan->config.tree); i++)
        qk__tell_notice(&run->context, QK_NOTICE_WARNING, "%s",
                        qk__tree_get_note(plan->config.tree, i));
    return name_folders(work, err);
}

void qk__study_release(qk__study_work *work)
{
    json_decref(work->told);
    qk__file_set_discard(&work->outputs);
    for (size_t i = 0; work->places && i < work->plan->num_models; i++) {
        free(work->places[i].folder);
        free(work->places[i].local);
        free(work->places[i].capture);
        free(work->places[i].warning);
    }
    free(work->places);
    qk__strings_free(work->slugs, work->plan->num_models);
    free(work->figures);
    qk_report_outcome_free(&work->collages);
    qk__buffer_free(&work->scores);
    qk__place_release(&work->folder);
}

/* ---- the folder --------------------------------------------------------------------------- */

static qk_status clean(const qk__study_work *work, qk_error *err)
{
    QK_TRY(qk__place_sweep(work->run->output, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < work->plan->num_models && status == QK_OK; i++) {
        bool there;
        char *name = qk__format("models/%s", work->slugs[i]);
        status = name ? qk__look_below(work->run->output, name, &there, err) : qk__nomem(err);
        if (status == QK_OK && there)
            status = qk__place_sweep(work->places[i].folder, err);
        free(name);
    }
    return status;
}

static qk_status check_owner(const qk__study_work *work, bool is_study, qk_error *err)
{
    const char *folder = work->run->output;
    qk__names names;
    if (work->run->force || is_study)
        return QK_OK;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        if (qk__temporary_stem(names.items[i]) == 0)
            status = qk__fail(err, QK_ERR_EXISTS,
                              "%s: holds other things than a study (%s); choose another "
                              "folder, or --force to write here nevertheless",
                              folder, names.items[i]);
    qk__names_free(&names);
    return status;
}

qk_status qk__study_claim_folder(qk__study_work *work, qk_error *err)
{
    const qk_study_settings *run = work->run;
    qk__manifest before;
    QK_TRY(qk__place_claim(&work->folder, run->output, err));
    QK_TRY(qk__manifest_read(&before, run->output, err));
    qk_status status = check_owner(work, before.is_study, err);
    if (status == QK_OK && before.is_study && !before.complete)
        qk__tell_notice(
            &run->context, QK_NOTICE_WARNING,
            "the last run of this study was stopped before its end; going on with it");
    qk__manifest_free(&before);
    return status == QK_OK ? clean(work, err) : status;
}
