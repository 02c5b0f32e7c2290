/* SPDX-License-Identifier: Apache-2.0 */
/* Directions of queries, from a capture of other texts: a component of the head's PCA, or its axis of drift. Beside
 * them random directions and a component without position, which take as much out of the scores. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ablation/ablation.h"
#include "analysis/head_grid.h"
#include "base/error.h"
#include "base/rng.h"
#include "stats/rotation.h"

/* The moments of all key heads are kept while queries are read. */
typedef struct finding {
    qk__ablation *ablation;
    const qk__grid *grid;
    qk_moments **keys; /* [layers * key heads] */
} finding;

qk__direction *qk__direction_of(const qk__ablation *a, size_t what, int draw, int head)
{
    const size_t heads =
        (size_t)a->recording.facts->num_layers * (size_t)a->recording.facts->num_q_heads;
    const size_t draws = a->settings->controls ? (size_t)a->settings->draws : 0;
    return &a->directions[(what * (1 + draws) + (size_t)draw) * heads + (size_t)head];
}

/* u'(S/n)u; from_zero counts rows from 0 and adds the square of the mean. */
static double spread_along(const qk_moments *m, const float *u, bool from_zero)
{
    double sum = 0, mean = 0;
    for (size_t i = 0; i < m->dim; i++) {
        double row = 0;
        for (size_t j = 0; j < m->dim; j++)
            row += m->sum_xx[i * m->dim + j] * (double)u[j];
        sum += row * (double)u[i];
        mean += m->mean[i] * (double)u[i];
    }
    return sum / (double)m->count + (from_zero ? mean * mean : 0);
}

/* The variance over keys of the direction's part in a query's scores, at the mean over queries: softmax does not see
 * what all keys have in common. */
static double scores_along(const qk_moments *q, const qk_moments *k, const float *u)
{
    return spread_along(q, u, true) * spread_along(k, u, false);
}

static qk_status set_direction(qk__direction *d, const double *axis, size_t width, float part,
                               qk_error *err)
{
    double length = 0;
    d->u = qk__calloc(width, sizeof *d->u);
    if (!d->u)
        return qk__nomem(err);
    for (size_t i = 0; i < width; i++)
        length += axis[i] * axis[i];
    for (size_t i = 0; i < width; i++)
        d->u[i] = (float)(axis[i] / sqrt(length));
    d->part = part;
    return QK_OK;
}

/* The later component that follows position least; the number of components: there is none. */
static size_t next_without_position(const qk_pca *pca, size_t component)
{
    size_t best = component + 1;
    for (size_t i = best + 1; i < pca->num_components; i++) {
        const qk_component *c = &pca->components[i], *b = &pca->components[best];
        if (fmax(fabs(c->r_q), fabs(c->r_k)) < fmax(fabs(b->r_q), fabs(b->r_k)))
            best = i;
    }
    return best < pca->num_components ? best : pca->num_components;
}

static qk_status find_axis(const qk__what *what, const qk_moments *q, const qk_moments *k,
                           qk__direction *d, qk_error *err)
{
    enum { BEHIND = 5 }; /* components that are tried for one without position */
    qk_pca *pca = NULL;
    qk_rotation *rotation = NULL;
    const double *axis = NULL;
    qk_status status;
    if (what->component >= 0) {
        qk_pca_settings settings;
        qk_pca_settings_default(&settings);
        settings.components = what->component + 1 + (what->next ? BEHIND : 0);
        status = qk_pca_combined(q, k, &settings, &pca, err);
        size_t component = (size_t)what->component;
        if (status == QK_OK && what->next)
            component = next_without_position(pca, component);
        if (status == QK_OK && pca->num_components > component)
            axis = pca->axes + component * q->dim;
    } else {
        const qk_rotation_settings settings = {.planes = 0};
        status = qk__rotation_fit(q, k, &settings, &rotation, err);
        axis = status == QK_OK ? rotation->a : NULL;
    }
    if (status == QK_OK && !axis)
        status = qk__fail(err, QK_ERR_DEGENERATE, "has no axis for %s%s", what->name,
                          what->next ? ": --no-controls leaves that out" : "");
    if (status == QK_OK)
        status = set_direction(d, axis, q->dim, what->part, err);
    qk_pca_free(&pca);
    qk__rotation_free(&rotation);
    return status;
}

/* Scales a direction so that it takes as much out of scores as the one it stands beside; to nothing where it has next
 * to no part in them. */
static void match(qk__direction *d, const qk__direction *own, const qk_moments *q,
                  const qk_moments *k)
{
    const double wanted = scores_along(q, k, own->u), there = scores_along(q, k, d->u);
    const double scale = there > 0 ? sqrt(wanted / there) : 0;
    d->part = own->part * (scale < 1e6 ? (float)scale : 0);
}

static qk_status draw_directions(const qk__ablation *a, size_t what, int head,
                                 const qk_moments *q, const qk_moments *k, qk_error *err)
{
    const qk__direction *own = qk__direction_of(a, what, 0, head);
    double axis[QK_MAX_DIM];
    for (int draw = 1; draw <= a->settings->draws && a->settings->controls; draw++) {
        const uint64_t words[] = {what, (uint64_t)head, (uint64_t)draw};
        qk__direction *d = qk__direction_of(a, what, draw, head);
        qk__rng rng;
        qk__rng_init(&rng, (uint64_t)a->settings->seed, words, 3);
        for (size_t i = 0; i < q->dim; i++)
            axis[i] = qk__rng_gaussian(&rng);
        QK_TRY(set_direction(d, axis, q->dim, 0, err));
        match(d, own, q, k);
    }
    return QK_OK;
}

static qk_status take_queries(void *user, size_t place, const qk_moments *q, qk_error *err)
{
    const finding *f = user;
    const qk__ablation *a = f->ablation;
    const size_t width = f->grid->heads[QK_QUERY];
    const qk_moments *k =
        f->keys[place / width * f->grid->heads[QK_KEY] + place % width / f->grid->group];
    for (size_t w = 0; w < a->num_whats; w++)
        if (a->whats[w].kind == QK_CHANGE_DIRECTION) {
            qk__direction *d = qk__direction_of(a, w, 0, (int)place);
            QK_TRY(find_axis(&a->whats[w], q, k, d, err));
            if (a->whats[w].next) /* the direction itself stands before it */
                match(d, qk__direction_of(a, w - 1, 0, (int)place), q, k);
            else
                QK_TRY(draw_directions(a, w, (int)place, q, k, err));
        }
    return QK_OK;
}

static qk_status check_grid(const qk__ablation *a, const qk__grid *grid, qk_error *err)
{
    const qk_model_facts *facts = a->recording.facts;
    if (grid->layers == (size_t)facts->num_layers &&
        grid->heads[QK_QUERY] == (size_t)facts->num_q_heads &&
        grid->heads[QK_KEY] == (size_t)facts->num_k_heads &&
        grid->dim == (size_t)facts->head_dim)
        return QK_OK;
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "%s has %zu layers of %zu query and %zu key heads of %zu values, unlike the "
        "model: is it a capture of this model?",
        a->settings->capture, grid->layers, grid->heads[QK_QUERY], grid->heads[QK_KEY],
        grid->dim);
}

static int compare_prints(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void tell_unknown(const qk__ablation *a, const char *what)
{
    qk__tell_notice(&a->recorder.context, QK_NOTICE_WARNING,
                    "%s does not name its %s is not checked", a->settings->capture, what);
}

/* No tested text may be in the capture, by checksums of their tokens. */
static qk_status check_texts(const qk__ablation *a, const qk__text_ids *ids, qk_error *err)
{
    const qk__text_print *tested = (const void *)a->recording.text_ids.data;
    const size_t count = (size_t)a->recording.counts.texts;
    size_t told = 0, listed = 0, shared = 0, first = 0;
    uint64_t *prints = qk__calloc(ids->count + 1, sizeof *prints);
    if (!prints)
        return qk__nomem(err);
    for (size_t i = 0; i < ids->count; i++) {
        told += ids->of[i].print != 0;
        if (ids->of[i].print != 0 && ids->of[i].tokens > 0)
            prints[listed++] = ids->of[i].print;
    }
    qsort(prints, listed, sizeof *prints, compare_prints);
    for (size_t i = 0; i < count; i++)
        if (bsearch(&tested[i].tokens, prints, listed, sizeof *prints, compare_prints))
            first = shared++ == 0 ? i : first;
    free(prints);
    if (told < ids->count || told == 0)
        tell_unknown(a, "texts: whether they differ from the tested texts");
    return shared == 0 ? QK_OK
                       : qk__fail(err, QK_ERR_INCONSISTENT,
                                  "%s is of %zu of the %zu texts that are tested (the first is "
                                  "text %zu, counted from 0): give a capture of other texts",
                                  a->settings->capture, shared, count, first);
}

/* Axes of another checkpoint of the same shape would be wrong and look right; axes from the tested texts would look
 * too good. */
static qk_status check_source(const qk__ablation *a, const qk_capture_info *info,
                              const qk__text_ids *ids, qk_error *err)
{
    const qk__recording *r = &a->recording;
    const char *folder = a->settings->capture;
    char own[sizeof info->model_fingerprint];
    snprintf(own, sizeof own, "%016" PRIx64, r->facts->fingerprint);
    if (*info->model_fingerprint && strcmp(info->model_fingerprint, own) != 0)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s is of %s with other weights or settings than %s has: give a capture "
            "of the model that is tested",
            folder, info->model, r->model_name);
    if (!*info->model_fingerprint && *info->model && strcmp(info->model, r->model_name) != 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s is of %s, not of %s: where that is another name of the same model, "
                        "give it with --model-name",
                        folder, info->model, r->model_name);
    if (!*info->model_fingerprint && !*info->model)
        tell_unknown(a, "model: whether it is the tested model");
    return check_texts(a, ids, err);
}

static qk_status find_all(qk__ablation *a, qk__grid *grid, qk_error *err)
{
    const size_t heads = grid->layers * grid->heads[QK_QUERY];
    const size_t keys = grid->layers * grid->heads[QK_KEY];
    finding f = {.ablation = a, .grid = grid};
    QK_TRY(check_grid(a, grid, err));
    QK_TRY(check_source(a, qk_capture_get_info(grid->run.capture), &grid->run.text_ids, err));
    const size_t draws = a->settings->controls ? (size_t)a->settings->draws : 0;
    a->num_directions = a->num_whats * (1 + draws) * heads;
    a->directions = qk__calloc(a->num_directions, sizeof *a->directions);
    qk_status status =
        a->directions ? qk__grid_moments(grid, QK_KEY, &f.keys, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__grid_each(grid, QK_QUERY, take_queries, &f, err);
    for (size_t i = 0; f.keys && i < keys; i++)
        qk_moments_free(&f.keys[i]);
    free(f.keys);
    return status;
}

qk_status qk__find_directions(qk__ablation *a, qk_error *err)
{
    bool needed = false;
    for (size_t w = 0; w < a->num_whats; w++)
        needed = needed || a->whats[w].kind == QK_CHANGE_DIRECTION;
    if (!needed)
        return QK_OK;
    if (!a->settings->capture)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "what: a direction is that of a capture of other texts: give --capture");
    qk_analysis_settings source;
    qk__grid grid;
    qk_analysis_settings_default(&source);
    source.capture = a->settings->capture;
    source.context = a->recorder.context;
    qk_status status = qk__grid_open(&grid, &source, QK_STAGE_POST_ROPE, true, err);
    if (status == QK_OK)
        status = find_all(a, &grid, err);
    qk__grid_close(&grid);
    return status;
}

void qk__free_directions(qk__ablation *a)
{
    for (size_t i = 0; i < a->num_directions; i++)
        if (a->directions)
            free(a->directions[i].u);
    free(a->directions);
}
