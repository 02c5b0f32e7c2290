/* SPDX-License-Identifier: Apache-2.0 */
/* Clouds of points, one for each head: what the panels of a figure share (points.c, which leads), and the points of a
 * panel. */
#ifndef QK_FIGURE_CLOUD_H
#define QK_FIGURE_CLOUD_H

#include "figure/families.h"

/* What the panels of a figure share. */
typedef struct qk__cloud {
    qk__families families;
    qk__sheet sheet;
    qk__power power[2];
    bool plane;    /* both numbers are correlations: one range, with guides */
    bool one_axis; /* numbers stand only along the left and the lower edge */
    bool by_category;
    double size; /* of points */
} qk__cloud;

/* A head's category, or QK_NUM_CATEGORIES if it is unknown; and the colour of either. */
int qk__category_or_none(const qk__found *rows, size_t row);
const char *qk__color_of_category(const qk__figure *figure, int category);

/* The points of a panel, which are also told. */
void qk__put_cloud(qk__figure *figure, const qk__cloud *c, const qk__plot *plot,
                   const qk__family *family);

/* Widens both ranges to the numbers of a family. */
void qk__widen_to_family(const qk__families *all, const qk__family *family, qk__range r[2]);
/* Pearson r over the heads of some models. */
double qk__cloud_r(qk__figure *figure, const qk__families *all,
                   const qk__result_model *const *models, size_t num_models);

#endif
