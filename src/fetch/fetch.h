/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the Hub. get.c leads: it asks for commit and files, and has the missing ones fetched by
 * several threads; download.c brings one file into the cache, connection.c sends one request, as often
 * as it takes, text.c those of texts, crew.c many of them; outline.c fetches parts of files; headers.c
 * reads headers; refusal.c says what to do about a no; access.c knows address, token and time-outs,
 * address.c addresses; load.c gets libraries.c; progress.c tells the user. drop.c removes what record.c
 * knows to have been fetched. need.c is for other rooms; put.h is about sending. */
#ifndef QK_FETCH_FETCH_H
#define QK_FETCH_FETCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/hub.h>

#include "base/buffer.h"
#include "base/context.h"
#include "base/file.h"
#include "fetch/libraries.h"
#include "hub/hub.h"

/* ---- headers (headers.c) ------------------------------------------------------------------ */

enum { QK__MAX_HEADERS = 128 << 10, QK__MAX_ADDRESS = 16 << 10 };

/* What the headers of an answer say. Numbers are -1 where they say nothing. */
typedef struct qk__headers {
    int status;
    int64_t length;              /* of the body */
    int64_t first, total;        /* of a range */
    int64_t wait;                /* seconds until another request makes sense */
    bool limited;                /* no requests are left */
    bool encoded;                /* compressed, say */
    char etag[QK__MAX_HASH + 4]; /* with its quotes; "" if weak */
    char code[48], message[304]; /* the Hub's, of errors */
    char body[2048];             /* the start of what came with one */
    size_t body_size;
    char *location, *next; /* addresses; next: of the next page */
    size_t bytes;          /* of all lines */
} qk__headers;

/* It says nothing then. */
void qk__headers_free(qk__headers *answer);

/* Takes in a part of the body of an error, and at its end the Hub's sentence from it, {"error": "..."}, if no
 * header had one. */
void qk__headers_body(qk__headers *answer, const char *bytes, size_t size);
void qk__headers_end(qk__headers *answer);

/* Takes in a line; a status line begins anew. QK_ERR_MALFORMED: more than any server has to say, or an
 * address that is none. */
QK_MUST_CHECK qk_status qk__headers_line(qk__headers *answer, const char *line, size_t size,
                                         qk_error *err);

/* Whether they send the client to another address. */
bool qk__headers_redirect(const qk__headers *answer);
/* The sentence for those that are too long. */
qk_status qk__headers_long(const char *origin, qk_error *err);
/* The sentence where libcurl says that memory ran out: 7.88 says so of a header line above 100 kB, too. */
qk_status qk__headers_nomem(const qk__headers *answer, const char *origin, qk_error *err);

/* ---- who is asked (access.c) ------------------------------------------------------------- */

typedef struct qk__access {
    char *endpoint; /* without a slash at its end */
    char *origin;   /* of it: "https://host:443"; NULL until something is sent */
    char *token;    /* NULL = none */
    bool offline;
    long timeout;
} qk__access;

QK_MUST_CHECK qk_status qk__access_open(qk__access *access, const qk_context *context,
                                        qk_error *err);
void qk__access_close(qk__access *access);

/* The file of those who may speak for the Hub, where a site has its own; as huggingface_hub and curl
 * have it. NULL: there is none. */
const char *qk__certificates(void);

/* ---- addresses (address.c) --------------------------------------------------------------- */

/* "https://host:443" of an address. QK_ERR_MALFORMED: it is none of http or https, or has a user. */
QK_MUST_CHECK qk_status qk__origin_of(const qk__libraries *libraries, const char *address,
                                      char **origin, qk_error *err);

/* Appends text with %XX for what may not be in an address; '/' stays where it may. */
QK_MUST_CHECK qk_status qk__quote(qk__buffer *out, const char *text, bool slashes,
                                  qk_error *err);

/* ---- all requests of a call -------------------------------------------------------------- */

typedef struct qk__fetch {
    const qk_hub_settings *settings;
    qk__relay relay;    /* to the context of the settings, with the lock */
    qk_context context; /* by it: for notices */
    qk__access access;
    const qk__repo_kind *kind;
    const char *name, *revision;
    char *cache, *folder; /* of the repository */
    char commit[QK__MAX_COMMIT + 1];

    pthread_mutex_t lock; /* of what follows, and of notice and progress */
    double told;          /* when progress was */
    double hold;          /* nothing is sent before that time */
    int64_t done, total;  /* bytes */
    int64_t came;         /* over the wire */
    bool counts_files;    /* done and total are files */
    bool hurried;         /* what is asked can be done without */
    bool mends_ref;       /* the cache's file of the revision holds no commit */
    bool loaded;          /* what is needed to send: */
    qk__libraries libraries;
    atomic_llong requests;
    atomic_bool stopped; /* by the caller, or since something failed for good */
} qk__fetch;

/* Makes sure that requests can be sent (load.c). */
QK_MUST_CHECK qk_status qk__fetch_load(qk__fetch *fetch, qk_error *err);
void qk__fetch_unload(qk__fetch *fetch);
/* Counts bytes (of the whole; of those that came), tells progress now and then; false: stop (progress.c). */
bool qk__fetch_tick(qk__fetch *fetch, int64_t bytes, int64_t came);
/* For sentences: "1.5 MB"; "s" unless there is one. */
void qk__size_text(int64_t bytes, char text[24]);
const char *qk__plural(size_t count);
/* Waits; false: stop. */
bool qk__fetch_wait(qk__fetch *fetch, double seconds);

/* An address of the Hub's interface for programs: /api/datasets/org/name, then `tail`, then a quoted
 * word. NULL without memory. */
char *qk__fetch_address(const qk__fetch *fetch, const char *tail, const char *word);

/* The address that `location` means, seen from `address`, whose origin is given, and its origin; both are
 * allocated, also with some errors. From https to http is refused. */
QK_MUST_CHECK qk_status qk__address_resolve(const qk__libraries *libraries, const char *address,
                                            const char *location, const char *origin,
                                            char **next, char **next_origin, qk_error *err);

/* The path and query of an address: whatever host it names, this Hub is asked. */
QK_MUST_CHECK qk_status qk__address_path(const qk__libraries *libraries, const char *address,
                                         char **path, qk_error *err);

/* ---- refusals (refusal.c) ----------------------------------------------------------------- */

/* The sentence for an answer that no other attempt will change; it returns the status of the error. */
qk_status qk__refused(const qk__fetch *fetch, const qk__headers *answer, const char *origin,
                      qk_error *err);

/* ---- one request (connection.c, text.c) -------------------------------------------------- */

/* One of these a thread. */
typedef struct qk__connection qk__connection;
QK_MUST_CHECK qk_status qk__connection_open(qk__connection **connection, qk__fetch *fetch,
                                            qk_error *err);
void qk__connection_close(qk__connection **connection);

/* What a request brings along that is no GET. Redirects of it are refused. */
typedef struct qk__sending {
    const char *method;     /* "POST", "PUT" */
    const char *headers[2]; /* lines; NULL = no more */
    int64_t size;           /* bytes of the body */
    /* Up to `room` bytes of it. begin() of the request is called before each attempt, and takes it
     * from the start. */
    qk_status (*give)(void *user, uint8_t *bytes, size_t room, size_t *size, qk_error *err);
    /* The sentence for an answer that no other attempt will change; returns its status. */
    qk_status (*refused)(void *user, const qk__headers *answer, const char *origin,
                         qk_error *err);
    long patience; /* seconds that the answer may take at least; 0 = as others */
    bool once;     /* it may have been done though no good answer came: the caller finds out */
} qk__sending;

typedef struct qk__request {
    const char *address; /* of the Hub, or where the Hub says that things are sent */
    int64_t
        end_byte; /* of a part of a file that is wanted, the byte after it; 0: all that is there */
    void *user;
    /* Before each attempt: the byte to begin with, and the ETag that it must have ("" = any). */
    qk_status (*begin)(void *user, int64_t *from, const char **etag, qk_error *err);
    /* Bytes of the body, of an answer with 200 or 206. A failure ends the request, but for
     * QK_ERR_INCONSISTENT: then it is sent again. */
    qk_status (*take)(void *user, const qk__headers *answer, const uint8_t *bytes, size_t size,
                      qk_error *err);
    /* The body is complete, as far as the server knows. Failures likewise. */
    qk_status (*end)(void *user, const qk__headers *answer, qk_error *err);
    const qk__sending *sending; /* NULL: a GET */
} qk__request;

/* Sends it, follows redirects, waits and tries again. Messages say what the server says, and name
 * origins, never the rest of an address: it may hold a signature. */
QK_MUST_CHECK qk_status qk__connection_get(qk__connection *connection,
                                           const qk__request *request, qk_error *err);

/* What it belongs to, and the headers of its last answer. */
qk__fetch *qk__connection_fetch(const qk__connection *connection);
const qk__headers *qk__connection_answer(const qk__connection *connection);

enum { QK__MAX_TEXT = 32 << 20 };

/* A whole body of at most so many bytes, with a zero byte after it that is not counted. *next (may be
 * NULL): the path of the next page on the Hub, or NULL. */
QK_MUST_CHECK qk_status qk__connection_get_text(qk__connection *connection, const char *address,
                                                qk__buffer *text, char **next, qk_error *err);

/* The sentence for an answer of the Hub that cannot be read: it may be a page of something between. */
qk_status qk__text_fault(const qk__fetch *fetch, const qk__buffer *text, qk_status status,
                         const char *what, qk_error *err);

/* A text that is sent to an address. */
typedef qk_status qk__refuse_fn(const qk__fetch *fetch, const qk__headers *answer,
                                const char *origin, qk_error *err);
typedef struct qk__post {
    const char *address;
    const qk__buffer *body;
    /* as of qk__sending */
    const char *headers[2];
    qk__refuse_fn *refuse;
    long patience;
    bool once;
} qk__post;

/* Sends it; the answer comes as that of qk__connection_get_text. */
QK_MUST_CHECK qk_status qk__connection_post(qk__connection *connection, const qk__post *post,
                                            qk__buffer *text, qk_error *err);

/* ---- many requests at a time (crew.c) ---------------------------------------------------- */

enum { QK__JOBS = 4, QK__MAX_JOBS = 64 };

/* Zero but for fetch before it is used. */
typedef struct qk__crew {
    qk__fetch *fetch;
    qk__connection *connections[QK__MAX_JOBS]; /* one a thread, opened when it is needed */
    qk_status (*work)(void *context, size_t i, qk__connection *connection, qk_error *err);
    void *context;
} qk__crew;

/* work(context, 0 .. count - 1), as many at a time as settings->jobs says. The first failure stops all. */
QK_MUST_CHECK qk_status qk__crew_run(qk__crew *crew, size_t count,
                                     qk_status (*work)(void *context, size_t i,
                                                       qk__connection *connection,
                                                       qk_error *err),
                                     void *context, qk_error *err);
void qk__crew_close(qk__crew *crew);

/* ---- one file (download.c) --------------------------------------------------------------- */

typedef struct qk__download {
    const qk__repo_file *file;
    bool fetched; /* bytes came for it */
    bool busy;    /* another process is fetching it: try again when the others are done */
} qk__download;

/* Brings the file into blobs/ and makes its link. `leftovers` are names in blobs/ that runs which
 * were cut off have left. */
QK_MUST_CHECK qk_status qk__download_run(qk__fetch *fetch, qk__connection *connection,
                                         qk__download *download, const qk__names *leftovers,
                                         bool last_chance, qk_error *err);

/* Where the Hub has a file, with a zero byte at its end. */
QK_MUST_CHECK qk_status qk__file_address(const qk__fetch *fetch, const qk__repo_file *file,
                                         qk__buffer *address, qk_error *err);

/* ---- what was fetched (record.c) --------------------------------------------------------- */

/* Adds lines to settings->record: '+' for files that were fetched, '-' for those that are to go. */
QK_MUST_CHECK qk_status qk__record_add(const qk__fetch *fetch, char sign,
                                       const qk__repo_file *const *files, size_t count,
                                       qk_error *err);

/* What the record says of this repository: sorted names in blobs/ of what was fetched and not dropped. */
QK_MUST_CHECK qk_status qk__record_read(const qk__fetch *fetch, qk__names *names,
                                        qk_error *err);

/* ---- leftovers (download.c) -------------------------------------------------------------- */

/* Names in blobs/ of files that are not complete, sorted. */
QK_MUST_CHECK qk_status qk__download_leftovers(const qk__fetch *fetch, qk__names *names,
                                               qk_error *err);
/* Bytes that the longest of them has of a file. */
int64_t qk__download_gathered(const qk__fetch *fetch, const qk__repo_file *file,
                              const qk__names *names);

#endif
