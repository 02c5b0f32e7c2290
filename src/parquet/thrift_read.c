/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the Thrift compact protocol from a span of untrusted bytes. */
#include "parquet/thrift.h"

#include "parquet/bits.h"

/* The deepest structure of the format nests 7 levels; hostile input may nest for ever. */
enum { MAX_SKIP_DEPTH = 32 };

void qk__thrift_init(qk__thrift_reader *t, const uint8_t *data, size_t size)
{
    *t = (qk__thrift_reader){.next = data, .end = data + size};
}

void qk__thrift_fault(qk__thrift_reader *t, const char *fault)
{
    if (!t->fault)
        t->fault = fault;
    t->next = t->end;
}

static void run_out(qk__thrift_reader *t)
{
    if (!t->fault)
        t->truncated = true;
    qk__thrift_fault(t, "Thrift data end too soon");
}

static size_t bytes_left(const qk__thrift_reader *t)
{
    return (size_t)(t->end - t->next);
}

static uint8_t read_byte(qk__thrift_reader *t)
{
    if (t->next == t->end) {
        run_out(t);
        return 0;
    }
    return *t->next++;
}

static uint64_t read_varint(qk__thrift_reader *t)
{
    const uint8_t *start = t->next;
    uint64_t value;
    if (qk__varint_take(&t->next, t->end, 64, &value))
        return value;
    if (t->next - start == 10)
        qk__thrift_fault(t, "Thrift integer of more than 10 bytes");
    else
        run_out(t);
    return 0;
}

static int64_t read_zigzag(qk__thrift_reader *t)
{
    return qk__unzigzag(read_varint(t));
}

static int32_t fit_i32(qk__thrift_reader *t, int64_t value)
{
    if (value < INT32_MIN || value > INT32_MAX) {
        qk__thrift_fault(t, "Thrift integer does not fit 32 bits");
        return 0;
    }
    return (int32_t)value;
}

bool qk__thrift_read_field(qk__thrift_reader *t, qk__thrift_field *field)
{
    uint8_t head = read_byte(t);
    if (t->fault || head == THRIFT_STOP)
        return false;
    field->type = head & 0x0f;
    if (head >> 4)
        field->id += head >> 4;
    else
        field->id = qk__thrift_read_element(t);
    if (field->type == THRIFT_STOP || field->type > THRIFT_STRUCT)
        qk__thrift_fault(t, "unknown Thrift type");
    if (field->id < INT16_MIN || field->id > INT16_MAX)
        qk__thrift_fault(t, "Thrift field number out of range");
    return !t->fault;
}

static bool expect(qk__thrift_reader *t, bool as_expected)
{
    if (!as_expected)
        qk__thrift_fault(t, "Thrift field has the wrong type");
    return as_expected;
}

bool qk__thrift_read_bool(qk__thrift_reader *t, const qk__thrift_field *field)
{
    expect(t, field->type == THRIFT_TRUE || field->type == THRIFT_FALSE);
    return field->type == THRIFT_TRUE;
}

int64_t qk__thrift_read_i64(qk__thrift_reader *t, const qk__thrift_field *field)
{
    if (field->type == THRIFT_BYTE)
        return (int8_t)read_byte(t);
    return expect(t, field->type >= THRIFT_I16 && field->type <= THRIFT_I64) ? read_zigzag(t)
                                                                             : 0;
}

int32_t qk__thrift_read_i32(qk__thrift_reader *t, const qk__thrift_field *field)
{
    return fit_i32(t, qk__thrift_read_i64(t, field));
}

static qk__thrift_bytes read_binary(qk__thrift_reader *t)
{
    uint64_t size = read_varint(t);
    if (size > bytes_left(t)) {
        run_out(t);
        return (qk__thrift_bytes){0};
    }
    qk__thrift_bytes bytes = {t->next, (size_t)size};
    t->next += size;
    return bytes;
}

qk__thrift_bytes qk__thrift_read_binary(qk__thrift_reader *t, const qk__thrift_field *field)
{
    return expect(t, field->type == THRIFT_BINARY) ? read_binary(t) : (qk__thrift_bytes){0};
}

bool qk__thrift_read_struct(qk__thrift_reader *t, const qk__thrift_field *field)
{
    return expect(t, field->type == THRIFT_STRUCT);
}

static size_t read_list_head(qk__thrift_reader *t, uint8_t *type)
{
    uint8_t head = read_byte(t);
    *type = head & 0x0f;
    uint64_t count = head >> 4 == 15 ? read_varint(t) : head >> 4;
    /* Every element takes at least one byte. */
    if (count > bytes_left(t)) {
        run_out(t);
        return 0;
    }
    return (size_t)count;
}

size_t qk__thrift_read_list(qk__thrift_reader *t, const qk__thrift_field *field,
                            qk__thrift_type type, size_t min_bytes)
{
    if (!expect(t, field->type == THRIFT_LIST))
        return 0;
    uint8_t found;
    size_t count = read_list_head(t, &found);
    if (count > 0 && !expect(t, found == type))
        return 0;
    if (count > bytes_left(t) / min_bytes) {
        run_out(t);
        return 0;
    }
    return count;
}

int32_t qk__thrift_read_element(qk__thrift_reader *t)
{
    return fit_i32(t, read_zigzag(t));
}

static void skip_value(qk__thrift_reader *t, uint8_t type, bool in_container, int depth);

static void skip_map(qk__thrift_reader *t, int depth)
{
    uint64_t count = read_varint(t);
    if (count == 0)
        return;
    uint8_t types = read_byte(t);
    if (count > bytes_left(t)) {
        run_out(t);
        return;
    }
    for (uint64_t i = 0; i < count && !t->fault; i++) {
        skip_value(t, types >> 4, true, depth);
        skip_value(t, types & 0x0f, true, depth);
    }
}

static void skip_value(qk__thrift_reader *t, uint8_t type, bool in_container, int depth)
{
    if (depth > MAX_SKIP_DEPTH) {
        qk__thrift_fault(t, "Thrift data nested too deeply");
        return;
    }
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE: /* a field's type is its value; an element is a byte */
        if (in_container)
            read_byte(t);
        break;
    case THRIFT_BYTE:
        read_byte(t);
        break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        read_varint(t);
        break;
    case THRIFT_DOUBLE:
        if (bytes_left(t) < 8)
            run_out(t);
        else
            t->next += 8;
        break;
    case THRIFT_BINARY:
        read_binary(t);
        break;
    case THRIFT_LIST:
    case THRIFT_SET: {
        uint8_t element;
        size_t count = read_list_head(t, &element);
        for (size_t i = 0; i < count && !t->fault; i++)
            skip_value(t, element, true, depth + 1);
        break;
    }
    case THRIFT_MAP:
        skip_map(t, depth + 1);
        break;
    case THRIFT_STRUCT: {
        qk__thrift_field field = {0};
        while (qk__thrift_read_field(t, &field))
            skip_value(t, field.type, false, depth + 1);
        break;
    }
    default:
        qk__thrift_fault(t, "unknown Thrift type");
    }
}

void qk__thrift_skip(qk__thrift_reader *t, const qk__thrift_field *field)
{
    skip_value(t, field->type, false, 0);
}

/* ---- structs by their tables ------------------------------------------------------------ */

static void read_member(qk__thrift_reader *t, const qk__thrift_field *field,
                        const qk__thrift_member *member, void *target)
{
    void *at = (char *)target + member->at;
    if (member->read) {
        member->read(t, field, target);
        return;
    }
    switch (member->value) {
    case QK__THRIFT_INT32:
        *(int32_t *)at = qk__thrift_read_i32(t, field);
        break;
    case QK__THRIFT_INT64:
        *(int64_t *)at = qk__thrift_read_i64(t, field);
        break;
    case QK__THRIFT_BOOL:
        *(bool *)at = qk__thrift_read_bool(t, field);
        break;
    case QK__THRIFT_BYTES:
        *(qk__thrift_bytes *)at = qk__thrift_read_binary(t, field);
        break;
    }
}

uint32_t qk__thrift_read_members(qk__thrift_reader *t, const qk__thrift_member *members,
                                 void *target)
{
    uint32_t seen = 0;
    qk__thrift_field field = {0};
    while (qk__thrift_read_field(t, &field)) {
        const qk__thrift_member *member = members;
        if (field.id > 0 && field.id < 32)
            seen |= UINT32_C(1) << field.id;
        while (member->id != 0 && member->id != field.id)
            member++;
        if (member->id != 0)
            read_member(t, &field, member, target);
        else
            qk__thrift_skip(t, &field);
    }
    return seen;
}
