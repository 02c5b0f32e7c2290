/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a Parquet file: its footer, what it says about the columns, the file's fingerprint. */
#include "parquet/reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "parquet/codec.h"
#include "parquet/format.h"

enum {
    MAGIC_BYTES = 4,
    TAIL_BYTES = 8,       /* footer length, magic */
    FIRST_READ = 1 << 14, /* from the end of the file: holds most footers */
};

/* ---- the footer ------------------------------------------------------------------------- */

static qk_status check_magic(const qk_parquet *file, const uint8_t *tail, qk_error *err)
{
    const uint8_t *magic = tail + TAIL_BYTES - MAGIC_BYTES;
    uint8_t head[MAGIC_BYTES];
    QK_TRY(qk__source_read(&file->source, head, sizeof head, 0, err));
    if (memcmp(magic, QK_PARQUET_MAGIC_ENCRYPTED, MAGIC_BYTES) == 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "encrypted Parquet files are not supported");
    if (memcmp(magic, QK_PARQUET_MAGIC, MAGIC_BYTES) != 0)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "not a Parquet file, or cut short (it does not end in \"PAR1\")");
    if (memcmp(head, QK_PARQUET_MAGIC, MAGIC_BYTES) != 0)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "not a Parquet file (it does not start with \"PAR1\")");
    return QK_OK;
}

static qk_status parse_footer(qk_parquet *file, qk__buffer *tail, qk_error *err)
{
    size_t size = file->source.size < FIRST_READ ? (size_t)file->source.size : FIRST_READ;
    QK_TRY(qk__buffer_reserve(tail, size, err));
    QK_TRY(qk__source_read(&file->source, tail->data, size, file->source.size - (int64_t)size,
                           err));
    QK_TRY(check_magic(file, tail->data + size - TAIL_BYTES, err));
    uint32_t length;
    memcpy(&length, tail->data + size - TAIL_BYTES, sizeof length);
    if (length > file->source.size - TAIL_BYTES - MAGIC_BYTES)
        return qk__fail(err, QK_ERR_MALFORMED, "footer of %u bytes in a file of %lld",
                        (unsigned)length, (long long)file->source.size);
    file->footer = file->source.size - TAIL_BYTES - (int64_t)length;
    const uint8_t *footer = tail->data + size - TAIL_BYTES - length;
    if (length > size - TAIL_BYTES) {
        QK_TRY(qk__buffer_reserve(tail, length, err));
        QK_TRY(qk__source_read(&file->source, tail->data, length, file->footer, err));
        footer = tail->data;
    }
    return qk__metadata_parse(&file->metadata, footer, length, err);
}

/* ---- column chunks that share bytes ----------------------------------------------------- */

typedef struct span {
    int64_t offset, size;
    size_t group, column;
} span;

static int compare_spans(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Chunks that cannot be read (a cursor says why) or need not be are left out. */
static size_t list_spans(const qk_parquet *file, span *spans)
{
    const qk__metadata *m = &file->metadata;
    size_t count = 0;
    for (size_t g = 0; g < m->num_groups; g++) {
        for (size_t i = 0; i < m->num_leaves; i++) {
            const qk__chunk *c = &m->groups[g].chunks[i];
            bool here = c->has_metadata && !c->encrypted && !c->elsewhere;
            if (here && c->num_values > 0 && c->offset >= 0 && c->offset <= file->footer &&
                c->compressed_bytes <= file->footer - c->offset)
                spans[count++] =
                    (span){c->offset, c->compressed_bytes > 0 ? c->compressed_bytes : 1, g, i};
        }
    }
    return count;
}

/* Each byte may stand for values once: else a file of n chunks could claim n times the rows
 * that it has bytes for. */
static qk_status check_spans(const qk_parquet *file, qk_error *err)
{
    const qk__metadata *m = &file->metadata;
    span *spans = qk__calloc(m->num_groups * m->num_leaves + 1, sizeof *spans);
    if (!spans)
        return qk__nomem(err);
    size_t count = list_spans(file, spans);
    qsort(spans, count, sizeof *spans, compare_spans);
    qk_status status = QK_OK;
    for (size_t i = 1; status == QK_OK && i < count; i++) {
        const span *a = &spans[i - 1], *b = &spans[i];
        if (b->offset - a->offset < a->size)
            status = qk__fail(err, QK_ERR_MALFORMED,
                              "column '%s' in row group %zu and column '%s' in row group %zu "
                              "share the bytes at %lld",
                              m->leaves[a->column].path, a->group, m->leaves[b->column].path,
                              b->group, (long long)b->offset);
    }
    free(spans);
    return status;
}

/* ---- sums over row groups --------------------------------------------------------------- */

static bool add_checked(int64_t *sum, int64_t value)
{
    if (value < 0 || *sum > INT64_MAX - value)
        return false;
    *sum += value;
    return true;
}

static void merge_range(qk_parquet_column *info, const qk__chunk *chunk, bool *known)
{
    if (chunk->num_values == 0 || chunk->null_count == chunk->num_values)
        return; /* no values, no bounds */
    if (!chunk->has_range || chunk->min > chunk->max) {
        *known = false;
        return;
    }
    if (!info->has_range || chunk->min < info->min)
        info->min = chunk->min;
    if (!info->has_range || chunk->max > info->max)
        info->max = chunk->max;
    info->has_range = true;
}

static const char *codec_name(int codec)
{
    const char *name = qk__codec_name(codec);
    return name ? name : "unknown";
}

static qk_status summarise(const qk__metadata *m, size_t column, qk_error *err)
{
    qk_parquet_column *info = &m->leaves[column].info;
    bool range_known = !m->leaves[column].is_unsigned;
    info->codec = codec_name(CODEC_UNCOMPRESSED);
    for (size_t g = 0; g < m->num_groups; g++) {
        const qk__chunk *chunk = &m->groups[g].chunks[column];
        if (!add_checked(&info->num_values, chunk->num_values) ||
            !add_checked(&info->compressed_bytes, chunk->compressed_bytes) ||
            !add_checked(&info->uncompressed_bytes, chunk->uncompressed_bytes))
            return qk__fail(err, QK_ERR_MALFORMED, "column '%s' claims impossible sizes",
                            info->path);
        const char *codec = codec_name(chunk->codec);
        info->codec = g == 0 || strcmp(codec, info->codec) == 0 ? codec : "mixed";
        info->encodings |= chunk->encodings;
        if (chunk->null_count < 0 || !add_checked(&info->null_count, chunk->null_count))
            info->null_count = -1;
        merge_range(info, chunk, &range_known);
    }
    info->has_range = info->has_range && range_known;
    if (!info->has_range)
        info->min = info->max = 0;
    return QK_OK;
}

/* Some writers leave the file's number of rows at 0: that of the row groups counts. */
static qk_status sum_rows(qk__metadata *m, qk_error *err)
{
    m->num_rows = 0;
    for (size_t g = 0; g < m->num_groups; g++)
        if (!add_checked(&m->num_rows, m->groups[g].num_rows))
            return qk__fail(err, QK_ERR_MALFORMED, "impossible number of rows");
    return QK_OK;
}

/* ---- the handle ------------------------------------------------------------------------- */

static qk_status open_file(qk_parquet *file, int fd, qk_error *err)
{
    QK_TRY(qk__source_open(&file->source, fd, err));
    if (file->source.size < TAIL_BYTES + MAGIC_BYTES)
        return qk__fail(err, QK_ERR_MALFORMED, "not a Parquet file (%lld bytes)",
                        (long long)file->source.size);
    qk__buffer tail = {0};
    qk_status status = parse_footer(file, &tail, err);
    qk__buffer_free(&tail);
    if (status == QK_OK)
        status = check_spans(file, err);
    if (status == QK_OK)
        status = sum_rows(&file->metadata, err);
    for (size_t i = 0; status == QK_OK && i < file->metadata.num_leaves; i++)
        status = summarise(&file->metadata, i, err);
    return status;
}

qk_status qk__parquet_open_fd(qk_parquet **file, int fd, const char *name, qk_error *err)
{
    *file = NULL;
    qk_parquet *f = calloc(1, sizeof *f);
    char *path = qk__strdup(name);
    if (!f || !path) {
        free(f);
        free(path);
        close(fd);
        return qk__nomem(err);
    }
    f->path = path;
    qk_status status = qk__context(err, open_file(f, fd, err), "%s", name);
    if (status != QK_OK)
        qk_parquet_close(&f);
    *file = f;
    return status;
}

qk_status qk_parquet_open(qk_parquet **file, const char *path, qk_error *err)
{
    QK_NEED(err, file);
    *file = NULL;
    QK_NEED(err, path);
    int fd;
    int64_t size;
    QK_TRY(qk__open_file(path, &fd, &size, err));
    return qk__parquet_open_fd(file, fd, path, err);
}

void qk_parquet_close(qk_parquet **file)
{
    assert(file);
    qk_parquet *f = *file;
    if (!f)
        return;
    qk__source_close(&f->source);
    qk__metadata_free(&f->metadata);
    free(f->path);
    free(f);
    *file = NULL;
}

int64_t qk_parquet_num_rows(const qk_parquet *file)
{
    assert(file);
    return file->metadata.num_rows;
}

int qk_parquet_num_row_groups(const qk_parquet *file)
{
    assert(file);
    return (int)file->metadata.num_groups;
}

int qk_parquet_num_columns(const qk_parquet *file)
{
    assert(file);
    return (int)file->metadata.num_leaves;
}

const qk_parquet_column *qk_parquet_column_at(const qk_parquet *file, int i)
{
    assert(file);
    return &file->metadata.leaves[i].info;
}

int qk_parquet_find(const qk_parquet *file, const char *name)
{
    assert(file && name);
    const qk__metadata *m = &file->metadata;
    for (size_t i = 0; i < m->num_leaves; i++)
        if (strcmp(m->leaves[i].path, name) == 0)
            return (int)i;
    size_t length = strlen(name);
    for (size_t i = 0; i < m->num_leaves; i++)
        if (m->leaves[i].top_length == length && memcmp(m->leaves[i].path, name, length) == 0)
            return (int)i;
    return -1;
}

qk_status qk__parquet_find(const qk_parquet *file, const char *name, int *index, qk_error *err)
{
    const qk__leaf *leaves = file->metadata.leaves;
    *index = qk_parquet_find(file, name);
    for (size_t i = 0; *index >= 0 && i < file->metadata.num_leaves; i++) {
        const qk__leaf *found = &leaves[*index];
        bool named = leaves[i].top_length == found->top_length &&
                     memcmp(leaves[i].path, found->path, found->top_length) == 0;
        if (named && leaves[i].field != found->field)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "column '%s' is there more than once: keep one, or name them apart",
                            name);
    }
    return QK_OK;
}

int64_t qk_parquet_file_bytes(const qk_parquet *file)
{
    assert(file);
    return file->source.size;
}

qk_status qk__parquet_fingerprint(const qk_parquet *file, char hash[QK__FINGERPRINT_SIZE],
                                  qk_error *err)
{
    const qk__source *source = &file->source;
    QK_TRY(qk__context(err, qk__source_load(source, err), "%s", file->path));
    if (source->contents->bytes) {
        qk__fingerprint_bytes(source->contents->bytes, (size_t)source->size, hash);
        return QK_OK;
    }
    qk_status status = qk__fingerprint_fd(source->fd, source->size, hash, err);
    return qk__context(err, status, "%s", file->path);
}

const char *qk_parquet_created_by(const qk_parquet *file)
{
    assert(file);
    return file->metadata.created_by;
}

const char *qk_parquet_encoding_name(int encoding)
{
    static const char *const names[] = {
        [ENC_PLAIN] = "PLAIN",
        [ENC_PLAIN_DICTIONARY] = "PLAIN_DICTIONARY",
        [ENC_RLE] = "RLE",
        [ENC_BIT_PACKED] = "BIT_PACKED",
        [ENC_DELTA_BINARY_PACKED] = "DELTA_BINARY_PACKED",
        [ENC_DELTA_LENGTH_BYTE_ARRAY] = "DELTA_LENGTH_BYTE_ARRAY",
        [ENC_DELTA_BYTE_ARRAY] = "DELTA_BYTE_ARRAY",
        [ENC_RLE_DICTIONARY] = "RLE_DICTIONARY",
        [ENC_BYTE_STREAM_SPLIT] = "BYTE_STREAM_SPLIT",
    };
    bool known = encoding >= 0 && (size_t)encoding < sizeof names / sizeof *names;
    return known && names[encoding] ? names[encoding] : "unknown";
}
