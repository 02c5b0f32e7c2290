/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of texts: their sums along an axis; and groups made from kept moments. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/moments.h"
#include "stats/project.h"

/* Numbers in the Gram matrices of all groups, at most. */
static const size_t MAX_GRAMS = (size_t)5 << 20;

uint32_t qk__most_text_groups(size_t panels)
{
    size_t fit = MAX_GRAMS / qk__gram_size(panels);
    uint32_t groups = QK_TEXT_GROUPS;
    while (groups > fit && groups > 1)
        groups /= 2;
    return groups;
}

qk_status qk__text_moments_create(qk__text_moments **texts, const qk_moments *all,
                                  const double *pilot, double pilot_t, qk_error *err)
{
    const size_t panels = (all->dim + PANEL - 1) / PANEL;
    qk__text_moments *t = *texts = calloc(1, sizeof *t);
    if (!t || !(t->pilot = qk__calloc(panels * PANEL, sizeof(double)))) {
        qk__text_moments_free(texts);
        return qk__nomem(err);
    }
    memcpy(t->pilot, pilot, all->dim * sizeof(double));
    t->kernel = qk__best_gram_kernel();
    t->dim = all->dim;
    t->panels = panels;
    t->pilot_t = pilot_t;
    t->trace = qk__trace(all);
    return QK_OK;
}

void qk__text_moments_free(qk__text_moments **texts)
{
    assert(texts);
    if (!*texts)
        return;
    free((*texts)->pilot);
    free((*texts)->memory);
    qk__text_groups_free(&(*texts)->groups);
    free(*texts);
    *texts = NULL;
}

qk__spare_sums qk__text_moments_end(qk__text_moments **texts)
{
    qk__spare_sums spare = {0};
    if (*texts) {
        spare = (qk__spare_sums){(*texts)->memory, (*texts)->panels};
        (*texts)->memory = NULL;
    }
    qk__text_moments_free(texts);
    return spare;
}

size_t qk__text_moments_count(const qk__text_moments *texts)
{
    return texts ? texts->groups.num_texts : 0;
}

void qk__text_moments_along(const qk__text_moments *texts, const double *axis,
                            qk__line_sums lines[QK_TEXT_GROUPS])
{
    memset(lines, 0, QK_TEXT_GROUPS * sizeof *lines);
    for (uint32_t g = 0; g < texts->groups.count; g++) {
        const qk__sums *s = &texts->sums[g];
        lines[g] = (qk__line_sums){.n = (double)s->count,
                                   .t = s->sum_t,
                                   .tt = s->sum_tt,
                                   .x = qk__dot(axis, s->sum, texts->dim),
                                   .xt = qk__dot(axis, s->sum_xt, texts->dim),
                                   .xx = texts->kernel->form(s->gram, texts->panels, axis)};
    }
}

/* ---- of moments ------------------------------------------------------------------------- */

/* Adds moments to sums about the pilot. */
static void add_part(const qk__text_moments *texts, const qk_moments *part, qk__sums *to)
{
    const double n = (double)part->count, step_t = part->mean_t - texts->pilot_t;
    const size_t d = texts->dim;
    if (to->count == 0) {
        memset(to->gram, 0, qk__sums_size(texts->panels) * sizeof(double));
        to->sum_t = to->sum_tt = 0;
    }
    to->count += part->count;
    to->sum_t += n * step_t;
    to->sum_tt += part->sum_tt + n * step_t * step_t;
    for (size_t i = 0; i < d; i++) {
        double step = part->mean[i] - texts->pilot[i];
        double *gram = to->gram + qk__gram_row(texts->panels, i);
        to->sum[i] += n * step;
        to->sum_xt[i] += part->sum_xt[i] + n * step * step_t;
        /* The whole diagonal panel counts in qk__gram_kernel.form. */
        for (size_t j = i / PANEL * PANEL; j < d; j++)
            gram[j] += part->sum_xx[i * d + j] + n * step * (part->mean[j] - texts->pilot[j]);
    }
}

/* The group of a label, which may be new. */
static uint32_t group_of(qk__text_groups *groups, uint64_t label)
{
    uint32_t g = 0;
    while (g < groups->count && groups->label[g] != label)
        g++;
    if (g == groups->count)
        groups->label[groups->count++] = label;
    return g;
}

qk_status qk__text_moments_join(qk__text_moments **texts, const qk_moments *all,
                                const qk_moments *const *parts, const uint64_t *labels,
                                size_t count, uint64_t mask, size_t num_texts, qk_error *err)
{
    QK_TRY(qk__text_moments_create(texts, all, all->mean, all->mean_t, err));
    qk__text_moments *t = *texts;
    uint32_t limit = qk__most_text_groups(t->panels);
    t->memory = qk__sums_memory(limit, t->panels);
    if (!t->memory) {
        qk__text_moments_free(texts);
        return qk__nomem(err);
    }
    qk__sums_place(t->sums, limit, t->memory, t->panels);
    qk__text_groups_start(&t->groups, limit);
    t->groups.mask = qk__text_groups_mask(labels, count, limit, mask);
    t->groups.num_texts = num_texts < QK_COUNTED_TEXTS ? num_texts : QK_COUNTED_TEXTS;
    for (size_t i = 0; i < count; i++)
        if (parts[i]->count > 0)
            add_part(t, parts[i], &t->sums[group_of(&t->groups, labels[i] & t->groups.mask)]);
    return QK_OK;
}
