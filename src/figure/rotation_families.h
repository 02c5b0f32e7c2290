/* SPDX-License-Identifier: Apache-2.0 */
/* A panel per family of models, or per model: which have something to show, where the panels
 * stand, and how models are told apart. A hue is a family (a phase, in training) in every
 * figure; models within one have shades of it. */
#ifndef QK_FIGURE_ROTATION_FAMILIES_H
#define QK_FIGURE_ROTATION_FAMILIES_H

#include "figure/catalog.h"
#include "figure/panels.h"

/* What a figure shows of a head; y NaN = the head is left out. */
typedef struct qk__pair {
    double x, y;
} qk__pair;
typedef qk__pair qk__pick_fn(const qk__result_head *head);

/* What a panel shows. */
typedef struct qk__family {
    const char *name;                /* of the family, or of the model that has its own panel */
    int index;                       /* of the family in the study */
    size_t num_models, num_heads;    /* that have something to show */
    const qk__result_model **models; /* [num_models] */
} qk__family;

typedef struct qk__family_panels {
    const qk__results *results;
    size_t count;
    qk__family *families;
    bool split;       /* a panel per model */
    bool has_legends; /* below each panel, of its models */
    size_t columns;
    qk__place first;    /* the panel at the top left */
    double right, down; /* from a panel to the next */
} qk__family_panels;

bool qk__has_pairs(const qk__results *results, qk__pick_fn *pick);

/* Families with something to show. split: where one has more models than can be told apart in a
 * panel, each model gets a panel; where that would be very many, models are not told apart. False without memory: the figure has failed. To be freed in any
 * case. */
bool qk__gather_families(qk__figure *figure, const qk__results *results, qk__pick_fn *pick,
                         bool split, qk__family_panels *panels);
void qk__free_families(qk__family_panels *panels);
size_t qk__most_models(const qk__family_panels *panels);

/* Places of the panels, each so high, with `beside` nominal pixels for the labels on its left and
 * `above` below the heading; sets the figure's size. */
void qk__arrange_families(qk__figure *figure, double beside, double above, double panel_height,
                          qk__family_panels *panels);

/* What stands around a panel besides its name. */
typedef struct qk__around {
    const char *note;    /* a gnuplot expression, below the name */
    const char *x_label; /* a literal */
    const char *y_label; /* markup without quotes; of panels on the left */
} qk__around;

/* Place, texts and legend of a panel. */
void qk__put_family(qk__figure *figure, const qk__family_panels *panels, size_t panel,
                    const qk__around *around);

/* "#rrggbb" and point type of a model of a panel. */
void qk__model_color(const qk__figure *figure, const qk__family_panels *panels,
                     const qk__family *family, size_t model, char color[8]);
int qk__model_point(const qk__family_panels *panels, const qk__family *family, size_t model);

#endif
