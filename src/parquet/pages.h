/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of one column chunk, read in order: found, checked, decompressed. */
#ifndef QK_PARQUET_PAGES_H
#define QK_PARQUET_PAGES_H

#include <qkscope/parquet.h>

#include "base/buffer.h"
#include "parquet/codec.h"
#include "parquet/metadata.h"
#include "parquet/source.h"

/* A page ready to decode; the spans stay until the next call. */
typedef struct qk__parquet_page {
    qk__page_header header;
    int64_t offset; /* of the header in the file */
    const uint8_t *data;
    size_t size; /* everything, decompressed; v2: without the levels */
    const uint8_t *repetition, *definition; /* v2 */
} qk__parquet_page;

typedef struct qk__pages {
    const qk__source *source;
    int64_t unpacked; /* bytes decompressed from this source so far */
    int codec;
    int64_t next, end; /* file offsets: next page header, end of the chunk */
    qk__buffer window; /* file bytes from window_offset on, if the file is not in memory */
    int64_t window_offset;
    qk__buffer plain; /* the decompressed page */
    qk__codec_state scratch;
} qk__pages;

/* Moves to a chunk; buffers are kept. */
void qk__pages_start(qk__pages *pages, const qk__source *source, int codec, int64_t offset,
                     int64_t end);
void qk__pages_free(qk__pages *pages);

/* Next data or dictionary page; other kinds are passed over. *found is false at the end of
 * the chunk. Messages name the page's offset. */
QK_MUST_CHECK qk_status qk__pages_next(qk__pages *pages, qk__parquet_page *page, bool *found,
                                       qk_error *err);

#endif
