/* SPDX-License-Identifier: Apache-2.0 */
/* Where the numbers of a results folder come from: what the manifests of its runs say. Of a study
 * these are those of its models. */
#ifndef QK_REPORT_PROVENANCE_H
#define QK_REPORT_PROVENANCE_H

#include <stdbool.h>

#include <jansson.h>

#include <qkscope/common.h>

typedef struct qk__provenance {
    /* An entry for each run, in order; what its manifest does not say is "" there:
     * {"model", "capture", "source", "commit", "date", "host", "version"}, and "run", the run itself. The
     * source is a dataset of the Hub ("org/name", with its commit) or the folder that was read, which
     * capture always is. */
    json_t *runs;
    json_t *warnings;         /* {text: [models it is about]}, in order */
    int64_t failed_heads;     /* that could not be read or analysed */
    int64_t heads_with_files; /* of the same runs; 0: no manifest says */
    json_t *failures;         /* [{"model", "head"}], as far as manifests name them */
    double low, high; /* thresholds of the categories; NaN: no run says, or they differ */
    bool classified;  /* whether a run named thresholds */
} qk__provenance;

/* A folder without manifests, or with others, gives empty lists. */
QK_MUST_CHECK qk_status qk__provenance_read(const char *folder, qk__provenance *provenance,
                                            qk_error *err);
void qk__provenance_free(qk__provenance *provenance);

/* The capture that the runs of a model read; NULL: none is known, or there are several. */
const char *qk__provenance_capture(const qk__provenance *provenance, const char *name,
                                   const char *label);

/* The entry of a run that read it, one that made heads.csv where there is one; NULL likewise. */
const json_t *qk__provenance_run(const qk__provenance *provenance, const char *name,
                                 const char *label);

/* The run that compared its queries and keys before and after RoPE, the last of them; NULL: there is none. */
const json_t *qk__provenance_stages(const qk__provenance *provenance, const char *name,
                                    const char *label);

#endif
