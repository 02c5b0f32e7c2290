/* SPDX-License-Identifier: Apache-2.0 */
/* What a results folder says, in memory: its models in study order, their heads with every
 * number of the per-head tables. read_results.c reads it; summaries.c sums it up, text_lengths.c says how long texts
 * are.
 *
 * The folder holds any of qk.csv, heads.csv, rotated.csv, head_metrics.csv, head_profile.csv,
 * stages.csv, score_by_distance.csv, attention.csv, attention_profile.csv, in its folder `ablation` ablation_heads.csv, and, from `qkscope study`, models.csv and
 * scores.csv (docs/howto/published.md#studies). A missing table leaves its numbers NaN and its counts 0; rows are
 * matched by (model, layer, q_head). */
#ifndef QK_RESULTS_RESULTS_H
#define QK_RESULTS_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/settings.h>
#include <qkscope/stats.h>

#include "results/means.h"
#include "schema/schema.h"

/* Numbers of a head by distance in tokens, and what predicts them. */
typedef struct qk__head_curve {
    size_t count;
    const double *distance, *measured;
    const double *predicted[2], *error; /* NULL: the table has no such column */
} qk__head_curve;

typedef struct qk__result_head {
    int layer, q_head, k_head;
    double depth;               /* layer / last layer of the model; 0 with one layer */
    int category;               /* a qk_category (qkscope/stats.h), or -1: none */
    double n_q, n_k;            /* rows, from whichever table tells; else NaN */
    qk__head_numbers v, lo, hi; /* lo, hi: of their intervals */
    qk__head_numbers cv;        /* which these are about, where that is not v */
    size_t num_pcs;             /* components in qk.csv */
    const double *pc_ev, *pc_r_q, *pc_r_k;       /* [num_pcs] */
    size_t num_profile;                          /* query buckets, by position */
    const double *profile_position, *profile_ap; /* [num_profile] */
    qk__head_curve scores;                       /* score_by_distance.csv */
    qk__head_curve attention; /* attention_profile.csv: the latest rows, over uniform attention;
                                 predicted by mean vectors, then by the drift of keys */
} qk__result_head;

typedef struct qk__result_model {
    const char *name;        /* the `model` column */
    const char *label;       /* what figures call it; the name without models.csv */
    const char *family;      /* never NULL; the label where none is given */
    const char *phase;       /* "" = not a checkpoint */
    const char *source;      /* "" unknown */
    const char *slug;        /* of file names: qk__slugs (base/slug.h) of all names, in order */
    int family_index;        /* 0.. in order of appearance; picks the colour */
    int phase_index;         /* likewise; -1 without a phase */
    qk_text_lengths lengths; /* of its texts */
    int last_layer;          /* of the model; where no file says it, the largest here */
    size_t num_heads;
    qk__result_head *heads; /* by layer, q_head */
} qk__result_model;

/* An external benchmark: a value per model (scores.csv), matched by name or label. Models of
 * the score file that are not in the study keep their own row: a published table alone can be
 * drawn. */
typedef struct qk__score {
    const char *model, *family; /* family "" unknown */
    double *values;             /* [num_score_columns] */
} qk__score;

typedef struct qk__results {
    const char *title; /* of the study, "" = none */
    size_t num_models;
    qk__result_model *models;
    size_t num_families;
    const char **families;
    size_t num_phases;
    const char **phases;
    bool checkpoints; /* every model has a phase: rows and axes are training checkpoints */
    size_t num_score_columns;
    const char **score_columns; /* numeric columns */
    size_t num_scores;
    qk__score *scores;
} qk__results;

typedef struct qk__builder qk__builder; /* results while they are read: builder.h */

/* In the order of the study, and by layer and query head:
 *
 *     qk__each_model (results, model)
 *         qk__each_head (model, head)
 *             qk__mean_add(&mean, head->v.r_q); */
static inline const qk__result_model *qk__next_model(const qk__results *results,
                                                     const qk__result_model *before)
{
    size_t next = before ? (size_t)(before - results->models) + 1 : 0;
    return next < results->num_models ? &results->models[next] : NULL;
}
static inline const qk__result_head *qk__next_head(const qk__result_model *model,
                                                   const qk__result_head *before)
{
    size_t next = before ? (size_t)(before - model->heads) + 1 : 0;
    return next < model->num_heads ? &model->heads[next] : NULL;
}
#define qk__each_model(results, model)                                                         \
    for (const qk__result_model *model = NULL; (model = qk__next_model(results, model));)
#define qk__each_head(model, head)                                                             \
    for (const qk__result_head *head = NULL; (head = qk__next_head(model, head));)

/* ---- summaries of one number over heads; NaN and infinite values are left out ----------- */

typedef struct qk__spread {
    size_t count;
    double mean, sd;                     /* sd with 1/(n-1); NaN below 2 */
    double quartile1, median, quartile3; /* linear between order statistics, as NumPy's */
} qk__spread;

/* magnitude: of |value|. */
QK_MUST_CHECK qk_status qk__spread_of(const qk__result_model *model, const qk__field *field,
                                      bool magnitude, qk__spread *spread, qk_error *err);

/* Whether two models have texts of lengths that differ. */
bool qk__has_unlike_lengths(const qk__results *results);
/* How long the texts are, in words behind others; of several models from the shortest to the longest. */
const char *qk__lengths_say(const qk__results *results, const char *before,
                            char text[QK_LENGTHS_SIZE]);
size_t qk__count_heads(const qk__results *results); /* of all models */
/* A head that none of these has is a mistake of whoever named it: QK_ERR_NOT_FOUND. other: NULL: none. */
QK_MUST_CHECK qk_status qk__need_heads(const qk_head_set *named, const qk__results *results,
                                       const qk__results *other, qk_error *err);
/* A number of models beside a score of theirs. */
typedef struct qk__score_pairing {
    const qk__results *results;
    const char *metric;
    bool from_scores;       /* a column of the score file goes before the study's own number */
    const qk__field *field; /* else it is the mean of this one over heads */
    size_t x_column, y_column; /* of the score file: the metric's (from_scores), the score's */
} qk__score_pairing;

/* metric: NULL = ap_drop; column: NULL = the first that is not the metric. False: there is no
 * such metric or score (scores.c). */
bool qk__pair_scores(const qk__results *results, const char *metric, const char *column,
                     qk__score_pairing *pair);
/* QK_ERR_ARGUMENT where there are not both; tells of models and scores without the other. */
QK_MUST_CHECK qk_status qk__check_scores(const qk__results *results, const char *metric,
                                         const char *column, const qk_context *context,
                                         qk_error *err);
double qk__scored_metric(const qk__score_pairing *pair, const qk__score *score); /* or NaN */

/* Pearson r over pairs that are both finite, and the least-squares line y = slope x + start;
 * NaN with fewer than 3 pairs or without variance. */
typedef struct qk__line {
    size_t count;
    double r, slope, start;
} qk__line;
qk__line qk__fit_line(const double *x, const double *y, size_t count);

#endif
