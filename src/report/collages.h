/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter collages that lie in the folder of figures (qkscope scatter), made small for the
 * page. */
#ifndef QK_REPORT_COLLAGES_H
#define QK_REPORT_COLLAGES_H

#include "figure/catalog.h"

enum { QK__NUM_COLLAGE_KINDS = 4 };

/* Told by the beginning of their names. */
typedef struct qk__collage_kind {
    const char *start, *title, *caption;
} qk__collage_kind;
extern const qk__collage_kind qk__collage_kinds[QK__NUM_COLLAGE_KINDS];

typedef struct qk__collage {
    char *name; /* without ending */
    int kind;
    const qk__result_model *model; /* whose slug ends the name; NULL: nobody's */
    qk__buffer picture;            /* a smaller PNG; empty: no room, or it cannot be read */
    bool dark;                     /* drawn on a dark ground */
} qk__collage;

typedef struct qk__collages {
    size_t count;
    qk__collage *items; /* by kind, then model, then name */
    size_t divisor;     /* how much less wide and high the pictures are than the files */
} qk__collages;

/* Pictures are as large and have as many colours as leave room for all of them in so many bytes of
 * a page. Where even the smallest are too many, they are taken from all kinds in turn until it is
 * full. A folder that cannot be read has none. */
QK_MUST_CHECK qk_status qk__collages_find(const char *folder, const qk__results *results,
                                          size_t room, int threads, qk__collages *collages,
                                          qk_error *err);
void qk__collages_free(qk__collages *collages);

#endif
