/* SPDX-License-Identifier: Apache-2.0 */
/* Having what a run needs in the cache. The list of a commit's files that huggingface_hub leaves there tells what is
 * missing. Where there is no list yet, what is surely wanted is fetched by its usual names, and the list comes along;
 * what is still missing then, a second call of hf fetches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "hub/hub.h"

typedef struct fetch {
    const qk_hub_wanted *wanted;
    bool offline;
    qk__repo repo;
    qk__repo_files files; /* none: it is not known what there is */
    size_t num_wanted, num_missing;
    const char *missing; /* the first one */
} fetch;

static bool is_missing(const fetch *f, const qk__repo_file *file)
{
    struct stat st;
    qk__path path;
    return file->wanted &&
           (qk__path_set(&path, NULL, "%s/snapshots/%s/%s", f->repo.folder.text, f->repo.commit,
                         file->path) != QK_OK ||
            stat(path.text, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != file->size);
}

static qk_status look(fetch *f, qk_error *err)
{
    qk__files_free(&f->files);
    f->num_wanted = f->num_missing = 0;
    QK_TRY(qk__repo_find_commit(&f->repo, err));
    QK_TRY(qk__files_read(&f->files, &f->repo, err));
    if (f->files.count > 0)
        QK_TRY(qk__files_choose(&f->files, f->wanted, err));
    for (size_t i = 0; i < f->files.count; i++) {
        f->num_wanted += f->files.items[i].wanted;
        if (is_missing(f, &f->files.items[i]) && f->num_missing++ == 0)
            f->missing = f->files.items[i].path;
    }
    return QK_OK;
}

/* ---- fetching ---------------------------------------------------------------------------- */

/* Of a part of a capture the manifest comes first, as the list tells which key heads are needed. */
static size_t add_usual(const qk_hub_wanted *w, char **patterns)
{
    size_t count = 0;
    bool part = w->layers.count > 0 || w->heads.count > 0;
    for (const char *const *name = qk__usual_names(w->part); *name && !(part && count); name++)
        patterns[count++] =
            w->prefix ? qk__format("%s/%s", w->prefix, *name) : qk__strdup(*name);
    return count;
}

/* In a pattern '?' stands for a bracket of a name. */
static size_t add_missing(const fetch *f, char **patterns)
{
    size_t count = 0;
    for (size_t i = 0; i < f->files.count; i++)
        if (is_missing(f, &f->files.items[i])) {
            char *at = patterns[count++] = qk__strdup(f->files.items[i].path);
            for (; at && (at = strpbrk(at, "[]")) != NULL; at++)
                *at = '?';
        }
    return count;
}

static qk_status download(const fetch *f, qk_error *err)
{
    enum { MOST_USUAL = 16 };
    bool known = f->files.count > 0, lost = false;
    char **patterns = qk__calloc(f->files.count + MOST_USUAL, sizeof *patterns);
    if (!patterns)
        return qk__nomem(err);
    size_t count = known ? add_missing(f, patterns) : add_usual(f->wanted, patterns);
    for (size_t i = 0; i < count; i++)
        lost |= !patterns[i];
    if (known)
        qk__tell_notice(&f->wanted->context, QK_NOTICE_REMARK,
                        "%s at %s: %zu of %zu files are to be fetched by hf download",
                        f->repo.name, f->repo.revision, count, f->num_wanted);
    qk_status status = lost ? qk__nomem(err)
                       : count == 0
                           ? QK_OK /* they have come meanwhile */
                           : qk__hf_download(&f->repo, f->wanted, patterns, count, err);
    qk__strings_free(patterns, count);
    return status;
}

/* Of a snapshot without a list nobody knows whether it is whole. It is taken where hf cannot bring the list. */
static qk_status learn(fetch *f, qk_error *err)
{
    char *path = NULL;
    qk_error why = {QK_OK, "nothing may be asked (--offline or HF_HUB_OFFLINE)"};
    if (!f->offline && download(f, &why) == QK_OK) {
        QK_TRY(look(f, err));
        if (f->files.count > 0)
            return QK_OK;
        snprintf(why.message, sizeof why.message,
                 "hf keeps no list of files: pip install -U huggingface_hub");
    }
    bool fatal = why.status == QK_ERR_NOMEM || why.status == QK_ERR_CANCELLED;
    qk_status status = fatal ? why.status : qk__repo_place(&f->repo, f->offline, &path, err);
    free(path);
    if (status != QK_OK)
        return why.status == QK_OK ? status : qk__fail(err, why.status, "%s", why.message);
    qk__tell_notice(&f->wanted->context, QK_NOTICE_WARNING,
                    "%s: taken as it is in the cache; whether it is whole is not known: %s",
                    f->repo.name, why.message);
    return QK_OK;
}

/* ---- all together ------------------------------------------------------------------------ */

static qk_status fail_missing(const fetch *f, qk_error *err)
{
    const qk__repo *repo = &f->repo;
    if (f->offline)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%zu of %zu files of revision %s are not in the cache, or not whole, "
                        "%s for one, and nothing may be fetched (--offline or HF_HUB_OFFLINE): "
                        "run it without that%s",
                        f->num_missing, f->num_wanted, repo->revision, f->missing,
                        f->wanted->part == QK_HUB_CAPTURE
                            ? ", or choose what is there with --layers and --heads"
                            : "");
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s is not whole, and hf download did not mend it: hf download %s %s "
                    "--repo-type %s --revision %s --force-download",
                    f->missing, repo->name, f->missing, repo->kind, repo->commit);
}

static qk_status bring(fetch *f, qk_hub_place *place, qk_error *err)
{
    QK_TRY(look(f, err));
    if (f->files.count == 0)
        QK_TRY(learn(f, err));
    if (f->num_missing > 0 && !f->offline) {
        QK_TRY(download(f, err));
        QK_TRY(look(f, err));
    }
    if (f->num_missing > 0)
        return fail_missing(f, err);
    if (f->wanted->part == QK_HUB_CAPTURE)
        qk__files_shape(&f->files, f->wanted->prefix, place);
    return qk__repo_place(&f->repo, f->offline, &place->path, err);
}

qk_status qk_hub_get(const qk_hub_wanted *wanted, qk_hub_place *place, qk_error *err)
{
    QK_NEED(err, wanted);
    QK_NEED(err, place);
    *place = (qk_hub_place){0};
    const char *name = wanted->name ? wanted->name : "";
    fetch f = {.wanted = wanted, .offline = qk__hub_is_offline(&wanted->context)};
    QK_TRY(qk__repo_find(&f.repo, wanted, err));
    bool fetches = !*f.repo.path.text && !wanted->as_it_is && qk_hub_is_remote(name);
    qk_status status =
        fetches ? bring(&f, place, err)
                : qk__repo_place(&f.repo, f.offline && !wanted->as_it_is, &place->path, err);
    qk__files_free(&f.files);
    return qk__context(err, status, "%s", name);
}
