/* SPDX-License-Identifier: Apache-2.0 */
/* What branches ask for: whether it can be done, and what it needs. */
#include "base/error.h"
#include "prefill/prefill.h"

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t qk__changes_scratch(size_t head_dim, size_t pairs)
{
    const size_t head = head_dim * QK_LANES;
    const size_t one = 2 * QK_MAX_PANELS * head + (QK_KEY_PANELS + 1) * head +
                       QK_MAX_PANELS * QK_PROFILE_SHARES * QK_LANES + QK_LANES * QK_LANES +
                       qk__rope_scratch(pairs, 1);
    /* losses.c keeps the weights of words here */
    return (largest(one, QK_MAX_PANELS * QK_LANES * QK_DEPTH) + 15) / 16 * 16;
}

static bool turns(const qk_prefill_branch *branches, size_t count, int layer)
{
    for (size_t b = 0; b < count; b++)
        for (size_t i = 0; i < branches[b].num_changes; i++) {
            const qk_head_change *change = &branches[b].changes[i];
            if (change->kind == QK_CHANGE_ROTATION && (layer < 0 || change->layer == layer))
                return true;
        }
    return false;
}

bool qk__prefill_turns(const qk__prefill_run *run)
{
    return run->unrotated &&
           turns(run->settings->branches, run->settings->num_branches, run->layer);
}

bool qk__prefill_turns_keys(const qk_prefill_settings *settings)
{
    return turns(settings->branches, settings->num_branches, -1);
}

static const char *fault_of(const qk__prefill_run *run, const qk_prefill_branch *branch,
                            size_t i)
{
    const qk__model_config *c = &run->model->config;
    const qk_head_change *change = &branch->changes[i];
    const int64_t count = run->sequences[branch->sequence].count;
    if (change->layer < 0 || change->layer >= c->num_layers || change->q_head < 0 ||
        change->q_head >= c->num_q_heads || !run->model->layers[change->layer].attends)
        return "is of no head";
    if (i > 0 && change->layer < branch->changes[i - 1].layer)
        return "is of a layer before that of the last change";
    for (size_t j = i; j > 0 && branch->changes[j - 1].layer == change->layer; j--)
        if (branch->changes[j - 1].q_head == change->q_head)
            return "is of a head that has another one: a head is changed once";
    if ((change->kind == QK_CHANGE_DIRECTION || change->kind == QK_CHANGE_PROFILE) &&
        !change->values)
        return "has no values";
    if (change->kind == QK_CHANGE_WINDOW && (change->window < 1 || change->kept < 0))
        return "has no window";
    for (int64_t j = 0; change->positions && j < count; j++)
        if (change->positions[j] < 0 || change->positions[j] >= count)
            return "has a position outside its sequence";
    return change->kind < QK_NUM_CHANGES ? NULL : "is of no kind";
}

qk_status qk__prefill_check_branches(const qk__prefill_run *run, qk_error *err)
{
    const qk_prefill_settings *s = run->settings;
    if (s->num_branches > 0 && (!s->loss || s->attention || s->before_rope || s->after_rope))
        return qk__fail(err, QK_ERR_ARGUMENT, "branches give losses, and nothing beside them");
    for (size_t b = 0; b < s->num_branches; b++) {
        const qk_prefill_branch *branch = &s->branches[b];
        if (branch->sequence >= run->first_branch || branch->num_changes == 0 ||
            branch->suffix < 0)
            return qk__fail(err, QK_ERR_ARGUMENT, "branch %zu has no sequence or no changes",
                            b);
        if (b > 0 && branch->changes[0].layer < branch[-1].changes[0].layer)
            return qk__fail(err, QK_ERR_ARGUMENT, "branch %zu begins before the last one", b);
        for (size_t i = 0; i < branch->num_changes; i++) {
            const char *fault = fault_of(run, branch, i);
            if (fault)
                return qk__fail(err, QK_ERR_ARGUMENT, "change %zu of branch %zu %s", i, b,
                                fault);
        }
    }
    return QK_OK;
}
