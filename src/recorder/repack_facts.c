/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a capture besides its rows: keys of capture.json, facts of the card, files. */
#include "recorder/repack.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json_build.h"
#include "capture/capture.h"

static const size_t MAX_FILE = (size_t)1 << 30;

/* A file of the capture's folder, else of the folder above the prefix, where its manifest may
 * be. *file is NULL where there is none. */
static qk_status find_file(const qk_capture *capture, const char *name, char **file,
                           qk_error *err)
{
    const char *path = qk_capture_path(capture);
    size_t prefix = strlen(qk_capture_prefix(capture));
    *file = qk__path_join(path, name);
    if (*file && !qk__is_file(*file) && prefix > 0) {
        free(*file);
        *file = qk__format("%.*s/%s", (int)(strlen(path) - prefix - 1), path, name);
    }
    if (!*file)
        return qk__nomem(err);
    if (!qk__is_file(*file)) {
        free(*file);
        *file = NULL;
    }
    return QK_OK;
}

/* ---- capture.json ----------------------------------------------------------------------- */

/* The writer's own keys are not among them. */
static qk_status take_keys(json_t *root, qk__repack_facts *facts, qk_error *err)
{
    static const char *const OWN[] = {
        "format", "format_version", "tool",     "model",  "q_per_kv_group",
        "source", "complete",       "changing", "layout", "heads"};
    const char *source = json_string_value(json_object_get(root, "source"));
    if (source && !(facts->source = qk__strdup(source)))
        return qk__nomem(err);
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
        json_object_del(root, OWN[i]);
    facts->extra = qk__json_dumps(root, JSON_REAL_PRECISION(17));
    return facts->extra ? QK_OK : qk__nomem(err);
}

static qk_status read_manifest(const qk_capture *capture, qk__repack_facts *facts,
                               qk_error *err)
{
    if (!qk_capture_get_info(capture)->has_manifest)
        return QK_OK;
    char *path;
    QK_TRY(find_file(capture, QK_MANIFEST_NAME, &path, err));
    if (!path)
        return QK_OK;
    json_t *root;
    qk_status status = qk__json_read_file(&root, path, QK__JSON_CAPTURE, err);
    free(path);
    if (status == QK_OK)
        status = take_keys(root, facts, err);
    json_decref(root);
    return status;
}

/* ---- the card --------------------------------------------------------------------------- */

/* What stands between the writer's own lines; nothing of a card that is not the writer's. */
static qk_status read_card(const qk_capture *capture, qk__repack_facts *facts, qk_error *err)
{
    char *path;
    QK_TRY(find_file(capture, "README.md", &path, err));
    if (!path)
        return QK_OK;
    qk__buffer text = {0};
    qk_status status = qk__read_file(path, MAX_FILE, &text, err);
    free(path);
    if (status != QK_OK)
        return status;
    char *begin = strstr((char *)text.data, "\n- written by: qkscope ");
    begin = begin ? strchr(begin + 1, '\n') : NULL;
    char *end = begin ? strstr(begin, "\n\nOne configuration per ") : NULL;
    if (end && end > begin) {
        end[1] = 0; /* facts end with a newline */
        facts->card = qk__strdup(begin + 1);
        status = facts->card ? QK_OK : qk__nomem(err);
    }
    qk__buffer_free(&text);
    return status;
}

qk_status qk__repack_facts_read(const qk_capture *capture, qk__repack_facts *facts,
                                qk_error *err)
{
    *facts = (qk__repack_facts){0};
    qk_status status = read_manifest(capture, facts, err);
    if (status == QK_OK)
        status = read_card(capture, facts, err);
    if (status != QK_OK)
        qk__repack_facts_free(facts);
    return status;
}

void qk__repack_facts_free(qk__repack_facts *facts)
{
    free(facts->source);
    free(facts->extra);
    free(facts->card);
    *facts = (qk__repack_facts){0};
}

/* ---- files ------------------------------------------------------------------------------ */

static qk_status copy_file(const qk_capture *capture, const char *name, const char *folder,
                           qk_error *err)
{
    char *from;
    qk__buffer text = {0};
    QK_TRY(find_file(capture, name, &from, err));
    if (!from)
        return QK_OK;
    char *to = qk__path_join(folder, name);
    qk_status status = to ? qk__read_file(from, MAX_FILE, &text, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__write_file(to, text.data, text.size, err);
    qk__buffer_free(&text);
    free(from);
    free(to);
    return status;
}

/* Moments of layers stay as they are, and the manifest tells of how many rows they are. */
static qk_status copy_moments(const qk_capture *capture, const char *folder,
                              qk_capture_writer *writer, qk_error *err)
{
    qk_status status = qk__make_below(folder, QK__MOMENTS_FOLDER, err);
    const char *before = NULL;
    for (size_t i = 0; status == QK_OK && i < qk_capture_num_heads(capture); i++) {
        const qk_head *head = qk_capture_head(capture, i);
        const char *name = head->moments + strlen(qk_capture_path(capture)) + 1;
        if (!before || strcmp(before, head->moments) != 0)
            status = copy_file(capture, name, folder, err);
        before = head->moments;
        if (status == QK_OK && head->summed > 0)
            status = qk__capture_writer_note_sums(writer, head->id, 0, head->summed, err);
    }
    return status;
}

static qk_status copy_attention(const qk_capture *capture, const char *folder, qk_error *err)
{
    char name[QK__SUMS_NAME_SIZE];
    QK_TRY(qk__make_below(folder, QK__ATTENTION_FOLDER, err));
    for (int layer = 0; layer < qk_capture_num_layers(capture); layer++) {
        qk__sums_name(QK__ATTENTION_FOLDER, layer, name);
        QK_TRY(copy_file(capture, name, folder, err));
    }
    return QK_OK;
}

qk_status qk__repack_copy_files(const qk_capture *capture, const char *folder,
                                qk_capture_writer *writer, qk_error *err)
{
    QK_TRY(copy_file(capture, "examples.csv", folder, err));
    QK_TRY(copy_file(capture, "truth.json", folder, err));
    if (qk_capture_get_info(capture)->has_moments)
        QK_TRY(copy_moments(capture, folder, writer, err));
    return qk_capture_get_info(capture)->has_attention ? copy_attention(capture, folder, err)
                                                       : QK_OK;
}
