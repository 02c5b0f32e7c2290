/* SPDX-License-Identifier: Apache-2.0 */
/* Commits: lines of JSON that tell of many files at once, each commit on top of the one that this
 * program knows. Where no answer comes the branch is looked at: the commit may have been made. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "fetch/put.h"

enum {
    MOST_FILES = 1000, /* in a commit; the Hub takes a minute for many more */
    FEW_FILES = 50,    /* fewer help nothing */
    MAX_ATTEMPTS = 6,
    PATIENCE = 600, /* seconds that a commit may take */
};
static const int64_t MOST_BYTES = (int64_t)32 << 20; /* of files that go into it themselves */

/* What is to be done: those that differ, and what goes. */
typedef struct work {
    qk__put_file **files;
    size_t count, done;
    size_t most;
    int attempts;
    qk__put_file attributes; /* .gitattributes, of a branch that has none */
} work;

/* ---- a line ------------------------------------------------------------------------------ */

static qk_status append_line(qk__buffer *body, json_t *line, qk_error *err)
{
    char *text = qk__json_dumps(line, JSON_COMPACT);
    qk_status status = text ? qk__buffer_printf(body, err, "%s\n", text) : qk__nomem(err);
    json_decref(line);
    free(text);
    return status;
}

/* A file that git keeps, with its bytes. */
static qk_status append_bytes(const qk__libraries *lib, qk__put_file *file, const void *bytes,
                              size_t size, qk__buffer *body, qk_error *err)
{
    char oid[QK__MAX_HASH + 1] = "";
    QK_TRY(qk__put_hash_text(lib, bytes, size, oid, err));
    if (file->source && (strcmp(oid, file->oid) != 0 || (int64_t)size != file->size))
        return qk__put_changed(file, err);
    memcpy(file->oid, oid, sizeof oid);
    char *text = malloc(size / 3 * 4 + 8);
    if (!text)
        return qk__nomem(err);
    *text = 0;
    lib->EncodeBlock((unsigned char *)text, bytes, (int)size);
    qk_status status =
        append_line(body,
                    json_pack("{s:s, s:{s:s, s:s, s:s}}", "key", "file", "value", "content",
                              text, "path", file->path, "encoding", "base64"),
                    err);
    free(text);
    return status;
}

static qk_status append_file(const qk__libraries *lib, qk__put_file *file, qk__buffer *body,
                             qk_error *err)
{
    if (file->change == QK_HUB_REMOVED)
        return append_line(
            body,
            json_pack("{s:s, s:{s:s}}", "key", "deletedFile", "value", "path", file->path),
            err);
    if (file->lfs)
        return append_line(body,
                           json_pack("{s:s, s:{s:s, s:s, s:s, s:I}}", "key", "lfsFile", "value",
                                     "path", file->path, "algo", "sha256", "oid", file->sha256,
                                     "size", (json_int_t)file->size),
                           err);
    if (!file->source)
        return append_bytes(lib, file, qk__put_attributes, (size_t)file->size, body, err);
    qk__buffer bytes = {0};
    qk_status status = qk__read_file(file->source, (size_t)MOST_BYTES, &bytes, err);
    if (status == QK_OK)
        status = append_bytes(lib, file, bytes.data, bytes.size, body, err);
    qk__buffer_free(&bytes);
    return status;
}

/* ---- a commit ---------------------------------------------------------------------------- */

static qk_status put_header(const qk__put *put, qk__buffer *body, qk_error *err)
{
    const char *given = put->settings->message;
    char part[32] = "";
    if (put->commits > 0)
        snprintf(part, sizeof part, " (part %d)", put->commits + 1);
    char *title = qk__format("%s%s", given && *given ? given : put->title, part);
    json_t *value = json_pack("{s:o, s:s}", "summary", qk__json_text(title), "description", "");
    if (*put->fetch.commit)
        value = qk__json_set(value, "parentCommit", json_string(put->fetch.commit));
    qk_status status =
        append_line(body, json_pack("{s:s, s:o}", "key", "header", "value", value), err);
    free(title);
    return status;
}

/* The commit that the answer names. */
static qk_status read_commit(qk__put *put, const qk__buffer *text, qk_error *err)
{
    json_t *root;
    QK_TRY(qk__text_fault(&put->fetch, text,
                          qk__json_parse(&root, text->data, text->size, QK__JSON_ANSWER, err),
                          "the Hub's answer", err));
    const char *oid = json_string_value(json_object_get(root, "commitOid"));
    bool good = oid && (qk__is_hash(oid, 40) || qk__is_hash(oid, 64));
    if (good)
        memcpy(put->fetch.commit, oid, strlen(oid) + 1);
    json_decref(root);
    return good ? QK_OK : qk__fail(err, QK_ERR_MALFORMED, "the Hub's answer names no commit");
}

static qk_status send_commit(qk__put *put, const qk__buffer *body, qk_error *err)
{
    qk__buffer text = {0};
    char *address = qk__fetch_address(&put->fetch, "/commit/", put->fetch.revision);
    const qk__post post = {.address = address,
                           .body = body,
                           .headers = {"Content-Type: application/x-ndjson"},
                           .refuse = qk__put_refused,
                           .patience = PATIENCE,
                           .once = true};
    qk_status status =
        address ? qk__connection_post(put->connection, &post, &text, err) : qk__nomem(err);
    if (status == QK_OK)
        status = read_commit(put, &text, err);
    qk__buffer_free(&text);
    free(address);
    return status;
}

/* How many files the next commit takes. */
static size_t next_count(const work *w)
{
    int64_t bytes = 0;
    size_t count = 0;
    while (w->done + count < w->count && count < w->most) {
        const qk__put_file *file = w->files[w->done + count];
        bytes += file->lfs || file->change == QK_HUB_REMOVED ? 0 : file->size;
        if (count > 0 && bytes > MOST_BYTES)
            break;
        count++;
    }
    return count;
}

/* ---- when it fails ----------------------------------------------------------------------- */

/* Whether looking at the branch may tell more, and another commit may help. */
static bool may_have_been_made(const qk__put *put, qk_status status)
{
    int answer = qk__connection_answer(put->connection)->status;
    return status != QK_ERR_NOMEM && status != QK_ERR_CANCELLED &&
           (answer < 300 || answer == 408 || answer == 412 || answer == 413 || answer >= 500);
}

/* After a commit that failed for `why`: *made, or QK_OK for another attempt. */
static qk_status look_again(qk__put *put, work *w, size_t count, bool *made,
                            const qk_error *why, qk_error *err)
{
    static const double WAITS[] = {1, 2, 4, 8, 8, 8};
    char before[QK__MAX_COMMIT + 1];
    const qk__put_file *odd;
    int answer = qk__connection_answer(put->connection)->status;
    memcpy(before, put->fetch.commit, sizeof before);
    if (++w->attempts >= MAX_ATTEMPTS || (answer == 413 && w->most <= FEW_FILES))
        return qk__fail(err, why->status, "%s", why->message);
    if (answer != 412 && answer != 413) {
        qk__tell_notice(&put->fetch.context, QK_NOTICE_REMARK,
                        "%s; looking whether the commit was made, in %.0f s", why->message,
                        WAITS[w->attempts - 1]);
        if (!qk__fetch_wait(&put->fetch, WAITS[w->attempts - 1]))
            return qk__fail(err, QK_ERR_CANCELLED, "stopped");
    }
    QK_TRY(qk__put_look(put, err));
    if (strcmp(before, put->fetch.commit) == 0) { /* it was not: a smaller one, then */
        w->most = w->most / 2 > FEW_FILES ? w->most / 2 : FEW_FILES;
        return answer == 412 ? qk__fail(err, why->status, "%s", why->message) : QK_OK;
    }
    QK_TRY(qk__put_check(put, w->files + w->done, count, &odd, err));
    *made = !odd;
    return odd ? qk__fail(err, QK_ERR_INCONSISTENT,
                          "somebody else has changed branch %s meanwhile: run the same command "
                          "again, which compares anew",
                          put->fetch.revision)
               : QK_OK;
}

/* Makes the next commit, or tries to. */
static qk_status commit_some(qk__put *put, work *w, qk_error *err)
{
    size_t count = next_count(w);
    qk__buffer body = {0};
    qk_error why = {.status = QK_OK};
    bool made = true;
    qk_status status = put_header(put, &body, err);
    for (size_t i = 0; status == QK_OK && i < count; i++)
        status = append_file(&put->fetch.libraries, w->files[w->done + i], &body, err);
    if (status == QK_OK) {
        status = send_commit(put, &body, &why);
        made = status == QK_OK;
        if (status != QK_OK)
            status = may_have_been_made(put, status)
                         ? look_again(put, w, count, &made, &why, err)
                         : qk__fail(err, why.status, "%s", why.message);
    }
    if (status == QK_OK && made) {
        w->done += count;
        w->attempts = 0;
        put->commits++;
    }
    qk__buffer_free(&body);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------- */

/* What tells of the capture comes first: a branch that is not complete yet then shows what it
 * lacks. */
static qk_status plan(qk__put *put, work *w, qk_error *err)
{
    w->files = qk__calloc(put->num_differing + put->others.count + 1, sizeof(qk__put_file *));
    w->attributes = (qk__put_file){.path = (char *)(uintptr_t) ".gitattributes",
                                   .size = (int64_t)strlen(qk__put_attributes),
                                   .change = QK_HUB_NEW};
    w->most = MOST_FILES;
    if (!w->files)
        return qk__nomem(err);
    if (!put->has_attributes && put->num_large > 0)
        w->files[w->count++] = &w->attributes;
    for (int lfs = 0; lfs < 2; lfs++) {
        for (size_t i = 0; i < put->num_differing; i++)
            if (put->files.items[put->differing[i]].lfs == (lfs == 1))
                w->files[w->count++] = &put->files.items[put->differing[i]];
        for (size_t i = 0; lfs == 0 && put->settings->remove && i < put->others.count; i++)
            w->files[w->count++] = &put->others.items[i];
    }
    return QK_OK;
}

qk_status qk__put_commit(qk__put *put, qk_error *err)
{
    work w = {0};
    const qk__put_file *odd = NULL;
    qk_status status = plan(put, &w, err);
    while (status == QK_OK && w.done < w.count)
        status = commit_some(put, &w, err);
    if (status == QK_OK && w.count > 0)
        status = qk__put_check(put, w.files, w.count, &odd, err);
    if (odd)
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "the Hub took all, and its list has something else under %s: run the "
                          "same command again, which compares anew",
                          odd->path);
    free(w.files);
    return status;
}
