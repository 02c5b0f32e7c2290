/* SPDX-License-Identifier: Apache-2.0 */
/* What the Hub does not give, and what one can do about it. */
#include <string.h>

#include "base/error.h"
#include "fetch/fetch.h"

qk_status qk__refused(const qk__fetch *f, const qk__headers *a, const char *origin,
                      qk_error *err)
{
    const char *what = f->kind->what;
    bool token = f->access.token != NULL;
    if (strcmp(a->code, "RevisionNotFound") == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the %s has no revision %s; see what there is with: qkscope get --list "
                        "%s%s",
                        what, f->revision, f->kind->option, f->name);
    if (strcmp(a->code, "EntryNotFound") == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "the Hub lists this file and does not have it");
    if (strcmp(a->code, "GatedRepo") == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the %s is gated: ask for access on its page, %s/%s%s, %s", what,
                        f->access.endpoint, *f->kind->option ? "" : "datasets/", f->name,
                        token ? "with the account of your token"
                              : "then log in (hf auth login) or set HF_TOKEN");
    if (strstr(a->message, "is disabled"))
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the Hub has disabled this %s: nobody can fetch it; what the cache has "
                        "can be used with --offline",
                        what);
    if (a->status == 401 && token && strcmp(a->code, "RepoNotFound") != 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the Hub does not accept the token: make a new one (hf auth login, or "
                        "HF_TOKEN), or unset it for what is public");
    if (a->status == 401 || strcmp(a->code, "RepoNotFound") == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "the Hub has no %s of this name%s%s", what,
                        token
                            ? ", or your token may not see it"
                            : ", or it is private: then log in (hf auth login) or set HF_TOKEN",
                        *f->kind->option ? "" : "; a model is fetched with --model");
    if (a->status == 403)
        return qk__fail(err, QK_ERR_NOT_FOUND, "the Hub forbids it%s%s: check what %s may read",
                        *a->message ? ": " : "", a->message,
                        token ? "your token" : "the public");
    return qk__fail(err, a->status == 404 ? QK_ERR_NOT_FOUND : QK_ERR_IO,
                    "%s: HTTP status %d%s%s", origin, a->status, *a->message ? ": " : "",
                    a->message);
}
