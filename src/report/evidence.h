/* SPDX-License-Identifier: Apache-2.0 */
/* What the findings share: which heads a claim is about, its units, phrases, tests, and questions that
 * several ask alike.
 *
 *     significance.c  tests, and their correction
 *     estimate.c      intervals
 *     claim_units.c   heads of a claim, one number per unit
 *     evidence.c      sentences, what is tested, questions; uses those above
 *     relation.c      correlations over heads; uses all of these
 *     findings_pca.c, findings_rotation.c, findings_plasticity.c, findings_scores.c,
 *     findings_depth.c, findings_stages.c, findings_training.c (with curve.c)
 *                     the findings of a topic; findings.c calls them */
#ifndef QK_REPORT_EVIDENCE_H
#define QK_REPORT_EVIDENCE_H

#include <stdbool.h>

#include <qkscope/analysis.h>

#include "report/claim_units.h"
#include "report/estimate.h"
#include "report/findings.h"
#include "report/page.h"
#include "report/significance.h"

/* A claim holds when its corrected p-value is at most this. */
#define QK__LEVEL 0.05

/* ---- phrases ---------------------------------------------------------------------------- */

typedef struct qk__phrase {
    char text[640];
} qk__phrase;
typedef struct qk__short_phrase { /* of a phrase */
    char text[160];
} qk__short_phrase;

/* A number, and a p-value, as all findings show them; shares with qk__show_percent. */
qk__shown qk__number(double value);
qk__shown qk__p_value(double p);

/* "across 11 models", "in NAME", "in these 2 models", "at the last checkpoint, NAME". */
qk__phrase qk__where(const qk__scope *scope, const qk__units *units);
/* "n = 11 models (3,239 heads)", "n = 10 groups of heads that share keys (20 heads)". */
qk__phrase qk__how_many(const qk__units *units);
/* "95 % interval 0.12 to 0.31"; "no interval" without one. */
qk__short_phrase qk__interval(const qk__estimate *estimate);
qk__short_phrase qk__interval_percent(const qk__estimate *estimate);
/* "mean over heads 0.31, mean over models 0.30, 95 % interval 0.12 to 0.31": the first is what the tables
 * of the page have. Units that are groups have no mean of their own here. Of a share: "31.0 % of heads,
 * ...". */
typedef enum qk__mean_kind {
    QK__OF_NUMBERS,
    QK__OF_PERCENTAGES,
    QK__OF_HEADS, /* which are counted: a share of them */
} qk__mean_kind;
qk__phrase qk__mean_phrase(const qk__units *units, const qk__estimate *estimate,
                           qk__mean_kind kind);
/* What a number of a head is in words, for a sentence: "the position correlation of queries on PC0"; a
 * name that is no number of a head is said as it is. */
qk__phrase qk__noun(const char *name);

/* "at most 8 keys of each bucket and text", as the captures of a scope hold; "" where they have all
 * rows. */
qk__phrase qk__held_keys(const qk__scope *scope);
/* Adds to a finding about plasticity what the choice of keys adds to it, where there was one. */
void qk__tell_held_keys(qk__findings *findings, const qk__scope *scope);

/* ---- sentences -------------------------------------------------------------------------- */

/* Adds a finding, without a verdict until qk__verdict_is; sentences follow with qk__claim and
 * qk__evidence (one line each call). */
void qk__finding_begin(qk__findings *findings, const char *id, const char *topic);
void qk__finding_drop(qk__findings *findings); /* the last one: nothing was said of it */
void qk__verdict_is(qk__findings *findings, qk__verdict verdict);
void qk__claim(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void qk__evidence(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- tests ------------------------------------------------------------------------------ */

/* What is left of a test of the last finding after the correction. */
typedef struct qk__outcome {
    double p, adjusted; /* NaN: too little to test */
    int side;           /* 1, -1: it holds on that side; 0: it does not */
} qk__outcome;

/* Tests are gathered, and their outcomes told, in the order of the calls: it may depend on the results
 * alone, not on an outcome. */
qk__outcome qk__tested(qk__findings *findings, qk__test test);
/* "p = 0.0012, corrected 0.01"; "no p-value" */
qk__short_phrase qk__outcome_phrase(const qk__outcome *outcome);
qk__verdict qk__verdict_of(const qk__outcome *outcome);

/* Of a mean over units. Heads of a layer resemble each other as models do, only less: so with ten layers
 * of too few models the layers are looked at as well, and with enough models the groups of heads, since a
 * few models may agree by chance. The test is the less certain one of the two, and so is the interval of
 * groups and layers. counts: the numbers are shares of heads, or other counts. */
qk__estimate qk__estimate_units(const qk__units *units, bool share);
qk__test qk__test_units(const qk__units *units, double against, bool counts);

/* ---- questions -------------------------------------------------------------------------- */

/* Whether a mean over units lies above or below a number, and what is said then. */
typedef struct qk__question {
    const char *id, *topic;
    const char *field;       /* the mean is of this column; NULL: of `number` */
    qk__head_number *number; /* takes no argument */
    bool share;              /* of the share of heads whose column is above `above` */
    bool counts;             /* `number` is a count, which is tested as a share is */
    double above, against;
    /* Claims by outcome; '@' becomes the place that qk__where names. */
    const char *higher, *lower, *either, *too_few;
    bool both_ways; /* the claim is that there is something, on whichever side */
} qk__question;

typedef struct qk__answer {
    size_t heads, positive; /* as of qk__units */
    double mean;            /* likewise */
    qk__estimate estimate;  /* of the mean over units */
    qk__phrase how_many;    /* qk__how_many */
    qk__phrase measured;    /* qk__mean_phrase */
    qk__short_phrase p;     /* qk__outcome_phrase */
} qk__answer;

/* Begins the finding and makes its claim; evidence follows. False: no head has the number, and
 * nothing is said. */
bool qk__ask(qk__findings *findings, const qk__scope *scope, const qk__question *question,
             qk__answer *answer);
/* Makes a claim of such wordings. */
void qk__claim_by(qk__findings *findings, const qk__question *question, qk__verdict verdict,
                  const char *where);

/* ---- relations -------------------------------------------------------------------------- */

/* How two numbers of heads go together within models: heads of a model are compared with each other
 * only, whatever sets models apart. */
typedef struct qk__relation {
    size_t heads, models; /* that have both */
    double units;         /* models, or groups of heads less the models' own means */
    bool of_models;       /* three or more */
    double all;           /* r over all heads, models together */
    qk__estimate r;       /* within models: the mean over models, or of all that is left */
    qk__test test;
} qk__relation;

qk__relation qk__relate(qk__findings *findings, const qk__scope *scope, qk__head_number *x,
                        qk__head_number *y);
/* "r = 0.31 within models, 95 % interval ..., n = 11 models (3,239 heads); 0.28 over all heads" */
qk__phrase qk__relation_phrase(const qk__relation *relation);
/* As qk__ask, for whether they go together; question->number is not used. */
bool qk__ask_relation(qk__findings *findings, const qk__scope *scope,
                      const qk__question *question, qk__head_number *x, qk__head_number *y);

/* ---- families of findings --------------------------------------------------------------- */

void qk__findings_pca(qk__findings *findings, const qk__results *results);
void qk__findings_rotation(qk__findings *findings, const qk__results *results);
void qk__findings_plasticity(qk__findings *findings, const qk__results *results);
void qk__findings_scores(qk__findings *findings, const qk__results *results,
                         const qk__score_choice *scores);
void qk__findings_depth(qk__findings *findings, const qk__results *results);
void qk__findings_stages(qk__findings *findings, const qk__results *results);
void qk__findings_training(qk__findings *findings, const qk__results *results);

#endif
