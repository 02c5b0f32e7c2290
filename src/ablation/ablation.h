/* SPDX-License-Identifier: Apache-2.0 */
/* Causal tests of heads, as their parts see them.
 *
 *     ablation.c     the order of events; it leads the others
 *     what.c         changes, from words
 *     head_groups.c  which heads are changed together, and random groups of as many
 *     screen.c       heads of groups of an earlier ablation that mattered
 *     profiles.c     what heads attend to, and put out, in the other texts
 *     group_texts.c  groups of texts that windows are of
 *     directions.c   directions of queries, from a capture
 *     measure.c      one text: its branches, and sums of what they lose
 *     effects.c      what the sums of all texts come to
 *     verdict.c      what an effect says of a change
 *     write.c        tables and manifest */
#ifndef QK_ABLATION_ABLATION_H
#define QK_ABLATION_ABLATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/ablate.h>
#include <qkscope/attention.h>

#include "base/buffer.h"
#include "work/place.h"
#include "recorder/recording.h"
#include "work/units.h"

enum {
    /* Sums of a text: by bin of the position, then of tokens whose pair of tokens was there before. */
    QK__ABLATION_CELLS = QK_DISTANCE_BINS + 1,
    QK__ABLATION_REPEATED = QK_DISTANCE_BINS,
    QK__ABLATION_GROUPS = 32, /* of texts */
    QK__MOST_WHATS = 64,
    /* Random groups, or directions: one or two others say nothing of how much such groups differ. */
    QK__LEAST_CONTROLS = 3,
};

/* A loss rises or falls for certain where the corrected p is at most this. */
#define QK__MOST_P 0.05

/* A change, without a head. */
typedef struct qk__what {
    char name[48]; /* in tables */
    qk_head_change_kind kind;
    bool keep_first, profile, mean;
    int64_t window, kept;     /* for a window */
    int64_t block;            /* for a shuffle */
    double shortest, longest; /* for a freeze: wavelengths; 0: thirds */
    int component;            /* for a direction: component of the PCA; -1: the axis of drift */
    bool next;                /* a later component without position, in its place */
    float part;
    int third,
        thirds; /* from the fastest; of the pairs that turn, `third` .. third + thirds - 1 */
} qk__what;

/* Heads that are changed together: layer * num_q_heads + head, ascending. */
typedef struct qk__head_group {
    char *name;
    const int *heads;
    size_t count;
    int draw; /* 0: asked for; 1 ..: a random group beside group `of` */
    size_t of;
    double possible; /* different random groups that could be drawn beside it */
    bool single;
} qk__head_group;

/* One branch of each text. */
typedef struct qk__trial {
    size_t what, group;
    int first_layer;
    int draw; /* for a direction: 0: asked for; 1 ..: a random direction */
} qk__trial;

/* Rows of a group of texts: for each head and bin of rows their number and the sums of their shares
 * (QK_PROFILE_SHARES). */
typedef struct qk__profile {
    double rows, shares[QK_PROFILE_SHARES];
} qk__profile;

/* Sums over the tokens of a text, in cells: of the unchanged text, and of each trial's differences. */
typedef struct qk__text_sums {
    double tokens[QK__ABLATION_CELLS], values[QK__ABLATION_CELLS];
    double
        changed; /* of a trial: tokens whose loss or drift is not that of the unchanged text */
} qk__text_sums; /* of a text: losses; of a trial: tokens are drifts, values are differences of losses */

/* What is taken out of a head's queries. */
typedef struct qk__direction {
    float *u; /* [head_dim] */
    float part;
} qk__direction;

typedef struct qk__ablation {
    const qk_ablation_settings *settings;
    qk_recorder_settings recorder; /* the recording's own */
    qk_recorder_outcome ignored;
    qk__recording recording;
    qk_ablation_outcome *outcome;
    qk__what whats[QK__MOST_WHATS];
    size_t num_whats;
    qk__buffer groups, trials, heads; /* qk__head_group, qk__trial, int */
    int32_t text_groups;
    qk__profile *profiles; /* [text_groups][heads][QK_DISTANCE_BINS]; NULL: not fitted */
    float *outputs; /* sums, [text_groups][heads][QK_DISTANCE_BINS][head_dim]; NULL: no mean */
    qk__direction *directions; /* [whats][1 + draws][heads]; NULL: no change needs them */
    size_t num_directions;
    size_t num_texts;       /* windows */
    uint32_t *window_group; /* [num_texts] */
    uint32_t *window_text;  /* [num_texts] the first of the texts that are equal to its own */
    uint32_t *text_group;
    double degrees; /* degrees of freedom of errors over groups of texts, by their tokens */
    const int64_t *lengths; /* [num_texts] tokens, from the recording */
    qk__text_sums *sums;    /* [num_texts][1 + trials], when all are there */
    char name[64];          /* of the run: a fingerprint of all that decides its sums */
    char *units;            /* folder of the units, which have so many texts each: */
    int64_t unit_texts, num_units;
    bool *there;         /* [num_units] */
    qk__unit unit;       /* being made */
    qk__hold place, run; /* the output folder, and the folder of the units */
    int end;             /* lock of the process that puts the units together; -1 */
    int64_t done, total; /* branches of this process */
    qk__file_set files;
} qk__ablation;

static inline qk__trial *qk__trials(const qk__ablation *a, size_t *count)
{
    *count = a->trials.size / sizeof(qk__trial);
    return (qk__trial *)(void *)a->trials.data;
}

static inline qk__head_group *qk__head_groups(const qk__ablation *a, size_t *count)
{
    *count = a->groups.size / sizeof(qk__head_group);
    return (qk__head_group *)(void *)a->groups.data;
}

/* what.c */
QK_MUST_CHECK qk_status qk__parse_whats(qk__ablation *a, qk_error *err);
/* Which pairs of a layer's rotation a freeze stops, [num_frequencies]. */
void qk__freeze_pairs(const qk__what *what, const qk_layer_facts *layer, bool *frozen);

/* head_groups.c: groups of heads, and trials */
QK_MUST_CHECK qk_status qk__plan_trials(qk__ablation *a, qk_error *err);

/* screen.c: [layers * query heads] */
QK_MUST_CHECK qk_status qk__screen_heads(const qk__ablation *a, bool *screened, qk_error *err);

/* profiles.c */
bool qk__needs_profiles(const qk__ablation *a);
QK_MUST_CHECK qk_status qk__check_profiles(const qk__ablation *a, qk_error *err);
QK_MUST_CHECK qk_status qk__fit_profiles(qk__ablation *a, qk_error *err);
/* For a head, over all groups of texts but one, [QK_DISTANCE_BINS][QK_PROFILE_SHARES]. */
void qk__profile_without(const qk__ablation *a, size_t head, uint32_t group, float *values);
/* The head's mean output over these groups, [QK_DISTANCE_BINS][head_dim]. */
void qk__output_without(const qk__ablation *a, size_t head, uint32_t group, float *values);

/* For runs that need the whole last layer: for what heads put out, and for the time it takes. */
qk_status qk__ignore_losses(void *user, const qk_prefill_losses *losses, qk_error *err);

/* group_texts.c: fills num_texts, lengths, window_group, window_text and text_groups. */
QK_MUST_CHECK qk_status qk__group_texts(qk__ablation *a, qk_error *err);

/* directions.c */
QK_MUST_CHECK qk_status qk__find_directions(qk__ablation *a, qk_error *err);
void qk__free_directions(qk__ablation *a);
qk__direction *qk__direction_of(const qk__ablation *a, size_t what, int draw, int head);

/* measure.c */
QK_MUST_CHECK qk_status qk__measure_text(qk__ablation *a, size_t number,
                                         const qk_tokens *tokens, qk__text_sums *sums,
                                         qk_error *err);
int64_t qk__branches_at_once(const qk__ablation *a, int64_t tokens);

/* effects.c */
QK_MUST_CHECK qk_status qk__find_effects(qk__ablation *a, qk_error *err);

/* write.c */
extern const char *const qk__ablation_tables[4];
QK_MUST_CHECK qk_status qk__ablation_write(qk__ablation *a, qk_error *err);

#endif
