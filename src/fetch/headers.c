/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of HTTP answers. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "fetch/fetch.h"

enum { MAX_MESSAGE = 301 }; /* bytes, with the zero at its end */

void qk__headers_free(qk__headers *answer)
{
    free(answer->location);
    free(answer->next);
    *answer = (qk__headers){.length = -1, .first = -1, .total = -1, .wait = -1};
}

static void begin_answer(qk__headers *answer, int status)
{
    size_t bytes = answer->bytes;
    qk__headers_free(answer);
    answer->status = status;
    answer->bytes = bytes;
}

/* ---- values ------------------------------------------------------------------------------ */

/* The number at the start of a text that follows `before`; -1: there is none, or it is too long. */
static int64_t number_after(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    if (!at)
        return -1;
    at += strlen(before);
    at += strspn(at, " ");
    size_t digits = strspn(at, "0123456789");
    return digits > 0 && digits <= 18 ? strtoll(at, NULL, 10) : -1;
}

/* The whole text is a number. */
static int64_t number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == 0 ? number_after(text, "") : -1;
}

/* "bytes 100-199/300" */
static void read_range(qk__headers *answer, const char *value)
{
    answer->first = number_after(value, "bytes ");
    answer->total = number_after(value, "/");
}

/* "\"resolvers\";r=0;t=55": no requests are left, for 55 seconds. */
static void read_limit(qk__headers *answer, const char *value)
{
    int64_t left = number_after(value, ";r="), seconds = number_after(value, ";t=");
    answer->limited = left == 0;
    if (left == 0 && seconds >= 0)
        answer->wait = seconds + 1;
}

/* Of "W/\"abc\"" nothing: a weak one does not promise the same bytes. */
static void read_etag(qk__headers *answer, const char *value)
{
    size_t length = strlen(value);
    bool plain = length >= 2 && length < sizeof answer->etag && value[0] == '"' &&
                 value[length - 1] == '"';
    for (size_t i = 0; plain && i < length; i++)
        plain = value[i] > 0x20 && value[i] < 0x7f;
    memcpy(answer->etag, plain ? value : "", plain ? length + 1 : 1);
}

static void copy_text(char *to, size_t size, const char *value)
{
    size_t length = strlen(value) < size ? strlen(value) : size - 1;
    memcpy(to, value, length);
    to[length] = 0;
}

/* A sentence for a terminal: no control characters, no half of a character. */
static void copy_sentence(char *to, size_t size, const char *value)
{
    size_t used = 0, length = strlen(value);
    if (qk__utf8_valid((const uint8_t *)value, length) < length)
        length = 0;
    for (size_t i = 0; i < length && used + 1 < size; i++) {
        unsigned char c = (unsigned char)value[i], next = (unsigned char)value[i + 1];
        if (c == 0xc2 && next >= 0x80 && next < 0xa0)
            i++; /* U+0080 to U+009F */
        else if (c >= 0x20 && c != 0x7f)
            to[used++] = (char)c;
        else if (used > 0 && to[used - 1] != ' ')
            to[used++] = ' ';
    }
    to[used] = 0;
    to[qk__utf8_valid((const uint8_t *)to, used)] = 0;
}

static qk_status copy_address(char **to, const char *value, size_t length, qk_error *err)
{
    if (length > QK__MAX_ADDRESS)
        return qk__fail(err, QK_ERR_MALFORMED, "an address of %zu bytes", length);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)value[i] <= 0x20 || value[i] == 0x7f)
            return qk__fail(err, QK_ERR_MALFORMED,
                            "an address with a space or control character");
    free(*to);
    *to = malloc(length + 1);
    if (!*to)
        return qk__nomem(err);
    memcpy(*to, value, length);
    (*to)[length] = 0;
    return QK_OK;
}

/* "<https://...>; rel=\"next\", <...>; rel=\"last\"" */
static qk_status read_links(qk__headers *answer, const char *value, qk_error *err)
{
    for (const char *at = value; (at = strchr(at, '<')) != NULL;) {
        const char *end = strchr(at, '>');
        if (!end)
            return QK_OK;
        const char *following = strchr(end, '<');
        const char *rel = strstr(end, "rel=\"next\"");
        if (rel && (!following || rel < following))
            return copy_address(&answer->next, at + 1, (size_t)(end - at - 1), err);
        at = end;
    }
    return QK_OK;
}

/* ---- a line ------------------------------------------------------------------------------ */

static qk_status take_header(qk__headers *answer, const char *name, const char *value,
                             qk_error *err)
{
    if (strcasecmp(name, "Content-Length") == 0)
        answer->length = number(value);
    else if (strcasecmp(name, "Content-Range") == 0)
        read_range(answer, value);
    else if (strcasecmp(name, "Content-Encoding") == 0)
        answer->encoded = strcasecmp(value, "identity") != 0 && *value;
    else if (strcasecmp(name, "ETag") == 0)
        read_etag(answer, value);
    else if (strcasecmp(name, "RateLimit") == 0)
        read_limit(answer, value);
    else if (strcasecmp(name, "Retry-After") == 0 && !answer->limited)
        answer->wait = number(value);
    else if (strcasecmp(name, "X-Error-Code") == 0)
        copy_text(answer->code, sizeof answer->code, value);
    else if (strcasecmp(name, "X-Error-Message") == 0)
        copy_sentence(answer->message, MAX_MESSAGE, value);
    else if (strcasecmp(name, "Location") == 0)
        return copy_address(&answer->location, value, strlen(value), err);
    else if (strcasecmp(name, "Link") == 0)
        return read_links(answer, value, err);
    return QK_OK;
}

qk_status qk__headers_line(qk__headers *answer, const char *line, size_t size, qk_error *err)
{
    answer->bytes += size;
    if (size > QK__MAX_HEADERS || answer->bytes > QK__MAX_HEADERS)
        return qk__fail(err, QK_ERR_MALFORMED, "headers of more than %d kB",
                        QK__MAX_HEADERS >> 10);
    while (size > 0 && isspace((unsigned char)line[size - 1]))
        size--;
    if (size == 0)
        return QK_OK;
    if (memchr(line, 0, size))
        return qk__fail(err, QK_ERR_MALFORMED, "a zero byte in a header");
    char *text = malloc(size + 1);
    if (!text)
        return qk__nomem(err);
    memcpy(text, line, size);
    text[size] = 0;
    qk_status status = QK_OK;
    char *colon = strchr(text, ':');
    if (strncmp(text, "HTTP/", 5) == 0) {
        int64_t code = number_after(text, " ");
        begin_answer(answer, code >= 100 && code <= 999 ? (int)code : 0);
    } else if (colon) {
        *colon = 0;
        status = take_header(answer, text, colon + 1 + strspn(colon + 1, " \t"), err);
    }
    free(text);
    return status;
}

/* ---- bodies of errors -------------------------------------------------------------------- */

void qk__headers_body(qk__headers *answer, const char *bytes, size_t size)
{
    size_t room = sizeof answer->body - answer->body_size;
    size = size < room ? size : room;
    memcpy(answer->body + answer->body_size, bytes, size);
    answer->body_size += size;
}

void qk__headers_end(qk__headers *answer)
{
    json_t *root = NULL;
    if (*answer->message || answer->body_size == 0 || *answer->body != '{' ||
        qk__json_parse(&root, answer->body, answer->body_size, QK__JSON_ANSWER, NULL) != QK_OK)
        return;
    const char *text = json_string_value(json_object_get(root, "error"));
    if (text)
        copy_sentence(answer->message, MAX_MESSAGE, text + strspn(text, " \t\r\n"));
    json_decref(root);
}

bool qk__headers_redirect(const qk__headers *answer)
{
    int s = answer->status;
    return answer->location && (s == 301 || s == 302 || s == 303 || s == 307 || s == 308);
}

qk_status qk__headers_long(const char *origin, qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, "%s: headers that are too long", origin);
}

qk_status qk__headers_nomem(const qk__headers *answer, const char *origin, qk_error *err)
{
    void *probe = malloc(4 * QK__MAX_HEADERS);
    free(probe);
    if (!probe || (answer->bytes == 0 && answer->status == 0))
        return qk__nomem(err);
    return qk__headers_long(origin, err);
}
