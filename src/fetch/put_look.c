/* SPDX-License-Identifier: Apache-2.0 */
/* What the Hub has: whether there are dataset and branch, which commit and which files the branch
 * has. Makes dataset and branch. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "fetch/put.h"

enum { PATIENCE = 60 }; /* seconds */

/* ---- questions --------------------------------------------------------------------------- */

static qk_status post(qk__connection *c, const char *address, bool lfs, json_t *body,
                      qk__buffer *text, qk_error *err)
{
    char *line = qk__json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (!line || !address) {
        free(line);
        return qk__nomem(err);
    }
    size_t size = strlen(line);
    const qk__buffer bytes = {(uint8_t *)line, size, size};
    const qk__post request = {.address = address,
                              .body = &bytes,
                              .headers = {lfs ? "Content-Type: application/vnd.git-lfs+json"
                                              : "Content-Type: application/json",
                                          lfs ? "Accept: application/vnd.git-lfs+json" : NULL},
                              .refuse = qk__put_refused,
                              .patience = PATIENCE};
    qk_status status = qk__connection_post(c, &request, text, err);
    free(line);
    return status;
}

qk_status qk__put_post(qk__connection *c, const char *address, bool lfs, json_t *body,
                       qk_error *err)
{
    qk__buffer text = {0};
    qk_status status = post(c, address, lfs, body, &text, err);
    qk__buffer_free(&text);
    return status;
}

qk_status qk__put_json(qk__connection *c, const char *address, bool lfs, json_t *body,
                       json_t **answer, qk_error *err)
{
    qk__buffer text = {0};
    *answer = NULL;
    qk_status status = post(c, address, lfs, body, &text, err);
    if (status == QK_OK)
        status =
            qk__text_fault(qk__connection_fetch(c), &text,
                           qk__json_parse(answer, text.data, text.size, QK__JSON_ANSWER, err),
                           "the Hub's answer", err);
    qk__buffer_free(&text);
    return status;
}

/* ---- dataset and branch ------------------------------------------------------------------ */

static qk_status read_branch(qk__put *put, const json_t *root, qk_error *err)
{
    const char *id = json_string_value(json_object_get(root, "id"));
    QK_TRY(qk__fetch_take_commit(&put->fetch, root, err));
    if (id && strcmp(id, put->fetch.name) != 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "it is called %.200s now: give that name", id);
    put->is_public = json_is_false(json_object_get(root, "private"));
    return QK_OK;
}

qk_status qk__put_look(qk__put *put, qk_error *err)
{
    qk__fetch *f = &put->fetch;
    json_t *root;
    qk_status status = qk__fetch_ask(put->connection, "/revision/", f->revision, &root, err);
    const qk__headers *answer = qk__connection_answer(put->connection);
    *f->commit = 0;
    put->dataset_missing = status != QK_OK && strcmp(answer->code, "RepoNotFound") == 0;
    put->branch_missing =
        put->dataset_missing || (status != QK_OK && !strcmp(answer->code, "RevisionNotFound"));
    if (status == QK_OK)
        status = read_branch(put, root, err);
    else if (put->branch_missing)
        status = QK_OK;
    json_decref(root);
    return status;
}

static qk_status make_dataset(qk__put *put, qk_error *err)
{
    qk__fetch *f = &put->fetch;
    const char *slash = strchr(f->name, '/');
    char *address = qk__format("%s/api/repos/create", f->access.endpoint);
    json_t *body = json_pack("{s:s, s:s%, s:s, s:s}", "name", slash + 1, "organization",
                             f->name, (size_t)(slash - f->name), "type", "dataset",
                             "visibility", put->settings->publish ? "public" : "private");
    qk_status status = qk__put_post(put->connection, address, false, body, err);
    if (status != QK_OK && qk__connection_answer(put->connection)->status == 409)
        status = QK_OK; /* somebody else was quicker, or it cannot be seen: look again */
    free(address);
    return status;
}

static qk_status make_branch(qk__put *put, qk_error *err)
{
    char *address = qk__fetch_address(&put->fetch, "/branch/", put->fetch.revision);
    qk_status status = qk__put_post(put->connection, address, false,
                                    json_pack("{s:b}", "emptyBranch", 1), err);
    if (status != QK_OK && qk__connection_answer(put->connection)->status == 409)
        status = QK_OK;
    free(address);
    return status;
}

qk_status qk__put_make(qk__put *put, qk_error *err)
{
    bool dataset = put->dataset_missing;
    if (dataset) {
        QK_TRY(qk__context(err, make_dataset(put, err), "making the dataset"));
        QK_TRY(qk__put_look(put, err));
        if (put->dataset_missing)
            return qk__fail(
                err, QK_ERR_NOT_FOUND,
                "the Hub says that the dataset is there, and your token may not see "
                "it: take one that may (%s/settings/tokens), or another name",
                put->fetch.access.endpoint);
    }
    if (!put->branch_missing)
        return QK_OK;
    QK_TRY(qk__context(err, make_branch(put, err), "making branch %s", put->fetch.revision));
    return qk__put_look(put, err); /* an empty branch may have no commit yet */
}

/* ---- files ------------------------------------------------------------------------------- */

static const qk__repo_file *find_repo_file(const qk__repo_files *files, const char *path)
{
    size_t low = 0, high = files->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(files->items[middle].path, path);
        if (order == 0)
            return &files->items[middle];
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return NULL;
}

/* Only hashes tell whether bytes are the same, and only where the sizes are they are needed. */
static qk_status compare_one(void *context, size_t i, qk__connection *c, qk_error *err)
{
    qk__put *put = context;
    qk__put_file *file = &put->files.items[i];
    (void)c;
    const qk__repo_file *there = find_repo_file(&put->there, file->path);
    file->change = there ? QK_HUB_CHANGED : QK_HUB_NEW;
    if (!there || there->size != file->size)
        return QK_OK;
    bool lfs = *there->sha256 != 0;
    char *hash = lfs ? file->sha256 : file->oid;
    if (!*hash)
        QK_TRY(qk__put_hash(&put->fetch, file, lfs, err));
    if (strcmp(hash, lfs ? there->sha256 : there->oid) == 0)
        file->change = QK_HUB_SAME;
    return QK_OK;
}

static qk_status find_others(qk__put *put, qk_error *err)
{
    size_t next = 0;
    const qk__put_files *mine = &put->files;
    qk__put_files_free(&put->others);
    put->others.items = qk__calloc(put->there.count, sizeof *put->others.items);
    if (!put->others.items && put->there.count > 0)
        return qk__nomem(err);
    for (size_t i = 0; i < put->there.count; i++) {
        const qk__repo_file *file = &put->there.items[i];
        while (next < mine->count && strcmp(mine->items[next].path, file->path) < 0)
            next++;
        if (!qk__put_is_of_capture(file->path) ||
            (next < mine->count && strcmp(mine->items[next].path, file->path) == 0))
            continue;
        qk__put_file *other = &put->others.items[put->others.count++];
        *other = (qk__put_file){.path = qk__strdup(file->path),
                                .size = file->size,
                                .change = put->settings->remove ? QK_HUB_REMOVED : QK_HUB_LEFT};
        if (!other->path)
            return qk__nomem(err);
    }
    return QK_OK;
}

static qk_status read_list(qk__put *put, qk_error *err)
{
    bool known = true;
    qk__repo_files_free(&put->there);
    return *put->fetch.commit
               ? qk__fetch_files(&put->fetch, put->connection, false, &put->there, &known, err)
               : QK_OK;
}

/* What compare_one may have to read. */
static int64_t bytes_to_compare(const qk__put *put)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < put->files.count; i++) {
        const qk__repo_file *there = find_repo_file(&put->there, put->files.items[i].path);
        bytes += there && there->size == put->files.items[i].size ? there->size : 0;
    }
    return bytes;
}

qk_status qk__put_compare(qk__put *put, qk_error *err)
{
    QK_TRY(read_list(put, err));
    put->has_attributes = find_repo_file(&put->there, ".gitattributes") != NULL;
    QK_TRY(find_others(put, err));
    qk__put_measure(put, bytes_to_compare(put));
    QK_TRY(qk__crew_run(&put->crew, put->files.count, compare_one, put, err));
    put->differing = qk__calloc(put->files.count + 1, sizeof *put->differing);
    if (!put->differing)
        return qk__nomem(err);
    for (size_t i = 0; i < put->files.count; i++) {
        qk__put_file *file = &put->files.items[i];
        if (file->change == QK_HUB_CHANGED)
            QK_TRY(
                qk__put_settle_card(put, file, find_repo_file(&put->there, file->path), err));
        if (file->change != QK_HUB_SAME && file->change != QK_HUB_KEPT)
            put->differing[put->num_differing++] = i;
    }
    return QK_OK;
}

qk_status qk__put_check(qk__put *put, qk__put_file *const *files, size_t count,
                        const qk__put_file **odd, qk_error *err)
{
    *odd = NULL;
    QK_TRY(read_list(put, err));
    for (size_t i = 0; i < count && !*odd; i++) {
        const qk__repo_file *there = find_repo_file(&put->there, files[i]->path);
        const char *hash = there && *there->sha256 ? files[i]->sha256 : files[i]->oid;
        bool right = files[i]->change == QK_HUB_REMOVED
                         ? !there
                         : there && strcmp(hash, qk__repo_file_etag(there)) == 0;
        *odd = right ? NULL : files[i];
    }
    return QK_OK;
}
