/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a repository a run needs: of a capture the chosen layers and heads, with the key
 * heads that query heads attend to; of a model its shape, weights and tokenizer. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "hub/hub.h"

/* ---- names ------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* The part of a path before its last one into name[]; false if there is none that fits. */
static bool parent_name(const char *path, char name[QK_HEAD_NAME_SIZE])
{
    const char *last = strrchr(path, '/');
    if (!last)
        return false;
    const char *first = last;
    while (first > path && first[-1] != '/')
        first--;
    size_t length = (size_t)(last - first);
    if (length >= QK_HEAD_NAME_SIZE)
        return false;
    memcpy(name, first, length);
    name[length] = 0;
    return true;
}

bool qk__wanted_head(const char *path, qk_head_id *id, bool *packed)
{
    char name[QK_HEAD_NAME_SIZE];
    if (!ends_with(path, ".parquet") || !parent_name(path, name))
        return false;
    *packed = qk__layer_parse(name, id);
    return *packed || qk_head_parse(name, id);
}

/* moments/l00.safetensors */
static bool is_moments(const char *path, int *layer)
{
    char name[QK_HEAD_NAME_SIZE], rest;
    return parent_name(path, name) && strcmp(name, "moments") == 0 &&
           sscanf(strrchr(path, '/'), "/l%9d.safetensor%c", layer, &rest) == 2;
}

static bool is_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);
    while (length > 0 && prefix[length - 1] == '/')
        length--;
    return length == 0 || (strncmp(path, prefix, length) == 0 && path[length] == '/');
}

/* ---- groups of query heads --------------------------------------------------------------- */

/* Heads of a layer, and the sum of their numbers; 0 .. n-1 have n (n-1) / 2. */
typedef struct layer_heads {
    int layer;
    int64_t count[2], sum[2];
    int max[2];
} layer_heads;

static bool is_whole(const layer_heads *l)
{
    for (int kind = 0; kind < 2; kind++)
        if (l->count[kind] == 0 || l->count[kind] != l->max[kind] + 1 ||
            l->sum[kind] != l->count[kind] * (l->count[kind] - 1) / 2)
            return false;
    return l->count[QK_QUERY] % l->count[QK_KEY] == 0;
}

/* Files are sorted, so the heads of a layer are neighbours; those of several captures in a
 * repository look like a layer that comes again. */
int qk__wanted_group(const qk__repo_files *files)
{
    int group = 0;
    layer_heads now = {.layer = -1, .max = {-1, -1}};
    char before[QK_HEAD_NAME_SIZE] = "";
    for (size_t i = 0; i <= files->count; i++) {
        qk_head_id id = {-1, 0, QK_QUERY};
        bool packed, end = i == files->count;
        if (!end && (!qk__wanted_head(files->items[i].path, &id, &packed) || packed))
            continue;
        if (end || id.layer != now.layer) {
            int size = is_whole(&now) ? (int)(now.count[QK_QUERY] / now.count[QK_KEY]) : 0;
            if (now.layer >= 0 && (size == 0 || (group > 0 && size != group)))
                return 0;
            group = now.layer >= 0 ? size : group;
            now = (layer_heads){.layer = id.layer, .max = {-1, -1}};
        }
        char name[QK_HEAD_NAME_SIZE];
        if (end || !parent_name(files->items[i].path, name) || strcmp(name, before) == 0)
            continue; /* another file of the same head */
        memcpy(before, name, sizeof before);
        now.count[id.kind]++;
        now.sum[id.kind] += id.head;
        now.max[id.kind] = id.head > now.max[id.kind] ? id.head : now.max[id.kind];
    }
    return group;
}

/* ---- what is wanted ---------------------------------------------------------------------- */

static bool any(const qk_index_list *list)
{
    return list && list->count > 0;
}

static bool wants_layer(const qk__wanted *w, int layer)
{
    return !any(w->layers) || qk_index_list_has(w->layers, layer);
}

static bool wants_head(const qk__wanted *w, int group, qk_head_id id)
{
    if (!any(w->heads) || qk_index_list_has(w->heads, id.head))
        return true;
    if (id.kind != QK_KEY)
        return false;
    for (size_t i = 0; i < w->heads->count && group > 0; i++)
        if (w->heads->items[i] / group == id.head)
            return true;
    return group == 0; /* any key may be the one */
}

static bool wants_of_capture(const qk__wanted *w, int group, const char *path)
{
    qk_head_id id;
    bool packed;
    int layer;
    if (w->prefix && !is_below(path, w->prefix))
        return false;
    if (qk__wanted_head(path, &id, &packed))
        return wants_layer(w, id.layer) && (packed || wants_head(w, group, id));
    if (is_moments(path, &layer))
        return wants_layer(w, layer);
    const char *name = strrchr(path, '/');
    return strcmp(name ? name + 1 : path, "capture.json") == 0;
}

/* What is beside the weights, right in the folder of the model. */
static bool is_of_tokenizer(const char *path)
{
    static const char *const NAMES[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(path, NAMES[i]) == 0)
            return true;
    return false;
}

/* Kinds of weights, from what is read first to what is taken where there is nothing else. */
typedef enum weights { NO_WEIGHTS, GGUF, OTHER_SAFETENSORS, MODEL_SAFETENSORS } weights;

static weights weights_of(const char *path)
{
    if (strchr(path, '/'))
        return NO_WEIGHTS;
    if (ends_with(path, ".safetensors") || ends_with(path, ".safetensors.index.json"))
        return strncmp(path, "model", 5) == 0 ? MODEL_SAFETENSORS : OTHER_SAFETENSORS;
    return ends_with(path, ".gguf") ? GGUF : NO_WEIGHTS;
}

static bool matches(const qk__wanted *w, const char *path)
{
    for (size_t i = 0; i < w->num_patterns; i++)
        if (fnmatch(w->patterns[i], path, 0) == 0)
            return true;
    return w->num_patterns == 0;
}

static bool wants(const qk__wanted *w, qk_hub_part part, int group, weights best,
                  const char *path)
{
    if (!matches(w, path))
        return false;
    switch (part) {
    case QK_HUB_CAPTURE:
        return wants_of_capture(w, group, path);
    case QK_HUB_MODEL:
        return is_of_tokenizer(path) || (best != NO_WEIGHTS && weights_of(path) == best);
    case QK_HUB_TOKENIZER:
        return is_of_tokenizer(path);
    case QK_HUB_ALL:
        break;
    }
    return !w->prefix || is_below(path, w->prefix);
}

qk_status qk__wanted_choose(const qk__wanted *wanted, qk__repo_files *files, size_t *count,
                            qk_error *err)
{
    *count = 0;
    qk_hub_part part = wanted->part;
    if (part == QK_HUB_ALL && (any(wanted->layers) || any(wanted->heads)))
        part = QK_HUB_CAPTURE;
    int group = wanted->group > 0    ? wanted->group
                : any(wanted->heads) ? qk__wanted_group(files)
                                     : 0;
    weights best = NO_WEIGHTS;
    for (size_t i = 0; i < files->count; i++) {
        weights kind = weights_of(files->items[i].path);
        best = kind > best ? kind : best;
    }
    qk__repo_file *sorted = qk__calloc(files->count, sizeof *sorted);
    if (!sorted && files->count > 0)
        return qk__nomem(err);
    size_t front = 0, back = files->count;
    for (size_t i = 0; i < files->count; i++)
        sorted[wants(wanted, part, group, best, files->items[i].path) ? front++ : --back] =
            files->items[i];
    if (files->count > 0)
        memcpy(files->items, sorted, files->count * sizeof *sorted);
    free(sorted);
    *count = front;
    return QK_OK;
}
