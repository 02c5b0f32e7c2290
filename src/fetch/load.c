/* SPDX-License-Identifier: Apache-2.0 */
/* What is needed to send requests, got when the first one is. */
#include "base/error.h"
#include "fetch/fetch.h"

static qk_status load_functions(qk__fetch *f, qk_error *err)
{
    QK_TRY(qk__libraries_load(&f->libraries, err));
    QK_TRY(qk__context(err,
                       qk__origin_of(&f->libraries, f->access.endpoint, &f->access.origin, err),
                       "HF_ENDPOINT %s", f->access.endpoint));
    if (f->libraries.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) /* counts its calls */
        return qk__fail(err, QK_ERR_NOMEM, "libcurl does not start");
    f->loaded = true;
    return QK_OK;
}

qk_status qk__fetch_load(qk__fetch *f, qk_error *err)
{
    pthread_mutex_lock(&f->lock);
    qk_status status = f->loaded ? QK_OK : load_functions(f, err);
    pthread_mutex_unlock(&f->lock);
    return status;
}

void qk__fetch_unload(qk__fetch *f)
{
    if (f->loaded)
        f->libraries.global_cleanup();
}
