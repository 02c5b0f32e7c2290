/* SPDX-License-Identifier: Apache-2.0 */
/* One request after the other, each with its redirects, and again where that may help. libcurl sends and
 * receives; redirects are followed here, since the token must not go along. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/expand.h"
#include "fetch/fetch.h"

enum {
    MAX_REDIRECTS = 10,
    MAX_FAILURES = 5, /* in a row, without so many new bytes: */
    ENOUGH_BYTES = 16384,
    MAX_UNANSWERED = 2, /* where no server has answered yet: it may be the wrong address */
    MAX_WRONG = 2,      /* bytes that are not those of the file */
    MAX_LIMITS = 20,    /* times that the Hub's limit was met by one request */
    MAX_WAIT = 3600,    /* seconds */
    SENDING_TIMEOUT = 60,
    MAX_IGNORED = 1 << 20, /* bytes of a body that nobody reads */
    BUFFER = 256 << 10,
    TOO_LARGE = 100, /* CURLE_TOO_LARGE, which the headers of libcurl have from 8.6 on */
};

struct qk__connection {
    qk__fetch *fetch;
    CURL *curl;
    qk__headers answer;
    const qk__request *request;
    qk_status failed; /* in a callback, with: */
    qk_error failure;
    int64_t ignored;
    int64_t seen; /* bytes, the last of which came or went at */
    double moved;
    bool silent;   /* too long since then */
    bool answered; /* some server, once */
    char detail[CURL_ERROR_SIZE];
};

/* How an attempt ended. AGAIN: another may help, and err says why this one did not. */
typedef enum outcome { DONE, AGAIN, WRONG, LIMITED, FAILED } outcome;

/* ---- callbacks --------------------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    qk__connection *c = user;
    c->failed = qk__headers_line(&c->answer, line, size * count, &c->failure);
    return c->failed == QK_OK ? size * count : 0;
}

static bool is_success(const qk__connection *c)
{
    int status = c->answer.status;
    return status == 200 || status == (c->request->sending ? 201 : 206) ||
           (c->request->sending && (status == 202 || status == 204));
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    qk__connection *c = user;
    size *= count;
    if (!is_success(c)) {
        qk__headers_body(&c->answer, bytes, size);
        c->ignored += (int64_t)size;
        return c->ignored <= MAX_IGNORED ? size : 0;
    }
    if (c->answer.encoded)
        c->failed = qk__fail(&c->failure, QK_ERR_MALFORMED,
                             "bytes that are compressed, though plain ones were asked for");
    else
        c->failed = c->request->take(c->request->user, &c->answer, (const uint8_t *)bytes, size,
                                     &c->failure);
    return c->failed == QK_OK ? size : 0;
}

/* Seconds without a byte. What is sent waits in buffers before it goes, and may take its time to be
 * done. */
static long patience_of(const qk__connection *c)
{
    const qk__sending *sending = c->request->sending;
    long timeout = c->fetch->access.timeout, more = 0;
    if (sending)
        more = c->seen < sending->size ? SENDING_TIMEOUT : sending->patience;
    return more > timeout ? more : timeout;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t to_send,
                       curl_off_t sent)
{
    qk__connection *c = user;
    (void)total, (void)to_send;
    double time = qk__now();
    if (now + sent != c->seen || c->moved == 0) {
        c->seen = now + sent;
        c->moved = time;
    }
    c->silent = time - c->moved > (double)patience_of(c);
    return c->silent || !qk__fetch_tick(c->fetch, 0, 0);
}

static size_t on_read(char *bytes, size_t size, size_t count, void *user)
{
    qk__connection *c = user;
    size_t given = 0;
    c->failed = c->request->sending->give(c->request->user, (uint8_t *)bytes, size * count,
                                          &given, &c->failure);
    return c->failed == QK_OK ? given : CURL_READFUNC_ABORT;
}

/* libcurl begins anew by itself where a connection that it kept has gone. */
static int on_seek(void *user, curl_off_t offset, int whence)
{
    qk__connection *c = user;
    int64_t from;
    const char *etag;
    if (offset != 0 || whence != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    c->failed = c->request->begin(c->request->user, &from, &etag, &c->failure);
    return c->failed == QK_OK ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

/* ---- one hop ----------------------------------------------------------------------------- */

static bool add_header(const qk__libraries *lib, struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = text ? lib->slist_append(*list, text) : NULL;
    if (longer)
        *list = longer;
    return longer != NULL;
}

static qk_status make_headers(const qk__connection *c, bool token, int64_t from,
                              const char *etag, struct curl_slist **list, qk_error *err)
{
    const qk__libraries *lib = &c->fetch->libraries;
    char *authorization =
        token ? qk__format("Authorization: Bearer %s", c->fetch->access.token) : NULL;
    char *condition = *etag ? qk__format("If-Range: %s", etag) : NULL;
    int64_t end = c->request->end_byte;
    bool part = from > 0 || end > 0;
    char *range =
        end > 0 ? qk__format("Range: bytes=%lld-%lld", (long long)from, (long long)end - 1)
                : qk__format("Range: bytes=%lld-", (long long)from);
    bool done = add_header(lib, list, "Accept-Encoding: identity") &&
                (!token || add_header(lib, list, authorization)) &&
                (!part || (add_header(lib, list, range) &&
                           (!*etag || add_header(lib, list, condition))));
    free(range);
    free(condition);
    free(authorization);
    const qk__sending *sending = c->request->sending;
    for (int i = 0; done && sending && i < 2 && sending->headers[i]; i++)
        done = add_header(lib, list, sending->headers[i]);
    if (done && sending) /* the answer may come at the end */
        done = add_header(lib, list, "Expect:");
    return done ? QK_OK : qk__nomem(err);
}

static bool set_method(const qk__connection *c)
{
    const qk__libraries *lib = &c->fetch->libraries;
    const qk__sending *sending = c->request->sending;
    if (!sending)
        return lib->easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, NULL) == CURLE_OK &&
               lib->easy_setopt(c->curl, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    return lib->easy_setopt(c->curl, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
           lib->easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, sending->method) == CURLE_OK &&
           lib->easy_setopt(c->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)sending->size) ==
               CURLE_OK;
}

static outcome fail_transfer(qk__connection *c, CURLcode code, const char *origin,
                             qk_error *err)
{
    if (c->failed != QK_OK) {
        (void)qk__fail(err, c->failed, "%s: %s", origin, c->failure.message);
        return c->failed == QK_ERR_INCONSISTENT ? WRONG : FAILED;
    }
    if (c->silent) {
        (void)qk__fail(err, QK_ERR_IO, "%s: nothing came for %ld s", origin, patience_of(c));
        return AGAIN;
    }
    if ((int)code == TOO_LARGE) {
        (void)qk__headers_long(origin, err);
        return FAILED;
    }
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        (void)qk__fail(err, QK_ERR_CANCELLED, "stopped");
        return FAILED;
    case CURLE_OUT_OF_MEMORY:
        (void)qk__headers_nomem(&c->answer, origin, err);
        return FAILED;
    case CURLE_WRITE_ERROR:
        (void)qk__fail(err, QK_ERR_MALFORMED, "%s: an endless answer with status %d", origin,
                       c->answer.status);
        return FAILED;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        (void)qk__fail(err, QK_ERR_IO, "%s: %s", origin,
                       *c->detail ? c->detail : c->fetch->libraries.easy_strerror(code));
        return FAILED;
    default:
        (void)qk__fail(err, QK_ERR_IO, "%s: %s", origin,
                       *c->detail ? c->detail : c->fetch->libraries.easy_strerror(code));
        return AGAIN;
    }
}

/* Sends a request to one address; DONE: an answer of any status. */
static outcome send_to(qk__connection *c, const char *address, const char *origin, int64_t from,
                       const char *etag, qk_error *err)
{
    const qk__access *access = &c->fetch->access;
    const qk__libraries *lib = &c->fetch->libraries;
    bool hub = strcmp(origin, access->origin) == 0;
    struct curl_slist *headers = NULL;
    qk__headers_free(&c->answer);
    c->failed = QK_OK;
    c->ignored = 0;
    c->moved = 0;
    c->silent = false;
    *c->detail = 0;
    if (make_headers(c, hub && access->token, from, etag, &headers, err) != QK_OK ||
        !set_method(c) || lib->easy_setopt(c->curl, CURLOPT_URL, address) != CURLE_OK) {
        lib->slist_free_all(headers);
        (void)qk__nomem(err);
        return FAILED;
    }
    lib->easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    if (hub)
        atomic_fetch_add(&c->fetch->requests, 1);
    CURLcode code = lib->easy_perform(c->curl);
    lib->easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
    lib->slist_free_all(headers);
    c->answered |= c->answer.status > 0;
    return code == CURLE_OK ? DONE : fail_transfer(c, code, origin, err);
}

/* ---- what the Hub says ------------------------------------------------------------------- */

/* What an answer means that is no redirect. */
static outcome judge(qk__connection *c, const char *origin, qk_error *err)
{
    const qk__headers *a = &c->answer;
    bool hub = strcmp(origin, c->fetch->access.origin) == 0;
    const qk__sending *sending = c->request->sending;
    if (is_success(c) || (a->status == 416 && !sending)) {
        qk_status status = c->request->end(c->request->user, a, &c->failure);
        if (status == QK_OK)
            return DONE;
        (void)qk__fail(err, status, "%s: %s", origin, c->failure.message);
        return status == QK_ERR_INCONSISTENT ? WRONG : FAILED;
    }
    qk__headers_end(&c->answer);
    /* An address with a signature holds for some minutes: the Hub redirects to another one. */
    bool again = a->status == 408 || a->status == 429 || a->status >= 500 || (!hub && !sending);
    if (again)
        (void)qk__fail(err, QK_ERR_IO, "%s: HTTP status %d%s%s", origin, a->status,
                       *a->message ? ": " : "", a->message);
    else if (sending)
        (void)sending->refused(c->request->user, a, origin, err);
    else
        (void)qk__refused(c->fetch, a, origin, err);
    return !again ? FAILED : a->status == 429 ? LIMITED : AGAIN;
}

/* ---- open and close ---------------------------------------------------------------------- */

static CURLcode set_up(const qk__connection *c, const char *certificates)
{
    long timeout = c->fetch->access.timeout;
    const qk__libraries *lib = &c->fetch->libraries;
    CURLcode code = CURLE_OK; /* of the first that fails */
#define SET(option, value)                                                                     \
    code = code != CURLE_OK ? code : lib->easy_setopt(c->curl, CURLOPT_##option, value)
    SET(NOSIGNAL, 1L);
    SET(PROTOCOLS_STR, "http,https");
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(FOLLOWLOCATION, 0L);
    SET(HEADEROPT, (long)CURLHEADER_SEPARATE);
    SET(USERAGENT, "qkscope/" QK_VERSION);
    SET(CONNECTTIMEOUT, timeout);
    SET(BUFFERSIZE, (long)BUFFER);
    SET(ERRORBUFFER, c->detail);
    SET(NOPROGRESS, 0L);
    SET(XFERINFOFUNCTION, on_progress);
    SET(XFERINFODATA, c);
    SET(HEADERFUNCTION, on_header);
    SET(HEADERDATA, c);
    SET(UPLOAD_BUFFERSIZE, (long)BUFFER);
    SET(READFUNCTION, on_read);
    SET(READDATA, c);
    SET(SEEKFUNCTION, on_seek);
    SET(SEEKDATA, c);
    SET(WRITEFUNCTION, on_body);
    SET(WRITEDATA, c);
    if (certificates)
        SET(CAINFO, certificates);
#undef SET
    return code;
}

/* Before the first request. */
static qk_status get_ready(qk__connection *c, qk_error *err)
{
    if (c->curl)
        return QK_OK;
    QK_TRY(qk__fetch_load(c->fetch, err));
    c->curl = c->fetch->libraries.easy_init();
    if (!c->curl)
        return qk__nomem(err);
    CURLcode code = set_up(c, qk__certificates());
    if (code == CURLE_OK)
        return QK_OK;
    c->fetch->libraries.easy_cleanup(c->curl);
    c->curl = NULL; /* the next request tries again */
    return code == CURLE_OUT_OF_MEMORY
               ? qk__nomem(err)
               : qk__fail(err, QK_ERR_UNSUPPORTED,
                          "libcurl is too old: at least version 7.85 is needed");
}

qk_status qk__connection_open(qk__connection **connection, qk__fetch *fetch, qk_error *err)
{
    qk__connection *c = *connection = calloc(1, sizeof *c);
    if (!c)
        return qk__nomem(err);
    c->fetch = fetch;
    return QK_OK;
}

void qk__connection_close(qk__connection **connection)
{
    qk__connection *c = *connection;
    if (!c)
        return;
    if (c->curl)
        c->fetch->libraries.easy_cleanup(c->curl);
    qk__headers_free(&c->answer);
    free(c);
    *connection = NULL;
}

/* ---- attempts ---------------------------------------------------------------------------- */

static outcome attempt(qk__connection *c, const qk__request *request, int64_t from,
                       const char *etag, qk_error *err)
{
    char *address = qk__strdup(request->address), *origin = NULL;
    outcome how = FAILED;
    if (!address)
        (void)qk__nomem(err);
    else if (qk__origin_of(&c->fetch->libraries, address, &origin, err) == QK_OK)
        how = send_to(c, address, origin, from, etag, err);
    for (int hop = 0; how == DONE && qk__headers_redirect(&c->answer); hop++) {
        char *next = NULL, *next_origin = NULL;
        if (request->sending)
            (void)qk__fail(err, QK_ERR_MALFORMED,
                           "%s: redirects what is sent (HTTP status %d): refused", origin,
                           c->answer.status);
        else if (hop == MAX_REDIRECTS)
            (void)qk__fail(err, QK_ERR_MALFORMED, "%s: redirected %d times, and again", origin,
                           hop);
        if (request->sending || hop == MAX_REDIRECTS) {
            how = FAILED;
            break;
        }
        qk_status status =
            qk__address_resolve(&c->fetch->libraries, address, c->answer.location, origin,
                                &next, &next_origin, err);
        free(address);
        free(origin);
        address = next;
        origin = next_origin;
        how = status == QK_OK ? send_to(c, address, origin, from, etag, err) : FAILED;
    }
    if (how == DONE)
        how = judge(c, origin, err);
    free(address);
    free(origin);
    return how;
}

typedef struct tally {
    int failures, wrong, limits;
    int64_t best; /* byte that the last good attempt began with */
} tally;

/* How many failures are borne. */
static int patience(const qk__connection *c)
{
    int tries = c->fetch->context.hub_tries, most = tries > 0 ? tries - 1 : MAX_FAILURES;
    if (c->fetch->hurried || (c->request->sending && c->request->sending->once))
        return 0;
    return c->answered || most < MAX_UNANSWERED ? most : MAX_UNANSWERED;
}

/* Whether there has been enough of it; else how long to wait. */
static bool give_up(const qk__connection *c, outcome how, tally *t, double *wait, qk_error *err)
{
    static const double WAITS[] = {0, 1, 2, 4, 8};
    const int last = sizeof WAITS / sizeof *WAITS - 1;
    t->failures += how == AGAIN;
    t->wrong += how == WRONG;
    t->limits += how == LIMITED;
    int tried = t->limits > MAX_LIMITS ? t->limits : t->failures + t->wrong;
    bool enough = tried > patience(c) || t->wrong > MAX_WRONG || t->limits > MAX_LIMITS;
    int count = how == LIMITED ? t->limits : t->failures;
    *wait = WAITS[count < last ? count : last];
    if (how != WRONG && c->answer.wait >= 0)
        *wait = (double)c->answer.wait;
    char why[sizeof err->message];
    snprintf(why, sizeof why, "%s", err->message);
    if (enough)
        (void)qk__fail(err, err->status, "%.900s; tried %d time%s", why, tried,
                       tried == 1 ? "" : "s");
    else if (*wait > MAX_WAIT)
        (void)qk__fail(err, err->status,
                       "%.900s; wait %.0f minutes, then go on with the same command", why,
                       *wait / 60);
    return enough || *wait > MAX_WAIT;
}

/* Where the limit is that of all requests, all wait. */
static bool pause(qk__connection *c, outcome how, double wait, const qk_error *err)
{
    qk__fetch *f = c->fetch;
    double until = qk__now() + wait;
    pthread_mutex_lock(&f->lock);
    bool news = f->hold < until - 0.5;
    if (how == LIMITED && news)
        f->hold = until;
    pthread_mutex_unlock(&f->lock);
    if (how == LIMITED && news)
        qk__tell_notice(&f->context, QK_NOTICE_REMARK,
                        "%s: the limit of requests is reached: waiting %.0f s", f->name, wait);
    else if (how != LIMITED && wait >= 1)
        qk__tell_notice(&f->context, QK_NOTICE_REMARK, "%s; trying again in %.0f s",
                        err->message, wait);
    return qk__fetch_wait(f, wait);
}

/* After an attempt that was not the last: waits, unless it brought a good deal. */
static qk_status settle_next(qk__connection *c, outcome how, tally *t, int64_t from,
                             qk_error *why, qk_error *err)
{
    double wait = 0;
    bool came = t->best >= 0 && from >= t->best + ENOUGH_BYTES;
    t->best = from > t->best ? from : t->best;
    if (how == DONE) /* there was none */
        return QK_OK;
    if (came)
        t->failures = 0;
    if (!(came && how == AGAIN) && give_up(c, how, t, &wait, why))
        return qk__fail(err, why->status, "%s", why->message);
    return pause(c, how, wait, why) ? QK_OK : qk__fail(err, QK_ERR_CANCELLED, "stopped");
}

qk__fetch *qk__connection_fetch(const qk__connection *c)
{
    return c->fetch;
}

const qk__headers *qk__connection_answer(const qk__connection *c)
{
    return &c->answer;
}

qk_status qk__connection_get(qk__connection *c, const qk__request *request, qk_error *err)
{
    tally t = {.best = -1};
    qk_error why = {.status = QK_OK};
    c->request = request;
    QK_TRY(get_ready(c, err));
    for (outcome how = DONE;;) {
        int64_t from = 0;
        const char *etag = "";
        QK_TRY(request->begin(request->user, &from, &etag, err));
        QK_TRY(settle_next(c, how, &t, from, &why, err));
        pthread_mutex_lock(&c->fetch->lock);
        double hold = c->fetch->hold - qk__now();
        pthread_mutex_unlock(&c->fetch->lock);
        if ((hold > 0 && !qk__fetch_wait(c->fetch, hold)) || !qk__fetch_tick(c->fetch, 0, 0))
            return qk__fail(err, QK_ERR_CANCELLED, "stopped");
        how = attempt(c, request, from, etag, &why);
        if (how == DONE)
            return QK_OK;
        if (how == FAILED)
            return qk__fail(err, why.status, "%s", why.message);
    }
}
