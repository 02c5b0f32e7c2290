/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face cache on disk. cache.c leads: names, and where a dataset or a model lies; snapshot.c
 * makes what a download leaves there and tells what of it is missing; wanted.c chooses files; listing.c
 * reads a repository's files as the Hub lists them, tree_file.c as a download keeps the list. */
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
    QK__MAX_HASH = 64,
};

/* ---- names and places (cache.c) ---------------------------------------------------------- */

typedef struct qk__repo_kind {
    const char *folder; /* its folder in the cache begins with it, and the Hub's addresses */
    const char *what;
    const char *option; /* of `qkscope get` */
} qk__repo_kind;

extern const qk__repo_kind qk__hub_dataset, qk__hub_model;

/* Letters, digits, '-', '.' and '_' as the Hub has them: "org/name", or "name" alone. */
bool qk__hub_is_name(const char *name);
/* A branch, tag or commit as git may have it. It becomes a path below refs/ ("refs/pr/1" does, too); it must stay
 * there. */
bool qk__hub_is_revision(const char *revision);
/* Lower-case hexadecimal digits, so many of them. */
bool qk__is_hash(const char *text, size_t digits);

/* The folder of the cache: `given`, or as the environment says where it is NULL. */
QK_MUST_CHECK qk_status qk__hub_cache(const char *given, char **path, qk_error *err);
/* HF_HOME as huggingface_hub has it, where token files lie. */
QK_MUST_CHECK qk_status qk__hub_home(char **path, qk_error *err);
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

/* ---- the files of a commit (listing.c, tree_file.c) -------------------------------------- */

typedef struct qk__repo_file {
    char *path; /* '/' between its parts, as the Hub has it */
    int64_t size;
    char oid[QK__MAX_HASH + 1];    /* git's name of the blob, of its pointer with LFS */
    char sha256[QK__MAX_HASH + 1]; /* of the bytes with LFS, else "" */
    char xet[QK__MAX_HASH + 1];    /* Xet's name of them, or "" */
} qk__repo_file;

/* The name of its bytes in blobs/. */
static inline const char *qk__repo_file_etag(const qk__repo_file *file)
{
    return *file->sha256 ? file->sha256 : file->oid;
}

typedef struct qk__repo_files {
    qk__repo_file *items;
    size_t count, capacity;
} qk__repo_files;

void qk__repo_files_free(qk__repo_files *files);

/* Adds a file, whose path is copied. A path that would leave its folder, that a terminal would obey
 * or that no file system takes, and a size beyond all disks are QK_ERR_MALFORMED. */
QK_MUST_CHECK qk_status qk__repo_files_add(qk__repo_files *files, const qk__repo_file *file,
                                           qk_error *err);
/* Sorts by path. A path given twice is QK_ERR_MALFORMED. */
QK_MUST_CHECK qk_status qk__repo_files_sort(qk__repo_files *files, qk_error *err);

/* Adds the files of a page of the Hub's listing (JSON). *entries: of the page, folders as well. */
QK_MUST_CHECK qk_status qk__listing_read(const void *text, size_t size, qk__repo_files *files,
                                         size_t *entries, qk_error *err);

/* What folder/trees/<commit>.json lists. Where there is no such file, or one that huggingface_hub
 * would not read, *known is false. */
QK_MUST_CHECK qk_status qk__tree_file_read(const char *folder, const char *commit,
                                           qk__repo_files *files, bool *known, qk_error *err);
/* Writes it, byte for byte as huggingface_hub does. */
QK_MUST_CHECK qk_status qk__tree_file_write(const char *folder, const char *commit,
                                            const qk__repo_files *files, qk_error *err);

/* ---- which of them (wanted.c) ------------------------------------------------------------ */

/* What a run needs; NULL and 0 where it does not matter. */
typedef struct qk__wanted {
    qk_hub_part part;
    const qk_index_list *layers;
    const qk_head_set *heads;
    int group;          /* query heads per key head; 0 = as the names of heads tell */
    const char *prefix; /* sub-folder */
    const char *const *patterns;
    size_t num_patterns;
    const char *words[2]; /* of texts: name, split */
} qk__wanted;

/* Whether a path has the word in it, other letters neither before nor behind it. */
bool qk__has_word(const char *path, const char *word);

/* Moves the files that are wanted to the front, in their order; *count is their number. */
QK_MUST_CHECK qk_status qk__wanted_choose(const qk__wanted *wanted, qk__repo_files *files,
                                          size_t *count, qk_error *err);

/* What the names of heads tell of a capture, of which a part may be wanted; 0 = not known. */
typedef struct qk__wanted_form {
    int num_layers; /* up to the largest one */
    int group; /* query heads per key head, where every layer has the same heads, none left out */
} qk__wanted_form;

/* Of sorted files, those below the prefix; NULL = all. */
qk__wanted_form qk__wanted_shape(const qk__repo_files *files, const char *prefix);

/* The GGUF file, or the first part of it, that the weights of a model are; NULL: they are safetensors, or
 * there are several. */
const char *qk__wanted_gguf(const qk__repo_files *files);

/* Whether sorted files have captures in several folders: hidden ones are none. list: their folders, as many
 * as have room, with commas; "." is the top. */
bool qk__wanted_several(const qk__repo_files *files, char *list, size_t size);

/* The head of a file of a capture: a file of its own, or (*packed) one of its layer and kind. */
bool qk__wanted_head(const char *path, qk_head_id *id, bool *packed);

/* ---- what a download leaves (snapshot.c) ------------------------------------------------- */

/* Removes the unfinished forms of a small file of the cache, which downloads that were killed left beside it. */
QK_MUST_CHECK qk_status qk__cache_sweep(const char *path, qk_error *err);

/* Makes the folders of a repository, and the tag that keeps back-ups out of the cache. */
QK_MUST_CHECK qk_status qk__hub_prepare(const char *cache, const char *folder, qk_error *err);

/* Writes refs/<revision>, if it says another commit. */
QK_MUST_CHECK qk_status qk__hub_write_ref(const char *folder, const char *revision,
                                          const char *commit, qk_error *err);

/* Whether the snapshot has a file: a link that leads to as many bytes as the list says. */
bool qk__snapshot_has(const char *folder, const char *commit, const qk__repo_file *file);
/* Whether it has one of another size: after a power failure, say, files may have no bytes. */
bool qk__snapshot_has_other(const char *folder, const char *commit, const qk__repo_file *file);

/* Makes snapshots/<commit>/<path>, a relative link to blobs/<etag>. */
QK_MUST_CHECK qk_status qk__snapshot_link(const char *folder, const char *commit,
                                          const qk__repo_file *file, qk_error *err);

/* Makes blobs/<etag> a link to the same bytes in the store that repositories share (blobs/ of the
 * cache, since huggingface_hub 2), if they are there; whether they are. */
bool qk__shared_store_link(const char *cache, const char *folder, const qk__repo_file *file);

/* Whether a file belongs to the repository in whose cache a folder lies, be it a blob or in the shared store. Neither
 * path has links in it. */
bool qk__hub_is_of_repository(const char *folder, const char *file);

#endif
