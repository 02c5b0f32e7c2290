/* SPDX-License-Identifier: Apache-2.0 */
/* Language models: their weights and what their configuration says, the forward pass up to queries
 * and keys, and their tokenizers. */
#ifndef QKSCOPE_MODEL_H
#define QKSCOPE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/attention.h>
#include <qkscope/capture.h>
#include <qkscope/common.h>

QK_BEGIN_DECLS

/* ==== models ============================================================================== */

/* A decoder model as it lies on disk: in Hugging Face form (config.json, *.safetensors), or as
 * a GGUF file. docs/dev/engine.md#models
 *
 *     qk_model *model;
 *     qk_status status = qk_model_open(&model, "examples/kjv-tiny/step-2004", NULL, &err);
 *     const qk_model_facts *facts = qk_model_get_facts(model);
 *     ...
 *     qk_model_close(&model);
 *
 * Opening maps the weights and checks every tensor that a run would read: names, shapes, types
 * and that offsets lie within the file. Nothing is converted before it is needed. The files
 * must not be changed while the model is open. An open model may be used by several threads. */

/* What one layer does with positions. */
typedef struct qk_layer_facts {
    bool attends;   /* false: a cross-attention layer, passed over (mllama) */
    bool rope;      /* false: no position embedding here (NoPE) */
    int64_t window; /* tokens a query sees, itself included; 0 = all before it */
    /* layer_types calls it sliding; the choice of heads uses this, which may differ from window > 0
     * (docs/dev/engine.md#models) */
    bool sliding;
    /* Radians per token, one for each pair of dimensions, 0 for a pair that does not turn; NULL without RoPE.
     * Where they depend on the length of a text (dynamic, longrope): those of a short text. */
    const double *frequencies;
    size_t num_frequencies;
    double attention_factor; /* on cos and sin of this layer; 0 = no RoPE, or not known */
} qk_layer_facts;

typedef struct qk_model_facts {
    const char *architecture; /* model_type of the text model: "llama", "qwen3", ... */
    int num_layers, num_q_heads, num_k_heads, head_dim;
    int hidden_size, intermediate_size, vocab_size;
    int64_t max_positions;
    const char *rope_type;   /* "default", "yarn", ...; of full attention where there are two */
    double rope_theta;       /* of the same layers */
    double attention_factor; /* on cos and sin, so on q and k after RoPE; of the same layers */
    bool rope_interleaved;   /* dimensions 2j and 2j + 1 turn together, not j and j + pairs */
    double attention_scale;  /* on q.k, before the softmax; 0 = not known */
    /* of matrices on disk: "float32", "float16", "bfloat16", or as in GGUF: "Q4_K"; with several, the type of
     * most weights first: "Q4_K+Q6_K" */
    const char *dtype;
    /* What a run reads: embedding and decoder layers, nothing for images, no output layer. */
    int64_t weight_bytes, parameters;
    /* XXH3 of config.json (a GGUF file has all of it in its header), overrides, and the weight
     * files' sizes, headers and the ends of each tensor: steps of one training differ. */
    uint64_t fingerprint;
    const qk_layer_facts *layers; /* [num_layers] */
    double rope_theta_sliding;    /* of sliding layers with another theta; 0 = none have */
    /* what the user should know about config.json and the weights; NULL = nothing */
    const char *notice;
    /* Keys of sizes that config.json lacks, and the defaults of model_type in their place: "num_hidden_layers 32,
     * vocab_size 32000"; NULL = it has them all */
    const char *defaults;
} qk_model_facts;

typedef struct qk_model qk_model;

/* path is a folder with config.json and model.safetensors, or model.safetensors.index.json and weight files; or a GGUF
 * file, of several the first (NAME-00001-of-00003.gguf). overrides: a JSON object merged into the text model's config
 * (docs/dev/engine.md#models), NULL = none. QK_ERR_UNSUPPORTED names an unknown architecture, RoPE type, activation or
 * number format; QK_ERR_MALFORMED a file that breaks its format; QK_ERR_NOT_FOUND a missing tensor or file;
 * QK_ERR_INCONSISTENT a tensor whose shape contradicts config.json, or the metadata. */
QK_API QK_MUST_CHECK qk_status qk_model_open(qk_model **model, const char *path,
                                             const char *overrides, qk_error *err);

/* The same from config.json alone, without weights: facts, qk_prefill_flops and qk_prefill_bytes of a model that is
 * somewhere else. dtype is "", weight_bytes is 0, parameters are those of the shapes, and qk_prefill refuses it. A GGUF
 * file is opened as a whole. */
QK_API QK_MUST_CHECK qk_status qk_model_open_shape(qk_model **model, const char *path,
                                                   const char *overrides, qk_error *err);
QK_API void qk_model_close(qk_model **model);

/* Whether a file, or a folder that is no capture, is a model by the names of its files; also in a form that is not
 * read, for which qk_model_open says what to do. */
QK_API bool qk_model_is_there(const char *path);

/* Whether a folder holds model*.safetensors. If so, what qk_model_open misses is a fault, not a model that is
 * somewhere else. */
QK_API bool qk_model_has_weights(const char *folder);

/* The facts belong to the model. */
QK_API const qk_model_facts *qk_model_get_facts(const qk_model *model);

/* ---- running ---------------------------------------------------------------------------- */

typedef enum qk_arithmetic {
    QK_ARITHMETIC_F32,
    QK_ARITHMETIC_BF16_SIM, /* rounds where a bfloat16 run rounds: to compare with its captures
                             */
    QK_ARITHMETIC_F16_SIM,  /* rounds where a float16 run rounds, to float16 numbers */
    /* As BF16_SIM, with products of pairs of bfloat16 numbers and float32 sums, as on GPUs: faster than F32 on
     * processors with AVX512_BF16, the same bytes on all. */
    QK_ARITHMETIC_BF16,
} qk_arithmetic;

/* Some rows of one layer: the heads asked for, in ascending order, side by side. */
typedef struct qk_prefill_block {
    int layer;
    qk_kind kind;
    bool rotated;        /* after RoPE and query scaling, else before both; norms come before */
    size_t sequence;     /* which of the given sequences */
    int64_t first_token; /* of the sequence */
    int64_t num_tokens;
    size_t num_heads;
    const int *heads; /* [num_heads] */
    int head_dim;
    const float *rows; /* [num_tokens][num_heads][head_dim] */
} qk_prefill_block;

/* Called in order of layers; within a layer from any thread, one call at a time for one (sequence, kind), blocks of a
 * sequence in order of tokens, rows before RoPE ahead of the same rows after it. How a sequence is cut into blocks
 * depends only on its length. What block points to is valid during the call. An error stops the run and is returned. */
typedef qk_status qk_prefill_sink(void *user, const qk_prefill_block *block, qk_error *err);

/* What a sequence attends to in one layer: sums over all its rows (qkscope/attention.h). */
typedef struct qk_prefill_attention {
    int layer;
    size_t sequence; /* which of the given sequences */
    size_t num_heads;
    const int *heads; /* [num_heads] the query heads asked for, ascending */
    size_t num_buckets;
    const int64_t *bucket_rows; /* [num_buckets] rows whose positions are in bin 0, 1, .. */
    const double *sums;         /* [num_heads][num_buckets][QK_ATTENTION_SUMS] */
    /* [num_heads][num_buckets][head_dim] of what heads put out, before the output projection; NULL: not asked for */
    const double *outputs;
} qk_prefill_attention;

/* Called after each layer that has such heads, for all sequences in their order, by the caller's thread. What sums
 * points to is valid during the call. An error stops the run and is returned. */
typedef qk_status qk_prefill_attention_sink(void *user, const qk_prefill_attention *sums,
                                            qk_error *err);

/* How well a sequence, or a branch of it, is predicted: for tokens first + 1 .., -ln of the probability (nats, 0 ..)
 * that the model gives them behind those before. */
typedef struct qk_prefill_losses {
    size_t sequence; /* which of the given sequences */
    int64_t branch;  /* which of the branches; -1: the sequence as it is */
    int64_t first;   /* row of the first; 0 except for branches with a suffix */
    int64_t count;   /* of rows */
    const float *of; /* [count] */
    /* [count] for branches: KL(p || p'), nats, of the predictions for the next token without and with the
     * changes; 0 to rounding or more. Else NULL */
    const float *drift;
} qk_prefill_losses;

/* Called after the last layer by the caller's thread, for all sequences of two tokens or more in their order, then for
 * the branches. What losses points to is valid during the call. An error stops the run and is returned. */
typedef qk_status qk_prefill_loss_sink(void *user, const qk_prefill_losses *losses,
                                       qk_error *err);

/* A change of one query head; its key head, which other heads share, stays. Scores are those of the final queries and
 * keys. docs/behaviour.md#ablation */
typedef enum qk_head_change_kind {
    QK_CHANGE_OUTPUT, /* it puts out values [QK_DISTANCE_BINS][head_dim], by the bin of the row; NULL: 0 */
    QK_CHANGE_DIRECTION, /* q -= part u (u.q), u = values [head_dim] of length 1 */
    QK_CHANGE_ROTATION, /* frozen pairs stand at position 0, keys at `positions`; either may be NULL */
    QK_CHANGE_PROFILE, /* values are the weights of rows from QK_FAR_POSITION on; see QK_PROFILE_SHARES */
    QK_CHANGE_WINDOW, /* keys at distances of `window` or more are not seen, except the first `kept` */
    QK_CHANGE_NO_SINK, /* keys 0 .. QK_SINK_KEYS - 1 are seen only by themselves */
    QK_CHANGE_UNIFORM, /* all seen keys have the same weight */
    QK_NUM_CHANGES
} qk_head_change_kind;

/* A profile is [QK_DISTANCE_BINS of rows][QK_PROFILE_SHARES]: the share of key 0, of keys 1 .. QK_SINK_KEYS - 1, and
 * of the other keys by bins of distance. A row's weights are those of the keys that it sees, evenly within a bin,
 * scaled to add up to 1. */
enum { QK_PROFILE_SHARES = 2 + QK_DISTANCE_BINS };

typedef struct qk_head_change {
    int layer, q_head;
    qk_head_change_kind kind;
    bool keep_first; /* scores of keys 0 .. QK_SINK_KEYS - 1 stay */
    const float *values;
    float part;
    const bool *frozen;       /* [pairs of the layer's rotation] */
    const int32_t *positions; /* [count] of the sequence's tokens, 0 .. count-1 */
    int64_t window, kept;     /* >= 1, >= 0 */
} qk_head_change;

/* A sequence run again with changes, from the layer of the first change on, beside the others. */
typedef struct qk_prefill_branch {
    size_t sequence;
    int64_t suffix; /* only so many of its last rows are changed; 0: all */
    const qk_head_change *changes;
    size_t num_changes; /* > 0, ascending by layer, of heads that are all different */
} qk_prefill_branch;

typedef struct qk_prefill_settings {
    qk_arithmetic arithmetic;
    bool before_rope, after_rope; /* the stages that the sink sees */
    /* Heads of each layer: q_heads[layer * num_q_heads + head]; NULL = all. Layers after the last one with a
     * head are not run, and of that layer only what is asked for. */
    const bool *q_heads, *k_heads;
    /* may be NULL where only attention or losses are asked for, and no rows */
    qk_prefill_sink *sink;
    /* Measures the attention of the query heads while it is formed; NULL: no. Rows have the same bytes. */
    qk_prefill_attention_sink *attention;
    bool outputs; /* with attention and losses: also sums what the heads put out */
    /* Runs all layers, the last norm and the output layer; NULL: no. Then no sink is needed. QK_ERR_NOT_FOUND
     * where the weights lack them, and the embedding is not said to take their place. */
    qk_prefill_loss_sink *loss;
    /* Need losses, and go without rows and measured attention. Ascending by the layer of their first change. A
     * branch whose changes change nothing has the losses of its sequence, to the last bit. */
    const qk_prefill_branch *branches;
    size_t num_branches;
    void *user; /* passed to all of them */
    /* progress: "layers", before each, by the caller's thread; no notices */
    qk_context context;
} qk_prefill_settings;

typedef struct qk_sequence {
    const int32_t *tokens; /* each in 0 .. vocab_size-1 */
    int64_t count;         /* > 0 */
} qk_sequence;

/* float32, all processors, all heads after RoPE; a sink must be added. */
QK_API void qk_prefill_settings_default(qk_prefill_settings *settings);

/* Runs the sequences, each by itself (no attention between them), layer by layer together, so that a layer's weights
 * are converted once. A sequence's rows have the same bytes whichever others run beside it, with any number of
 * threads, on any processor. Memory: one layer of weights in float32, for every token hidden_size floats and one
 * layer's keys and values, and a few MiB a thread. Sequences may be longer than max_positions. */
QK_API QK_MUST_CHECK qk_status qk_prefill(const qk_model *model,
                                          const qk_prefill_settings *settings,
                                          const qk_sequence *sequences, size_t num_sequences,
                                          qk_error *err);

/* Floating-point operations and bytes of memory of such a run over one text, with the layers
 * and heads of settings (whose sink may be NULL); mapped weights are not counted. */
QK_API double qk_prefill_flops(const qk_model *model, const qk_prefill_settings *settings,
                               int64_t tokens);
QK_API int64_t qk_prefill_bytes(const qk_model *model, const qk_prefill_settings *settings,
                                int64_t tokens);

/* ==== tokenizers ========================================================================== */

/* tokenizer.json of Hugging Face's tokenizers: byte-level BPE and BPE with byte fallback, with the ids that tokenizers
 * gives. docs/dev/engine.md#models lists the known parts; others are refused by name. */

typedef struct qk_tokenizer qk_tokenizer;

/* path: a tokenizer.json, a folder with one (and perhaps a tokenizer_config.json, whose truncation_side is obeyed), or
 * a GGUF file with one in its metadata. What the file has and this library lacks is QK_ERR_UNSUPPORTED; messages name
 * the key. */
QK_API QK_MUST_CHECK qk_status qk_tokenizer_open(qk_tokenizer **tokenizer, const char *path,
                                                 qk_error *err);
QK_API void qk_tokenizer_close(qk_tokenizer **tokenizer); /* sets NULL, takes NULL */

typedef struct qk_tokens {
    int32_t *ids;
    size_t count;
} qk_tokens;

/* Limit for one text. Tokens take several times the memory. */
#define QK_MAX_TEXT_BYTES ((size_t)256 << 20)

/* text: size bytes, at most QK_MAX_TEXT_BYTES; invalid UTF-8 becomes U+FFFD as with Python's errors="replace".
 * special: add what the post-processor adds (BOS, ...); the text of a special token within text is that token either
 * way. max_length: the total, special tokens included; the end of the text is cut, or its beginning if the tokenizer
 * truncates on the left; 0 = no limit. Release *tokens with qk_tokens_free; on failure there is nothing to release.
 * Safe to call from several threads. */
QK_API QK_MUST_CHECK qk_status qk_tokenizer_encode(const qk_tokenizer *tokenizer,
                                                   const char *text, size_t size, bool special,
                                                   size_t max_length, qk_tokens *tokens,
                                                   qk_error *err);
/* The same for a file that is one text. A larger file, a folder, a device or a pipe is not read. */
QK_API QK_MUST_CHECK qk_status qk_tokenizer_encode_file(const qk_tokenizer *tokenizer,
                                                        const char *path, bool special,
                                                        size_t max_length, qk_tokens *tokens,
                                                        qk_error *err);
QK_API void qk_tokens_free(qk_tokens *tokens);

/* The vocabulary piece as in the file ("Ġthe", "▁the", "<0x0A>"), valid as long as the tokenizer; NULL: no such id. */
QK_API const char *qk_tokenizer_piece(const qk_tokenizer *tokenizer, int32_t id);

/* Largest id + 1. */
QK_API size_t qk_tokenizer_vocabulary(const qk_tokenizer *tokenizer);

QK_END_DECLS

#endif
