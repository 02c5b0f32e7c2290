/* SPDX-License-Identifier: Apache-2.0 */
/* Sending a capture to the Hub: what of it the branch lacks, large files first, then commits that name
 * them. Nothing is kept here about what was sent: the Hub's lists tell, so the same command goes on
 * with what was stopped. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fetch/put.h"

/* ---- open and close ---------------------------------------------------------------------- */

static qk_status open_put(qk__put *put, qk_error *err)
{
    const qk_hub_put_settings *s = put->settings;
    qk__fetch *f = &put->fetch;
    put->crew.fetch = f;
    put->hub =
        (qk_hub_settings){.name = s->name, .revision = s->revision, .context = s->context};
    QK_TRY(qk__fetch_open(f, &put->hub, err));
    if (!strchr(s->name, '/'))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: not the name of a Hub dataset to send to, org/name", s->name);
    if (qk__is_hash(f->revision, 40) || qk__is_hash(f->revision, 64))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: a commit, where a branch is needed",
                        f->revision);
    if (!s->capture || !*s->capture)
        return qk__fail(err, QK_ERR_ARGUMENT, "no capture given");
    if (f->access.offline)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: nothing may be sent (--offline or HF_HUB_OFFLINE)", f->name);
    if (!f->access.token)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: sending needs a token with the right to write: make one on "
                        "%s/settings/tokens, then hf auth login, or set HF_TOKEN",
                        f->name, f->access.endpoint);
    return QK_OK;
}

static void close_put(qk__put *put)
{
    qk__connection_close(&put->connection);
    qk__crew_close(&put->crew);
    qk__repo_files_free(&put->there);
    qk__put_files_free(&put->files);
    qk__put_files_free(&put->others);
    free(put->differing);
    free(put->large);
    free(put->chunks);
    free(put->title);
    qk__fetch_close(&put->fetch);
}

/* ---- what is told ------------------------------------------------------------------------ */

static void announce_making(qk__put *put)
{
    qk__fetch *f = &put->fetch;
    if (put->dataset_missing)
        qk__tell_notice(&f->context, QK_NOTICE_REMARK, "%s: making the dataset, %s", f->name,
                        put->settings->publish ? "public" : "private");
    else
        qk__tell_notice(&f->context, QK_NOTICE_REMARK, "%s: making branch %s", f->name,
                        f->revision);
}

static void announce(qk__put *put, int64_t bytes)
{
    qk__fetch *f = &put->fetch;
    char size[24];
    size_t count = put->num_differing;
    qk__size_text(bytes, size);
    if (count == 0)
        qk__tell_notice(&f->context, QK_NOTICE_REMARK, "%s at %s: all %zu files are there",
                        f->name, f->revision, put->files.count);
    else
        qk__tell_notice(&f->context, QK_NOTICE_REMARK, "%s at %s: sending %zu file%s, %s%s",
                        f->name, f->revision, count, qk__plural(count), size,
                        put->files.count > count ? " (the others are there)" : "");
    count = put->settings->remove ? put->others.count : 0;
    if (count > 0)
        qk__tell_notice(&f->context, QK_NOTICE_REMARK,
                        "%s at %s: removing %zu file%s of another capture, %s%s", f->name,
                        f->revision, count, qk__plural(count), put->others.items[0].path,
                        count > 1 ? " for one" : "");
    if (put->settings->publish && !put->is_public)
        qk__tell_notice(&f->context, QK_NOTICE_WARNING,
                        "%s is there already and stays private: --public is for new datasets; "
                        "its settings on the Hub make it public",
                        f->name);
    if (put->num_differing > 0 && put->is_public && !put->settings->publish)
        qk__tell_notice(&f->context, QK_NOTICE_REMARK,
                        "%s is public: what is sent, everybody can read", f->name);
}

static void warn_of_others(qk__put *put)
{
    size_t count = put->others.count;
    if (count > 0 && !put->settings->remove)
        qk__tell_notice(&put->fetch.context, QK_NOTICE_WARNING,
                        "branch %s has %zu file%s of another capture, %s for one: who fetches "
                        "this one gets them, too; --delete removes them",
                        put->fetch.revision, count, qk__plural(count),
                        put->others.items[0].path);
}

/* The page of a dataset shows its card, whose front matter tells of the heads. */
static void note_missing_card(qk__put *put)
{
    for (size_t i = 0; i < put->files.count; i++)
        if (strcmp(put->files.items[i].path, QK__CARD_NAME) == 0)
            return;
    qk__tell_notice(&put->fetch.context, QK_NOTICE_WARNING,
                    "%s: there is no README.md: the page of the dataset will not tell of its "
                    "heads; --layout packed of qkscope capture writes one",
                    put->settings->capture);
}

static char *page_address(const qk__fetch *f)
{
    qk__buffer out = {0};
    bool done = qk__buffer_printf(&out, NULL, "%s/datasets/%s/tree/", f->access.endpoint,
                                  f->name) == QK_OK &&
                qk__quote(&out, f->revision, true, NULL) == QK_OK &&
                qk__buffer_append(&out, "", 1, NULL) == QK_OK;
    if (!done)
        qk__buffer_free(&out);
    return (char *)out.data;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const qk_hub_put_file *)a)->path, ((const qk_hub_put_file *)b)->path);
}

static qk_status list_files(const qk__put *put, qk_hub_put_outcome *o, qk_error *err)
{
    const qk__put_files *lists[] = {&put->files, &put->others};
    o->files = qk__calloc(put->files.count + put->others.count, sizeof *o->files);
    if (!o->files)
        return qk__nomem(err);
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->count; i++) {
            const qk__put_file *file = &lists[l]->items[i];
            qk_hub_put_file *told = &o->files[o->num_files];
            *told = (qk_hub_put_file){qk__strdup(file->path), file->size, file->change};
            if (!told->path)
                return qk__nomem(err);
            o->num_files++;
            o->new_files += file->change == QK_HUB_NEW;
            o->changed_files += file->change == QK_HUB_CHANGED;
            o->same_files += file->change == QK_HUB_SAME;
            o->left_files += file->change == QK_HUB_LEFT;
            o->removed_files += file->change == QK_HUB_REMOVED;
            bool differs = file->change == QK_HUB_NEW || file->change == QK_HUB_CHANGED;
            o->bytes += l == 0 ? file->size : 0;
            o->differing += differs ? file->size : 0;
        }
    qsort(o->files, o->num_files, sizeof *o->files, compare_paths);
    return QK_OK;
}

static qk_status fill_in(const qk__put *put, qk_hub_put_outcome *o, qk_error *err)
{
    o->sent = put->fetch.came;
    o->is_public = put->is_public;
    o->commit = qk__strdup(put->fetch.commit);
    o->address = page_address(&put->fetch);
    o->commits = put->commits;
    o->requests = atomic_load(&put->fetch.requests);
    return o->commit && o->address ? QK_OK : qk__nomem(err);
}

/* ---- all together ------------------------------------------------------------------------ */

static qk_status put_all(qk__put *put, qk_hub_put_outcome *o, qk_error *err)
{
    const qk_hub_put_settings *s = put->settings;
    QK_TRY(qk__connection_open(&put->connection, &put->fetch, err));
    QK_TRY(qk__put_look(put, err));
    o->made_dataset = put->dataset_missing;
    o->made_branch = put->branch_missing;
    if (put->dataset_missing)
        put->is_public = s->publish;
    if (put->branch_missing && !s->dry_run) {
        announce_making(put);
        QK_TRY(qk__put_make(put, err));
    }
    QK_TRY(qk__put_compare(put, err));
    QK_TRY(list_files(put, o, err));
    if (s->dry_run)
        return QK_OK;
    announce(put, o->differing);
    note_missing_card(put);
    QK_TRY(qk__put_ask_modes(put, err));
    QK_TRY(qk__put_store(put, err));
    return qk__put_commit(put, err);
}

static qk_status put_capture(qk__put *put, qk_hub_put_outcome *o, qk_error *err)
{
    QK_TRY(qk__put_find_files(put->settings, &put->files, &put->title, err));
    QK_TRY(qk__put_settle_paths(put, err));
    qk_status status = put_all(put, o, err);
    if (status == QK_OK)
        status = fill_in(put, o, err);
    if (status == QK_OK)
        warn_of_others(put);
    bool goes_on = status == QK_ERR_IO || status == QK_ERR_CANCELLED;
    char why[sizeof err->message];
    snprintf(why, sizeof why, "%s", err->message);
    if (goes_on && put->fetch.came > 0)
        (void)qk__fail(err, status, "%.900s; what was sent stays, the same command goes on",
                       why);
    return qk__fetch_about(&put->fetch, status, err);
}

qk_status qk_hub_put(const qk_hub_put_settings *settings, qk_hub_put_outcome **outcome,
                     qk_error *err)
{
    QK_NEED(err, outcome);
    *outcome = NULL;
    QK_NEED(err, settings);
    qk_error why = {.status = QK_OK};
    qk_hub_put_outcome *made = calloc(1, sizeof *made);
    qk__put *put = calloc(1, sizeof *put);
    qk_status status = made && put ? QK_OK : qk__nomem(&why);
    if (status == QK_OK) {
        put->settings = settings;
        status = open_put(put, &why);
        if (status == QK_OK)
            status = put_capture(put, made, &why);
        close_put(put);
    }
    free(put);
    if (status != QK_OK) {
        qk_hub_put_outcome_free(&made);
        qk__set_error(err, status, "%s", why.message);
    }
    *outcome = made;
    return status;
}

const char *qk_hub_change_name(qk_hub_change change)
{
    static const char *const NAMES[] = {
        [QK_HUB_SAME] = "same", [QK_HUB_NEW] = "new",         [QK_HUB_CHANGED] = "changed",
        [QK_HUB_LEFT] = "left", [QK_HUB_REMOVED] = "removed", [QK_HUB_KEPT] = "kept"};
    return (unsigned)change <= QK_HUB_KEPT ? NAMES[change] : "unknown";
}

void qk_hub_put_outcome_free(qk_hub_put_outcome **outcome)
{
    qk_hub_put_outcome *o = *outcome;
    if (!o)
        return;
    for (size_t i = 0; i < o->num_files; i++)
        free(o->files[i].path);
    free(o->files);
    free(o->commit);
    free(o->address);
    free(o);
    *outcome = NULL;
}
