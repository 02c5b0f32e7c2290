/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libcurl and libcrypto. */
#include "fetch/libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/system.h"

#define REMEDY                                                                                 \
    "install libcurl (Debian and Ubuntu: libcurl4), or fetch with hf download, which shares "  \
    "the cache"

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

typedef struct version {
    const char *name, *number;
} version;

/* The first of the versions that is there; {NULL} ends them. Neither library may be removed from a program in which
 * it has run, since they leave behind what runs at its end: nothing closes them. */
static qk_status load_any(const version *versions, void **library, qk_error *err)
{
    char why[512] = "", file[128];
    *library = NULL;
    for (const version *v = versions; v->name && !*library; v++) {
        for (int i = 0; !*library && qk__library_file(file, sizeof file, v->name, v->number, i);
             i++) {
            errno = 0;
            *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
            if (!*library && is_memory_short(why, sizeof why))
                return qk__nomem(err);
        }
    }
    if (*library)
        return QK_OK;
    qk__library_file(file, sizeof file, versions->name, versions->number, 0);
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "%s, which is needed for fetching, cannot be loaded (%s): " REMEDY, file,
                    why);
}

/* C has no cast from data to functions; POSIX has. */
static bool find_function(void *library, const char *name, void *function, size_t size)
{
    errno = 0;
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

/* OpenSSL 3 makes what it works with at its first use. Where memory runs out then, it goes on without, and ends the
 * program: so it is made now, and looked at. Version 1.1 has no such thing. */
static qk_status start_crypto(void *crypto, qk_error *err)
{
    void *(*context)(void);
    char why[8] = "";
    bool has =
        find_function(crypto, "OSSL_LIB_CTX_get0_global_default", &context, sizeof context);
    bool short_of = has ? !context() : is_memory_short(why, sizeof why);
    return short_of ? qk__nomem(err) : QK_OK;
}

qk_status qk__libraries_load(qk__libraries *libraries, qk_error *err)
{
    static const version CURL[] = {{"curl", "4"}, {NULL, NULL}};
    static const version CRYPTO[] = {{"crypto", "3"}, {"crypto", "1.1"}, {NULL, NULL}};
    void *curl, *crypto;
    QK_TRY(load_any(CURL, &curl, err));
    QK_TRY(load_any(CRYPTO, &crypto, err));
    QK_TRY(start_crypto(crypto, err));
    bool all = true;
#define CURL_FUNCTION(name)                                                                    \
    all = all && find_function(curl, "curl_" #name, &libraries->name, sizeof libraries->name);
#define EVP_FUNCTION(name)                                                                     \
    all = all && find_function(crypto, "EVP_" #name, &libraries->name, sizeof libraries->name);
    QK__LIBRARY_FUNCTIONS(CURL_FUNCTION, EVP_FUNCTION)
#undef CURL_FUNCTION
#undef EVP_FUNCTION
    char why[8] = ""; /* is not shown */
    return all ? QK_OK
           : is_memory_short(why, sizeof why)
               ? qk__nomem(err)
               : qk__fail(err, QK_ERR_UNSUPPORTED, "libcurl or libcrypto is too old: " REMEDY);
}
