/* SPDX-License-Identifier: Apache-2.0 */
/* Makes file names that are plain, short and all different. */
#include "base/slug.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

/* Room for "-2" and the like remains behind the name. */
enum { MAX_SLUG = 48, MAX_NAME = 40 };

static char plain(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    return kept ? c : '-';
}

/* Runs of other characters become one '-', none at the ends; no '.' in front, where it would
 * hide the file. */
static void simplify(const char *name, char slug[MAX_SLUG + 1])
{
    size_t length = 0;
    for (; *name && length < MAX_NAME; name++) {
        char c = plain(*name);
        bool dull = c == '-' || c == '.';
        if (dull && (length == 0 || (c == '-' && slug[length - 1] == '-')))
            continue;
        slug[length++] = c;
    }
    while (length > 0 && (slug[length - 1] == '-' || slug[length - 1] == '.'))
        length--;
    slug[length] = 0;
    if (length == 0)
        memcpy(slug, "model", sizeof "model");
}

static bool is_taken(char *const *slugs, size_t count, const char *slug)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(slugs[i], slug) == 0)
            return true;
    return false;
}

char **qk__slugs(const char *const *names, size_t count)
{
    char **slugs = qk__calloc(count, sizeof *slugs);
    for (size_t i = 0; slugs && i < count; i++) {
        char base[MAX_SLUG + 1], slug[2 * MAX_SLUG];
        simplify(names[i], base);
        snprintf(slug, sizeof slug, "%s", base);
        for (size_t n = 2; is_taken(slugs, i, slug); n++)
            snprintf(slug, sizeof slug, "%s-%zu", base, n);
        slugs[i] = qk__strdup(slug);
        if (!slugs[i]) {
            qk__strings_free(slugs, i);
            return NULL;
        }
    }
    return slugs;
}
