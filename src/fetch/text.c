/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose answer is a text that memory holds, and which may bring a text along. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "fetch/get.h"

typedef struct text_request {
    qk__fetch *fetch;
    qk__buffer *text;
    char **next;
    /* of one that is sent: */
    const qk__buffer *body;
    size_t given;
    qk__refuse_fn *refuse;
} text_request;

static qk_status begin_text(void *user, int64_t *from, const char **etag, qk_error *err)
{
    text_request *r = user;
    (void)from, (void)etag, (void)err;
    r->text->size = 0;
    r->given = 0;
    return QK_OK;
}

static qk_status take_text(void *user, const qk__headers *answer, const uint8_t *bytes,
                           size_t size, qk_error *err)
{
    qk__buffer *text = ((text_request *)user)->text;
    (void)answer;
    if (size > QK__MAX_TEXT - text->size)
        return qk__fail(err, QK_ERR_MALFORMED, "an answer of more than %d MB",
                        QK__MAX_TEXT >> 20);
    return qk__buffer_append(text, bytes, size, err);
}

static qk_status end_text(void *user, const qk__headers *answer, qk_error *err)
{
    const text_request *r = user;
    if (answer->status == 416)
        return qk__fail(err, QK_ERR_MALFORMED, "HTTP status 416");
    QK_TRY(qk__buffer_append(r->text, "", 1, err)); /* a zero byte */
    r->text->size--;
    return r->next && answer->next
               ? qk__address_path(&r->fetch->libraries, answer->next, r->next, err)
               : QK_OK;
}

qk_status qk__connection_get_text(qk__connection *c, const char *address, qk__buffer *text,
                                  char **next, qk_error *err)
{
    text_request user = {.fetch = qk__connection_fetch(c), .text = text, .next = next};
    if (next)
        *next = NULL;
    const qk__request request = {.address = address,
                                 .user = &user,
                                 .begin = begin_text,
                                 .take = take_text,
                                 .end = end_text};
    return qk__connection_get(c, &request, err);
}

qk_status qk__text_fault(const qk__fetch *f, const qk__buffer *text, qk_status status,
                         const char *what, qk_error *err)
{
    size_t i = 0;
    while (i < text->size && strchr(" \t\r\n", text->data[i]) && text->data[i])
        i++;
    if (status != QK_OK && status != QK_ERR_NOMEM && i < text->size && text->data[i] == '<')
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s answered with a web page, not the Hub: a proxy, a log-in page, or "
                        "HF_ENDPOINT?",
                        f->access.endpoint);
    return qk__context(err, status, "%s", what);
}

qk_status qk__fetch_ask(qk__connection *connection, const char *tail, const char *word,
                        json_t **root, qk_error *err)
{
    const qk__fetch *f = qk__connection_fetch(connection);
    char *address = qk__fetch_address(f, tail, word);
    qk__buffer text = {0};
    *root = NULL;
    qk_status status = address ? qk__connection_get_text(connection, address, &text, NULL, err)
                               : qk__nomem(err);
    if (status == QK_OK)
        status = qk__text_fault(
            f, &text, qk__json_parse(root, text.data, text.size, QK__JSON_ANSWER, err),
            "the Hub's answer", err);
    qk__buffer_free(&text);
    free(address);
    return status;
}

/* ---- with a body ------------------------------------------------------------------------- */

static qk_status give_text(void *user, uint8_t *bytes, size_t room, size_t *size, qk_error *err)
{
    text_request *r = user;
    size_t left = r->body->size - r->given;
    (void)err;
    *size = left < room ? left : room;
    memcpy(bytes, r->body->data + r->given, *size);
    r->given += *size;
    return QK_OK;
}

static qk_status refuse_text(void *user, const qk__headers *answer, const char *origin,
                             qk_error *err)
{
    const text_request *r = user;
    return r->refuse(r->fetch, answer, origin, err);
}

qk_status qk__connection_post(qk__connection *c, const qk__post *post, qk__buffer *text,
                              qk_error *err)
{
    text_request user = {.fetch = qk__connection_fetch(c),
                         .text = text,
                         .body = post->body,
                         .refuse = post->refuse};
    const qk__sending sending = {
        .method = "POST",
        .headers = {post->headers[0], post->headers[1]},
        .size = (int64_t)post->body->size,
        .give = give_text,
        .refused = refuse_text,
        .patience = post->patience,
        .once = post->once,
    };
    const qk__request request = {.address = post->address,
                                 .user = &user,
                                 .begin = begin_text,
                                 .take = take_text,
                                 .end = end_text,
                                 .sending = &sending};
    return qk__connection_get(c, &request, err);
}
