/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines: one object a line, a text in one of its keys. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "recorder/texts.h"

enum { MAX_LINE_BYTES = 1 << 30, BLOCK_BYTES = 1 << 18 };

typedef struct jsonl_reader {
    int fd;
    bool ended; /* nothing is left to be read */
    const qk__text_columns *columns;
    qk__buffer block; /* read and, from `begin` on, not used yet */
    size_t begin;
    int64_t number; /* of the line, from 1 */
    json_t *value;
    qk__buffer name;
} jsonl_reader;

/* ---- one line --------------------------------------------------------------------------- */

/* Of an integer beyond 64 bits the digits count; of other numbers what Python's float() makes
 * of them: nan, inf or -inf. */
static qk_status take_odd_id(const char *number, qk__buffer *name, qk__input_text *text,
                             qk_error *err)
{
    bool whole = number[strspn(number, "-0123456789")] == 0;
    const char *known = whole                        ? number
                        : strcmp(number, "NaN") == 0 ? "nan"
                        : *number == '-'             ? "-inf"
                                                     : "inf";
    text->id = qk_example_id_of_text(known, strlen(known));
    return qk__buffer_printf(name, err, "%s", known);
}

/* The rules of the original for what an id may be; `name` gets it as text. */
static qk_status take_id(const json_t *id, const char *column, qk__buffer *name,
                         qk__input_text *text, qk_error *err)
{
    name->size = 0;
    text->has_id = true;
    switch (json_typeof(id)) {
    case JSON_INTEGER:
        text->id = json_integer_value(id);
        return qk__buffer_printf(name, err, "%lld", (long long)text->id);
    case JSON_TRUE:
    case JSON_FALSE:
        text->id = json_is_true(id);
        return qk__buffer_printf(name, err, "%s", text->id ? "True" : "False");
    case JSON_REAL:
        text->id = qk_example_id_of_number(json_real_value(id));
        return qk__buffer_printf(name, err, "%.17g", json_real_value(id));
    case JSON_STRING:
        text->id = qk_example_id_of_text(json_string_value(id), json_string_length(id));
        return qk__buffer_printf(name, err, "%s", json_string_value(id));
    case JSON_NULL:
        text->id = qk_example_id_of_text("None", 4);
        return qk__buffer_printf(name, err, "None");
    case JSON_ARRAY:
        if (qk__json_odd_number(id))
            return take_odd_id(qk__json_odd_number(id), name, text, err);
        break;
    case JSON_OBJECT:
        break;
    }
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "%s: an id is a number or a string, not a list or an object", column);
}

/* Names the first few keys that are there. */
static qk_status fail_no_key(json_t *object, const char *wanted, const char *option,
                             qk_error *err)
{
    enum { MAX_NAMED = 8, MAX_LETTERS = 40 };
    qk__buffer keys = {0};
    size_t count = 0;
    qk_status status = QK_OK;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (status == QK_OK && count < MAX_NAMED)
            status = qk__buffer_printf(&keys, err, "%s\"%.*s\"", count ? ", " : "", MAX_LETTERS,
                                       key);
        count++;
    }
    if (status == QK_OK && count == 0)
        status =
            qk__fail(err, QK_ERR_MALFORMED, "there is no \"%s\": the object is empty", wanted);
    else if (status == QK_OK)
        status =
            qk__fail(err, QK_ERR_MALFORMED, "there is no \"%s\", but %.*s%s: name one with %s",
                     wanted, (int)keys.size, (const char *)keys.data,
                     count > MAX_NAMED ? " and others" : "", option);
    qk__buffer_free(&keys);
    return status;
}

static qk_status take_columns(json_t *object, const qk__text_columns *columns, qk__buffer *name,
                              qk__input_text *text, qk_error *err)
{
    if (!json_is_object(object))
        return qk__fail(err, QK_ERR_MALFORMED, "expected a JSON object");
    const json_t *value = json_object_get(object, columns->text);
    if (!value)
        return fail_no_key(object, columns->text, "--text-column", err);
    if (!json_is_string(value))
        return qk__fail(err, QK_ERR_MALFORMED, "\"%s\" is not a string", columns->text);
    text->data = json_string_value(value);
    text->size = json_string_length(value);
    if (!columns->id)
        return QK_OK;
    const json_t *id = json_object_get(object, columns->id);
    if (!id)
        return fail_no_key(object, columns->id, "--id-column", err);
    QK_TRY(take_id(id, columns->id, name, text, err));
    text->name = (const char *)name->data;
    return QK_OK;
}

qk_status qk__jsonl_parse(const char *line, size_t size, const qk__text_columns *columns,
                          json_t **value, qk__buffer *name, qk__input_text *text, qk_error *err)
{
    QK_TRY(qk__json_parse(value, line, size, QK__JSON_LINE, err));
    return take_columns(*value, columns, name, text, err);
}

/* ---- a file ----------------------------------------------------------------------------- */

static void close_reader(void *reader)
{
    jsonl_reader *r = reader;
    if (r->fd >= 0)
        close(r->fd);
    json_decref(r->value);
    qk__buffer_free(&r->name);
    qk__buffer_free(&r->block);
}

static qk_status open_reader(void *reader, const char *path, const qk__text_columns *columns,
                             qk_error *err)
{
    jsonl_reader *r = reader;
    int64_t size;
    r->columns = columns;
    qk_status status = qk__open_file(path, &r->fd, &size, err);
    if (status != QK_OK)
        r->fd = -1;
    return status;
}

/* Whether nothing is in it; a byte order mark at the start of a file is nothing. */
static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r' && line[i] != '\n')
            return false;
    return true;
}

/* Reads on behind what is not used yet. */
static qk_status read_block(jsonl_reader *r, qk_error *err)
{
    ssize_t got;
    size_t left = r->block.size - r->begin;
    if (left > 0 && r->begin > 0)
        memmove(r->block.data, r->block.data + r->begin, left);
    r->block.size = left;
    r->begin = 0;
    QK_TRY(qk__buffer_reserve(&r->block, left + BLOCK_BYTES, err));
    do
        got = read(r->fd, r->block.data + left, r->block.capacity - left);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return qk__fail(err, QK_ERR_IO, "line %lld: cannot read: %s", (long long)r->number,
                        strerror(errno));
    r->block.size += (size_t)got;
    r->ended = got == 0;
    return QK_OK;
}

/* The next line with its end; *size is 0 behind the last. */
static qk_status read_line(jsonl_reader *r, const char **line, size_t *size, qk_error *err)
{
    size_t looked = 0;
    const uint8_t *end = NULL;
    r->number++;
    for (;;) {
        size_t left = r->block.size - r->begin;
        if (left > looked)
            end = memchr(r->block.data + r->begin + looked, '\n', left - looked);
        *size = end ? (size_t)(end + 1 - r->block.data) - r->begin : left;
        if (*size > MAX_LINE_BYTES)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "line %lld: longer than %d bytes",
                            (long long)r->number, MAX_LINE_BYTES);
        if (end || r->ended)
            break;
        looked = left;
        QK_TRY(read_block(r, err));
    }
    *line = *size > 0 ? (const char *)r->block.data + r->begin : "";
    r->begin += *size;
    return QK_OK;
}

static qk_status next_line(jsonl_reader *r, const char **line, size_t *size, bool *more,
                           qk_error *err)
{
    do {
        QK_TRY(read_line(r, line, size, err));
        *more = *size > 0;
        if (r->number == 1 && *size >= 3 && memcmp(*line, "\xef\xbb\xbf", 3) == 0) {
            *line += 3;
            *size -= 3;
        }
    } while (*more && is_blank(*line, *size));
    return QK_OK;
}

static qk_status next_text(void *reader, qk__input_text *text, bool *more, qk_error *err)
{
    jsonl_reader *r = reader;
    const char *line = NULL;
    size_t size = 0;
    json_decref(r->value);
    r->value = NULL;
    QK_TRY(next_line(r, &line, &size, more, err));
    if (!*more)
        return QK_OK;
    text->line = r->number;
    if (line[size - 1] == '\n') /* or an error at its end would be one on the next line */
        size--;
    qk_status status = qk__jsonl_parse(line, size, r->columns, &r->value, &r->name, text, err);
    return qk__context(err, status, "line %lld", (long long)r->number);
}

const qk__text_format qk__text_jsonl = {sizeof(jsonl_reader), open_reader, next_text,
                                        close_reader};
