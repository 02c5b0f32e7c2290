/* SPDX-License-Identifier: Apache-2.0 */
/* A study file (YAML) of many models or checkpoints, and running it: the analyses of each,
 * combined tables, figures and the report in one folder. docs/study.md */
#ifndef QKSCOPE_PLAN_H
#define QKSCOPE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/report.h>
#include <qkscope/scatter.h>
#include <qkscope/study.h>

QK_BEGIN_DECLS

typedef struct qk_plan qk_plan;

/* One model or checkpoint of a plan. */
typedef struct qk_plan_model {
    const char *name;           /* the `model` column */
    const char *label;          /* of figures; the name where none is given */
    const char *family;         /* "" = none */
    const char *phase;          /* "" = not a checkpoint */
    const char *source;         /* of its capture, as text: a folder, or org/name@revision */
    qk_study_settings settings; /* source, group size and analyses of this model */
} qk_plan_model;

/* Unknown keys, wrong types, values out of range and two models of one name are QK_ERR_ARGUMENT
 * and name file, key and line. Relative paths in the file count from the file's folder. */
QK_API QK_MUST_CHECK qk_status qk_plan_load(qk_plan **plan, const char *path, qk_error *err);
QK_API void qk_plan_free(qk_plan **plan);
QK_API const char *qk_plan_title(const qk_plan *plan);
QK_API size_t qk_plan_num_models(const qk_plan *plan);
QK_API const qk_plan_model *qk_plan_get(const qk_plan *plan, size_t i);

typedef struct qk_plan_run {
    const char *output; /* folder */
    bool force;         /* compute everything again, also in a folder that holds other things */
    bool dry_run;       /* write nothing: states say what would be, messages why */
    bool figures;       /* false: tables alone */
    bool html;
    int threads;            /* 0 = all processors */
    const char *local_root; /* see qk_hub_find_dataset; NULL = none */
    const char *formats;    /* of figures, in place of the plan's; NULL = the plan's */
    const char *theme;      /* likewise */
    const char *command_line;
    qk_notice_fn *notice;
    qk_progress_fn
        *progress; /* files compared, then heads of the model at work; then figures */
    /* a model begins: computed is false when its results stand; NULL and the number of models
     * when the figures begin */
    void (*model_begins)(void *user, size_t i, const qk_plan_model *model, bool computed);
    void *user;
} qk_plan_run;

typedef enum qk_plan_state {
    QK_PLAN_COMPUTED,
    QK_PLAN_KEPT,    /* inputs and settings are those of its manifest */
    QK_PLAN_PARTIAL, /* computed, some heads failed */
    QK_PLAN_FAILED,
} qk_plan_state;

typedef struct qk_plan_result {
    qk_plan_state state;
    qk_status status; /* of FAILED: why */
    char *message;    /* why computed, partial or failed; NULL when its results stand */
    size_t num_heads;
    double seconds;
    /* means over heads of PC0's correlations; share of heads with bias_strength > 0; mean of
     * ap_drop; NaN where there is none */
    double r_q, r_k, recency, ap_drop;
    /* of its query and key heads: fewest rows, median, fewest texts; heads with a certain and
     * those with an uncertain category; NaN where no table tells */
    double rows_least, rows_median, texts_least, certain, uncertain;
} qk_plan_result;

typedef struct qk_plan_outcome {
    size_t num_models;
    qk_plan_result *models;    /* in plan order */
    qk_report_outcome *report; /* NULL without figures */
    double seconds;
} qk_plan_outcome;

extern QK_API const qk_settings_table qk_plan_run_table;
QK_API void qk_plan_run_default(qk_plan_run *run);

/* The study's manifest says that it is complete when this has returned one of the first two.
 * QK_OK; QK_ERR_PARTIAL when some models, heads or figures failed (*outcome is set and what
 * could be done is there); any other status when nothing could be done. */
QK_API QK_MUST_CHECK qk_status qk_plan_execute(const qk_plan *plan, const qk_plan_run *run,
                                               qk_plan_outcome **outcome, qk_error *err);
QK_API void qk_plan_outcome_free(qk_plan_outcome **outcome);

QK_END_DECLS

#endif
