/* SPDX-License-Identifier: Apache-2.0 */
/* What a model loses without a head, or without a part of it: its loss on texts while heads are changed. docs/behaviour.md#ablation
 * has the definitions, with their sources. */
#ifndef QKSCOPE_ABLATE_H
#define QKSCOPE_ABLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/common.h>
#include <qkscope/recorder.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/* Runs each text unchanged, and once more for each change of each head or group of heads; keeps the differences text by
 * text, and sums them up over texts. While it runs, finished work is in OUTPUT/.units, where a stopped run continues.
 *
 *     qk_ablation_settings settings;
 *     qk_ablation_outcome outcome;
 *     qk_settings_default(&qk_ablation_settings_table, &settings);
 *     settings.recorder.model = "examples/kjv-tiny/step-2004";
 *     settings.recorder.texts = (const char *const[]){"passages.jsonl"};
 *     settings.recorder.num_texts = 1;
 *     settings.recorder.output = "ablation";
 *     settings.what = "remove,freeze,profile";
 *     qk_status status = qk_ablation_run(&settings, &outcome, &err);
 */
typedef struct qk_ablation_settings {
    /* Model, texts, layers and heads, arithmetic, output, force, shard and context; rows and the like have no
     * effect. */
    qk_recorder_settings recorder;
    /* Changes, with commas between: remove, mean, freeze[:BAND], shuffle:TOKENS, profile, window:TOKENS[:KEPT],
     * no-sink, uniform, direction:pcN|a[:PART] (of queries: a component, or the axis of drift). BAND: all (of the pairs of
     * a rotation), fast, middle, slow (thirds), or wavelengths in tokens, "<64", "64-4096", ">4096". */
    const char *what;
    /* Which heads are changed together: "each", one at a time; "layer", "all"; "where CONDITION" and "top
     * N,N,... by COLUMN" of the results, as for qk_head_list; heads, as for qk_head_set_parse. */
    const char *const *groups;
    size_t num_groups;
    const char *results; /* folder of results of this model; NULL: none */
    /* Folder of an earlier ablation of groups of heads: of "each", only heads of groups whose interval excludes
     * 0 are changed. NULL: all. */
    const char *screen;
    /* A capture of this model after RoPE, of other texts, which gives the directions. NULL: none. */
    const char *capture;
    int64_t suffix; /* only the last rows of each text are changed, >= 2; 0: all rows */
    bool controls;  /* run the usual controls: docs/behaviour.md#ablation */
    int draws;      /* random groups beside each group */
    int64_t seed;
    int64_t memory;           /* MiB for texts and branches side by side, about */
    double level;             /* of intervals, percent */
    bool dry_run;             /* only the forecast */
    const char *command_line; /* for the manifest; NULL = not known */
} qk_ablation_settings;

extern QK_API const qk_settings_table qk_ablation_settings_table;

/* One change of one head, or group of heads, over all texts. Losses in nats a token; intervals over groups of texts,
 * NaN with fewer than two, and where most tokens are of one. */
typedef struct qk_ablation_effect {
    char what[48];
    char *group;                      /* "L0H3", or what was asked for */
    int layer, q_head;                /* of a single head; else -1 */
    size_t heads;                     /* number of changed heads */
    double loss;                      /* of the unchanged texts */
    double delta, delta_lo, delta_hi; /* loss with the change less loss without */
    double p,
        p_corrected; /* of no difference; corrected for all tests of single heads, or of groups */
    double drift, drift_lo, drift_hi; /* KL(p || p'), nats a token */
    double changed; /* share of tokens whose loss or drift is not that of the unchanged text */
    int64_t changed_texts; /* different texts that have such tokens */
    /* upper end of the interval of delta over these tokens and texts alone; NaN: nearly all are of one text */
    double changed_delta_hi;
    double repeated,
        novel; /* delta on tokens whose pair with the token before occurred before, and on other tokens */
    double share, share_lo,
        share_hi; /* delta over the delta of `remove`; NaN: not run, or its p_corrected above 0.05 */
    /* Controls: random groups of as many heads in the same layers; for directions, random directions of the
     * same heads. 0 and NaN: none. */
    int draws;
    double random, random_least, random_most; /* mean, least and largest delta */
    double beyond, beyond_lo, beyond_hi;      /* delta less that mean, by text */
} qk_ablation_effect;

typedef struct qk_ablation_outcome {
    bool complete; /* else other shards are still to come, or it was a dry run */
    int64_t texts,
        tokens; /* windows that are run, and tokens that have a loss and are changed */
    qk_text_lengths lengths; /* of these windows */
    int text_groups;         /* of different texts with a loss, for intervals */
    int64_t texts_there;     /* windows that are done by now */
    int64_t branches;        /* of one text */
    double flops;            /* of all texts */
    double forecast;         /* seconds; NaN: not known */
    double loss;
    size_t num_effects;
    qk_ablation_effect *effects; /* heads first, as in the tables */
    char *model;
    double seconds;
} qk_ablation_outcome;

/* Writes ablation.csv (heads), ablation_heads.csv, ablation_groups.csv, ablation_positions.csv and manifest.json into
 * the output folder, which is held meanwhile: all of them or none. They replace those of the same ablation, with
 * `force` also those of another one. Release the outcome whatever is returned. Errors: QK_ERR_ARGUMENT (a setting,
 * named), those of qk_loss_run and qk_head_list, QK_ERR_EXISTS (output holds something else, or another run is at work
 * there), QK_ERR_INCONSISTENT (the capture is of another model, or of the tested texts). */
QK_API QK_MUST_CHECK qk_status qk_ablation_run(const qk_ablation_settings *settings,
                                               qk_ablation_outcome *outcome, qk_error *err);
QK_API void qk_ablation_outcome_free(qk_ablation_outcome *outcome);

/* What an effect says of its change. In order: unchanged, no token changed; harmless, changed_delta_hi is below the
 * tolerance and at least QK_CHANGED_TEXTS texts changed; needed, the interval of delta begins above 0 and p_corrected
 * is at most 0.05; else undecided. Reads those members alone. */
typedef enum qk_ablation_verdict {
    QK_VERDICT_UNCHANGED,
    QK_VERDICT_HARMLESS,
    QK_VERDICT_NEEDED,
    QK_VERDICT_UNDECIDED
} qk_ablation_verdict;

enum { QK_CHANGED_TEXTS = 3 };

QK_API qk_ablation_verdict qk_ablation_judge(const qk_ablation_effect *effect,
                                             double tolerance);

/* A change in a sentence: "removing it", or words that begin with "with": "without rotation", "with a window (64:4)";
 * and what is said where the loss rises and where it does not: "it uses position". */
typedef struct qk_ablation_words {
    char called[80];
    const char *needs, *spares;
} qk_ablation_words;

/* False: `what` is no change that --what takes. */
QK_API bool qk_ablation_wording(const char *what, qk_ablation_words *words);

QK_END_DECLS

#endif
