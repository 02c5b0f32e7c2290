/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON parser that makes jansson's values, and writes their text. */
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "base/parse_number.h"
#include "base/utf8.h"

enum { MAX_NESTING = 2048 };

/* Strings with escapes are decoded one behind the other: a key waits there for its value. */
typedef struct reader {
    const char *text, *at, *end;
    const qk__json_limits *limits;
    int nesting;
    bool half;     /* a surrogate in the current string */
    size_t memory; /* of the values, about */
    qk__buffer decoded;
    qk_error *err;
} reader;

static qk_status read_value(reader *r, json_t **value);

/* ---- places ----------------------------------------------------------------------------- */

/* The error is at r->at. */
static qk_status fail(reader *r, const char *what)
{
    const char *line = r->text;
    size_t lines = 1;
    for (const char *p; (p = memchr(line, '\n', (size_t)(r->at - line))) != NULL; line = p + 1)
        lines++;
    if (lines > 1)
        return qk__fail(r->err, QK_ERR_MALFORMED, "line %zu, byte %td: %s", lines,
                        r->at - line + 1, what);
    return qk__fail(r->err, QK_ERR_MALFORMED, "byte %td: %s", r->at - line + 1, what);
}

static qk_status fail_at(reader *r, const char *at, const char *what)
{
    r->at = at;
    return fail(r, what);
}

static qk_status made(reader *r, const json_t *value)
{
    return value ? QK_OK : qk__nomem(r->err);
}

/* Before the value is made. */
static qk_status count(reader *r, size_t memory)
{
    r->memory += memory;
    if (r->memory <= r->limits->values)
        return QK_OK;
    char what[160];
    snprintf(what, sizeof what,
             "more values than %s may have: they would take over %zu MB of memory",
             r->limits->what, r->limits->values >> 20);
    return fail(r, what);
}

static char peek(const reader *r)
{
    return r->at < r->end ? *r->at : 0;
}

/* The next character that is no white space, 0 at the end. */
static char next(reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
    return peek(r);
}

static bool take_word(reader *r, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

/* ---- numbers ---------------------------------------------------------------------------- */

/* A list of one string that begins with a byte that no string of a text can have. */
static const char ODD_MARK = '\xff';

const char *qk__json_odd_number(const json_t *value)
{
    const char *text = json_string_value(json_array_get(value, 0));
    return text && *text == ODD_MARK ? text + 1 : NULL;
}

static qk_status odd_number(reader *r, const char *text, size_t length, json_t **value)
{
    size_t start = r->decoded.size;
    QK_TRY(count(r, QK__LIST_MEMORY + QK__STRING_MEMORY));
    QK_TRY(qk__buffer_append(&r->decoded, &ODD_MARK, 1, r->err));
    QK_TRY(qk__buffer_append(&r->decoded, text, length, r->err));
    *value = json_array();
    QK_TRY(made(r, *value));
    json_t *string =
        json_stringn_nocheck((const char *)r->decoded.data + start, r->decoded.size - start);
    r->decoded.size = start;
    return json_array_append_new(*value, string) == 0 ? QK_OK : qk__nomem(r->err);
}

static size_t take_digits(reader *r)
{
    const char *start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return (size_t)(r->at - start);
}

/* Whether digits, after a sign, are an integer of 64 bits. */
static bool to_integer(const char *text, size_t length, json_int_t *number)
{
    bool negative = *text == '-';
    *number = 0;
    for (size_t i = negative; i < length; i++) {
        json_int_t digit = text[i] - '0';
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, negative ? -digit : digit, number))
            return false;
    }
    return true;
}

static qk_status to_real(reader *r, const char *text, size_t length, double *number, bool *fits)
{
    size_t start = r->decoded.size;
    QK_TRY(qk__buffer_append(&r->decoded, text, length, r->err));
    QK_TRY(qk__buffer_append(&r->decoded, "", 1, r->err));
    *fits = qk__parse_number((const char *)r->decoded.data + start, number);
    r->decoded.size = start;
    return QK_OK;
}

static qk_status read_number(reader *r, json_t **value)
{
    const char *start = r->at;
    bool whole = true;
    r->at += *start == '-';
    if (take_word(r, "Infinity") || (*start == 'N' && take_word(r, "NaN")))
        return odd_number(r, start, (size_t)(r->at - start), value);
    bool zero = peek(r) == '0';
    size_t digits = take_digits(r);
    if (digits == 0)
        return fail_at(r, start, "expected a value");
    bool valid = !zero || digits == 1;
    if (peek(r) == '.') {
        whole = false;
        r->at++;
        valid &= take_digits(r) > 0;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        whole = false;
        r->at++;
        r->at += peek(r) == '+' || peek(r) == '-';
        valid &= take_digits(r) > 0;
    }
    if (!valid)
        return fail_at(r, start, "invalid number");
    size_t length = (size_t)(r->at - start);
    json_int_t integer = 0;
    double real = 0;
    bool fits;
    if (whole)
        fits = to_integer(start, length, &integer);
    else
        QK_TRY(to_real(r, start, length, &real, &fits));
    if (!fits)
        return odd_number(r, start, length, value);
    QK_TRY(count(r, QK__NUMBER_MEMORY));
    *value = whole ? json_integer(integer) : json_real(real);
    return made(r, *value);
}

/* ---- strings ---------------------------------------------------------------------------- */

/* A string as it stands in the text, or decoded. */
typedef struct span {
    const char *plain; /* NULL: decoded, at offset */
    size_t offset, length;
} span;

static const char *span_text(const reader *r, const span *s)
{
    return s->plain ? s->plain : (const char *)r->decoded.data + s->offset;
}

/* Four hexadecimal digits at p; false: there are none. */
static bool read_unit(const reader *r, const char *p, uint32_t *unit)
{
    *unit = 0;
    if (r->end - p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return true;
}

/* \uHHHH, or two of them that are one character; r->at is at the backslash. */
static qk_status decode_unit(reader *r)
{
    uint32_t c, second;
    uint8_t bytes[4];
    if (!read_unit(r, r->at + 2, &c))
        return fail(r, "invalid escape");
    size_t length = 6;
    bool high = c >= 0xd800 && c < 0xdc00;
    if (high && r->end - r->at >= 12 && r->at[6] == '\\' && r->at[7] == 'u' &&
        read_unit(r, r->at + 8, &second) && second >= 0xdc00 && second < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (second - 0xdc00);
        length = 12;
    } else if (c >= 0xd800 && c < 0xe000) {
        if (!r->limits->halves)
            return fail(r, "half of a surrogate pair");
        r->half = true;
        c = 0xfffd;
    }
    if (c == 0 && !r->limits->zeros)
        return fail(r, "\\u0000 is not allowed here");
    r->at += length;
    return qk__buffer_append(&r->decoded, bytes, qk__utf8_write(c, bytes), r->err);
}

static qk_status decode_escape(reader *r)
{
    static const char LETTERS[] = "\"\\/bfnrt", MEANINGS[] = "\"\\/\b\f\n\r\t";
    char letter = r->end - r->at > 1 ? r->at[1] : 0;
    if (letter == 'u')
        return decode_unit(r);
    const char *found = letter ? strchr(LETTERS, letter) : NULL;
    if (!found)
        return fail(r, "invalid escape");
    r->at += 2;
    return qk__buffer_append(&r->decoded, &MEANINGS[found - LETTERS], 1, r->err);
}

/* Up to the next quotation mark or backslash. */
static qk_status take_run(reader *r)
{
    const char *start = r->at;
    unsigned char all = 0, c;
    for (; r->at < r->end; r->at++) {
        c = (unsigned char)*r->at;
        if (c == '"' || c == '\\' || c < 0x20)
            break;
        all |= c;
    }
    size_t length = (size_t)(r->at - start), valid = length;
    if (all >= 0x80)
        valid = qk__utf8_valid((const uint8_t *)start, length);
    if (valid < length)
        return fail_at(r, start + valid, "cannot decode this byte: the text is not UTF-8");
    if (r->at == r->end)
        return fail(r, "the text ends within a string");
    return (unsigned char)*r->at < 0x20 ? fail(r, "a control character within a string")
                                        : QK_OK;
}

/* r->at is at the quotation mark. */
static qk_status read_span(reader *r, span *s)
{
    const char *start = ++r->at;
    QK_TRY(take_run(r));
    *s = (span){start, r->decoded.size, (size_t)(r->at - start)};
    if (*r->at++ == '"')
        return QK_OK;
    r->at--;
    QK_TRY(qk__buffer_append(&r->decoded, start, s->length, r->err));
    while (*r->at != '"') {
        QK_TRY(decode_escape(r));
        start = r->at;
        QK_TRY(take_run(r));
        QK_TRY(qk__buffer_append(&r->decoded, start, (size_t)(r->at - start), r->err));
    }
    r->at++;
    s->plain = NULL;
    s->length = r->decoded.size - s->offset;
    return QK_OK;
}

static qk_status read_string(reader *r, json_t **value)
{
    span s;
    QK_TRY(count(r, QK__STRING_MEMORY));
    r->half = false;
    QK_TRY(read_span(r, &s));
    *value = r->half ? json_array() : json_stringn_nocheck(span_text(r, &s), s.length);
    r->decoded.size = s.offset;
    return made(r, *value);
}

/* ---- lists and objects ------------------------------------------------------------------ */

/* Behind a member: true if another member follows. */
static qk_status another(reader *r, char close, const char *expected, bool *more)
{
    char c = next(r);
    *more = c == ',';
    if (c != ',' && c != close)
        return fail(r, r->at < r->end ? expected : "the text ends too early");
    r->at++;
    return QK_OK;
}

static qk_status read_list(reader *r, json_t **list)
{
    QK_TRY(count(r, QK__LIST_MEMORY));
    *list = json_array();
    QK_TRY(made(r, *list));
    r->at++;
    bool more = next(r) != ']';
    r->at += !more;
    while (more) {
        json_t *item = NULL;
        QK_TRY(count(r, QK__ITEM_MEMORY));
        qk_status status = read_value(r, &item);
        if (status != QK_OK) {
            json_decref(item);
            return status;
        }
        if (json_array_append_new(*list, item) != 0)
            return qk__nomem(r->err);
        QK_TRY(another(r, ']', "expected ',' or ']'", &more));
    }
    return QK_OK;
}

static qk_status read_member(reader *r, json_t *object)
{
    span key;
    json_t *value = NULL;
    size_t before = json_object_size(object);
    QK_TRY(count(r, QK__MEMBER_MEMORY));
    if (next(r) != '"')
        return fail(r, r->at < r->end ? "expected a key" : "the text ends too early");
    const char *start = r->at;
    QK_TRY(read_span(r, &key));
    if (next(r) != ':')
        return fail(r, "expected ':'");
    r->at++;
    qk_status status = read_value(r, &value);
    if (status != QK_OK) {
        json_decref(value);
        return status;
    }
    if (json_object_setn_new_nocheck(object, span_text(r, &key), key.length, value) != 0)
        return qk__nomem(r->err);
    r->decoded.size = key.offset;
    return json_object_size(object) > before ? QK_OK
                                             : fail_at(r, start, "duplicate object key");
}

static qk_status read_object(reader *r, json_t **object)
{
    QK_TRY(count(r, QK__OBJECT_MEMORY));
    *object = json_object();
    QK_TRY(made(r, *object));
    r->at++;
    bool more = next(r) != '}';
    r->at += !more;
    while (more) {
        QK_TRY(read_member(r, *object));
        QK_TRY(another(r, '}', "expected ',' or '}'", &more));
    }
    return QK_OK;
}

static qk_status read_nested(reader *r, json_t **value)
{
    if (r->nesting == MAX_NESTING)
        return fail(r, "the depth of nesting is above 2048");
    r->nesting++;
    qk_status status = *r->at == '{' ? read_object(r, value) : read_list(r, value);
    r->nesting--;
    return status;
}

/* On failure *value, if not NULL, is a part of it. */
static qk_status read_value(reader *r, json_t **value)
{
    char c = next(r);
    if (c == '"')
        return read_string(r, value);
    if (c == '{' || c == '[')
        return read_nested(r, value);
    if (c == '-' || c == 'N' || c == 'I' || (c >= '0' && c <= '9'))
        return read_number(r, value);
    if (r->at == r->end)
        return fail(r, "the text ends too early");
    *value = take_word(r, "true")    ? json_true()
             : take_word(r, "false") ? json_false()
             : take_word(r, "null")  ? json_null()
                                     : NULL;
    return *value ? QK_OK : fail(r, "expected a value");
}

qk_status qk__json_parse(json_t **root, const void *text, size_t size, qk__json_kind kind,
                         qk_error *err)
{
    const qk__json_limits *limits = qk__json_limits_of(kind);
    const char *start = size > 0 ? text : "";
    reader r = {.text = start, .at = start, .end = start + size, .limits = limits, .err = err};
    json_t *value = NULL;
    *root = NULL;
    if (size > limits->text)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%zu bytes, more than the %zu MB that %s may have", size,
                        limits->text >> 20, limits->what);
    qk_status status = read_value(&r, &value);
    if (status == QK_OK && (next(&r) != 0 || r.at < r.end))
        status = fail(&r, "text behind the end of the value");
    qk__buffer_free(&r.decoded);
    if (status == QK_OK)
        *root = value;
    else
        json_decref(value);
    return status;
}

/* ---- writing ---------------------------------------------------------------------------- */

typedef struct writer {
    qk__buffer text;
    bool within;      /* in a text, whose quotes come one by one */
    qk_status status; /* stays, whatever jansson makes of it */
} writer;

/* 0.3 for 0.29999999999999999, which jansson gives: a number comes in one piece. */
static size_t shorten(const char *bytes, size_t size, char text[QK_NUMBER_SIZE])
{
    double value;
    if (size < 17 || size >= QK_NUMBER_SIZE ||
        (*bytes != '-' && (*bytes < '0' || *bytes > '9')))
        return 0;
    memcpy(text, bytes, size);
    text[size] = 0;
    if (!strpbrk(text, ".eE") || !qk__parse_number(text, &value))
        return 0;
    const size_t length = qk__format_number(value, text);
    return strpbrk(text, ".eE") && length < size ? length
                                                 : 0; /* else it would be read as an integer */
}

static int put_bytes(const char *bytes, size_t size, void *data)
{
    writer *w = data;
    char text[QK_NUMBER_SIZE];
    w->within ^= size == 1 && *bytes == '"';
    const size_t shorter = w->within ? 0 : shorten(bytes, size, text);
    if (shorter > 0) {
        bytes = text;
        size = shorter;
    }
    if (w->status == QK_OK)
        w->status = qk__buffer_append(&w->text, bytes, size, NULL);
    return w->status == QK_OK ? 0 : -1;
}

char *qk__json_dumps(const json_t *value, size_t flags)
{
    writer w = {.status = QK_OK};
    if (value && json_dump_callback(value, put_bytes, &w, flags) == 0 &&
        put_bytes("", 1, &w) == 0)
        return (char *)w.text.data;
    qk__buffer_free(&w.text);
    return NULL;
}

json_t *qk__json_copy(json_t *value)
{
    json_t *copy = json_copy(value);
    if (json_object_size(copy) == json_object_size(value) &&
        json_array_size(copy) == json_array_size(value))
        return copy;
    json_decref(copy);
    return NULL;
}
