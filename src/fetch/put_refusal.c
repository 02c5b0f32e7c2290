/* SPDX-License-Identifier: Apache-2.0 */
/* What the Hub does not take, and what one can do about it. */
#include <string.h>

#include "base/error.h"
#include "fetch/put.h"

/* The part of "org/name" before the slash. */
static int owner_length(const char *name)
{
    return (int)strcspn(name, "/");
}

/* Of the store: its messages are XML, for its makers. */
static qk_status refused_by_store(const qk__headers *a, const char *origin, qk_error *err)
{
    return qk__fail(err, QK_ERR_IO,
                    "%s, where the Hub stores files, refuses one (HTTP status %d): its address "
                    "holds for some time only; the same command asks for a new one and goes on",
                    origin, a->status);
}

static qk_status refused_access(const qk__fetch *f, const qk__headers *a, qk_error *err)
{
    const char *e = f->access.endpoint;
    int owner = owner_length(f->name);
    if (a->status == 401)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the Hub does not accept the token: make one with the right to write, "
                        "on %s/settings/tokens, then hf auth login, or set HF_TOKEN",
                        e);
    if (strstr(a->message, "is disabled"))
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the Hub has disabled this dataset: nothing can be sent to it");
    if (a->status == 402)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the Hub wants to be paid for more room of %.*s%s%s: see "
                        "%s/settings/billing",
                        owner, f->name, *a->message ? ": " : "", a->message, e);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "the Hub does not let you write there%s%s: your token needs the right to "
                    "write to %.*s (%s/settings/tokens), and your account, too",
                    *a->message ? ": " : "", a->message, owner, f->name, e);
}

qk_status qk__put_refused(const qk__fetch *f, const qk__headers *a, const char *origin,
                          qk_error *err)
{
    const char *colon = *a->message ? ": " : "";
    if (strcmp(origin, f->access.origin) != 0)
        return refused_by_store(a, origin, err);
    switch (a->status) {
    case 401:
    case 402:
    case 403:
        return refused_access(f, a, err);
    case 404:
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the Hub has no such dataset or branch any more, or your token may not "
                        "see it%s%s",
                        colon, a->message);
    case 409:
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "the Hub is busy with another change of it%s%s: run the same command "
                        "again in a moment",
                        colon, a->message);
    case 412:
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "somebody else has changed branch %s meanwhile: see what with qkscope "
                        "get --list %s, then run the same command again, which compares anew",
                        f->revision, f->name);
    case 413:
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "the Hub does not take so much at once (HTTP status 413)%s%s", colon,
                        a->message);
    default:
        return qk__fail(err, QK_ERR_IO, "the Hub refuses it (HTTP status %d)%s%s", a->status,
                        colon, a->message);
    }
}
