/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers of tokenizer.json: cutting a normalized text into the pieces ("words") that
 * the model sees one by one. */
#ifndef QK_TOKENIZER_PRETOKENIZE_H
#define QK_TOKENIZER_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/status.h>

#include "base/buffer.h"
#include "tokenizer/checked_json.h"
#include "tokenizer/regex.h"

/* What becomes of the matches that a text is cut at. */
typedef enum qk_cut {
    QK__CUT_REMOVED,
    QK__CUT_ISOLATED,
    QK__CUT_WITH_PREVIOUS,
    QK__CUT_WITH_NEXT,
    QK__CUT_CONTIGUOUS,
} qk_cut;

typedef enum qk_cutter_kind {
    QK__CUTTER_SPLIT,     /* at a pattern */
    QK__CUTTER_CLASS,     /* at characters of a class */
    QK__CUTTER_WORDS,     /* into runs of word characters and runs of signs */
    QK__CUTTER_SPACE,     /* puts a space before each piece that has none */
    QK__CUTTER_BYTES,     /* writes each byte as the character that stands for it */
    QK__CUTTER_METASPACE, /* marks spaces by a character, cuts there */
} qk_cutter_kind;

typedef enum qk_prepend { QK__PREPEND_ALWAYS, QK__PREPEND_FIRST, QK__PREPEND_NEVER } qk_prepend;

typedef struct qk_cutter {
    qk_cutter_kind kind;
    qk_cut cut;
    bool invert;            /* the matches are what lies between */
    qk_regex *regex;        /* SPLIT */
    bool (*in)(uint32_t c); /* CLASS */
    uint8_t mark[4];        /* METASPACE */
    size_t mark_length;
    qk_prepend prepend;
    bool split;
} qk_cutter;

/* Sequences are one list. */
typedef struct qk_cutters {
    qk_cutter *items;
    size_t count;
} qk_cutters;

/* part: "pre_tokenizer" of the file, NULL and null are none. On failure, too, released by
 * qk__cutters_free. */
QK_MUST_CHECK qk_status qk__cutters_load(qk_cutters *cutters, const json_t *part,
                                         qk_error *err);
void qk__cutters_free(qk_cutters *cutters);

typedef struct qk_piece {
    uint32_t start, end; /* bytes of the text; never empty */
} qk_piece;

typedef struct qk_pieces {
    qk_piece *items;
    size_t count, capacity;
} qk_pieces;

/* A text on its way: zero-initialise, release with qk__cutting_free, use again and again. */
typedef struct qk_cutting {
    qk_buffer text, other_text;
    qk_pieces pieces, other_pieces;
    bool at_start; /* the first piece begins where the whole text does */
} qk_cutting;
void qk__cutting_free(qk_cutting *cutting);

/* Cuts cutting->text, of at most UINT32_MAX / 8 bytes, which changes; the pieces are those of
 * cutting->pieces. */
QK_MUST_CHECK qk_status qk__cut(const qk_cutters *cutters, qk_regex_run *run,
                                qk_cutting *cutting, qk_error *err);

/* The characters that stand for bytes in byte-level vocabularies, as UTF-8 and its length. */
typedef struct qk_byte_character {
    uint8_t text[2];
    uint8_t length;
} qk_byte_character;
void qk__byte_characters(qk_byte_character table[256]);

#endif
