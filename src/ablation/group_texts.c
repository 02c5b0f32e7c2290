/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of texts that windows belong to. */
#include <math.h>
#include <stdlib.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "stats/means.h"
#include "tables/text_lengths.h"

static qk_status tell_lengths(const qk__ablation *a, qk_text_lengths *told, qk_error *err)
{
    double *lengths = qk__calloc(a->num_texts + 1, sizeof *lengths);
    if (!lengths)
        return qk__nomem(err);
    *told = qk__no_lengths;
    for (size_t t = 0; t < a->num_texts; t++) {
        lengths[t] = (double)a->lengths[t];
        told->most = fmax(told->most, lengths[t]);
    }
    qk__least_and_median(lengths, a->num_texts, &told->least, &told->median);
    free(lengths);
    return QK_OK;
}

/* Windows of one text, equal texts, and texts of one id stay in one group. Texts without a loss are in the first group
 * and add no token to it: in a group of their own they would count as knowledge in the jackknife. */
qk_status qk__group_texts(qk__ablation *a, qk_error *err)
{
    const qk__text_print *print =
        (const qk__text_print *)(const void *)a->recording.text_ids.data;
    const qk__survey_counts *counts = &a->recording.counts;
    int64_t texts = 0;
    bool *predicts; /* a text with this id has a loss */
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&a->window_group, (size_t)counts->windows + 1, sizeof *a->window_group},
        {&a->window_text, (size_t)counts->windows + 1, sizeof *a->window_text},
        {&a->text_group, (size_t)counts->texts + 1, sizeof *a->text_group},
        {&predicts, (size_t)counts->texts + 1, sizeof *predicts}));
    a->lengths = (const int64_t *)(const void *)a->recording.lengths.data;
    for (int64_t i = 0, w = 0; i < counts->texts; i++)
        for (const int64_t end = w + print[i].windows; w < end; w++)
            predicts[print[i].first] |= a->lengths[w] > 1;
    for (int64_t i = 0; i < counts->texts; i++) {
        const bool own = print[i].first == i;
        const uint32_t group = !own          ? a->text_group[print[i].first]
                               : predicts[i] ? (uint32_t)(texts % QK__ABLATION_GROUPS)
                                             : 0;
        a->text_group[i] = group;
        for (int64_t w = 0; w < print[i].windows; w++) {
            a->window_text[a->num_texts] = (uint32_t)print[i].first;
            a->window_group[a->num_texts++] = group;
        }
        texts += own && predicts[i];
    }
    free(predicts);
    a->text_groups = (int32_t)(texts < QK__ABLATION_GROUPS ? texts : QK__ABLATION_GROUPS);
    a->outcome->text_groups = a->text_groups;
    if (a->text_groups == 1)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_WARNING,
                        "there is one text to predict: what holds for others is not known, and "
                        "there are no intervals");
    return tell_lengths(a, &a->outcome->lengths, err);
}
