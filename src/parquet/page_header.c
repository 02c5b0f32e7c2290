/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the header of a page. Field numbers are those of parquet.thrift. */
#include "parquet/metadata.h"

#include "base/error.h"
#include "parquet/format.h"
#include "parquet/thrift.h"

/* DataPageHeader, DictionaryPageHeader and DataPageHeaderV2: the fields 5, 7 and 8 of a
 * PageHeader. */
static const qk__thrift_member DATA_PAGE[] = {
    QK__THRIFT_AT(1, INT32, qk__page_header, num_values),
    QK__THRIFT_AT(2, INT32, qk__page_header, encoding),
    QK__THRIFT_AT(3, INT32, qk__page_header, definition_encoding),
    QK__THRIFT_AT(4, INT32, qk__page_header, repetition_encoding),
    {0}};
static const qk__thrift_member DICTIONARY_PAGE[] = {
    QK__THRIFT_AT(1, INT32, qk__page_header, num_values),
    QK__THRIFT_AT(2, INT32, qk__page_header, encoding),
    {0}};
static const qk__thrift_member DATA_PAGE_V2[] = {
    QK__THRIFT_AT(1, INT32, qk__page_header, num_values),
    QK__THRIFT_AT(4, INT32, qk__page_header, encoding),
    QK__THRIFT_AT(5, INT32, qk__page_header, definition_bytes),
    QK__THRIFT_AT(6, INT32, qk__page_header, repetition_bytes),
    QK__THRIFT_AT(7, BOOL, qk__page_header, is_compressed),
    {0}};

/* The type is written first; details of another type than the page's are not its own. */
static void read_details(qk__thrift_reader *t, const qk__thrift_field *field, void *target)
{
    qk__page_header *header = target, other = *header;
    int type = field->id == 5 ? PAGE_DATA : field->id == 7 ? PAGE_DICTIONARY : PAGE_DATA_V2;
    if (!qk__thrift_read_struct(t, field))
        return;
    header->has_details |= type == header->type;
    qk__thrift_read_members(t,
                            type == PAGE_DATA         ? DATA_PAGE
                            : type == PAGE_DICTIONARY ? DICTIONARY_PAGE
                                                      : DATA_PAGE_V2,
                            type == header->type ? header : &other);
}

static const qk__thrift_member HEADER[] = {
    QK__THRIFT_AT(1, INT32, qk__page_header, type),
    QK__THRIFT_AT(2, INT32, qk__page_header, uncompressed_bytes),
    QK__THRIFT_AT(3, INT32, qk__page_header, compressed_bytes),
    QK__THRIFT_AT(4, INT32, qk__page_header, crc),
    {5, .read = read_details},
    {7, .read = read_details},
    {8, .read = read_details},
    {0}};

qk_status qk__page_header_parse(qk__page_header *header, const uint8_t *data, size_t size,
                                size_t *used, bool *truncated, qk_error *err)
{
    qk__thrift_reader t;
    *header = (qk__page_header){.type = -1,
                                .compressed_bytes = -1,
                                .uncompressed_bytes = -1,
                                .num_values = -1,
                                .encoding = -1,
                                .definition_encoding = ENC_RLE,
                                .repetition_encoding = ENC_RLE,
                                .is_compressed = true};
    qk__thrift_init(&t, data, size);
    header->has_crc = qk__thrift_read_members(&t, HEADER, header) >> 4 & 1;
    *truncated = t.truncated;
    if (t.fault)
        return qk__fail(err, QK_ERR_MALFORMED, "damaged page header: %s", t.fault);
    *used = (size_t)(t.next - data);
    if (header->type < 0 || header->compressed_bytes < 0 || header->uncompressed_bytes < 0)
        return qk__fail(err, QK_ERR_MALFORMED, "page header lacks its type or a size");
    bool known = header->type == PAGE_DATA || header->type == PAGE_DATA_V2 ||
                 header->type == PAGE_DICTIONARY;
    if (known && (!header->has_details || header->num_values < 0 || header->encoding < 0 ||
                  header->definition_bytes < 0 || header->repetition_bytes < 0))
        return qk__fail(err, QK_ERR_MALFORMED, "page header lacks its details");
    return QK_OK;
}
