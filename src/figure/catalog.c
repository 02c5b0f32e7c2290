/* SPDX-License-Identifier: Apache-2.0 */
/* All figures that are drawn from tables: finds those that apply to the results, and draws them in parallel. */
#include "figure/catalog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parallel.h"

/* ---- what applies ----------------------------------------------------------------------- */

static bool is_asked_for(const qk__subject *subject, const qk__drawn *drawn)
{
    for (size_t i = 0; i < subject->num_only; i++)
        if (strcmp(subject->only[i], drawn->name) == 0 ||
            strcmp(subject->only[i], drawn->kind->name) == 0)
            return true;
    return subject->num_only == 0;
}

/* A comparison of models says little about one model, and one checkpoint is no training. */
static bool is_apt(const qk__subject *subject, const qk__figure_kind *kind)
{
    const qk__results *results = subject->results;
    if ((kind->apart && results->checkpoints) || (kind->alone && results->num_models > 1))
        return false;
    return results->num_models > 1 ? results->checkpoints || !kind->training
                                   : !kind->compares && !kind->training;
}

/* Whether the figure of any model is asked for. */
static bool is_kind_asked_for(const qk__subject *subject, const qk__figure_kind *kind)
{
    const size_t length = strlen(kind->name);
    for (size_t i = 0; i < subject->num_only; i++)
        if (strncmp(subject->only[i], kind->name, length) == 0 &&
            (!subject->only[i][length] || (kind->per_model && subject->only[i][length] == '-')))
            return true;
    return subject->num_only == 0;
}

/* The next kind that applies and is asked for; NULL: there are no more. */
static const qk__figure_kind *next_kind(const qk__subject *subject, size_t *family,
                                        size_t *kind)
{
    for (; *family < qk__num_figure_families; ++*family, *kind = 0)
        while (*kind < qk__figure_families[*family].count) {
            const qk__figure_kind *next = &qk__figure_families[*family].kinds[(*kind)++];
            if (is_apt(subject, next) && is_kind_asked_for(subject, next) &&
                (subject->tables || !(next->select || next->compose)))
                return next;
        }
    return NULL;
}

/* ---- what they ask ---------------------------------------------------------------------- */

/* Empty: it asks nothing. */
static qk_status select_of(const qk__subject *subject, qk__buffer *sql, qk_error *err)
{
    const qk__figure_kind *kind = subject->kind;
    if (kind->select)
        return qk__buffer_printf(sql, err, "%s", kind->select);
    return kind->compose ? kind->compose(subject, sql, err) : QK_OK;
}

/* rows NULL: the SELECT is only announced. */
static qk_status ask_kind(const qk__subject *subject, qk_columns **rows, qk_error *err)
{
    qk__buffer sql = {0};
    qk_status status = select_of(subject, &sql, err);
    if (status == QK_OK && sql.size > 0)
        status = rows ? qk__store_ask(subject->tables, rows, err, "%s", (const char *)sql.data)
                      : qk__store_expect(subject->tables, (const char *)sql.data, err);
    qk__buffer_free(&sql);
    return status;
}

static void add_one(const qk__subject *subject, const qk__figure_family *family,
                    qk__drawn_list *list)
{
    const qk__figure_kind *kind = subject->kind;
    qk__drawn *drawn = &list->items[list->count];
    *drawn = (qk__drawn){.family = family,
                         .kind = kind,
                         .model = subject->model,
                         .rows = subject->rows,
                         .all = subject->all};
    snprintf(drawn->name, sizeof drawn->name, "%s%s%s", kind->name, subject->model ? "-" : "",
             subject->model ? subject->model->slug : "");
    list->count += is_asked_for(subject, drawn) &&
                   (kind->applies ? kind->applies(subject) : subject->rows.count > 0);
}

/* Adds the figure of a kind, or that of each model. */
static void add_kind(const qk__subject *subject, const qk__figure_family *family,
                     qk_columns *found, qk__drawn_list *list)
{
    qk__subject of = *subject;
    const qk__results *results = subject->results;
    of.rows = of.all = (qk__found){found, 0, found ? qk_columns_num_rows(found) : 0};
    if (!of.kind->per_model)
        add_one(&of, family, list);
    for (size_t m = 0; of.kind->per_model && m < results->num_models; m++) {
        of.model = &results->models[m];
        of.rows = qk__rows_of_model(&of.all, of.model);
        add_one(&of, family, list);
    }
}

static qk_status find_figures(const qk__subject *subject, qk__drawn_list *list, qk_error *err)
{
    qk__subject of = *subject;
    for (size_t f = 0, k = 0; (of.kind = next_kind(subject, &f, &k));)
        QK_TRY(ask_kind(&of, NULL, err));
    for (size_t f = 0, k = 0; (of.kind = next_kind(subject, &f, &k));)
        QK_TRY(ask_kind(&of, &list->asked[list->num_asked++], err));
    for (size_t f = 0, k = 0, i = 0; (of.kind = next_kind(subject, &f, &k));)
        add_kind(&of, &qk__figure_families[f], list->asked[i++], list);
    return QK_OK;
}

static qk_status take_list(const qk__subject *subject, qk__drawn_list *list, qk_error *err)
{
    size_t kinds = 0;
    for (size_t f = 0; f < qk__num_figure_families; f++)
        kinds += qk__figure_families[f].count;
    list->items = qk__calloc(kinds * (subject->results->num_models + 1), sizeof *list->items);
    list->asked = qk__calloc(kinds, sizeof(qk_columns *));
    if (!list->items || !list->asked)
        return qk__nomem(err);
    return find_figures(subject, list, err);
}

/* The first name that is of no figure; NULL: none. */
static const char *find_unknown(const qk__subject *subject, const qk__drawn_list *list)
{
    for (size_t i = 0; i < subject->num_only; i++) {
        qk__subject one = {.only = &subject->only[i], .num_only = 1};
        size_t k = 0;
        while (k < list->count && !is_asked_for(&one, &list->items[k]))
            k++;
        if (k == list->count)
            return subject->only[i];
    }
    return NULL;
}

qk_status qk__list_figures(const qk__subject *subject, qk__drawn_list *list, qk_error *err)
{
    *list = (qk__drawn_list){0};
    qk_status status = take_list(subject, list, err);
    const char *unknown = status == QK_OK ? find_unknown(subject, list) : NULL;
    if (unknown)
        status = qk__fail(err, QK_ERR_NOT_FOUND,
                          "figure %.100s: these results have none of this name; --list names "
                          "those that there are",
                          unknown);
    if (status != QK_OK)
        qk__drawn_list_free(list);
    return status;
}

/* ---- drawing ---------------------------------------------------------------------------- */

typedef struct drawing {
    const qk__subject *subject;
    const char *folder;
    const qk_figure_settings *settings;
    qk__drawn_list *list;
    qk__meter figures;
} drawing;

static void draw_one(void *context, size_t i, int worker)
{
    (void)worker;
    drawing *all = context;
    qk__drawn *drawn = &all->list->items[i];
    qk_error err = {0};
    if (qk__meter_is_stopped(&all->figures)) {
        drawn->status = QK_ERR_CANCELLED;
        return;
    }
    qk__subject subject = *all->subject;
    subject.model = drawn->model;
    subject.kind = drawn->kind;
    subject.rows = drawn->rows;
    subject.all = drawn->all;
    qk__figure figure;
    const bool in_page = all->subject->in_page;
    qk__figure_init(&figure, drawn->name, qk__theme_of(all->settings->theme),
                    drawn->kind->width, drawn->kind->height + 100);
    qk__figure_set_page(&figure, all->settings);
    drawn->kind->build(&figure, &subject);
    drawn->status = qk__figure_write(&figure, all->folder, all->settings, drawn->kind->title,
                                     in_page ? &drawn->in_page : NULL, &err);
    drawn->width = figure.width;
    drawn->height = figure.height;
    if (drawn->status != QK_OK)
        drawn->message = qk__strdup(err.message);
    qk__figure_free(&figure);
    qk__meter_add(&all->figures, 1, 0);
}

static qk_status first_failure(const drawing *all, qk_error *err)
{
    bool stopped = all->figures.stopped; /* or while a figure read its tables */
    for (size_t i = 0; i < all->list->count; i++)
        stopped |= all->list->items[i].status == QK_ERR_CANCELLED;
    if (stopped)
        return qk__fail(err, QK_ERR_CANCELLED,
                        "stopped after %lld of %zu figures; nothing was written",
                        (long long)all->figures.now.done, all->list->count);
    for (size_t i = 0; i < all->list->count; i++) {
        const qk__drawn *drawn = &all->list->items[i];
        if (drawn->status != QK_OK)
            return qk__fail(err, drawn->status, "%s",
                            drawn->message ? drawn->message : "out of memory");
    }
    return QK_OK;
}

qk_status qk__draw_figures(const qk__subject *subject, const char *folder,
                           const qk_figure_settings *settings, const qk_context *context,
                           qk__drawn_list *list, qk_error *err)
{
    qk_status status = qk__list_figures(subject, list, err);
    if (status == QK_ERR_CANCELLED)
        return qk__fail(err, status, "stopped before the first figure; nothing was written");
    if (status != QK_OK || list->count == 0)
        return status;
    drawing all = {.subject = subject, .folder = folder, .settings = settings, .list = list};
    qk__meter_open(&all.figures,
                   (qk_progress){.what = "figures", .total = (int64_t)list->count}, context);
    qk__parallel_for(list->count, qk__count_threads(context), draw_one, &all);
    qk__meter_close(&all.figures);
    return first_failure(&all, err);
}

qk_status qk__check_written(const qk__drawn_list *list, qk_error *err)
{
    for (size_t i = 0; i < list->count; i++)
        if (qk__is_unwritten(list->items[i].status, list->items[i].message))
            return qk__fail(err, QK_ERR_IO, "%s", list->items[i].message);
    return QK_OK;
}

void qk__drawn_list_free(qk__drawn_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].message);
        qk__buffer_free(&list->items[i].in_page);
    }
    for (size_t i = 0; i < list->num_asked; i++)
        qk_columns_free(&list->asked[i]);
    free(list->asked);
    free(list->items);
    *list = (qk__drawn_list){0};
}
