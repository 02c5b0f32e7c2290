/* SPDX-License-Identifier: Apache-2.0 */
/* The notes beside the figures of a report. */
#ifndef QK_REPORT_FIGURE_NOTES_H
#define QK_REPORT_FIGURE_NOTES_H

#include "figure/catalog.h"
#include "report/findings.h"

typedef struct qk__note_places {
    const qk_report_settings *settings; /* with the formats that were drawn */
    const qk_settings_table *table;     /* of the settings */
    const char *figures, *staging;      /* where the figures go to, and where they are now */
    size_t checkpoints;                 /* of the study; 0: it has models, not checkpoints */
} qk__note_places;

/* Writes NAME.md beside every figure that was drawn: what the catalog says of the figure, the command that draws it,
 * and the findings that the figure shows. */
QK_MUST_CHECK qk_status qk__figure_notes_write(const qk__note_places *places,
                                               const qk__drawn_list *drawn,
                                               const qk__findings *findings, qk_error *err);

#endif
