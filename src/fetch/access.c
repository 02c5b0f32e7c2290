/* SPDX-License-Identifier: Apache-2.0 */
/* Where the Hub is, who asks, and whether anything may be asked: settings, then the environment, as
 * huggingface_hub reads it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/expand.h"
#include "fetch/fetch.h"
#include "fetch/need.h"

#define PUBLIC_HUB "https://huggingface.co"

enum { MAX_TOKEN_BYTES = 4096, TIMEOUT = 10, MAX_TIMEOUT = 86400 };

/* ---- the address ------------------------------------------------------------------------- */

static qk_status find_endpoint(qk__access *access, const qk_context *context, qk_error *err)
{
    const char *address =
        context->hub_endpoint ? context->hub_endpoint : qk__environment("HF_ENDPOINT");
    access->endpoint = qk__strdup(address ? address : PUBLIC_HUB);
    if (!access->endpoint)
        return qk__nomem(err);
    size_t length = strlen(access->endpoint);
    while (length > 0 && access->endpoint[length - 1] == '/')
        access->endpoint[--length] = 0;
    /* It is in many messages: so a password is refused before it is in one. */
    if (!access->offline && strpbrk(access->endpoint, "@?#"))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: an address with a user or password in it, or with a query (it is "
                        "not shown): give https://HOST alone, and a token by HF_TOKEN",
                        context->hub_endpoint ? "the Hub's address" : "HF_ENDPOINT");
    return QK_OK;
}

/* ---- the token --------------------------------------------------------------------------- */

/* Without the spaces around it; nothing where nothing is left. What is in it is never told. */
static qk_status take_token(qk__access *access, const char *text, const char *from,
                            qk_error *err)
{
    text += strspn(text, " \t\r\n");
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "%s: not a token: it has characters that no token has", from);
    if (length > 0 && !(access->token = qk__format("%.*s", (int)length, text)))
        return qk__nomem(err);
    return QK_OK;
}

static qk_status token_from_file(qk__access *access, qk_error *err)
{
    const char *given = qk__environment("HF_TOKEN_PATH");
    char *home = NULL, *path = NULL;
    qk_status status = given ? QK_OK : qk__hub_home(&home, err);
    qk__buffer text = {0};
    if (status == QK_OK && given && *given == '~' && qk__environment("HOME"))
        path = qk__format("%s%s", qk__environment("HOME"), given + 1);
    else if (status == QK_OK)
        path = given ? qk__strdup(given) : qk__path_join(home, "token");
    if (status == QK_OK && !path)
        status = qk__nomem(err);
    if (status == QK_OK && qk__is_file(path)) {
        status = qk__read_file(path, MAX_TOKEN_BYTES, &text, err);
        if (status == QK_OK)
            status = take_token(access, (char *)text.data, path, err);
    }
    qk__buffer_free(&text);
    free(path);
    free(home);
    return status;
}

static bool is_true(const char *variable)
{
    static const char *const WORDS[] = {"1", "on", "yes", "true"};
    const char *value = qk__environment(variable);
    for (size_t i = 0; value && i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcasecmp(value, WORDS[i]) == 0)
            return true;
    return false;
}

static qk_status find_token(qk__access *access, const qk_context *context, qk_error *err)
{
    if (context->hub_token)
        return take_token(access, context->hub_token, "the token", err);
    if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return QK_OK;
    static const char *const VARIABLES[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    for (size_t i = 0; i < 2; i++) {
        const char *value = qk__environment(VARIABLES[i]);
        if (value)
            QK_TRY(take_token(access, value, VARIABLES[i], err));
        if (access->token)
            return QK_OK;
    }
    return token_from_file(access, err);
}

/* ---- all of it --------------------------------------------------------------------------- */

bool qk__fetch_is_offline(const qk_context *context)
{
    if (context->offline)
        return true;
    return qk__environment("HF_HUB_OFFLINE") ? is_true("HF_HUB_OFFLINE")
                                             : is_true("TRANSFORMERS_OFFLINE");
}

const char *qk__certificates(void)
{
    static const char *const VARIABLES[] = {"SSL_CERT_FILE", "CURL_CA_BUNDLE",
                                            "REQUESTS_CA_BUNDLE"};
    const char *file = NULL;
    for (size_t i = 0; !file && i < sizeof VARIABLES / sizeof *VARIABLES; i++)
        file = qk__environment(VARIABLES[i]);
    return file;
}

qk_status qk__access_open(qk__access *access, const qk_context *context, qk_error *err)
{
    *access =
        (qk__access){.offline = qk__fetch_is_offline(context), .timeout = context->hub_timeout};
    const char *seconds = qk__environment("HF_HUB_DOWNLOAD_TIMEOUT");
    if (access->timeout <= 0 && seconds)
        access->timeout = strtol(seconds, NULL, 10);
    if (access->timeout <= 0 || access->timeout > MAX_TIMEOUT)
        access->timeout = TIMEOUT;
    QK_TRY(find_endpoint(access, context, err));
    return find_token(access, context, err);
}

void qk__access_close(qk__access *access)
{
    free(access->endpoint);
    free(access->origin);
    for (volatile char *p = access->token; p && *p;) /* volatile: it is not left out */
        *p++ = 0;
    free(access->token);
    *access = (qk__access){0};
}
