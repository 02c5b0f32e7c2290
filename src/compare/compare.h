/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison on its way from two names to a folder. compare.c leads: sides.c opens a and b; differences.c and
 * difference_means.c make the tables compare and compare_heads, which the others ask; compare_outcome.c sums up;
 * compare_tables.c and compare_page.c (with compare_data.c) write; compare_folder.c puts all into place. */
#ifndef QK_COMPARE_COMPARE_H
#define QK_COMPARE_COMPARE_H

#include <jansson.h>

#include <qkscope/compare.h>

#include "base/context.h"
#include "base/file.h"
#include "figure/catalog.h"
#include "work/place.h"
#include "report/page.h"
#include "tables/manifest.h"
#include "tables/tables.h"

/* a or b. */
typedef struct qk__opened {
    const char *letter; /* "a", "b" */
    char *label;        /* its name in the comparison */
    char *model;        /* the `model` column; "" where it has no name */
    char *model_label;  /* its name in its folder */
    qk_text_lengths lengths;
    qk__manifest manifest;
    qk__manifest own; /* of a study: that of the model */
    qk__hold watched; /* so that no run writes there meanwhile */
    json_t *facts;    /* what the manifest of the comparison says of it */
    /* the heads of both, by layer and query head, with all numbers that are compared */
    qk_columns *heads;
    qk_columns *repeats; /* repeats.csv by head; NULL: none that can be used */
} qk__opened;

/* A change below this is called supported. */
#define QK__CHANGE_LEVEL 0.05

typedef struct qk__comparing {
    const qk_compare_settings *settings;
    qk__opened sides[2];
    qk__store *tables;  /* a and b; later `compare` and `compare_heads` */
    bool unlike;        /* lengths of the texts differ */
    bool silent;        /* so nothing is tested, and categories are not compared */
    double level;       /* of the intervals of differences */
    qk__buffer metrics; /* those of both, as rows of SQL: ('r_q', 0), ... */
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

/* Warns of a fault in what is compared; printf style. */
void qk__compare_warn(qk__comparing *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The level of the intervals of a table, 0..1; NaN: it has none. */
double qk__side_level(const qk__opened *side, const char *table);

/* ---- differences (differences.c, difference_means.c) -------------------------------------------- */

/* Numbers that have the sign of PC0, as SQL. */
#define QK__SIGNED_ON_PC0 "'r_q', 'r_k', 'mu_q', 'mu_k', 'alpha', 'beta'"
/* Fills `compare`, with temp.pairs: a row for each head that both have, with their head_ids, whether the sign of PC0
 * is open, and whether PC0 and PC1 have nearly the same variance in a or b. QK_ERR_INCONSISTENT: no head is in both,
 * or shared heads have different key heads. */
QK_MUST_CHECK qk_status qk__compare_heads(qk__comparing *c, qk_error *err);
/* Then finds sizes, temp.metrics (each over its heads), temp.groups (differences of key heads), and `compare_heads`. */
QK_MUST_CHECK qk_status qk__compare_means(qk__comparing *c, qk_error *err);

/* ---- what comes of it ------------------------------------------------------------------- */

/* The numbers that are shown of a comparison (compare_outcome.c), and the same as JSON. */
QK_MUST_CHECK qk_status qk__compare_sum_up(qk__comparing *c, qk_error *err);
json_t *qk__compare_summary(const qk__comparing *c);

/* Each adds finished files (compare_tables.c, compare_page.c). */
QK_MUST_CHECK qk_status qk__compare_write_tables(qk__comparing *c, qk_error *err);
QK_MUST_CHECK qk_status qk__compare_write_page(qk__comparing *c, qk_error *err);
/* The heads of the page for its scripts (compare_data.c). */
QK_MUST_CHECK qk_status qk__compare_put_data(qk__page *page, const qk__comparing *c,
                                             qk_error *err);

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
