/* SPDX-License-Identifier: Apache-2.0 */
/* One head's axes: components of a PCA, the plane of the rotation model, or the pairs of its
 * complement; what is said about them; and the rows on them. Or its attention. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/stats.h>

#include "analysis/head_analyses.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "scatter/scatter.h"
#include "settings/head_set.h"
#include "stats/pca.h"
#include "stats/rotation.h"

void qk__head_view_free(qk__head_view *view)
{
    qk__token_strings_free(&view->strings);
    free(view->axes);
    free(view->texts);
    free(view->points);
    free(view->strips.weight);
    free(view->strips.from);
    view->strips = (qk__strips){0};
    view->axes = NULL;
    view->texts = NULL;
    view->points = NULL;
}

static qk_status make_panels(qk__head_view *view, size_t dim, size_t panels, qk_error *err)
{
    view->dim = dim;
    view->num_panels = panels;
    view->axes = qk__calloc(2 * panels * dim, sizeof(double));
    view->texts = qk__calloc(panels, sizeof *view->texts);
    return view->axes && view->texts ? QK_OK : qk__nomem(err);
}

static void set_axis(qk__head_view *view, size_t i, const double *axis)
{
    memcpy(view->axes + i * view->dim, axis, view->dim * sizeof(double));
}

/* "+0.880", with a minus sign as wide as the plus. */
static const char *signed_text(double value, char text[16])
{
    if (isnan(value))
        return "-";
    qk__print_plain(text, 16, "%s%.3f", value < 0 ? "\xe2\x88\x92" : "+", fabs(value));
    return text;
}

/* ---- PCA -------------------------------------------------------------------------------- */

static void describe_component(const qk_pca *pca, int pc, bool single, char *note)
{
    const qk_component *c = &pca->components[pc];
    double share = 100 * c->explained_variance;
    const char *pad = share < 9.95 ? "\xe2\x80\x87" : ""; /* as wide as a digit */
    char r_q[16], r_k[16];
    if (single)
        qk__print_plain(note, QK__SCATTER_TEXT, "PC%d   var %s%.1f%%   <i>r</i> = %s", pc, pad,
                        share, signed_text(c->r_q, r_q));
    else
        qk__print_plain(
            note, QK__SCATTER_TEXT,
            "PC%d   var %s%.1f%%   <i>r</i><sub>Q</sub> = %s   <i>r</i><sub>K</sub> = %s", pc,
            pad, share, signed_text(c->r_q, r_q), signed_text(c->r_k, r_k));
}

/* Components that a box has beside those on the axes: of one kind's own all that fit a panel,
 * of small panels none. */
static int box_components(const qk_scatter_settings *settings)
{
    enum { ROOM = 20 };
    int wanted = settings->input.pca.components;
    if (settings->kinds == QK_KINDS_BOTH || settings->columns > 1)
        return 0;
    return wanted < ROOM ? wanted : ROOM;
}

static void fill_box(const qk_scatter_settings *settings, const qk_pca *pca, bool single,
                     char box[QK__SCATTER_BOX])
{
    size_t used = 0;
    for (int pc = 0; pc < (int)pca->num_components; pc++) {
        char line[QK__SCATTER_TEXT];
        if (pc >= box_components(settings) && pc != settings->pc_x && pc != settings->pc_y)
            continue;
        describe_component(pca, pc, single, line);
        used += (size_t)qk__print_plain(box + used, QK__SCATTER_BOX - used, "%s\n", line);
    }
}

/* What is said of the components, and where zero is. */
static void describe_pca(const qk_scatter_settings *settings, const qk_pca *pca, bool single,
                         qk__head_view *view)
{
    const int pcs[2] = {settings->pc_x, settings->pc_y};
    for (size_t i = 0; i < 2; i++) {
        const qk_component *c = &pca->components[pcs[i]];
        double n_q = (double)pca->n_q, n_k = (double)pca->n_k;
        set_axis(view, i, pca->axes + (size_t)pcs[i] * pca->dim);
        if (settings->centred)
            view->origin[i] = single ? c->mu_q : (n_q * c->mu_q + n_k * c->mu_k) / (n_q + n_k);
        else
            describe_component(pca, pcs[i], single, view->texts[0].notes[i]);
    }
    if (settings->centred)
        fill_box(settings, pca, single, view->texts[0].box);
    const char *about = NULL;
    for (size_t i = 0; settings->about && i < settings->heads.count; i++)
        if (qk__range_has(&settings->heads.items[i], view->head.layer, view->head.head))
            about = settings->about[i];
    if (about)
        qk__print_plain(view->texts[0].title, QK__SCATTER_TEXT, "L%d H%d: %.150s",
                        view->head.layer, view->head.head, about);
    else
        qk__print_plain(view->texts[0].title, QK__SCATTER_TEXT, "Layer %d, %s %d",
                        view->head.layer, settings->kinds == QK_KINDS_K ? "Key head" : "Head",
                        view->head.head);
}

static qk_status fit_pca(const qk__look *look, const qk_moments *q, const qk_moments *k,
                         qk_error *err)
{
    const qk_scatter_settings *settings = look->settings;
    qk_pca_settings pca_settings;
    qk_pca_settings_default(&pca_settings);
    int last = settings->pc_x > settings->pc_y ? settings->pc_x : settings->pc_y;
    int boxed = settings->centred ? box_components(settings) : 0;
    pca_settings.components = last + 1 > boxed ? last + 1 : boxed;
    qk_pca *pca;
    QK_TRY(k ? qk_pca_combined(q, k, &pca_settings, &pca, err)
             : qk__pca_single(q, &pca_settings, &pca, err));
    qk_status status;
    if ((size_t)last >= pca->num_components)
        status =
            qk__fail(err, QK_ERR_ARGUMENT,
                     "there is no PC%d: %zu dimensions and %lld rows have PC0 to PC%zu", last,
                     pca->dim, (long long)(pca->n_q + pca->n_k), pca->num_components - 1);
    else
        status = make_panels(look->view, pca->dim, 1, err);
    if (status == QK_OK)
        describe_pca(settings, pca, !k, look->view);
    qk_pca_free(&pca);
    return status;
}

/* ---- rotation --------------------------------------------------------------------------- */

/* "ω = 0.00088, position r = 0.470"; without ω where positions are too few to tell. */
static void describe_rotation(const qk_rotation *r, char text[QK__SCATTER_TEXT])
{
    char omega[40] = "";
    if (!isnan(r->omega))
        qk__print_plain(omega, sizeof omega, "<i>\xcf\x89</i> = %.2g, ", r->omega);
    char position[32] = "-";
    if (!isnan(r->position_r))
        qk__print_plain(position, sizeof position, "%.3f", r->position_r);
    qk__print_plain(text, QK__SCATTER_TEXT, "%sposition <i>r</i> = %s", omega, position);
}

static qk_status set_plane(const qk_rotation *r, qk__head_view *view, qk_error *err)
{
    if (!r->b)
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "queries and keys do not differ off axis a: there is no axis b");
    QK_TRY(make_panels(view, r->dim, 1, err));
    set_axis(view, 0, r->a);
    set_axis(view, 1, r->b);
    char numbers[QK__SCATTER_TEXT];
    describe_rotation(r, numbers);
    qk__print_plain(view->texts[0].title, QK__SCATTER_TEXT, "L%d H%d \xe2\x80\x94 %.150s",
                    view->head.layer, view->head.head, numbers);
    return QK_OK;
}

static qk_status set_complement(const qk_rotation *r, qk__head_view *view, qk_error *err)
{
    size_t planes = 0; /* the last ones may be what rounding leaves of no variance */
    while (planes < r->num_planes && !isnan(r->planes[planes].variance_share))
        planes++;
    if (planes == 0)
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "nothing varies off the axes a and b: there is no complement to draw");
    QK_TRY(make_panels(view, r->dim, planes, err));
    for (size_t i = 0; i < planes; i++) {
        set_axis(view, 2 * i, r->axes + 2 * i * r->dim);
        set_axis(view, 2 * i + 1, r->axes + (2 * i + 1) * r->dim);
        qk__print_plain(view->texts[i].title, QK__SCATTER_TEXT,
                        "Pair %zu\xe2\x80\x93%zu (%.1f%%)", 2 * i + 1, 2 * i + 2,
                        100 * r->planes[i].variance_share);
    }
    char numbers[QK__SCATTER_TEXT];
    describe_rotation(r, numbers);
    qk__print_plain(view->subtitle, QK__SCATTER_TEXT,
                    "L%d H%d \xe2\x80\x94 complement (<i>d</i> \xe2\x88\x92 2 = %zu), %.130s",
                    view->head.layer, view->head.head, r->dim - 2, numbers);
    return QK_OK;
}

static qk_status fit_rotation(const qk__look *look, const qk__head_data *q,
                              const qk__head_data *k, qk_error *err)
{
    qk_rotation_settings settings = look->settings->input.rotation;
    bool complement = look->settings->basis == QK_BASIS_COMPLEMENT;
    settings.planes = complement ? (int)qk__scatter_places(look->settings) : 0;
    qk_rotation *r;
    QK_TRY(qk__rotation_fit(q->moments, k->moments, &settings, &r, err));
    qk_status status = QK_OK;
    if (r->degenerate)
        status =
            qk__fail(err, QK_ERR_DEGENERATE,
                     "no drift with position, or fewer than 3 rows of a kind: there are no "
                     "axes a and b");
    if (status == QK_OK && !q->state) /* for omega, which moments do not tell */
        status = qk__scan_rotation(look->run, look->worker, q, k, r, 0, 0, err);
    if (status == QK_OK)
        status =
            complement ? set_complement(r, look->view, err) : set_plane(r, look->view, err);
    qk__rotation_free(&r);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------- */

static void set_text_subtitle(const qk_scatter_settings *settings, qk__head_view *view)
{
    const char *what = settings->kinds == QK_KINDS_BOTH
                           ? "\xe2\x97\x8f queries, \xe2\x96\xb2 keys"
                       : settings->kinds == QK_KINDS_Q ? "queries"
                                                       : "keys";
    size_t used = strlen(view->subtitle);
    qk__print_plain(view->subtitle + used, QK__SCATTER_TEXT - used,
                    "%s %lld: %s; other texts grey", used > 0 ? "; text" : "Text",
                    (long long)settings->example_id, what);
}

/* Rows there are to pick from: of moments, those of the reservoir. */
static int64_t rows_of(const qk__head_data *data)
{
    return data->state && data->head->rows > 0 ? data->head->rows : data->moments->count;
}

static qk_status place_rows(const qk__look *look, const qk__head_data *q,
                            const qk__head_data *k, qk_error *err)
{
    const qk_scatter_settings *settings = look->settings;
    char texts[QK__SCATTER_TEXT];
    qk__picked_rows picked_q, picked_k = {.span = {0, -1}};
    QK_TRY(qk__pick_rows(look, q->head, rows_of(q), &picked_q, texts, err));
    qk_status status = QK_OK;
    if (k)
        status = qk__pick_rows(look, k->head, rows_of(k), &picked_k, NULL, err);
    if (status == QK_OK && settings->example_id >= 0 &&
        picked_q.in_text + picked_k.in_text == 0)
        status = qk__fail_no_text(q->head, settings->example_id, texts, err);
    if (status == QK_OK) {
        bool keys_alone = settings->kinds == QK_KINDS_K;
        look->view->q = keys_alone ? picked_k.span : picked_q.span;
        look->view->k = keys_alone ? picked_q.span : picked_k.span;
        status = qk__mix_points(look, &picked_q, &picked_k, err);
    }
    qk__picked_rows_free(&picked_q);
    qk__picked_rows_free(&picked_k);
    return status;
}

static qk_status make_view(const qk__look *look, const qk__head_data *q, const qk__head_data *k,
                           qk_error *err)
{
    if (look->settings->basis == QK_BASIS_ATTENTION)
        return qk__make_strips(look, q, k, err);
    if (look->settings->basis == QK_BASIS_PCA || !k)
        QK_TRY(fit_pca(look, q->moments, k ? k->moments : NULL, err));
    else
        QK_TRY(fit_rotation(look, q, k, err));
    if (look->settings->example_id >= 0)
        set_text_subtitle(look->settings, look->view);
    return place_rows(look, q, k, err);
}

/* The keys of a query head. */
static qk_status find_key_head(const qk__run *run, qk_scatter_head head, const qk_head **key,
                               qk_error *err)
{
    qk_head_id id;
    *key = qk__find_keys(run, head.layer, head.head, &id);
    if (*key)
        return QK_OK;
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(id, name);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "its key head %s is not in the capture (group size %d)", name,
                    run->results->group.size);
}

static qk_status read_and_make(const qk__look *look, const qk_head *first, const qk_head *key,
                               int64_t *bytes, int64_t *rows, qk_error *err)
{
    qk__head_data q = {0}, k = {0};
    qk_status status = qk__head_data_read(look->run, look->worker, first, &q, err);
    if (status == QK_OK && key)
        status = qk__head_data_read(look->run, look->worker, key, &k, err);
    if (status == QK_OK)
        status = make_view(look, &q, key ? &k : NULL, err);
    *bytes = q.bytes + k.bytes;
    *rows = (q.moments ? q.moments->count : 0) + (k.moments ? k.moments->count : 0);
    qk__head_data_free(look->run, &q);
    qk__head_data_free(look->run, &k);
    return status;
}

qk_status qk__head_view_make(const qk__look *look, int64_t *bytes, int64_t *rows, qk_error *err)
{
    *bytes = *rows = 0;
    qk_scatter_head head = look->view->head;
    qk_head_id id = {head.layer, head.head,
                     look->settings->kinds == QK_KINDS_K ? QK_KEY : QK_QUERY};
    const qk_head *key = NULL;
    qk_status status = QK_OK;
    if (look->settings->kinds == QK_KINDS_BOTH)
        status = find_key_head(look->run, head, &key, err);
    if (status == QK_OK)
        status =
            read_and_make(look, qk_capture_find(look->run->capture, id), key, bytes, rows, err);
    if (status != QK_OK) {
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(id, name);
        qk__head_view_free(look->view);
        qk__context(err, status, "%s", name);
    }
    return status;
}
