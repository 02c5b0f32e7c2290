/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines, one object a line with a text in one of its keys, or a list of such objects or of texts. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "recorder/texts.h"

enum { MAX_LINE_BYTES = 1 << 30, BLOCK_BYTES = 1 << 18 };

typedef struct jsonl_reader {
    int fd;
    bool ended; /* the end of the file was read */
    const qk__text_columns *columns;
    qk__buffer block; /* read, and from `begin` on not yet used */
    size_t begin;
    int64_t number; /* of the line or item, from 1 */
    bool list, closed;
    bool quoted, escaped; /* within an item, in which `depth` lists and objects are open */
    int64_t depth;
    json_t *value;
    qk__buffer name;
} jsonl_reader;

/* ---- one line --------------------------------------------------------------------------- */

/* An integer beyond 64 bits is taken by its digits, another number as Python's float() shows it: nan, inf or -inf. */
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

/* The original's rules for an id; `name` gets it as text. */
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
    return qk__fail(
        err, QK_ERR_UNSUPPORTED,
        "%s: an id is a number or a string, not a list, an object, or a string with "
        "half of a surrogate pair",
        column);
}

/* Names the first few keys of the object. */
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
    bool plain = json_is_string(object) && !columns->id && strcmp(columns->text, "text") == 0;
    if (!plain && !json_is_object(object))
        return qk__fail(err, QK_ERR_MALFORMED, "expected a JSON object");
    const json_t *value = plain ? object : json_object_get(object, columns->text);
    if (!value)
        return fail_no_key(object, columns->text, "--text-column", err);
    if (!json_is_string(value))
        return qk__fail(err, QK_ERR_MALFORMED,
                        "\"%s\" is not a string, or has half of a surrogate pair",
                        columns->text);
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

static const char BLANKS[] = {' ', '\t', '\r', '\n'};

static bool is_blank(const char *line, size_t size)
{
    size_t i = 0;
    while (i < size && memchr(BLANKS, line[i], sizeof BLANKS))
        i++;
    return i == size;
}

/* Reads more, behind what is not used yet. */
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
        return qk__fail(err, QK_ERR_IO, "cannot read: %s", strerror(errno));
    r->block.size += (size_t)got;
    r->ended = got == 0;
    return QK_OK;
}

/* The comma or bracket behind an item of the list. */
static const uint8_t *find_end(jsonl_reader *r, const uint8_t *p, size_t size)
{
    for (const uint8_t *end = p + size; p < end; p++) {
        bool escaped = r->escaped;
        r->escaped = r->quoted && *p == '\\' && !escaped;
        if (*p == '"' && !escaped)
            r->quoted = !r->quoted;
        if (r->quoted)
            continue;
        if (r->depth == 0 && (*p == ',' || *p == ']')) {
            r->closed = *p == ']';
            return p;
        }
        r->depth += (*p == '[' || *p == '{') - (*p == ']' || *p == '}');
    }
    return NULL;
}

/* Passes over a byte order mark, and the bracket that opens a list. */
static qk_status begin(jsonl_reader *r, qk_error *err)
{
    QK_TRY(read_block(r, err));
    r->begin = qk__utf8_mark(r->block.data, r->block.size);
    size_t at = r->begin;
    while (at < r->block.size && memchr(BLANKS, r->block.data[at], sizeof BLANKS))
        at++;
    r->list = at < r->block.size && r->block.data[at] == '[';
    r->begin = r->list ? at + 1 : r->begin;
    return QK_OK;
}

/* The next line or item without its end; *more is false behind the last. */
static qk_status read_line(jsonl_reader *r, const char **line, size_t *size, bool *more,
                           qk_error *err)
{
    size_t looked = 0;
    const uint8_t *end = NULL;
    bool item = r->list && !r->closed;
    r->number++;
    for (;;) {
        size_t left = r->block.size - r->begin;
        const uint8_t *at = r->block.data + r->begin + looked;
        if (left > looked)
            end = item ? find_end(r, at, left - looked) : memchr(at, '\n', left - looked);
        *size = end ? (size_t)(end - r->block.data) - r->begin : left;
        if (*size > MAX_LINE_BYTES)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "longer than %d bytes", MAX_LINE_BYTES);
        if (end || r->ended)
            break;
        looked = left;
        QK_TRY(read_block(r, err));
    }
    if (item && !end)
        return qk__fail(err, QK_ERR_MALFORMED, "the list does not end");
    *more = end || *size > 0;
    *line = *size > 0 ? (const char *)r->block.data + r->begin : "";
    r->begin += *size + (end != NULL);
    return QK_OK;
}

/* Passes over blank lines, and the nothing in a list without items. */
static qk_status next_line(jsonl_reader *r, const char **line, size_t *size, bool *more,
                           qk_error *err)
{
    bool behind;
    do {
        behind = r->closed;
        QK_TRY(read_line(r, line, size, more, err));
    } while (*more && is_blank(*line, *size) && (!r->list || r->closed));
    return behind && *more ? qk__fail(err, QK_ERR_MALFORMED, "text behind the end of the list")
                           : QK_OK;
}

static qk_status next_text(void *reader, qk__input_text *text, bool *more, qk_error *err)
{
    jsonl_reader *r = reader;
    const char *line = NULL;
    size_t size = 0;
    json_decref(r->value);
    r->value = NULL;
    qk_status status = r->number == 0 ? begin(r, err) : QK_OK;
    if (status == QK_OK)
        status = next_line(r, &line, &size, more, err);
    text->line = r->number;
    if (status == QK_OK && *more)
        status = qk__jsonl_parse(line, size, r->columns, &r->value, &r->name, text, err);
    bool no_json = status == QK_ERR_MALFORMED && !r->value && !r->list && r->number == 1;
    return qk__context(
        err, status, "%s %lld%s", r->list ? "item" : "line", (long long)r->number,
        no_json ? " of JSON Lines (a list of objects or texts is read, too; what "
                  "is one text as it stands is named .txt)"
                : "");
}

const qk__text_format qk__text_json = {sizeof(jsonl_reader), open_reader, next_text,
                                       close_reader};
