/* SPDX-License-Identifier: Apache-2.0 */
/* A study file (YAML) of many models or checkpoints, and running it: the analyses of each, combined tables, figures
 * and the report in one folder. docs/howto/published.md#studies */
#ifndef QKSCOPE_STUDY_H
#define QKSCOPE_STUDY_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/analysis.h>
#include <qkscope/report.h>

QK_BEGIN_DECLS

typedef struct qk_study qk_study;

/* One model or checkpoint of a plan. */
typedef struct qk_study_model {
    const char *name;   /* the `model` column */
    const char *label;  /* in figures; the name where none is given */
    const char *family; /* "" = none */
    const char *phase;  /* "" = not a checkpoint */
    /* where its capture comes from, as text: a folder, or org/name@revision */
    const char *source;
    qk_analysis_settings settings; /* source, group size and analyses of this model */
} qk_study_model;

/* Unknown keys, wrong types, values out of range and two models of one name are QK_ERR_ARGUMENT and name file, key and
 * line. Relative paths in the file count from the file's folder. */
QK_API QK_MUST_CHECK qk_status qk_study_load(qk_study **plan, const char *path, qk_error *err);
QK_API void qk_study_free(qk_study **plan);
QK_API const char *qk_study_title(const qk_study *plan);
QK_API size_t qk_study_num_models(const qk_study *plan);
QK_API const qk_study_model *qk_study_get(const qk_study *plan, size_t i);

typedef struct qk_study_settings {
    const char *output; /* folder */
    bool force;         /* compute everything again, also in a folder that holds other things */
    bool dry_run;       /* write nothing: states and messages say what would be done, and why */
    bool figures;       /* false: only tables */
    bool html;
    const char *local_root;   /* see qk_hub_wanted; NULL = none */
    const char *formats;      /* of figures, in place of the study's; NULL = the study's */
    const char *theme;        /* of figures; NULL = the study's */
    int width;                /* of figures, in millimetres; 0 = the study's */
    bool no_title, no_legend; /* of figures, even where the study has them */
    bool symbols;             /* in labels of figures, even where the study has words */
    const char *command_line;
    /* a model begins: computed is false when its results are kept; NULL and the number of models when the
     * figures begin */
    void (*model_begins)(void *user, size_t i, const qk_study_model *model, bool computed);
    void *user; /* of model_begins */
    /* A dry run is offline. threads 0 = the study's, else all processors. Progress: "MB" fetched, while there
     * is nothing else to do, "files" compared, "heads" of the current model, "figures" */
    qk_context context;
} qk_study_settings;

typedef enum qk_study_state {
    QK_STUDY_COMPUTED,
    QK_STUDY_KEPT,    /* inputs and settings are those of its manifest */
    QK_STUDY_PARTIAL, /* computed, some heads failed */
    QK_STUDY_FAILED,
} qk_study_state;

typedef struct qk_study_result {
    qk_study_state state;
    qk_status status; /* why it FAILED */
    char *message; /* why it was computed, partial or failed; NULL when its results are kept */
    size_t num_heads;
    double seconds;
    /* means over heads of PC0's correlations; share of heads with bias_strength > 0; mean of
     * ap_drop; NaN where there is none */
    double r_q, r_k, abs_r_k, recency, ap_drop;
    /* of its query and key heads: fewest rows, median, fewest texts; heads with a certain and with an uncertain
     * category; NaN where no table says */
    double rows_least, rows_median, texts_least, certain, uncertain;
    qk_text_lengths lengths; /* of its texts */
} qk_study_result;

typedef struct qk_study_outcome {
    size_t num_models;
    qk_study_result *models;   /* in plan order */
    qk_report_outcome *report; /* NULL without figures */
    double seconds;
} qk_study_outcome;

extern QK_API const qk_settings_table qk_study_settings_table;

/* While a model is analysed, the capture of the next one is fetched: its notices come from another thread, though
 * never two at a time. A model whose fetch fails has failed; the others are analysed. The study's manifest says that
 * it is complete when this has returned one of the first two. QK_OK; QK_ERR_PARTIAL when some models, heads or figures
 * failed (*outcome is set and what could be done is there); any other status when nothing could be done. */
QK_API QK_MUST_CHECK qk_status qk_study_run(const qk_study *plan, const qk_study_settings *run,
                                            qk_study_outcome **outcome, qk_error *err);
QK_API void qk_study_outcome_free(qk_study_outcome **outcome);

QK_END_DECLS

#endif
