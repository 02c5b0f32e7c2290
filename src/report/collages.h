/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter collages that lie in the folder of figures (qkscope scatter). */
#ifndef QK_REPORT_COLLAGES_H
#define QK_REPORT_COLLAGES_H

#include "figure/catalog.h"

enum { QK__NUM_COLLAGE_KINDS = 4 };

/* The beginning of a collage's name says its kind. */
typedef struct qk__collage_kind {
    const char *start, *title, *caption;
} qk__collage_kind;
extern const qk__collage_kind qk__collage_kinds[QK__NUM_COLLAGE_KINDS];

typedef struct qk__collage {
    char *name; /* without ending */
    int kind;
    const qk__result_model *model; /* whose slug ends the name; NULL: none */
    qk__buffer picture;            /* the SVG; empty: no room, or it cannot be read */
    bool dark;                     /* drawn on a dark ground */
} qk__collage;

typedef struct qk__collages {
    size_t count;
    qk__collage *items; /* by kind, then model, then name */
} qk__collages;

/* Takes collages from all kinds in turn until `room` bytes of the page are full. A folder that cannot be read has
 * none. */
QK_MUST_CHECK qk_status qk__collages_find(const char *folder, const qk__results *results,
                                          size_t room, qk__collages *collages, qk_error *err);
void qk__collages_free(qk__collages *collages);

#endif
