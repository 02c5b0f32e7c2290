/* SPDX-License-Identifier: Apache-2.0 */
/* Finished blocks of texts: which are there, and what they say of themselves. A block is a unit (work/units.h):
 *
 *     rows             of each text, layer, kind and stage: positions, tokens, vectors (parts.c)
 *     index            of each stage: where the regions of each part begin, then the regions
 *     examples         a line for each text: its number, and JSON
 *     sums             of each tree, layer and kind: a part (state/part_store.c), and a list of where they are
 *     {...}            its head: texts, tokens, rows, and where all of this lies */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

#define MAX_COUNT (INT64_C(1) << 48) /* more is a mistake, and sums of them fit 64 bits */

qk_status qk__block_fail(const qk_sink *sink, int64_t number, const char *why, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(number, name);
    return qk__fail(err, QK_ERR_MALFORMED,
                    "%s/%s: this block of the unfinished run is damaged: remove it and run the "
                    "command again, of shards the one that made it%s%s%s",
                    sink->units, name, why ? " (" : "", why ? why : "", why ? ")" : "");
}

/* ---- its head --------------------------------------------------------------------------- */

static bool take_counts(const json_t *list, size_t count, int64_t *counts)
{
    if (json_array_size(list) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        counts[i] = json_integer_value(json_array_get(list, i));
        if (counts[i] < 0 || counts[i] > MAX_COUNT)
            return false;
    }
    return true;
}

static bool take_head(const qk_sink *sink, int64_t number, const json_t *root,
                      qk__block_facts *facts)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    int64_t counts[2] = {0};
    bool right = take_counts(json_object_get(root, "texts"), 2, counts) &&
                 counts[0] == qk__block_size(sink, number) &&
                 take_counts(json_object_get(root, "rows"), parts, facts->rows) &&
                 take_counts(json_object_get(root, "stored"), parts, facts->stored) &&
                 take_counts(json_object_get(root, "at"), QK__BLOCK_PLACES, facts->at);
    facts->texts = counts[0];
    facts->tokens = counts[1];
    return right;
}

static qk_status read_head(const qk_sink *sink, int64_t number, const qk__buffer *head,
                           qk__block_facts *facts, qk_error *err)
{
    json_t *root = NULL;
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    *facts = (qk__block_facts){.rows = qk__calloc(2 * parts, sizeof *facts->rows)};
    facts->stored = facts->rows ? facts->rows + parts : NULL;
    qk_status status = facts->rows ? qk__json_parse(&root, (const char *)head->data, head->size,
                                                    QK__JSON_RUN, NULL)
                                   : QK_ERR_NOMEM;
    if (status == QK_ERR_NOMEM)
        status = qk__nomem(err);
    else if (status != QK_OK || !take_head(sink, number, root, facts))
        status = qk__block_fail(sink, number, NULL, err);
    if (status != QK_OK) {
        free(facts->rows);
        facts->rows = NULL;
    }
    json_decref(root);
    return status;
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
    sink->texts_before += facts.texts;
    sink->tokens_before += facts.tokens;
    free(facts.rows);
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

/* Whether what it names can lie in its file: sizes are believed where bytes are there. */
static bool has_places(const qk__block *block)
{
    const int64_t *at = block->facts.at;
    bool all = at[QK__AT_LENGTH] <= block->bytes - at[QK__AT_EXAMPLES];
    for (int i = 0; i < QK__BLOCK_PLACES; i++)
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
    free(block->facts.rows);
    *block = (qk__block){.fd = -1};
}
