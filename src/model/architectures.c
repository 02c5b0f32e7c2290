/* SPDX-License-Identifier: Apache-2.0 */
/* The table of architectures. To add one: a row, and a function if its layers differ in a way
 * that no other's do. Defaults are those of the classes in transformers 5.1.0. */
#include "model/architectures.h"

#include <string.h>

#include "base/error.h"

#define MAX_WINDOW (INT64_C(1) << 40)

/* ---- what layers do --------------------------------------------------------------------- */

/* The window in tokens; absent: the architecture's, null: none (0). */
static qk_status read_window(const qk__model_config *config, const qk__node *text,
                             int64_t *window, qk_error *err)
{
    *window = qk__node_kind_in(text, "sliding_window") != QK__NOTHING
                  ? 0
                  : config->architecture->window;
    return qk__read_int64(text, "sliding_window", 1, MAX_WINDOW, window, err);
}

/* layer_types say which layers have the window. */
static qk_status set_windows(qk__model_config *config, int64_t window)
{
    for (int i = 0; i < config->num_layers; i++)
        config->layers[i].window = config->layers[i].sliding ? window : 0;
    return QK_OK;
}

/* One window for all layers; layer_types, if there, matter for the choice of heads only. */
static qk_status one_window(qk__model_config *config, const qk__node *text, bool types,
                            qk_error *err)
{
    (void)types;
    int64_t window;
    QK_TRY(read_window(config, text, &window, err));
    for (int i = 0; i < config->num_layers; i++)
        config->layers[i].window = window;
    return QK_OK;
}

static qk_status ministral_layers(qk__model_config *config, const qk__node *text, bool types,
                                  qk_error *err)
{
    int64_t window;
    QK_TRY(read_window(config, text, &window, err));
    for (int i = 0; !types && i < config->num_layers; i++)
        config->layers[i].sliding = window > 0;
    return set_windows(config, window);
}

static qk_status qwen_layers(qk__model_config *config, const qk__node *text, bool types,
                             qk_error *err)
{
    bool used = false;
    int64_t window, full_layers = 28;
    QK_TRY(qk__read_bool(text, "use_sliding_window", &used, err));
    QK_TRY(qk__read_int64(text, "max_window_layers", 0, INT32_MAX, &full_layers, err));
    QK_TRY(read_window(config, text, &window, err));
    if (!used)
        window = 0;
    for (int i = 0; !types && i < config->num_layers; i++)
        config->layers[i].sliding = window > 0 && i >= full_layers;
    return set_windows(config, window);
}

/* Every fourth layer or so has no position embedding; no_rope_layers is 1 where one is. */
static qk_status smollm_layers(qk__model_config *config, const qk__node *text, bool types,
                               qk_error *err)
{
    bool used = false;
    int64_t window, interval = 4;
    qk__node rotated;
    QK_TRY(qk__read_bool(text, "use_sliding_window", &used, err));
    QK_TRY(read_window(config, text, &window, err));
    QK_TRY(qk__read_int64(text, "no_rope_layer_interval", 1, INT32_MAX, &interval, err));
    QK_TRY(qk__read_list(text, "no_rope_layers", (size_t)config->num_layers, &rotated, err));
    bool listed = qk__node_is_given(&rotated);
    if (!used)
        window = 0;
    for (int i = 0; i < config->num_layers; i++) {
        qk__layer_config *layer = &config->layers[i];
        qk__node item = qk__node_item(&rotated, (size_t)i);
        const json_t *flag = listed ? qk__node_json(&item) : NULL;
        if (listed && !json_is_integer(flag) && !json_is_boolean(flag))
            return qk__fail_expected(&item, "0 or 1", err);
        bool rope = listed ? json_is_true(flag) || json_integer_value(flag) != 0
                           : (i + 1) % interval != 0;
        layer->rope = rope ? QK_ROPE_FULL : -1;
        if (!types)
            layer->sliding = window > 0 && !rope;
    }
    return set_windows(config, window);
}

static qk_status gemma_layers(qk__model_config *config, const qk__node *text, bool types,
                              qk_error *err)
{
    int64_t window, pattern = 6;
    QK_TRY(read_window(config, text, &window, err));
    QK_TRY(qk__read_int64(text, "sliding_window_pattern", 1, INT32_MAX, &pattern, err));
    for (int i = 0; i < config->num_layers; i++) {
        qk__layer_config *layer = &config->layers[i];
        if (!types)
            layer->sliding = (i + 1) % pattern != 0;
        layer->rope = layer->sliding ? QK_ROPE_SLIDING : QK_ROPE_FULL;
    }
    return set_windows(config, window);
}

/* Cross-attention layers look at an image; without one they are passed by. */
static qk_status mllama_layers(qk__model_config *config, const qk__node *text, bool types,
                               qk_error *err)
{
    (void)types;
    static const int usual[] = {3, 8, 13, 18, 23, 28, 33, 38};
    qk__node crossed;
    QK_TRY(qk__read_list(text, "cross_attention_layers", 0, &crossed, err));
    bool listed = qk__node_is_given(&crossed);
    size_t count = listed ? qk__node_count(&crossed) : sizeof usual / sizeof *usual;
    for (size_t i = 0; i < count; i++) {
        int64_t layer = listed ? 0 : usual[i];
        qk__node item = qk__node_item(&crossed, i);
        if (listed) {
            QK_TRY(qk__need(&item, NULL, err));
            QK_TRY(qk__read_int64(&item, NULL, 0, INT64_MAX, &layer, err));
        }
        if (layer < config->num_layers)
            config->layers[layer].attends = false;
    }
    return QK_OK;
}

/* ---- the table -------------------------------------------------------------------------- */

#define LLAMA_NAMES .mlp_norm = "post_attention_layernorm"
#define SILU        .activation_key = "hidden_act", .activation = "silu"
/* GLM 4 and Gemma 3 use the name post_attention_layernorm for different places. */
#define GLM_FACTS                                                                              \
    .hidden = 4096, .intermediate = 13696, .vocab = 151552, .layers = 40, .q_heads = 32,       \
    .k_heads = 2, .head_dim = 128, .positions = 131072, .norm_eps = 1.5625e-7, .theta = 10000, \
    .attention_bias = true, .qkv_bias = QK_BIAS_IF_SAID, SILU, .rotated_part = 0.5,            \
    .interleaved_rope = true, .fused_gate_up = "mlp.gate_up_proj"

static const qk__architecture table[] = {
    {"llama", .hidden = 4096, .intermediate = 11008, .vocab = 32000, .layers = 32,
     .q_heads = 32, .positions = 2048, .norm_eps = 1e-6, .theta = 10000,
     .qkv_bias = QK_BIAS_IF_SAID, .o_bias = QK_BIAS_IF_SAID, .mlp_bias = QK_BIAS_IF_SAID,
     .rotated_part = 1, SILU, LLAMA_NAMES},
    {"mistral", .hidden = 4096, .intermediate = 14336, .vocab = 32000, .layers = 32,
     .q_heads = 32, .k_heads = 8, .positions = 131072, .window = 4096, .norm_eps = 1e-6,
     .theta = 10000, .rotated_part = 1, SILU, LLAMA_NAMES, .set_layers = one_window,
     .with_layer_types = "ministral"},
    {"ministral", .hidden = 4096, .intermediate = 14336, .vocab = 32000, .layers = 32,
     .q_heads = 32, .k_heads = 8, .positions = 131072, .window = 4096, .norm_eps = 1e-6,
     .theta = 10000, .rotated_part = 1, SILU, LLAMA_NAMES, .set_layers = ministral_layers},
    {"ministral3", .hidden = 4096, .intermediate = 14336, .vocab = 131072, .layers = 34,
     .q_heads = 32, .k_heads = 8, .head_dim = 128, .positions = 262144, .norm_eps = 1e-5,
     .theta = 10000,
     .rope = "{\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0,"
             " \"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0,"
             " \"beta_slow\": 1.0, \"mscale_all_dim\": 1.0, \"mscale\": 1.0,"
             " \"llama_4_scaling_beta\": 0.1}",
     .rotated_part = 1, .scaled_queries = true, SILU, LLAMA_NAMES, .set_layers = one_window},
    {"qwen2", .hidden = 4096, .intermediate = 22016, .vocab = 151936, .layers = 32,
     .q_heads = 32, .k_heads = 32, .positions = 32768, .window = 4096, .norm_eps = 1e-6,
     .theta = 10000, .qkv_bias = QK_BIAS_ALWAYS, .rotated_part = 1, SILU, LLAMA_NAMES,
     .set_layers = qwen_layers},
    {"qwen3", .hidden = 4096, .intermediate = 22016, .vocab = 151936, .layers = 32,
     .q_heads = 32, .k_heads = 32, .head_dim = 128, .positions = 32768, .window = 4096,
     .norm_eps = 1e-6, .theta = 10000, .qkv_bias = QK_BIAS_IF_SAID, .o_bias = QK_BIAS_IF_SAID,
     .qk_norm = true, .rotated_part = 1, SILU, LLAMA_NAMES, .set_layers = qwen_layers},
    {"smollm3", .hidden = 2048, .intermediate = 11008, .vocab = 128256, .layers = 36,
     .q_heads = 16, .k_heads = 4, .positions = 32768, .norm_eps = 1e-6, .theta = 2000000,
     .qkv_bias = QK_BIAS_IF_SAID, .o_bias = QK_BIAS_IF_SAID, .mlp_bias = QK_BIAS_IF_SAID,
     .rotated_part = 1, SILU, LLAMA_NAMES, .set_layers = smollm_layers},
    {"glm", GLM_FACTS, LLAMA_NAMES},
    {"glm4", GLM_FACTS, .attention_out_norm = "post_self_attn_layernorm",
     .mlp_norm = "post_attention_layernorm", .mlp_out_norm = "post_mlp_layernorm"},
    {"gemma3_text",
     .hidden = 2304,
     .intermediate = 9216,
     .vocab = 262208,
     .layers = 26,
     .q_heads = 8,
     .k_heads = 4,
     .head_dim = 256,
     .positions = 131072,
     .window = 4096,
     .norm_eps = 1e-6,
     .theta = 1000000,
     .qkv_bias = QK_BIAS_IF_SAID,
     .o_bias = QK_BIAS_IF_SAID,
     .qk_norm = true,
     .norm = QK_NORM_GEMMA,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .rotated_part = 1,
     .local_rope = true,
     .scaled_embedding = true,
     .capped_logits = true,
     .score_scale_key = "query_pre_attn_scalar",
     .score_scale = 256,
     .attention_out_norm = "post_attention_layernorm",
     .mlp_norm = "pre_feedforward_layernorm",
     .mlp_out_norm = "post_feedforward_layernorm",
     .set_layers = gemma_layers},
    {"mllama_text_model", .hidden = 4096, .intermediate = 14336, .vocab = 128256, .layers = 40,
     .q_heads = 32, .k_heads = 8, .positions = 131072, .norm_eps = 1e-5, .theta = 500000,
     .head_dim_derived = true, .rotated_part = 1, .extra_embeddings = 8, SILU, LLAMA_NAMES,
     .set_layers = mllama_layers},
};
enum { NUM_ARCHITECTURES = sizeof table / sizeof *table };

static const struct {
    const char *name, *part;
} composites[] = {
    {"gemma3", "gemma3_text"},
    {"mistral3", "mistral"},
    {"mllama", "mllama_text_model"},
};
enum { NUM_COMPOSITES = sizeof composites / sizeof *composites };

const qk__architecture *qk__architecture_find(const char *model_type)
{
    for (int i = 0; i < NUM_ARCHITECTURES; i++)
        if (strcmp(table[i].name, model_type) == 0)
            return &table[i];
    return NULL;
}

const char *qk__architecture_part(const char *model_type)
{
    for (int i = 0; i < NUM_COMPOSITES; i++)
        if (strcmp(composites[i].name, model_type) == 0)
            return composites[i].part;
    return NULL;
}

const char *qk__architecture_name(size_t i)
{
    if (i < NUM_ARCHITECTURES)
        return table[i].name;
    i -= NUM_ARCHITECTURES;
    return i < NUM_COMPOSITES ? composites[i].name : NULL;
}
