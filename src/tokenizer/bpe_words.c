/* SPDX-License-Identifier: Apache-2.0 */
/* Words to ids: characters to symbols, merging, and a memory for words that come again. */
#include "tokenizer/bpe_words.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/bpe_merge.h"

enum { MAX_KNOWN_BYTES = 64, FIRST_KNOWN = 1 << 10, MAX_KNOWN = 1 << 18 };

/* A word (or, where that makes a difference, a part of one) and its ids, which stand further up
 * in the output. */
typedef struct known_word {
    uint32_t hash;
    uint32_t text;   /* in qk__bpe_run.texts */
    uint16_t length; /* 0: empty */
    uint16_t count;
    uint32_t first; /* in qk__bpe_run.ids */
} known_word;

struct qk__bpe_run {
    const qk__bpe *bpe;
    int32_t *ids;
    size_t count, capacity;
    qk__merger merger;
    known_word *known;
    size_t num_known, known_mask;
    qk__buffer texts;
};

qk_status qk__bpe_run_new(qk__bpe_run **run, const qk__bpe *bpe, qk_error *err)
{
    qk__bpe_run *r = *run = qk__calloc(1, sizeof *r);
    if (!r)
        return qk__nomem(err);
    r->bpe = bpe;
    r->known = qk__calloc(FIRST_KNOWN, sizeof *r->known);
    r->known_mask = FIRST_KNOWN - 1;
    return r->known ? QK_OK : qk__nomem(err);
}

void qk__bpe_run_free(qk__bpe_run *run)
{
    if (!run)
        return;
    free(run->ids);
    free(run->merger.symbols);
    free(run->merger.heap);
    free(run->known);
    qk__buffer_free(&run->texts);
    free(run);
}

const int32_t *qk__bpe_ids(const qk__bpe_run *run, size_t *count)
{
    *count = run->count;
    return run->ids;
}

static qk_status reserve_ids(qk__bpe_run *run, size_t more, qk_error *err)
{
    if (run->capacity - run->count >= more)
        return QK_OK;
    size_t capacity = run->capacity + run->capacity / 2 + more + 256;
    if (capacity > UINT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "more than 4294967295 tokens");
    int32_t *ids = realloc(run->ids, capacity * sizeof *ids);
    if (!ids)
        return qk__nomem(err);
    run->ids = ids;
    run->capacity = capacity;
    return QK_OK;
}

qk_status qk__bpe_id(qk__bpe_run *run, int32_t id, qk_error *err)
{
    QK_TRY(reserve_ids(run, 1, err));
    run->ids[run->count++] = id;
    return QK_OK;
}

/* ---- words seen before ------------------------------------------------------------------ */

/* Of a word that is too long to be remembered it does not matter. */
static uint32_t hash_word(const uint8_t *word, size_t size, bool part)
{
    return size <= MAX_KNOWN_BYTES ? (uint32_t)XXH3_64bits_withSeed(word, size, part) : 0;
}

/* Where the word is, or the empty place where it would be. */
static known_word *find_known(const qk__bpe_run *run, uint32_t hash, const uint8_t *word,
                              size_t size)
{
    for (size_t i = hash & run->known_mask;; i = (i + 1) & run->known_mask) {
        known_word *k = &run->known[i];
        if (k->length == 0 || (k->hash == hash && k->length == size &&
                               memcmp(run->texts.data + k->text, word, size) == 0))
            return k;
    }
}

static qk_status grow_known(qk__bpe_run *run, qk_error *err)
{
    size_t old = run->known_mask + 1;
    known_word *words = run->known, *grown = qk__calloc(2 * old, sizeof *grown);
    if (!grown)
        return qk__nomem(err);
    run->known_mask = 2 * old - 1;
    for (size_t i = 0; i < old; i++) {
        size_t j = words[i].hash & run->known_mask;
        if (words[i].length == 0)
            continue;
        while (grown[j].length != 0)
            j = (j + 1) & run->known_mask;
        grown[j] = words[i];
    }
    run->known = grown;
    free(words);
    return QK_OK;
}

/* Remembers that the ids from `first` on are those of the word. */
static qk_status remember(qk__bpe_run *run, uint32_t hash, const uint8_t *word, size_t size,
                          size_t first, qk_error *err)
{
    if (size == 0 || size > MAX_KNOWN_BYTES || run->num_known == MAX_KNOWN)
        return QK_OK;
    if (2 * run->num_known > run->known_mask)
        QK_TRY(grow_known(run, err));
    known_word *k = find_known(run, hash, word, size);
    if (k->length != 0)
        return QK_OK;
    size_t text = run->texts.size;
    QK_TRY(qk__buffer_append(&run->texts, word, size, err));
    *k = (known_word){hash, (uint32_t)text, (uint16_t)size, (uint16_t)(run->count - first),
                      (uint32_t)first};
    run->num_known++;
    return QK_OK;
}

/* Appends the ids of a word seen before; false: it is new. */
static qk_status recall(qk__bpe_run *run, uint32_t hash, const uint8_t *word, size_t size,
                        bool *seen, qk_error *err)
{
    const known_word *k =
        size > 0 && size <= MAX_KNOWN_BYTES ? find_known(run, hash, word, size) : NULL;
    *seen = k && k->length != 0;
    if (!*seen || k->count == 0) /* all of it may have vanished */
        return QK_OK;
    QK_TRY(reserve_ids(run, k->count, err));
    memcpy(run->ids + run->count, run->ids + k->first, k->count * sizeof *run->ids);
    run->count += k->count;
    return QK_OK;
}

/* ---- symbols ---------------------------------------------------------------------------- */

static qk_status add_symbol(qk__merger *m, int32_t id, qk_error *err)
{
    if (m->count == m->capacity) {
        qk__symbol *symbols = qk__grow(m->symbols, &m->capacity, sizeof *symbols);
        if (!symbols)
            return qk__nomem(err);
        m->symbols = symbols;
    }
    uint32_t i = (uint32_t)m->count++;
    m->symbols[i] = (qk__symbol){id, i > 0 ? i - 1 : QK__NO_SYMBOL, QK__NO_SYMBOL};
    if (i > 0)
        m->symbols[i - 1].next = i;
    return QK_OK;
}

/* Merges the symbols collected, which are those of text, and appends their ids. */
static qk_status finish_part(qk__bpe_run *run, const uint8_t *text, size_t size, qk_error *err)
{
    qk__merger *m = &run->merger;
    size_t first = run->count;
    bool seen;
    uint32_t hash = hash_word(text, size, run->bpe->ignore_merges);
    QK_TRY(recall(run, hash, text, size, &seen, err));
    if (!seen) {
        QK_TRY(qk__bpe_merge_all(run->bpe, m, err));
        QK_TRY(reserve_ids(run, m->count, err));
        for (size_t i = 0; i < m->count; i++)
            if (m->symbols[i].id >= 0)
                run->ids[run->count++] = m->symbols[i].id;
        QK_TRY(remember(run, hash, text, size, first, err));
    }
    m->count = 0;
    return QK_OK;
}

/* The unknown token waits until the next character that is known (or unknown, too), even when
 * tokens of single bytes come in between. */
static qk_status add_unknown(qk__bpe_run *run, bool *waiting, qk_error *err)
{
    const qk__bpe *bpe = run->bpe;
    if (!bpe->unknown_text)
        return QK_OK; /* the character vanishes */
    if (bpe->unknown < 0)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "the text has a character without a token, and model.unk_token \"%.60s\" "
            "is not in model.vocab",
            bpe->unknown_text);
    if (*waiting && !bpe->fuse_unknown)
        QK_TRY(add_symbol(&run->merger, bpe->unknown, err));
    *waiting = true;
    return QK_OK;
}

static qk_status add_character(qk__bpe_run *run, int32_t id, const uint8_t *text, size_t length,
                               bool *waiting, qk_error *err)
{
    const qk__bpe *bpe = run->bpe;
    bool bytes = true;
    if (id >= 0) {
        if (*waiting)
            QK_TRY(add_symbol(&run->merger, bpe->unknown, err));
        *waiting = false;
        return add_symbol(&run->merger, id, err);
    }
    for (size_t i = 0; i < length; i++)
        bytes = bytes && bpe->bytes[text[i]] >= 0;
    if (!bytes)
        return add_unknown(run, waiting, err);
    for (size_t i = 0; i < length; i++)
        QK_TRY(add_symbol(&run->merger, bpe->bytes[text[i]], err));
    return QK_OK;
}

/* ---- words ------------------------------------------------------------------------------ */

/* The word in parts that no merge can join. */
static qk_status encode_parts(qk__bpe_run *run, const uint8_t *word, size_t size, qk_error *err)
{
    const qk__bpe *bpe = run->bpe;
    size_t start = 0, length;
    int32_t before = -1; /* the last symbol; -1: not to be cut after */
    bool waiting = false;
    for (size_t i = 0; i < size; i += length) {
        uint32_t c = qk__utf8_read(word + i, &length);
        int32_t id = qk__bpe_character(bpe, c, word + i, length);
        int32_t first = id >= 0 || !bpe->every_byte ? id : bpe->bytes[word[i]];
        if (before >= 0 && first >= 0 && !qk__bpe_may_join(bpe, before, first)) {
            QK_TRY(finish_part(run, word + start, i - start, err));
            start = i;
        }
        QK_TRY(add_character(run, id, word + i, length, &waiting, err));
        before = id >= 0 || !bpe->every_byte ? id : bpe->bytes[word[i + length - 1]];
    }
    if (waiting)
        QK_TRY(add_symbol(&run->merger, bpe->unknown, err));
    return finish_part(run, word + start, size - start, err);
}

qk_status qk__bpe_word(qk__bpe_run *run, const uint8_t *word, size_t size, qk_error *err)
{
    size_t first = run->count;
    bool seen;
    uint32_t hash = hash_word(word, size, false);
    QK_TRY(recall(run, hash, word, size, &seen, err));
    if (seen)
        return QK_OK;
    int32_t id = run->bpe->ignore_merges ? qk__vocab_find(&run->bpe->vocab, word, size) : -1;
    if (id >= 0)
        QK_TRY(qk__bpe_id(run, id, err));
    else
        QK_TRY(encode_parts(run, word, size, err));
    return remember(run, hash, word, size, first, err);
}
