/* SPDX-License-Identifier: Apache-2.0 */
/* run.json of an unfinished capture: what the run is, and all that it takes to put the capture together. */
#ifndef QK_SINK_RUN_FILE_H
#define QK_SINK_RUN_FILE_H

#include "sink/sink.h"

typedef struct qk__run_file {
    json_t *root;
    json_t *identity; /* within root */
    bool replaces;    /* begun with `force` */
    /* As the sink was opened, without output, shard, context and strings of tokens. */
    qk_sink_settings settings;
    bool *q_heads, *k_heads;
    int64_t *windows;
    qk_frequencies *frequencies;
    double *values; /* of the frequencies */
    char *run;
    const char *ids_hash; /* "": the run did not know the ids of its texts */
} qk__run_file;

QK_MUST_CHECK qk_status qk__run_write(const qk_sink *sink, qk_error *err);

/* *found is false where there is no .partial folder, or no run.json in it. file is to be freed after a failure, too. */
QK_MUST_CHECK qk_status qk__run_read(qk__run_file *file, const char *partial, bool *found,
                                     qk_error *err);
void qk__run_free(qk__run_file *file);

#endif
