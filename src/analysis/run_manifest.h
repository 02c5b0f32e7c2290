/* SPDX-License-Identifier: Apache-2.0 */
/* What manifest.json says of a run, and parts of it for comparisons with an earlier run. NULL when out of memory. */
#ifndef QK_ANALYSIS_RUN_MANIFEST_H
#define QK_ANALYSIS_RUN_MANIFEST_H

#include <jansson.h>

#include "analysis/run.h"

/* The entry of a run, without its tables. */
json_t *qk__describe_run(const qk__run *run);
/* "settings" */
json_t *qk__describe_settings(const qk_analysis_settings *settings);
/* "group" */
json_t *qk__describe_group(const qk_group *group);
/* "capture_json": null where there is none */
json_t *qk__describe_capture_json(const qk__run *run);
/* "file" of an entry of "inputs": its path relative to the capture, so that the list does not depend on where that is;
 * of a packed file "l00q/data.parquet#3", the part of head 3. A new string, NULL when out of memory. */
char *qk__input_name(const qk__run *run, const qk__input *input);
/* The file of this name in the run's capture; false: there is none. */
bool qk__input_find(const qk__run *run, const char *name, qk__input *input);
/* Its current size and, if asked for, fingerprint. */
QK_MUST_CHECK qk_status qk__input_print(const qk__input *input, bool hash,
                                        qk__file_print *print);

#endif
