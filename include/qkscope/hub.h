/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets and models of the Hugging Face Hub: where they lie in the cache that other programs share,
 * what there is, fetching what is not there yet, and sending a capture. */
#ifndef QKSCOPE_HUB_H
#define QKSCOPE_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/* ==== the cache =========================================================================== */

/* Settles where a dataset lies. `name` is a folder, or a Hub dataset "org/name" that is
 * looked up in the cache: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub,
 * else ~/.cache/huggingface/hub; then datasets--org--name/refs/<revision> ->
 * snapshots/<commit>. revision NULL or "" means "main"; a commit hash, or an unambiguous
 * prefix of at least 7 digits of one, is taken too. local_root, when not NULL, is a folder
 * searched first, as local_root/name, then local_root itself when it holds the dataset.
 * *path is allocated; release it with free(). Nothing is fetched: qk_hub_get does, and tells
 * whether all of it is there.
 * Errors: QK_ERR_NOT_FOUND, with what was looked for and the command that downloads it. */
QK_API QK_MUST_CHECK qk_status qk_hub_find_dataset(const char *name, const char *revision,
                                                   const char *local_root, char **path,
                                                   qk_error *err);

/* The same for a model: a folder, a file *.gguf, or "org/name" in models--org--name. */
QK_API QK_MUST_CHECK qk_status qk_hub_find_model(const char *name, const char *revision,
                                                 char **path, qk_error *err);

/* Whether this is a name of the form org/name, and no file or folder has it. Only then a path that is
 * not there may be something to fetch. What ends as files do (.gguf, .npz, .txt, ...) is none, nor is
 * org/name where a folder org is here. */
QK_API bool qk_hub_is_remote(const char *name);

/* ==== fetching ============================================================================ */

/* What is wanted of a repository. */
typedef enum qk_hub_part {
    QK_HUB_ALL,       /* every file; with layers or heads those of a capture */
    QK_HUB_CAPTURE,   /* capture.json, rows and moments */
    QK_HUB_MODEL,     /* config.json, weights as safetensors (a GGUF file where there are none),
                         tokenizer */
    QK_HUB_TOKENIZER, /* tokenizer.json */
    QK_HUB_TEXTS, /* Parquet and JSONL files; of these the ones with text_name, and then those with
                         text_split, as a word of their paths, if any has it */
} qk_hub_part;

typedef struct qk_hub_settings {
    const char *name;     /* "org/name" */
    const char *revision; /* branch, tag or commit; NULL = main */
    bool model;           /* a model; else a dataset */
    qk_hub_part part;

    /* which files; of a capture, with the key heads that its query heads attend to */
    qk_index_list layers;
    qk_head_set heads;
    int q_per_kv_group;       /* 0 = as the names of heads tell */
    const char *prefix;       /* sub-folder that holds the capture; NULL = all */
    const char *const *files; /* patterns, as a shell has them, of whole paths; NULL = all */
    size_t num_files;
    const char *text_name, *text_split; /* NULL = all */

    /* A revision whose commit the cache knows is that commit: nobody is asked whether there is a
     * newer one. */
    bool cached;
    /* A file to which a line is added for each file that was fetched, as soon as it is here:
     * qk_hub_drop reads it; NULL = none */
    const char *record;

    /* Threads are not used. Notices: what is about to be fetched, and why one waits; progress: "MB", and
     * bytes that came */
    qk_context context;
} qk_hub_settings;

extern QK_API const qk_settings_table qk_hub_settings_table;
QK_API void qk_hub_settings_default(qk_hub_settings *settings);

/* What there is now. */
typedef struct qk_hub_snapshot {
    char *path;   /* its folder in the cache */
    char *commit; /* that the revision stands for */
    size_t num_files;
    int64_t bytes;      /* of the files that were wanted */
    char *gguf;         /* of a model whose weights are a GGUF file, its path; else NULL */
    int num_layers;     /* of a capture: up to the largest layer on the Hub; 0 = not known */
    int q_per_kv_group; /* likewise query heads per key head, where all layers have the same heads;
                           else 0. The part of a capture that is here does not tell it. */
    size_t cached_files; /* of num_files, before anything was fetched */
    size_t fetched_files;
    int64_t fetched_bytes;
    int64_t requests; /* that were sent to the Hub, redirects to other servers not counted */
    bool is_outline;  /* path is a folder that goes with this struct (qk_hub_outline) */
} qk_hub_snapshot;

/* Makes sure that what is wanted of a dataset or a model is in the cache, as huggingface_hub has it.
 * Files are checked by their SHA-256 (those that git keeps, by its SHA-1) before they take their names. A
 * file that was cut off is gone on with, by this call and by later ones. Two processes that fetch
 * the same file both succeed.
 *
 * Errors: QK_ERR_NOT_FOUND (the Hub has no such repository or revision, or does not show it; offline:
 * what is missing in the cache), QK_ERR_IO (no connection, no space, a server that stays wrong),
 * QK_ERR_MALFORMED (an answer that cannot be one), QK_ERR_UNSUPPORTED (a file above 50 GB, which the
 * Hub does not give out over plain HTTP; a model in a form that is not read; no libcurl), QK_ERR_CANCELLED. What was fetched until then stays. */
QK_API QK_MUST_CHECK qk_status qk_hub_get(const qk_hub_settings *settings,
                                          qk_hub_snapshot **snapshot, qk_error *err);
QK_API void qk_hub_snapshot_free(qk_hub_snapshot **snapshot);

/* Removes files from the cache again: of those that are wanted the ones that settings->record names, no
 * others, and their bytes unless a link of another snapshot leads to them. Whenever it is stopped, what is
 * there is whole, and the snapshot is known to lack the rest; the revision stays what it was. Calls of
 * several processes do not harm each other. *freed is the number of bytes. Nothing is sent.
 * Errors: QK_ERR_IO, QK_ERR_NOMEM; what is not in the cache is none. */
QK_API QK_MUST_CHECK qk_status qk_hub_drop(const qk_hub_settings *settings, int64_t *freed,
                                           qk_error *err);

/* ==== looking ============================================================================= */

/* A folder with what is wanted, as far as it takes to say what it holds: files that the cache has are
 * links to it; of the others there is what tells of them, the rest being holes. That is the footer of a
 * Parquet file, the header of a safetensors file, all of capture.json, config.json and the like, and
 * nothing of what else there is. It is asked for by ranges: one request for each file, more where a footer
 * or header is long. Nothing is written to the cache. The folder is below TMPDIR; qk_hub_snapshot_free
 * removes it. Where the cache has all, or with `context.offline` some of it, path is the snapshot's own folder.
 * Progress counts "files".
 * Errors: as qk_hub_get; QK_ERR_UNSUPPORTED: GGUF files, a server that does not do ranges. */
QK_API QK_MUST_CHECK qk_status qk_hub_outline(const qk_hub_settings *settings,
                                              qk_hub_snapshot **snapshot, qk_error *err);

/* A branch or tag and what is wanted of it. */
typedef struct qk_hub_branch {
    char *name;
    char *commit;
    bool tag;
    size_t num_files, num_layers;
    size_t query_heads, key_heads; /* folders of single heads; of packed files none */
    size_t packed_files;           /* of a layer and kind */
    int64_t bytes;
    size_t cached_files; /* of these files, in the cache */
    int64_t cached_bytes;
} qk_hub_branch;

typedef struct qk_hub_listing {
    qk_hub_branch *branches;
    size_t num_branches;
} qk_hub_listing;

/* Lists branches and tags, or settings->revision alone where it is not NULL, with the files that are
 * wanted. Nothing is fetched but the lists. Errors: as qk_hub_get. */
QK_API QK_MUST_CHECK qk_status qk_hub_list(const qk_hub_settings *settings,
                                           qk_hub_listing **listing, qk_error *err);
QK_API void qk_hub_listing_free(qk_hub_listing **listing);

/* ==== sending ============================================================================= */

typedef struct qk_hub_put_settings {
    const char *capture;  /* its folder */
    const char *prefix;   /* the sub-folder that holds it; NULL looks for the only one */
    const char *name;     /* "org/name" of a dataset */
    const char *revision; /* a branch; NULL = main */
    const char *message;  /* title of the commit; NULL = one with the name of the model */
    bool publish;         /* a dataset that is made for it is public; else private */
    bool remove;          /* remove from the branch what another capture has left there */
    bool replace_card;    /* also a README.md in which somebody has written */
    bool dry_run;         /* tell what would be sent, and send nothing */
    bool hide_paths;      /* send names of files in place of absolute paths in its texts */

    /* A token is needed; `offline` is an error, and so are its variables; threads are not used.
     * Progress: "MB" */
    qk_context context;
} qk_hub_put_settings;

extern QK_API const qk_settings_table qk_hub_put_settings_table;
QK_API void qk_hub_put_settings_default(qk_hub_put_settings *settings);

/* What a file is to the branch. */
typedef enum qk_hub_change {
    QK_HUB_SAME,    /* it is there */
    QK_HUB_NEW,     /* it was not */
    QK_HUB_CHANGED, /* other bytes were there */
    QK_HUB_LEFT,    /* of another capture: it is on the branch alone, and stays */
    QK_HUB_REMOVED, /* the same, and goes */
    QK_HUB_KEPT,    /* README.md: somebody has written in it, it stays as it is on the branch */
} qk_hub_change;

/* The word that tables and JSON have for it. */
QK_API const char *qk_hub_change_name(qk_hub_change change);

typedef struct qk_hub_put_file {
    char *path; /* on the branch */
    int64_t size;
    qk_hub_change change;
} qk_hub_put_file;

/* What was done, or with dry_run what would be. */
typedef struct qk_hub_put_outcome {
    qk_hub_put_file *files; /* sorted by path */
    size_t num_files;
    size_t new_files, changed_files, same_files, left_files, removed_files;
    int64_t bytes;     /* of the capture */
    int64_t differing; /* of what is new or changed */
    int64_t sent;      /* over the wire; what the Hub's store had from an earlier run is not */
    bool made_dataset, made_branch, is_public;
    char *commit;  /* of the branch, now; "" = it has none yet */
    char *address; /* of the branch's page */
    int commits;
    int64_t requests; /* that were sent to the Hub, its store not counted */
} qk_hub_put_outcome;

/* Sends a capture to a branch of a dataset on the Hub: rows, moments, capture.json, README.md,
 * examples.csv, truth.json, and nothing else: a link that leads out of the capture is an error, unless the
 * capture lies in the Hub's cache and it leads to a file of the same repository. A README.md of the branch in which somebody has written
 * stays, unless replace_card is set. Dataset and branch are made where they are missing; a
 * new branch is empty. Files whose hashes the branch lists are not sent. Large ones go to the Hub's
 * store first, then commits of at most 1,000 files name them; each names the commit that it follows,
 * so that a change by somebody else is an error and not lost. What a call that was stopped has sent
 * stays, and the next one goes on from there. In the end the branch's list of files is read, and must
 * have the hashes of those here.
 *
 * Errors: QK_ERR_ARGUMENT (no name, no branch), QK_ERR_NOT_FOUND (no capture; offline; no token, or
 * one that may not write there), QK_ERR_INCONSISTENT (a capture that is not complete, a file that changed
 * meanwhile, a branch that did), QK_ERR_IO, QK_ERR_MALFORMED, QK_ERR_UNSUPPORTED and
 * QK_ERR_CANCELLED as of qk_hub_get. */
QK_API QK_MUST_CHECK qk_status qk_hub_put(const qk_hub_put_settings *settings,
                                          qk_hub_put_outcome **outcome, qk_error *err);
QK_API void qk_hub_put_outcome_free(qk_hub_put_outcome **outcome);

QK_END_DECLS

#endif
