/* SPDX-License-Identifier: Apache-2.0 */
/* What get.c, which leads, list.c and outline.c share: a call's commit and files; and JSON that the
 * Hub answers, of text.c. */
#ifndef QK_FETCH_GET_H
#define QK_FETCH_GET_H

#include <jansson.h>

#include "fetch/fetch.h"

/* Close it also where it failed. Messages of open are complete; those of the others get the name of the
 * repository by qk__fetch_about. */
QK_MUST_CHECK qk_status qk__fetch_open(qk__fetch *fetch, const qk_hub_settings *settings,
                                       qk_error *err);
void qk__fetch_close(qk__fetch *fetch);
qk_status qk__fetch_about(const qk__fetch *fetch, qk_status status, qk_error *err);

/* The commit that fetch->revision stands for, into fetch->commit. connection may be NULL offline. */
QK_MUST_CHECK qk_status qk__fetch_settle_commit(qk__fetch *fetch, qk__connection *connection,
                                                qk_error *err);

/* The files of the commit, from the cache, else from the Hub; keep: and then into the cache. Offline
 * *known may be false. */
QK_MUST_CHECK qk_status qk__fetch_files(qk__fetch *fetch, qk__connection *connection, bool keep,
                                        qk__repo_files *files, bool *known, qk_error *err);

/* The same; but a snapshot of a program that keeps no list of files is used also where the Hub cannot be
 * asked, as it was before there were such lists: *known is false. */
QK_MUST_CHECK qk_status qk__fetch_list(qk__fetch *fetch, qk__connection *connection, bool keep,
                                       qk__repo_files *files, bool *known, qk_error *err);

/* Those that the settings want, to the front. */
QK_MUST_CHECK qk_status qk__fetch_choose(const qk__fetch *fetch, qk__repo_files *files,
                                         size_t *count, qk_error *err);

/* Refuses to use a file that is in the cache, and not whole: its size is not that of the list. */
QK_MUST_CHECK qk_status qk__fetch_check_size(const qk__fetch *fetch, const qk__repo_file *file,
                                             qk_error *err);

/* All that: commit, files, those that are wanted. */
typedef struct qk__found {
    bool known;            /* what files there are */
    qk__repo_files chosen; /* at least one, if that is known; they belong to all files */
    qk__wanted_form form;  /* of the capture, of which some were chosen */
} qk__found;
QK_MUST_CHECK qk_status qk__fetch_find(qk__fetch *fetch, qk__connection *connection, bool keep,
                                       qk__repo_files *files, qk__found *found, qk_error *err);

/* Fills in all but what came of which file. */
QK_MUST_CHECK qk_status qk__fetch_describe(const qk__fetch *fetch, const qk__repo_files *chosen,
                                           qk__wanted_form form, qk_hub_snapshot *snapshot,
                                           qk_error *err);
qk_status qk__fail_not_cached(const qk__fetch *fetch, qk_error *err);

/* The answer of the Hub's interface for programs to what qk__fetch_address makes of tail and word. */
QK_MUST_CHECK qk_status qk__fetch_ask(qk__connection *connection, const char *tail,
                                      const char *word, json_t **root, qk_error *err);
/* The commit that an answer about a revision names. */
QK_MUST_CHECK qk_status qk__fetch_take_commit(qk__fetch *fetch, const json_t *root,
                                              qk_error *err);

#endif
