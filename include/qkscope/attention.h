/* SPDX-License-Identifier: Apache-2.0 */
/* What heads attend to: sums over rows of attention, from which every number about attention follows.
 * docs/behaviour.md#attention has the definitions, with their sources. */
#ifndef QKSCOPE_ATTENTION_H
#define QKSCOPE_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

QK_BEGIN_DECLS

/* Row i has weights a_j for the keys j <= i that the query sees. They add up to 1, or to less where a part goes to no
 * key. The distance of a key is D = i - j. */

/* Distances, and positions of rows, in bins that double: 0, 1, 2-3, 4-7, ...; the last bin has all that is further. */
enum { QK_DISTANCE_BINS = 22 };
QK_API int qk_distance_bin(int64_t distance);

/* Keys 0 .. QK_SINK_KEYS - 1 are where attention goes that has nothing to do. They are kept apart from distances; and
 * rows at positions below QK_FAR_POSITION say nothing about distance. */
enum { QK_SINK_KEYS = 4, QK_FAR_POSITION = 8 };

/* What is summed of a row. Where a row stands for w rows of its text (one of each w was drawn), each term is multiplied by
 * w. */
typedef enum qk_attention_sum {
    QK_ATTENTION_ROWS,     /* 1 */
    QK_ATTENTION_SINK,     /* a_0 */
    QK_ATTENTION_FIRST,    /* a_0 + .. + a_3 */
    QK_ATTENTION_SELF,     /* a_i */
    QK_ATTENTION_PREVIOUS, /* a_(i-1); 0 in row 0, or where it is not seen */
    QK_ATTENTION_NO_KEY,   /* 1 - sum of all a_j */
    QK_ATTENTION_ENTROPY,  /* - sum a_j ln a_j, nats */
    QK_ATTENTION_VISIBLE,  /* ln of the number of keys seen */
    /* Tokens t: earlier copies of the row's token, t_j = t_i and j < i; and what followed them, t_(j-1) = t_i
     * and 1 <= j <= i. Only those that the query sees. */
    QK_ATTENTION_DUPLICATE_ROWS,    /* 1 where there is such a key */
    QK_ATTENTION_DUPLICATE,         /* their weights */
    QK_ATTENTION_DUPLICATE_UNIFORM, /* their share of the keys that are seen */
    QK_ATTENTION_INDUCTION_ROWS,
    QK_ATTENTION_INDUCTION,
    QK_ATTENTION_INDUCTION_UNIFORM,
    /* Rows from position 8 on: the n seen keys from key 4 on. w is their weight, m_b the weight of the keys in
     * bin b over w, n_b the number of these. Where w is 0, all but FAR_ROWS are 0. */
    QK_ATTENTION_FAR_ROWS,     /* 1 where n > 0 */
    QK_ATTENTION_FAR,          /* w */
    QK_ATTENTION_FAR_VISIBLE,  /* w ln n */
    QK_ATTENTION_FAR_ENTROPY,  /* w times the entropy of the a_j / w */
    QK_ATTENTION_FAR_DISTANCE, /* sum of a_j D */
    QK_ATTENTION_FAR_BINS,     /* w m_b */
    /* w in the bin of the largest distance that is seen */
    QK_ATTENTION_LAST_BINS = QK_ATTENTION_FAR_BINS + QK_DISTANCE_BINS,
    /* the largest score of a seen key, as the softmax takes it: scaled and capped */
    QK_ATTENTION_LOGIT = QK_ATTENTION_LAST_BINS + QK_DISTANCE_BINS,
    QK_ATTENTION_LOGIT_MAX, /* its maximum over the rows, not a sum */
    QK_ATTENTION_SUMS
} qk_attention_sum;

/* ---- numbers of a head ------------------------------------------------------------------ */

/* The share of the attention off keys 0 to 3 that a window must hold. */
#define QK_WINDOW_SHARE 0.99

/* Each is a ratio of such sums. Means are over all rows, unless stated. NaN where the divisor is 0. */
typedef enum qk_attention_number {
    QK_HEAD_SINK_MASS, /* on key 0 */
    QK_HEAD_SELF_MASS,
    QK_HEAD_PREVIOUS_MASS,
    QK_HEAD_NO_KEY_MASS,
    /* rows from position 8 on, keys 0 to 3 left out: distances 0 to 7, 64 and more */
    QK_HEAD_NEAR_MASS,
    QK_HEAD_FAR_MASS,
    /* rows with such a key; what uniform attention would give */
    QK_HEAD_DUPLICATE_MASS,
    QK_HEAD_DUPLICATE_UNIFORM,
    QK_HEAD_INDUCTION_MASS,
    QK_HEAD_INDUCTION_UNIFORM,
    QK_HEAD_NUM_SHARES,                       /* those above are shares, 0..1 */
    QK_HEAD_INFORMATION = QK_HEAD_NUM_SHARES, /* ln of the keys seen - entropy */
    /* keys 0 to 3 left out, the rest scaled to add up to 1, rows weighted by that rest */
    QK_HEAD_MEAN_DISTANCE,
    QK_HEAD_FAR_INFORMATION,
    /* The smallest window of 1, 2, 4, 8, ... keys, including the row's own, that holds QK_WINDOW_SHARE of it */
    QK_HEAD_WINDOW_99,
    /* Part of that information which a profile over distance has, fitted to the other groups of texts. NaN
     * with fewer than two groups, or less than 0.05 nats of information. */
    QK_HEAD_DISTANCE_SHARE,
    /* duplicate_mass, induction_mass less what uniform attention would give */
    QK_HEAD_DUPLICATE_EXCESS,
    QK_HEAD_INDUCTION_EXCESS,
    QK_HEAD_LOGIT, /* mean largest score of a row */
    QK_NUM_HEAD_NUMBERS
} qk_attention_number;

/* The names of heads. A head may have several names, or none. docs/behaviour.md#attention */
typedef enum qk_attention_name {
    QK_SINK_HEAD,
    QK_PREVIOUS_TOKEN_HEAD,
    QK_LOCAL_HEAD,
    QK_INDUCTION_HEAD,
    QK_DUPLICATE_TOKEN_HEAD,
    QK_UNIFORM_HEAD,
    QK_NUM_HEAD_NAMES
} qk_attention_name;
QK_API const char *qk_attention_name_text(qk_attention_name name); /* "previous-token" */

/* Mean attention of rows at positions row_first to row_last to keys at the distances of one bin; keys 0 to 3 left out,
 * the rest scaled to add up to 1. Predictions are NaN where there are none. */
typedef struct qk_attention_cell {
    int64_t row_first, row_last;
    int64_t distance_first, distance_last;
    double mass, uniform;
    double predicted_rotation, predicted_means;
    double rest;   /* mean mass of the rows off keys 0 to 3 */
    double weight; /* its sum over the rows, which weights these cells */
} qk_attention_cell;

typedef struct qk_attention {
    int64_t texts, rows;
    size_t groups; /* of texts, with rows */
    double value[QK_NUM_HEAD_NUMBERS];
    double lo[QK_NUM_HEAD_NUMBERS], hi[QK_NUM_HEAD_NUMBERS]; /* NaN: no interval */
    double logit_max; /* largest score of all rows; NaN: there are none */
    /* The probability that infinitely many texts would give the head this name; NaN with fewer than
     * QK_FEW_TEXTS groups. */
    double probability[QK_NUM_HEAD_NAMES];
    char names[64]; /* names with at least QK_CERTAIN, with spaces between */
    int64_t window; /* the most keys that a row sees, as far as the sums say; 0: no bound */
    /* The slope of ln(mass / uniform) over distance, by least squares with a constant for each row bucket,
     * cells weighted by their attention. */
    double distance_slope;
    /* How well a predicted profile fits the measured one, over cells: 1 - the sum of squared errors over that
     * of uniform attention; row buckets are weighted by their attention off keys 0 to 3. */
    double rotation_r2, means_r2;
    size_t num_profile;
    qk_attention_cell *profile;
} qk_attention;

/* Tokens of a head's keys, the first ones of two lists: "attended", of the largest share in the attention beyond key 0 that
 * the captured rows predict; "far", of the farthest key of each token from the mean key. "near" has one row without a
 * token, in place of "attended" where the nearest captured keys take too much. docs/behaviour.md#tokens */
enum { QK_TOKENS_LISTED = 10 };
typedef struct qk_listed_token {
    const char *list;
    int rank;       /* from 1 */
    char *token;    /* "": near, too */
    int64_t number; /* of the library's own */
    int64_t keys;   /* captured keys beyond key 0 that are of it, in the texts that count */
    int64_t queries, texts; /* that the list rests on; queries of far: QK_NO_EXAMPLE */
    const char *first_key;  /* "known", "unknown"; far: "" */
    double nearest; /* share of the nearest captured keys before the queries; far: NaN */
    /* attended, else NaN; lift: over what it would take if keys beyond key 0 took alike; lo, hi: NaN: no interval */
    double share, lift, lo, hi;
    int64_t position, example; /* far, else QK_NO_EXAMPLE */
    double distance;           /* over the root mean square of all keys; far, else NaN */
} qk_listed_token;
typedef struct qk_head_tokens {
    size_t count;
    qk_listed_token *items;
} qk_head_tokens;

QK_END_DECLS

#endif
