/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a tokenizer: reads the parts of tokenizer.json, or makes them of a GGUF file. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/json.h"
#include "base/json_build.h"
#include "model/checkpoint.h"
#include "paths/path_kind.h"
#include "tokenizer/gguf_tokenizer.h"
#include "tokenizer/tokenizer.h"

static qk_status check_version(const qk__node *root, qk_error *err)
{
    const char *version = "1.0";
    QK_TRY(qk__read_text(root, "version", &version, err));
    if (strcmp(version, "1.0") != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "version: \"%.60s\", not \"1.0\"", version);
    return QK_OK;
}

/* {"direction": "Right"} in the file, "right" beside it in tokenizer_config.json. */
static qk_status load_direction(const qk__node *object, const char *key, bool *left,
                                qk_error *err)
{
    static const char *const NAMES[] = {"Right", "Left", "right", "left", NULL};
    int found = *left;
    QK_TRY(qk__read_word(object, key, NAMES, &found, err));
    *left = found % 2 != 0;
    return QK_OK;
}

static qk_status load_truncation(qk_tokenizer *t, const qk__node *root, qk_error *err)
{
    qk__node truncation;
    if (qk__node_kind_in(root, "truncation") <= QK__NULL)
        return QK_OK;
    QK_TRY(qk__need_kind(root, "truncation", QK__OBJECT, &truncation, err));
    return load_direction(&truncation, "direction", &t->cut_left, err);
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

static qk_status load_parts(qk_tokenizer *t, const json_t *json, qk_error *err)
{
    qk__node root = qk__tree_of_json(json);
    QK_TRY(qk__need_kind(&root, NULL, QK__OBJECT, &root, err));
    qk__node normalizer = qk__node_member(&root, "normalizer");
    qk__node cutter = qk__node_member(&root, "pre_tokenizer");
    qk__node post = qk__node_member(&root, "post_processor");
    QK_TRY(check_version(&root, err));
    QK_TRY(load_truncation(t, &root, err));
    QK_TRY(qk__bpe_load(&t->bpe, &root, err));
    QK_TRY(qk__normalizers_load(&t->normalizers, &normalizer, err));
    QK_TRY(qk__cutters_load(&t->cutters, &cutter, err));
    QK_TRY(qk__added_load(t, &root, err));
    QK_TRY(make_names(t, err));
    return qk__post_load(t, &post, err);
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
    QK_TRY(qk__json_parse(&root, json, size, QK__JSON_TOKENIZER, err));
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
    json_t *json = NULL;
    qk_status status = QK_OK;
    qk__path path;
    QK_TRY(qk__path_in(&path, folder, "tokenizer_config.json", err));
    if (qk__is_there(path.text))
        status = qk__json_read_file(&json, path.text, QK__JSON_TOKENIZER, err);
    if (json) {
        qk__node root = qk__tree_of_json(json);
        status = qk__context(err, load_direction(&root, "truncation_side", &t->cut_left, err),
                             "%s", path.text);
    }
    json_decref(json);
    return status;
}

static qk_status open_gguf(qk_tokenizer **tokenizer, const char *path, qk_error *err)
{
    qk__checkpoint *checkpoint;
    json_t *metadata;
    char *text = NULL;
    QK_TRY(qk__checkpoint_open_gguf(&checkpoint, path, &metadata, err));
    qk_status status = qk__gguf_tokenizer(metadata, &text, err);
    if (status == QK_OK)
        status = qk__tokenizer_parse(tokenizer, text, strlen(text), err);
    qk__context(err, status, "%s", path);
    free(text);
    json_decref(metadata);
    qk__checkpoint_close(&checkpoint);
    return status;
}

static qk_status open_file(qk_tokenizer **tokenizer, const char *path, qk_error *err)
{
    qk__buffer text = {0};
    QK_TRY(qk__read_file(path, qk__json_limits_of(QK__JSON_TOKENIZER)->text, &text, err));
    qk_status status = qk__tokenizer_parse(tokenizer, text.data, text.size, err);
    qk__buffer_free(&text);
    qk__context(err, status, "%s", path);
    return status == QK_ERR_MALFORMED ? qk__path_tell(path, QK__PATH_FILE_OF_MODEL, status, err)
                                      : status;
}

qk_status qk_tokenizer_open(qk_tokenizer **tokenizer, const char *path, qk_error *err)
{
    QK_NEED(err, tokenizer);
    *tokenizer = NULL;
    QK_NEED(err, path);
    if (!qk__is_dir(path))
        return (qk__is_gguf(path) ? open_gguf : open_file)(tokenizer, path, err);
    qk__path file;
    QK_TRY(qk__path_in(&file, path, "tokenizer.json", err));
    if (qk__folder_lacks(path, file.text))
        return qk__refuse_folder(path, "tokenizer.json", err);
    qk_status status = open_file(tokenizer, file.text, err);
    if (status == QK_OK)
        status = read_config(*tokenizer, path, err);
    if (status != QK_OK)
        qk_tokenizer_close(tokenizer);
    return status;
}
