/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libcurl and libcrypto. */
#include "fetch/libraries.h"

#include <stdbool.h>

#include "base/error.h"
#include "base/library.h"

#define REMEDY                                                                                 \
    "install libcurl (Debian and Ubuntu: libcurl4), or fetch with hf download, which shares "  \
    "the cache"

/* Neither may be removed from a program in which it has run: they leave behind what runs at its end. */
static const qk__library CURL_LIBRARY = {"curl", {"4"}, "fetching", REMEDY},
                         CRYPTO_LIBRARY = {"crypto", {"3", "1.1"}, "fetching", REMEDY};

/* OpenSSL 3 makes what it works with at its first use. Where memory runs out then, it goes on without, and ends the
 * program: so it is made now, and looked at. Version 1.1 has no such thing. */
static qk_status start_crypto(void *crypto, qk_error *err)
{
    void *(*context)(void);
    bool has =
        qk__library_find(crypto, "OSSL_LIB_CTX_get0_global_default", &context, sizeof context);
    bool short_of = has ? !context() : qk__library_no_memory();
    return short_of ? qk__nomem(err) : QK_OK;
}

qk_status qk__libraries_load(qk__libraries *libraries, qk_error *err)
{
    void *curl, *crypto;
    QK_TRY(qk__library_load(&CURL_LIBRARY, &curl, err));
    QK_TRY(qk__library_load(&CRYPTO_LIBRARY, &crypto, err));
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
    return all ? QK_OK
           : qk__library_no_memory()
               ? qk__nomem(err)
               : qk__fail(err, QK_ERR_UNSUPPORTED, "libcurl or libcrypto is too old: " REMEDY);
}
