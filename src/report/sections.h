/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the page that C writes: the frame (section_top.c), numbers and figures, which need no scripts
 * (section_summary.c, section_figures.c with section_files.c), and blocks of JSON for the scripts (section_said.c,
 * section_data.c, section_views.c). */
#ifndef QK_REPORT_SECTIONS_H
#define QK_REPORT_SECTIONS_H

#include <qkscope/report.h>

#include "figure/catalog.h"
#include "figure/scale.h"
#include "report/collages.h"
#include "report/findings.h"
#include "report/head_points.h"
#include "report/page.h"
#include "report/page_heads.h"
#include "report/manifests.h"
#include "report/headline.h"

/* All that a page is made of. */
typedef struct qk__report {
    const qk_report_settings *settings;
    qk__results *results;
    qk__store *tables;
    const char *folder;  /* of the page */
    const char *figures; /* of the figures: folder/figures */
    const char *staging; /* where figures are drawn until the page is written */
    const qk__drawn_list *drawn;
    const qk_report_outcome *outcome; /* so far: the tables that changed */
    qk__headlines headlines;
    qk__findings findings;
    qk__manifests manifests;
    qk__points points;
    qk__page_heads heads; /* of a page */
    qk__score_choice scores;
    char title[256];
} qk__report;

void qk__write_document(qk__page *page, const qk__report *report);

void qk__section_summary(qk__page *page, const qk__report *report);
void qk__section_figures(qk__page *page, const qk__report *report);
/* A JSON block that the scripts put into words. */
void qk__section_said(qk__page *page, const qk__report *report);
/* A JSON block of what can be saved from the page, and of the heads on each shown collage. */
void qk__section_files(qk__page *page, const qk__report *report, const qk__collages *collages);
/* A JSON block with the pictures and curves of heads, for the view of a head. The first function announces what will
 * be asked. */
QK_MUST_CHECK qk_status qk__views_expect(qk__store *tables, qk_error *err);
void qk__section_views(qk__page *page, const qk__report *report);
/* The numbers of all heads, and the scripts. */
void qk__section_scripts(qk__page *page, const qk__report *report);

/* The colours of the figures, from low to high at equal steps, for the scripts. */
json_t *qk__scale_json(const qk__scale *scale);

/* The number of checkpoints in the study; 0: it has models, or one checkpoint. */
static inline size_t qk__num_checkpoints(const qk__results *results)
{
    return results->checkpoints && results->num_models > 1 ? results->num_models : 0;
}

static inline const char *qk__label(const qk__result_model *model)
{
    return *model->label ? model->label : "(no name)";
}

#endif
