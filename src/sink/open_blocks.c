/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks whose texts are being put in, and what is written of them when all have come. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

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

static qk_status begin_block(qk_sink *sink, qk__text_block *block, qk_error *err)
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
    if (status == QK_OK && qk__keeps_sums(sink))
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
    qk_status status = begin_block(sink, block, err);
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
    if (status == QK_OK)
        status = qk__write_file_in(block->folder, name, index.data, index.size, err);
    qk__buffer_free(&index);
    return status;
}

static qk_status write_lines(const qk__text_block *block, qk_error *err)
{
    qk__buffer lines = {0};
    qk_status status = QK_OK;
    for (int64_t i = 0; status == QK_OK && i < block->count; i++)
        status = qk__buffer_printf(&lines, err, "%s\n", block->texts[i].line);
    if (status == QK_OK)
        status = qk__write_file_in(block->folder, "examples", lines.data, lines.size, err);
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
    json_t *root = json_pack(
        "{s:I, s:I, s:o, s:o}", "texts", (json_int_t)block->count, "tokens", (json_int_t)tokens,
        "rows", list_counts(block->rows, parts), "stored", list_counts(block->stored, parts));
    qk__outfile *file;
    QK_TRY(qk__json_write(root, block->folder, QK__BLOCK_FACTS, &file, err));
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
    if (qk__keeps_sums(sink))
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
