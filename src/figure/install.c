/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the figures of a report into their places, and removes those of an earlier report. */
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "figure/catalog.h"
#include "figure/figure_note.h"

/* Figures of earlier versions, whose picture another figure has now. */
static const char *const RETIRED[] = {"pca-10-checkpoint-heatmap-rq",
                                      "pca-11-checkpoint-heatmap-rk"};

static bool is_in_catalog(const char *name)
{
    for (size_t i = 0; i < sizeof RETIRED / sizeof *RETIRED; i++)
        if (strcmp(name, RETIRED[i]) == 0)
            return true;
    for (size_t f = 0; f < qk__num_figure_families; f++)
        for (size_t k = 0; k < qk__figure_families[f].count; k++) {
            const qk__figure_kind *kind = &qk__figure_families[f].kinds[k];
            size_t length = strlen(kind->name);
            if (strncmp(name, kind->name, length) == 0 &&
                name[length] == (kind->per_model ? '-' : 0))
                return true;
        }
    return false;
}

/* Also for a figure that failed: then the older one stays. */
static bool applies(const qk__drawn_list *drawn, const char *name)
{
    for (size_t i = 0; i < drawn->count; i++)
        if (strcmp(drawn->items[i].name, name) == 0)
            return true;
    return false;
}

/* Removes figures of the catalog that do not apply now; other files stay. */
static qk_status remove_stale(const qk__drawn_list *drawn, const char *staging,
                              const char *folder, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++) {
        char *name = names.items[i];
        size_t length = qk__figure_stem(name);
        if (length == 0)
            continue;
        name[length] = 0;
        if (is_in_catalog(name) && !applies(drawn, name)) /* and so not in staging */
            status = qk__figure_settle(name, staging, folder, err);
    }
    qk__names_free(&names);
    return status;
}

qk_status qk__install_figures(const qk__drawn_list *drawn, bool all, const char *staging,
                              const char *folder, qk_error *err)
{
    if (all)
        QK_TRY(remove_stale(drawn, staging, folder, err));
    for (size_t i = 0; i < drawn->count; i++)
        if (drawn->items[i].status == QK_OK)
            QK_TRY(qk__figure_settle(drawn->items[i].name, staging, folder, err));
    return QK_OK;
}
