/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a report into a folder that the caller has claimed (base/folder.h). */
#ifndef QK_REPORT_REPORT_H
#define QK_REPORT_REPORT_H

#include <qkscope/report.h>

#include "results/results.h"

/* qk_report_write in a folder that the caller holds, and may know not to be complete yet.
 * results:
 * what the folder says, where the caller has read it; NULL: it is read. */
QK_MUST_CHECK qk_status qk__report_make(const qk_report_settings *settings,
                                        const qk__results *results, qk_report_outcome **outcome,
                                        qk_error *err);

#endif
