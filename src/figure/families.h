/* SPDX-License-Identifier: Apache-2.0 */
/* A panel per family of models, or per model: which have something to show, and the colours of models. A hue is a
 * family (a phase, in training) in every figure; the models of a family have shades of it. */
#ifndef QK_FIGURE_FAMILIES_H
#define QK_FIGURE_FAMILIES_H

#include "figure/catalog.h"
#include "figure/sheet.h"

enum {
    QK__MOST_FAMILIES = 60,
    QK__TOGETHER = 4 /* models whose shades can be distinguished in a panel */
};

/* What a panel shows. */
typedef struct qk__family {
    const char *name; /* of the family, or of the panel's only model */
    int index;        /* of the family in the study */
    size_t count;
    const qk__result_model **models; /* [count] that have something to show */
} qk__family;

typedef struct qk__families {
    const qk__subject *subject;
    const qk__results *results;
    const qk__chart_series *series; /* one or two; rows are heads that have them all */
    size_t count;
    qk__family panels[QK__MOST_FAMILIES];
    bool split;      /* a panel per model */
    bool told_apart; /* models differ in shade, with a legend below each panel */
    const qk__result_model **pool;
} qk__families;

/* The heads of a model. */
qk__found qk__rows_in(const qk__families *all, const qk__result_model *model);
/* Collects families with something to show. split: where a family has more models than shades can distinguish, each
 * model gets a panel; where that would be very many, models look alike. False without memory: the figure has failed. */
bool qk__gather_families(qk__figure *figure, const qk__subject *subject, bool split,
                         qk__families *all);

/* The lines of the longest name above panels of that width. */
double qk__most_name_lines(const qk__figure *figure, const qk__families *all, double width);

/* "#rrggbb" and sign of a model in a panel. */
void qk__model_color(const qk__figure *figure, const qk__families *all,
                     const qk__family *family, size_t model, char color[8]);
qk__sign qk__model_sign(const qk__families *all, const qk__family *family, size_t model);

/* The legend of a panel's models; none where the only model is called like its family. */
typedef struct qk__shades {
    qk__entry entries[QK__TOGETHER];
    char colors[QK__TOGETHER][8];
    qk__legend legend;
} qk__shades;
void qk__name_models(const qk__figure *figure, const qk__families *all, size_t panel,
                     double width, qk__shades *shades);

#endif
