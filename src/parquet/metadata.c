/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the footer: field numbers are those of the format's Thrift definition. */
#include "parquet/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "parquet/format.h"
#include "parquet/thrift_read.h"

/* Least encoded sizes of list elements, to bound counts. */
enum {
    MIN_NODE_BYTES = 3,  /* a name */
    MIN_CHUNK_BYTES = 3, /* a file offset */
    MIN_GROUP_BYTES = 3, /* a column list */
};

static void parse_integer_type(qk__thrift_reader *t, qk__schema_node *node)
{
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        if (field.id == 2)
            node->logical_unsigned = !qk__thrift_read_bool(t, &field);
        else
            qk__thrift_skip(t, &field);
    }
}

static void parse_logical_type(qk__thrift_reader *t, qk__schema_node *node)
{
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        node->logical = field.id;
        if (field.id == LOGICAL_INTEGER && qk__thrift_read_struct(t, &field))
            parse_integer_type(t, node);
        else
            qk__thrift_skip(t, &field);
    }
}

static void parse_node(qk__thrift_reader *t, qk__schema_node *node)
{
    *node = (qk__schema_node){.type = -1, .repetition = -1, .converted = -1};
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        switch (field.id) {
        case 1:
            node->type = qk__thrift_read_i32(t, &field);
            if (node->type < 0)
                qk__thrift_fault(t, "negative physical type");
            break;
        case 2:
            node->type_length = qk__thrift_read_i32(t, &field);
            break;
        case 3:
            node->repetition = qk__thrift_read_i32(t, &field);
            break;
        case 4: {
            qk__thrift_bytes name = qk__thrift_read_binary(t, &field);
            node->name = name.data;
            node->name_size = name.size;
            break;
        }
        case 5:
            node->num_children = qk__thrift_read_i32(t, &field);
            if (node->num_children < 0)
                qk__thrift_fault(t, "negative number of children in the schema");
            break;
        case 6:
            node->converted = qk__thrift_read_i32(t, &field);
            break;
        case 10:
            if (qk__thrift_read_struct(t, &field))
                parse_logical_type(t, node);
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
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

static void parse_statistics(qk__thrift_reader *t, qk__chunk *chunk)
{
    /* Old writers put signed bounds in fields 1 and 2; for integers they mean the same. */
    qk__thrift_bytes min = {0}, max = {0};
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        switch (field.id) {
        case 1:
        case 5:
            max = qk__thrift_read_binary(t, &field);
            break;
        case 2:
        case 6:
            min = qk__thrift_read_binary(t, &field);
            break;
        case 3:
            chunk->null_count = qk__thrift_read_i64(t, &field);
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
    chunk->has_range = !t->fault && parse_bound(min, chunk->type, &chunk->min) &&
                       parse_bound(max, chunk->type, &chunk->max);
}

static void parse_encodings(qk__thrift_reader *t, const qk__thrift_field *field,
                            qk__chunk *chunk)
{
    size_t count = qk__thrift_read_list(t, field, THRIFT_I32, 1);
    for (size_t i = 0; i < count; i++) {
        int32_t encoding = qk__thrift_read_element(t);
        if (encoding >= 0 && encoding < 32)
            chunk->encodings |= UINT32_C(1) << encoding;
    }
}

static void parse_chunk_metadata(qk__thrift_reader *t, qk__chunk *chunk)
{
    int64_t data = -1, dictionary = -1;
    unsigned seen = 0;
    chunk->has_metadata = true;
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        if (field.id > 0 && field.id < 32)
            seen |= 1u << field.id;
        switch (field.id) {
        case 1:
            chunk->type = qk__thrift_read_i32(t, &field);
            break;
        case 2:
            parse_encodings(t, &field, chunk);
            break;
        case 4:
            chunk->codec = qk__thrift_read_i32(t, &field);
            break;
        case 5:
            chunk->num_values = qk__thrift_read_i64(t, &field);
            break;
        case 6:
            chunk->uncompressed_bytes = qk__thrift_read_i64(t, &field);
            break;
        case 7:
            chunk->compressed_bytes = qk__thrift_read_i64(t, &field);
            break;
        case 9:
            data = qk__thrift_read_i64(t, &field);
            break;
        case 11:
            dictionary = qk__thrift_read_i64(t, &field);
            break;
        case 12:
            if (qk__thrift_read_struct(t, &field))
                parse_statistics(t, chunk);
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
    const unsigned required = 1u << 1 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 9;
    if ((seen & required) != required)
        qk__thrift_fault(t, "column chunk lacks a required field");
    if (chunk->num_values < 0 || chunk->compressed_bytes < 0 || chunk->uncompressed_bytes < 0)
        qk__thrift_fault(t, "column chunk with a negative size");
    /* Some writers record a dictionary offset of 0 for "none". */
    chunk->offset = dictionary > 0 && dictionary < data ? dictionary : data;
}

static void parse_chunk(qk__thrift_reader *t, qk__chunk *chunk)
{
    *chunk = (qk__chunk){.null_count = -1};
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        switch (field.id) {
        case 1:
            chunk->elsewhere = qk__thrift_read_binary(t, &field).size > 0;
            break;
        case 3:
            if (qk__thrift_read_struct(t, &field))
                parse_chunk_metadata(t, chunk);
            break;
        case 8:
        case 9:
            chunk->encrypted = true;
            qk__thrift_skip(t, &field);
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
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
    for (size_t i = 0; i < count && !t->fault; i++) {
        qk_status status = parse_group(m, t, &m->groups[i], err);
        if (status != QK_OK)
            return qk__context(err, status, "row group %zu", i);
    }
    return QK_OK;
}

static qk_status parse_created_by(qk__metadata *m, qk__thrift_bytes text, qk_error *err)
{
    free(m->created_by);
    m->created_by = malloc(text.size + 1);
    if (!m->created_by)
        return qk__nomem(err);
    if (text.size > 0)
        memcpy(m->created_by, text.data, text.size);
    m->created_by[text.size] = 0;
    return QK_OK;
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
