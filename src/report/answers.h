/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to questions, a function for each kind, and what they share: outcomes of tests, sentences, phrases.
 *
 *     sample.c           the numbers of heads
 *     claim_units.c      one number per unit
 *     answers.c          outcomes and sentences
 *     answer_mean.c      means and shares beside a bound
 *     answer_groups.c    two groups of heads
 *     answer_relation.c  correlations over heads
 *     answer_depth.c, answer_training.c (with curve.c)  changes along a series
 *     findings.c         asks all questions */
#ifndef QK_REPORT_ANSWERS_H
#define QK_REPORT_ANSWERS_H

#include "report/finding.h"
#include "report/questions.h"
#include "report/claim_units.h"
#include "report/words.h"

/* A claim holds when its corrected p-value is at most this. */
#define QK__LEVEL 0.05

/* A test after the correction. */
typedef struct qk__outcome {
    double p, adjusted; /* NaN: too little to test */
    int side;           /* 1, -1: it holds on that side; 0: it does not */
    qk__phrase text;    /* "p = 0.0012, corrected 0.01"; "no p-value" */
} qk__outcome;

typedef struct qk__answer {
    bool any; /* false: no head has the numbers, and nothing was said */
    qk__outcome outcome;
    double size;      /* r over all heads together, of a relation */
    qk__phrase where; /* "across 11 models" */
    qk__phrase what;  /* what '$' stands for */
    bool told;        /* the claim is made, where it holds */
} qk__answer;

/* Adds tests and lines of evidence to the last finding. */
typedef qk__answer qk__ask(qk__findings *findings, const qk__question *question,
                           const qk__asked *asked);
qk__ask qk__ask_mean, qk__ask_first, qk__ask_groups, qk__ask_relation, qk__ask_depth,
    qk__ask_training;

/* Tests are gathered in the order of the calls, and their outcomes are said in the same order: so the order may depend
 * on the results, but not on an outcome. effect: how large the tested effect is (qk__finding), with or without its
 * sign; it counts where the test holds. */
qk__outcome qk__tested(qk__findings *findings, qk__test test, double effect);

/* ---- sentences and phrases --------------------------------------------------------------- */

/* Add one line to the last finding, by a format of qk__words. */
void qk__claim(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void qk__evidence(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "across 11 models", "in NAME", "in these 2 models", "at the last checkpoint, NAME". */
qk__phrase qk__where(const qk__asked *asked, const qk__units *units);
/* "n = 11 models (3,239 heads)", "n = 10 groups of heads that share keys (20 heads)". */
qk__phrase qk__how_many(const qk__units *units);
/* "95 % interval 0.12 to 0.31"; "no interval" without one. */
qk__phrase qk__interval(const qk__estimate *estimate);
/* "NAME: " before evidence about a family or model; else "". */
qk__phrase qk__of_name(const qk__asked *asked);

#endif
