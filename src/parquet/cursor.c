/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one column, or some row groups of it, from the first row to the last: row groups, pages, levels. */
#include "parquet/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/bit_width.h"
#include "base/error.h"
#include "parquet/format.h"

enum {
    MAX_LEVEL = 255,
    /* A page of equal levels takes a few bytes however many slots it claims. No writer puts
     * more into one than this and 8 for each byte. */
    FREE_SLOTS = 1 << 24,
    UNCOUNTED_BYTES = 100, /* see chunk_end */
};

/* ---- opening ---------------------------------------------------------------------------- */

/* Runs and nulls take no space, so the number of values that a file claims proves nothing. The
 * size of the file does, as no column chunks share bytes: see check_spans in reader.c. */
static qk_status check_budget(const qk__cursor *c, qk_error *err)
{
    int64_t budget = qk__source_budget(&c->file->source);
    int64_t values = c->leaf->info.num_values;
    if (values <= budget / (int64_t)c->type.element)
        return QK_OK;
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "over the limit: %lld values of %zu bytes, more than the %lld bytes that a "
                    "file of %lld may become",
                    (long long)values, c->type.element, (long long)budget,
                    (long long)c->file->source.size);
}

static qk_status check_chunk(const qk__cursor *c, size_t group, qk_error *err)
{
    const qk__chunk *chunk = &c->file->metadata.groups[group].chunks[c->column];
    int64_t num_rows = c->file->metadata.groups[group].num_rows;
    if (chunk->encrypted)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "encrypted columns are not supported");
    if (chunk->elsewhere)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "column data in another file");
    if (!chunk->has_metadata)
        return qk__fail(err, QK_ERR_MALFORMED, "column chunk has no metadata");
    if (chunk->type != (int)c->leaf->info.type)
        return qk__fail(err, QK_ERR_MALFORMED, "column chunk has type %d, its schema %d",
                        chunk->type, (int)c->leaf->info.type);
    bool flat = c->leaf->info.max_repetition == 0;
    if (flat ? chunk->num_values != num_rows : chunk->num_values < num_rows)
        return qk__fail(err, QK_ERR_MALFORMED, "column chunk has %lld values for %lld rows",
                        (long long)chunk->num_values, (long long)num_rows);
    if (chunk->num_values == 0)
        return QK_OK;
    if (chunk->offset < 4 || chunk->offset > c->file->footer ||
        chunk->compressed_bytes > c->file->footer - chunk->offset)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "column chunk of %lld bytes at byte %lld is not within the file",
                        (long long)chunk->compressed_bytes, (long long)chunk->offset);
    return QK_OK;
}

static qk_status check_column(const qk__cursor *c, qk_error *err)
{
    const qk_parquet_column *info = &c->leaf->info;
    if (info->type == QK_PARQUET_INT96)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "type INT96 is not supported");
    if (info->max_definition > MAX_LEVEL || info->max_repetition > MAX_LEVEL)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "over the limit: nested deeper than %d levels",
                        MAX_LEVEL);
    for (size_t g = c->group; g < c->end_group; g++)
        QK_TRY(qk__context(err, check_chunk(c, g, err), "row group %zu", g));
    return check_budget(c, err);
}

static int64_t rows_before(const qk_parquet *file, size_t group)
{
    int64_t rows = 0;
    for (size_t g = 0; g < group; g++)
        rows += file->metadata.groups[g].num_rows;
    return rows;
}

qk_status qk__cursor_open(qk__cursor **cursor, const qk_parquet *file, int column,
                          qk_error *err)
{
    return qk__cursor_open_groups(cursor, file, column, 0, file->metadata.num_groups, err);
}

qk_status qk__cursor_open_groups(qk__cursor **cursor, const qk_parquet *file, int column,
                                 size_t first, size_t count, qk_error *err)
{
    *cursor = NULL;
    if (column < 0 || (size_t)column >= file->metadata.num_leaves)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: no column number %d", file->path, column);
    qk__cursor *c = calloc(1, sizeof *c);
    if (!c)
        return qk__nomem(err);
    c->file = file;
    c->column = (size_t)column;
    c->group = first;
    c->end_group = first + count;
    c->row = rows_before(file, c->group);
    c->end_row = rows_before(file, c->end_group);
    c->leaf = &file->metadata.leaves[column];
    c->type = qk__value_type_of(&c->leaf->info);
    c->kernel = qk__best_parquet_kernel();
    qk_status status = qk__cursor_result(c, check_column(c, err), err);
    if (status == QK_OK)
        status = qk__context(err, qk__source_load(&file->source, err), "%s", file->path);
    if (status != QK_OK)
        qk__cursor_close(&c);
    *cursor = c;
    return status;
}

void qk__cursor_close(qk__cursor **cursor)
{
    qk__cursor *c = *cursor;
    if (!c)
        return;
    qk__pages_free(&c->pages);
    qk__value_dictionary_free(&c->dictionary);
    free(c);
    *cursor = NULL;
}

void qk__cursor_retire(qk__cursor **cursor, qk__pages *spare)
{
    if (!*cursor)
        return;
    qk__pages_free(spare);
    *spare = (*cursor)->pages;
    (*cursor)->pages = (qk__pages){0};
    qk__cursor_close(cursor);
}

void qk__cursor_equip(qk__cursor *cursor, qk__pages *spare)
{
    cursor->pages = *spare;
    cursor->pages.unpacked = 0;
    *spare = (qk__pages){0};
}

qk_status qk__cursor_check(const qk__cursor *cursor, qk_error *err)
{
    if (!cursor->failed)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT, "%s: column '%s': reading goes on after an error",
                    cursor->file->path, cursor->leaf->path);
}

qk_status qk__cursor_result(qk__cursor *cursor, qk_status status, qk_error *err)
{
    cursor->failed |= status != QK_OK;
    return qk__context(err, status, "%s: column '%s'", cursor->file->path, cursor->leaf->path);
}

/* ---- pages ------------------------------------------------------------------------------ */

/* The levels of one kind in a v1 page: a 4-byte length and runs. */
static qk_status begin_levels_v1(qk__rle *rle, int max, int encoding, const char *kind,
                                 const uint8_t **data, size_t *size, qk_error *err)
{
    uint32_t length;
    if (max == 0)
        return QK_OK;
    if (encoding != ENC_RLE)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s levels with encoding %s are not supported",
                        kind, qk_parquet_encoding_name(encoding));
    if (*size < sizeof length)
        return qk__fail(err, QK_ERR_MALFORMED, "page ends before its %s levels", kind);
    memcpy(&length, *data, sizeof length);
    if (length > *size - sizeof length)
        return qk__fail(err, QK_ERR_MALFORMED, "%s levels are larger than their page", kind);
    qk__rle_init(rle, *data + sizeof length, length, qk__bit_width((uint64_t)max));
    *data += sizeof length + length;
    *size -= sizeof length + length;
    return QK_OK;
}

static qk_status begin_levels(qk__cursor *c, const uint8_t **data, size_t *size, qk_error *err)
{
    const qk_parquet_column *info = &c->leaf->info;
    const qk__page_header *header = &c->page.header;
    *data = c->page.data;
    *size = c->page.size;
    if (header->type == PAGE_DATA_V2) {
        qk__rle_init(&c->repetition, c->page.repetition, (size_t)header->repetition_bytes,
                     qk__bit_width((uint64_t)info->max_repetition));
        qk__rle_init(&c->definition, c->page.definition, (size_t)header->definition_bytes,
                     qk__bit_width((uint64_t)info->max_definition));
        return QK_OK;
    }
    QK_TRY(begin_levels_v1(&c->repetition, info->max_repetition, header->repetition_encoding,
                           "repetition", data, size, err));
    return begin_levels_v1(&c->definition, info->max_definition, header->definition_encoding,
                           "definition", data, size, err);
}

static qk_status check_slots(const qk__cursor *c, qk_error *err)
{
    int64_t slots = c->page.header.num_values;
    if (slots > c->slots_beyond)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "page of %lld values where the column chunk has %lld left",
                        (long long)slots, (long long)c->slots_beyond);
    int64_t most = FREE_SLOTS + 8 * (int64_t)c->page.header.uncompressed_bytes;
    if (slots > most)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "over the limit: page of %d bytes with %lld values, %lld can be read; "
                        "write smaller pages",
                        c->page.header.uncompressed_bytes, (long long)slots, (long long)most);
    return QK_OK;
}

static qk_status load_dictionary(qk__cursor *c, qk_error *err)
{
    const qk__page_header *header = &c->page.header;
    if (c->dictionary.loaded)
        return qk__fail(err, QK_ERR_MALFORMED, "second dictionary in a column chunk");
    if (header->encoding != ENC_PLAIN && header->encoding != ENC_PLAIN_DICTIONARY)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "dictionary with encoding %s",
                        qk_parquet_encoding_name(header->encoding));
    return qk__value_dictionary_load(&c->dictionary, c->type, c->page.data, c->page.size,
                                     (size_t)header->num_values, err);
}

static qk_status begin_page(qk__cursor *c, qk_error *err)
{
    if (c->page.header.type == PAGE_DICTIONARY)
        return load_dictionary(c, err);
    const uint8_t *data;
    size_t size;
    QK_TRY(check_slots(c, err));
    QK_TRY(begin_levels(c, &data, &size, err));
    QK_TRY(qk__values_begin(&c->values, c->type, c->page.header.encoding, c->kernel,
                            &c->dictionary, data, size, err));
    c->slots = (size_t)c->page.header.num_values;
    c->slots_beyond -= c->page.header.num_values;
    return QK_OK;
}

static qk_status next_page(qk__cursor *c, qk_error *err)
{
    bool found;
    QK_TRY(qk__pages_next(&c->pages, &c->page, &found, err));
    if (!found)
        return qk__fail(err, QK_ERR_MALFORMED, "pages end %lld values too soon",
                        (long long)c->slots_beyond);
    return qk__context(err, begin_page(c, err), "page at byte %lld", (long long)c->page.offset);
}

/* Early releases of parquet-mr leave the dictionary's page header out of the recorded size. */
static int64_t chunk_end(const qk_parquet *file, const qk__chunk *chunk)
{
    int64_t end = chunk->offset + chunk->compressed_bytes;
    if (strncmp(file->metadata.created_by, "parquet-mr", 10) != 0)
        return end;
    return file->footer - end > UNCOUNTED_BYTES ? end + UNCOUNTED_BYTES : file->footer;
}

static void start_group(qk__cursor *c)
{
    const qk__chunk *chunk = &c->file->metadata.groups[c->group].chunks[c->column];
    qk__value_dictionary_free(&c->dictionary);
    qk__pages_start(&c->pages, &c->file->source, chunk->codec, chunk->offset,
                    chunk_end(c->file, chunk));
    c->slots_beyond = chunk->num_values;
    c->group_rows = 0;
    c->in_group = true;
}

static qk_status end_group(qk__cursor *c, qk_error *err)
{
    int64_t num_rows = c->file->metadata.groups[c->group].num_rows;
    if (c->group_rows != num_rows)
        return qk__fail(err, QK_ERR_MALFORMED, "holds %lld rows, the footer says %lld",
                        (long long)c->group_rows, (long long)num_rows);
    c->group++;
    c->in_group = false;
    return QK_OK;
}

qk_status qk__cursor_fill(qk__cursor *c, qk_error *err)
{
    while (c->slots == 0) {
        qk_status status = QK_OK;
        size_t group = c->group;
        if (!c->in_group && group == c->end_group)
            return QK_OK;
        if (!c->in_group)
            start_group(c);
        else if (c->slots_beyond > 0)
            status = next_page(c, err);
        else
            status = end_group(c, err);
        QK_TRY(qk__context(err, status, "row group %zu", group));
    }
    return QK_OK;
}

void qk__cursor_advance(qk__cursor *c, size_t slots, int64_t rows)
{
    c->slots -= slots;
    c->group_rows += rows;
    c->row += rows;
}

static qk_status in_page(const qk__cursor *c, qk_status status, qk_error *err)
{
    return qk__context(err, status, "row group %zu: page at byte %lld", c->group,
                       (long long)c->page.offset);
}

qk_status qk__cursor_values(qk__cursor *c, void *out, size_t n, qk_error *err)
{
    qk_status status = qk__values_read(&c->values, out, n, err);
    return status == QK_OK ? QK_OK : in_page(c, status, err);
}

qk_status qk__cursor_levels_end(const qk__cursor *c, qk_error *err)
{
    return in_page(c, qk__fail(err, QK_ERR_MALFORMED, "levels end too soon or are damaged"),
                   err);
}

/* ---- looking ahead ---------------------------------------------------------------------- */

/* Slots at the start of the pages beyond the current one that still belong to its last row,
 * read through a cursor of its own so that this one stays where it is. */
static qk_status count_beyond(const qk__cursor *c, size_t *slots, qk_error *err)
{
    qk__cursor ahead = {.file = c->file, .leaf = c->leaf, .column = c->column};
    qk__pages_start(&ahead.pages, c->pages.source, c->pages.codec, c->pages.next, c->pages.end);
    ahead.slots_beyond = c->slots_beyond;
    qk_status status = QK_OK;
    *slots = 0;
    for (bool ended = false; status == QK_OK && !ended && ahead.slots_beyond > 0;) {
        const uint8_t *data;
        size_t size;
        bool found;
        status = qk__pages_next(&ahead.pages, &ahead.page, &found, err);
        if (status != QK_OK || !found)
            break;
        if (ahead.page.header.type == PAGE_DICTIONARY)
            continue;
        size_t in_page_slots = (size_t)ahead.page.header.num_values;
        status = check_slots(&ahead, err);
        if (status == QK_OK)
            status = begin_levels(&ahead, &data, &size, err);
        if (status == QK_OK) {
            size_t more = qk__rle_match(&ahead.repetition, 1, in_page_slots);
            *slots += more;
            ended = more < in_page_slots;
            ahead.slots_beyond -= (int64_t)in_page_slots;
        }
    }
    qk__pages_free(&ahead.pages);
    return status;
}

qk_status qk__cursor_row_width(const qk__cursor *c, size_t *width, qk_error *err)
{
    qk__rle repetition = c->repetition, definition = c->definition;
    if (c->leaf->info.max_repetition == 0) {
        *width = 1;
        return QK_OK;
    }
    size_t slots = qk__rle_match(&repetition, 0, 1);
    slots += qk__rle_match(&repetition, 1, c->slots - slots);
    if (slots == c->slots && c->slots_beyond > 0) {
        size_t beyond;
        QK_TRY(qk__context(err, count_beyond(c, &beyond, err), "row group %zu", c->group));
        slots += beyond;
    }
    /* A row without values still takes a slot. */
    uint32_t max = (uint32_t)c->leaf->info.max_definition;
    *width = slots == 1 ? qk__rle_match(&definition, max, 1) : slots;
    return QK_OK;
}
