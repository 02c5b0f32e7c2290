/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and one self-contained page from a results folder. docs/report.md
 *
 *     qk_report_settings settings;
 *     qk_report_outcome *outcome;
 *     qk_report_settings_default(&settings);
 *     settings.results = "results";
 *     qk_status status = qk_report_write(&settings, &outcome, &err);
 *
 * draws results/figures/ and writes results/report.html. */
#ifndef QKSCOPE_REPORT_H
#define QKSCOPE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/figure.h>
#include <qkscope/settings.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

typedef struct qk_report_settings {
    const char *results; /* folder with tables (docs/report.md lists which) */
    const char *output;  /* folder for figures/ and report.html; NULL = results */
    const char *title;   /* NULL = of the study, else made from the models' labels */
    const char *scores; /* CSV of benchmark scores; NULL = scores.csv of the folder, if there */
    const char *score_metric;   /* against which number; NULL = "ap_drop" */
    const char *score_column;   /* which benchmark; NULL = the file's first numeric column */
    qk_figure_settings figures; /* formats beside the PNG and SVG that the page needs */
    bool html;                  /* false: figures alone */
    bool force; /* draw tables that are not as manifest.json says, too, with a warning */
    /* figures done of total; any thread, one call at a time; false stops (QK_ERR_CANCELLED) */
    bool (*progress)(void *user, size_t done, size_t total);
    void *user;
} qk_report_settings;

extern QK_API const qk_settings_table qk_report_settings_table;
QK_API void qk_report_settings_default(qk_report_settings *settings);

typedef struct qk_report_outcome {
    size_t num_models, num_heads;
    size_t num_figures; /* drawn */
    size_t num_failed;
    char **failures; /* [num_failed] "figure NAME: why" */
    size_t num_changed;
    char **changed; /* [num_changed] with force: "TABLE is missing" and the like */
    char *html;     /* path; NULL with html = false */
    size_t html_bytes;
    double seconds;
} qk_report_outcome;

/* QK_OK; QK_ERR_PARTIAL when some figures failed (*outcome is set, the page says which); any
 * other status when nothing could be done (*outcome is NULL): QK_ERR_INCONSISTENT for results
 * that are not complete, of two captures, or changed since they were written; QK_ERR_EXISTS
 * while another run is at work there. Until all is drawn, an earlier page and its figures stay.
 * docs/results.md */
QK_API QK_MUST_CHECK qk_status qk_report_write(const qk_report_settings *settings,
                                               qk_report_outcome **outcome, qk_error *err);
QK_API void qk_report_outcome_free(qk_report_outcome **outcome);

QK_END_DECLS

#endif
