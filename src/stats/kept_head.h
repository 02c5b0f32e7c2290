/* SPDX-License-Identifier: Apache-2.0 */
/* What a run keeps of a head for a comparison with the same head elsewhere: its numbers without
 * each group of texts, and the leading axes of its queries and keys. */
#ifndef QK_STATS_KEPT_HEAD_H
#define QK_STATS_KEPT_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "stats/subspace.h"
#include "stats/text_groups.h"

/* The numbers that are computed again without each group of texts. */
typedef enum qk__repeated {
    QK__R_Q, /* along fitted axes: cross_fit.h; of PC0 */
    QK__R_K,
    QK__R_Q_A, /* of a */
    QK__R_K_A,
    QK__ALPHA_Q,
    QK__ALPHA_K,
    QK__BIAS,
    QK__SEPARATION,
    QK__NUM_CROSSED,
    QK__AP = QK__NUM_CROSSED, /* along none */
    QK__AP_DROP,
    QK__NUM_REPEATED
} qk__repeated;
/* Their columns. */
extern const char *const qk__repeated_names[QK__NUM_REPEATED];

typedef struct qk__repetitions {
    uint32_t count; /* 0: there are none */
    uint64_t label[QK_INTERVAL_GROUPS];
    double without[QK_INTERVAL_GROUPS];
} qk__repetitions;

/* Of what the leading components are. */
typedef enum qk__space { QK__OF_BOTH, QK__OF_QUERIES, QK__OF_KEYS, QK__NUM_SPACES } qk__space;
extern const char *const qk__space_names[QK__NUM_SPACES]; /* "qk", "q", "k" */

typedef struct qk__leading {
    size_t count, dim; /* count 0: too few rows or no variance */
    double *axes;      /* [count][dim] orthonormal */
    double share;      /* of the variance, along all of them */
    double halves;     /* overlap of the two that half of the texts each give; NaN: not known */
} qk__leading;

typedef struct qk__kept_head {
    uint64_t mask;   /* the bits of an id that its label has */
    double degrees;  /* of freedom, of errors over its groups of texts */
    uint64_t ids[2]; /* hashes of the sets of ids of queries and of keys; 0: not known */
    qk__repetitions numbers[QK__NUM_REPEATED];
    qk__leading spaces[QK__NUM_SPACES];
} qk__kept_head;

void qk__kept_heads_free(qk__kept_head **heads, size_t count);

#endif
