/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys of a GGUF file's architecture there are: every one of the format is read, without effect, or refused. */
#include <string.h>

#include "base/error.h"
#include "model/gguf.h"

/* Those that are read, and those that change neither queries and keys nor losses. */
static const char KNOWN[] =
    " block_count context_length embedding_length feed_forward_length"
    " attention.head_count attention.head_count_kv attention.key_length"
    " attention.value_length attention.causal attention.layer_norm_rms_epsilon"
    " attention.sliding_window attention.sliding_window_pattern"
    " attention.temperature_scale final_logit_softcapping rope.dimension_count"
    " rope.freq_base rope.freq_base_swa rope.scale_linear rope.scaling.type"
    " rope.scaling.factor rope.scaling.attn_factor rope.scaling.original_context_length"
    " rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor"
    " rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow"
    " rope.scaling.yarn_log_multiplier vocab_size pooling_type tensor_data_layout"
    " rope.scaling.finetuned attention.layer_norm_epsilon classifier.output_labels"
    " dense_2_feat_in dense_2_feat_out dense_3_feat_in dense_3_feat_out ";

/* How the names of those begin that change the computation unless they are 0, false or empty, and the one
 * architecture whose key is read. */
static const char *const REFUSED[][3] = {
    {"expert moe_ interleave_moe_ leading_dense_ router_", "mixtures of experts are not read"},
    {"nextn_", "layers that predict further tokens are not read"},
    {"rope.dimension_sections", "rotation in sections (M-RoPE) is not known"},
    {"rope.dimension_count_", "rotations of two widths are not read"},
    {"rope.freq_base_", "a base of its own for windows is not known", "gemma3"},
    {"rope.scaling.alpha", "this scaling is not known"},
    {"attention.key_length_ attention.value_length_", "heads of two sizes are not read"},
    {"attention.shared_kv_", "keys that layers share are not read"},
    {"attention.clamp_", "limits to queries and keys are not known"},
    {"attention.max_alibi_ attention.relative_",
     "biases by distance (ALiBi, T5) are not known"},
    {"attention.scale attention.output_ attention.value_scale attention.temperature_length",
     "a scale of its own for scores is not known"},
    {"attention.temperature_scale", "a scale of its own for scores is not known", "mistral3"},
    {"attention.sliding_window_", "a pattern of windows is not known", "gemma3"},
    {"attn_logit_", "soft limits to scores are not known"},
    {"final_logit_", "soft limits to logits are not known", "gemma3"},
    {"embedding_scale logit_scale", "a scale of its own for embeddings or logits is not known"},
    {"residual_scale", "a scale for residuals is not known"},
    {"attention.indexer. attention.compress_ attention.recurrent_ attention.group_norm_ "
     "attention.q_lora_ attention.kv_lora_ attention.decay_ attention.iclr_ attention.gate_ "
     "attention.value_residual_ ssm. wkv. kda. shortconv. posnet. convnext. xielu. diffusion. "
     "altup. hyper_connection. hash_layer_ time_ token_shift_ rescale_ swin_ swiglu_ decoder_ "
     "full_attention_ activation_ features_length embedding_length_ use_parallel_residual "
     "n_deepstack_ deepstack_ hidden_activation",
     "no such part of a model is known"},
};

static bool is_nothing(const json_t *value)
{
    return json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

/* NULL: it is not. */
static const char *why_refused(const char *architecture, const char *name)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const char *word = REFUSED[i][0], *reader = REFUSED[i][2];
        if (reader && strcmp(reader, architecture) == 0)
            continue;
        for (size_t length; *word; word += length + (word[length] == ' ')) {
            length = strcspn(word, " ");
            if (strncmp(name, word, length) == 0)
                return REFUSED[i][1];
        }
    }
    return NULL;
}

static bool is_known(const char *name)
{
    size_t length = strlen(name);
    for (const char *at = KNOWN + 1; length > 0 && (at = strstr(at, name)) != NULL; at++)
        if (at[-1] == ' ' && at[length] == ' ')
            return true;
    return false;
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
        const char *name = own ? key + length + 1 : key, *why = why_refused(architecture, name);
        if (is_nothing(value))
            continue;
        if (why)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: %s", key, why);
        if (own && !is_known(name) && json_object_set(config, key, value) != 0)
            return qk__nomem(err);
    }
    return QK_OK;
}
