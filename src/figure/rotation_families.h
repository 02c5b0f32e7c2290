/* SPDX-License-Identifier: Apache-2.0 */
/* A panel per family of models: which models have something to show, where the panels stand,
 * and how models are told apart. */
#ifndef QK_FIGURE_ROTATION_FAMILIES_H
#define QK_FIGURE_ROTATION_FAMILIES_H

#include "figure/catalog.h"
#include "figure/panels.h"

/* What a figure shows of a head; y NaN = the head is left out. */
typedef struct qk__pair {
    double x, y;
} qk__pair;
typedef qk__pair qk__pick_fn(const qk__result_head *head);

typedef struct qk__family {
    const char *name;
    size_t num_models, num_heads;    /* that have something to show */
    const qk__result_model **models; /* [num_models] */
    const char **labels;
} qk__family;

typedef struct qk__family_panels {
    size_t count;
    qk__family *families;
    size_t columns;
    qk__place first;    /* the panel at the top left */
    double right, down; /* from a panel to the next */
} qk__family_panels;

bool qk__has_pairs(const qk__results *results, qk__pick_fn *pick);

/* Families with something to show, and their places; sets the figure's size. False without
 * memory: the figure has failed. To be freed in any case. */
bool qk__plan_families(qk__figure *figure, const qk__results *results, qk__pick_fn *pick,
                       double panel_height, qk__family_panels *panels);
void qk__free_families(qk__family_panels *panels);

/* What stands around a panel. */
typedef struct qk__around {
    const char *title;   /* a gnuplot expression */
    const char *note;    /* below the title, likewise; NULL = none */
    const char *x_label; /* a literal */
    const char *y_label; /* markup without quotes; of panels on the left */
    bool points;         /* the legend shows the models' point types */
} qk__around;

/* Place, texts and legend of a panel. */
void qk__put_family(qk__figure *figure, const qk__family_panels *panels, size_t panel,
                    const qk__around *around);

/* "#rrggbb" and point type of a model of a family. */
void qk__model_color(const qk__figure *figure, const qk__family *family, size_t model,
                     char color[8]);
int qk__model_point(const qk__family *family, size_t model);

#endif
