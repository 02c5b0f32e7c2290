/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding page headers: field numbers are those of the format's Thrift definition. */
#include "parquet/metadata.h"

#include "base/error.h"
#include "parquet/format.h"
#include "parquet/thrift_read.h"

static void parse_data_page(qk__thrift_reader *t, qk__page_header *header)
{
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        switch (field.id) {
        case 1:
            header->num_values = qk__thrift_read_i32(t, &field);
            break;
        case 2:
            header->encoding = qk__thrift_read_i32(t, &field);
            break;
        case 3:
            header->definition_encoding = qk__thrift_read_i32(t, &field);
            break;
        case 4:
            header->repetition_encoding = qk__thrift_read_i32(t, &field);
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
}

static void parse_data_page_v2(qk__thrift_reader *t, qk__page_header *header)
{
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        switch (field.id) {
        case 1:
            header->num_values = qk__thrift_read_i32(t, &field);
            break;
        case 4:
            header->encoding = qk__thrift_read_i32(t, &field);
            break;
        case 5:
            header->definition_bytes = qk__thrift_read_i32(t, &field);
            break;
        case 6:
            header->repetition_bytes = qk__thrift_read_i32(t, &field);
            break;
        case 7:
            header->is_compressed = qk__thrift_read_bool(t, &field);
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
}

static void parse_dictionary_page(qk__thrift_reader *t, qk__page_header *header)
{
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        if (field.id == 1)
            header->num_values = qk__thrift_read_i32(t, &field);
        else if (field.id == 2)
            header->encoding = qk__thrift_read_i32(t, &field);
        else
            qk__thrift_skip(t, &field);
    }
}

static void parse_details(qk__thrift_reader *t, const qk__thrift_field *field,
                          qk__page_header *header)
{
    static const int type_of_field[] = {
        [5] = PAGE_DATA, [7] = PAGE_DICTIONARY, [8] = PAGE_DATA_V2};
    /* The type is written first; details of another type than the page's are not its own. */
    if (!qk__thrift_read_struct(t, field))
        return;
    qk__page_header other = *header;
    if (type_of_field[field->id] == header->type) {
        header->has_details = true;
    } else {
        header = &other;
    }
    if (field->id == 5)
        parse_data_page(t, header);
    else if (field->id == 7)
        parse_dictionary_page(t, header);
    else
        parse_data_page_v2(t, header);
}

static void parse_header(qk__thrift_reader *t, qk__page_header *header)
{
    *header = (qk__page_header){.type = -1,
                                .compressed_bytes = -1,
                                .uncompressed_bytes = -1,
                                .num_values = -1,
                                .encoding = -1,
                                .definition_encoding = ENC_RLE,
                                .repetition_encoding = ENC_RLE,
                                .is_compressed = true};
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        switch (field.id) {
        case 1:
            header->type = qk__thrift_read_i32(t, &field);
            break;
        case 2:
            header->uncompressed_bytes = qk__thrift_read_i32(t, &field);
            break;
        case 3:
            header->compressed_bytes = qk__thrift_read_i32(t, &field);
            break;
        case 4:
            header->crc = (uint32_t)qk__thrift_read_i32(t, &field);
            header->has_crc = true;
            break;
        case 5:
        case 7:
        case 8:
            parse_details(t, &field, header);
            break;
        default:
            qk__thrift_skip(t, &field);
        }
    }
}

qk_status qk__page_header_parse(qk__page_header *header, const uint8_t *data, size_t size,
                                size_t *used, bool *truncated, qk_error *err)
{
    qk__thrift_reader t;
    qk__thrift_init(&t, data, size);
    parse_header(&t, header);
    *truncated = t.truncated;
    if (t.fault)
        return qk__fail(err, QK_ERR_MALFORMED, "damaged page header: %s", t.fault);
    *used = (size_t)(t.next - data);
    if (header->type < 0 || header->compressed_bytes < 0 || header->uncompressed_bytes < 0)
        return qk__fail(err, QK_ERR_MALFORMED, "page header lacks its type or a size");
    bool known = header->type == PAGE_DATA || header->type == PAGE_DATA_V2 ||
                 header->type == PAGE_DICTIONARY;
    if (!known)
        return QK_OK;
    if (!header->has_details || header->num_values < 0 || header->encoding < 0 ||
        header->definition_bytes < 0 || header->repetition_bytes < 0)
        return qk__fail(err, QK_ERR_MALFORMED, "page header lacks its details");
    return QK_OK;
}
