/* SPDX-License-Identifier: Apache-2.0 */
/* Running a study: every model, then the combined tables, then figures and report.
 *
 * A run may be killed at any time. The study's manifest says that it is not complete from the
 * first change until figures and page are there; each model's own manifest (result_folder.c)
 * says whether its tables are complete. So the next run begins where this one ended. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "figure/figure_settings.h"
#include "settings/common_rows.h"
#include "settings/settings.h"
#include "study/study.h"
#include "tables/tables.h"

#define AT(member) QK_SETTING_AT(qk_study_settings, member)

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "DIR",
     .help = "folder of the study", .section = "Output"},
    {"force", QK_SETTING_FLAG, AT(force),
     .help = "compute every model again, and write even into a folder that holds other things",
     .section = "Output"},
    {"dry-run", QK_SETTING_FLAG, AT(dry_run),
     .help = "say which models would be computed, and why; write nothing", .section = "Output"},
    {"figures", QK_SETTING_FLAG, AT(figures), .number = true, .off = "no-figures",
     .off_help = "only tables: neither figures nor report", .section = "Figures"},
    {"html", QK_SETTING_FLAG, AT(html), .number = true, .off = "no-html",
     .off_help = "figures without report.html", .section = "Figures"},
    {"format", QK_SETTING_TEXT, AT(formats), .words = qk__figure_formats, .value = "LIST",
     .help = "pictures beside each SVG: png, pdf or both (by rsvg-convert)",
     .unset = "the study's, else svg", .section = "Figures"},
    {"theme", QK_SETTING_TEXT, AT(theme), .value = "NAME",
     .help = "colours and fonts: paper, screen or dark", .unset = "the study's, else paper",
     .section = "Figures"},
    {"width", QK_SETTING_INTEGER, AT(width), .min = 60, .max = 400, .value = "MM", .unit = "mm",
     .help = "page width of the figures, e.g. 85mm", .unset = "the study's, else each its own",
     .section = "Figures", .traits = QK_SETTING_ZERO_IS_NULL},
    {"no-title", QK_SETTING_FLAG, AT(no_title), .help = "figures without headings",
     .section = "Figures"},
    {"no-legend", QK_SETTING_FLAG, AT(no_legend), .help = "figures without legends",
     .section = "Figures"},
    {"symbols", QK_SETTING_FLAG, AT(symbols),
     .help = "symbols instead of words in the labels of figures", .section = "Figures"},
    {"local-root", QK_SETTING_PATH, AT(local_root), .value = "DIR",
     .help = "folder to look for datasets in, before the cache", .section = "Input"},
    QK__OFFLINE_ROW(qk_study_settings, NULL, .yaml = NULL),
    QK__THREADS_ROW(qk_study_settings, NULL, .yaml = NULL),
};

const qk_settings_table qk_study_settings_table = {QK_SETTINGS_ROWS(qk_study_settings, ROWS)};

void qk_study_outcome_free(qk_study_outcome **outcome)
{
    assert(outcome);
    qk_study_outcome *o = *outcome;
    if (!o)
        return;
    for (size_t i = 0; o->models && i < o->num_models; i++)
        free(o->models[i].message);
    free(o->models);
    qk_report_outcome_free(&o->report);
    free(o);
    *outcome = NULL;
}

/* ---- one model -------------------------------------------------------------------------- */

static qk_status set_message(qk_study_result *result, const char *message, qk_error *err)
{
    result->message = qk__strdup(message);
    return result->message ? QK_OK : qk__nomem(err);
}

/* A model's failure stops no other model, unless the user stops the run. */
static qk_status fail_model(qk__study_work *work, size_t i, const qk_error *why, qk_error *err)
{
    qk_study_result *result = &work->outcome->models[i];
    if (why->status == QK_ERR_CANCELLED) {
        if (err)
            *err = *why;
        return QK_ERR_CANCELLED;
    }
    result->state = QK_STUDY_FAILED;
    result->status = why->status;
    qk__tell_notice(&work->context, QK_NOTICE_ERROR, "%s", why->message);
    return set_message(result, why->message, err);
}

static qk_status compute(qk__study_work *work, size_t i, const char *reason, qk_error *err)
{
    qk_study_result *result = &work->outcome->models[i];
    qk_analysis_settings settings = qk__study_settings(work, i);
    qk_analysis_results *results;
    qk_error why = {0};
    settings.context = work->context;
    settings.force = true; /* the folder is the study's */
    QK_TRY(qk__remove_file(work->places[i].folder, QK__FIGURES_JSON, err));
    qk_status status = qk_analysis_run(&settings, &results, &why);
    if (!results)
        return fail_model(work, i, &why, err);
    result->state = status == QK_OK ? QK_STUDY_COMPUTED : QK_STUDY_PARTIAL;
    result->num_heads = results->num_heads - results->num_failed - results->num_missing;
    result->lengths = results->lengths;
    const char *message = status == QK_OK ? reason : why.message;
    status = set_message(result, message, err);
    qk_analysis_results_free(&results);
    return status;
}

/* Results that are kept keep the warnings of their own run. */
static void tell_again(const qk__study_work *work, const json_t *warnings)
{
    for (size_t w = 0; w < json_array_size(warnings); w++) {
        const char *text = json_string_value(json_array_get(warnings, w));
        if (text)
            qk__tell_notice(&work->context, QK_NOTICE_WARNING, "%s", text);
    }
}

static qk_status settle_model(qk__study_work *work, size_t i, const qk__study_check *check,
                              qk_error *err)
{
    const qk_study_settings *run = work->run;
    qk_study_result *result = &work->outcome->models[i];
    qk__study_begins(work, i, !check->stands);
    if (check->stands) {
        tell_again(work, check->warnings);
        result->state = QK_STUDY_KEPT;
        result->num_heads = check->num_heads;
        result->lengths = check->lengths;
        return QK_OK;
    }
    if (!run->dry_run)
        return compute(work, i, check->reason, err);
    result->state = QK_STUDY_COMPUTED;
    return set_message(result, check->reason, err);
}

/* The next model is fetched as soon as this one is here. */
static qk_status find_model(qk__study_work *work, size_t i, qk__study_check *check,
                            qk_error *why)
{
    *check = (qk__study_check){0};
    qk_status status = qk__study_fetch_end(work, why);
    if (status == QK_ERR_CANCELLED || status == QK_ERR_NOMEM)
        return status;
    if (i + 1 < work->plan->num_models)
        QK_TRY(qk__study_fetch_begin(work, i + 1, why));
    if (status != QK_OK && qk__study_would_fetch(work, i, status)) {
        snprintf(check->reason, sizeof check->reason, "would be fetched");
        return QK_OK;
    }
    return status == QK_OK ? qk__study_check_model(work, i, check, why) : status;
}

static qk_status do_model(qk__study_work *work, size_t i, qk_error *err)
{
    qk__study_check check;
    qk_error why = {0};
    work->relay.name = work->plan->models[i].name;
    qk_status status = find_model(work, i, &check, &why);
    double start = qk__now();
    work->places[i].capture = check.capture;
    work->places[i].layers = check.num_layers;
    work->places[i].shape = check.shape;
    work->places[i].contents = check.contents;
    work->places[i].rowless = check.rowless;
    status =
        status == QK_OK ? settle_model(work, i, &check, err) : fail_model(work, i, &why, err);
    json_decref(check.warnings);
    work->outcome->models[i].seconds = qk__now() - start;
    return status;
}

/* ---- means for the table at the end ----------------------------------------------------- */

static void set_means(qk_study_result *result, const qk_columns *rows, size_t i)
{
    result->r_q = qk_columns_reals(rows, "r_q")[i];
    result->r_k = qk_columns_reals(rows, "r_k")[i];
    result->abs_r_k = qk_columns_reals(rows, "abs_r_k")[i];
    result->recency = qk_columns_reals(rows, "recency")[i];
    result->ap_drop = qk_columns_reals(rows, "ap_drop")[i];
    result->rows_least = qk_columns_reals(rows, "rows_least")[i];
    result->rows_median = qk_columns_reals(rows, "rows_median")[i];
    result->texts_least = qk_columns_reals(rows, "texts_least")[i];
    result->certain = qk_columns_reals(rows, "certain")[i];
    result->uncertain = qk_columns_reals(rows, "uncertain")[i];
}

/* In the order of models.csv, which is that of the study. */
static const char MEANS[] =
    "WITH "
    "numbers AS (SELECT head_id >> 42 AS model_id, avg(r_q) AS r_q, avg(r_k) AS r_k, "
    "avg(abs(r_k)) AS abs_r_k, avg(bias_strength > 0) AS recency, avg(ap_drop) AS ap_drop, "
    "1.0 * min(texts) AS texts_least, 1.0 * sum(category_probability >= %g) AS certain, "
    "1.0 * sum(category_probability < %g) AS uncertain FROM head_numbers GROUP BY 1), "
    "sizes AS (SELECT model_id, 1.0 * min(n) AS least, median(n) AS median "
    "FROM (SELECT head_id >> 42 AS model_id, n_q AS n FROM head_numbers "
    "UNION ALL SELECT head_id >> 42, n_k FROM head_numbers) GROUP BY 1) "
    "SELECT numbers.*, least AS rows_least, median AS rows_median FROM models "
    "LEFT JOIN numbers ON numbers.model_id = models.model_id "
    "LEFT JOIN sizes ON sizes.model_id = models.model_id ORDER BY models.model_id";

static qk_status find_means(qk__study_work *work, qk_error *err)
{
    qk__store *tables;
    qk_columns *rows = NULL;
    QK_TRY(qk__store_open(&tables, &work->context, err));
    /* The folder is not complete before its figures are there. */
    qk_status status = qk__store_add(tables, "main", work->run->output, true, err);
    if (status == QK_OK)
        status = qk__store_ask(tables, &rows, err, MEANS, QK_CERTAIN, QK_CERTAIN);
    for (size_t i = 0; i < work->plan->num_models && status == QK_OK; i++)
        set_means(&work->outcome->models[i], rows, i);
    qk_columns_free(&rows);
    qk__store_close(&tables);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------- */

/* The verdict: first on models, whose errors were told when they came, then on figures. */
static qk_status conclude(const qk__study_work *work, qk_error *err)
{
    const qk_study_outcome *outcome = work->outcome;
    const qk_study_result *first = NULL;
    size_t failed = 0, partial = 0;
    for (size_t i = 0; i < outcome->num_models; i++) {
        const qk_study_result *result = &outcome->models[i];
        failed += result->state == QK_STUDY_FAILED;
        partial += result->state == QK_STUDY_PARTIAL;
        if (!first && (failed || partial))
            first = result;
    }
    const char *name = first ? work->plan->models[first - outcome->models].name : "";
    if (first && failed == outcome->num_models)
        return qk__fail(err, first->status, "none of %zu models has results; the first is %s",
                        failed, name);
    if (first)
        return qk__fail(
            err, QK_ERR_PARTIAL,
            "of %zu models, %zu have no results and %zu miss heads; the first is %s",
            outcome->num_models, failed, partial, name);
    if (outcome->report && outcome->report->num_failed > 0)
        return qk__fail(err, QK_ERR_PARTIAL, "%zu figures failed; the first: %s",
                        outcome->report->num_failed, outcome->report->failures[0]);
    return QK_OK;
}

static qk_status do_models(qk__study_work *work, qk_error *err)
{
    QK_TRY(qk__study_fetch_begin(work, 0, err));
    for (size_t i = 0; i < work->plan->num_models; i++) {
        QK_TRY(do_model(work, i, err));
        work->num_done++;
    }
    QK_TRY(qk__study_warn_of_unlike(work, err));
    return qk__study_warn_of_related(work, err);
}

static void tell_of_old_page(const qk__study_work *work)
{
    const qk_study_settings *run = work->run;
    bool kept = true;
    for (size_t i = 0; i < work->plan->num_models; i++)
        kept &= work->outcome->models[i].state == QK_STUDY_KEPT;
    if (!run->figures && !kept && qk__is_file_in(run->output, "report.html"))
        qk__tell_notice(&run->context, QK_NOTICE_WARNING,
                        "report.html and figures show the tables from before this run");
}

static qk_status execute(qk__study_work *work, double start, qk_error *err)
{
    QK_TRY(qk__study_prepare(work, err));
    if (work->run->dry_run) {
        QK_TRY(do_models(work, err));
        return conclude(work, err);
    }
    QK_TRY(qk__study_claim_folder(work, err));
    QK_TRY(qk__study_write_manifest(work, QK__STUDY_BEGUN, err));
    QK_TRY(do_models(work, err));
    qk_status verdict = conclude(work, err);
    if (verdict != QK_OK && verdict != QK_ERR_PARTIAL)
        return verdict;
    QK_TRY(qk__study_write_tables(work, err));
    QK_TRY(find_means(work, err));
    if (work->run->figures) {
        work->outcome->seconds = qk__now() - start;
        QK_TRY(qk__study_write_manifest(work, QK__STUDY_TABLES, err));
        QK_TRY(qk__study_draw(work, err));
    }
    work->outcome->seconds = qk__now() - start;
    QK_TRY(qk__study_write_manifest(work, QK__STUDY_DONE, err));
    tell_of_old_page(work);
    return conclude(work, err);
}

/* Only a model or the figures were stopped; the user wants to know what there is. */
static qk_status tell_stopped(const qk__study_work *work, qk_error *err)
{
    size_t computed = 0;
    for (size_t i = 0; i < work->num_done; i++)
        computed += work->outcome->models[i].state != QK_STUDY_FAILED;
    return qk__fail(err, QK_ERR_CANCELLED,
                    "stopped with %zu of %zu models computed, in %s; the same command goes on",
                    computed, work->plan->num_models, work->run->output);
}

qk_status qk_study_run(const qk_study *plan, const qk_study_settings *run,
                       qk_study_outcome **outcome, qk_error *err)
{
    QK_NEED(err, outcome);
    *outcome = NULL;
    QK_NEED(err, plan, run);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    qk__study_work work = {
        .plan = plan, .run = run, .lock = &lock, .drawing = plan->figures, .folder.lock = -1};
    double start = qk__now();
    if (!run->output)
        return qk__fail(err, QK_ERR_ARGUMENT, "no output folder given");
    qk_status status = execute(&work, start, err);
    if (status == QK_ERR_CANCELLED)
        status = tell_stopped(&work, err);
    if (status == QK_OK || status == QK_ERR_PARTIAL) {
        work.outcome->seconds = qk__now() - start;
        *outcome = work.outcome;
    } else {
        qk_study_outcome_free(&work.outcome);
    }
    qk__study_fetch_stop(&work);
    qk__study_release(&work);
    pthread_mutex_destroy(&lock);
    return status;
}
