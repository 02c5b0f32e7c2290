/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json of a results folder: whether the folder is complete, and which run wrote which
 * table.
 *
 * While tables take their places the manifest says "complete": false and lists the runs whose
 * tables are not touched. So with a complete manifest the tables of its runs are complete. */
#ifndef QK_TABLES_MANIFEST_H
#define QK_TABLES_MANIFEST_H

#include <stdbool.h>

#include <jansson.h>
#include <qkscope/analysis.h>
#include <qkscope/common.h>

#define QK__MANIFEST_NAME "manifest.json"

typedef struct qk__manifest {
    json_t *root; /* NULL: no manifest, or a foreign one */
    /* array, oldest first; belongs to root. NULL: a study's manifest, or not known */
    json_t *runs;
    bool is_study, is_comparison;
    bool complete; /* false only where the manifest says so */
    bool broken;   /* a file of that name is no JSON or too long, and nothing is known */
    qk_error why;  /* of a broken manifest: the file and its fault */
} qk__manifest;

/* A folder without a manifest is fine, and so is a foreign file of that name; fails for a manifest that cannot be
 * read. The manifest of a version with one run is read as a list of that run, which wrote every table in the folder. */
QK_MUST_CHECK qk_status qk__manifest_read(qk__manifest *manifest, const char *folder,
                                          qk_error *err);
void qk__manifest_free(qk__manifest *manifest);

/* How many heads failed in the run where most did, and the first of them; of a study 0. */
size_t qk__manifest_failures(const qk__manifest *manifest, const char **first);

/* The run that wrote a table; NULL: no listed run. */
const json_t *qk__manifest_owner(const qk__manifest *manifest, const char *table);

/* QK_ERR_INCONSISTENT for a table that no run wrote. */
QK_MUST_CHECK qk_status qk__manifest_check_owner(const qk__manifest *manifest,
                                                 const char *folder, const char *table,
                                                 qk_error *err);

/* What has changed since the manifest was written, an array of texts that begin with a table's name: missing tables,
 * and tables with other contents. Manifests of version 0.1.0 say nothing of contents. */
QK_MUST_CHECK qk_status qk__manifest_changes(const qk__manifest *manifest, const char *folder,
                                             json_t **changes, qk_error *err);

/* QK_ERR_INCONSISTENT, with the remedy, where the folder is not complete, holds tables of two captures, or has a
 * broken manifest. */
QK_MUST_CHECK qk_status qk__manifest_check(const qk__manifest *manifest, const char *folder,
                                           qk_error *err);
/* The same where a table has changed. */
QK_MUST_CHECK qk_status qk__manifest_verify(const qk__manifest *manifest, const char *folder,
                                            qk_error *err);

/* The same for one table. */
QK_MUST_CHECK qk_status qk__manifest_verify_table(const qk__manifest *manifest,
                                                  const char *folder, const char *table,
                                                  qk_error *err);

/* Whether all files that both runs read are equal; *file is the first that differs, else NULL. */
bool qk__same_capture(const json_t *run, const json_t *other, const char **file);

/* Layers of a run's model; 0: not known. */
int qk__manifest_layers(const qk__manifest *manifest, const char *model);
/* Lengths of the texts of a model, by its last run that has them. */
qk_text_lengths qk__manifest_lengths(const qk__manifest *manifest, const char *model);
/* Thresholds of the categories, low and high, where none are found yet; NaN where others were found. */
void qk__manifest_limits(const qk__manifest *manifest, double limits[2], bool *found);
/* Query heads of an ablation's model, in all layers; 0: not known. */
int qk__manifest_query_heads(const qk__manifest *manifest);

#endif
