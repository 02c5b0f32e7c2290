/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text: joining them, and their endings. */
#include "base/path.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/error.h"

qk_status qk__path_set(qk__path *path, qk_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(path->text, sizeof path->text, fmt, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof path->text)
        return QK_OK;
    return qk__fail(err, QK_ERR_IO, "%.200s...: %s", path->text, strerror(ENAMETOOLONG));
}

qk_status qk__path_in(qk__path *path, const char *dir, const char *name, qk_error *err)
{
    size_t length = strlen(dir);
    return qk__path_set(path, err, "%s%s%s", dir,
                        length > 0 && dir[length - 1] != '/' ? "/" : "", name);
}

char *qk__path_join(const char *dir, const char *name)
{
    size_t length = strlen(dir);
    return qk__format("%s%s%s", dir, length > 0 && dir[length - 1] != '/' ? "/" : "", name);
}

const char *qk__file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Where the ending would begin; NULL: the name is too short. */
static const char *end_of(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length > tail ? name + length - tail : NULL;
}

bool qk__ends_with(const char *name, const char *end)
{
    const char *tail = end_of(name, end);
    return tail && strcmp(tail, end) == 0;
}

bool qk__ends_with_any_case(const char *name, const char *end)
{
    const char *tail = end_of(name, end);
    return tail && strcasecmp(tail, end) == 0;
}

qk_status qk__parent_folder(const char *path, char **folder, qk_error *err)
{
    const char *slash = strrchr(path, '/');
    if (slash)
        *folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    else
        *folder = qk__strdup(".");
    return *folder ? QK_OK : qk__nomem(err);
}
