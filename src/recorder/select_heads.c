/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the heads that a run keeps, in one table of layers: query heads are taken or drawn, and their key heads
 * follow. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/recorder.h>

#include "base/buffer.h"
#include "base/error.h"
#include "sampler/sampler.h"
#include "settings/head_set.h"

void qk_recorder_selection_free(qk_recorder_selection **selection)
{
    assert(selection);
    if (!*selection)
        return;
    free((*selection)->q_heads);
    free((*selection)->k_heads);
    free(*selection);
    *selection = NULL;
}

static qk_status check_layers(const qk_index_list *list, int limit, qk_error *err)
{
    if (list->count == 0 || list->items[list->count - 1] < limit)
        return QK_OK;
    return qk__fail(err, QK_ERR_NOT_FOUND, "layers: there is no %d: the model has 0 to %d",
                    list->items[list->count - 1], limit - 1);
}

static qk_status check_heads(const char *what, const qk_head_set *set, int layers, int heads,
                             qk_error *err)
{
    for (size_t i = 0; i < set->count; i++) {
        const qk_head_range *r = &set->items[i];
        char text[QK__HEAD_RANGE_SIZE];
        qk__head_range_text(r, text);
        if (!qk__all_layers(r) && r->last_layer >= layers)
            return qk__fail(err, QK_ERR_NOT_FOUND,
                            "%s: %s: there is no layer %d: the model has 0 to %d", what, text,
                            r->last_layer, layers - 1);
        if (!qk__all_heads(r) && r->last_head >= heads)
            return qk__fail(err, QK_ERR_NOT_FOUND,
                            "%s: %s: there is no %d: the model has 0 to %d", what, text,
                            r->last_head, heads - 1);
    }
    return QK_OK;
}

/* Whether rows of a layer are ever seen. A sliding window counts even where the configuration lists no layer types. */
static bool is_captured(const qk_recorder_settings *settings, const qk_layer_facts *layer)
{
    return layer->attends && !(settings->full_attention_only && layer->window > 0);
}

/* Whether heads are chosen from a layer. The original asks only the list of layer types: where that and is_captured
 * differ, it draws heads without rows. */
static bool is_candidate(const qk_recorder_settings *settings, const qk_layer_facts *layer)
{
    if (settings->compat)
        return !(settings->full_attention_only && layer->sliding);
    return is_captured(settings, layer) && !(settings->full_attention_only && layer->sliding);
}

static size_t mark_candidates(const qk_recorder_settings *settings, const qk_model_facts *facts,
                              bool *candidates)
{
    size_t count = 0;
    for (int l = 0; l < facts->num_layers; l++)
        for (int h = 0; h < facts->num_q_heads; h++) {
            bool yes = qk_index_list_has(&settings->layers, l) &&
                       qk_head_set_has(&settings->heads, l, h) &&
                       is_candidate(settings, &facts->layers[l]);
            candidates[(size_t)l * (size_t)facts->num_q_heads + (size_t)h] = yes;
            count += yes;
        }
    return count;
}

static size_t count_set(const bool *heads, size_t count)
{
    size_t set = 0;
    for (size_t i = 0; i < count; i++)
        set += heads[i];
    return set;
}

/* Without a draw the original takes the list of heads for queries and keys alike. */
static qk_status keys_by_list(const qk_recorder_settings *settings, qk_recorder_selection *s,
                              qk_error *err)
{
    if (settings->kinds & QK_KINDS_K)
        QK_TRY(
            check_heads("heads of keys", &settings->heads, s->num_layers, s->num_k_heads, err));
    for (int l = 0; l < s->num_layers; l++)
        for (int h = 0; h < s->num_k_heads; h++)
            s->k_heads[(size_t)l * (size_t)s->num_k_heads + (size_t)h] =
                qk_index_list_has(&settings->layers, l) &&
                qk_head_set_has(&settings->heads, l, h);
    return QK_OK;
}

/* Drops chosen heads that are not to be kept or never seen. */
static void drop_unseen(const qk_recorder_settings *settings, const qk_model_facts *facts,
                        qk_recorder_selection *s)
{
    size_t q = (size_t)s->num_q_heads;
    size_t k = (size_t)s->num_k_heads;
    for (size_t l = 0; l < (size_t)s->num_layers; l++) {
        bool seen = is_captured(settings, &facts->layers[l]);
        if (!seen || !(settings->kinds & QK_KINDS_Q))
            memset(s->q_heads + l * q, 0, q * sizeof *s->q_heads);
        if (!seen || !(settings->kinds & QK_KINDS_K))
            memset(s->k_heads + l * k, 0, k * sizeof *s->k_heads);
        s->sliding_layers += settings->full_attention_only &&
                             (facts->layers[l].window > 0 || facts->layers[l].sliding);
        s->silent_layers += !facts->layers[l].attends;
    }
    s->num_q = count_set(s->q_heads, (size_t)s->num_layers * q);
    s->num_k = count_set(s->k_heads, (size_t)s->num_layers * k);
}

static qk_status fail_empty(const qk_recorder_settings *settings,
                            const qk_recorder_selection *s, qk_error *err)
{
    if (settings->full_attention_only && s->sliding_layers > 0)
        return qk__fail(
            err, QK_ERR_DEGENERATE,
            "no heads are left: %d of %d layers have a sliding window, and only full "
            "attention was asked for",
            s->sliding_layers, s->num_layers);
    if (s->silent_layers > 0)
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "no heads are left: the layers chosen have no self-attention");
    return qk__fail(err, QK_ERR_DEGENERATE, "no heads are left");
}

static qk_status choose(const qk_recorder_settings *settings, const qk_model_facts *facts,
                        bool *candidates, qk_recorder_selection *s, qk_error *err)
{
    s->candidates = mark_candidates(settings, facts, candidates);
    size_t total = (size_t)s->num_layers * (size_t)s->num_q_heads;
    if (s->candidates == 0) {
        drop_unseen(settings, facts, s);
        return fail_empty(settings, s, err);
    }
    if (settings->sample_heads > 0)
        QK_TRY(qk__sample_query_heads(candidates, s->num_layers, s->num_q_heads,
                                      settings->sample_heads, settings->head_seed, s->q_heads,
                                      err));
    else
        memcpy(s->q_heads, candidates, total * sizeof *candidates);
    if (settings->compat && settings->sample_heads == 0)
        QK_TRY(keys_by_list(settings, s, err));
    else
        qk__key_heads_of(s->q_heads, s->num_layers, s->num_q_heads,
                         s->num_q_heads / s->num_k_heads, s->k_heads);
    s->drawn_q = count_set(s->q_heads, total);
    s->drawn_k = count_set(s->k_heads, (size_t)s->num_layers * (size_t)s->num_k_heads);
    drop_unseen(settings, facts, s);
    return s->num_q + s->num_k > 0 ? QK_OK : fail_empty(settings, s, err);
}

qk_status qk_recorder_select(const qk_recorder_settings *settings, const qk_model_facts *facts,
                             qk_recorder_selection **selection, qk_error *err)
{
    QK_NEED(err, selection);
    *selection = NULL;
    QK_NEED(err, settings, facts);
    QK_TRY(check_layers(&settings->layers, facts->num_layers, err));
    QK_TRY(check_heads("heads", &settings->heads, facts->num_layers, facts->num_q_heads, err));
    qk_recorder_selection *s = calloc(1, sizeof *s);
    if (!s)
        return qk__nomem(err);
    *s = (qk_recorder_selection){.num_layers = facts->num_layers,
                                 .num_q_heads = facts->num_q_heads,
                                 .num_k_heads = facts->num_k_heads};
    size_t layers = (size_t)facts->num_layers;
    bool *candidates = qk__calloc(layers * (size_t)s->num_q_heads, sizeof *candidates);
    s->q_heads = qk__calloc(layers * (size_t)s->num_q_heads, sizeof *s->q_heads);
    s->k_heads = qk__calloc(layers * (size_t)s->num_k_heads, sizeof *s->k_heads);
    qk_status status = candidates && s->q_heads && s->k_heads
                           ? choose(settings, facts, candidates, s, err)
                           : qk__nomem(err);
    free(candidates);
    if (status != QK_OK)
        qk_recorder_selection_free(&s);
    *selection = s;
    return status;
}
