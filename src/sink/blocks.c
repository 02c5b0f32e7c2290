/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of texts: the units in which a capture is made, stopped, resumed and shared among processes.
 * A block is there whole or not at all, whoever else is at work. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

#define FACTS_NAME "block.json"
enum { MAX_FACTS_BYTES = 16 << 20 };
#define MAX_COUNT (INT64_C(1) << 48) /* more is a mistake, and sums of them fit 64 bits */

/* ---- which ------------------------------------------------------------------------------ */

/* Small blocks cost a journey through the weights and a file of sums, large ones what is lost
 * when a run is stopped. */
enum { LEAST_TOKENS = 8192, MOST_BLOCKS = 64 };

/* A power of two that depends on these numbers alone, since the tree of sums does on it. */
int64_t qk__choose_block(int64_t texts, int64_t tokens)
{
    int64_t size = 1;
    while (size < texts && (texts / size > MOST_BLOCKS ||
                            (tokens > 0 && (double)tokens * (double)size <
                                               (double)LEAST_TOKENS * (double)texts)))
        size *= 2;
    return size;
}

void qk__shard_blocks(const qk_sink *sink, int64_t *first, int64_t *end)
{
    const qk_shard *shard = &sink->settings.shard;
    /* Neighbours stay together: their sums merge at once. */
    double share = (double)sink->num_blocks / (double)shard->count;
    *first = shard->index == 0 ? 0 : (int64_t)(share * (double)shard->index);
    *end = shard->index + 1 == shard->count ? sink->num_blocks
                                            : (int64_t)(share * (double)(shard->index + 1));
}

void qk__block_name(int64_t number, char name[QK__UNIT_NAME_SIZE])
{
    snprintf(name, QK__UNIT_NAME_SIZE, "b%06" PRId64, number);
}

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

int64_t qk__block_size(const qk_sink *sink, int64_t number)
{
    int64_t left = sink->settings.num_texts - number * sink->block_texts;
    return left < sink->block_texts ? left : sink->block_texts;
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

qk_status qk__block_read(const qk_sink *sink, int64_t number, qk__block_facts *facts,
                         qk_error *err)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(number, name);
    char *path = qk__units_path(&sink->units, name, FACTS_NAME);
    json_t *root = NULL;
    *facts = (qk__block_facts){.rows = qk__calloc(2 * parts, sizeof *facts->rows)};
    facts->stored = facts->rows ? facts->rows + parts : NULL;
    qk_status status = path && facts->rows ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status = qk__json_read_file(&root, path, MAX_FACTS_BYTES, QK__JSON_NO_ZEROS, err);
    if (status == QK_OK && !take_facts(sink, number, root, facts))
        status =
            qk__fail(err, QK_ERR_MALFORMED,
                     "%s: not of this run: remove its folder and run the command again", path);
    if (status != QK_OK) {
        free(facts->rows);
        facts->rows = NULL;
    }
    json_decref(root);
    free(path);
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

/* ---- an open block ---------------------------------------------------------------------- */

void qk__text_block_free(const qk_sink *sink, qk__text_block *block)
{
    for (int64_t i = 0; block->texts && i < block->count; i++)
        qk__text_free(sink, &block->texts[i]);
    free(block->texts);
    qk__queues_free(sink, block);
    for (int stage = 0; stage < QK__STAGES; stage++) {
        if (block->files[stage] >= 0)
            close(block->files[stage]);
        qk__buffer_free(&block->regions[stage]);
    }
    qk__unit_discard(&block->folder);
    free(block->rows);
    free(block->stored);
    free(block);
}

static qk_status open_rows(qk__text_block *block, int stage, qk_error *err)
{
    char name[16];
    snprintf(name, sizeof name, "rows.%s", qk__stage_name(stage));
    char *path = qk__path_join(block->folder, name);
    if (!path)
        return qk__nomem(err);
    block->files[stage] = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    qk_status status = block->files[stage] >= 0
                           ? QK_OK
                           : qk__fail(err, QK_ERR_IO, "%s: cannot open for writing: %s", path,
                                      strerror(errno));
    free(path);
    return status;
}

static qk_status begin(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    block->texts = qk__calloc((size_t)block->count, sizeof *block->texts);
    block->rows = qk__calloc(parts, sizeof *block->rows);
    block->stored = qk__calloc(parts, sizeof *block->stored);
    if (!block->texts || !block->rows || !block->stored)
        return qk__nomem(err);
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(block->number, name);
    qk_status status = qk__unit_begin(&sink->units, name, &block->folder, err);
    for (int stage = 0; status == QK_OK && stage < QK__STAGES; stage++)
        if (sink->stages[stage] && qk__stores_rows(sink))
            status = open_rows(block, stage, err);
    if (status == QK_OK && sink->settings.keep.moments)
        status = qk__queues_create(sink, block, err);
    return status;
}

qk_status qk__open_block(qk_sink *sink, int64_t text, qk__text_block **found, qk_error *err)
{
    int64_t number = text / sink->block_texts;
    for (*found = sink->open; *found; *found = (*found)->next)
        if ((*found)->number == number)
            return QK_OK;
    qk__text_block *block = calloc(1, sizeof *block);
    if (!block)
        return qk__nomem(err);
    *block = (qk__text_block){.number = number,
                              .first = number * sink->block_texts,
                              .count = qk__block_size(sink, number),
                              .files = {-1, -1}};
    qk_status status = begin(sink, block, err);
    if (status != QK_OK) {
        qk__text_block_free(sink, block);
        return status;
    }
    block->next = sink->open;
    sink->open = block;
    *found = block;
    return QK_OK;
}

/* ---- finishing -------------------------------------------------------------------------- */

static int compare_regions(const void *a, const void *b)
{
    const qk__region *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->text > y->text) - (x->text < y->text);
}

/* First where the regions of each part begin, then the regions. */
static qk_status write_regions(const qk_sink *sink, const qk__text_block *block, int stage,
                               qk_error *err)
{
    qk__buffer list = block->regions[stage], index = {0};
    size_t parts = 2 * (size_t)sink->settings.num_layers,
           count = list.size / sizeof(qk__region);
    qk__region *regions = (qk__region *)(void *)list.data;
    char name[16];
    if (count > 0)
        qsort(regions, count, sizeof *regions, compare_regions);
    qk_status status = QK_OK;
    for (size_t part = 0, at = 0; status == QK_OK && part <= parts; part++) {
        while (at < count && regions[at].part < (int64_t)part)
            at++;
        int64_t start = (int64_t)at;
        status = qk__buffer_append(&index, &start, sizeof start, err);
    }
    if (status == QK_OK)
        status = qk__buffer_append(&index, list.data, list.size, err);
    snprintf(name, sizeof name, "index.%s", qk__stage_name(stage));
    char *path = qk__path_join(block->folder, name);
    if (status == QK_OK)
        status = path ? qk__write_file(path, index.data, index.size, err) : qk__nomem(err);
    free(path);
    qk__buffer_free(&index);
    return status;
}

static qk_status write_lines(const qk__text_block *block, qk_error *err)
{
    qk__buffer lines = {0};
    qk_status status = QK_OK;
    for (int64_t i = 0; status == QK_OK && i < block->count; i++)
        status = qk__buffer_printf(&lines, err, "%s\n", block->texts[i].line);
    char *path = qk__path_join(block->folder, "examples");
    if (status == QK_OK)
        status = path ? qk__write_file(path, lines.data, lines.size, err) : qk__nomem(err);
    free(path);
    qk__buffer_free(&lines);
    return status;
}

static json_t *list_counts(const int64_t *counts, size_t number)
{
    json_t *list = json_array();
    for (size_t i = 0; i < number; i++)
        list = qk__json_append(list, json_integer((json_int_t)counts[i]));
    return list;
}

static qk_status write_facts(const qk_sink *sink, const qk__text_block *block, qk_error *err)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    int64_t tokens = 0;
    for (int64_t i = 0; i < block->count; i++)
        tokens += block->texts[i].tokens;
    json_t *root =
        json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "fingerprint", sink->fingerprint, "first",
                  (json_int_t)block->first, "texts", (json_int_t)block->count, "tokens",
                  (json_int_t)tokens, "rows", list_counts(block->rows, parts), "stored",
                  list_counts(block->stored, parts));
    qk__outfile *file;
    QK_TRY(qk__json_write(root, block->folder, FACTS_NAME, &file, err));
    return qk__outfile_commit(&file, err);
}

/* The sums go first: where a block is there, so are they. */
static qk_status write_block(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    for (int stage = 0; stage < QK__STAGES; stage++)
        if (block->files[stage] >= 0)
            QK_TRY(write_regions(sink, block, stage, err));
    QK_TRY(write_lines(block, err));
    QK_TRY(write_facts(sink, block, err));
    if (sink->settings.keep.moments)
        QK_TRY(qk__tree_add(sink, block, err));
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(block->number, name);
    return qk__unit_publish(&sink->units, name, &block->folder, err);
}

qk_status qk__block_publish(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    qk_status status = write_block(sink, block, err);
    if (status == QK_OK)
        sink->there[block->number] = true;
    qk__text_block_free(sink, block);
    return status;
}
