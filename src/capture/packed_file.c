/* SPDX-License-Identifier: Apache-2.0 */
/* The row groups of a packed file: each holds rows of one head, and those of a head are neighbours. Their statistics
 * of column `head` say which head; where they do not, the column itself is read. */
#include "capture/packed_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "capture/capture.h"
#include "parquet/reader.h"

enum { BLOCK_ROWS = 4096 };

/* ---- which head ------------------------------------------------------------------------- */

static qk_status find_column(const qk_parquet *file, int *index, qk_error *err)
{
    QK_TRY(qk__parquet_find(file, "head", index, err));
    if (*index < 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "no column 'head': a file of many heads needs it; one of a single head "
                        "belongs into a folder such as l00h03q");
    const qk_parquet_column *column = qk_parquet_column_at(file, *index);
    bool integer = column->type == QK_PARQUET_INT32 || column->type == QK_PARQUET_INT64;
    if (!integer || column->logical != QK_PARQUET_PLAIN_TYPE || column->max_repetition > 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "column 'head': expected INT32 or INT64, found %s",
                        qk__parquet_type_name(column->type));
    return QK_OK;
}

static qk_status fail_mixed(int64_t first, int64_t second, qk_error *err)
{
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "column 'head': heads %lld and %lld in one row group: write the rows of each "
        "head in row groups of their own, one head after the other",
        (long long)first, (long long)second);
}

static qk_status read_rows(qk__cursor *cursor, int64_t *head, qk_error *err)
{
    int64_t values[BLOCK_ROWS];
    size_t rows;
    bool first = true;
    for (;;) {
        QK_TRY(qk__cursor_read_i64(cursor, values, NULL, BLOCK_ROWS, &rows, err));
        if (rows == 0)
            return QK_OK;
        if (first)
            *head = values[0];
        first = false;
        for (size_t i = 0; i < rows; i++)
            if (values[i] != *head)
                return fail_mixed(*head, values[i], err);
    }
}

static qk_status read_column(const qk_parquet *file, int column, size_t group, int64_t *head,
                             qk_error *err)
{
    qk__cursor *cursor;
    QK_TRY(qk__cursor_open_groups(&cursor, file, column, group, 1, err));
    qk_status status = read_rows(cursor, head, err);
    qk__cursor_close(&cursor);
    return status;
}

static qk_status head_of_group(const qk_parquet *file, int column, size_t group, int64_t *head,
                               qk_error *err)
{
    const qk__chunk *chunk = &file->metadata.groups[group].chunks[column];
    bool told = chunk->has_range && chunk->null_count == 0 &&
                !file->metadata.leaves[column].is_unsigned;
    if (chunk->null_count > 0)
        return qk__fail(err, QK_ERR_INCONSISTENT, "column 'head': %lld rows are null",
                        (long long)chunk->null_count);
    if (told && chunk->min != chunk->max)
        return fail_mixed(chunk->min, chunk->max, err);
    *head = chunk->min;
    if (!told)
        QK_TRY(read_column(file, column, group, head, err));
    if (*head < 0 || *head > QK_MAX_HEAD_NUMBER)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "column 'head': %lld is no number of a head, which is 0 to %d",
                        (long long)*head, QK_MAX_HEAD_NUMBER);
    return QK_OK;
}

/* ---- parts ------------------------------------------------------------------------------ */

/* The bytes of a file that hold some row groups. */
static qk__span span_of(const qk_parquet *file, int first, int count)
{
    int64_t begin = file->footer, end = 0;
    for (int g = first; g < first + count; g++)
        for (size_t c = 0; c < file->metadata.num_leaves; c++) {
            const qk__chunk *chunk = &file->metadata.groups[g].chunks[c];
            if (!chunk->has_metadata || chunk->num_values == 0 || chunk->offset < 0 ||
                chunk->offset > file->footer ||
                chunk->compressed_bytes > file->footer - chunk->offset)
                continue; /* its reader reports it */
            begin = chunk->offset < begin ? chunk->offset : begin;
            if (chunk->offset + chunk->compressed_bytes > end)
                end = chunk->offset + chunk->compressed_bytes;
        }
    return (qk__span){begin, end > begin ? end - begin : 0};
}

static int compare_parts(const void *a, const void *b)
{
    const qk__packed_part *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return (x->part.first_group > y->part.first_group) -
           (x->part.first_group < y->part.first_group);
}

/* Leaves the parts in the order of their heads. */
static qk_status check_once(qk__packed_part *parts, size_t count, qk_error *err)
{
    if (count > 1)
        qsort(parts, count, sizeof *parts, compare_parts);
    for (size_t i = 1; i < count; i++)
        if (parts[i - 1].head == parts[i].head)
            return qk__fail(
                err, QK_ERR_INCONSISTENT,
                "row groups %d and %d hold head %d, and those between hold another: "
                "write the row groups of a head one after the other",
                parts[i - 1].part.first_group + parts[i - 1].part.num_groups - 1,
                parts[i].part.first_group, parts[i].head);
    return QK_OK;
}

/* Errors of reading the column have their place already. */
static qk_status name_place(const qk_parquet *file, size_t group, qk_status status,
                            qk_error *err)
{
    if (err && strncmp(err->message, file->path, strlen(file->path)) == 0)
        return status;
    return qk__context(err, status, "%s: row group %zu", file->path, group);
}

static qk_status list_parts(const qk_parquet *file, qk__packed_part *parts, size_t *count,
                            qk_error *err)
{
    int column;
    QK_TRY(qk__context(err, find_column(file, &column, err), "%s", file->path));
    for (size_t g = 0; g < file->metadata.num_groups; g++) {
        int64_t rows = file->metadata.groups[g].num_rows, head = 0;
        if (rows == 0)
            continue;
        qk_status status = head_of_group(file, column, g, &head, err);
        if (status != QK_OK)
            return name_place(file, g, status, err);
        qk__packed_part *last = *count > 0 ? &parts[*count - 1] : NULL;
        if (!last || last->head != head) {
            last = &parts[(*count)++];
            *last = (qk__packed_part){.head = (int)head, .part.first_group = (int)g};
        }
        last->part.num_groups = (int)g + 1 - last->part.first_group;
        last->part.rows += rows;
    }
    for (size_t i = 0; i < *count; i++)
        parts[i].part.bytes =
            span_of(file, parts[i].part.first_group, parts[i].part.num_groups).size;
    return qk__context(err, check_once(parts, *count, err), "%s", file->path);
}

qk_status qk__packed_file_parts(const char *path, qk__packed_part **parts, size_t *count,
                                qk_error *err)
{
    qk_parquet *file;
    *count = 0;
    *parts = NULL;
    QK_TRY(qk_parquet_open(&file, path, err));
    size_t most = file->metadata.num_groups + 1;
    *parts = qk__calloc(most, sizeof **parts);
    qk_status status = *parts ? list_parts(file, *parts, count, err) : qk__nomem(err);
    qk_parquet_close(&file);
    if (status != QK_OK) {
        free(*parts);
        *parts = NULL;
    }
    return status;
}

qk_status qk__packed_check(const qk_parquet *file, const qk_head_part *part, qk_error *err)
{
    size_t first = (size_t)part->first_group, count = (size_t)part->num_groups;
    int64_t rows = 0;
    bool there = part->first_group >= 0 && part->num_groups >= 0 &&
                 first + count <= file->metadata.num_groups;
    for (size_t g = first; there && g < first + count; g++)
        rows += file->metadata.groups[g].num_rows;
    if (there && rows == part->rows)
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: was replaced while it was being read: run the command again",
                    file->path);
}

/* ---- fingerprints ----------------------------------------------------------------------- */

static qk_status print_part(const qk_parquet *file, const qk_head_part *part,
                            char hash[QK__FINGERPRINT_SIZE], qk_error *err)
{
    QK_TRY(qk__packed_check(file, part, err));
    const qk__span spans[] = {span_of(file, part->first_group, part->num_groups),
                              {file->footer, file->source.size - file->footer}};
    return qk__context(err, qk__fingerprint_spans(file->source.fd, spans, 2, hash, err), "%s",
                       file->path);
}

static qk_status print_closed(const qk_head *head, size_t i, bool hash, qk__file_print *print,
                              qk_error *err)
{
    struct stat st;
    qk_parquet *file;
    const char *path = head->files[i];
    if (!head->parts && hash)
        return qk__fingerprint_file(path, &print->bytes, print->hash, err);
    if (stat(path, &st) != 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    print->bytes = head->parts ? head->parts[i].bytes : st.st_size;
    if (!hash)
        return QK_OK;
    QK_TRY(qk_parquet_open(&file, path, err));
    qk_status status = print_part(file, &head->parts[i], print->hash, err);
    qk_parquet_close(&file);
    return status;
}

qk_status qk__head_file_print(const qk_head *head, size_t i, const qk_parquet *file, bool hash,
                              qk__file_print *print, qk_error *err)
{
    *print = (qk__file_print){0};
    if (!file)
        return print_closed(head, i, hash, print, err);
    print->bytes = head->parts ? head->parts[i].bytes : qk_parquet_file_bytes(file);
    if (!hash)
        return QK_OK;
    return head->parts ? print_part(file, &head->parts[i], print->hash, err)
                       : qk__parquet_fingerprint(file, print->hash, err);
}
