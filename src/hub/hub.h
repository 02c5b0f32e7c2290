/* SPDX-License-Identifier: Apache-2.0 */
/* Names on the Hub, and the Hugging Face cache on disk. get.c leads: it has `hf download` bring what is
 * missing (hf.c). cache.c has names, and where a dataset or a model lies; tree_file.c the list of a commit's files that
 * hf keeps; wanted.c chooses among them. */
#ifndef QK_HUB_HUB_H
#define QK_HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/capture.h>
#include <qkscope/hub.h>

enum {
    QK__MAX_COMMIT = 64, /* digits of a commit's name: 40, or 64 of SHA-256 repositories */
    QK__MIN_COMMIT = 7,  /* of a prefix that is taken for one */
};

/* ---- names and places (cache.c) ---------------------------------------------------------- */

typedef struct qk__repo_kind {
    const char *folder; /* its folder in the cache begins with it */
    const char *what;   /* --repo-type of hf, too */
} qk__repo_kind;

extern const qk__repo_kind qk__hub_dataset, qk__hub_model;

/* Letters, digits, '-', '.' and '_' as the Hub has them: "org/name", or "name" alone. */
bool qk__hub_is_name(const char *name);
/* A branch, tag or commit as git may have it. It becomes a path below refs/ ("refs/pr/1" does, too); it must stay
 * there. */
bool qk__hub_is_revision(const char *revision);

/* Whether nothing may be fetched, as the context or the environment says (get.c). */
bool qk__hub_is_offline(const qk_context *context);

/* The folder of the cache: `given`, or as the environment says where it is NULL. */
QK_MUST_CHECK qk_status qk__hub_cache(const char *given, char **path, qk_error *err);
/* The folder of a repository in the cache; NULL without memory. */
char *qk__hub_folder(const char *cache, const qk__repo_kind *kind, const char *name);
/* Where local_root has a dataset (see qk_hub_find_dataset) as a folder; *path NULL: it has none. It may be a
 * cache all the same. */
QK_MUST_CHECK qk_status qk__hub_find_in_root(const char *root, const char *name, char **path,
                                             qk_error *err);
/* The commit that the cache has for a revision; "" where it has none. QK_ERR_MALFORMED: its file holds
 * something else. */
QK_MUST_CHECK qk_status qk__hub_cached_commit(const char *folder, const char *revision,
                                              char commit[QK__MAX_COMMIT + 1], qk_error *err);

/* ---- the files of a commit (tree_file.c) ------------------------------------------------------ */

typedef struct qk__repo_file {
    char *path; /* '/' between its parts, as the Hub has it */
    int64_t size;
    bool wanted;
} qk__repo_file;

typedef struct qk__repo_files {
    qk__repo_file *items; /* sorted by path */
    size_t count, capacity;
} qk__repo_files;

void qk__repo_files_free(qk__repo_files *files);

/* What folder/trees/<commit>.json lists. Where there is no such file, or one that huggingface_hub
 * would not read, *known is false. */
QK_MUST_CHECK qk_status qk__tree_read(const char *folder, const char *commit,
                                      qk__repo_files *files, bool *known, qk_error *err);

/* ---- which of them (wanted.c) ------------------------------------------------------------ */

/* Whether a path has the word in it, other letters neither before nor behind it. */
bool qk__has_word(const char *path, const char *word);

/* Marks the files that are wanted; *count is their number. */
QK_MUST_CHECK qk_status qk__wanted_choose(const qk_hub_wanted *wanted, qk__repo_files *files,
                                          size_t *count, qk_error *err);

/* Fills in what the names of all files tell of a capture, of which a part may be wanted. */
void qk__wanted_shape(const qk__repo_files *files, const char *prefix, qk_hub_place *place);

/* The GGUF file, or the first part of it, that the weights of a model are; NULL: they are safetensors, or
 * there are several. */
const char *qk__wanted_gguf(const qk__repo_files *files);

/* Whether the wanted files are captures in several folders. list: these folders, as many as have room,
 * with commas; "." is the top. */
bool qk__wanted_several(const qk__repo_files *files, char *list, size_t size);

/* ---- hf (hf.c) --------------------------------------------------------------------------- */

typedef struct qk__fetch {
    const qk_hub_wanted *wanted;
    const qk__repo_kind *kind;
    const char *name, *revision;
    const char *
        given; /* folder of the cache, of which hf must be told; NULL = as the environment says */
    char *cache, *folder;
    char commit[QK__MAX_COMMIT + 1];
    bool offline, known; /* known: what files there are */
    qk__repo_files files;
    size_t num_wanted, num_missing;
} qk__fetch;

/* Arguments of hf; one that could not be added for want of memory leaves `lost`. */
typedef struct qk__hf_words {
    char **items;
    size_t count, capacity;
    bool lost;
} qk__hf_words;

void qk__hf_words_free(qk__hf_words *words);
/* Adds --include and the beginning of a path, then `end`. */
void qk__hf_include(qk__hf_words *words, const char *path, size_t length, const char *end);

/* hf download of these. */
QK_MUST_CHECK qk_status qk__hf_download(qk__fetch *fetch, const qk__hf_words *includes,
                                        qk_error *err);

#endif
