/* SPDX-License-Identifier: Apache-2.0 */
/* What sending a capture shares. put_capture.c leads. put_files.c finds the files of a capture,
 * put_paths.c what of this machine they tell, put_hash.c their hashes; put_look.c asks what the Hub has of them, and makes dataset and branch;
 * put_card.c decides about README.md.
 * put_lfs.c has large files stored, put_send.c sends the bytes of one; put_commit.c commits.
 * put_refusal.c says what to do about a no. */
#ifndef QK_FETCH_PUT_H
#define QK_FETCH_PUT_H

#include <jansson.h>

#include "fetch/get.h"

/* ---- the files of a capture (put_files.c) ------------------------------------------------ */

typedef struct qk__put_file {
    char *path;   /* on the Hub */
    char *source; /* here */
    int64_t size;
    char sha256[QK__MAX_HASH + 1]; /* "" = not known yet */
    char oid[QK__MAX_HASH + 1];    /* git's name of the blob, likewise */
    bool lfs;                      /* the Hub wants it in its store */
    bool in_memory; /* its bytes are not those of the capture's file; `fd` has them */
    int fd;
    qk_hub_change change;
} qk__put_file;

typedef struct qk__put_files {
    qk__put_file *items;
    size_t count, capacity;
} qk__put_files;

/* Sorted by path. *title: for the commit. QK_ERR_INCONSISTENT: the capture is not whole. */
QK_MUST_CHECK qk_status qk__put_find_files(const qk_hub_put_settings *settings,
                                           qk__put_files *files, char **title, qk_error *err);
void qk__put_files_free(qk__put_files *files);

#define QK__CARD_NAME "README.md"

/* Whether a path is one that captures have; README.md is everybody's. */
bool qk__put_is_of_capture(const char *path);

/* ---- the call (put_capture.c) ----------------------------------------------------------- */

typedef struct qk__put {
    const qk_hub_put_settings *settings;
    qk_hub_settings hub;        /* of the client */
    qk__fetch fetch;            /* fetch.commit: of the branch; "" = it has none */
    qk__connection *connection; /* of this thread */
    qk__crew crew;              /* of others */
    qk__put_files files;
    size_t *differing; /* indices of files that are new or changed, in order */
    size_t num_differing;
    qk__repo_files there; /* on the branch */
    qk__put_files others; /* of these, what another capture has left */
    qk__put_file **large; /* of what differs, for the Hub's store */
    size_t num_large;
    size_t *chunks; /* where in `large` those begin that are sent together, and its end */
    char *title;
    bool dataset_missing, branch_missing, is_public;
    bool has_attributes; /* the branch says which files git keeps by LFS */
    int commits;
} qk__put;

/* Progress begins anew, of so many bytes. */
void qk__put_measure(qk__put *put, int64_t bytes);

/* ---- what they tell of this machine (put_paths.c) ---------------------------------------- */

/* Where a file of the capture in `folder` lies, links followed: in it, or where that is in the cache of the Hub, in
 * the same repository. What lies elsewhere is QK_ERR_INCONSISTENT. */
QK_MUST_CHECK qk_status qk__put_resolve(const char *source, const char *folder, char **place,
                                        qk_error *err);
/* Absolute paths in papers: a warning, or they are shortened in what is sent. */
QK_MUST_CHECK qk_status qk__put_settle_paths(qk__put *put, qk_error *err);

/* ---- hashes (put_hash.c) ----------------------------------------------------------------- */

/* The hash of a file, by which the Hub's store (lfs) or git knows it, into the file. */
QK_MUST_CHECK qk_status qk__put_hash(qk__fetch *fetch, qk__put_file *file, bool lfs,
                                     qk_error *err);
/* That of bytes in memory, as git has it. */
QK_MUST_CHECK qk_status qk__put_hash_text(const qk__libraries *lib, const void *bytes,
                                          size_t size, char oid[QK__MAX_HASH + 1],
                                          qk_error *err);
/* Ends a hash: its digits. */
QK_MUST_CHECK qk_status qk__put_digits(const qk__libraries *lib, EVP_MD_CTX *hash,
                                       char digits[QK__MAX_HASH + 1], qk_error *err);
/* The sentence for a file that is no longer what it was. */
qk_status qk__put_changed(const qk__put_file *file, qk_error *err);

/* ---- what the Hub has (put_look.c) ------------------------------------------------------- */

/* Which commit the branch has, and whether there are dataset and branch at all. */
QK_MUST_CHECK qk_status qk__put_look(qk__put *put, qk_error *err);
/* Makes what is missing. */
QK_MUST_CHECK qk_status qk__put_make(qk__put *put, qk_error *err);
/* Reads the branch's list, and sets the change of every file. */
QK_MUST_CHECK qk_status qk__put_compare(qk__put *put, qk_error *err);
/* Of a README.md whose bytes differ: whether it stays (put_card.c). */
QK_MUST_CHECK qk_status qk__put_settle_card(qk__put *put, qk__put_file *file,
                                            const qk__repo_file *there, qk_error *err);
/* Reads it again, of the commit that there is now, and checks that it has these files, whose hashes
 * are known, and none of those to be removed. *odd: the first that is otherwise; NULL: none. */
QK_MUST_CHECK qk_status qk__put_check(qk__put *put, qk__put_file *const *files, size_t count,
                                      const qk__put_file **odd, qk_error *err);

/* Sends JSON, which is released, and gets JSON; lfs: they are called by the name that Git LFS has for
 * them. */
QK_MUST_CHECK qk_status qk__put_json(qk__connection *connection, const char *address, bool lfs,
                                     json_t *body, json_t **answer, qk_error *err);
/* The same where the answer does not matter. */
QK_MUST_CHECK qk_status qk__put_post(qk__connection *connection, const char *address, bool lfs,
                                     json_t *body, qk_error *err);

/* ---- large files (put_lfs.c, put_send.c) ------------------------------------------------- */

/* The .gitattributes of a branch that has none. */
extern const char qk__put_attributes[];

/* Asks for each file that differs whether it goes to the Hub's store, and finds its hash. */
QK_MUST_CHECK qk_status qk__put_ask_modes(qk__put *put, qk_error *err);
/* Sends those that do and that the store does not have. */
QK_MUST_CHECK qk_status qk__put_store(qk__put *put, qk_error *err);

/* Where the store wants the bytes of a file: the whole at one address, or parts. */
typedef struct qk__put_target {
    const char **addresses;
    char (*etags)[QK__MAX_HASH + 4]; /* what the store calls the parts, with quotes */
    size_t count;
    int64_t part; /* bytes of each but the last */
} qk__put_target;
/* Sends them. The last bytes go only if all together have the file's SHA-256. *stale: the store
 * refuses an address; a new one may help. */
QK_MUST_CHECK qk_status qk__put_send(qk__connection *connection, const qk__put_file *file,
                                     const qk__put_target *target, bool *stale, qk_error *err);

/* ---- commits (put_commit.c) -------------------------------------------------------------- */

/* Commits all files that differ, and checks what the branch has then. */
QK_MUST_CHECK qk_status qk__put_commit(qk__put *put, qk_error *err);

/* ---- refusals (put_refusal.c) ------------------------------------------------------------ */

qk__refuse_fn qk__put_refused;

#endif
