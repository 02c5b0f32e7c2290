/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* RTLD_NODELETE */
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* errno was 0 before the loader was called: it has words for its failures, and no number. */
bool qk__library_is_memory_short(char *why, size_t size)
{
    bool is = errno == ENOMEM;
    const char *said = dlerror();
    if (said && !*why)
        snprintf(why, size, "%s", said);
    return is || !said || strstr(said, "annot allocate memory") ||
           strstr(said, "out of memory");
}

qk_status qk__library_load(const char *const *names, const char *needed_for, const char *remedy,
                           void **library, qk_error *err)
{
    char why[512] = "";
    *library = NULL;
    for (const char *const *name = names; *name && !*library; name++) {
        errno = 0;
        *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!*library && qk__library_is_memory_short(why, sizeof why))
            return qk__nomem(err);
    }
    return *library ? QK_OK
                    : qk__fail(err, QK_ERR_UNSUPPORTED,
                               "%s, which is needed for %s, cannot be loaded (%s): %s", *names,
                               needed_for, why, remedy);
}

/* C has no cast from data to functions; POSIX has. */
bool qk__library_find(void *library, const char *name, void *function, size_t size)
{
    errno = 0;
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}
