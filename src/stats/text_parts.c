/* SPDX-License-Identifier: Apache-2.0 */
/* Moments by groups of texts. */
#include "stats/text_parts.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "stats/moments.h"

void qk__text_parts_free(qk__text_parts *parts)
{
    for (uint32_t g = 0; g < parts->count; g++)
        qk_moments_free(&parts->part[g]);
    *parts = (qk__text_parts){0};
}

const qk_moments *qk__text_parts_find(const qk__text_parts *parts, uint64_t label)
{
    for (uint32_t g = 0; g < parts->count; g++)
        if (parts->label[g] == label)
            return parts->part[g];
    return NULL;
}

uint64_t qk__text_parts_texts(const qk__text_parts *parts, uint64_t label)
{
    for (uint32_t g = 0; g < parts->count; g++)
        if (parts->label[g] == label)
            return parts->texts[g];
    return 0;
}

/* ---- of rows ---------------------------------------------------------------------------- */

qk_status qk__text_labels_of_rows(const qk__text_labels *labels, const qk_block *sample,
                                  uint32_t **group, qk_error *err)
{
    const int64_t *text = sample->example;
    *group = qk__calloc(sample->rows + 1, sizeof **group);
    if (!*group)
        return qk__nomem(err);
    for (size_t i = 0; i < sample->rows; i++) /* rows of a text are mostly neighbours */
        (*group)[i] = i > 0 && text[i] == text[i - 1]
                          ? (*group)[i - 1]
                          : qk__text_labels_find(labels, (uint64_t)text[i]);
    return QK_OK;
}

static void hash_texts(const qk__text_groups *groups, const qk__text_labels *labels,
                       uint64_t *texts)
{
    if (groups->num_texts >= QK_COUNTED_TEXTS) /* some are not in the table */
        return;
    for (size_t i = 0; i < groups->room; i++)
        if (groups->known[i].used)
            texts[qk__text_labels_find(labels, groups->known[i].id)] +=
                qk__splitmix(groups->known[i].id);
}

static qk_status find_labels(qk__text_labels *labels, const qk_block *sample, uint32_t limit,
                             uint64_t *texts, qk_error *err)
{
    qk__text_groups groups;
    qk__text_groups_start(&groups, limit);
    qk_status status = qk__text_groups_add(&groups, sample->example, sample->rows, err);
    qk__text_labels_unite(labels, groups.label, groups.count, groups.mask, NULL, 0, UINT64_MAX,
                          limit);
    if (status == QK_OK)
        hash_texts(&groups, labels, texts);
    qk__text_groups_free(&groups);
    return status;
}

static qk_status sum_group(const qk_block *sample, const uint32_t *group, uint32_t wanted,
                           qk_moments **part, qk_error *err)
{
    qk_accumulator *acc;
    QK_TRY(qk_accumulator_create(&acc, sample->dim, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < sample->rows && status == QK_OK; i++)
        if (group[i] == wanted)
            status = qk__accumulator_add_row(acc, sample, i, err);
    if (status == QK_OK)
        return qk_accumulator_finish(&acc, part, err);
    qk_accumulator_free(&acc);
    return status;
}

qk_status qk__text_parts_of_rows(qk__text_parts *parts, const qk_block *sample, uint32_t limit,
                                 qk_error *err)
{
    qk__text_labels labels;
    uint32_t *group = NULL;
    *parts = (qk__text_parts){0};
    QK_TRY(find_labels(&labels, sample, limit, parts->texts, err));
    QK_TRY(qk__text_labels_of_rows(&labels, sample, &group, err));
    qk_status status = QK_OK;
    parts->mask = labels.mask;
    for (uint32_t g = 0; g < labels.count && status == QK_OK; g++) {
        parts->label[g] = labels.label[g];
        status = sum_group(sample, group, g, &parts->part[g], err);
        parts->count += status == QK_OK;
    }
    if (status != QK_OK)
        qk__text_parts_free(parts);
    free(group);
    return status;
}

/* ---- joined ----------------------------------------------------------------------------- */

/* Merges one more into the group of a label, which is made where it is new. */
static qk_status take_in(qk__text_parts *to, uint64_t label, const qk_moments *more,
                         uint64_t texts, qk_error *err)
{
    qk_moments *none = NULL, *merged;
    uint32_t g = 0;
    while (g < to->count && to->label[g] != label)
        g++;
    if (g == to->count && !(none = qk__moments_create(more->dim)))
        return qk__nomem(err);
    qk_status status = qk__moments_merge(none ? none : to->part[g], more, &merged, err);
    qk_moments_free(&none);
    if (status != QK_OK)
        return status;
    if (g < to->count)
        qk_moments_free(&to->part[g]);
    else
        to->label[to->count++] = label;
    to->part[g] = merged;
    to->texts[g] += texts;
    return QK_OK;
}

qk_status qk__text_parts_join(qk__text_parts *joined, const qk__text_parts *parts,
                              uint64_t mask, qk_error *err)
{
    qk_status status = QK_OK;
    *joined = (qk__text_parts){.mask = mask};
    for (uint32_t g = 0; g < parts->count && status == QK_OK; g++)
        status = take_in(joined, parts->label[g] & mask, parts->part[g], parts->texts[g], err);
    if (status != QK_OK)
        qk__text_parts_free(joined);
    return status;
}
