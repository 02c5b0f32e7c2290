/* SPDX-License-Identifier: Apache-2.0 */
/* What a run reads, wherever it is: a path, or a name on the Hub whose files come if they are not here (need.c,
 * which leads), unless nothing may be sent (access.c). */
#ifndef QK_FETCH_NEED_H
#define QK_FETCH_NEED_H

#include <qkscope/hub.h>

typedef struct qk__needed {
    char *path;     /* allocated */
    int num_layers; /* of a capture on the Hub, of which a part may be here; 0 = not known */
    int group;      /* query heads per key head; likewise */
} qk__needed;

/* what->name is a path or org/name; of a revision that the cache knows no newer one is looked for.
 * local_root: see qk_hub_find_dataset. Errors: those of qk_hub_find_dataset and qk_hub_get. */
QK_MUST_CHECK qk_status qk__fetch_need(const qk_hub_settings *what, const char *local_root,
                                       qk__needed *needed, qk_error *err);

/* A local_root that has the repository as a cache has it is the cache that is meant. */
QK_MUST_CHECK qk_status qk__fetch_settle_cache(qk_hub_settings *what, const char *local_root,
                                               qk_error *err);

/* Where the cache has the commit that a revision stands for, or would have it:
 * "datasets--org--name/snapshots/COMMIT". Only a revision that the cache does not know is asked for. */
QK_MUST_CHECK qk_status qk__fetch_place(const qk_hub_settings *what, char **place,
                                        qk_error *err);

/* Whether nothing may be fetched or sent, as the context or the environment says. */
bool qk__fetch_is_offline(const qk_context *context);

#endif
