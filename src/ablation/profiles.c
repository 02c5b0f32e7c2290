/* SPDX-License-Identifier: Apache-2.0 */
/* What heads attend to, and what they put out, for each group of texts: so that a text's head gets the mean of the
 * other texts. */
#include <stdlib.h>
#include <string.h>

#include "ablation/ablation.h"
#include "base/error.h"

typedef struct fitting {
    qk__ablation *ablation;
    size_t number; /* of the current text */
} fitting;

static size_t num_heads(const qk__ablation *a)
{
    return (size_t)a->recording.facts->num_layers * (size_t)a->recording.facts->num_q_heads;
}

static qk__profile *profile_at(const qk__ablation *a, uint32_t group, size_t head)
{
    return a->profiles + ((size_t)group * num_heads(a) + head) * QK_DISTANCE_BINS;
}

static size_t head_dim(const qk__ablation *a)
{
    return (size_t)a->recording.facts->head_dim;
}

static float *output_at(const qk__ablation *a, uint32_t group, size_t head)
{
    return a->outputs + ((size_t)group * num_heads(a) + head) * QK_DISTANCE_BINS * head_dim(a);
}

static qk_status take_attention(void *user, const qk_prefill_attention *sums, qk_error *err)
{
    const fitting *f = user;
    const qk__ablation *a = f->ablation;
    const size_t width = (size_t)a->recording.facts->num_q_heads;
    (void)err;
    for (size_t h = 0; h < sums->num_heads; h++) {
        const size_t head = (size_t)sums->layer * width + (size_t)sums->heads[h];
        qk__profile *to = profile_at(a, a->window_group[f->number], head);
        for (size_t b = 0; b < sums->num_buckets; b++) {
            const double *from = sums->sums + (h * sums->num_buckets + b) * QK_ATTENTION_SUMS;
            to[b].rows += from[QK_ATTENTION_ROWS];
            to[b].shares[0] += from[QK_ATTENTION_SINK];
            to[b].shares[1] += from[QK_ATTENTION_FIRST] - from[QK_ATTENTION_SINK];
            for (int i = 0; i < QK_DISTANCE_BINS; i++)
                to[b].shares[2 + i] += from[QK_ATTENTION_FAR_BINS + i];
        }
        const size_t values = sums->num_buckets * head_dim(a);
        float *out = a->outputs ? output_at(a, a->window_group[f->number], head) : NULL;
        for (size_t i = 0; out && i < values; i++)
            out[i] += (float)sums->outputs[h * values + i];
    }
    return QK_OK;
}

qk_status qk__ignore_losses(void *user, const qk_prefill_losses *losses, qk_error *err)
{
    (void)user;
    (void)losses;
    (void)err;
    return QK_OK;
}

static qk_status fit_text(void *user, qk__window *window, qk_error *err)
{
    qk__ablation *a = user;
    qk_tokens *tokens = &window->tokens;
    fitting f = {a, (size_t)window->number};
    const qk_prefill_settings settings = {.arithmetic = a->recorder.arithmetic,
                                          .attention = take_attention,
                                          .outputs = a->outputs != NULL,
                                          .loss = a->outputs ? qk__ignore_losses : NULL,
                                          .q_heads = a->recording.selection->q_heads,
                                          .user = &f,
                                          .context = {.threads = a->recorder.context.threads}};
    const qk_sequence sequence = {tokens->ids, (int64_t)tokens->count};
    qk_status status = qk_prefill(a->recording.model, &settings, &sequence, 1, err);
    qk_tokens_free(tokens);
    if (status == QK_OK && !qk__tell_progress(&a->recorder.context,
                                              &(qk_progress){.what = "profiles",
                                                             .done = window->number + 1,
                                                             .total = (int64_t)a->num_texts}))
        return qk__fail(err, QK_ERR_CANCELLED, "stopped");
    return status;
}

bool qk__needs_profiles(const qk__ablation *a)
{
    bool needed = false;
    for (size_t i = 0; i < a->num_whats; i++)
        needed = needed || a->whats[i].profile || a->whats[i].mean;
    return needed;
}

qk_status qk__check_profiles(const qk__ablation *a, qk_error *err)
{
    return !qk__needs_profiles(a) || a->text_groups != 1
               ? QK_OK
               : qk__fail(err, QK_ERR_ARGUMENT,
                          "what: a profile, or a mean, is that of other texts, and there is "
                          "one: give two or more, or --what remove,freeze");
}

qk_status qk__fit_profiles(qk__ablation *a, qk_error *err)
{
    const size_t cells = (size_t)a->text_groups * num_heads(a) * QK_DISTANCE_BINS;
    bool outputs = false;
    for (size_t i = 0; i < a->num_whats; i++)
        outputs = outputs || a->whats[i].mean;
    if (!qk__needs_profiles(a))
        return QK_OK;
    a->profiles = qk__calloc(cells, sizeof *a->profiles);
    if (outputs)
        a->outputs = qk__calloc(cells * head_dim(a), sizeof *a->outputs);
    if (!a->profiles || (outputs && !a->outputs))
        return qk__nomem(err);
    return qk__visit_windows(&a->recording, 0, (int64_t)a->num_texts, fit_text, a, err);
}

/* Bins beyond the longest of the other texts get the values of the last bin that these have. */
void qk__profile_without(const qk__ablation *a, size_t head, uint32_t group, float *values)
{
    memset(values, 0, QK_DISTANCE_BINS * QK_PROFILE_SHARES * sizeof *values);
    for (int bin = 0; bin < QK_DISTANCE_BINS; bin++) {
        float *to = values + bin * QK_PROFILE_SHARES;
        double rows = 0, shares[QK_PROFILE_SHARES] = {0};
        for (uint32_t g = 0; g < (uint32_t)a->text_groups; g++) {
            const qk__profile *from = profile_at(a, g, head) + bin;
            if (g == group)
                continue;
            rows += from->rows;
            for (int i = 0; i < QK_PROFILE_SHARES; i++)
                shares[i] += from->shares[i];
        }
        const bool none = rows == 0 && bin > 0; /* take those of the bin before */
        for (int i = 0; i < QK_PROFILE_SHARES; i++)
            to[i] = none ? values[(bin - 1) * QK_PROFILE_SHARES + i]
                         : (float)(rows > 0 ? shares[i] / rows : 0);
    }
}

void qk__output_without(const qk__ablation *a, size_t head, uint32_t group, float *values)
{
    const size_t width = head_dim(a);
    for (size_t bin = 0; bin < QK_DISTANCE_BINS; bin++) {
        double rows = 0;
        for (uint32_t g = 0; g < (uint32_t)a->text_groups; g++)
            rows += g == group ? 0 : profile_at(a, g, head)[bin].rows;
        for (size_t i = 0; i < width; i++) {
            double sum = 0;
            for (uint32_t g = 0; g < (uint32_t)a->text_groups; g++)
                sum += g == group ? 0 : (double)output_at(a, g, head)[bin * width + i];
            values[bin * width + i] = rows > 0   ? (float)(sum / rows)
                                      : bin == 0 ? 0
                                                 : values[(bin - 1) * width + i];
        }
    }
}
