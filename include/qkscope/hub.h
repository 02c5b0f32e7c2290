/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets and models of the Hugging Face Hub: where they are in the cache that other programs share, and fetching
 * what is missing with hf, the program of huggingface_hub. */
#ifndef QKSCOPE_HUB_H
#define QKSCOPE_HUB_H

#include <stdbool.h>

#include <qkscope/common.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/* Whether this is a name of the form org/name, and no file or folder has it. Only then a missing path may be something
 * to fetch. A name that ends like a file (.gguf, .npz, .txt, ...) is none, nor is org/name where a folder org is here. */
QK_API bool qk_hub_is_remote(const char *name);

/* What is wanted of a repository. */
typedef enum qk_hub_part {
    QK_HUB_CAPTURE, /* of a dataset: capture.json, rows and moments */
    QK_HUB_TEXTS, /* of a dataset: Parquet and JSONL files; of these the ones with text_name, and then those
                   * with text_split, as a word of their paths, if any has it */
    QK_HUB_MODEL,     /* configuration, weights as safetensors, tokenizer */
    QK_HUB_TOKENIZER, /* of a model */
} qk_hub_part;

typedef struct qk_hub_wanted {
    const char *name;     /* a path, or "org/name" */
    const char *revision; /* branch, tag or commit; NULL = main */
    /* a folder that is searched first, as local_root/name, then local_root itself if it is named so or is a
     * capture; NULL = none */
    const char *local_root;
    qk_hub_part part;
    bool as_it_is; /* for a name, what the cache has, complete or not: nothing is fetched */

    /* which files of a capture, with the key heads that its query heads attend to */
    qk_index_list layers;
    qk_head_set heads;
    int q_per_kv_group; /* 0 = by the names of heads */
    const char *prefix; /* sub-folder that holds the capture; NULL = the only one */

    const char *text_name, *text_split; /* NULL = all */

    /* of hf, whose progress shows on a terminal where `context.progress` is set */
    bool hides_progress;
    /* Threads are not used. Notices: what is about to be fetched. Progress counts nothing and only asks whether
     * to go on. */
    qk_context context;
} qk_hub_wanted;

typedef struct qk_hub_place {
    char *path;     /* allocated: release it with free() */
    int num_layers; /* of a capture on the Hub, up to the largest layer; 0 = not known */
    int q_per_kv_group; /* of a capture on the Hub whose layers all have the same heads; a part of a capture
                         * that is here does not tell it */
} qk_hub_place;

/* Finds a path: a path stays what it is; a name is looked up in the cache: HF_HUB_CACHE, else HF_HOME/hub, else
 * XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub; there in datasets--org--name (or models--) by
 * refs/REVISION -> snapshots/COMMIT. What is missing is fetched by `hf download`, a program of the package
 * huggingface_hub, which has its own settings for tokens, endpoints and proxies. If the cache knows a revision, no
 * newer commit is looked for. With `context.offline`, HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE nothing is fetched.
 * Errors: QK_ERR_NOT_FOUND (what was looked for, and the command that fetches it; there is no hf; offline: what is
 * missing in the cache), QK_ERR_IO (hf failed; its last words), QK_ERR_INCONSISTENT (several captures),
 * QK_ERR_CANCELLED. What was fetched until then stays, and the next call continues from there. */
QK_API QK_MUST_CHECK qk_status qk_hub_get(const qk_hub_wanted *wanted, qk_hub_place *place,
                                          qk_error *err);

QK_END_DECLS

#endif
