/* SPDX-License-Identifier: Apache-2.0 */
/* Finished blocks of texts: which are there, and what they say of themselves. A block is a unit (work/units.h):
 *
 *     rows             of each text, layer, kind and stage: positions, tokens, vectors (parts.c)
 *     index            of each stage: where the regions of each part begin, then the regions
 *     examples         a line for each text: its number, and JSON
 *     sums             of each set, layer and kind: a part (state/part_store.c), and a list of where they are
 *     numbers          the head of the block, one line: texts, tokens, where all this lies, rows of each part */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "sink/sink.h"

#define MAX_COUNT                                                                              \
    (INT64_C(1) << 48) /* a larger number is a mistake; sums of these fit 64 bits */

qk_status qk__block_fail(const qk_sink *sink, int64_t number, const char *why, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(number, name);
    return qk__fail(err, QK_ERR_MALFORMED,
                    "%s/%s: this block of the unfinished run is damaged: remove it and run the "
                    "command again; with shards, the shard that made it%s%s%s",
                    sink->units, name, why ? " (" : "", why ? why : "", why ? ")" : "");
}

/* ---- its head --------------------------------------------------------------------------- */

static size_t count_numbers(const qk_sink *sink)
{
    return QK__BLOCK_NUMBERS + 4 * (size_t)sink->settings.num_layers;
}

qk_status qk__facts_create(const qk_sink *sink, qk__block_facts *facts, qk_error *err)
{
    facts->numbers = qk__calloc(count_numbers(sink), sizeof *facts->numbers);
    if (!facts->numbers)
        return qk__nomem(err);
    facts->rows = facts->numbers + QK__BLOCK_NUMBERS;
    facts->stored = facts->rows + 2 * sink->settings.num_layers;
    return QK_OK;
}

qk_status qk__facts_print(const qk_sink *sink, const qk__block_facts *facts, qk__buffer *line,
                          qk_error *err)
{
    for (size_t i = 0; i < count_numbers(sink); i++)
        QK_TRY(qk__buffer_printf(line, err, "%s%" PRId64, i > 0 ? " " : "", facts->numbers[i]));
    return QK_OK;
}

static bool take_numbers(const char *text, int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *end;
        numbers[i] = strtoll(text, &end, 10);
        if (end == text || numbers[i] < 0 || numbers[i] > MAX_COUNT)
            return false;
        text = end;
    }
    return *text == 0;
}

/* facts are to be freed in any case. */
static qk_status read_head(const qk_sink *sink, int64_t number, const qk__buffer *head,
                           qk__block_facts *facts, qk_error *err)
{
    QK_TRY(qk__facts_create(sink, facts, err));
    return take_numbers((const char *)head->data, facts->numbers, count_numbers(sink)) &&
                   facts->numbers[QK__BLOCK_TEXTS] == qk__block_size(sink, number)
               ? QK_OK
               : qk__block_fail(sink, number, NULL, err);
}

/* ---- which are there -------------------------------------------------------------------- */

static qk_status look_at(qk_sink *sink, int64_t number, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__buffer head = {0};
    qk__block_facts facts = {0};
    bool there;
    qk__block_name(number, name);
    qk_status status = qk__unit_look(sink->units, name, sink->fingerprint, &head, &there, err);
    sink->there[number] = there;
    if (status == QK_OK && there)
        status = read_head(sink, number, &head, &facts, err);
    if (status == QK_OK && there) {
        sink->texts_before += facts.numbers[QK__BLOCK_TEXTS];
        sink->tokens_before += facts.numbers[QK__BLOCK_TOKENS];
    }
    free(facts.numbers);
    qk__buffer_free(&head);
    return status;
}

qk_status qk__blocks_look(qk_sink *sink, qk_error *err)
{
    sink->texts_before = sink->tokens_before = 0;
    for (int64_t b = 0; b < sink->num_blocks; b++)
        QK_TRY(look_at(sink, b, err));
    return QK_OK;
}

/* ---- one -------------------------------------------------------------------------------- */

/* Whether all that the head names lies within the file: no size is believed without its bytes. */
static bool has_places(const qk__block *block)
{
    const int64_t *at = block->facts.numbers;
    bool all = at[QK__EXAMPLES_SIZE] <= block->bytes - at[QK__AT_EXAMPLES];
    for (int i = QK__AT_EXAMPLES; i < QK__BLOCK_NUMBERS; i++)
        all = all && at[i] <= block->bytes;
    return all;
}

qk_status qk__block_open(const qk_sink *sink, int64_t number, qk__block *block, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__buffer head = {0};
    qk_error why = {0};
    qk__block_name(number, name);
    qk_status status =
        qk__unit_open(sink->units, name, sink->fingerprint, &block->fd, &head, &why);
    if (status == QK_OK)
        status = qk__check_file(block->fd, &block->bytes, &why);
    if (status == QK_OK) {
        status = read_head(sink, number, &head, &block->facts, err);
        if (status == QK_OK && !has_places(block))
            status = qk__block_fail(sink, number, NULL, err);
    } else if (status == QK_ERR_MALFORMED) {
        status = qk__block_fail(sink, number, why.message, err);
    } else {
        status = qk__fail(err, status, "%s", why.message);
    }
    qk__buffer_free(&head);
    return status;
}

void qk__block_close(qk__block *block)
{
    if (block->fd >= 0)
        close(block->fd);
    free(block->facts.numbers);
    *block = (qk__block){.fd = -1};
}
