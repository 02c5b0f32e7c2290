/* SPDX-License-Identifier: Apache-2.0 */
/* What the footer of a Parquet file says, checked and in the form the reader needs. metadata.c
 * reads it and calls schema.c; page_header.c reads the header of a page. */
#ifndef QK_PARQUET_METADATA_H
#define QK_PARQUET_METADATA_H

#include <qkscope/parquet.h>

#include "parquet/thrift.h"

/* One leaf of the schema: a column that holds values. `info` is what the public API shows;
 * reader.c fills in its sums over row groups. */
typedef struct qk__leaf {
    qk_parquet_column info;
    char *path;        /* owned; info.path */
    size_t top_length; /* bytes of path that name the top-level field */
    int32_t field;     /* which of these fields it is in */
    bool is_unsigned;  /* recorded ranges do not order as signed integers */
} qk__leaf;

/* One column of one row group. */
typedef struct qk__chunk {
    bool has_metadata; /* false: it is encrypted, or in another file */
    bool encrypted;
    bool elsewhere; /* its data are in another file */
    bool has_range;
    int type, codec;
    uint32_t encodings;
    int64_t offset; /* of the first page */
    int64_t dictionary_offset;
    int64_t compressed_bytes, uncompressed_bytes;
    int64_t num_values;
    int64_t null_count; /* -1: not recorded */
    int64_t min, max;
} qk__chunk;

typedef struct qk__row_group {
    int64_t num_rows;
    qk__chunk *chunks; /* one per leaf */
} qk__row_group;

typedef struct qk__metadata {
    int64_t num_rows;
    char *created_by; /* never NULL after a successful parse */
    qk__leaf *leaves;
    size_t num_leaves;
    qk__row_group *groups;
    size_t num_groups;
} qk__metadata;

/* Decodes a FileMetaData struct; on failure nothing is left to free. */
QK_MUST_CHECK qk_status qk__metadata_parse(qk__metadata *metadata, const uint8_t *data,
                                           size_t size, qk_error *err);
void qk__metadata_free(qk__metadata *metadata);

/* One node of the schema as it is stored: a tree in depth-first order. */
typedef struct qk__schema_node {
    qk__thrift_bytes name; /* into the footer, not terminated */
    int type;              /* -1: a group */
    int type_length;
    int repetition; /* -1: not recorded (the root) */
    int32_t num_children;
    int converted; /* -1: none */
    int logical;   /* field id in the LogicalType union, 0: none */
    bool logical_signed;
} qk__schema_node;

/* Walks the tree of count >= 1 nodes and lists its leaves with their levels. */
QK_MUST_CHECK qk_status qk__schema_leaves(const qk__schema_node *nodes, size_t count,
                                          qk__leaf **leaves, size_t *num_leaves, qk_error *err);

/* Header of one page. */
typedef struct qk__page_header {
    int type;
    int32_t compressed_bytes, uncompressed_bytes;
    bool has_crc;
    uint32_t crc;
    bool has_details; /* the part that belongs to the type was there */
    int32_t num_values;
    int encoding;
    int definition_encoding, repetition_encoding; /* v1 */
    int32_t definition_bytes, repetition_bytes;   /* v2 */
    bool is_compressed;                           /* v2 */
} qk__page_header;

/* Decodes a page header from the start of a span. *used is its size. When the span ends
 * inside the header, *truncated is set with the failure. */
QK_MUST_CHECK qk_status qk__page_header_parse(qk__page_header *header, const uint8_t *data,
                                              size_t size, size_t *used, bool *truncated,
                                              qk_error *err);

#endif
