/* SPDX-License-Identifier: Apache-2.0 */
/* Where a model's rows go, whoever runs it: which are kept, and the sink that makes a capture of them. */
#ifndef QKSCOPE_SINK_H
#define QKSCOPE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/attention.h>
#include <qkscope/capture.h>
#include <qkscope/common.h>

QK_BEGIN_DECLS

/* ==== which rows are kept ================================================================= */

/* Which heads and which positions a capture keeps: bit for bit those of the original tool.
 * docs/capture.md#positions
 *
 *     qk_sampler sampler = {.type = QK_SAMPLER_UNIFORM, .base_rate = 1, .min_bucket_size = 32};
 *     if (qk_sampler_check(&sampler, &err) == QK_OK &&
 *         qk_sampler_positions(&sampler, id, layer, QK_QUERY, 0, tokens, &list, &count, &err)
 * == QK_OK)
 *         ...
 *     free(list);
 *
 * What is kept of a text depends on the text's id, the layer, the kind and the position alone:
 * not on the length of the text, on other texts or on which heads are captured. */

/* ---- positions -------------------------------------------------------------------------- */

typedef enum qk_sampler_type {
    QK_SAMPLER_LOG_UNIFORM, /* base_rate positions or so in each bucket; buckets double in size
                             */
    QK_SAMPLER_UNIFORM,     /* the same with buckets of one size */
    QK_SAMPLER_ALL,         /* every position; buckets of one size */
} qk_sampler_type;

typedef struct qk_sampler {
    qk_sampler_type type;
    double base_rate;        /* positions a bucket, > 0 */
    int64_t min_bucket_size; /* in tokens, 1 to 2^40; LOG_UNIFORM rounds up to a power of two */
    int64_t max_rows;        /* per text, layer and kind; <= 0 = no cap */
} qk_sampler;

/* "log_uniform", "uniform" or "all", in upper or lower case; else false. */
QK_API bool qk_sampler_type_parse(const char *name, qk_sampler_type *type);
QK_API const char *qk_sampler_type_name(qk_sampler_type type);

/* QK_ERR_ARGUMENT names the field that is out of range. The functions below take a sampler that
 * passes. */
QK_API QK_MUST_CHECK qk_status qk_sampler_check(const qk_sampler *sampler, qk_error *err);

/* The size that is used: min_bucket_size, rounded up by LOG_UNIFORM. */
QK_API int64_t qk_sampler_bucket_size(const qk_sampler *sampler);

/* The bucket of a position >= 0. */
QK_API int64_t qk_sampler_bucket(const qk_sampler *sampler, int64_t position);

/* The same for many positions. */
QK_API void qk_sampler_buckets(const qk_sampler *sampler, const int64_t *positions,
                               size_t count, int64_t *buckets);

/* The kept positions of 0 .. count-1, in the order in which they are stored: ascending, unless max_rows cut them. A
 * list to free(); NULL where none is kept. first_head: the lowest captured head of the layer and kind, which decides
 * what max_rows cuts. */
QK_API QK_MUST_CHECK qk_status qk_sampler_positions(const qk_sampler *sampler,
                                                    int64_t example_id, int layer, qk_kind kind,
                                                    int first_head, int64_t count,
                                                    int64_t **positions, size_t *num_positions,
                                                    qk_error *err);

/* ---- ids of texts ----------------------------------------------------------------------- */

/* Ids are integers. One that fits 64 bits is itself; true and false are 1 and 0; a number with a fraction, a string,
 * or another name of a text is hashed. For null, the hash of "None". */

/* The hash of any text ("17" is a text): BLAKE2b of 8 bytes, little-endian. */
QK_API int64_t qk_example_id_of_text(const char *text, size_t size);

/* The id of a floating-point number: itself if whole, else the hash of its text in Python. */
QK_API int64_t qk_example_id_of_number(double number);

/* ==== what becomes of them ================================================================ */

/* Rows, or sums that are enough for most analyses, or both. docs/formats.md#moments */
typedef struct qk_keep {
    bool rows;    /* every row of the positions that the sampler keeps */
    bool moments; /* their moments, from the vectors as they come: no row is stored */
    int reservoir; /* with moments and without rows: queries and keys kept of a text and bucket; 0 = none */
    int groups; /* groups of texts, whose sums are apart, for intervals: 2 to 64; 0 = none */
    int first; /* rows at positions below it are summed once more, apart, so that analyses can leave them out: 1
                * to 16; 0 = none */
    /* with rows or moments: sums over rows of attention (attention.h). Where both stages are captured, the
     * capture after RoPE has them */
    bool attention;
} qk_keep;

enum { QK_MOST_GROUPS = 64 };

/* "rows", "moments", "rows,moments", "moments,reservoir=8", "moments,first=4", each with ",attention"; groups stay as
 * they are. QK_ERR_ARGUMENT says what is wrong with the text. */
QK_API QK_MUST_CHECK qk_status qk_keep_parse(const char *text, qk_keep *keep, qk_error *err);

typedef enum qk_rope_stage {
    QK_ROPE_AFTER, /* as the attention score takes them */
    QK_ROPE_BEFORE,
    QK_ROPE_BOTH, /* two captures in one run: OUTPUT/post and OUTPUT/pre */
} qk_rope_stage;

/* ==== the sink ============================================================================ */

/* Makes a capture of vectors that are put into it, text by text, from any thread: the bytes are the same.
 * Texts are numbered, and neighbours in the order of qk_sink_next are a block. Blocks come in any order, and so do the
 * vectors of open texts; the texts of a block begin in their order. A run that was stopped, by whatever means, continues
 * after the last finished block. Several processes may make one capture, each with a shard of the blocks; the last one
 * puts it together.
 *
 *     qk_sink_settings settings;
 *     qk_sink_settings_default(&settings);
 *     settings.output = "capture";
 *     settings.num_layers = 2, settings.num_q_heads = 4, settings.num_k_heads = 2;
 *     settings.head_dim = 64, settings.num_texts = 10;
 *     qk_sink_open(&sink, &settings, &err);
 *     for (int64_t i = -1; (i = qk_sink_next(sink, i)) >= 0;) {
 *         qk_sink_begin(sink, &(qk_sink_text){.number = i, .example_id = i, .tokens = 1000},
 *                       &err);
 *         ... run the model over text i; of each layer and kind:
 *         qk_sink_put(sink, &rows, &err);
 *         ...
 *         qk_sink_text_done(sink, i, &err);
 *     }
 *     qk_sink_finish(&sink, &outcome, &err);
 *
 * examples/sink.c is such a program. While it runs, everything lies in OUTPUT/.partial, where no
 * reader of captures looks. */

typedef struct qk_sink qk_sink;

/* Frequencies of one layer's rotation, radians per token: from 0 (a pair that does not turn), one
 * for each two dimensions at most. */
typedef struct qk_frequencies {
    const double *values;
    size_t count; /* 0 = not rotated, or not known */
} qk_frequencies;

/* What the pointers point to must stay valid until the sink is closed. */
typedef struct qk_sink_settings {
    const char *output; /* folder of the capture */
    /* replace an existing capture or unfinished run; the old one stays until the new one is complete */
    bool force;
    /* the model */
    const char *model_name; /* in capture.json and tables; NULL = "" */
    int num_layers, num_q_heads, num_k_heads;
    size_t head_dim;
    const bool *q_heads;    /* [num_layers][num_q_heads] which are captured; NULL = all */
    const bool *k_heads;    /* [num_layers][num_k_heads] */
    const int64_t *windows; /* [num_layers] sliding windows, 0 = none; NULL = no windows */
    const qk_frequencies *frequencies; /* [num_layers]; NULL = not known */
    bool rope_interleaved;             /* dimensions 2j and 2j + 1 turn together */
    qk_rope_stage stage;
    /* what is kept */
    qk_sampler sampler;
    qk_keep keep;
    uint64_t reservoir_seed;
    qk_layout layout;
    /* the texts, of all shards */
    int64_t num_texts; /* sequences that are run; each window of a long text is one */
    /* [num_texts] the text that each is a window of, or equal to: groups of texts follow from it, and each
     * block keeps fewer sums. NULL: not known; then the example_id of each is its text */
    const int64_t *text_ids;
    /* in all texts; 0 = not known: then blocks may be as short as a text */
    int64_t num_tokens;
    /* What else decides the bytes, such as names of the texts: a JSON object. A run continues only where it,
     * and the settings above, are the same; it is "run" in capture.json. NULL = nothing else. */
    const char *run;
    const char *extra_json; /* object of further keys for capture.json; NULL = none */
    const char *card;       /* further lines for the card; NULL = none */
    const char *source;     /* what made it; NULL = "qkscope sink" */
    bool token_strings;     /* a column token_str, of the tokens of texts */
    /* NULL = "". qk_sink_finish calls it, from several threads, and fails with QK_ERR_CANCELLED where it
     * returns NULL. */
    const char *(*token_string)(void *user, int32_t token);
    void *user; /* passed to token_string */
    /* running */
    qk_shard shard;
    /* Threads and progress are those of qk_sink_finish: "blocks", "files", "layers" of sums. */
    qk_context context;
} qk_sink_settings;

/* All 0 or NULL, except the sampler "all" with buckets of 128, rows kept, 16 groups. */
QK_API void qk_sink_settings_default(qk_sink_settings *settings);

/* Begins a capture, or continues one. Errors: QK_ERR_ARGUMENT (a setting, named), QK_ERR_EXISTS (output holds
 * something else, or another process is writing there), QK_ERR_IO. */
QK_API QK_MUST_CHECK qk_status qk_sink_open(qk_sink **sink, const qk_sink_settings *settings,
                                            qk_error *err);

/* Stops: finished blocks stay, and the same qk_sink_open continues with them. */
QK_API void qk_sink_close(qk_sink **sink);

/* Whether the capture was there when the sink was opened: then no text is wanted. */
QK_API bool qk_sink_is_complete(const qk_sink *sink);

/* Whether this process is to run a text: it is in its shard, and not finished. */
QK_API bool qk_sink_wants(const qk_sink *sink, int64_t number);

/* The text that this process runs after `number`, -1 before the first: in order of numbers, or, where sums are kept
 * and text_ids given, group by group. -1: it was the last. */
QK_API int64_t qk_sink_next(const qk_sink *sink, int64_t number);

/* The number of a text's block; -1: there is no such text. */
QK_API int64_t qk_sink_block(const qk_sink *sink, int64_t number);

/* Texts, and their tokens, that were finished when the sink was opened, by this shard or others. */
QK_API int64_t qk_sink_texts_before(const qk_sink *sink, int64_t *tokens);

/* A text that is about to be run. It is copied, except the tokens, which must stay valid until qk_sink_text_done. */
typedef struct qk_sink_text {
    int64_t number;        /* 0 .. num_texts - 1; the order of rows in the capture */
    int64_t example_id;    /* of its rows */
    int64_t tokens;        /* positions are 0 .. tokens - 1; 0: a text without any */
    const int32_t *ids;    /* [tokens] for token_str; NULL: none */
    const char *source;    /* in examples.csv: where it comes from; NULL = "" */
    const char *source_id; /* and what it is called there; NULL = "" */
    bool truncated;
    int64_t window, first_token; /* of a text that was split: which part, and where it begins */
    /* of the tokens of its text, for examples.csv; NULL: none */
    const uint64_t *checksum;
} qk_sink_text;
/* QK_ERR_ARGUMENT: it is not wanted, or earlier texts of its block are missing. */
QK_API QK_MUST_CHECK qk_status qk_sink_begin(qk_sink *sink, const qk_sink_text *text,
                                             qk_error *err);

/* The kept positions of a begun text, ascending: a list to free(), NULL where none is kept or the layer has no
 * captured head of that kind. They are known before the forward pass, so that only these rows need leave a device. */
QK_API QK_MUST_CHECK qk_status qk_sink_positions(qk_sink *sink, int64_t number, int layer,
                                                 qk_kind kind, int64_t **positions,
                                                 size_t *count, qk_error *err);

typedef enum qk_number_type { QK_FLOAT32, QK_FLOAT16, QK_BFLOAT16 } qk_number_type;

/* Vectors of one text, layer and kind: some heads at some positions. */
typedef struct qk_sink_rows {
    int64_t text; /* its number */
    int layer;
    qk_kind kind;
    bool before_rope; /* the stage of the vectors */
    /* [num_heads]; NULL: 0 .. num_heads - 1. Heads that are not captured are passed over */
    const int *heads;
    size_t num_heads;
    /* [rows] ascending; NULL: first_position, first_position + 1, ... Positions that are not kept are passed
     * over */
    const int64_t *positions;
    int64_t first_position;
    size_t rows;
    qk_number_type type;
    const void *data; /* vector of head i, row r: at i head_stride + r row_stride */
    ptrdiff_t head_stride, row_stride; /* in numbers; both 0: [num_heads][rows][head_dim] */
} qk_sink_rows;

/* Takes rows. Any thread, any order; every kept row must come exactly once. Errors: QK_ERR_ARGUMENT (a text that is
 * not begun, a head or position that does not exist, or came before), QK_ERR_DEGENERATE (a number that is not finite),
 * QK_ERR_IO. After an error of any call the sink can only be closed: what was finished before stays. */
QK_API QK_MUST_CHECK qk_status qk_sink_put(qk_sink *sink, const qk_sink_rows *rows,
                                           qk_error *err);

/* Sums over the rows of one text, layer and kind at all kept positions, for some heads: made where the rows are, such
 * as on a device, so that these need not leave it. They are about an origin of the vectors x and an origin of the
 * positions t; without origins digits are lost where the mean of x or t is far larger than its spread. All in float64,
 * one after the other. */
typedef struct qk_sink_sums {
    int64_t text; /* its number */
    int layer;
    qk_kind kind;
    bool before_rope;
    const int *heads; /* [num_heads], as in qk_sink_rows */
    size_t num_heads;
    int64_t rows;         /* in the sums: as many as there are positions */
    const double *origin; /* [num_heads][head_dim]; NULL: 0 */
    double origin_t;
    const double *sum_x, *sum_xt; /* [num_heads][head_dim] of x and x t */
    const double *sum_xx; /* [num_heads][head_dim][head_dim] of x_i x_j: i <= j are read */
    /* For queries, by the sampler's buckets with positions, ascending: of x, x t, x^2 */
    size_t num_buckets;
    const double *bucket_sum_x, *bucket_sum_xt,
        *bucket_sum_xx; /* [num_heads][num_buckets][head_dim] */
    /* For queries before RoPE: of the length of each pair of dimensions that RoPE turns, not about the origin. */
    size_t num_pairs;
    /* [num_heads][num_pairs]; NULL: not known, and then not in the moments */
    const double *sum_abs;
} qk_sink_sums;

/* Takes sums in place of rows, where moments are kept without rows. A part (text, layer and kind) comes either by
 * qk_sink_put, or all its heads by this, once, and then, by qk_sink_put, the stored rows. The same sums give the same
 * bytes in any order; rows give other bytes, by rounding. Errors: those of qk_sink_put; QK_ERR_DEGENERATE also where
 * no rows have such sums. */
QK_API QK_MUST_CHECK qk_status qk_sink_put_sums(qk_sink *sink, const qk_sink_sums *sums,
                                                qk_error *err);

/* Sums over the rows of attention of one text and layer, where attention is kept; otherwise they are passed over. All
 * captured heads of the layer come in one call, once; a text without tokens needs none. */
typedef struct qk_sink_attention {
    int64_t text; /* its number */
    int layer;
    const int *heads; /* [num_heads] query heads, as in qk_sink_rows */
    size_t num_heads;
    size_t num_buckets;         /* 1 .. QK_DISTANCE_BINS */
    const int64_t *bucket_rows; /* [num_buckets] rows at positions of each qk_distance_bin */
    const double *sums;         /* [num_heads][num_buckets][QK_ATTENTION_SUMS] */
} qk_sink_attention;
QK_API QK_MUST_CHECK qk_status qk_sink_put_attention(qk_sink *sink,
                                                     const qk_sink_attention *sums,
                                                     qk_error *err);

/* Like qk_sink_positions, for stored rows: all positions, those of the reservoir, or none. */
QK_API QK_MUST_CHECK qk_status qk_sink_stored_positions(qk_sink *sink, int64_t number,
                                                        int layer, qk_kind kind,
                                                        int64_t **positions, size_t *count,
                                                        qk_error *err);

/* All rows of a text were put. QK_ERR_INCONSISTENT: some kept rows were not. */
QK_API QK_MUST_CHECK qk_status qk_sink_text_done(qk_sink *sink, int64_t number, qk_error *err);

/* What is there now. */
typedef struct qk_sink_outcome {
    bool complete; /* the capture is in its place; else other shards are still to come */
    int64_t blocks, blocks_there;
    int64_t texts_there;
    size_t heads;   /* of both kinds, of one stage; 0 where not complete, like what follows */
    int64_t rows;   /* in files, of all heads and stages */
    int64_t summed; /* rows behind moments */
    int64_t bytes;  /* on disk */
} qk_sink_outcome;

/* Puts the capture together if all its blocks are there, and closes the sink in any case. Errors: QK_ERR_DEGENERATE
 * (no position was kept), QK_ERR_INCONSISTENT (texts of this shard are missing), QK_ERR_IO, QK_ERR_CANCELLED; the same
 * qk_sink_open then continues. */
QK_API QK_MUST_CHECK qk_status qk_sink_finish(qk_sink **sink, qk_sink_outcome *outcome,
                                              qk_error *err);

/* ---- pieces of a capture ---------------------------------------------------------------- */

/* Folders of shards of one run, each with some of its blocks. */
typedef struct qk_merge_settings {
    const char *const *inputs;
    size_t num_inputs;
    const char *output; /* NULL with one input: the input */
    bool force; /* replace what is in output; it stays until the new capture is complete */
    qk_context context; /* progress: "blocks", then as above */
} qk_merge_settings;

/* Brings blocks together in output, and puts the capture together if all are there: outcome->complete; else a warning
 * says what is missing. The bytes are those of one process, in any order and number of steps. The inputs stay. A
 * single input without pieces and without output may be a finished capture: it is complete, with no blocks. Errors:
 * QK_ERR_NOT_FOUND (no pieces), QK_ERR_INCONSISTENT (of different runs), QK_ERR_EXISTS (output holds something else,
 * or one of several inputs is a finished capture), QK_ERR_UNSUPPORTED (a capture with strings of tokens: its own
 * command puts it together), QK_ERR_CANCELLED (the same call continues). */
QK_API QK_MUST_CHECK qk_status qk_sink_merge(const qk_merge_settings *settings,
                                             qk_sink_outcome *outcome, qk_error *err);

QK_END_DECLS

#endif
