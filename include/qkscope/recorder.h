/* SPDX-License-Identifier: Apache-2.0 */
/* Making a capture of a model: which heads and positions are kept, and the run over texts. */
#ifndef QKSCOPE_RECORDER_H
#define QKSCOPE_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/capture.h>
#include <qkscope/common.h>
#include <qkscope/model.h>
#include <qkscope/sink.h>

QK_BEGIN_DECLS

/* ==== recording =========================================================================== */

/* Running a model over texts and keeping the queries and keys of chosen heads: a capture,
 * written block by block, resumable. docs/capture.md
 *
 *     qk_recorder_settings settings;
 *     qk_recorder_outcome outcome;
 *     qk_recorder_settings_default(&settings);
 *     settings.model = "examples/kjv-tiny/step-2004";
 *     settings.texts = (const char *const[]){"genesis.txt"};
 *     settings.num_texts = 1;
 *     settings.output = "capture";
 *     qk_status status = qk_recorder_run(&settings, &outcome, &err);
 *
 * While it runs, everything lies in OUTPUT/.partial, where no reader of captures looks. A run
 * that was stopped, by whatever means, is resumed by the same call, and ends in the same
 * bytes. They depend neither on the number of threads nor on when it was stopped. */

/* What is done with a text of more than max_length tokens. */
typedef enum qk_long_texts {
    QK_LONG_SPLIT, /* into windows, each run as a text of its own */
    QK_LONG_CUT,   /* its first max_length tokens are run */
    QK_LONG_SKIP,  /* it is passed over */
} qk_long_texts;

/* A text that is not in a file. Its pointers are valid until the next call. */
typedef struct qk_recorder_text {
    const char *data; /* UTF-8 */
    size_t size;
    bool has_id; /* else its id is its number */
    int64_t id;
    const char *name; /* its name; NULL = "" */
    const char *path; /* where it comes from; NULL = "" */
} qk_recorder_text;

/* A model that somebody else runs, with its own tokenizer and sink: what a run asks of it, one call at a time, on the
 * thread of qk_recorder_run. Texts are read, counted and split here, and heads, rate and ids chosen, so that the rows
 * are those of a model that this library runs. A function returns false when it failed, for a reason that its owner
 * knows: then the run ends with QK_ERR_CANCELLED. */
typedef struct qk_recorder_engine {
    const char *tool;            /* name, in capture.json */
    const qk_model_facts *facts; /* fingerprint and dtype included */
    const char *arithmetic;      /* for the card */
    const char *identity; /* JSON object: what else decides the numbers; "engine" of "run" */
    const char *describe; /* JSON object of further keys for capture.json; NULL = none */
    uint64_t tokenizer;   /* fingerprint */
    size_t specials_before, specials_after; /* tokens that are put around a text */
    /* Ids that made-up texts do not have: special tokens, and those that no text gives. */
    const int32_t *special;
    size_t num_special;
    /* The next text, or *more is false; begins again with the first text. NULL: files of the settings. */
    bool (*next)(void *user, qk_recorder_text *text, bool *more);
    bool (*rewind)(void *user);
    /* As qk_tokenizer_encode with special tokens; the ids are valid until the next call. */
    bool (*encode)(void *user, const char *text, size_t size, size_t max_length,
                   qk_tokens *tokens);
    /* Opens a sink with these settings; output, shard, context and the like are chosen by the sink's owner, who
     * also finishes and closes it. */
    bool (*open)(void *user, const qk_sink_settings *settings, qk_sink **sink);
    /* Runs sequences, which the sink knows by these numbers, and puts their rows. They are of one block of the
     * sink, and the same ones in every run. */
    bool (*run)(void *user, const qk_sequence *sequences, const int64_t *numbers, size_t count);
    void *user;
} qk_recorder_engine;

/* Texts are run together up to about so many tokens: small batches cost another conversion of the weights,
 * large batches cost memory. */
enum { QK_TOKENS_AT_ONCE = 8192 };

typedef struct qk_recorder_settings {
    /* The model: a folder with config.json, weights and tokenizer.json, a GGUF file, or "org/name" on the Hub;
     * what is not in the Hugging Face cache is fetched. tokenizer (NULL = the model's) may be a tokenizer.json,
     * too. */
    const char *model;
    const char *revision; /* of a model on the Hub; NULL = main */
    const char *tokenizer;
    const char *model_name; /* for manifest and card; NULL = org/name, or the folder's name */
    const char *overrides;  /* JSON object over the model's config; NULL = none */
    qk_arithmetic arithmetic;
    /* Runs the model, which is then only a name; NULL = this library. Then tokenizer, overrides, arithmetic,
     * output, force and shard have no effect. */
    const qk_recorder_engine *engine;
    /* The texts, in this order: a file is one text; a folder all files below it by name, without hidden ones;
     * .jsonl, .ndjson, .jsonlines and .json one text a line, or a list of texts; .parquet, .csv and .tsv one
     * text a row. A name of no file or folder is looked for as a dataset "org/name" on the Hugging Face Hub.
     * "repeat:LENGTHxTIMES[:COUNT[:SEED]]" is no file, but COUNT (8) texts of LENGTH random tokens, TIMES
     * times; without other texts no tokenizer is needed. */
    const char *const *texts;
    size_t num_texts;
    /* From folders take only tables and files of JSON, and of these those with the words in their paths, if any
     * has them; both NULL = all files. */
    const char *dataset_name, *dataset_split;
    const char *text_column; /* of JSON and tables; NULL = "text" */
    const char *id_column;   /* NULL = the number of the text, from 0 */
    int64_t max_examples;    /* the first ones; 0 = all */
    int64_t max_length;      /* tokens, special ones included; 0 = the model's max_positions */
    qk_long_texts long_texts;
    /* What is kept. A base_rate of 0 is chosen from the tokens of all texts so that about `rows` rows of each
     * head and kind are expected, all where there are fewer. With such a rate, and for QK_SAMPLER_ALL, a
     * min_bucket_size of 0 is a sixteenth of the longest text; for QK_SAMPLER_LOG_UNIFORM it is 128.
     * docs/capture.md#positions */
    qk_sampler sampler;
    int64_t rows;     /* no effect where base_rate is given */
    const char *keep; /* as for qk_keep_parse; NULL = "rows" */
    int groups;       /* of texts, in moments */
    qk_layout layout;
    qk_rope_stage stage;
    qk_kinds kinds;
    qk_index_list layers;
    qk_head_set heads; /* query heads, whose key heads are kept as well */
    int sample_heads;  /* query heads drawn; 0 = all */
    int64_t head_seed;
    bool full_attention_only;
    /* choose heads as the original does, for its configuration files: docs/capture.md */
    bool compat;
    bool token_strings;
    /* output and running */
    const char *output;
    /* Replaces an existing capture or unfinished run; the old one stays until the new one is complete. */
    bool force;
    qk_shard shard; /* of the texts; the last of the processes puts the capture together */
    int64_t tokens_at_once; /* of texts run together, about; 0 = QK_TOKENS_AT_ONCE */
    /* progress: first "texts" that are read through, then "tokens" that are run, with those of earlier runs,
     * out of about so many, then as in qk_sink_settings. A stopped run can be resumed. */
    qk_context context;
} qk_recorder_settings;

/* Sets the sampler of settings by which of its settings were given by name: without any, its rate is chosen from the
 * texts; sums alone keep all positions; all else has its default. of_file: a file gave them. QK_ERR_ARGUMENT: settings
 * that exclude each other. */
QK_API QK_MUST_CHECK qk_status qk_recorder_settle_sampler(const qk_settings *given,
                                                          bool of_file,
                                                          qk_recorder_settings *settings,
                                                          qk_error *err);

/* What a run did. */
typedef struct qk_recorder_outcome {
    bool complete_already; /* nothing was left to do; the numbers below are 0 */
    bool complete;         /* else other shards are still to come: */
    int64_t blocks, blocks_there;
    int64_t texts_before; /* sequences by earlier, unfinished runs, or other shards */
    int64_t tokens_before;
    int64_t texts, tokens;       /* in all */
    int64_t windows;             /* that were run: texts, or windows of texts */
    int64_t empty;               /* texts without tokens */
    int64_t split, cut, skipped; /* texts longer than max_length */
    qk_sampler sampler;          /* with the chosen rate */
    double expected_rows;        /* of each head and kind, where the rate was chosen; else 0 */
    size_t heads;                /* files of heads, both kinds, of one stage */
    int64_t rows, bytes;         /* in all files */
    int64_t summed;              /* rows behind moments */
    double seconds_running, seconds_writing; /* of this run */
    double processor_running,
        processor_writing; /* the same in seconds of processor, of all threads */
} qk_recorder_outcome;

/* About 8,000 rows a head and kind, uniform over all positions; long texts are split; after
 * RoPE, both kinds, all heads. */
extern QK_API const qk_settings_table qk_recorder_settings_table;
QK_API void qk_recorder_settings_default(qk_recorder_settings *settings);

/* Makes the capture. Errors: QK_ERR_ARGUMENT (a setting, named), those of opening model and tokenizer, QK_ERR_EXISTS
 * (output holds something else: see force), QK_ERR_DEGENERATE (no head, no text or no position is left),
 * QK_ERR_MALFORMED (a text file; names file and line), QK_ERR_CANCELLED. After an error output has no capture other
 * than the one that was there before. */
QK_API QK_MUST_CHECK qk_status qk_recorder_run(const qk_recorder_settings *settings,
                                               qk_recorder_outcome *outcome, qk_error *err);

/* ---- before running --------------------------------------------------------------------- */

/* The heads that a run would keep. */
typedef struct qk_recorder_selection {
    int num_layers, num_q_heads, num_k_heads;
    bool *q_heads; /* [num_layers][num_q_heads] */
    bool *k_heads; /* [num_layers][num_k_heads] */
    size_t num_q, num_k;
    size_t candidates; /* query heads to choose from */
    size_t drawn_q,
        drawn_k; /* chosen heads; more than num_q, num_k where compat chose heads that are never
                              * captured */
    int sliding_layers; /* left out by full_attention_only */
    int silent_layers;  /* without self-attention */
} qk_recorder_selection;

/* Errors: QK_ERR_ARGUMENT (layers or heads that the model does not have), QK_ERR_DEGENERATE
 * (nothing is left, and why). */
QK_API QK_MUST_CHECK qk_status qk_recorder_select(const qk_recorder_settings *settings,
                                                  const qk_model_facts *facts,
                                                  qk_recorder_selection **selection,
                                                  qk_error *err);
QK_API void qk_recorder_selection_free(qk_recorder_selection **selection);

/* The contents of a capture. */
typedef struct qk_recorder_amount {
    int64_t texts, tokens; /* number of texts, and tokens of each */
    int64_t window;        /* a text is run in windows of so many tokens; 0 = as a whole */
    int64_t reservoir;     /* rows kept of each window and bucket, for each head and kind */
    int groups;            /* of texts, at most; 0 = none */
    int buckets;  /* of positions, by the sampler; 0 = as many as the sampler "all" makes */
    int first;    /* rows at positions below it are summed once more; 0 = none */
    bool moments; /* moments are kept */
} qk_recorder_amount;

/* What it takes on disk: of rows the vectors in float32, of sums the arrays of their files, whose headers have a few
 * KB more. Numbers that are too large are INT64_MAX. */
typedef struct qk_recorder_sizes {
    int64_t rows;           /* of each head and kind, if all are kept */
    int64_t reservoir_rows; /* with a reservoir, at most */
    int64_t groups;         /* that so many texts make; 0 = none */
    int64_t buckets;        /* of positions */
    int64_t row_bytes;      /* of one row of every head */
    int64_t moment_bytes;   /* of all heads */
    int64_t query_bytes;    /* moments of one query head */
    int64_t key_bytes;
    int64_t moment_files;
    int64_t attention_bytes;    /* sums of attention of all query heads */
    int64_t blocks;             /* of texts, each finished by itself */
    int64_t moment_block_bytes; /* of all blocks, until the capture is made from them */
    int64_t attention_block_bytes;
} qk_recorder_sizes;

QK_API void qk_recorder_measure(const qk_recorder_selection *selection,
                                const qk_model_facts *facts, const qk_recorder_amount *amount,
                                qk_recorder_sizes *sizes);

/* How long it takes. */
typedef struct qk_recorder_forecast {
    double seconds;           /* of the whole capture, as busy as the machine is now */
    double processor_seconds; /* of all threads */
    double measuring;         /* seconds that it took to find this out */
    int64_t tokens;           /* of the longest text that was run for it */
    bool made_weights;        /* the model has no weights here: they were made up */
} qk_recorder_forecast;

/* Makes small captures of the first layer of the model in TMPDIR (/tmp), removes them, and concludes from them how
 * long a capture of so many texts of so many tokens takes. Takes about five seconds, longer where a layer does. model is that of
 * settings; for one that was opened as a shape, weights are made up, in TMPDIR, too. Of settings count model, arithmetic, rows,
 * keep, groups and context, whose progress may stop it. Errors: those of qk_recorder_run. */
QK_API QK_MUST_CHECK qk_status qk_recorder_foresee(const qk_recorder_settings *settings,
                                                   const qk_model *model, int64_t texts,
                                                   int64_t tokens,
                                                   qk_recorder_forecast *forecast,
                                                   qk_error *err);

/* ---- configuration files ---------------------------------------------------------------- */

/* A YAML file of the original capture tool. The strings of the settings point into the config;
 * keys without effect here are listed in notes. Unknown keys, wrong types and values out of
 * range are QK_ERR_ARGUMENT and name file, line and key. */
typedef struct qk_recorder_config qk_recorder_config;
QK_API QK_MUST_CHECK qk_status qk_recorder_config_load(qk_recorder_config **config,
                                                       const char *path, qk_error *err);
QK_API void qk_recorder_config_free(qk_recorder_config **config);
QK_API const qk_recorder_settings *
qk_recorder_config_settings(const qk_recorder_config *config);
QK_API size_t qk_recorder_config_num_notes(const qk_recorder_config *config);
QK_API const char *qk_recorder_config_note(const qk_recorder_config *config, size_t i);

QK_END_DECLS

#endif
