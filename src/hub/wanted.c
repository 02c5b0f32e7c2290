/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a repository a run needs: of a capture the chosen layers and heads, with the key
 * heads that query heads attend to; of a model its shape, weights and tokenizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "capture/capture.h"
#include "hub/hub.h"
#include "paths/model_files.h"

/* ---- names ------------------------------------------------------------------------------- */

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

/* The head of a file of a capture: a file of its own, or (*packed) one of its layer and kind. */
static bool head_of(const char *path, qk_head_id *id, bool *packed)
{
    char name[QK_HEAD_NAME_SIZE];
    if (!qk__ends_with(path, ".parquet") || !parent_name(path, name))
        return false;
    *packed = qk__layer_parse(name, id);
    return *packed || qk_head_parse(name, id);
}

/* moments/l00.safetensors, attention/l00.safetensors */
static bool is_sums(const char *path, int *layer)
{
    char name[QK_HEAD_NAME_SIZE], rest;
    return parent_name(path, name) && qk__is_sums_folder(name) &&
           sscanf(strrchr(path, '/'), "/l%9d.safetensor%c", layer, &rest) == 2;
}

static bool is_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);
    while (length > 0 && prefix[length - 1] == '/')
        length--;
    return length == 0 || (strncmp(path, prefix, length) == 0 && path[length] == '/');
}

/* ---- texts ------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether a path has the word in it, other letters neither before nor behind it. */
bool qk__has_word(const char *path, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = path; length > 0 && (p = strstr(p, word)) != NULL; p++)
        if ((p == path || !is_letter(p[-1])) && !is_letter(p[length]))
            return true;
    return false;
}

/* A table of texts, no folder or file of whose path is hidden. */
static bool is_texts(const char *path)
{
    const char *dot = strrchr(path, '.');
    return *path != '.' && !strstr(path, "/.") && dot &&
           (strcasecmp(dot, ".parquet") == 0 || strcasecmp(dot, ".jsonl") == 0 ||
            strcasecmp(dot, ".ndjson") == 0);
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
void qk__wanted_shape(const qk__repo_files *files, const char *prefix, qk_hub_place *form)
{
    bool equal = true;
    layer_heads now = {.layer = -1, .max = {-1, -1}};
    char before[QK_HEAD_NAME_SIZE] = "";
    for (size_t i = 0; i <= files->count; i++) {
        qk_head_id id = {-1, 0, QK_QUERY};
        bool packed, end = i == files->count;
        if (!end && ((prefix && !is_below(files->items[i].path, prefix)) ||
                     !head_of(files->items[i].path, &id, &packed)))
            continue;
        form->num_layers = id.layer >= form->num_layers ? id.layer + 1 : form->num_layers;
        if (!end && packed)
            continue;
        if (end || id.layer != now.layer) {
            int size = is_whole(&now) ? (int)(now.count[QK_QUERY] / now.count[QK_KEY]) : 0;
            equal &= now.layer < 0 ||
                     (size > 0 && (form->q_per_kv_group == 0 || size == form->q_per_kv_group));
            form->q_per_kv_group = now.layer >= 0 ? size : form->q_per_kv_group;
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
    form->q_per_kv_group = equal ? form->q_per_kv_group : 0;
}

/* ---- captures ---------------------------------------------------------------------------- */

static bool wants_layer(const qk_hub_wanted *w, int layer)
{
    return w->layers.count == 0 || qk_index_list_has(&w->layers, layer);
}

static bool wants_head(const qk_hub_wanted *w, int group, qk_head_id id)
{
    if (w->heads.count == 0 || qk_head_set_has(&w->heads, id.layer, id.head))
        return true;
    if (id.kind != QK_KEY)
        return false;
    for (size_t i = 0; i < w->heads.count && group > 0; i++) {
        const qk_head_range *r = &w->heads.items[i];
        if (id.layer >= r->first_layer && id.layer <= r->last_layer &&
            id.head >= r->first_head / group && id.head <= r->last_head / group)
            return true;
    }
    return group == 0; /* any key may be the one */
}

static bool wants_of_capture(const qk_hub_wanted *w, int group, const char *path)
{
    qk_head_id id;
    bool packed;
    int layer;
    if (w->prefix && !is_below(path, w->prefix))
        return false;
    if (head_of(path, &id, &packed))
        return wants_layer(w, id.layer) && (packed || wants_head(w, group, id));
    if (is_sums(path, &layer))
        return wants_layer(w, layer);
    return strcmp(qk__file_name(path), "capture.json") == 0;
}

/* ---- models ------------------------------------------------------------------------------ */

/* What a model has right in its folder. */
typedef struct model_files {
    bool single, index; /* model.safetensors; in several files */
    bool config, tokenizer;
    const char *gguf; /* the first one that is not a later part of another */
    size_t num_gguf;
} model_files;

/* NAME-00002-of-00003.gguf, from the second one on */
static bool is_later_part(const char *path)
{
    static const char TAIL[] = "-00002-of-00003.gguf";
    size_t length = strlen(path), tail = sizeof TAIL - 1;
    int part = 0, used = 0;
    return length > tail &&
           sscanf(path + length - tail, "-%5d-of-%*5d.gguf%n", &part, &used) == 1 &&
           (size_t)used == tail && part > 1;
}

static model_files look_at_model(const qk__repo_files *files)
{
    model_files m = {0};
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->items[i].path;
        if (strchr(path, '/'))
            continue;
        m.single |= strcmp(path, "model.safetensors") == 0;
        m.index |= strcmp(path, "model.safetensors.index.json") == 0;
        m.config |= strcmp(path, "config.json") == 0;
        m.tokenizer |= strcmp(path, "tokenizer.json") == 0;
        if (qk__ends_with(path, ".gguf") && !is_later_part(path)) {
            m.gguf = m.num_gguf == 0 ? path : m.gguf;
            m.num_gguf++;
        }
    }
    return m;
}

/* Where something is not there, what is there instead comes along: what reads the model can say
 * then what to do about it. */
static bool wants_of_tokenizer(const model_files *m, const char *path)
{
    const qk__model_form *form = qk__model_form_of(path);
    return form && (form->part == QK__PART_TOKENIZER ||
                    (!m->tokenizer && form->part == QK__PART_OTHER_TOKENIZER));
}

static bool has_folder(const char *path)
{
    return strchr(path, '/') != NULL;
}

static bool wants_of_model(const model_files *m, const char *path)
{
    if (has_folder(path))
        return false;
    if (!m->single && !m->index && m->gguf) /* which has it all */
        return qk__ends_with(path, ".gguf");
    if (strcmp(path, m->config ? "config.json" : "adapter_config.json") == 0)
        return true;
    if (m->single)
        return strcmp(path, "model.safetensors") == 0 || wants_of_tokenizer(m, path);
    return qk__ends_with(path, ".safetensors") ||
           strcmp(path, "model.safetensors.index.json") == 0 || wants_of_tokenizer(m, path);
}

/* A model that cannot be had is refused before its bytes come. */
static qk_status check_model(const model_files *m, qk_error *err)
{
    if (!m->single && !m->index && !m->gguf)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "it has no weights as model*.safetensors or GGUF; other forms are not "
                        "read: write it as safetensors with save_pretrained of transformers");
    if (!m->single && !m->index && m->num_gguf > 1)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "it has %zu GGUF files, %s for one: fetch one with hf download "
                        "NAME FILE.gguf, which prints the path to give",
                        m->num_gguf, m->gguf);
    return QK_OK;
}

/* ---- what is wanted ---------------------------------------------------------------------- */

/* What all files together say. */
typedef struct view {
    const qk_hub_wanted *w;
    int group;
    model_files model;
    const char *words[2]; /* that texts must have; NULL = none */
} view;

static bool wants_of_texts(const view *v, const char *path)
{
    bool has = is_texts(path);
    for (size_t i = 0; i < sizeof v->words / sizeof *v->words; i++)
        has = has && (!v->words[i] || qk__has_word(path, v->words[i]));
    return has;
}

static bool wants(const view *v, const char *path)
{
    switch (v->w->part) {
    case QK_HUB_TEXTS:
        return wants_of_texts(v, path);
    case QK_HUB_MODEL:
        return wants_of_model(&v->model, path);
    case QK_HUB_TOKENIZER:
        return !has_folder(path) && wants_of_tokenizer(&v->model, path);
    case QK_HUB_CAPTURE:
        break;
    }
    return wants_of_capture(v->w, v->group, path);
}

/* A word that no file has is left out. */
static void settle_words(view *v, const qk__repo_files *files)
{
    const char *words[] = {v->w->text_name, v->w->text_split};
    for (size_t i = 0; i < sizeof v->words / sizeof *v->words; i++) {
        bool any = false;
        v->words[i] = words[i];
        for (size_t k = 0; k < files->count && !any; k++)
            any = wants_of_texts(v, files->items[k].path);
        v->words[i] = any ? v->words[i] : NULL;
    }
}

/* capture.json alone is no capture. */
static bool is_of_head(const char *path)
{
    qk_head_id id;
    bool packed;
    int layer;
    return head_of(path, &id, &packed) || is_sums(path, &layer);
}

qk_status qk__wanted_choose(const qk_hub_wanted *wanted, qk__repo_files *files, size_t *count,
                            qk_error *err)
{
    view v = {.w = wanted, .model = look_at_model(files)};
    qk_hub_place shape = {.q_per_kv_group = wanted->q_per_kv_group};
    bool capture = wanted->part == QK_HUB_CAPTURE, any = false;
    if (wanted->part == QK_HUB_MODEL)
        QK_TRY(check_model(&v.model, err));
    if (shape.q_per_kv_group == 0)
        qk__wanted_shape(files, wanted->prefix, &shape);
    v.group = shape.q_per_kv_group;
    if (wanted->part == QK_HUB_TEXTS)
        settle_words(&v, files);
    *count = 0;
    for (size_t i = 0; i < files->count; i++) {
        qk__repo_file *file = &files->items[i];
        file->wanted = wants(&v, file->path);
        any |= file->wanted && (!capture || is_of_head(file->path));
        *count += file->wanted;
    }
    *count = any ? *count : 0;
    return QK_OK;
}

const char *qk__wanted_gguf(const qk__repo_files *files)
{
    model_files m = look_at_model(files);
    return m.single || m.index || m.num_gguf > 1 ? NULL : m.gguf;
}

/* ---- several captures -------------------------------------------------------------------- */

/* The part of a head's path that is the folder of its capture: "a/l00h00q/data.parquet" -> "a". */
static size_t capture_length(const char *path)
{
    const char *end = strrchr(path, '/');
    while (end > path && end[-1] != '/')
        end--;
    return end > path ? (size_t)(end - path) - 1 : 0;
}

bool qk__wanted_several(const qk__repo_files *files, char *list, size_t size)
{
    const char *before = NULL;
    size_t length = 0, count = 0, used = 0;
    *list = 0;
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->items[i].path;
        qk_head_id id;
        bool packed;
        if (!files->items[i].wanted || !head_of(path, &id, &packed) || *path == '.' ||
            strstr(path, "/."))
            continue;
        size_t own = capture_length(path);
        if (before && own == length && strncmp(before, path, own) == 0)
            continue;
        before = path;
        length = own;
        count++;
        size_t more = (own > 0 ? own : 1) + (used > 0 ? 2 : 0);
        if (used + more + 1 > size)
            continue;
        snprintf(list + used, size - used, "%s%.*s", used > 0 ? ", " : "",
                 own > 0 ? (int)own : 1, own > 0 ? path : ".");
        used += more;
    }
    return count > 1;
}
