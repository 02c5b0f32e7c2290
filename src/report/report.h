/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a report into a folder that the caller has claimed (base/folder.h). */
#ifndef QK_REPORT_REPORT_H
#define QK_REPORT_REPORT_H

#include <qkscope/report.h>

#define QK__PAGE_NAME "report.html"

/* qk_report_write in a folder that the caller holds; the folder may be incomplete still. */
QK_MUST_CHECK qk_status qk__report_make(const qk_report_settings *settings,
                                        qk_report_outcome **outcome, qk_error *err);

#endif
