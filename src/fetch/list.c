/* SPDX-License-Identifier: Apache-2.0 */
/* What there is on the Hub: branches and tags, with their heads and sizes. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "fetch/get.h"

enum { MAX_BRANCHES = 1000 };

static qk_status add_branch(qk_hub_listing *listing, size_t *capacity, const char *name,
                            const char *commit, bool tag, qk_error *err)
{
    if (listing->num_branches == *capacity) {
        void *grown = qk__grow(listing->branches, capacity, sizeof *listing->branches);
        if (!grown)
            return qk__nomem(err);
        listing->branches = grown;
    }
    qk_hub_branch *b = &listing->branches[listing->num_branches++];
    *b = (qk_hub_branch){
        .name = qk__strdup(name), .commit = qk__strdup(commit ? commit : ""), .tag = tag};
    return b->name && b->commit ? QK_OK : qk__nomem(err);
}

static qk_status add_refs(qk_hub_listing *listing, size_t *capacity, const json_t *refs,
                          bool tag, qk_error *err)
{
    for (size_t i = 0; i < json_array_size(refs); i++) {
        const json_t *ref = json_array_get(refs, i);
        const char *name = json_string_value(json_object_get(ref, "name"));
        const char *commit = json_string_value(json_object_get(ref, "targetCommit"));
        if (!name || !qk__hub_is_revision(name) || !commit ||
            !(qk__is_hash(commit, 40) || qk__is_hash(commit, 64)))
            return qk__fail(err, QK_ERR_MALFORMED,
                            "the Hub's answer has a branch without name or commit");
        if (listing->num_branches == MAX_BRANCHES)
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "more than %d branches: choose one with --revision", MAX_BRANCHES);
        QK_TRY(add_branch(listing, capacity, name, commit, tag, err));
    }
    return QK_OK;
}

static qk_status ask_refs(qk__connection *connection, qk_hub_listing *listing, qk_error *err)
{
    json_t *root;
    size_t capacity = 0;
    QK_TRY(qk__fetch_ask(connection, "/refs", "", &root, err));
    qk_status status =
        add_refs(listing, &capacity, json_object_get(root, "branches"), false, err);
    if (status == QK_OK)
        status = add_refs(listing, &capacity, json_object_get(root, "tags"), true, err);
    json_decref(root);
    return status;
}

/* Files are sorted by path: those of a head, and of a layer, are neighbours. */
static void count_files(const qk__fetch *f, const qk__repo_files *files, size_t count,
                        qk_hub_branch *b)
{
    qk_head_id before = {-1, -1, QK_QUERY};
    b->num_files = count;
    for (size_t i = 0; i < count; i++) {
        const qk__repo_file *file = &files->items[i];
        qk_head_id id;
        bool packed;
        b->bytes += file->size;
        if (qk__snapshot_has(f->folder, f->commit, file)) {
            b->cached_files++;
            b->cached_bytes += file->size;
        }
        if (!qk__wanted_head(file->path, &id, &packed))
            continue;
        b->num_layers += id.layer != before.layer;
        if (packed)
            b->packed_files++;
        else if (qk_head_compare(id, before) != 0)
            *(id.kind == QK_QUERY ? &b->query_heads : &b->key_heads) += 1;
        before = id;
    }
}

static qk_status list_branch(qk__fetch *f, qk__connection *connection, qk_hub_branch *b,
                             qk_error *err)
{
    qk__repo_files files = {0};
    bool known = false;
    size_t count = 0;
    qk_status status = QK_OK;
    f->revision = b->name;
    if (*b->commit)
        memcpy(f->commit, b->commit, strlen(b->commit) + 1);
    else
        status = qk__fetch_settle_commit(f, connection, err);
    if (status == QK_OK)
        status = qk__fetch_files(f, connection, false, &files, &known, err);
    if (status == QK_OK && known)
        status = qk__fetch_choose(f, &files, &count, err);
    if (status == QK_OK)
        count_files(f, &files, count, b);
    if (status == QK_OK && !*b->commit) {
        free(b->commit);
        b->commit = qk__strdup(f->commit);
        status = b->commit ? QK_OK : qk__nomem(err);
    }
    qk__repo_files_free(&files);
    return status;
}

static qk_status list(qk__fetch *f, qk__connection *connection, qk_hub_listing *listing,
                      qk_error *err)
{
    size_t capacity = 0;
    if (f->settings->revision)
        QK_TRY(add_branch(listing, &capacity, f->revision, NULL, false, err));
    else if (f->access.offline)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "its branches are on the Hub, which may not be asked (--offline or "
                        "HF_HUB_OFFLINE): choose one with --revision");
    else
        QK_TRY(ask_refs(connection, listing, err));
    for (size_t i = 0; i < listing->num_branches; i++)
        QK_TRY(list_branch(f, connection, &listing->branches[i], err));
    return QK_OK;
}

qk_status qk_hub_list(const qk_hub_settings *settings, qk_hub_listing **listing, qk_error *err)
{
    QK_NEED(err, listing);
    *listing = NULL;
    QK_NEED(err, settings);
    qk__fetch fetch;
    qk__connection *connection = NULL;
    qk_hub_listing *made = calloc(1, sizeof *made);
    qk_status status = qk__fetch_open(&fetch, settings, err);
    if (status == QK_OK && !made)
        status = qk__nomem(err);
    if (status == QK_OK && !fetch.access.offline)
        status = qk__connection_open(&connection, &fetch, err);
    if (status == QK_OK)
        status = qk__fetch_about(&fetch, list(&fetch, connection, made, err), err);
    qk__connection_close(&connection);
    qk__fetch_close(&fetch);
    if (status != QK_OK)
        qk_hub_listing_free(&made);
    *listing = made;
    return status;
}

void qk_hub_listing_free(qk_hub_listing **listing)
{
    qk_hub_listing *l = *listing;
    if (!l)
        return;
    for (size_t i = 0; i < l->num_branches; i++) {
        free(l->branches[i].name);
        free(l->branches[i].commit);
    }
    free(l->branches);
    free(l);
    *listing = NULL;
}
