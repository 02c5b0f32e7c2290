/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, checking and decompressing pages; of the file a small window is in memory. */
#include "parquet/pages.h"

#include <string.h>

#include <zlib.h>

#include "base/error.h"
#include "parquet/format.h"

enum {
    READ_BYTES = 1 << 16,  /* least size of a read, so that small pages come many at once */
    HEADER_BYTES = 1 << 9, /* read beyond a page, for the next header */
    MAX_HEADER_BYTES = 1 << 24,
    MAX_PAGE_BYTES = 1 << 30,
    /* A page up to this size may be stored in next to nothing, as zeros are. A larger one must
     * take its share in the file: real values are seldom packed 10:1. */
    FREE_PAGE_BYTES = 1 << 24,
    MAX_PAGE_RATIO = 128,
};

void qk__pages_start(qk__pages *pages, const qk__source *source, int codec, int64_t offset,
                     int64_t end)
{
    pages->source = source;
    pages->codec = codec;
    pages->next = offset;
    pages->end = end;
    pages->window.size = 0;
    pages->window_offset = offset;
}

void qk__pages_free(qk__pages *pages)
{
    qk__buffer_free(&pages->window);
    qk__buffer_free(&pages->plain);
    qk__codec_state_free(&pages->scratch);
    *pages = (qk__pages){0};
}

/* Makes `size` bytes at `offset` present in the window (all within the chunk); offset never
 * goes back. Reads a little more, or everything that is left if that is little. */
static qk_status fetch(qk__pages *pages, int64_t offset, size_t size, const uint8_t **data,
                       size_t *available, qk_error *err)
{
    if (pages->source->contents->bytes) {
        *data = pages->source->contents->bytes + offset;
        *available = (size_t)(pages->end - offset);
        return QK_OK;
    }
    size_t skip = (size_t)(offset - pages->window_offset);
    if (skip > pages->window.size || pages->window.size - skip < size) {
        size_t kept = skip < pages->window.size ? pages->window.size - skip : 0;
        size_t wanted = size + HEADER_BYTES > READ_BYTES ? size + HEADER_BYTES : READ_BYTES;
        uint64_t rest = (uint64_t)(pages->end - offset);
        if (wanted > rest)
            wanted = (size_t)rest;
        if (kept > 0)
            memmove(pages->window.data, pages->window.data + skip, kept);
        pages->window.size = kept;
        pages->window_offset = offset;
        QK_TRY(qk__buffer_reserve(&pages->window, wanted, err));
        QK_TRY(qk__source_read(pages->source, pages->window.data + kept, wanted - kept,
                               offset + (int64_t)kept, err));
        pages->window.size = wanted;
        skip = 0;
    }
    *data = pages->window.data + skip;
    *available = pages->window.size - skip;
    return QK_OK;
}

static qk_status read_header(qk__pages *pages, qk__page_header *header, size_t *used,
                             qk_error *err)
{
    uint64_t rest = (uint64_t)(pages->end - pages->next);
    size_t limit = rest < MAX_HEADER_BYTES ? (size_t)rest : MAX_HEADER_BYTES;
    for (size_t size = limit < HEADER_BYTES / 4 ? limit : HEADER_BYTES / 4;;) {
        const uint8_t *data;
        size_t available;
        bool truncated;
        QK_TRY(fetch(pages, pages->next, size, &data, &available, err));
        qk_status status =
            qk__page_header_parse(header, data, available, used, &truncated, err);
        if (status != QK_OK && truncated && size == MAX_HEADER_BYTES)
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "over the limit: page header of more than %d bytes",
                            MAX_HEADER_BYTES);
        if (status == QK_OK || !truncated || available >= limit)
            return status;
        size = available > limit / 4 ? limit : available * 4;
    }
}

/* The most that `size` compressed bytes can become. */
static uint64_t largest_output(int codec, uint64_t size)
{
    switch (codec) {
    case CODEC_UNCOMPRESSED:
        return size;
    case CODEC_SNAPPY:
        return 64 + size * 24; /* 3 bytes copy at most 64 */
    case CODEC_GZIP:
        return 64 + size * 1040; /* 2 bits copy at most 258 */
    case CODEC_LZ4_RAW:
    case CODEC_LZ4_HADOOP:
        return 64 + size * 256; /* a byte lengthens a copy by at most 255 */
    case CODEC_ZSTD:
        return 64 + size * (1 << 16); /* a block of 4 bytes holds at most 128 KiB */
    default:
        return INT64_MAX; /* Brotli has no such bound */
    }
}

/* Refuses what may be sound, but is more than a page or a file of this size is trusted with. */
static qk_status check_limits(const qk__pages *pages, const qk__page_header *header,
                              qk_error *err)
{
    int64_t stored = header->compressed_bytes, size = header->uncompressed_bytes;
    if (size > MAX_PAGE_BYTES)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "over the limit: page of %lld bytes, %d can be read", (long long)size,
                        MAX_PAGE_BYTES);
    if (size > FREE_PAGE_BYTES && size / MAX_PAGE_RATIO > stored)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "over the limit: page of %lld bytes becomes %lld, above %d bytes no "
                        "more than %d times its size is read; write smaller pages",
                        (long long)stored, (long long)size, FREE_PAGE_BYTES, MAX_PAGE_RATIO);
    int64_t budget = qk__source_budget(pages->source);
    if (size > budget - pages->unpacked)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "over the limit: pages become more than the %lld bytes that a file of "
                        "%lld may",
                        (long long)budget, (long long)pages->source->size);
    return QK_OK;
}

static qk_status check_sizes(const qk__pages *pages, const qk__page_header *header, size_t used,
                             qk_error *err)
{
    if ((uint64_t)header->compressed_bytes > (uint64_t)(pages->end - pages->next) - used)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "page of %d bytes is larger than what is left of its column chunk",
                        header->compressed_bytes);
    bool plain = header->type == PAGE_DATA_V2 && !header->is_compressed;
    int codec = plain ? CODEC_UNCOMPRESSED : pages->codec;
    uint64_t most = largest_output(codec, (uint64_t)header->compressed_bytes);
    if (header->type == PAGE_DATA_V2) {
        int64_t levels = (int64_t)header->definition_bytes + header->repetition_bytes;
        if (levels > header->compressed_bytes || levels > header->uncompressed_bytes)
            return qk__fail(err, QK_ERR_MALFORMED, "levels are larger than their page");
        most += (uint64_t)levels;
    }
    if ((uint64_t)header->uncompressed_bytes > most)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "page of %d bytes claims to hold %d uncompressed",
                        header->compressed_bytes, header->uncompressed_bytes);
    return check_limits(pages, header, err);
}

/* Points the page at its bytes, decompressed if need be. */
static qk_status unpack_page(qk__pages *pages, qk__parquet_page *page, const uint8_t *data,
                             qk_error *err)
{
    const qk__page_header *header = &page->header;
    size_t stored = (size_t)header->compressed_bytes;
    size_t size = (size_t)header->uncompressed_bytes;
    bool compressed = pages->codec != CODEC_UNCOMPRESSED;
    if (header->type == PAGE_DATA_V2) {
        size_t levels = (size_t)header->repetition_bytes + (size_t)header->definition_bytes;
        page->repetition = data;
        page->definition = data + header->repetition_bytes;
        data += levels;
        stored -= levels;
        size -= levels;
        compressed = compressed && header->is_compressed;
    }
    if (!compressed && stored != size)
        return qk__fail(err, QK_ERR_MALFORMED, "uncompressed page of %zu bytes says it has %zu",
                        stored, size);
    if (compressed && size > 0) {
        QK_TRY(qk__buffer_reserve(&pages->plain, size, err));
        QK_TRY(qk__codec_decompress(&pages->scratch, pages->codec, data, stored,
                                    pages->plain.data, size, err));
        data = pages->plain.data;
    }
    page->data = data;
    page->size = size;
    return QK_OK;
}

static qk_status read_page(qk__pages *pages, qk__parquet_page *page, bool *found, qk_error *err)
{
    size_t used, available;
    const uint8_t *data;
    const qk__page_header *header = &page->header;
    QK_TRY(read_header(pages, &page->header, &used, err));
    QK_TRY(check_sizes(pages, header, used, err));
    int64_t payload = pages->next + (int64_t)used;
    pages->next = payload + header->compressed_bytes;
    pages->unpacked += header->uncompressed_bytes;
    *found = header->type == PAGE_DATA || header->type == PAGE_DATA_V2 ||
             header->type == PAGE_DICTIONARY;
    if (!*found)
        return QK_OK;
    size_t stored = (size_t)header->compressed_bytes;
    QK_TRY(fetch(pages, payload, stored, &data, &available, err));
    if (header->has_crc && crc32(0, data, (uInt)stored) != header->crc)
        return qk__fail(err, QK_ERR_MALFORMED, "page checksum (CRC) does not match its bytes");
    return unpack_page(pages, page, data, err);
}

qk_status qk__pages_next(qk__pages *pages, qk__parquet_page *page, bool *found, qk_error *err)
{
    *found = false;
    while (!*found && pages->next < pages->end) {
        *page = (qk__parquet_page){.offset = pages->next};
        QK_TRY(qk__context(err, read_page(pages, page, found, err), "page at byte %lld",
                           (long long)page->offset));
    }
    return QK_OK;
}
