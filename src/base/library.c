/* SPDX-License-Identifier: Apache-2.0 */
/* Loading shared libraries. */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/system.h"

void *qk__library_load(const char *name, const char *version)
{
    char file[128];
    void *handle = NULL;
    for (int i = 0; !handle && qk__library_file(file, sizeof file, name, version, i); i++)
        handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return handle;
}

/* C has no cast from data to functions; POSIX has. */
bool qk__library_find(void *handle, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}
