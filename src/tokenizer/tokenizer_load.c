/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer from tokenizer.json or a GGUF file. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/json.h"
#include "model/checkpoint.h"
#include "model/other_forms.h"
#include "tokenizer/gguf_tokenizer.h"
#include "tokenizer/tokenizer.h"

static const size_t MAX_FILE_BYTES = (size_t)512 << 20;

static qk_status check_version(const json_t *root, qk_error *err)
{
    const char *version;
    size_t length;
    if (!json_is_object(root))
        return qk__fail(err, QK_ERR_MALFORMED, "expected an object");
    QK_TRY(qk__get_string(root, "version", NULL, &version, &length, err));
    if (version && strcmp(version, "1.0") != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "version: \"%.60s\", not \"1.0\"", version);
    return QK_OK;
}

/* {"direction": "Right"} in the file, "right" beside it in tokenizer_config.json. */
static qk_status load_direction(const json_t *object, const char *key, const qk__json_place *at,
                                bool *left, qk_error *err)
{
    const char *name;
    size_t length;
    const qk__json_place place = {at, key, 0};
    QK_TRY(qk__get_string(object, key, at, &name, &length, err));
    if (!name)
        return QK_OK;
    *left = strcmp(name, "Left") == 0 || strcmp(name, "left") == 0;
    if (!*left && strcmp(name, "Right") != 0 && strcmp(name, "right") != 0)
        return qk__fail_at(&place, err, QK_ERR_MALFORMED, "there is no \"%.60s\"", name);
    return QK_OK;
}

static qk_status load_truncation(qk_tokenizer *t, const json_t *root, qk_error *err)
{
    const json_t *truncation = json_object_get(root, "truncation");
    const qk__json_place place = {NULL, "truncation", 0};
    if (!truncation || json_is_null(truncation))
        return QK_OK;
    QK_TRY(qk__need_object(root, "truncation", NULL, &truncation, err));
    return load_direction(truncation, "direction", &place, &t->cut_left, err);
}

/* Pieces by id: of the vocabulary, then of the added tokens. What ids leave out is not touched:
 * one large id alone costs no memory. */
static qk_status make_names(qk_tokenizer *t, qk_error *err)
{
    const qk__vocab *vocab = &t->bpe.vocab;
    size_t count = vocab->num_ids;
    for (size_t i = 0; i < t->num_added; i++)
        if ((size_t)t->added[i].id >= count)
            count = (size_t)t->added[i].id + 1;
    t->names = qk__calloc(count + 1, sizeof *t->names);
    if (!t->names)
        return qk__nomem(err);
    t->num_names = count;
    for (size_t i = 0; i < vocab->count; i++)
        t->names[vocab->entries[i].id] = vocab->text + vocab->entries[i].offset;
    for (size_t i = 0; i < t->num_added; i++) {
        const char **name = &t->names[t->added[i].id];
        if (*name && strcmp(*name, t->added[i].content) != 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "added_tokens: id %d is that of \"%.60s\" and of \"%.60s\"",
                            t->added[i].id, *name, t->added[i].content);
        *name = t->added[i].content;
    }
    return QK_OK;
}

static qk_status load_parts(qk_tokenizer *t, const json_t *root, qk_error *err)
{
    QK_TRY(check_version(root, err));
    QK_TRY(load_truncation(t, root, err));
    QK_TRY(qk__bpe_load(&t->bpe, json_object_get(root, "model"), err));
    QK_TRY(qk__normalizers_load(&t->normalizers, json_object_get(root, "normalizer"), err));
    QK_TRY(qk__cutters_load(&t->cutters, json_object_get(root, "pre_tokenizer"), err));
    QK_TRY(qk__added_load(t, json_object_get(root, "added_tokens"), err));
    QK_TRY(make_names(t, err));
    return qk__post_load(t, json_object_get(root, "post_processor"), err);
}

static uint64_t fingerprint(const void *data, size_t size)
{
    char hash[QK__FINGERPRINT_SIZE];
    qk__fingerprint_bytes(data, size, hash);
    hash[16] = 0; /* half of it */
    return strtoull(hash, NULL, 16);
}

qk_status qk__tokenizer_parse(qk_tokenizer **tokenizer, const void *json, size_t size,
                              qk_error *err)
{
    json_t *root;
    *tokenizer = NULL;
    QK_TRY(qk__json_parse(&root, json, size, QK__JSON_ZEROS, err));
    qk_tokenizer *t = qk__calloc(1, sizeof *t);
    qk_status status = t ? QK_OK : qk__nomem(err);
    if (t) {
        t->bpe.unknown = -1;
        t->fingerprint = fingerprint(json, size);
        status = load_parts(t, root, err);
    }
    json_decref(root);
    if (status != QK_OK)
        qk_tokenizer_close(&t);
    *tokenizer = t;
    return status;
}

void qk_tokenizer_close(qk_tokenizer **tokenizer)
{
    assert(tokenizer);
    qk_tokenizer *t = *tokenizer;
    if (!t)
        return;
    qk__normalizers_free(&t->normalizers);
    qk__cutters_free(&t->cutters);
    qk__bpe_free(&t->bpe);
    qk__added_free(t);
    free(t->prefix);
    free(t->suffix);
    free(t->names);
    free(t);
    *tokenizer = NULL;
}

/* ---- files ------------------------------------------------------------------------------ */

/* tokenizer_config.json, if there is one, may say which end of a text is cut. */
static qk_status read_config(qk_tokenizer *t, const char *folder, qk_error *err)
{
    qk__buffer text = {0};
    char *path = qk__path_join(folder, "tokenizer_config.json");
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (qk__is_there(path)) {
        json_t *root = NULL;
        status = qk__read_file(path, MAX_FILE_BYTES, &text, err);
        if (status == QK_OK)
            status = qk__json_parse(&root, text.data, text.size, QK__JSON_ZEROS, err);
        if (status == QK_OK)
            status = load_direction(root, "truncation_side", NULL, &t->cut_left, err);
        if (status != QK_OK && text.data)
            qk__context(err, status, "%s", path);
        json_decref(root);
    }
    qk__buffer_free(&text);
    free(path);
    return status;
}

static qk_status open_gguf(qk_tokenizer **tokenizer, const char *path, qk_error *err)
{
    qk__checkpoint *checkpoint;
    json_t *metadata;
    char *text = NULL;
    qk_status status = qk__checkpoint_open_gguf(&checkpoint, path, &metadata, err);
    if (status == QK_OK) {
        status = qk__gguf_tokenizer(metadata, &text, err);
        if (status == QK_OK)
            status = qk__tokenizer_parse(tokenizer, text, strlen(text), err);
        if (status != QK_OK)
            qk__context(err, status, "%s", path);
    }
    free(text);
    json_decref(metadata);
    qk__checkpoint_close(&checkpoint);
    return status;
}

static qk_status open_file(qk_tokenizer **tokenizer, const char *path, qk_error *err)
{
    qk__buffer text = {0};
    QK_TRY(qk__read_file(path, MAX_FILE_BYTES, &text, err));
    qk_status status = qk__tokenizer_parse(tokenizer, text.data, text.size, err);
    qk__buffer_free(&text);
    if (status != QK_OK)
        qk__context(err, status, "%s", path);
    return status;
}

qk_status qk_tokenizer_open(qk_tokenizer **tokenizer, const char *path, qk_error *err)
{
    QK_NEED(err, tokenizer);
    *tokenizer = NULL;
    QK_NEED(err, path);
    if (!qk__is_dir(path))
        return (qk__is_gguf(path) ? open_gguf : open_file)(tokenizer, path, err);
    char *file = qk__path_join(path, "tokenizer.json");
    if (!file)
        return qk__nomem(err);
    qk_status status = qk__folder_lacks(path, file)
                           ? qk__refuse_folder(path, "tokenizer.json", err)
                           : open_file(tokenizer, file, err);
    free(file);
    if (status == QK_OK)
        status = read_config(*tokenizer, path, err);
    if (status != QK_OK)
        qk_tokenizer_close(tokenizer);
    return status;
}
