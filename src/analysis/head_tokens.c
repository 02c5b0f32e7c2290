/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that a head attends to and those of keys far out, where the capture has their strings.
 * docs/behaviour.md#tokens */
#include "analysis/attention_source.h"
#include "analysis/head_analyses.h"
#include "base/error.h"

qk_status qk__key_data_list_tokens(const qk__run *run, qk__key_data *keys, qk_error *err)
{
    const qk__head_data *data = &keys->data;
    qk__buffer room = {0};
    qk_block seen;
    if (!data->tokens || data->strings.count == 0)
        return QK_OK;
    qk_status status = qk__text_ids_see(&run->text_ids, &data->rows, &room, &seen, err);
    if (status == QK_OK)
        status = qk__token_keys_create(&keys->tokens, &data->rows, seen.example, data->tokens,
                                       (qk__token_names){data->strings.count,
                                                         (const char *)data->strings.bytes.data,
                                                         data->strings.at},
                                       data->moments, err);
    qk__buffer_free(&room);
    return status;
}

/* Scores are of vectors after RoPE. */
qk_status qk__analyse_tokens(qk__run *run, int worker, qk_head_results *head,
                             const qk__head_data *queries, const qk__key_data *keys,
                             qk__head_repeats *repeats, qk_error *err)
{
    (void)worker;
    const bool before_rope = qk_capture_get_info(run->capture)->stage == QK_STAGE_PRE_ROPE;
    const qk__token_groups groups = {repeats->labels.count, repeats->group_of_key,
                                     run->settings->ci / 100};
    if (!keys->tokens.keys)
        return QK_OK;
    return qk__tokens_list(&keys->tokens, &queries->rows,
                           before_rope ? 0 : qk__attention_scale(run, queries->rows.dim),
                           &groups, &head->tokens, err);
}
