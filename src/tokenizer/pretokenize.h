/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers of tokenizer.json: cutting a normalized text into the pieces ("words") that
 * the model sees one by one. pretokenize_load.c reads them, pretokenize.c applies them. */
#ifndef QK_TOKENIZER_PRETOKENIZE_H
#define QK_TOKENIZER_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/buffer.h"
#include "base/tree.h"
#include "tokenizer/regex.h"

/* What becomes of the matches that a text is cut at. */
typedef enum qk__cut_behavior {
    QK__CUT_REMOVED,
    QK__CUT_ISOLATED,
    QK__CUT_WITH_PREVIOUS,
    QK__CUT_WITH_NEXT,
    QK__CUT_CONTIGUOUS,
} qk__cut_behavior;

typedef enum qk__cutter_kind {
    QK__CUTTER_SPLIT,     /* at a pattern */
    QK__CUTTER_CLASS,     /* at characters of a class */
    QK__CUTTER_WORDS,     /* into runs of word characters and runs of signs */
    QK__CUTTER_SPACE,     /* puts a space before each piece that has none */
    QK__CUTTER_BYTES,     /* writes each byte as the character that stands for it */
    QK__CUTTER_METASPACE, /* marks spaces by a character, cuts there */
} qk__cutter_kind;

typedef enum qk__prepend {
    QK__PREPEND_ALWAYS,
    QK__PREPEND_FIRST,
    QK__PREPEND_NEVER
} qk__prepend;

typedef struct qk__cutter {
    qk__cutter_kind kind;
    qk__cut_behavior cut;
    bool invert;            /* the matches are what lies between */
    qk__regex *regex;       /* SPLIT */
    bool (*in)(uint32_t c); /* CLASS */
    uint8_t mark[4];        /* METASPACE */
    size_t mark_length;
    qk__prepend prepend;
    bool split;
} qk__cutter;

/* Sequences are one list. */
typedef struct qk__cutters {
    qk__cutter items[64];
    size_t count;
} qk__cutters;

/* Fills a list of zeros. part: "pre_tokenizer" of the file, NULL and null are none. On failure,
 * too, released by qk__cutters_free. */
QK_MUST_CHECK qk_status qk__cutters_load(qk__cutters *cutters, const qk__node *part,
                                         qk_error *err);
void qk__cutters_free(qk__cutters *cutters);

typedef struct qk__piece {
    uint32_t start, end; /* bytes of the text; never empty */
} qk__piece;

typedef struct qk__pieces {
    qk__piece *items;
    size_t count, capacity;
} qk__pieces;

/* A text on its way: zero-initialise, release with qk__cutting_free, use again and again. */
typedef struct qk__cutting {
    qk__buffer text, other_text;
    qk__pieces pieces, other_pieces;
    bool at_start; /* the first piece begins where the whole text does */
} qk__cutting;
void qk__cutting_free(qk__cutting *cutting);

/* Cuts cutting->text, of at most UINT32_MAX / 8 bytes, which changes; the pieces are those of
 * cutting->pieces. */
QK_MUST_CHECK qk_status qk__cut(const qk__cutters *cutters, qk__regex_run *run,
                                qk__cutting *cutting, qk_error *err);

#endif
