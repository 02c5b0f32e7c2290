/* SPDX-License-Identifier: Apache-2.0 */
/* Loading shared libraries. */
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/system.h"

/* Of a failure of the loader, before which errno was 0: it has words for it, and no number. *why: the first. */
static bool is_memory_short(char *why, size_t size)
{
    bool is = errno == ENOMEM;
    const char *said = dlerror();
    if (said && !*why)
        snprintf(why, size, "%s", said);
    return is || !said || strstr(said, "annot allocate memory") ||
           strstr(said, "out of memory");
}

qk_status qk__library_load(const qk__library *library, void **handle, qk_error *err)
{
    char why[512] = "", file[128];
    *handle = NULL;
    for (const char *const *version = library->versions; *version && !*handle; version++)
        for (int i = 0;
             !*handle && qk__library_file(file, sizeof file, library->name, *version, i); i++) {
            errno = 0;
            *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
            if (!*handle && is_memory_short(why, sizeof why))
                return qk__nomem(err);
        }
    if (*handle)
        return QK_OK;
    qk__library_file(file, sizeof file, library->name, *library->versions, 0);
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "%s, which is needed for %s, cannot be loaded (%s): %s", file,
                    library->purpose, why, library->remedy);
}

/* C has no cast from data to functions; POSIX has. */
bool qk__library_find(void *handle, const char *name, void *function, size_t size)
{
    errno = 0;
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}
