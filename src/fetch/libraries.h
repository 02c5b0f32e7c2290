/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl and libcrypto, loaded when something is to be fetched: with all that they need they would
 * take four times as long to load as this program takes to start, in every run of every command. */
#ifndef QK_FETCH_LIBRARIES_H
#define QK_FETCH_LIBRARIES_H

#include <curl/curl.h>
#include <openssl/evp.h>

#include <qkscope/common.h>

/* FUNCTION(library, name): of libcurl or libcrypto, and what it is called there after a prefix. */
#define QK__LIBRARY_FUNCTIONS(CURL_FUNCTION, EVP_FUNCTION)                                     \
    CURL_FUNCTION(global_init)                                                                 \
    CURL_FUNCTION(global_cleanup)                                                              \
    CURL_FUNCTION(easy_init)                                                                   \
    CURL_FUNCTION(easy_setopt)                                                                 \
    CURL_FUNCTION(easy_perform)                                                                \
    CURL_FUNCTION(easy_cleanup)                                                                \
    CURL_FUNCTION(easy_strerror)                                                               \
    CURL_FUNCTION(slist_append)                                                                \
    CURL_FUNCTION(slist_free_all)                                                              \
    CURL_FUNCTION(free)                                                                        \
    CURL_FUNCTION(url)                                                                         \
    CURL_FUNCTION(url_set)                                                                     \
    CURL_FUNCTION(url_get)                                                                     \
    CURL_FUNCTION(url_cleanup)                                                                 \
    EVP_FUNCTION(MD_CTX_new)                                                                   \
    EVP_FUNCTION(MD_CTX_free)                                                                  \
    EVP_FUNCTION(MD_CTX_copy_ex)                                                               \
    EVP_FUNCTION(DigestInit_ex)                                                                \
    EVP_FUNCTION(DigestUpdate)                                                                 \
    EVP_FUNCTION(DigestFinal_ex)                                                               \
    EVP_FUNCTION(EncodeBlock)                                                                  \
    EVP_FUNCTION(sha1)                                                                         \
    EVP_FUNCTION(sha256)

typedef struct qk__libraries {
#define QK__CURL_MEMBER(name) __typeof__(&curl_##name) name;
#define QK__EVP_MEMBER(name)  __typeof__(&EVP_##name) name;
    QK__LIBRARY_FUNCTIONS(QK__CURL_MEMBER, QK__EVP_MEMBER)
#undef QK__CURL_MEMBER
#undef QK__EVP_MEMBER
} qk__libraries;

/* QK_ERR_UNSUPPORTED: one is not there, or too old. They stay loaded until the program ends. */
QK_MUST_CHECK qk_status qk__libraries_load(qk__libraries *libraries, qk_error *err);

#endif
