/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokens' keys take a head's attention beyond the first key of a text, as the rows that are here predict it, and
 * which keys lie far from the mean. docs/behaviour.md#tokens */
#ifndef QK_STATS_TOKEN_LISTS_H
#define QK_STATS_TOKEN_LISTS_H

#include <qkscope/attention.h>
#include <qkscope/stats.h>

/* Strings of tokens by number: string i begins at bytes + at[i], and a zero ends it. */
typedef struct qk__token_names {
    size_t count;
    const char *bytes;
    const uint32_t *at;
} qk__token_names;

/* What all query heads of a group need of their keys. Zeros may be freed. */
typedef struct qk__token_keys {
    const qk_block *keys;
    const int64_t *token; /* [keys->rows]; -1: none */
    qk__token_names names;
    uint32_t *order; /* [keys->rows] by example and position */
    size_t num_examples, *start;
    uint64_t *text;                        /* [num_examples] that each is of */
    bool knows_first;                      /* key 0 is known, of the texts that count */
    bool is_whole;                         /* the keys are all of their texts */
    int64_t *keys_of;                      /* [names.count] beyond key 0 */
    qk_listed_token far[QK_TOKENS_LISTED]; /* their tokens are those of names */
    size_t num_far;
} qk__token_keys;

/* texts: that the keys' examples are of. Keys and tokens must stay. */
QK_MUST_CHECK qk_status qk__token_keys_create(qk__token_keys *of, const qk_block *keys,
                                              const int64_t *texts, const int64_t *token,
                                              qk__token_names names, const qk_moments *moments,
                                              qk_error *err);
void qk__token_keys_free(qk__token_keys *of);

/* Groups of texts to leave out in turn, for intervals; count 0: there are none. */
typedef struct qk__token_groups {
    uint32_t count;
    const uint32_t *of_key; /* [keys->rows] */
    double level;           /* of the intervals (0..1) */
} qk__token_groups;

/* The lists of a query head. scale: of scores; 0: nothing is predicted of attention. Some of many queries count. */
QK_MUST_CHECK qk_status qk__tokens_list(const qk__token_keys *of, const qk_block *queries,
                                        double scale, const qk__token_groups *groups,
                                        qk_head_tokens **tokens, qk_error *err);
void qk__tokens_free(qk_head_tokens **tokens);

#endif
