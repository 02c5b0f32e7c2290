/* SPDX-License-Identifier: Apache-2.0 */
/* Removing what a killed run has left in a place. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/lock.h"
#include "work/place.h"

static bool is_temporary(const char *name, const void *context)
{
    (void)context;
    return qk__temporary_stem(name) > 0;
}

static bool is_left_of_drawing(const char *name, const void *context)
{
    return is_temporary(name, context) || qk__staging_stem(name) > 0;
}

/* Who only draws holds the folder of the figures, not the one above: nothing is swept then. */
static qk_status sweep_figures(const char *path, qk_error *err)
{
    bool there;
    int lock;
    QK_TRY(qk__look_below(path, "figures", &there, err));
    char *figures = there ? qk__path_join(path, "figures") : NULL;
    if (there && !figures)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (there && qk__place_try(figures, &lock)) {
        status = qk__empty_below(path, "figures", is_left_of_drawing, NULL, err);
        close(lock);
    }
    free(figures);
    return status;
}

qk_status qk__place_sweep(const char *path, qk_error *err)
{
    QK_TRY(qk__empty_below(path, "", is_temporary, NULL, err));
    return sweep_figures(path, err);
}

/* ---- where several may draw ------------------------------------------------------------- */

typedef struct figure_names {
    const char *const *names;
    size_t count;
} figure_names;

static bool is_staging_of(const char *file, const void *context)
{
    const figure_names *figures = context;
    size_t stem = qk__staging_stem(file);
    for (size_t i = 0; stem > 0 && i < figures->count; i++)
        if (strlen(figures->names[i]) == stem && memcmp(file + 1, figures->names[i], stem) == 0)
            return true;
    return false;
}

qk_status qk__place_sweep_figures(qk__hold *place, const char *const *names, size_t count,
                                  qk_error *err)
{
    const figure_names figures = {names, count};
    if (place->lock < 0)
        return QK_OK;
    if (qk__lock_try(place->lock, false) == QK__LOCK_TAKEN)
        QK_TRY(qk__empty_below(place->path, "", is_staging_of, &figures, err));
    /* it may be lost where it could not be made exclusive: take it again */
    return qk__place_is_held(place->lock, true)
               ? qk__fail(err, QK_ERR_EXISTS, "%s: another run is at work in this folder",
                          place->path)
               : QK_OK;
}
