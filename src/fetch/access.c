/* SPDX-License-Identifier: Apache-2.0 */
/* Where the Hub is, who asks, and whether anything may be asked: settings, then the environment, as
 * huggingface_hub reads it. */
#define _DEFAULT_SOURCE /* explicit_bzero */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/error.h"
#include "base/expand.h"
#include "fetch/fetch.h"

#define PUBLIC_HUB "https://huggingface.co"

enum { MAX_TOKEN_BYTES = 4096, TIMEOUT = 10, MAX_TIMEOUT = 86400 };

/* ---- addresses --------------------------------------------------------------------------- */

qk_status qk__origin_of(const char *address, char **origin, qk_error *err)
{
    *origin = NULL;
    CURLU *url = curl_url();
    if (!url)
        return qk__nomem(err);
    char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL;
    qk_status status = QK_OK;
    CURLUcode code = curl_url_set(url, CURLUPART_URL, address, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_HOST, &host, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    bool odd = code == CURLUE_OK
                   ? strcasecmp(scheme, "https") != 0 && strcasecmp(scheme, "http") != 0
                   : code != CURLUE_OUT_OF_MEMORY;
    if (odd)
        status = qk__fail(err, QK_ERR_MALFORMED, "an address that is neither http nor https");
    else if (code == CURLUE_OK && curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK)
        status = qk__fail(err, QK_ERR_MALFORMED, "an address with a user or password in it");
    else if (code != CURLUE_OK || !(*origin = qk__format("%s://%s:%s", scheme, host, port)))
        status = qk__nomem(err);
    for (char *p = *origin; p && *p; p++)
        *p = (char)tolower((unsigned char)*p);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_url_cleanup(url);
    return status;
}

qk_status qk__quote(qk__buffer *out, const char *text, bool slashes, qk_error *err)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c < 0x80 && isalnum(c)) || strchr("_.-~", c) || (slashes && c == '/');
        QK_TRY(plain ? qk__buffer_append(out, &c, 1, err)
                     : qk__buffer_printf(out, err, "%%%02X", (unsigned)c));
    }
    return QK_OK;
}

static qk_status find_endpoint(qk__access *access, const qk_hub_settings *s, qk_error *err)
{
    const char *address = s->endpoint ? s->endpoint : qk__environment("HF_ENDPOINT");
    access->endpoint = qk__strdup(address ? address : PUBLIC_HUB);
    if (!access->endpoint)
        return qk__nomem(err);
    size_t length = strlen(access->endpoint);
    while (length > 0 && access->endpoint[length - 1] == '/')
        access->endpoint[--length] = 0;
    return qk__context(err, qk__origin_of(access->endpoint, &access->origin, err),
                       "HF_ENDPOINT %s", access->endpoint);
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

static qk_status find_token(qk__access *access, const qk_hub_settings *s, qk_error *err)
{
    if (s->token)
        return take_token(access, s->token, "the token", err);
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

bool qk__is_offline(const qk_hub_settings *settings)
{
    if (settings->offline)
        return true;
    return qk__environment("HF_HUB_OFFLINE") ? is_true("HF_HUB_OFFLINE")
                                             : is_true("TRANSFORMERS_OFFLINE");
}

qk_status qk__access_open(qk__access *access, const qk_hub_settings *settings, qk_error *err)
{
    *access = (qk__access){.offline = qk__is_offline(settings), .timeout = settings->timeout};
    const char *seconds = qk__environment("HF_HUB_DOWNLOAD_TIMEOUT");
    if (access->timeout <= 0 && seconds)
        access->timeout = strtol(seconds, NULL, 10);
    if (access->timeout <= 0 || access->timeout > MAX_TIMEOUT)
        access->timeout = TIMEOUT;
    QK_TRY(find_endpoint(access, settings, err));
    return find_token(access, settings, err);
}

void qk__access_close(qk__access *access)
{
    free(access->endpoint);
    free(access->origin);
    if (access->token)
        explicit_bzero(access->token, strlen(access->token));
    free(access->token);
    *access = (qk__access){0};
}
