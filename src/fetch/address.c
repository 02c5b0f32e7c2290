/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses (URLs): their parts, and those that others lead to. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "fetch/fetch.h"

qk_status qk__origin_of(const qk__libraries *lib, const char *address, char **origin,
                        qk_error *err)
{
    *origin = NULL;
    CURLU *url = lib->url();
    if (!url)
        return qk__nomem(err);
    char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL;
    qk_status status = QK_OK;
    CURLUcode code = lib->url_set(url, CURLUPART_URL, address, 0);
    if (code == CURLUE_OK)
        code = lib->url_get(url, CURLUPART_SCHEME, &scheme, 0);
    if (code == CURLUE_OK)
        code = lib->url_get(url, CURLUPART_HOST, &host, 0);
    if (code == CURLUE_OK)
        code = lib->url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    bool odd = code == CURLUE_OK
                   ? strcasecmp(scheme, "https") != 0 && strcasecmp(scheme, "http") != 0
                   : code != CURLUE_OUT_OF_MEMORY;
    if (odd)
        status = qk__fail(err, QK_ERR_MALFORMED, "an address that is neither http nor https");
    else if (code == CURLUE_OK && lib->url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK)
        status = qk__fail(err, QK_ERR_MALFORMED, "an address with a user or password in it");
    else if (code != CURLUE_OK || !(*origin = qk__format("%s://%s:%s", scheme, host, port)))
        status = qk__nomem(err);
    for (char *p = *origin; p && *p; p++)
        *p = (char)tolower((unsigned char)*p);
    lib->free(scheme);
    lib->free(host);
    lib->free(port);
    lib->free(user);
    lib->url_cleanup(url);
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

qk_status qk__address_resolve(const qk__libraries *lib, const char *address,
                              const char *location, const char *origin, char **next,
                              char **next_origin, qk_error *err)
{
    CURLU *url = lib->url();
    char *text = NULL;
    CURLUcode code = url ? lib->url_set(url, CURLUPART_URL, address, 0) : CURLUE_OUT_OF_MEMORY;
    if (code == CURLUE_OK)
        code = lib->url_set(url, CURLUPART_URL, location, 0);
    if (code == CURLUE_OK)
        code = lib->url_get(url, CURLUPART_URL, &text, 0);
    qk_status status = QK_OK;
    if (code == CURLUE_OUT_OF_MEMORY || (code == CURLUE_OK && !(*next = qk__strdup(text))))
        status = qk__nomem(err);
    else if (code != CURLUE_OK)
        status = qk__fail(err, QK_ERR_MALFORMED, "%s: redirects to what is no address", origin);
    else
        status = qk__context(err, qk__origin_of(lib, *next, next_origin, err),
                             "%s: redirects to", origin);
    if (status == QK_OK && *next_origin && strncmp(origin, "https:", 6) == 0 &&
        strncmp(*next_origin, "https:", 6) != 0)
        status = qk__fail(err, QK_ERR_MALFORMED,
                          "%s: redirects to %s, which is not encrypted: refused", origin,
                          *next_origin);
    lib->free(text);
    lib->url_cleanup(url);
    return status;
}

qk_status qk__address_path(const qk__libraries *lib, const char *address, char **path,
                           qk_error *err)
{
    CURLU *url = lib->url();
    char *at = NULL, *query = NULL;
    CURLUcode code = url ? lib->url_set(url, CURLUPART_URL, address, 0) : CURLUE_OUT_OF_MEMORY;
    if (code == CURLUE_OK)
        code = lib->url_get(url, CURLUPART_PATH, &at, 0);
    CURLUcode more = url ? lib->url_get(url, CURLUPART_QUERY, &query, 0) : CURLUE_OK;
    if (code == CURLUE_OK)
        *path = qk__format("%s%s%s", at, query ? "?" : "", query ? query : "");
    lib->free(at);
    lib->free(query);
    lib->url_cleanup(url);
    if (code == CURLUE_OUT_OF_MEMORY || more == CURLUE_OUT_OF_MEMORY ||
        (code == CURLUE_OK && !*path))
        return qk__nomem(err);
    return code == CURLUE_OK ? QK_OK
                             : qk__fail(err, QK_ERR_MALFORMED, "the next page has no address");
}

char *qk__fetch_address(const qk__fetch *f, const char *tail, const char *word)
{
    qk__buffer out = {0};
    bool done = qk__buffer_printf(&out, NULL, "%s/api/%s/%s%s", f->access.endpoint,
                                  f->kind->folder, f->name, tail) == QK_OK &&
                qk__quote(&out, word, false, NULL) == QK_OK &&
                qk__buffer_append(&out, "", 1, NULL) == QK_OK;
    if (!done)
        qk__buffer_free(&out);
    return (char *)out.data;
}
