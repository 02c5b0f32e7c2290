/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a study of many models share. run_study.c leads: it runs a study, with the other parts named
 * below. */
#ifndef QK_STUDY_STUDY_H
#define QK_STUDY_STUDY_H

#include <pthread.h>

#include <jansson.h>

#include <qkscope/study.h>

#include "analysis/config.h"
#include "analysis/run.h"
#include "base/context.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "work/place.h"
#include "schema/schema.h"
#include "tables/manifest.h"

/* ---- the study file (study_load.c, which leads, study_models.c) ------------------------- */

/* Scatter collages, one a model. */
typedef struct qk__study_collage {
    int rows, columns;
    int64_t seed;
    int random;        /* heads drawn; 0 = as many as panels */
    qk_head_set heads; /* none = random ones */
    int64_t max_points;
} qk__study_collage;

struct qk_study {
    qk_config config; /* first: the file, and what all models share */
    char *path;       /* of the study file */
    char *folder;     /* that has the file */
    int64_t file_bytes;
    char file_hash[QK__FINGERPRINT_SIZE];
    const char *title; /* "" = none */
    qk_study_model *models;
    char **sources; /* [num_models] what source and a folder's path point to */
    char **folders;
    size_t num_models;
    char *local_root;
    char *scores; /* NULL = none */
    const char *score_metric, *score_column;
    qk_figure_settings figures;
    qk__study_collage collage;
};

/* Reads `models` into a qk_study. */
QK_MUST_CHECK qk_status qk__study_set_models(void *plan, const qk__node *models,
                                             const qk__key *key, qk_error *err);

/* A path in the study file counts from the folder with the file. *resolved is never of the form "a/b": that could be
 * the name of a dataset. */
QK_MUST_CHECK qk_status qk__study_resolve(const qk_study *plan, const char *path,
                                          char **resolved, qk_error *err);

/* ---- a run of it (study_work.c) --------------------------------------------------------- */

/* What tells whether models may be related: their shape, and their weights. */
typedef struct qk__study_shape {
    int layers, q_heads, k_heads;
    size_t planes;    /* that RoPE turns: half of the dimensions; 0: not known */
    char weights[17]; /* a fingerprint; "": not known */
} qk__study_shape;

/* Where a model comes from and goes to. */
typedef struct qk__study_place {
    char *folder;          /* output/models/SLUG */
    char *local;           /* local_root/DATASET/REVISION where that is a folder */
    char *capture;         /* folder of the heads, after it was looked at */
    int layers;            /* of the model, after it was looked at; 0: not known */
    qk__study_shape shape; /* likewise */
    char *warning;         /* that it is related to another model of the study; NULL: none */
    /* of its results (schema.h), after it was looked at: a capture may keep too little for some tables, or
     * enough for another column */
    unsigned contents;
    bool rowless; /* there is nothing to draw collages of */
} qk__study_place;

typedef struct qk__study_ahead qk__study_ahead;

typedef struct qk__study_work {
    const qk_study *plan;
    const qk_study_settings *run;
    /* to the context of run, with the lock and the name of the current model */
    qk__relay relay;
    json_t *
        told; /* warnings: the analysis and each collage open a capture, and find the same faults */
    qk_context context; /* through the relay; threads are counted, and a dry run is offline */
    qk_study_outcome *outcome;
    qk_figure_settings drawing; /* the study's, unless the run has its own */
    char **slugs;               /* [num_models] */
    qk__study_place *places;    /* [num_models] */
    char *figures;              /* output/figures */
    qk__buffer scores;          /* contents of the score file */
    qk__hold folder;            /* the output, held */
    size_t num_done;            /* models before the first that is not done */
    pthread_mutex_t *lock;  /* guards what the user is told while the next model is fetched */
    qk__study_ahead *ahead; /* that fetch; NULL = nothing is fetched */
    qk_report_outcome *collages; /* the outcome of those that are drawn already */
    qk__file_set outputs;        /* combined tables, not yet in their places */
} qk__study_work;

/* Finds what is wrong with a run before the first model is computed. The work is to be released in any case. */
QK_MUST_CHECK qk_status qk__study_prepare(qk__study_work *work, qk_error *err);
void qk__study_release(qk__study_work *work);

/* Makes the folder and locks it. It must be empty or an earlier study's, unless force. Removes what a killed run left
 * half-written. */
QK_MUST_CHECK qk_status qk__study_claim_folder(qk__study_work *work, qk_error *err);

/* The settings of model i in this run: output folder, threads, where captures are looked for; without notice and
 * progress. */
qk_analysis_settings qk__study_settings(const qk__study_work *work, size_t i);

/* Model i as in models.csv, without its folder. */
qk__listed_model qk__study_listed(const qk__study_work *work, size_t i);

/* Whether a model's results belong to its settings and its current inputs; reason says why not. A capture that cannot
 * be found or listed is an error. */
typedef struct qk__study_check {
    bool stands;
    char reason[256];
    size_t num_heads;        /* of results that are kept */
    int num_layers;          /* of the model */
    unsigned contents;       /* of its results, kept or to come */
    bool rowless;            /* the capture keeps moments and no rows */
    qk_text_lengths lengths; /* of the run that made the results */
    json_t *warnings;        /* of the run that made the results; NULL: none is known */
    char *capture;           /* folder of the heads */
    qk__study_shape shape;
} qk__study_check;

/* Calls work->run->model_begins; i = number of models: figures. */
void qk__study_begins(const qk__study_work *work, size_t i, bool computed);

/* ---- models that are not independent (related_models.c) --------------------------------- */

qk__study_shape qk__study_shape_of(const qk_capture *capture);
/* The first model with the same weights, of which a model with results may be itself. */
size_t qk__study_twin(const qk__study_work *work, size_t i);
/* After all models: warns once of each that has the weights of another, and once of those of one shape. */
QK_MUST_CHECK qk_status qk__study_warn_of_related(qk__study_work *work, qk_error *err);

/* ---- models that are not alike (unlike_models.c) ---------------------------------------- */

/* After all models: warns of texts of different lengths, and of models that were computed otherwise than the first. */
QK_MUST_CHECK qk_status qk__study_warn_of_unlike(const qk__study_work *work, qk_error *err);

/* ---- captures on the Hub (study_fetch.c) ------------------------------------------------ */

/* Begins to fetch what model i needs, in a thread; costs nothing if it needs nothing. */
QK_MUST_CHECK qk_status qk__study_fetch_begin(qk__study_work *work, size_t i, qk_error *err);
/* Waits for the fetch. Failures are of this model, except QK_ERR_CANCELLED. */
QK_MUST_CHECK qk_status qk__study_fetch_end(qk__study_work *work, qk_error *err);
/* Whether a dry run, which fetches nothing, lacks a capture that a run would fetch. */
bool qk__study_would_fetch(const qk__study_work *work, size_t i, qk_status status);
/* Stops the fetch, if there is one. */
void qk__study_fetch_stop(qk__study_work *work);

/* ---- tables (study_tables.c) ------------------------------------------------------------ */

/* The contents of all models' tables together, for qk__has_table. */
unsigned qk__study_contents(const qk__study_work *work);

/* Combined tables, models.csv, scores.csv and schema.json of all models with results. */
QK_MUST_CHECK qk_status qk__study_write_tables(qk__study_work *work, qk_error *err);

static inline bool qk__study_has_results(const qk_study_result *result)
{
    return result->state != QK_STUDY_FAILED;
}

/* ---- what stands (study_check.c) -------------------------------------------------------- */

QK_MUST_CHECK qk_status qk__study_check_model(const qk__study_work *work, size_t i,
                                              qk__study_check *check, qk_error *err);

/* ---- manifest and figures (study_manifest.c, study_figures.c) --------------------------- */

/* output/manifest.json. It says that the folder is complete only at the end, when figures and page are there, too. */
typedef enum qk__study_stage {
    QK__STUDY_BEGUN,
    QK__STUDY_TABLES, /* tables are there: the page shows this manifest */
    QK__STUDY_DONE,
} qk__study_stage;
QK_MUST_CHECK qk_status qk__study_write_manifest(const qk__study_work *work,
                                                 qk__study_stage stage, qk_error *err);

/* In a model's folder: how its collages were drawn. */
#define QK__FIGURES_JSON "figures.json"

/* Draws the collages of model i, unless they are kept; then figures and report of all models. The outcome's report
 * counts figures that fail. */
QK_MUST_CHECK qk_status qk__study_draw(qk__study_work *work, qk_error *err);

#endif
