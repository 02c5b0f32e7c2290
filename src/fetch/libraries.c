/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libcurl and libcrypto. */
#include "fetch/libraries.h"

#include <stdbool.h>

#include "base/error.h"
#include "base/library.h"

#define REMEDY                                                                                 \
    "install libcurl (Debian and Ubuntu: libcurl4), or fetch with hf download, which shares "  \
    "the cache"

/* OpenSSL 3 makes what it works with at its first use. Where memory runs out then, it goes on without, and ends the
 * program: so it is made now, and looked at. Version 1.1 has no such thing. */
static qk_status start_crypto(void *crypto, qk_error *err)
{
    void *(*context)(void);
    char why[8] = "";
    bool has =
        qk__library_find(crypto, "OSSL_LIB_CTX_get0_global_default", &context, sizeof context);
    bool short_of = has ? !context() : qk__library_is_memory_short(why, sizeof why);
    return short_of ? qk__nomem(err) : QK_OK;
}

qk_status qk__libraries_load(qk__libraries *libraries, qk_error *err)
{
    static const char *const CURL_NAMES[] = {"libcurl.so.4", NULL};
    static const char *const CRYPTO_NAMES[] = {"libcrypto.so.3", "libcrypto.so.1.1", NULL};
    void *curl, *crypto;
    QK_TRY(qk__library_load(CURL_NAMES, "fetching", REMEDY, &curl, err));
    QK_TRY(qk__library_load(CRYPTO_NAMES, "fetching", REMEDY, &crypto, err));
    QK_TRY(start_crypto(crypto, err));
    bool all = true;
#define CURL_FUNCTION(name)                                                                    \
    all = all &&                                                                               \
          qk__library_find(curl, "curl_" #name, &libraries->name, sizeof libraries->name);
#define EVP_FUNCTION(name)                                                                     \
    all = all &&                                                                               \
          qk__library_find(crypto, "EVP_" #name, &libraries->name, sizeof libraries->name);
    QK__LIBRARY_FUNCTIONS(CURL_FUNCTION, EVP_FUNCTION)
#undef CURL_FUNCTION
#undef EVP_FUNCTION
    char why[8] = ""; /* is not shown */
    return all ? QK_OK
           : qk__library_is_memory_short(why, sizeof why)
               ? qk__nomem(err)
               : qk__fail(err, QK_ERR_UNSUPPORTED, "libcurl or libcrypto is too old: " REMEDY);
}
