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

enum { MAX_FACTS_BYTES = 16 << 20 };
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
    const char *fingerprint = json_string_value(json_object_get(root, "fingerprint"));
    return fingerprint && strcmp(fingerprint, sink->fingerprint) == 0 &&
           take_count(root, "texts", &facts->texts) &&
           facts->texts == qk__block_size(sink, number) &&
           take_count(root, "tokens", &facts->tokens) &&
           take_counts(root, "rows", parts, facts->rows) &&
           take_counts(root, "stored", parts, facts->stored);
}

/* block.json of a finished block. */
static qk_status read_json(const qk_sink *sink, int64_t number, json_t **root, char **path,
                           qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(number, name);
    *root = NULL;
    *path = qk__units_path(&sink->units, name, QK__BLOCK_FACTS);
    return *path ? qk__json_read_file(root, *path, MAX_FACTS_BYTES, QK__JSON_NO_ZEROS, err)
                 : qk__nomem(err);
}

qk_status qk__block_fail(const qk_sink *sink, int64_t number, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(number, name);
    return qk__fail(err, QK_ERR_MALFORMED,
                    "%s/%s: this block of the unfinished run is damaged: remove its folder and "
                    "run the command again, of shards the one that made it",
                    sink->units.path, name);
}

qk_status qk__block_read(const qk_sink *sink, int64_t number, qk__block_facts *facts,
                         qk_error *err)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    char *path;
    json_t *root;
    *facts = (qk__block_facts){.rows = qk__calloc(2 * parts, sizeof *facts->rows)};
    facts->stored = facts->rows ? facts->rows + parts : NULL;
    qk_status status = read_json(sink, number, &root, &path, err);
    if (status == QK_OK && !facts->rows)
        status = qk__nomem(err);
    if (status == QK_ERR_MALFORMED ||
        (status == QK_OK && !take_facts(sink, number, root, facts)))
        status = qk__block_fail(sink, number, err);
    if (status != QK_OK) {
        free(facts->rows);
        facts->rows = NULL;
    }
    json_decref(root);
    free(path);
    return status;
}

qk_status qk__block_check(const qk_sink *sink, int64_t number, const char *file, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE], hash[QK__FINGERPRINT_SIZE] = "", *path;
    int64_t bytes;
    json_t *root;
    qk__block_name(number, name);
    qk_status status = read_json(sink, number, &root, &path, err);
    const char *was =
        json_string_value(json_object_get(json_object_get(root, "xxh3_128"), file));
    char *place = qk__units_path(&sink->units, name, file);
    if (status == QK_OK)
        status = place ? qk__fingerprint_file(place, &bytes, hash, err) : qk__nomem(err);
    if (status == QK_OK && (!was || strcmp(was, hash) != 0))
        status = qk__block_fail(sink, number, err);
    json_decref(root);
    free(path);
    free(place);
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
