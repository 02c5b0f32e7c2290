/* SPDX-License-Identifier: Apache-2.0 */
/* The leading axes of a head, for comparisons. */
#include "analysis/kept_run.h"

#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

/* The components of one space, of all rows or of some; *pca is NULL where they have none. */
static qk_status fit(const qk_moments *q, const qk_moments *k, qk__space space,
                     size_t components, qk_pca **pca, qk_error *err)
{
    qk_error why;
    qk_pca_settings settings;
    qk_pca_settings_default(&settings);
    settings.components = (int)components;
    *pca = NULL;
    if (!q || !k)
        return QK_OK;
    qk_status status = space == QK__OF_BOTH
                           ? qk_pca_combined(q, k, &settings, pca, &why)
                           : qk_pca_single(space == QK__OF_KEYS ? k : q, &settings, pca, &why);
    if (status == QK_OK && (*pca)->num_components < components)
        qk_pca_free(pca);
    if (status == QK_ERR_DEGENERATE)
        status = QK_OK;
    if (status != QK_OK && err)
        *err = why;
    return status;
}

/* ---- halves ----------------------------------------------------------------------------- */

/* Of the texts, by the last bits of their ids. */
typedef struct halves {
    qk__text_labels labels; /* two, unless there are fewer texts */
    qk__text_parts q, k;
} halves;

static qk_status split(halves *h, const qk__text_parts *q, const qk__text_parts *k,
                       qk_error *err)
{
    *h = (halves){.labels = {.count = 0}};
    qk__text_labels_unite(&h->labels, q->label, q->count, q->mask, k->label, k->count, k->mask,
                          2);
    QK_TRY(qk__text_parts_join(&h->q, q, h->labels.mask, err));
    qk_status status = qk__text_parts_join(&h->k, k, h->labels.mask, err);
    if (status != QK_OK)
        qk__text_parts_free(&h->q);
    return status;
}

static qk_status fit_half(const halves *h, uint32_t which, qk__space space, size_t components,
                          qk_pca **pca, qk_error *err)
{
    uint64_t label = h->labels.label[which];
    return fit(qk__text_parts_find(&h->q, label), qk__text_parts_find(&h->k, label), space,
               components, pca, err);
}

static qk_status compare_halves(const halves *h, qk__space space, size_t components,
                                double *overlap, qk_error *err)
{
    qk_pca *one, *other = NULL;
    double angles[QK_MOST_SUBSPACE];
    *overlap = NAN;
    if (h->labels.count != 2)
        return QK_OK;
    QK_TRY(fit_half(h, 0, space, components, &one, err));
    qk_status status = fit_half(h, 1, space, components, &other, err);
    if (status == QK_OK && one && other) {
        status = qk__subspace_angles(one->axes, other->axes, components, one->dim, angles, err);
        if (status == QK_OK)
            *overlap = qk__subspace_overlap(angles, components);
    }
    qk_pca_free(&one);
    qk_pca_free(&other);
    return status;
}

/* ---- all rows --------------------------------------------------------------------------- */

static qk_status keep_space(const qk_moments *q, const qk_moments *k, qk__space space,
                            size_t components, qk__leading *leading, qk_error *err)
{
    qk_pca *pca;
    QK_TRY(fit(q, k, space, components, &pca, err));
    if (!pca)
        return QK_OK;
    size_t values = components * pca->dim;
    leading->axes = qk__calloc(values, sizeof *leading->axes);
    if (leading->axes) {
        memcpy(leading->axes, pca->axes, values * sizeof *leading->axes);
        leading->count = components;
        leading->dim = pca->dim;
        leading->share = 0;
        for (size_t i = 0; i < components; i++)
            leading->share += pca->components[i].explained_variance;
    }
    qk_pca_free(&pca);
    return leading->axes ? QK_OK : qk__nomem(err);
}

qk_status qk__keep_spaces(const qk_moments *q, const qk_moments *k,
                          const qk__text_parts *q_parts, const qk__text_parts *k_parts,
                          size_t components, qk__kept_head *kept, qk_error *err)
{
    halves h;
    QK_TRY(split(&h, q_parts, k_parts, err));
    qk_status status = QK_OK;
    for (int s = 0; s < QK__NUM_SPACES && status == QK_OK; s++) {
        qk__leading *leading = &kept->spaces[s];
        status = keep_space(q, k, (qk__space)s, components, leading, err);
        if (status == QK_OK)
            status = compare_halves(&h, (qk__space)s, components, &leading->halves, err);
    }
    qk__text_parts_free(&h.q);
    qk__text_parts_free(&h.k);
    return status;
}
