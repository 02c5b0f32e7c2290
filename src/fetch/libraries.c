/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libcurl and libcrypto. */
#define _DEFAULT_SOURCE /* RTLD_NODELETE */
#include "fetch/libraries.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"

#define REMEDY                                                                                 \
    "install libcurl (Debian and Ubuntu: libcurl4), or fetch with hf download, which shares "  \
    "the cache"

/* The first of the names that is there; NULL: none. Neither library may be removed from a program in
 * which it has run: they leave behind what runs at its end. */
static void *load_any(const char *const *names)
{
    void *library = NULL;
    for (; *names && !library; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library;
}

/* C has no cast from data to functions; POSIX has. */
static bool find(void *library, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

qk_status qk__libraries_load(qk__libraries *libraries, qk_error *err)
{
    static const char *const CURL_NAMES[] = {"libcurl.so.4", NULL};
    static const char *const CRYPTO_NAMES[] = {"libcrypto.so.3", "libcrypto.so.1.1", NULL};
    void *curl = load_any(CURL_NAMES), *crypto = load_any(CRYPTO_NAMES);
    const char *lacking = !curl ? "libcurl.so.4" : !crypto ? "libcrypto.so.3" : NULL;
    if (lacking)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s, which is needed for fetching, cannot be loaded: " REMEDY, lacking);
    bool all = true;
#define CURL_FUNCTION(name)                                                                    \
    all &= find(curl, "curl_" #name, &libraries->name, sizeof libraries->name);
#define EVP_FUNCTION(name)                                                                     \
    all &= find(crypto, "EVP_" #name, &libraries->name, sizeof libraries->name);
    QK__LIBRARY_FUNCTIONS(CURL_FUNCTION, EVP_FUNCTION)
#undef CURL_FUNCTION
#undef EVP_FUNCTION
    return all ? QK_OK
               : qk__fail(err, QK_ERR_UNSUPPORTED, "libcurl or libcrypto is too old: " REMEDY);
}
