/* SPDX-License-Identifier: Apache-2.0 */
/* A path, or a name on the Hub: what a run is given. */
#include "fetch/need.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "fetch/get.h"
#include "hub/hub.h"

static qk_status fetch(const qk_hub_settings *what, qk__needed *needed, qk_error *err)
{
    qk_hub_settings settings = *what;
    qk_hub_snapshot *snapshot;
    qk_error why;
    settings.cached = true;
    qk_status status = qk_hub_get(&settings, &snapshot, &why);
    if (status != QK_OK) /* it may have been meant for a path */
        return qk__fail(err, status, "%.900s%s", why.message,
                        status == QK_ERR_NOT_FOUND ? "; nor is there a folder of this name"
                                                   : "");
    needed->path = qk__strdup(snapshot->gguf ? snapshot->gguf : snapshot->path);
    needed->num_layers = snapshot->num_layers;
    needed->group = snapshot->q_per_kv_group;
    qk_hub_snapshot_free(&snapshot);
    return needed->path ? QK_OK : qk__nomem(err);
}

qk_status qk__fetch_settle_cache(qk_hub_settings *what, const char *local_root, qk_error *err)
{
    if (!local_root || !*local_root || !qk__hub_is_name(what->name))
        return QK_OK;
    char *own =
        qk__hub_folder(local_root, what->model ? &qk__hub_model : &qk__hub_dataset, what->name);
    if (own && qk__is_dir(own))
        what->context.hub_cache = local_root;
    qk_status status = own ? QK_OK : qk__nomem(err);
    free(own);
    return status;
}

qk_status qk__fetch_need(const qk_hub_settings *what, const char *local_root,
                         qk__needed *needed, qk_error *err)
{
    const char *name = what->name ? what->name : "";
    const char *revision = what->revision && *what->revision ? what->revision : "main";
    *needed = (qk__needed){0};
    if (!qk_hub_is_remote(name))
        return what->model
                   ? qk_hub_find_model(name, what->revision, &needed->path, err)
                   : qk_hub_find_dataset(name, what->revision, local_root, &needed->path, err);
    if (local_root && *local_root && qk__hub_is_revision(revision))
        QK_TRY(qk__hub_find_in_root(local_root, name, &needed->path, err));
    if (needed->path)
        return QK_OK;
    qk_hub_settings settings = *what;
    QK_TRY(qk__fetch_settle_cache(&settings, local_root, err));
    return fetch(&settings, needed, err);
}

qk_status qk__fetch_place(const qk_hub_settings *what, char **place, qk_error *err)
{
    qk_hub_settings settings = *what;
    qk__fetch fetch;
    qk__connection *connection = NULL;
    settings.cached = true;
    *place = NULL;
    qk_status status = qk__fetch_open(&fetch, &settings, err);
    if (status == QK_OK && !fetch.access.offline)
        status = qk__connection_open(&connection, &fetch, err);
    if (status == QK_OK)
        status = qk__fetch_about(&fetch, qk__fetch_settle_commit(&fetch, connection, err), err);
    if (status == QK_OK &&
        !(*place = qk__format("%s/snapshots/%s", strrchr(fetch.folder, '/') + 1, fetch.commit)))
        status = qk__nomem(err);
    qk__connection_close(&connection);
    qk__fetch_close(&fetch);
    return status;
}
