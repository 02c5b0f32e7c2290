/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a study: scatter collages of each model from its capture, one of them of the heads that
 * stand out in its results; all else from the results.
 *
 * Once a model's collages are drawn, its folder holds figures.json, which says how and by which
 * version. It is removed when the model is computed again. So the collages are drawn anew where
 * it is missing or says something else than what is asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/common.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "base/parallel.h"
#include "base/utf8.h"
#include "figure/figure.h"
#include "report/report.h"
#include "settings/settings_json.h"
#include "report/extreme_heads.h"
#include "study/study.h"

/* One collage of a model. */
typedef struct collage {
    qk_analyses analysis;
    const char *name;
    qk_scatter_basis basis;
    bool extremes; /* of the heads that stand out, else of the heads that are asked for */
} collage;

static const collage COLLAGES[] = {
    {QK_ANALYSE_PCA, "pca-06-collage", QK_BASIS_PCA, false},
    {QK_ANALYSE_ROTATION, "rotation-01-plane", QK_BASIS_AB, false},
    {QK_ANALYSE_ROTATION, "rotation-08-complement", QK_BASIS_COMPLEMENT, false},
    {QK_ANALYSE_PCA, "pca-13-extreme-heads", QK_BASIS_PCA, true},
};
enum { NUM_COLLAGES = sizeof COLLAGES / sizeof *COLLAGES };

static bool is_asked(const qk__study_work *work, const collage *one)
{
    return (work->plan->config.settings.analyses & (unsigned)one->analysis) != 0;
}

/* ---- whether they stand ----------------------------------------------------------------- */

/* The title: the model, and which checkpoint of a training it is. */
static void title_of(const qk__study_work *work, size_t i, char title[240])
{
    const qk_study_model *model = &work->plan->models[i];
    const bool checkpoint = *model->phase && *model->family;
    qk__utf8_print(title, 240, "%s%s%s", checkpoint ? model->family : "",
                   checkpoint ? " · " : "", model->label);
}

static json_t *describe_figures(const qk__study_work *work, size_t i)
{
    char title[240];
    title_of(work, i, title);
    const qk__study_collage *c = &work->plan->collage;
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:i, s:o, s:I, s:o}", "qkscope",
                     QK_VERSION, "formats", (int)work->drawing.formats, "theme",
                     (int)work->drawing.theme, "width", work->drawing.width, "bare",
                     work->drawing.no_title + 2 * work->drawing.no_legend +
                         4 * work->drawing.symbols,
                     "rows", c->rows, "columns", c->columns, "seed", (json_int_t)c->seed,
                     "random", c->random, "heads", qk__json_head_set(&c->heads), "max_points",
                     (json_int_t)c->max_points, "label", qk__json_text(title));
}

static bool has_files(const qk__study_work *work, size_t i)
{
    enum { NUM_ENDINGS = 3 };
    static const char *const ENDINGS[] = {"csv", "svg", "md"};
    for (size_t k = 0; k < NUM_COLLAGES; k++)
        for (size_t e = 0; e < NUM_ENDINGS && is_asked(work, &COLLAGES[k]); e++) {
            char name[160];
            snprintf(name, sizeof name, "%s-%s.%s", COLLAGES[k].name, work->slugs[i],
                     ENDINGS[e]);
            if (!qk__is_file_in(work->figures, name))
                return false;
        }
    return true;
}

static bool stand(const qk__study_work *work, size_t i)
{
    char *path = qk__path_join(work->places[i].folder, QK__FIGURES_JSON);
    json_t *were = path ? qk__json_read(path, QK__JSON_RUN) : NULL;
    json_t *are = describe_figures(work, i);
    bool equal = were && are && json_equal(were, are) && has_files(work, i);
    json_decref(were);
    json_decref(are);
    free(path);
    return equal;
}

/* ---- drawing ---------------------------------------------------------------------------- */

/* Adds a failure to those of the report. */
static qk_status add_failure(qk_report_outcome *report, const char *figure, const char *message,
                             qk_error *err)
{
    char **failures =
        realloc(report->failures, (report->num_failed + 1) * sizeof *report->failures);
    if (!failures)
        return qk__nomem(err);
    report->failures = failures;
    qk__buffer text = {0};
    bool named = !figure || strncmp(message, "figure ", strlen("figure ")) == 0;
    QK_TRY(qk__buffer_printf(&text, err, "%s%s%s%s", named ? "" : "figure ",
                             named ? "" : figure, named ? "" : ": ", message));
    failures[report->num_failed++] = (char *)text.data;
    return QK_OK;
}

/* A collage of a model that is to be drawn. */
typedef struct task {
    qk__relay relay; /* with its name; first, since the collage's progress is cast to it */
    struct drawing *drawing;
    size_t model;
    const collage *collage;
    qk__extremes extremes; /* for `extremes` */
    char name[120];
    char title[240];
    size_t figures; /* that were drawn */
    qk_status status;
    qk_error why;
} task;

typedef struct drawing {
    qk__study_work *work;
    task *tasks; /* by model */
    size_t count;
    qk__meter meter;
} drawing;

/* Counts collages, not heads; but the user may stop between heads. */
static bool goes_on(void *user, const qk_progress *heads)
{
    task *t = user;
    (void)heads;
    return qk__meter_add(&t->drawing->meter, 0, 0);
}

static qk_scatter_settings settings_of(task *t)
{
    const qk__study_work *work = t->drawing->work;
    const qk__study_collage *c = &work->plan->collage;
    qk_scatter_settings s;
    qk_settings_default(&qk_scatter_settings_table, &s);
    s.input = qk__study_settings(work, t->model);
    s.input.seed = c->seed;
    t->relay = (qk__relay){.to = &work->run->context,
                           .name = work->plan->models[t->model].name,
                           .told = work->told,
                           .lock = work->lock};
    s.input.context = qk__relay_context(&t->relay);
    s.input.context.progress = goes_on;
    s.input.context.threads = 1; /* collages run in parallel */
    s.basis = t->collage->basis;
    s.max_points = c->max_points;
    s.figures = work->drawing;
    s.output = work->figures;
    s.name = t->name;
    title_of(work, t->model, t->title);
    s.title = t->title;
    bool whole = s.basis == QK_BASIS_COMPLEMENT; /* a figure of one head */
    s.rows = whole ? 0 : c->rows;
    s.columns = whole ? 0 : c->columns;
    if (c->heads.count == 0 && whole)
        s.random = 1;
    else if (c->heads.count == 0)
        s.random = c->random ? c->random : c->rows * c->columns;
    return s;
}

/* As many as the model has. */
static void take_extremes(qk__extremes *extremes, qk_scatter_settings *s)
{
    const size_t count = extremes->count;
    s->heads = (qk_head_set){extremes->heads, count};
    s->random = 0;
    s->rows = count == 4 || count == 6 ? 2 : 1; /* without an empty place */
    s->columns = count > 0 ? (int)count / s->rows : 1;
}

static qk_status draw_collage(task *t, qk_error *err)
{
    const qk_head_set *named = &t->drawing->work->plan->collage.heads;
    qk_scatter_settings s = settings_of(t);
    qk_head_range heads[1];
    qk_scatter_outcome *outcome;
    const char *about[QK__NUM_EXTREMES];
    for (size_t i = 0; i < QK__NUM_EXTREMES; i++)
        about[i] = t->extremes.about[i];
    if (t->collage->extremes)
        take_extremes(&t->extremes, &s);
    else
        s.heads = *named;
    s.about = t->collage->extremes ? about : NULL;
    if (!t->collage->extremes && named->count > 0 && s.basis == QK_BASIS_COMPLEMENT) {
        heads[0] = named->items[0]; /* a figure of the first head only */
        heads[0].last_layer = heads[0].first_layer;
        heads[0].last_head = heads[0].first_head;
        s.heads = (qk_head_set){heads, 1};
    }
    qk_status status = qk_scatter_run(&s, &outcome, err);
    t->figures = status == QK_OK ? outcome->num_figures : 0;
    qk_scatter_outcome_free(&outcome);
    return status;
}

/* A failure does not stop the others. */
static void draw_task(void *context, size_t i, int worker)
{
    (void)worker;
    drawing *d = context;
    task *t = &d->tasks[i];
    t->status = QK_ERR_CANCELLED;
    if (qk__meter_is_stopped(&d->meter))
        return;
    t->status = draw_collage(t, &t->why);
    if (!qk__meter_add(&d->meter, 1, 0)) { /* the next collage sees it */
    }
}

/* ---- all collages ----------------------------------------------------------------------- */

static void list_tasks(drawing *d)
{
    const qk__study_work *work = d->work;
    for (size_t i = 0; i < work->plan->num_models; i++) {
        if (!qk__study_has_results(&work->outcome->models[i]) || work->places[i].rowless ||
            stand(work, i))
            continue;
        for (size_t k = 0; k < NUM_COLLAGES; k++) {
            task *t = &d->tasks[d->count];
            if (!is_asked(work, &COLLAGES[k]))
                continue;
            *t = (task){.drawing = d, .model = i, .collage = &COLLAGES[k]};
            snprintf(t->name, sizeof t->name, "%s-%s", COLLAGES[k].name, work->slugs[i]);
            d->count++;
        }
    }
}

/* Before tasks run side by side, which the tables do not allow. */
static qk_status find_extremes(const drawing *d, qk_error *err)
{
    const qk__study_work *work = d->work;
    qk__store *tables = NULL;
    qk_status status = QK_OK;
    for (size_t i = 0; i < d->count && status == QK_OK; i++) {
        task *t = &d->tasks[i];
        if (!t->collage->extremes)
            continue;
        if (!tables) {
            status = qk__store_open(&tables, &work->context, err);
            if (status == QK_OK)
                status = qk__store_add(tables, "main", work->run->output, true, err);
        }
        if (status == QK_OK)
            status =
                qk__extreme_heads(tables, work->plan->models[t->model].name, &t->extremes, err);
    }
    qk__store_close(&tables);
    return status;
}

static qk_status write_mark(const qk__study_work *work, size_t i, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(qk__json_write(describe_figures(work, i), work->places[i].folder, QK__FIGURES_JSON,
                          &file, err));
    return qk__outfile_commit(&file, err);
}

/* Marks the models whose collages are all there, and lists what failed. */
static qk_status conclude(const drawing *d, qk_error *err)
{
    qk_report_outcome *report = d->work->collages;
    for (size_t i = 0; i < d->count; i++)
        report->num_figures += d->tasks[i].figures;
    if (d->meter.stopped)
        return qk__fail(err, QK_ERR_CANCELLED, "stopped before the end");
    for (size_t i = 0; i < d->count;) {
        size_t model = d->tasks[i].model;
        bool all = true;
        for (; i < d->count && d->tasks[i].model == model; i++) {
            const task *t = &d->tasks[i];
            all = all && t->status == QK_OK;
            if (qk__is_unwritten(t->status, t->why.message))
                return qk__fail(err, QK_ERR_IO, "%s", t->why.message);
            if (t->status != QK_OK)
                QK_TRY(add_failure(report, t->name, t->why.message, err));
        }
        if (all)
            QK_TRY(write_mark(d->work, model, err));
    }
    return QK_OK;
}

static qk_status draw_collages(qk__study_work *work, qk_error *err)
{
    drawing d = {.work = work};
    if (!work->collages && !(work->collages = calloc(1, sizeof *work->collages)))
        return qk__nomem(err);
    d.tasks = qk__calloc(NUM_COLLAGES * work->plan->num_models, sizeof *d.tasks);
    if (!d.tasks)
        return qk__nomem(err);
    list_tasks(&d);
    qk_status made = d.count > 0 ? qk__make_below(work->run->output, "figures", err) : QK_OK;
    if (made == QK_OK)
        made = find_extremes(&d, err);
    if (made != QK_OK) {
        free(d.tasks);
        return made;
    }
    qk__meter_open(&d.meter, (qk_progress){.what = "figures", .total = (int64_t)d.count},
                   &work->context);
    qk__parallel_for(d.count, work->context.threads, draw_task, &d);
    qk__meter_close(&d.meter);
    qk_status status = conclude(&d, err);
    free(d.tasks);
    return status;
}

/* ---- figures from tables, and the page -------------------------------------------------- */

static qk_status write_report(const qk__study_work *work, qk_report_outcome **report,
                              qk_error *err)
{
    qk_report_settings s;
    qk_study_settings run = *work->run;
    qk_settings_default(&qk_report_settings_table, &s);
    s.results = run.output;
    s.score_metric = work->plan->score_metric;
    s.score_column = work->plan->score_column;
    s.figures = work->drawing;
    s.html = run.html;
    s.context = work->context;
    return qk__report_make(&s, report, err);
}

/* Moves the failures of `from` behind those of `to`, adds up the rest. */
static qk_status join_outcomes(qk_report_outcome *to, qk_report_outcome *from, qk_error *err)
{
    for (size_t i = 0; i < to->num_failed; i++)
        QK_TRY(add_failure(from, NULL, to->failures[i], err));
    from->num_figures += to->num_figures;
    return QK_OK;
}

qk_status qk__study_draw(qk__study_work *work, qk_error *err)
{
    qk_error why = {0};
    qk_report_outcome *report = NULL;
    qk__study_begins(work, work->plan->num_models, false);
    QK_TRY(draw_collages(work, err));
    qk_status status = write_report(work, &report, &why);
    bool unwritten = !report && qk__is_unwritten(status, why.message);
    if (status == QK_ERR_CANCELLED || status == QK_ERR_NOMEM || unwritten) {
        if (err)
            *err = why;
        return status;
    }
    qk_report_outcome *collages = work->outcome->report = work->collages;
    work->collages = NULL;
    if (!report) /* the tables are there anyway */
        return add_failure(collages, NULL, why.message, err);
    work->outcome->report = report;
    status = join_outcomes(collages, report, err);
    qk_report_outcome_free(&collages);
    return status;
}
