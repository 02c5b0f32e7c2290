/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting texts into pieces. A cutter either cuts (the pieces change, the text stays) or
 * rewrites (the text changes, the pieces stay in number). */
#include "tokenizer/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/characters.h"

void qk__cutting_free(qk__cutting *cutting)
{
    qk__buffer_free(&cutting->text);
    qk__buffer_free(&cutting->other_text);
    free(cutting->pieces.items);
    free(cutting->other_pieces.items);
    *cutting = (qk__cutting){0};
}

static qk_status add_piece(qk__pieces *pieces, size_t start, size_t end, qk_error *err)
{
    if (start == end)
        return QK_OK;
    if (pieces->count == pieces->capacity) {
        qk__piece *items = qk__grow(pieces->items, &pieces->capacity, sizeof *items);
        if (!items)
            return qk__nomem(err);
        pieces->items = items;
    }
    pieces->items[pieces->count++] = (qk__piece){(uint32_t)start, (uint32_t)end};
    return QK_OK;
}

/* ---- cutting ---------------------------------------------------------------------------- */

/* Takes the spans of a piece, matches and what lies between, in order, and makes pieces of
 * them. The last one is kept back, as the next may join it. */
typedef struct joiner {
    qk__cut_behavior cut;
    bool invert;
    qk__pieces *out;
    size_t start, end;
    bool any, match; /* there is one kept back; it was a match */
} joiner;

static qk_status flush(joiner *j, qk_error *err)
{
    bool any = j->any;
    j->any = false;
    return any ? add_piece(j->out, j->start, j->end, err) : QK_OK;
}

/* Whether a span belongs to the one before it. */
static bool joins(const joiner *j, bool match)
{
    switch (j->cut) {
    case QK__CUT_WITH_PREVIOUS:
        return match && !j->match;
    case QK__CUT_WITH_NEXT:
        return !match && j->match;
    case QK__CUT_CONTIGUOUS:
        return match == j->match;
    default:
        return false;
    }
}

static qk_status take_span(joiner *j, size_t start, size_t end, bool match, qk_error *err)
{
    match ^= j->invert;
    if (j->cut == QK__CUT_REMOVED)
        return match ? QK_OK : add_piece(j->out, start, end, err);
    if (j->cut == QK__CUT_ISOLATED)
        return add_piece(j->out, start, end, err);
    if (j->any && joins(j, match)) {
        j->end = end;
    } else {
        QK_TRY(flush(j, err));
        j->start = start;
        j->end = end;
        j->any = true;
    }
    j->match = match;
    return QK_OK;
}

static qk_status cut_at_pattern(const qk__cutter *cutter, qk__regex_run *run,
                                const uint8_t *text, qk__piece piece, joiner *j, qk_error *err)
{
    qk__matches matches = {.regex = cutter->regex,
                           .run = run,
                           .text = text + piece.start,
                           .size = piece.end - piece.start};
    size_t start, end, done = 0, base = piece.start;
    bool found;
    for (;;) {
        QK_TRY(qk__matches_next(&matches, &found, &start, &end, err));
        if (!found)
            break;
        if (done != start)
            QK_TRY(take_span(j, base + done, base + start, false, err));
        QK_TRY(take_span(j, base + start, base + end, true, err));
        done = end;
    }
    return done < matches.size ? take_span(j, base + done, piece.end, false, err) : QK_OK;
}

static qk_status cut_at_class(bool (*in)(uint32_t c), const uint8_t *text, qk__piece piece,
                              joiner *j, qk_error *err)
{
    size_t length, done = piece.start;
    for (size_t i = piece.start; i < piece.end; i += length) {
        if (!in(qk__utf8_read(text + i, &length)))
            continue;
        if (done < i)
            QK_TRY(take_span(j, done, i, false, err));
        done = i + length;
        QK_TRY(take_span(j, i, done, true, err));
    }
    return done < piece.end ? take_span(j, done, piece.end, false, err) : QK_OK;
}

/* Runs of word characters and runs of signs; spaces vanish. */
static qk_status cut_words(const uint8_t *text, qk__piece piece, joiner *j, qk_error *err)
{
    enum { SPACE, WORD, SIGN } kind, last = SPACE;
    size_t length, start = piece.start;
    for (size_t i = piece.start; i < piece.end; i += length) {
        uint32_t c = qk__utf8_read(text + i, &length);
        kind = qk__is_word(c) ? WORD : qk__is_space(c) ? SPACE : SIGN;
        if (kind != last) {
            if (last != SPACE)
                QK_TRY(add_piece(j->out, start, i, err));
            start = i;
            last = kind;
        }
    }
    return last != SPACE ? add_piece(j->out, start, piece.end, err) : QK_OK;
}

/* Each mark begins a piece. */
static qk_status cut_at_marks(const qk__cutter *cutter, const uint8_t *text, qk__piece piece,
                              joiner *j, qk_error *err)
{
    size_t start = piece.start, length = cutter->mark_length;
    for (size_t i = piece.start; i < piece.end; i += qk__utf8_length(text + i)) {
        if (text[i] != cutter->mark[0] || piece.end - i < length ||
            memcmp(text + i, cutter->mark, length) != 0)
            continue;
        QK_TRY(add_piece(j->out, start, i, err));
        start = i;
    }
    return add_piece(j->out, start, piece.end, err);
}

static qk_status cut_pieces(const qk__cutter *cutter, qk__regex_run *run, qk__cutting *cutting,
                            qk_error *err)
{
    qk__pieces *in = &cutting->pieces, *out = &cutting->other_pieces;
    const uint8_t *text = cutting->text.data;
    out->count = 0;
    for (size_t i = 0; i < in->count; i++) {
        joiner j = {.cut = cutter->cut, .invert = cutter->invert, .out = out};
        if (cutter->kind == QK__CUTTER_SPLIT)
            QK_TRY(cut_at_pattern(cutter, run, text, in->items[i], &j, err));
        else if (cutter->kind == QK__CUTTER_CLASS)
            QK_TRY(cut_at_class(cutter->in, text, in->items[i], &j, err));
        else if (cutter->kind == QK__CUTTER_WORDS)
            QK_TRY(cut_words(text, in->items[i], &j, err));
        else
            QK_TRY(cut_at_marks(cutter, text, in->items[i], &j, err));
        QK_TRY(flush(&j, err));
    }
    if (out->count == 0 || out->items[0].start > 0)
        cutting->at_start = false;
    qk__pieces swap = *in;
    *in = *out;
    *out = swap;
    return QK_OK;
}

/* ---- rewriting -------------------------------------------------------------------------- */

/* The characters that stand for bytes in byte-level vocabularies, as UTF-8 and its length. */
typedef struct byte_character {
    uint8_t text[2];
    uint8_t length;
} byte_character;

/* Bytes without a printable character of their own get one from 256 on. */
static void list_byte_characters(byte_character table[256])
{
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool own = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        uint8_t text[4];
        table[b].length = (uint8_t)qk__utf8_write(own ? b : next++, text);
        memcpy(table[b].text, text, sizeof table[b].text);
    }
}

static qk_status write_bytes(const uint8_t *text, size_t size, const byte_character table[256],
                             qk__buffer *out, qk_error *err)
{
    QK_TRY(qk__buffer_reserve(out, out->size + 2 * size, err));
    uint8_t *p = out->data + out->size;
    for (size_t i = 0; i < size; i++) {
        const byte_character *c = &table[text[i]];
        p[0] = c->text[0];
        if (c->length == 2)
            p[1] = c->text[1];
        p += c->length;
    }
    out->size = (size_t)(p - out->data);
    return QK_OK;
}

static qk_status write_spaced(const uint8_t *text, size_t size, qk__buffer *out, qk_error *err)
{
    if (text[0] != ' ')
        QK_TRY(qk__buffer_append(out, " ", 1, err));
    return qk__buffer_append(out, text, size, err);
}

static qk_status write_marked(const qk__cutter *cutter, const uint8_t *text, size_t size,
                              bool at_start, qk__buffer *out, qk_error *err)
{
    size_t length = cutter->mark_length;
    bool marked = text[0] == ' ' || (size >= length && memcmp(text, cutter->mark, length) == 0);
    if (!marked && (cutter->prepend == QK__PREPEND_ALWAYS ||
                    (cutter->prepend == QK__PREPEND_FIRST && at_start)))
        QK_TRY(qk__buffer_append(out, cutter->mark, length, err));
    while (size > 0) {
        const uint8_t *space = memchr(text, ' ', size);
        size_t plain = space ? (size_t)(space - text) : size;
        QK_TRY(qk__buffer_append(out, text, plain, err));
        if (space)
            QK_TRY(qk__buffer_append(out, cutter->mark, length, err));
        text += plain + (space != NULL);
        size -= plain + (space != NULL);
    }
    return QK_OK;
}

static qk_status rewrite_pieces(const qk__cutter *cutter, qk__cutting *cutting, size_t limit,
                                qk_error *err)
{
    byte_character table[256];
    qk__buffer *out = &cutting->other_text;
    if (cutter->kind == QK__CUTTER_BYTES)
        list_byte_characters(table);
    out->size = 0;
    for (size_t i = 0; i < cutting->pieces.count; i++) {
        qk__piece *piece = &cutting->pieces.items[i];
        const uint8_t *text = cutting->text.data + piece->start;
        size_t size = piece->end - piece->start;
        piece->start = (uint32_t)out->size;
        if (cutter->kind == QK__CUTTER_BYTES)
            QK_TRY(write_bytes(text, size, table, out, err));
        else if (cutter->kind == QK__CUTTER_SPACE)
            QK_TRY(write_spaced(text, size, out, err));
        else
            QK_TRY(write_marked(cutter, text, size, cutting->at_start && i == 0, out, err));
        if (out->size > limit)
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "pre_tokenizer: it makes more than %zu bytes of a text", limit);
        piece->end = (uint32_t)out->size;
    }
    qk__buffer swap = cutting->text;
    cutting->text = *out;
    *out = swap;
    return QK_OK;
}

qk_status qk__cut(const qk__cutters *cutters, qk__regex_run *run, qk__cutting *cutting,
                  qk_error *err)
{
    size_t limit = qk__growth_limit(cutting->text.size);
    if (limit > UINT32_MAX / 2) /* pieces have places of 32 bits */
        limit = UINT32_MAX / 2;
    cutting->pieces.count = 0;
    QK_TRY(add_piece(&cutting->pieces, 0, cutting->text.size, err));
    for (size_t i = 0; i < cutters->count && cutting->pieces.count > 0; i++) {
        const qk__cutter *cutter = &cutters->items[i];
        bool rewrites = cutter->kind == QK__CUTTER_SPACE || cutter->kind == QK__CUTTER_BYTES ||
                        cutter->kind == QK__CUTTER_METASPACE;
        if (rewrites)
            QK_TRY(rewrite_pieces(cutter, cutting, limit, err));
        if (!rewrites || (cutter->kind == QK__CUTTER_METASPACE && cutter->split))
            QK_TRY(cut_pieces(cutter, run, cutting, err));
    }
    return QK_OK;
}
