/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a capture consists of, and whether it is whole. Whatever else lies in its folder
 * (hidden files, an unfinished run, results) is not looked at, so it cannot be sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "capture/capture.h"
#include "fetch/put.h"

/* Beside heads and sums. */
static const char *const PAPERS[] = {QK_MANIFEST_NAME, QK__CARD_NAME, "examples.csv",
                                     "truth.json"};

enum { NUM_PAPERS = sizeof PAPERS / sizeof *PAPERS };

bool qk__put_is_of_capture(const char *path)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_id id;
    const char *slash = strchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    for (int i = 0; i < NUM_PAPERS; i++)
        if (strcmp(path, PAPERS[i]) == 0)
            return strcmp(path, QK__CARD_NAME) != 0;
    if (!slash || length >= sizeof name || strchr(slash + 1, '/'))
        return false;
    memcpy(name, path, length);
    name[length] = 0;
    return qk_head_parse(name, &id) || qk__layer_parse(name, &id) || qk__is_sums_folder(name);
}

void qk__put_files_free(qk__put_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].path);
        free(files->items[i].source);
        if (files->items[i].in_memory)
            close(files->items[i].fd);
    }
    free(files->items);
    *files = (qk__put_files){0};
}

/* ---- gathering --------------------------------------------------------------------------- */

/* A file in a folder: the capture, or the one above that has its capture.json. A link is not asked again, when the
 * file is read, where it leads. */
static qk_status add_file(qk__put_files *files, const char *folder, const char *path,
                          const char *source, qk_error *err)
{
    struct stat st;
    char *place;
    QK_TRY(qk__put_resolve(source, folder, &place, err));
    if (lstat(place, &st) != 0 || !S_ISREG(st.st_mode)) {
        free(place);
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: not a file that can be sent", source);
    }
    if (files->count == files->capacity) {
        void *grown = qk__grow(files->items, &files->capacity, sizeof *files->items);
        if (!grown) {
            free(place);
            return qk__nomem(err);
        }
        files->items = grown;
    }
    qk__put_file *file = &files->items[files->count++];
    *file = (qk__put_file){
        .path = qk__strdup(path), .source = place, .size = st.st_size, .change = QK_HUB_NEW};
    return file->path ? QK_OK : qk__nomem(err);
}

/* A file of a head or layer, which lies in a folder of the capture. */
static qk_status add_below(qk__put_files *files, const qk_capture *capture, const char *source,
                           qk_error *err)
{
    const char *folder = qk_capture_path(capture);
    size_t length = strlen(folder);
    const char *path = strncmp(source, folder, length) == 0 ? source + length : "";
    path += strspn(path, "/");
    return qk__put_is_of_capture(path)
               ? add_file(files, folder, path, source, err)
               : qk__fail(err, QK_ERR_INCONSISTENT, "%s: not where a capture has it", source);
}

/* Whether the name is taken, also by a link that leads to nothing: to pass over one would be to lose a file. */
static bool has_name(const char *folder, const char *name)
{
    struct stat st;
    qk__path path;
    return qk__path_in(&path, folder, name, NULL) == QK_OK && lstat(path.text, &st) == 0;
}

/* capture.json may lie above. */
static qk_status add_papers(qk__put_files *files, const qk_capture *capture, const char *root,
                            qk_error *err)
{
    const char *folder = qk_capture_path(capture);
    for (int i = 0; i < NUM_PAPERS; i++) {
        const char *place = i == 0 && !has_name(folder, PAPERS[i]) ? root : folder;
        if (!has_name(place, PAPERS[i]))
            continue;
        qk__path source;
        QK_TRY(qk__path_in(&source, place, PAPERS[i], err));
        QK_TRY(add_file(files, place, PAPERS[i], source.text, err));
    }
    return QK_OK;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const qk__put_file *)a)->path, ((const qk__put_file *)b)->path);
}

/* Sorts, and leaves out what was added for several heads. */
static void sort_files(qk__put_files *files)
{
    size_t kept = 0;
    qsort(files->items, files->count, sizeof *files->items, compare_paths);
    for (size_t i = 0; i < files->count; i++) {
        if (kept > 0 && strcmp(files->items[kept - 1].path, files->items[i].path) == 0) {
            free(files->items[i].path);
            free(files->items[i].source);
        } else {
            files->items[kept++] = files->items[i];
        }
    }
    files->count = kept;
}

/* ---- whole or not ------------------------------------------------------------------------ */

static qk_status check_whole(const qk_capture *capture, const char *root, qk_error *err)
{
    char names[200];
    const char *folder = qk_capture_path(capture);
    size_t length = strlen(root);
    while (length > 1 && root[length - 1] == '/')
        length--;
    if (strncmp(folder, root, length) != 0) /* the parent, of a folder of one head */
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: a folder of a capture; give the folder that holds all of them: %s",
                        root, folder);
    if (!qk_capture_get_info(capture)->complete)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: the capture is not finished, says its capture.json: run the "
                        "command that began it again, which completes it",
                        folder);
    size_t missing = qk__capture_missing(capture, NULL, NULL, names, sizeof names);
    if (missing > 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: %zu head%s that capture.json lists %s missing, %s: complete the "
                        "capture, then send it",
                        folder, missing, missing == 1 ? "" : "s", missing == 1 ? "is" : "are",
                        names);
    return QK_OK;
}

/* Reads the footers of a head's files: what is missing of them would be found by those who fetch
 * them. */
static qk_status check_head(qk_rows **rows, const qk_head *head, qk_error *err)
{
    if (head->failure)
        return qk__fail(err, head->failure->status, "%s", head->failure->message);
    return head->num_files > 0 ? qk_rows_reopen(rows, head, QK_COLUMN_VECTOR, 0, err) : QK_OK;
}

static qk_status add_attention(qk__put_files *files, const qk_capture *capture, int layer,
                               qk_error *err)
{
    const char *folder = qk_capture_path(capture);
    char name[QK__SUMS_NAME_SIZE];
    qk__path source;
    qk__sums_name(QK__ATTENTION_FOLDER, layer, name);
    QK_TRY(qk__path_in(&source, folder, name, err));
    return has_name(folder, name)
               ? add_file(files, folder, name, source.text, err)
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s: not there, but capture.json says that it is kept: complete the "
                          "capture, then send it",
                          source.text);
}

static qk_status add_heads(qk__put_files *files, const qk_capture *capture, qk_error *err)
{
    qk_rows *rows = NULL;
    qk_status status = QK_OK;
    const bool attention = qk_capture_get_info(capture)->has_attention;
    const char *before = ""; /* heads of a packed file are neighbours, or nearly */
    int layer = -1;
    for (size_t i = 0; status == QK_OK && i < qk_capture_num_heads(capture); i++) {
        const qk_head *head = qk_capture_head(capture, i);
        status = check_head(&rows, head, err);
        for (size_t j = 0; status == QK_OK && j < head->num_files; j++)
            status = add_below(files, capture, head->files[j], err);
        if (status == QK_OK && head->moments && strcmp(head->moments, before) != 0)
            status = add_below(files, capture, before = head->moments, err);
        if (status == QK_OK && attention && head->id.layer != layer)
            status = add_attention(files, capture, layer = head->id.layer, err);
    }
    qk_rows_close(&rows);
    return status;
}

static qk_status find_files(const qk_capture *capture, const qk_hub_put_settings *s,
                            qk__put_files *files, char **title, qk_error *err)
{
    const char *root = s->capture, *model = qk_capture_get_info(capture)->model;
    if (s->hide_paths && *model == '/')
        model = strrchr(model, '/') + 1;
    QK_TRY(check_whole(capture, root, err));
    QK_TRY(add_heads(files, capture, err));
    QK_TRY(add_papers(files, capture, root, err));
    sort_files(files);
    *title = qk__format("Queries and keys%s%s", *model ? " of " : "", model);
    return *title ? QK_OK : qk__nomem(err);
}

qk_status qk__put_find_files(const qk_hub_put_settings *s, qk__put_files *files, char **title,
                             qk_error *err)
{
    qk_capture *capture;
    QK_TRY(qk_capture_open(&capture, s->capture, s->prefix, err));
    qk_status status = find_files(capture, s, files, title, err);
    qk_capture_close(&capture);
    return status;
}
