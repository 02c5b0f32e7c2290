/* SPDX-License-Identifier: Apache-2.0 */
/* What a model loses without a head, or without a part of it: its loss on texts while heads are changed. docs/behaviour.md#ablation
 * has the definitions, with their sources. */
#ifndef QKSCOPE_ABLATE_H
#define QKSCOPE_ABLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/recorder.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/* Runs each text as it is, and once more for each change of each head or group of heads; keeps the differences text by
 * text, and says what they come to over texts. While it runs, what is done lies in OUTPUT/.units, and a run that was stopped goes on
 * there.
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
    /* Model, texts, layers and heads, arithmetic, output, force, shard and context; rows and the like are without
     * effect. */
    qk_recorder_settings recorder;
    /* Changes, with commas between: remove, mean, freeze[:BAND], shuffle:TOKENS, profile, window:TOKENS[:KEPT],
     * no-sink, uniform, direction:pcN|a[:PART] (of queries: a component, or the axis of drift). BAND: all (of the pairs of
     * a rotation), fast, middle, slow (thirds), or wavelengths in tokens, "<64", "64-4096", ">4096". */
    const char *what;
    /* Which heads are changed together: "each", one at a time; "layer", "all"; "where CONDITION" and "top N,N,... by COLUMN",
     * as qk_head_list has them, of the results; heads, as qk_head_set_parse has them. */
    const char *const *groups;
    size_t num_groups;
    const char *results; /* folder of results of this model; NULL: none */
    /* Folder of an ablation of this model, of groups: of "each", only heads of those of its groups whose interval leaves
     * out 0 are changed. NULL: all. */
    const char *screen;
    /* Of this model, after RoPE, of other texts: directions are its. NULL: none. */
    const char *capture;
    int64_t suffix; /* the last rows of each text alone are changed, >= 2; 0: all of them */
    bool controls;  /* those that nobody has to ask for: see docs/behaviour.md#ablation */
    int draws;      /* random groups beside each group */
    int64_t seed;
    int64_t memory; /* MiB; texts and branches beside one another take about so many */
    double level;   /* of intervals, percent */
    bool dry_run;   /* nothing but the forecast */
    const char *command_line; /* for the manifest; NULL = not known */
} qk_ablation_settings;

extern QK_API const qk_settings_table qk_ablation_settings_table;

/* One change of one head, or group, over all texts. Losses in nats a token; intervals over groups of texts, NaN with fewer
 * than two. */
typedef struct qk_ablation_effect {
    char what[48];
    char *group;                      /* "L0H3", or what was asked for */
    int layer, q_head;                /* of a head by itself; else -1 */
    size_t heads;                     /* that are changed */
    double loss;                      /* of the texts as they are */
    double delta, delta_lo, delta_hi; /* loss with the change, less loss without */
    double p, p_corrected; /* of no difference; corrected for all tests of this kind of group */
    double drift, drift_lo, drift_hi; /* KL(p || p'), nats a token */
    double repeated,
        novel; /* delta on tokens whose pair with the one before was there before, and on others */
    double share, share_lo,
        share_hi; /* delta over that of `remove`; NaN: not run, or that is undecided */
    /* Controls: random groups of as many heads in the same layers; of directions, random ones of the same heads. 0 and NaN:
     * none. */
    int draws;
    double random, random_least, random_most; /* mean, least and largest delta */
    double beyond, beyond_lo, beyond_hi;      /* delta less that mean, by text */
} qk_ablation_effect;

typedef struct qk_ablation_outcome {
    bool complete; /* else other shards are still to come, or it was a dry run */
    int64_t texts,
        tokens;          /* windows that are run, and tokens that have a loss and are changed */
    int64_t longest;     /* tokens of the longest of these windows */
    int64_t texts_there; /* of them, done by now */
    int64_t branches;    /* of one text */
    double flops;        /* of all texts */
    double forecast;     /* seconds; NaN: not known */
    double loss;
    size_t num_effects;
    qk_ablation_effect *effects; /* heads first, as tables have them */
    char *model;
    double seconds;
} qk_ablation_outcome;

/* Writes ablation.csv (heads), ablation_heads.csv, ablation_groups.csv, ablation_positions.csv and manifest.json into the
 * output folder, which is held meanwhile: all of them or none. Those of the same ablation give way, with `force` those of
 * another one. Release the outcome whatever is returned. Errors: QK_ERR_ARGUMENT (a setting, named), those of qk_loss_run and
 * qk_head_list, QK_ERR_EXISTS (output holds something else, or another run is at work there), QK_ERR_INCONSISTENT (the
 * capture is of another model, or of the texts that are tested). */
QK_API QK_MUST_CHECK qk_status qk_ablation_run(const qk_ablation_settings *settings,
                                               qk_ablation_outcome *outcome, qk_error *err);
QK_API void qk_ablation_outcome_free(qk_ablation_outcome *outcome);

/* A change in a sentence: "removing it", or what begins with "with": "without rotation", "with a window (64:4)"; and what
 * follows where the loss rises and where it does not: "it uses position". */
typedef struct qk_ablation_words {
    char called[80];
    const char *needs, *spares;
} qk_ablation_words;

/* False: `what` is no change that --what takes. */
QK_API bool qk_ablation_wording(const char *what, qk_ablation_words *words);

QK_END_DECLS

#endif
