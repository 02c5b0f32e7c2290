/* SPDX-License-Identifier: Apache-2.0 */
/* The lengths of texts, in manifests, tables and words; and whether two lengths are too different to compare. */
#ifndef QK_TABLES_TEXT_LENGTHS_H
#define QK_TABLES_TEXT_LENGTHS_H

#include <jansson.h>
#include <qkscope/analysis.h>
#include <stdbool.h>
#include <stddef.h>

/* All NaN. */
extern const qk_text_lengths qk__no_lengths;

/* The numbers by their names in manifests and in models.csv. */
typedef struct qk__length_member {
    const char *name;
    size_t at;
} qk__length_member;
enum { QK__NUM_LENGTHS = 6 };
extern const qk__length_member qk__length_members[QK__NUM_LENGTHS];
double *qk__length_of(qk_text_lengths *lengths, size_t member);

/* The lengths as an object, NULL where memory ran out; and from it, NaN where it has no such number. */
json_t *qk__lengths_to_json(const qk_text_lengths *lengths);
qk_text_lengths qk__lengths_of_json(const json_t *object);

/* Whether the lengths of some of several models differ too much; and the lengths of all in words: from the shortest to
 * the longest, and whether they differ. */
bool qk__lengths_unlike(const qk_text_lengths *each, size_t count);
const char *qk__lengths_of_all(const qk_text_lengths *each, size_t count,
                               char text[QK_LENGTHS_SIZE]);
/* Whether the medians or the longest texts differ by more than a tenth of the smaller: a text spreads positions by the
 * cube of its length, so a few long texts decide r. What is not known differs from nothing. */
bool qk__lengths_differ(const qk_text_lengths *a, const qk_text_lengths *b);
/* The tokens that tell one from the other: the median, else the longest text; NaN. */
double qk__length_shown(const qk_text_lengths *lengths, const qk_text_lengths *other);

#endif
