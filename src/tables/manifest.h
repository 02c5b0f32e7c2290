/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json of a results folder: whether the folder is complete, and which run wrote which
 * table.
 *
 * While tables take their places the manifest says "complete": false and lists the runs whose
 * tables are not touched. So whoever finds a complete one finds the tables of its runs, whole. */
#ifndef QK_TABLES_MANIFEST_H
#define QK_TABLES_MANIFEST_H

#include <stdbool.h>

#include <jansson.h>
#include <qkscope/analysis.h>
#include <qkscope/common.h>

#define QK__MANIFEST_NAME "manifest.json"

typedef struct qk__manifest {
    json_t *root; /* NULL: no manifest, or none of ours */
    json_t *runs; /* array, oldest first; belongs to root. NULL: of a study, or not known */
    bool is_study, is_comparison;
    bool complete; /* false only where the manifest says so */
    bool broken;  /* a file of that name is not JSON, or too much of it, and nothing is known */
    qk_error why; /* of a broken one: the file and what is wrong */
} qk__manifest;

/* A folder without a manifest is fine, and so is a file of that name that is no manifest; fails for one that cannot be
 * read. The manifest of a
 * version that knew one run is read as a list of that one, which wrote every table in the
 * folder. */
QK_MUST_CHECK qk_status qk__manifest_read(qk__manifest *manifest, const char *folder,
                                          qk_error *err);
void qk__manifest_free(qk__manifest *manifest);

/* The run that wrote a table; NULL: none that is listed. */
const json_t *qk__manifest_owner(const qk__manifest *manifest, const char *table);

/* A table that came from elsewhere must not be taken for one of the runs: QK_ERR_INCONSISTENT. */
QK_MUST_CHECK qk_status qk__manifest_check_owner(const qk__manifest *manifest,
                                                 const char *folder, const char *table,
                                                 qk_error *err);

/* What is no more as the manifest says, an array of texts that begin with the table's name:
 * tables that are missing, and those with other contents. Manifests of version 0.1.0 say
 * nothing of contents. */
QK_MUST_CHECK qk_status qk__manifest_changes(const qk__manifest *manifest, const char *folder,
                                             json_t **changes, qk_error *err);

/* QK_ERR_INCONSISTENT, with the remedy, where the folder is not complete, or holds tables of
 * two captures, or a manifest that is broken. */
QK_MUST_CHECK qk_status qk__manifest_check(const qk__manifest *manifest, const char *folder,
                                           qk_error *err);
/* The same where a table is not as the manifest says. */
QK_MUST_CHECK qk_status qk__manifest_verify(const qk__manifest *manifest, const char *folder,
                                            qk_error *err);

/* The same of one table. */
QK_MUST_CHECK qk_status qk__manifest_verify_table(const qk__manifest *manifest,
                                                  const char *folder, const char *table,
                                                  qk_error *err);

/* Whether no file that both runs read differs; *file is the first that does, else NULL. */
bool qk__same_capture(const json_t *run, const json_t *other, const char **file);

/* Layers of the model of a run; 0: not known. */
int qk__manifest_layers(const qk__manifest *manifest, const char *model);
/* Lengths of the texts of a run of a model, the latest that tells them. */
qk_text_lengths qk__manifest_lengths(const qk__manifest *manifest, const char *model);
/* Query heads of the model of an ablation, in all layers; 0: not known. */
int qk__manifest_query_heads(const qk__manifest *manifest);

#endif
