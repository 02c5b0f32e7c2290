/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifests of the runs in a results folder say; a study has the runs of all its models. */
#ifndef QK_REPORT_MANIFESTS_H
#define QK_REPORT_MANIFESTS_H

#include <stdbool.h>

#include <jansson.h>

#include <qkscope/common.h>

typedef struct qk__manifests {
    /* An entry for each run, in order: {"model", "capture", "source", "commit", "date", "host", "version"},
     * "" for what its manifest does not say, and "run", the run itself. "capture" is the folder that was
     * read, "source" a dataset of the Hub ("org/name", with its commit) or that folder. */
    json_t *runs;
    json_t *warnings;         /* {text: [models it is about]}, in order */
    int64_t failed_heads;     /* heads that could not be read or analysed */
    int64_t heads_with_files; /* heads in the files of these runs; 0: no manifest says */
    json_t *failures;         /* [{"model", "head"}], as far as manifests name them */
} qk__manifests;

/* A folder without manifests, or with others, gives empty lists. */
QK_MUST_CHECK qk_status qk__manifests_read(const char *folder, qk__manifests *manifests,
                                           qk_error *err);
void qk__manifests_free(qk__manifests *manifests);

/* The capture that the runs of a model read; NULL: none is known, or there are several. */
const char *qk__manifests_capture(const qk__manifests *manifests, const char *name,
                                  const char *label);

/* The entry of a run that read this capture, if possible of one that made heads.csv; NULL: as above. */
const json_t *qk__manifests_run(const qk__manifests *manifests, const char *name,
                                const char *label);

/* The last run that compared its queries and keys before and after RoPE; NULL: there is none. */
const json_t *qk__manifests_stages(const qk__manifests *manifests, const char *name,
                                   const char *label);

#endif
