/* SPDX-License-Identifier: Apache-2.0 */
/* All figures that are drawn from tables: which apply to some results, and drawing them side by
 * side. */
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

/* What compares models says little of one, and one checkpoint is no training. */
static bool is_apt(const qk__subject *subject, const qk__figure_kind *kind)
{
    const qk__results *results = subject->results;
    return results->num_models > 1 ? results->checkpoints || !kind->training
                                   : !kind->compares && !kind->training;
}

static void add_one(qk__drawn *items, size_t *count, const qk__figure_family *family,
                    const qk__figure_kind *kind, const qk__subject *subject)
{
    qk__drawn drawn = {.family = family, .kind = kind, .model = subject->model};
    qk__subject of = *subject;
    of.kind = kind;
    if (!is_apt(subject, kind) || !kind->applies(&of))
        return;
    snprintf(drawn.name, sizeof drawn.name, "%s%s%s", kind->name, subject->model ? "-" : "",
             subject->model ? subject->model->slug : "");
    if (!is_asked_for(subject, &drawn))
        return;
    if (items)
        items[*count] = drawn;
    ++*count;
}

/* The figures of these results in report order; with items NULL it only counts them. */
static size_t find_figures(const qk__subject *subject, qk__drawn *items)
{
    size_t count = 0;
    for (size_t f = 0; f < qk__num_figure_families; f++) {
        const qk__figure_family *family = &qk__figure_families[f];
        for (size_t k = 0; k < family->count; k++) {
            const qk__figure_kind *kind = &family->kinds[k];
            qk__subject of = *subject;
            of.model = NULL;
            if (!kind->per_model)
                add_one(items, &count, family, kind, &of);
            for (size_t m = 0; kind->per_model && m < subject->results->num_models; m++) {
                of.model = &subject->results->models[m];
                add_one(items, &count, family, kind, &of);
            }
        }
    }
    return count;
}

/* Which name is that of no figure; NULL: none. */
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
    size_t count = find_figures(subject, NULL);
    if (count > 0 && !(list->items = qk__calloc(count, sizeof *list->items)))
        return qk__nomem(err);
    list->count = count > 0 ? find_figures(subject, list->items) : 0;
    const char *unknown = find_unknown(subject, list);
    if (!unknown)
        return QK_OK;
    qk__drawn_list_free(list);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "figure %.100s: these results have none of this name; --list names those "
                    "that there are",
                    unknown);
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
    if (all->figures.stopped)
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
    QK_TRY(qk__list_figures(subject, list, err));
    if (list->count == 0)
        return QK_OK;
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
    free(list->items);
    *list = (qk__drawn_list){0};
}
