/* SPDX-License-Identifier: Apache-2.0 */
/* The Hugging Face cache on disk: where a dataset or a model that was downloaded before lies. */
#ifndef QKSCOPE_HUB_H
#define QKSCOPE_HUB_H

#include <stddef.h>

#include <qkscope/status.h>

QK_BEGIN_DECLS

/* Settles where a dataset lies. `name` is a folder, or a Hub dataset "org/name" that is
 * looked up in the cache: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub,
 * else ~/.cache/huggingface/hub; then datasets--org--name/refs/<revision> ->
 * snapshots/<commit>. revision NULL or "" means "main"; a commit hash, or an unambiguous
 * prefix of at least 7 digits of one, is taken too. local_root, when not NULL, is a folder
 * searched first, as local_root/name, then local_root itself when it holds the dataset.
 * *path is allocated; release it with free().
 * Errors: QK_ERR_NOT_FOUND, with what was looked for and the command that downloads it. */
QK_API QK_MUST_CHECK qk_status qk_hub_find_dataset(const char *name, const char *revision,
                                                   const char *local_root, char **path,
                                                   qk_error *err);

/* The same for a model: a folder, a file *.gguf, or "org/name" in models--org--name. */
QK_API QK_MUST_CHECK qk_status qk_hub_find_model(const char *name, const char *revision,
                                                 char **path, qk_error *err);

QK_END_DECLS

#endif
