/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison on its way from two names to a folder. compare.c leads: sides.c opens a and b,
 * compare_outcome.c sums up, compare_tables.c and compare_page.c (with compare_data.c) write, compare_folder.c puts all of
 * it into its place. */
#ifndef QK_COMPARE_COMPARE_H
#define QK_COMPARE_COMPARE_H

#include <jansson.h>

#include <qkscope/compare.h>

#include "base/context.h"
#include "base/file.h"
#include "figure/catalog.h"
#include "work/place.h"
#include "report/page.h"
#include "results/comparison.h"
#include "tables/manifest.h"

/* a or b. */
typedef struct qk__opened {
    const char *letter; /* "a", "b" */
    char *label;
    qk__results *results;
    const qk__result_model *model;
    qk__manifest manifest;
    qk__hold watched;    /* it, so that no run writes there meanwhile */
    json_t *facts;       /* what the manifest of the comparison says of it */
    qk_columns *repeats; /* repeats.csv by head; NULL: there is none that can be used */
} qk__opened;

typedef struct qk__comparing {
    const qk_compare_settings *settings;
    qk__opened sides[2];
    qk__comparison comparison;
    qk_compare_outcome *outcome;
    json_t *warnings; /* NULL: no memory for one */
    int side;         /* that is being opened */
    qk__hold folder;
    char *staging; /* where figures are drawn */
    qk__drawn_list drawn;
    qk__file_set files;
    double start;
} qk__comparing;

/* ---- a and b (sides.c) ------------------------------------------------------------------ */

QK_MUST_CHECK qk_status qk__open_sides(qk__comparing *c, qk_error *err);
void qk__close_sides(qk__comparing *c);

/* A warning of what is compared; printf style. */
void qk__compare_warn(qk__comparing *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- what comes of it ------------------------------------------------------------------- */

/* The numbers that are shown of a comparison (compare_outcome.c), and as JSON. */
QK_MUST_CHECK qk_status qk__compare_sum_up(qk__comparing *c, qk_error *err);
json_t *qk__compare_summary(const qk__comparing *c);

/* Each adds finished files (compare_tables.c, compare_page.c). */
QK_MUST_CHECK qk_status qk__compare_write_tables(qk__comparing *c, qk_error *err);
QK_MUST_CHECK qk_status qk__compare_write_page(qk__comparing *c, qk_error *err);
/* The heads of the page for its scripts (compare_data.c). */
void qk__compare_put_data(qk__page *page, const qk__comparing *c);

/* ---- the folder (compare_folder.c) ------------------------------------------------------ */

/* Holds the folder, if it may be written into. */
QK_MUST_CHECK qk_status qk__compare_claim(qk__comparing *c, qk_error *err);
/* Draws figures into a hidden folder there. */
QK_MUST_CHECK qk_status qk__compare_draw(qk__comparing *c, qk_error *err);
/* Files and figures take their places, manifest.json last. */
QK_MUST_CHECK qk_status qk__compare_commit(qk__comparing *c, qk_error *err);
void qk__compare_release(qk__comparing *c);

#define QK__COMPARE_PAGE "compare.html"

#endif
