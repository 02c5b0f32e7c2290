/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter figures: heads are chosen, each is looked at, and all are laid out in figures. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "scatter/scatter.h"

enum {
    NAME_SIZE = 120,
    NAMED_HEADS = 4, /* heads that a name made from them lists */
};

typedef struct picture {
    char name[NAME_SIZE];
} picture;

typedef struct scatter {
    const qk_scatter_settings *settings;
    qk__run run;
    size_t num_views;
    qk__head_view *views;
    size_t num_figures, per_figure; /* figures, and views in each */
    picture *figures;
    qk__head_cells *cells; /* to be filled, where points alone are drawn; else NULL */
} scatter;

void qk_scatter_outcome_free(qk_scatter_outcome **outcome)
{
    assert(outcome);
    qk_scatter_outcome *o = *outcome;
    if (!o)
        return;
    qk__strings_free(o->figures, o->num_figures);
    free(o->heads);
    free(o);
    *outcome = NULL;
}

/* ---- names ------------------------------------------------------------------------------ */

static size_t add_text(char name[NAME_SIZE], size_t used, const char *text)
{
    return used + (size_t)snprintf(name + used, NAME_SIZE - used, "%s", text);
}

static const char *head_text(const qk_scatter_settings *s, qk_scatter_head head,
                             char text[QK_HEAD_NAME_SIZE + 1])
{
    qk_head_id id = {head.layer, head.head, s->kinds == QK_KINDS_K ? QK_KEY : QK_QUERY};
    text[0] = '-';
    qk_head_name(id, text + 1);
    if (s->kinds == QK_KINDS_BOTH)
        text[strlen(text) - 1] = 0;
    return text;
}

/* "scatter-pca-l05h13" and the like, from what is shown. */
static void make_name(const scatter *c, size_t first, size_t count, char name[NAME_SIZE])
{
    static const char *const BASES[] = {"scatter-pca", "scatter-ab", "scatter-complement",
                                        "scatter-attention"};
    const qk_scatter_settings *s = c->settings;
    char text[64];
    size_t used = add_text(name, 0, BASES[s->basis]);
    if (s->basis == QK_BASIS_PCA && (s->pc_x != 0 || s->pc_y != 1)) {
        snprintf(text, sizeof text, "-pc%d-pc%d", s->pc_x, s->pc_y);
        used = add_text(name, used, text);
    }
    for (size_t i = 0; i < count && i < NAMED_HEADS; i++)
        used = add_text(name, used, head_text(s, c->views[first + i].head, text));
    if (count > NAMED_HEADS) {
        snprintf(text, sizeof text, "-and-%zu-more", count - NAMED_HEADS);
        used = add_text(name, used, text);
    }
    if (s->example_id >= 0) {
        snprintf(text, sizeof text, "-text-%lld", (long long)s->example_id);
        add_text(name, used, text);
    }
}

/* A given name is that of the only figure; of several, the head or a number tells them apart. */
static void set_figure_name(const scatter *c, size_t figure)
{
    const qk_scatter_settings *s = c->settings;
    size_t first = figure * c->per_figure, left = c->num_views - first;
    char *name = c->figures[figure].name, text[64];
    if (!s->name) {
        make_name(c, first, left < c->per_figure ? left : c->per_figure, name);
        return;
    }
    size_t used = add_text(name, 0, s->name);
    if (c->num_figures == 1)
        return;
    if (c->per_figure == 1) {
        add_text(name, used, head_text(s, c->views[figure].head, text));
    } else {
        snprintf(text, sizeof text, "-%zu", figure + 1);
        add_text(name, used, text);
    }
}

/* A head asked for twice would draw over itself. */
static qk_status set_names(scatter *c, qk_error *err)
{
    bool alone = c->settings->rows == 0 || c->settings->basis == QK_BASIS_COMPLEMENT;
    c->per_figure = alone ? 1 : qk__scatter_places(c->settings);
    c->num_figures = (c->num_views + c->per_figure - 1) / c->per_figure;
    c->figures = qk__calloc(c->num_figures, sizeof *c->figures);
    if (!c->figures)
        return qk__nomem(err);
    for (size_t i = 0; i < c->num_figures; i++) {
        set_figure_name(c, i);
        for (size_t j = 0; j < i; j++)
            if (strcmp(c->figures[i].name, c->figures[j].name) == 0)
                return qk__fail(err, QK_ERR_ARGUMENT,
                                "two figures would be called %s: give each head once",
                                c->figures[i].name);
    }
    return QK_OK;
}

/* ---- looking and drawing ---------------------------------------------------------------- */

static qk_status look_at_head(void *context, size_t i, int worker, qk_error *err)
{
    scatter *c = context;
    int64_t bytes, rows;
    if (atomic_load(&c->run.cancelled))
        return QK_OK;
    const qk__look look = {&c->run, worker, c->settings, &c->views[i], c->cells != NULL};
    qk_status status = qk__head_view_make(&look, &bytes, &rows, err);
    qk__run_progress(&c->run, 1, bytes, rows);
    if (c->cells && status != QK_OK && status != QK_ERR_NOMEM) {
        c->views[i].num_panels = 0;
        c->cells->items[i].why = qk__strdup(err->message);
        return c->cells->items[i].why ? QK_OK : qk__nomem(err);
    }
    return status;
}

static void widen_span(qk__position_span *span, qk__position_span by)
{
    if (by.low > by.high)
        return;
    bool none = span->low > span->high;
    span->low = none || by.low < span->low ? by.low : span->low;
    span->high = none || by.high > span->high ? by.high : span->high;
}

static void add_panels(const qk__head_view *view, qk__scatter_panel *panels)
{
    for (size_t i = 0; i < view->num_panels; i++) {
        const qk__view_text *text = &view->texts[i];
        panels[i] = (qk__scatter_panel){
            .title = text->title,
            .notes = {text->notes[0][0] ? text->notes[0] : NULL,
                      text->notes[1][0] ? text->notes[1] : NULL},
            .box = text->box[0] ? text->box : NULL,
            .points = view->points + i * view->num_points,
            .count = view->num_points,
            .strips = &view->strips,
        };
    }
}

static void choose_axis_names(const qk_scatter_settings *s, qk__scatter *out, char pcs[2][16])
{
    switch (s->basis) {
    case QK_BASIS_PCA:
        snprintf(pcs[0], 16, "PC%d", s->pc_x);
        snprintf(pcs[1], 16, "PC%d", s->pc_y);
        out->x_label = pcs[0];
        out->y_label = pcs[1];
        break;
    case QK_BASIS_AB:
        out->x_label = "<i>a</i> (position axis)";
        out->y_label = "<i>b</i> (separation axis)";
        break;
    case QK_BASIS_COMPLEMENT:
        out->x_label = "first axis of the pair";
        out->y_label = "second axis of the pair";
        break;
    case QK_BASIS_ATTENTION:
        out->x_label = "Key position";
        out->y_label = "Query position";
        break;
    }
}

/* All panels of `count` views; in the wanted columns, or fewer where there are fewer panels. */
static qk__scatter plan_plot(const qk_scatter_settings *s, const qk__head_view *views,
                             size_t count, qk__scatter_panel *panels)
{
    qk__scatter plot = {.title = s->title && *s->title ? s->title : NULL,
                        .zero_lines = s->centred && s->basis == QK_BASIS_PCA,
                        .subtitle = views[0].subtitle[0] ? views[0].subtitle : NULL,
                        .panels = panels,
                        .q = {0, -1},
                        .k = {0, -1},
                        .one_text = s->example_id >= 0};
    for (size_t v = 0; v < count; v++) {
        add_panels(&views[v], panels + plot.num_panels);
        plot.num_panels += views[v].num_panels;
        widen_span(&plot.q, views[v].q);
        widen_span(plot.one_text ? &plot.q : &plot.k, views[v].k);
    }
    int wanted = s->columns > 0 ? s->columns : s->basis == QK_BASIS_COMPLEMENT ? 6 : 1;
    plot.columns = wanted < (int)plot.num_panels ? wanted : (int)plot.num_panels;
    return plot;
}

static void draw_views(const scatter *c, size_t first, size_t count, qk__figure *figure,
                       qk__scatter_panel *panels)
{
    char pcs[2][16];
    qk__scatter plot = plan_plot(c->settings, c->views + first, count, panels);
    choose_axis_names(c->settings, &plot, pcs);
    if (c->settings->basis == QK_BASIS_ATTENTION)
        qk__figure_strips(figure, &plot);
    else
        qk__figure_scatter(figure, &plot);
}

static qk_status draw_figure(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    scatter *c = context;
    const qk_scatter_settings *s = c->settings;
    const size_t first = i * c->per_figure, left = c->num_views - first;
    const size_t count = left < c->per_figure ? left : c->per_figure;
    qk_status status = QK_OK;
    qk__figure figure;
    if (atomic_load(&c->run.cancelled))
        return QK_OK;
    qk__figure_init(&figure, c->figures[i].name, qk__theme_of(s->figures.theme), 0, 0);
    qk__figure_set_page(&figure, &s->figures);
    qk__scatter_panel *panels =
        qk__figure_alloc(&figure, (size_t)QK__SCATTER_SIDE * QK__SCATTER_SIDE, sizeof *panels);
    qk_scatter_head *heads = qk__figure_alloc(&figure, count, sizeof *heads);
    if (panels && heads) {
        const qk__scatter_shown shown = {s, &qk_scatter_settings_table, c->figures[i].name,
                                         heads, count};
        for (size_t v = 0; v < count; v++)
            heads[v] = c->views[first + v].head;
        draw_views(c, first, count, &figure, panels);
        status = qk__scatter_note(&shown, &figure.note, err);
    }
    if (status == QK_OK)
        status = qk__figure_write(&figure, s->output, &s->figures, NULL, NULL, err);
    qk__figure_free(&figure);
    qk__run_progress(&c->run, 1, 0, 0);
    return status;
}

static qk_status cancelled(const scatter *c, size_t drawn, qk_error *err)
{
    if (!atomic_load(&c->run.cancelled))
        return QK_OK;
    if (drawn == 0)
        return qk__fail(err, QK_ERR_CANCELLED, "stopped before the end; nothing was written");
    return qk__fail(err, QK_ERR_CANCELLED, "stopped after %zu of %zu figures, which are in %s",
                    drawn, c->num_figures, c->settings->output);
}

static qk_status look_at_heads(scatter *c, qk_error *err)
{
    c->run.total_jobs = c->num_views;
    qk_status status = qk__parallel_try(c->num_views, c->run.threads, look_at_head, c, err);
    QK_TRY(cancelled(c, 0, err));
    return status;
}

static qk_status draw_figures(scatter *c, qk_error *err)
{
    c->run.jobs = "figures";
    c->run.total_jobs = c->num_figures;
    c->run.done_jobs = 0;
    qk_status status = qk__parallel_try(c->num_figures, c->run.threads, draw_figure, c, err);
    QK_TRY(cancelled(c, c->run.done_jobs, err));
    return status;
}

/* ---- the run ---------------------------------------------------------------------------- */

static qk_status list_cells(scatter *c, qk_error *err)
{
    *c->cells = (qk__head_cells){
        .items = qk__calloc(c->num_views, sizeof *c->cells->items), .q = {0, -1}, .k = {0, -1}};
    if (!c->cells->items)
        return qk__nomem(err);
    for (size_t i = 0; i < c->num_views; i++)
        c->cells->items[i].head = c->views[i].head;
    c->cells->count = c->num_views;
    return QK_OK;
}

static qk_status fill_cells(const scatter *c, qk_error *err)
{
    for (size_t i = 0; i < c->num_views; i++) {
        widen_span(&c->cells->q, c->views[i].q);
        widen_span(&c->cells->k, c->views[i].k);
    }
    for (size_t i = 0; i < c->num_views; i++) {
        const qk__head_view *view = &c->views[i];
        qk__scatter_panel panel;
        if (c->cells->items[i].why || view->num_panels != 1)
            continue;
        add_panels(view, &panel);
        QK_TRY(qk__cell_fill(&c->cells->items[i], &panel, &view->strings, c->cells, err));
    }
    return QK_OK;
}

static qk_status choose_scatter_heads(scatter *c, qk_error *err)
{
    qk_scatter_head *heads;
    QK_TRY(qk__scatter_select(&c->run, c->settings, &heads, &c->num_views, err));
    c->views = qk__calloc(c->num_views, sizeof *c->views);
    for (size_t i = 0; c->views && i < c->num_views; i++)
        c->views[i].head = heads[i];
    free(heads);
    if (!c->views)
        return qk__nomem(err);
    return c->cells ? list_cells(c, err) : set_names(c, err);
}

static qk_status make_outcome(const scatter *c, qk_scatter_outcome **outcome, qk_error *err)
{
    qk_scatter_outcome *o = calloc(1, sizeof *o);
    if (!o)
        return qk__nomem(err);
    o->heads = qk__calloc(c->num_views, sizeof *o->heads);
    o->figures = qk__calloc(c->num_figures, sizeof *o->figures);
    bool complete = o->heads && o->figures;
    for (size_t i = 0; complete && i < c->num_views; i++) {
        o->heads[o->num_heads++] = c->views[i].head;
        o->num_points += c->views[i].num_points * c->views[i].num_panels;
    }
    for (size_t i = 0; complete && i < c->num_figures; i++) {
        o->figures[i] = qk__strdup(c->figures[i].name);
        complete = o->figures[i] != NULL;
        o->num_figures++;
    }
    if (!complete) {
        qk_scatter_outcome_free(&o);
        return qk__nomem(err);
    }
    *outcome = o;
    return QK_OK;
}

/* Figures of a run that was killed lie in hidden folders beside their places. */
static qk_status sweep(const scatter *c, qk__hold *folder, qk_error *err)
{
    const char **names = qk__calloc(c->num_figures, sizeof *names);
    if (!names)
        return qk__nomem(err);
    for (size_t i = 0; i < c->num_figures; i++)
        names[i] = c->figures[i].name;
    qk_status status = qk__place_sweep_figures(folder, names, c->num_figures, err);
    free(names);
    return status;
}

/* Holds the folder, so that no other run takes what is being drawn for a killed run's. */
static qk_status draw_in_folder(scatter *c, qk_error *err)
{
    qk__hold folder;
    QK_TRY(qk__make_dirs(c->settings->output, err));
    QK_TRY(qk__place_watch(&folder, c->settings->output, NULL, err));
    qk_status status = sweep(c, &folder, err);
    if (status == QK_OK)
        status = draw_figures(c, err);
    qk__place_release(&folder);
    return status;
}

/* Where files differ, the longest texts of their heads may. */
static qk_status check_one_text(const scatter *c, qk_error *err)
{
    for (size_t i = 1; i < c->num_views; i++)
        if (strcmp(c->views[i].subtitle, c->views[0].subtitle) != 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "heads have different longest texts: give --example-id");
    return QK_OK;
}

static qk_status run_scatter(scatter *c, qk_scatter_outcome **outcome, qk_error *err)
{
    QK_TRY(choose_scatter_heads(c, err));
    if (c->settings->basis == QK_BASIS_ATTENTION)
        QK_TRY(qk__keep_texts(&c->run, err));
    QK_TRY(look_at_heads(c, err));
    if (c->settings->basis == QK_BASIS_ATTENTION)
        QK_TRY(check_one_text(c, err));
    if (c->cells)
        return fill_cells(c, err);
    QK_TRY(draw_in_folder(c, err));
    return make_outcome(c, outcome, err);
}

static qk_status draw_scatters(scatter *c, const qk_analysis_settings *input,
                               qk_scatter_outcome **outcome, qk_error *err)
{
    qk_status status = qk__run_open(&c->run, input, err);
    if (status == QK_OK)
        status = run_scatter(c, outcome, err);
    for (size_t i = 0; c->views && i < c->num_views; i++)
        qk__head_view_free(&c->views[i]);
    free(c->views);
    free(c->figures);
    qk_analysis_results_free(&c->run.results);
    qk__run_close(&c->run);
    return status;
}

/* err: not NULL. */
static qk_status scatter_with(const qk_scatter_settings *settings, qk__head_cells *cells,
                              qk_scatter_outcome **outcome, qk_error *err)
{
    QK_TRY(qk__scatter_check_settings(settings, err));
    /* Only moments are kept of a head, and its rows are read again, whatever the input's
     * settings ask for. */
    qk_analysis_settings input = settings->input;
    input.output = settings->output;
    input.analyses = QK_ANALYSE_PCA;
    input.combined = settings->kinds == QK_KINDS_BOTH;
    input.sample_heads = 0;
    input.ci = 0;
    input.lda = false;
    scatter c = {.settings = settings, .cells = cells};
    if (settings->heads.count > 0) { /* of a capture on the Hub nothing else is fetched */
        input.heads = settings->heads;
        input.layers = (qk_index_list){0};
    }
    return draw_scatters(&c, &input, outcome, err);
}

qk_status qk_scatter_run(const qk_scatter_settings *settings, qk_scatter_outcome **outcome,
                         qk_error *err)
{
    QK_NEED(err, outcome);
    double start = qk__now();
    qk_error own = {0};
    err = err ? err : &own;
    *outcome = NULL;
    QK_NEED(err, settings);
    qk_status status = scatter_with(settings, NULL, outcome, err);
    if (*outcome)
        (*outcome)->seconds = qk__now() - start;
    return status;
}

qk_status qk__scatter_cells(const qk_scatter_settings *settings, qk__head_cells *cells,
                            qk_error *err)
{
    qk_scatter_outcome *outcome = NULL;
    *cells = (qk__head_cells){0};
    qk_status status = scatter_with(settings, cells, &outcome, err);
    if (status != QK_OK)
        qk__head_cells_free(cells);
    qk_scatter_outcome_free(&outcome);
    return status;
}
