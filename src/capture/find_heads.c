/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a capture: finding its head folders below a root folder. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "capture/discover.h"
#include "paths/path_kind.h"

/* A capture lies at most this deep. A root with more folders than this, heads not counted, was given by mistake, such
 * as a home folder. */
enum { MAX_DEPTH = 8, MAX_FOLDERS = 10000, MAX_LISTED = 8 };

static qk_status add_prefix(qk__search *s, const char *dir, const char *rel, qk_error *err)
{
    char **items = realloc(s->prefixes.items, (s->prefixes.count + 1) * sizeof *items);
    if (!items)
        return qk__nomem(err);
    s->prefixes.items = items;
    if (!(items[s->prefixes.count] = qk__strdup(rel)))
        return qk__nomem(err);
    if (s->prefixes.count++ > 0)
        return QK_OK;
    s->capture->path = qk__strdup(dir);
    s->capture->prefix = qk__strdup(rel);
    return s->capture->path && s->capture->prefix ? QK_OK : qk__nomem(err);
}

/* A folder of one head, or a packed one with several (*packed). */
static bool is_folder_of_heads(const char *name, qk_head_id *id, bool *packed)
{
    *packed = qk__layer_parse(name, id);
    return *packed || qk_head_parse(name, id);
}

/* What is there under the name of a folder of heads. A plain file is no such folder. A folder that cannot be listed,
 * or a link to none, is one, and *failure says so: a head must fail, not shrink, and not affect the others. */
static qk_status list_files(const char *path, qk__names *files, qk_error *failure,
                            qk_error *err)
{
    *files = (qk__names){0};
    *failure = (qk_error){0};
    struct stat st;
    if ((lstat(path, &st) != 0 && errno == ENOENT) || qk__is_file(path))
        return QK_OK;
    qk_status status = qk__search_files(path, 0, files, failure);
    failure->status = status;
    return status == QK_ERR_NOMEM ? qk__nomem(err) : QK_OK;
}

/* Adds the contents of a folder of heads, if there are any (*any); without keep only looks. */
static qk_status add_folder(qk__search *s, const char *path, qk_head_id id, bool packed,
                            bool keep, bool *any, qk_error *err)
{
    qk__names files;
    qk_error failure;
    QK_TRY(list_files(path, &files, &failure, err));
    bool failed = failure.status != QK_OK;
    *any = *any || failed || files.count > 0;
    if (keep && failed)
        return packed ? qk__search_note_packed(s, id, &failure, err)
                      : qk__search_add_failed(s, id, path, &failure, err);
    if (keep && files.count > 0)
        return packed ? qk__search_add_packed(s, id, &files, err)
                      : qk__search_add(s, id, &files, NULL, err);
    qk__names_free(&files);
    return QK_OK;
}

/* Collects the heads directly in dir. */
static qk_status find_heads(qk__search *s, const char *dir, const char *rel,
                            const qk__names *names, qk_error *err)
{
    bool keep = s->prefixes.count == 0;
    bool any = false;
    for (size_t i = 0; i < names->count && !(any && !keep); i++) {
        qk_head_id id;
        bool packed;
        if (!is_folder_of_heads(names->items[i], &id, &packed))
            continue;
        char *path = qk__path_join(dir, names->items[i]);
        qk_status status =
            path ? add_folder(s, path, id, packed, keep, &any, err) : qk__nomem(err);
        free(path);
        QK_TRY(status);
    }
    if (!any)
        QK_TRY(qk__has_moments(dir, &any, err));
    return any ? add_prefix(s, dir, rel, err) : QK_OK;
}

/* Notes that dir is being walked; *again if it was before, under any name. */
static qk_status mark_seen(qk__search *s, const char *dir, bool *again, qk_error *err)
{
    struct stat st;
    *again = false;
    if (stat(dir, &st) != 0)
        return QK_OK; /* listing it gives the better message */
    for (size_t i = 0; i < s->num_seen && !*again; i++)
        *again = s->seen[i].device == st.st_dev && s->seen[i].inode == st.st_ino;
    if (*again)
        return QK_OK;
    if (s->num_seen == MAX_FOLDERS)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: more than %d folders searched; give the folder of the capture",
                        dir, MAX_FOLDERS);
    if (!s->seen && !(s->seen = qk__calloc(MAX_FOLDERS, sizeof *s->seen)))
        return qk__nomem(err);
    s->seen[s->num_seen++] = (qk__folder_id){st.st_dev, st.st_ino};
    return QK_OK;
}

static qk_status walk(qk__search *s, const char *dir, const char *rel, int depth,
                      qk_error *err);

static qk_status walk_child(qk__search *s, const char *dir, const char *rel, const char *name,
                            int depth, qk_error *err)
{
    char *path = qk__path_join(dir, name);
    char *child = qk__path_join(rel, name);
    qk_status status = path && child ? QK_OK : qk__nomem(err);
    if (status == QK_OK && qk__is_dir(path))
        status = walk(s, path, child, depth + 1, err);
    free(path);
    free(child);
    return status;
}

static qk_status walk(qk__search *s, const char *dir, const char *rel, int depth, qk_error *err)
{
    bool again;
    QK_TRY(mark_seen(s, dir, &again, err));
    if (again)
        return QK_OK;
    qk__names names;
    qk_error why;
    qk_status status = qk__list_dir(dir, &names, &why);
    if (status != QK_OK && status != QK_ERR_NOMEM && depth > 0) {
        if (s->unreadable.status == QK_OK) { /* "lost+found" beside a capture does not matter */
            s->unreadable = why;
            s->unreadable.status = status;
        }
        return QK_OK;
    }
    if (status != QK_OK)
        return qk__fail(err, status, "%s", why.message);
    status = find_heads(s, dir, rel, &names, err);
    bool descend = depth < MAX_DEPTH && !(s->first_only && depth == 0 && s->prefixes.count > 0);
    for (size_t i = 0; status == QK_OK && descend && i < names.count; i++) {
        qk_head_id id;
        bool packed;
        if (names.items[i][0] != '.' && !is_folder_of_heads(names.items[i], &id, &packed))
            status = walk_child(s, dir, rel, names.items[i], depth, err);
    }
    qk__names_free(&names);
    return status;
}

static qk_status fail_several(const qk__search *s, const char *root, qk_error *err)
{
    char list[700] = "";
    const char *first = s->prefixes.items[*s->prefixes.items[0] ? 0 : 1];
    size_t used = 0;
    size_t shown = 0;
    for (; shown < s->prefixes.count && shown < MAX_LISTED; shown++) {
        const char *prefix = s->prefixes.items[shown];
        int put = snprintf(list + used, sizeof list - used, "%s%s", shown ? ", " : "",
                           *prefix ? prefix : ".");
        if (put < 0 || (size_t)put >= sizeof list - used)
            break;
        used += (size_t)put;
    }
    list[used] = 0;
    size_t more = s->prefixes.count - shown;
    char rest[40] = "";
    if (more > 0)
        snprintf(rest, sizeof rest, " and %zu more", more);
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s holds several captures: %s%s; give the folder of one, such as %s%s%s",
                    root, list, rest, root, *first ? "/" : "", first);
}

/* The root itself may be one head folder, or a packed one: the capture is then its heads, in the parent folder. *found
 * says so. */
static qk_status try_single_head(qk__search *s, const char *root, bool *found, qk_error *err)
{
    *found = false;
    char *path = realpath(root, NULL);
    if (!path)
        return QK_OK;
    qk_head_id id;
    bool packed;
    qk__names files = {0};
    qk_status status = QK_OK;
    char *base = strrchr(path, '/') + 1;
    if (is_folder_of_heads(base, &id, &packed))
        status = qk__search_files(path, 0, &files, err);
    if (status == QK_OK && files.count > 0) {
        *found = s->single = true;
        status = packed ? qk__search_add_packed(s, id, &files, err)
                        : qk__search_add(s, id, &files, NULL, err);
        if (base - path > 1)
            base--; /* the slash goes, unless it is the file system's root */
        *base = 0;
        if (status == QK_OK)
            status = add_prefix(s, path, "", err);
    } else {
        qk__names_free(&files);
    }
    free(path);
    return status;
}

static int compare_entries(const void *a, const void *b)
{
    return qk__head_compare(((const qk__capture_entry *)a)->head.id,
                            ((const qk__capture_entry *)b)->head.id);
}

/* Sorts the heads; "l0h0q" beside "l00h00q" would be the same head twice. */
static qk_status sort_heads(qk_capture *capture, qk_error *err)
{
    qk__capture_entry *entries = capture->entries;
    if (capture->num_entries > 1)
        qsort(entries, capture->num_entries, sizeof *entries, compare_entries);
    for (size_t i = 1; i < capture->num_entries; i++)
        if (compare_entries(&entries[i - 1], &entries[i]) == 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "two places hold the same head: %s and %s",
                            entries[i - 1].head.files[0], entries[i].head.files[0]);
    for (size_t i = 0; i < capture->num_entries; i++)
        entries[i].head.index = i;
    return QK_OK;
}

/* ---- heads that capture.json lists ------------------------------------------------------ */

static int compare_listed(const void *a, const void *b)
{
    return qk__head_compare(((const qk__listed_head *)a)->id, ((const qk__listed_head *)b)->id);
}

static void set_listed(qk_head *head, const qk__listed_head *listed)
{
    head->rows = listed->rows;
    head->summed = listed->summed;
}

/* Adds a missing head, with the one file that it should have: reading it reports the failure. */
static qk_status add_missing(qk__search *s, const qk__listed_head *listed, qk_error *err)
{
    char own[QK_HEAD_NAME_SIZE], name[sizeof own + sizeof "/data.parquet"];
    bool added;
    QK_TRY(qk__search_add_unfound(s, listed, &added, err));
    if (added)
        return QK_OK;
    qk_head_name(listed->id, own);
    snprintf(name, sizeof name, "%s/data.parquet", own);
    qk__names files = {.items = qk__calloc(1, sizeof *files.items)};
    if (!files.items)
        return qk__nomem(err);
    if (!(files.items[0] = qk__path_join(s->capture->path, name))) {
        qk__names_free(&files);
        return qk__nomem(err);
    }
    files.count = 1;
    QK_TRY(qk__search_add(s, listed->id, &files, NULL, err));
    qk_head *head = &s->capture->entries[s->capture->num_entries - 1].head;
    head->missing = true;
    set_listed(head, listed);
    return QK_OK;
}

/* A head that capture.json does not list is of an earlier capture in this folder. */
static qk_status check_strangers(const qk_capture *capture, qk_error *err)
{
    char first[QK_HEAD_NAME_SIZE] = "", last[QK_HEAD_NAME_SIZE] = "";
    size_t count = 0;
    for (size_t i = 0; i < capture->num_entries; i++) {
        const qk__listed_head head = {.id = capture->entries[i].head.id};
        if (!bsearch(&head, capture->listed, capture->num_listed, sizeof head, compare_listed))
            qk_head_name(head.id, count++ == 0 ? first : last);
    }
    return count == 0 ? QK_OK
                      : qk__fail(err, QK_ERR_INCONSISTENT,
                                 "%s: capture.json does not list %zu of the %zu heads that lie "
                                 "here, %s%s%s: move them elsewhere, or capture again",
                                 capture->path, count, capture->num_entries, first,
                                 count > 1 ? " to " : "", count > 1 ? last : "");
}

static qk_status compare_with_list(qk__search *s, qk_error *err)
{
    qk_capture *capture = s->capture;
    if (capture->num_listed == 0)
        return qk__search_check_packed(s, err);
    qsort(capture->listed, capture->num_listed, sizeof *capture->listed, compare_listed);
    QK_TRY(check_strangers(capture, err));
    size_t present = capture->num_entries;
    for (size_t i = 0; i < capture->num_listed; i++) {
        const qk__listed_head *listed = &capture->listed[i];
        const qk__capture_entry wanted = {.head.id = listed->id};
        qk__capture_entry *found = NULL;
        if (present > 0) /* without entries there is no array to look in */
            found = bsearch(&wanted, capture->entries, present, sizeof wanted, compare_entries);
        if (found)
            set_listed(&found->head, listed);
        else if (!s->single && (i == 0 || compare_listed(listed - 1, listed) != 0))
            QK_TRY(add_missing(s, listed, err));
    }
    QK_TRY(qk__search_check_packed(s, err));
    return sort_heads(capture, err);
}

static qk_status find_under(qk__search *s, const char *root, const char *start, const char *rel,
                            qk_error *err)
{
    QK_TRY(walk(s, start, rel, 0, err));
    bool found = s->prefixes.count > 0;
    if (!found)
        QK_TRY(try_single_head(s, start, &found, err));
    if (!found && s->unreadable.status != QK_OK)
        return qk__fail(err, s->unreadable.status, "%s", s->unreadable.message);
    if (!found) {
        qk__set_error(
            err, QK_ERR_NOT_FOUND,
            "%s: no head folders with Parquet files (such as l00h00q/data.parquet, or packed "
            "l00q/data.parquet), and no moments/l00.safetensors%s",
            start,
            qk__is_file_in(start, QK_MANIFEST_NAME)
                ? ", though there is a capture.json: fetch what it lists, "
                  "or capture again"
                : "");
        return qk__path_tell(start, QK__PATH_CAPTURE, QK_ERR_NOT_FOUND, err);
    }
    if (s->prefixes.count > 1)
        return fail_several(s, root, err);
    return sort_heads(s->capture, err);
}

/* "./a//" -> "a", "." -> "": the prefix as it is shown. NULL when out of memory. */
static char *tidy_prefix(const char *prefix)
{
    while (prefix[0] == '/' || (prefix[0] == '.' && (prefix[1] == '/' || prefix[1] == 0)))
        prefix++;
    char *copy = qk__strdup(prefix);
    for (size_t n = copy ? strlen(copy) : 0; n > 0 && copy[n - 1] == '/'; n--)
        copy[n - 1] = 0;
    return copy;
}

static qk_status open_capture(qk_capture *capture, const char *root, const char *prefix,
                              qk_error *err)
{
    qk__search s = {.capture = capture, .first_only = prefix != NULL};
    char *rel = tidy_prefix(prefix ? prefix : "");
    char *start = rel && *rel ? qk__path_join(root, rel) : qk__strdup(root);
    qk_status status = rel && start ? QK_OK : qk__nomem(err);
    if (status == QK_OK && !qk__is_dir(root))
        status = qk__is_file(root)
                     ? qk__fail(err, QK_ERR_NOT_FOUND, "%s: a file, not a capture folder", root)
                     : qk__fail(err, QK_ERR_NOT_FOUND, "%s: no such folder", root);
    else if (status == QK_OK && !qk__is_dir(start))
        status = qk__fail(err, QK_ERR_NOT_FOUND, "%s: no folder %s in it", root, rel);
    if (status == QK_OK)
        status = find_under(&s, root, start, rel, err);
    if (status == QK_OK)
        status = qk__capture_read_manifest(capture, root, err);
    if (status == QK_OK)
        status = compare_with_list(&s, err);
    if (status == QK_OK && capture->num_entries == 0 && s.num_packed > 0)
        status = qk__fail(err, QK_ERR_NOT_FOUND, "%s: there are no rows in its packed files",
                          capture->path);
    if (status == QK_OK)
        status = qk__capture_set_moments(capture, err);
    qk__names_free(&s.prefixes);
    free(s.packed);
    free(s.seen);
    free(rel);
    free(start);
    return status;
}

qk_status qk_capture_open(qk_capture **capture, const char *root, const char *prefix,
                          qk_error *err)
{
    QK_NEED(err, capture);
    *capture = NULL;
    QK_NEED(err, root);
    qk_capture *opened = calloc(1, sizeof *opened);
    if (!opened)
        return qk__nomem(err);
    qk_status status = open_capture(opened, root, prefix, err);
    if (status != QK_OK)
        qk_capture_close(&opened);
    *capture = opened;
    return status;
}

void qk_capture_close(qk_capture **capture)
{
    assert(capture);
    qk_capture *c = *capture;
    if (!c)
        return;
    for (size_t i = 0; i < c->num_entries; i++) {
        qk__names_free(&c->entries[i].files);
        free(c->entries[i].moments);
        free(c->entries[i].parts);
        free(c->entries[i].failure);
    }
    free(c->entries);
    free(c->path);
    free(c->prefix);
    qk__capture_free_manifest(c);
    free(c);
    *capture = NULL;
}

/* Key heads are wanted by query heads, whichever these are. */
static bool is_among(const qk_index_list *layers, const qk_head_set *heads, qk_head_id id)
{
    if (layers && layers->count > 0 && !qk_index_list_has(layers, id.layer))
        return false;
    return !heads || heads->count == 0 ||
           (id.kind == QK_QUERY && qk_head_set_has(heads, id.layer, id.head));
}

size_t qk__capture_missing(const qk_capture *capture, const qk_index_list *layers,
                           const qk_head_set *heads, char *text, size_t size)
{
    size_t missing = 0;
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < capture->num_entries; i++) {
        char name[QK_HEAD_NAME_SIZE];
        if (!capture->entries[i].head.missing ||
            !is_among(layers, heads, capture->entries[i].head.id))
            continue;
        qk_head_name(capture->entries[i].head.id, name);
        if (missing++ < MAX_LISTED && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (missing > MAX_LISTED && used < size)
        snprintf(text + used, size - used, " and %zu more", missing - MAX_LISTED);
    return missing;
}

const char *qk_capture_path(const qk_capture *capture)
{
    assert(capture);
    return capture->path;
}

const char *qk_capture_prefix(const qk_capture *capture)
{
    assert(capture);
    return capture->prefix;
}

size_t qk_capture_num_heads(const qk_capture *capture)
{
    assert(capture);
    return capture->num_entries;
}

const qk_head *qk_capture_head(const qk_capture *capture, size_t i)
{
    assert(capture && i < capture->num_entries);
    return &capture->entries[i].head;
}

const qk_head *qk_capture_find(const qk_capture *capture, qk_head_id id)
{
    assert(capture);
    const qk__capture_entry key = {.head.id = id};
    const qk__capture_entry *found =
        bsearch(&key, capture->entries, capture->num_entries, sizeof key, compare_entries);
    return found ? &found->head : NULL;
}

const qk_capture_info *qk_capture_get_info(const qk_capture *capture)
{
    assert(capture);
    return &capture->info;
}
