/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the footer of a Parquet file. Field numbers are those of parquet.thrift. */
#include "parquet/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "parquet/format.h"
#include "parquet/thrift.h"

/* Least encoded sizes of list elements, to bound counts. */
enum {
    MIN_NODE_BYTES = 3,  /* a name */
    MIN_CHUNK_BYTES = 3, /* a file offset */
    MIN_GROUP_BYTES = 3, /* a column list */
};

static bool has_field(uint32_t seen, int id)
{
    return seen >> id & 1;
}

/* A union: the id of its only field says which type it is. Of integers it holds the sign. */
static void read_logical_type(qk__thrift_reader *t, const qk__thrift_field *union_field,
                              void *target)
{
    static const qk__thrift_member INTEGER[] = {
        QK__THRIFT_AT(2, BOOL, qk__schema_node, logical_signed), {0}};
    qk__schema_node *node = target;
    qk__thrift_field field = {0};
    if (!qk__thrift_read_struct(t, union_field))
        return;
    while (qk__thrift_read_field(t, &field)) {
        node->logical = field.id;
        if (field.id == LOGICAL_INTEGER && qk__thrift_read_struct(t, &field))
            qk__thrift_read_members(t, INTEGER, node);
        else
            qk__thrift_skip(t, &field);
    }
}

/* SchemaElement. */
static void parse_node(qk__thrift_reader *t, qk__schema_node *node)
{
    static const qk__thrift_member NODE[] = {
        QK__THRIFT_AT(1, INT32, qk__schema_node, type),
        QK__THRIFT_AT(2, INT32, qk__schema_node, type_length),
        QK__THRIFT_AT(3, INT32, qk__schema_node, repetition),
        QK__THRIFT_AT(4, BYTES, qk__schema_node, name),
        QK__THRIFT_AT(5, INT32, qk__schema_node, num_children),
        QK__THRIFT_AT(6, INT32, qk__schema_node, converted),
        {10, .read = read_logical_type},
        {0}};
    *node = (qk__schema_node){
        .type = -1, .repetition = -1, .converted = -1, .logical_signed = true};
    uint32_t seen = qk__thrift_read_members(t, NODE, node);
    if (has_field(seen, 1) && node->type < 0)
        qk__thrift_fault(t, "negative physical type");
    if (node->num_children < 0)
        qk__thrift_fault(t, "negative number of children in the schema");
}

static qk_status parse_schema(qk__metadata *m, qk__thrift_reader *t,
                              const qk__thrift_field *field, qk_error *err)
{
    if (m->leaves)
        return qk__fail(err, QK_ERR_MALFORMED, "footer has two schemas");
    size_t count = qk__thrift_read_list(t, field, THRIFT_STRUCT, MIN_NODE_BYTES);
    if (t->fault || count == 0)
        return t->fault ? QK_OK : qk__fail(err, QK_ERR_MALFORMED, "footer has no schema");
    qk__schema_node *nodes = qk__calloc(count, sizeof *nodes);
    if (!nodes)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++)
        parse_node(t, &nodes[i]);
    qk_status status = QK_OK;
    if (!t->fault)
        status = qk__schema_leaves(nodes, count, &m->leaves, &m->num_leaves, err);
    free(nodes);
    return status;
}

/* A bound of an integer column, as the plain encoding stores it. */
static bool parse_bound(qk__thrift_bytes bytes, int type, int64_t *value)
{
    if (type == QK_PARQUET_INT32 && bytes.size == 4) {
        int32_t narrow;
        memcpy(&narrow, bytes.data, 4);
        *value = narrow;
        return true;
    }
    if (type == QK_PARQUET_INT64 && bytes.size == 8) {
        memcpy(value, bytes.data, 8);
        return true;
    }
    return false;
}

static void read_statistics(qk__thrift_reader *t, const qk__thrift_field *field, void *target)
{
    struct bounds {
        qk__thrift_bytes min, max;
        int64_t null_count;
    } bounds = {.null_count = -1};
    /* Old writers put signed bounds in fields 1 and 2; for integers they mean the same. */
    static const qk__thrift_member STATISTICS[] = {
        QK__THRIFT_AT(1, BYTES, struct bounds, max),
        QK__THRIFT_AT(2, BYTES, struct bounds, min),
        QK__THRIFT_AT(3, INT64, struct bounds, null_count),
        QK__THRIFT_AT(5, BYTES, struct bounds, max),
        QK__THRIFT_AT(6, BYTES, struct bounds, min),
        {0}};
    qk__chunk *chunk = target;
    if (!qk__thrift_read_struct(t, field))
        return;
    qk__thrift_read_members(t, STATISTICS, &bounds);
    chunk->null_count = bounds.null_count;
    chunk->has_range = !t->fault && parse_bound(bounds.min, chunk->type, &chunk->min) &&
                       parse_bound(bounds.max, chunk->type, &chunk->max);
}

static void read_encodings(qk__thrift_reader *t, const qk__thrift_field *field, void *target)
{
    qk__chunk *chunk = target;
    size_t count = qk__thrift_read_list(t, field, THRIFT_I32, 1);
    for (size_t i = 0; i < count; i++) {
        int32_t encoding = qk__thrift_read_element(t);
        if (encoding >= 0 && encoding < 32)
            chunk->encodings |= UINT32_C(1) << encoding;
    }
}

/* ColumnMetaData. */
static void read_chunk_metadata(qk__thrift_reader *t, const qk__thrift_field *field,
                                void *target)
{
    static const qk__thrift_member METADATA[] = {
        QK__THRIFT_AT(1, INT32, qk__chunk, type),
        {2, .read = read_encodings},
        QK__THRIFT_AT(4, INT32, qk__chunk, codec),
        QK__THRIFT_AT(5, INT64, qk__chunk, num_values),
        QK__THRIFT_AT(6, INT64, qk__chunk, uncompressed_bytes),
        QK__THRIFT_AT(7, INT64, qk__chunk, compressed_bytes),
        QK__THRIFT_AT(9, INT64, qk__chunk, offset),
        QK__THRIFT_AT(11, INT64, qk__chunk, dictionary_offset),
        {12, .read = read_statistics},
        {0}};
    static const int REQUIRED[] = {1, 4, 5, 7, 9};
    qk__chunk *chunk = target;
    if (!qk__thrift_read_struct(t, field))
        return;
    uint32_t seen = qk__thrift_read_members(t, METADATA, chunk);
    chunk->has_metadata = true;
    for (size_t i = 0; i < sizeof REQUIRED / sizeof *REQUIRED; i++)
        if (!has_field(seen, REQUIRED[i]))
            qk__thrift_fault(t, "column chunk lacks a required field");
    if (chunk->num_values < 0 || chunk->compressed_bytes < 0 || chunk->uncompressed_bytes < 0)
        qk__thrift_fault(t, "column chunk with a negative size");
    /* Some writers record a dictionary offset of 0 for "none". */
    if (chunk->dictionary_offset > 0 && chunk->dictionary_offset < chunk->offset)
        chunk->offset = chunk->dictionary_offset;
}

static void read_file_path(qk__thrift_reader *t, const qk__thrift_field *field, void *target)
{
    qk__chunk *chunk = target;
    chunk->elsewhere = qk__thrift_read_binary(t, field).size > 0;
}

/* ColumnChunk. */
static void parse_chunk(qk__thrift_reader *t, qk__chunk *chunk)
{
    static const qk__thrift_member CHUNK[] = {
        {1, .read = read_file_path}, {3, .read = read_chunk_metadata}, {0}};
    *chunk = (qk__chunk){.null_count = -1};
    uint32_t seen = qk__thrift_read_members(t, CHUNK, chunk);
    chunk->encrypted = has_field(seen, 8) || has_field(seen, 9);
}

static qk_status parse_group(const qk__metadata *m, qk__thrift_reader *t, qk__row_group *group,
                             qk_error *err)
{
    group->num_rows = -1;
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        if (field.id == 1) {
            size_t count = qk__thrift_read_list(t, &field, THRIFT_STRUCT, MIN_CHUNK_BYTES);
            if (t->fault)
                break;
            if (count != m->num_leaves || group->chunks)
                return qk__fail(err, QK_ERR_MALFORMED,
                                "%zu column chunks where the schema has %zu columns", count,
                                m->num_leaves);
            group->chunks = qk__calloc(count, sizeof *group->chunks);
            if (!group->chunks && count > 0)
                return qk__nomem(err);
            for (size_t i = 0; i < count; i++)
                parse_chunk(t, &group->chunks[i]);
        } else if (field.id == 3) {
            group->num_rows = qk__thrift_read_i64(t, &field);
        } else {
            qk__thrift_skip(t, &field);
        }
    }
    if (!t->fault && (group->num_rows < 0 || (!group->chunks && m->num_leaves > 0)))
        return qk__fail(err, QK_ERR_MALFORMED, "lacks its columns or its number of rows");
    return QK_OK;
}

static qk_status parse_groups(qk__metadata *m, qk__thrift_reader *t,
                              const qk__thrift_field *field, qk_error *err)
{
    if (m->groups || !m->leaves)
        return qk__fail(err, QK_ERR_MALFORMED, "footer is out of order");
    size_t count = qk__thrift_read_list(t, field, THRIFT_STRUCT, MIN_GROUP_BYTES);
    if (t->fault || count == 0)
        return QK_OK;
    m->groups = qk__calloc(count, sizeof *m->groups);
    if (!m->groups)
        return qk__nomem(err);
    m->num_groups = count;
    for (size_t i = 0; i < count && !t->fault; i++)
        QK_TRY(qk__context(err, parse_group(m, t, &m->groups[i], err), "row group %zu", i));
    return QK_OK;
}

static qk_status parse_created_by(qk__metadata *m, qk__thrift_bytes text, qk_error *err)
{
    free(m->created_by);
    m->created_by = strndup(text.data ? (const char *)text.data : "", text.size);
    return m->created_by ? QK_OK : qk__nomem(err);
}

static qk_status parse_file(qk__metadata *m, qk__thrift_reader *t, qk_error *err)
{
    m->num_rows = -1;
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        switch (field.id) {
        case 2:
            QK_TRY(parse_schema(m, t, &field, err));
            break;
        case 3:
            m->num_rows = qk__thrift_read_i64(t, &field);
            break;
        case 4:
            QK_TRY(parse_groups(m, t, &field, err));
            break;
        case 6:
            QK_TRY(parse_created_by(m, qk__thrift_read_binary(t, &field), err));
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
    if (t->fault)
        return qk__fail(err, QK_ERR_MALFORMED, "damaged footer: %s", t->fault);
    if (!m->leaves || m->num_rows < 0)
        return qk__fail(err, QK_ERR_MALFORMED, "footer lacks the schema or number of rows");
    if (!m->created_by)
        return parse_created_by(m, (qk__thrift_bytes){0}, err);
    return QK_OK;
}

qk_status qk__metadata_parse(qk__metadata *metadata, const uint8_t *data, size_t size,
                             qk_error *err)
{
    *metadata = (qk__metadata){0};
    qk__thrift_reader t;
    qk__thrift_init(&t, data, size);
    qk_status status = parse_file(metadata, &t, err);
    if (status != QK_OK)
        qk__metadata_free(metadata);
    return status;
}

void qk__metadata_free(qk__metadata *metadata)
{
    for (size_t i = 0; i < metadata->num_leaves; i++)
        free(metadata->leaves[i].path);
    free(metadata->leaves);
    for (size_t i = 0; i < metadata->num_groups; i++)
        free(metadata->groups[i].chunks);
    free(metadata->groups);
    free(metadata->created_by);
    *metadata = (qk__metadata){0};
}
