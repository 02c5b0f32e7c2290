/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys of config.json are used, refused or without effect, for all architectures or for
 * some. docs/dev/engine.md#models has the rule. The table follows the classes of transformers 5.23.0;
 * tests/model/test_config_keys.py compares the two. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/architectures.h"
#include "model/model_config.h"

/* clang-format off */
const qk__config_rule qk__config_rules[] = {
    {"used", "hidden_size intermediate_size vocab_size num_hidden_layers num_attention_heads num_key_value_heads "
     "max_position_embeddings rms_norm_eps rope_parameters original_max_position_embeddings partial_rotary_factor "
     "layer_types tie_word_embeddings", .of = NULL},
    {"used", "head_dim", .of = "llama mistral ministral ministral3 qwen2 qwen3 smollm3 glm glm4 gemma3_text"},
    {"used", "hidden_act", .of = "llama mistral ministral ministral3 qwen2 qwen3 smollm3 glm glm4 mllama_text_model"},
    {"used", "attention_bias", .of = "llama qwen3 smollm3 glm glm4 gemma3_text"},
    {"used", "mlp_bias", .of = "llama smollm3"},
    {"used", "sliding_window", .of = "mistral ministral ministral3 qwen2 qwen3 smollm3 gemma3_text"},
    {"used", "use_sliding_window", .of = "qwen2 qwen3 smollm3"},
    {"used", "max_window_layers", .of = "qwen2 qwen3"},
    {"used", "no_rope_layers no_rope_layer_interval", .of = "smollm3"},
    {"used", "hidden_activation rope_local_base_freq query_pre_attn_scalar sliding_window_pattern "
     "final_logit_softcapping", .of = "gemma3_text"},
    {"used", "cross_attention_layers", .of = "mllama_text_model"},
    {"refused", "quantization_config", .why = "quantized weights are not read"},
    {"refused", "per_layer_config", .why = "layers of unlike sizes are not known"},
    {"refused", "use_bidirectional_attention", .why = "only causal attention is known"},
    {"refused if false", "is_causal", .why = "only causal attention is known"},
    {"without effect", "model_type architectures transformers_version auto_map dtype torch_dtype use_cache "
     "initializer_range attention_dropout pretraining_tp pad_token_id bos_token_id eos_token_id chunk_size_feed_forward "
     "is_encoder_decoder output_hidden_states output_attentions return_dict id2label label2id problem_type "
     "renormalize_logits guidance_scale", .of = NULL},
    {"without effect", "attn_logit_softcapping _sliding_window_pattern", .of = "gemma3_text"},
    {"without effect", "max_window_layers", .of = "smollm3"},
    {"without effect", "dropout head_dim", .of = "mllama_text_model"},
    {"rope", "rope_type type rope_theta factor original_max_position_embeddings partial_rotary_factor attention_factor "
     "beta_fast beta_slow truncate mscale mscale_all_dim low_freq_factor high_freq_factor short_factor long_factor "
     "frequency_divisors finetuned max_position_embeddings mrope_section", .of = NULL},
    {"rope", "llama_4_scaling_beta", .of = "ministral3"},
    {0},
};
/* clang-format on */

void qk__model_config_note(qk__model_config *config, const char *fmt, ...)
{
    char note[sizeof config->notice];
    size_t used = strlen(config->notice), size = sizeof note;
    va_list args;
    va_start(args, fmt);
    bool fits = vsnprintf(note, size, fmt, args) + used + 2 < size;
    va_end(args);
    if (fits) /* a note that is cut off may end within a letter */
        snprintf(config->notice + used, size - used, "%s%s", used > 0 ? "; " : "", note);
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static const qk__config_rule *find_rule(const char *architecture, const char *key, bool rope)
{
    const qk__config_rule *r = qk__config_rules;
    while (r->use && (rope != (strcmp(r->use, "rope") == 0) || !has_word(r->keys, key) ||
                      (r->of && !has_word(r->of, architecture))))
        r++;
    return r->use ? r : NULL;
}

static bool is_nothing(const json_t *value)
{
    bool list = json_is_array(value) || json_is_object(value);
    return json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (list && json_array_size(value) + json_object_size(value) == 0);
}

static bool looks_used(const char *key)
{
    static const char *const PARTS[] = {"_layers", "scal", "cap",  "window",
                                        "norm",    "rope", "theta"};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (strstr(key, PARTS[i]))
            return true;
    return false;
}

/* Checks the keys of an object. whole: it is the root of a configuration that has the text model's as a part, and no
 * key of the table is used there. */
static qk_status check_object(qk__model_config *c, const qk__node *object, bool rope,
                              bool whole, qk_error *err)
{
    char path[QK__PATH_SIZE];
    qk__node at = {0};
    while (qk__node_next(object, &at)) {
        const char *name = c->architecture->name;
        const json_t *value = qk__node_json(&at);
        if (strlen(at.name) > 80) /* no key that is known; a path has no room for it */
            continue;
        if (rope && json_is_object(value)) { /* by layer type */
            QK_TRY(check_object(c, &at, true, false, err));
            continue;
        }
        const qk__config_rule *rule = whole ? NULL : find_rule(name, at.name, rope);
        bool if_false = rule && strcmp(rule->use, "refused if false") == 0;
        if (rule && rule->why && (if_false ? json_is_false(value) : !is_nothing(value)))
            return qk__fail_at(&at, err, QK_ERR_UNSUPPORTED, "%s", rule->why);
        if (!rule && !is_nothing(value) && (rope || looks_used(at.name)))
            qk__model_config_note(c, "%s does not use %s", name, qk__node_path(&at, path));
    }
    return QK_OK;
}

qk_status qk__config_check_keys(qk__model_config *config, const qk__node *text,
                                const qk__node *root, qk_error *err)
{
    qk__node rope = qk__node_member(text, "rope_parameters");
    if (text->value != root->value)
        QK_TRY(check_object(config, root, false, true, err));
    QK_TRY(check_object(config, text, false, false, err));
    return check_object(config, &rope, true, false, err);
}
