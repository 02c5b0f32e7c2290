/* SPDX-License-Identifier: Apache-2.0 */
/* The record of what was fetched: lines "+ REPOSITORY HASH" and "- REPOSITORY HASH", only ever added to, so
 * that neither a kill nor another thread spoils it. The last line of a file holds. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "fetch/fetch.h"

enum { MAX_RECORD = 256 << 20 };

/* Its folder in the cache, without the path. */
static const char *repository(const qk__fetch *f)
{
    return strrchr(f->folder, '/') + 1;
}

qk_status qk__record_add(const qk__fetch *f, char sign, const qk__repo_file *const *files,
                         size_t count, qk_error *err)
{
    const char *path = f->settings->record;
    qk__buffer text = {0};
    qk_status status = QK_OK;
    for (size_t i = 0; i < count && status == QK_OK; i++)
        status = qk__buffer_printf(&text, err, "%c %s %s\n", sign, repository(f),
                                   qk__repo_file_etag(files[i]));
    int fd = -1;
    if (status == QK_OK && count > 0) {
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, text.data, text.size) != (ssize_t)text.size ||
            (sign == '-' && qk__sync(fd) != 0))
            status = qk__fail(err, QK_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    qk__buffer_free(&text);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A line of this repository: its sign and hash; a broken one has none. */
static const char *read_line(const char *line, const char *own, size_t length)
{
    bool mine = (line[0] == '+' || line[0] == '-') && line[1] == ' ' &&
                strncmp(line + 2, own, length) == 0 && line[2 + length] == ' ';
    const char *hash = mine ? line + 3 + length : "";
    return qk__is_hash(hash, 40) || qk__is_hash(hash, 64) ? hash : NULL;
}

static qk_status set_name(qk__names *names, size_t *capacity, char sign, const char *hash,
                          qk_error *err)
{
    size_t at = 0;
    while (at < names->count && strcmp(names->items[at], hash) != 0)
        at++;
    if (sign == '-' && at < names->count) {
        free(names->items[at]);
        names->items[at] = names->items[--names->count];
        return QK_OK;
    }
    if (sign == '-' || at < names->count)
        return QK_OK;
    if (names->count == *capacity) {
        void *grown = qk__grow(names->items, capacity, sizeof *names->items);
        if (!grown)
            return qk__nomem(err);
        names->items = grown;
    }
    if (!(names->items[names->count] = qk__strdup(hash)))
        return qk__nomem(err);
    names->count++;
    return QK_OK;
}

qk_status qk__record_read(const qk__fetch *f, qk__names *names, qk_error *err)
{
    const char *path = f->settings->record, *own = repository(f);
    qk__buffer text = {0};
    size_t capacity = 0;
    qk_status status = QK_OK;
    *names = (qk__names){0};
    if (!path || !qk__is_file(path))
        return QK_OK;
    QK_TRY(qk__read_file(path, MAX_RECORD, &text, err));
    for (char *line = (char *)text.data, *end; status == QK_OK && line && *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end ? 1 : 0;
        if (end[-1] == '\n')
            end[-1] = 0;
        const char *hash = read_line(line, own, strlen(own));
        if (hash)
            status = set_name(names, &capacity, *line, hash, err);
    }
    if (names->count > 1)
        qsort(names->items, names->count, sizeof *names->items, compare_names);
    qk__buffer_free(&text);
    return status;
}
