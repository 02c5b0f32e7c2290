/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of texts: the units in which a capture is made, stopped, resumed and shared among processes.
 * A block is there whole or not at all, whoever else is at work. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

#define MAX_COUNT (INT64_C(1) << 48) /* more is a mistake, and sums of them fit 64 bits */

/* ---- what is there ---------------------------------------------------------------------- */

static bool take_count(const json_t *root, const char *key, int64_t *count)
{
    const json_t *value = json_object_get(root, key);
    *count = json_integer_value(value);
    return json_is_integer(value) && *count >= 0 && *count <= MAX_COUNT;
}

static bool take_counts(const json_t *root, const char *key, size_t parts, int64_t *counts)
{
    const json_t *list = json_object_get(root, key);
    if (json_array_size(list) != parts)
        return false;
    for (size_t i = 0; i < parts; i++) {
        counts[i] = json_integer_value(json_array_get(list, i));
        if (counts[i] < 0 || counts[i] > MAX_COUNT)
            return false;
    }
    return true;
}

static bool take_facts(const qk_sink *sink, int64_t number, const json_t *root,
                       qk__block_facts *facts)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    return take_count(root, "texts", &facts->texts) &&
           facts->texts == qk__block_size(sink, number) &&
           take_count(root, "tokens", &facts->tokens) &&
           take_counts(root, "rows", parts, facts->rows) &&
           take_counts(root, "stored", parts, facts->stored);
}

qk_status qk__block_fail(const qk_sink *sink, int64_t number, const char *why, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(number, name);
    return qk__fail(err, QK_ERR_MALFORMED,
                    "%s/%s: this block of the unfinished run is damaged: remove its folder and "
                    "run the command again, of shards the one that made it%s%s%s",
                    sink->units.path, name, why ? " (" : "", why ? why : "", why ? ")" : "");
}

qk_status qk__block_check(const qk_sink *sink, int64_t number, const char *file, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk_error why = {0};
    qk__block_name(number, name);
    qk_status status = qk__unit_check(&sink->units, name, file, &why);
    return status == QK_ERR_MALFORMED ? qk__block_fail(sink, number, why.message, err)
           : status != QK_OK          ? qk__fail(err, status, "%s", why.message)
                                      : QK_OK;
}

/* block.json of a finished block. */
static qk_status read_json(const qk_sink *sink, int64_t number, json_t **root, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    *root = NULL;
    QK_TRY(qk__block_check(sink, number, QK__BLOCK_FACTS, err));
    qk__block_name(number, name);
    char *path = qk__units_path(&sink->units, name, QK__BLOCK_FACTS);
    qk_status status =
        path ? qk__json_read_file(root, path, QK__JSON_RUN, err) : qk__nomem(err);
    free(path);
    return status == QK_ERR_MALFORMED ? qk__block_fail(sink, number, NULL, err) : status;
}

qk_status qk__block_read(const qk_sink *sink, int64_t number, qk__block_facts *facts,
                         qk_error *err)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    json_t *root;
    *facts = (qk__block_facts){.rows = qk__calloc(2 * parts, sizeof *facts->rows)};
    facts->stored = facts->rows ? facts->rows + parts : NULL;
    qk_status status = read_json(sink, number, &root, err);
    if (status == QK_OK && !facts->rows)
        status = qk__nomem(err);
    if (status == QK_OK && !take_facts(sink, number, root, facts))
        status = qk__block_fail(sink, number, NULL, err);
    if (status != QK_OK) {
        free(facts->rows);
        facts->rows = NULL;
    }
    json_decref(root);
    return status;
}

qk_status qk__blocks_look(qk_sink *sink, qk_error *err)
{
    qk__names names;
    qk_status status = qk__units_list(&sink->units, &names, err);
    sink->texts_before = sink->tokens_before = 0;
    for (int64_t b = 0; status == QK_OK && b < sink->num_blocks; b++) {
        char name[QK__UNIT_NAME_SIZE];
        qk__block_facts facts;
        qk__block_name(b, name);
        sink->there[b] = qk__names_have(&names, name);
        if (!sink->there[b])
            continue;
        status = qk__block_read(sink, b, &facts, err);
        sink->texts_before += facts.texts;
        sink->tokens_before += facts.tokens;
        free(facts.rows);
    }
    qk__names_free(&names);
    return status;
}
