/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of how many a file is, and whether the others are there. */
#include "paths/part_names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"

enum { MAX_DIGITS = 9 };

typedef struct part {
    const char *path;
    int stem;   /* bytes of the path before the number */
    int digits; /* of both numbers */
    long number, count;
    const char *ending; /* ".parquet" */
} part;

/* No part: its path is NULL. Both numbers have as many digits, so that the order of names is that of numbers,
 * and "verse-1-of-12" is the name of a text. */
static part read_part(const char *path)
{
    static const char DIGITS[] = "0123456789", OF[] = "-of-";
    const char *name = qk__file_name(path), *of = NULL;
    for (const char *at = name; (at = strstr(at, OF)); at++)
        of = at;
    if (!of)
        return (part){0};
    const char *count = of + sizeof OF - 1;
    size_t digits = strspn(count, DIGITS);
    if (digits == 0 || digits > MAX_DIGITS || (size_t)(of - name) < digits)
        return (part){0};
    const char *number = of - digits, *ending = count + digits;
    if (strspn(number, DIGITS) != digits || (number > name && !strchr("-._", number[-1])))
        return (part){0};
    if (*ending == '-')
        ending += 1 + strspn(ending + 1, "0123456789abcdef");
    part p = {
        .path = path, .stem = (int)(number - path), .digits = (int)digits, .ending = ending};
    p.number = strtol(number, NULL, 10);
    p.count = strtol(count, NULL, 10);
    return p.count > 0 && (*ending == '.' || *ending == 0) ? p : (part){0};
}

static qk_status fail_missing(const part *p, long number, qk_error *err)
{
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%.*s%0*ld-of-%0*ld%s: this part is not there, but %s is: fetch it again; "
                    "if nothing is missing, rename it",
                    p->stem, p->path, p->digits, number, p->digits, p->count, p->ending,
                    qk__file_name(p->path));
}

static qk_status fail_two(const part *p, const char *path, qk_error *err)
{
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s and %s are of two sets of parts: keep the files of one set", p->path,
                    qk__file_name(path));
}

/* The set begins with number `first`; nothing of it comes after `last`. */
static qk_status check_end(long first, const part *last, qk_error *err)
{
    long due = last->count - (first == 0);
    if (!last->path || last->number == due)
        return QK_OK;
    bool from_0 = first == 1 && last->number == due - 1; /* but the first is missing */
    return fail_missing(last, from_0 ? 0 : last->number + 1, err);
}

qk_status qk__parts_check(char *const *paths, size_t count, qk_error *err)
{
    part last = {0};
    long first = 0;
    for (size_t i = 0; i < count; i++) {
        part next = read_part(paths[i]);
        bool same = last.path && next.path && next.stem == last.stem &&
                    strncmp(next.path, last.path, (size_t)last.stem) == 0;
        if (same && (next.count != last.count || next.number <= last.number ||
                     next.number > next.count - (first == 0)))
            return fail_two(&last, next.path, err);
        if (!same) {
            QK_TRY(check_end(first, &last, err));
            first = next.number < 2 ? next.number : 1;
        }
        if (next.path && next.number > (same ? last.number + 1 : first))
            return fail_missing(&next, same ? last.number + 1 : first, err);
        last = next;
    }
    return check_end(first, &last, err);
}
