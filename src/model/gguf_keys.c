/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys of a GGUF file are read, refused or without effect. The table has every key of the format. */
#include <string.h>

#include "base/error.h"
#include "model/gguf.h"

/* Beginnings of keys' names; the first row that fits a key holds. Where a row has a reason, the key changes the
 * computation: it is refused, unless its value is 0, false or empty, or the row's architecture reads it. Where there
 * is no reason, the key is read or changes nothing. */
static const char *const RULES[][3] = {
    {"expert moe_ interleave_moe_ leading_dense_ router_", "mixtures of experts are not read"},
    {"nextn_", "layers that predict further tokens are not read"},
    {"rope.dimension_sections", "rotation in sections (M-RoPE) is not known"},
    {"rope.dimension_count_", "rotations of two widths are not read"},
    {"rope.freq_base_", "a base of its own for windows is not known", "gemma3"},
    {"rope.scaling.alpha", "this scaling is not known"},
    {"attention.key_length_ attention.value_length_", "heads of two sizes are not read"},
    {"attention.shared_kv_", "keys that layers share are not read"},
    {"attention.clamp_ attention.max_alibi_ attention.relative_",
     "limits and biases of attention are not known"},
    {"attention.temperature_scale", "a scale by position is not known", "mistral3"},
    {"attention.scale attention.output_ attention.value_scale attention.temperature_length "
     "embedding_scale logit_scale residual_scale",
     "a scale of its own is not known"},
    {"attention.sliding_window_", "a pattern of windows is not known", "gemma3"},
    {"final_logit_", "soft limits to logits are not known", "gemma3"},
    {"attn_logit_", "soft limits to scores are not known"},
    {"attention.indexer. attention.compress_ attention.recurrent_ attention.group_norm_ "
     "attention.q_lora_ attention.kv_lora_ attention.decay_ attention.iclr_ attention.gate_ "
     "attention.value_residual_ ssm. wkv. kda. shortconv. posnet. convnext. xielu. diffusion. "
     "altup. hyper_connection. hash_layer_ time_ token_shift_ rescale_ swin_ swiglu_ decoder_ "
     "full_attention_ activation_ features_length embedding_length_ use_parallel_residual "
     "n_deepstack_ deepstack_ hidden_activation",
     "no such part of a model is known"},
    {"block_count context_length embedding_length feed_forward_length attention.head_count "
     "attention.key_length attention.value_length attention.causal "
     "attention.layer_norm_rms_epsilon attention.sliding_window "
     "attention.temperature_scale final_logit_softcapping rope.dimension_count "
     "rope.freq_base rope.scale_linear rope.scaling.type rope.scaling.factor "
     "rope.scaling.attn_factor rope.scaling.original_context_length "
     "rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor "
     "rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow "
     "rope.scaling.yarn_log_multiplier"},
    {"vocab_size pooling_type tensor_data_layout rope.scaling.finetuned "
     "attention.layer_norm_epsilon classifier. dense_"},
};

static bool is_nothing(const json_t *value)
{
    return json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static bool begins_with(const char *name, const char *words)
{
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        if (strncmp(name, words, length) == 0)
            return true;
    }
    return false;
}

/* NULL: there is none. */
static const char *const *find_rule(const char *architecture, const char *name)
{
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
        if (begins_with(name, RULES[i][0]) &&
            !(RULES[i][2] && strcmp(RULES[i][2], architecture) == 0))
            return RULES[i];
    return NULL;
}

qk_status qk__gguf_check_keys(json_t *metadata, const char *architecture, json_t *config,
                              qk_error *err)
{
    const size_t length = strlen(architecture);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        bool own = strncmp(key, architecture, length) == 0 && key[length] == '.';
        const char *const *rule = find_rule(architecture, own ? key + length + 1 : key);
        if (is_nothing(value))
            continue;
        if (rule && rule[1])
            return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: %s", key, rule[1]);
        if (own && !rule && json_object_set(config, key, value) != 0)
            return qk__nomem(err);
    }
    return QK_OK;
}
