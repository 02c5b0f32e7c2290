/* SPDX-License-Identifier: Apache-2.0 */
/* What the findings share: which heads a claim is about, its units, phrases, tests, and questions that
 * several ask alike.
 *
 *     significance.c  intervals and tests
 *     claim_units.c   heads of a claim, one number per unit
 *     evidence.c      sentences, what is tested, questions; uses those above
 *     relation.c      correlations over heads; uses all of these
 *     contrast.c      kinds of heads against each other; likewise
 *     findings_pca.c, findings_rotation.c, findings_plasticity.c, findings_attention.c,
 *     findings_scores.c, findings_depth.c, findings_stages.c, findings_training.c (with curve.c)
 *                     the findings of a topic; findings.c calls them */
#ifndef QK_REPORT_EVIDENCE_H
#define QK_REPORT_EVIDENCE_H

#include <stdbool.h>

#include <qkscope/analysis.h>

#include "report/claim_units.h"
#include "report/finding.h"
#include "report/significance.h"
#include "report/words.h"

/* A claim holds when its corrected p-value is at most this. */
#define QK__LEVEL 0.05

/* ---- findings --------------------------------------------------------------------------- */

/* The rows of findings.def. */
typedef enum qk__finding_name {
#define FINDING(name, ...) QK__##name,
#include "report/findings.def"
    QK__NUM_FINDINGS,
} qk__finding_name;

/* Adds a finding, without a verdict until qk__conclude or qk__verdict_is; sentences follow with qk__claim
 * and qk__evidence (one line each call), by formats of qk__words. */
void qk__finding_begin(qk__findings *findings, qk__finding_name name);
void qk__finding_drop(qk__findings *findings); /* the last one: nothing was said of it */
void qk__verdict_is(qk__findings *findings, qk__verdict verdict);
void qk__claim(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void qk__evidence(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The verdict, and the row's words for it: QK__SUPPORTED has those of `higher`, QK__OPPOSITE those of
 * `lower`. */
void qk__conclude(qk__findings *findings, qk__finding_name name, qk__verdict verdict,
                  const char *where, const char *what);

/* ---- tests ------------------------------------------------------------------------------ */

/* What is left of a test of the last finding after the correction. */
typedef struct qk__outcome {
    double p, adjusted; /* NaN: too little to test */
    int side;           /* 1, -1: it holds on that side; 0: it does not */
    qk__phrase text;    /* "p = 0.0012, corrected 0.01"; "no p-value" */
} qk__outcome;

/* Tests are gathered, and their outcomes told, in the order of the calls: it may depend on the results
 * alone, not on an outcome. effect: how large that is which was tested (qk__finding), with its sign or without; it
 * counts where the test holds. */
qk__outcome qk__tested(qk__findings *findings, qk__test test, double effect);
qk__verdict qk__verdict_of(const qk__outcome *outcome);

/* Of a mean over units. Heads of a layer, and neighbouring layers, resemble each other: so of too few models the
 * layers are looked at as well, and with enough models the groups of heads, since a few models may agree
 * by chance. The test is the less certain one of the two, and so is the interval of groups and layers. counts: the numbers are shares of heads, or other counts. */
qk__estimate qk__estimate_units(const qk__units *units, bool share);
qk__test qk__test_units(const qk__units *units, double against, bool counts);

/* ---- phrases ---------------------------------------------------------------------------- */

/* "across 11 models", "in NAME", "in these 2 models", "at the last checkpoint, NAME". */
qk__phrase qk__where(const qk__scope *scope, const qk__units *units);
/* "n = 11 models (3,239 heads)", "n = 10 groups of heads that share keys (20 heads)". */
qk__phrase qk__how_many(const qk__units *units);
/* "95 % interval 0.12 to 0.31"; "no interval" without one. */
qk__phrase qk__interval(const qk__estimate *estimate);
qk__phrase qk__interval_percent(const qk__estimate *estimate);
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
/* The same of what is counted: number is qk__field_number or qk__field_size. */
qk__phrase qk__noun_of(const char *name, qk__head_number *number);

/* "at most 8 keys of each bucket and text", as the captures of a scope hold; "" where they have all
 * rows. */
qk__phrase qk__held_keys(const qk__scope *scope);
/* Adds to a finding about plasticity what the choice of keys adds to it, where there was one. */
void qk__tell_held_keys(qk__findings *findings, const qk__scope *scope);

/* ---- questions -------------------------------------------------------------------------- */

/* Whether a mean over units lies above or below a number. */
typedef struct qk__question {
    qk__finding_name name;
    const char *field;       /* the mean is of this column; NULL: of `number` */
    qk__head_number *number; /* takes no argument */
    bool share;              /* of the share of heads whose column is above `above` */
    bool counts;             /* `number` is a count, which is tested as a share is */
    double above, against;
} qk__question;

typedef struct qk__answer {
    size_t heads, positive; /* as of qk__units */
    double mean;            /* likewise */
    qk__estimate estimate;  /* of the mean over units */
    qk__phrase how_many;    /* qk__how_many */
    qk__phrase measured;    /* qk__mean_phrase */
    qk__phrase p;           /* of qk__outcome */
} qk__answer;

/* Begins the finding and makes its claim; evidence follows. False: no head has the number, and
 * nothing is said. */
bool qk__ask(qk__findings *findings, const qk__scope *scope, const qk__question *question,
             qk__answer *answer);
/* The same, evidence and all, of whether a column, said as `what`, is above 0 in more than half of the heads. */
void qk__ask_side(qk__findings *findings, const qk__scope *scope, qk__finding_name name,
                  const char *field, const char *what);

/* ---- relations -------------------------------------------------------------------------- */

/* How two numbers of heads go together within models: heads of a model are compared with each other
 * only, whatever sets models apart. */
typedef struct qk__relation {
    size_t heads, models; /* that have both */
    double units;         /* models, or groups of heads less the layers' own means */
    bool of_models;       /* three or more */
    double all;           /* r over all heads, models together */
    qk__estimate r;       /* the mean over models, each within itself; or within layers */
    qk__test test;
} qk__relation;

/* By their names in the schema, or as numbers without an argument. */
typedef struct qk__two_numbers {
    const char *x, *y;
    qk__head_number *number_x, *number_y;
} qk__two_numbers;

qk__relation qk__relate(qk__findings *findings, const qk__scope *scope,
                        const qk__two_numbers *of);
/* "r = 0.31 within models, 95 % interval ..., n = 11 models (3,239 heads); 0.28 over all heads" */
qk__phrase qk__relation_phrase(const qk__relation *relation);
/* As qk__ask, for whether they go together. */
bool qk__ask_relation(qk__findings *findings, const qk__scope *scope, qk__finding_name name,
                      const qk__two_numbers *of);

/* ---- kinds of heads --------------------------------------------------------------------- */

/* Whether heads of one kind have more of a number than those of another. */
typedef struct qk__kinds_question {
    qk__finding_name name;
    const char *field;
    qk_category more, less;
} qk__kinds_question;

/* As qk__ask, evidence and all: means by kind, the difference with its interval, and its test. */
void qk__ask_kinds(qk__findings *findings, const qk__scope *scope,
                   const qk__kinds_question *question);

/* ---- families of findings --------------------------------------------------------------- */

typedef void qk__topic_fn(qk__findings *findings, const qk__results *results);
qk__topic_fn qk__findings_pca, qk__findings_rotation, qk__findings_plasticity,
    qk__findings_attention, qk__findings_scores, qk__findings_depth, qk__findings_stages,
    qk__findings_training;

#endif
