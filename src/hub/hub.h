/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets and models that are given by name. get.c leads: cache.c tells where a name lies, wanted.c which files of
 * it a run needs, and where one of them is missing, hf.c runs `hf download`. */
#ifndef QK_HUB_HUB_H
#define QK_HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/hub.h>

#include "base/path.h"

/* ---- places (cache.c) -------------------------------------------------------------------- */

enum { QK__COMMIT_SIZE = 65 }; /* 40 digits, or 64 of a repository with SHA-256 */

typedef struct qk__repo {
    const char *kind; /* "dataset" or "model" */
    const char *name, *revision;
    qk__path path;   /* of what lies elsewhere; empty: it is looked for in the cache */
    qk__path cache;  /* the folder of all repositories */
    qk__path folder; /* of this one */
    char commit[QK__COMMIT_SIZE]; /* that the cache has for the revision; "" = none */
} qk__repo;

/* QK_ERR_NOT_FOUND: it is no path, and not the name of a repository. */
QK_MUST_CHECK qk_status qk__repo_find(qk__repo *repo, const qk_hub_wanted *wanted,
                                      qk_error *err);

/* Looks for the commit anew. */
QK_MUST_CHECK qk_status qk__repo_find_commit(qk__repo *repo, qk_error *err);

/* The path, or the folder of the commit. QK_ERR_NOT_FOUND: there is none, and what to do about it. */
QK_MUST_CHECK qk_status qk__repo_place(const qk__repo *repo, bool offline, char **path,
                                       qk_error *err);

/* Whether nothing may be fetched, as the context or the environment says. */
bool qk__hub_is_offline(const qk_context *context);

/* ---- files (wanted.c) -------------------------------------------------------------------- */

typedef struct qk__repo_file {
    const char *path; /* '/' between its parts */
    int64_t size;
    bool wanted;
} qk__repo_file;

/* All files of a commit, sorted by path; count 0: nobody knows. */
typedef struct qk__repo_files {
    qk__repo_file *items;
    size_t count;
    json_t *json; /* holds the paths */
} qk__repo_files;

/* What huggingface_hub has noted beside the snapshot. */
QK_MUST_CHECK qk_status qk__files_read(qk__repo_files *files, const qk__repo *repo,
                                       qk_error *err);
void qk__files_free(qk__repo_files *files);

/* Marks the files that are wanted. It fails where there are none, or where the run could not use them. */
QK_MUST_CHECK qk_status qk__files_choose(qk__repo_files *files, const qk_hub_wanted *wanted,
                                         qk_error *err);

/* What the files tell of a capture, also those that are not wanted. */
void qk__files_shape(const qk__repo_files *files, const char *prefix, qk_hub_place *place);

/* Names of files that are surely wanted, as patterns; NULL at the end. */
const char *const *qk__usual_names(qk_hub_part part);

/* Whether a path has the word in it, other letters neither before nor behind it. */
bool qk__has_word(const char *path, const char *word);

/* ---- hf (hf.c) --------------------------------------------------------------------------- */

/* Has hf fetch the files that fit these patterns. */
QK_MUST_CHECK qk_status qk__hf_download(const qk__repo *repo, const qk_hub_wanted *wanted,
                                        char *const *patterns, size_t count, qk_error *err);

#endif
