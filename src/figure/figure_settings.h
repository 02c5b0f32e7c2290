/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the settings of figures. */
#ifndef QK_FIGURE_FIGURE_SETTINGS_H
#define QK_FIGURE_FIGURE_SETTINGS_H

#include <qkscope/report.h>

extern const qk_settings_table qk__figure_settings_table;
extern const qk_word qk__figure_formats[];

/* SVG, paper. */
void qk__figure_settings_default(qk_figure_settings *settings);

/* "svg,png,pdf": any of them, each once; QK_ERR_ARGUMENT names an unknown word. */
QK_MUST_CHECK qk_status qk__figure_formats_parse(const char *text, unsigned *formats,
                                                 qk_error *err);
/* "paper", "screen" or "dark". */
QK_MUST_CHECK qk_status qk__figure_theme_parse(const char *text, qk_figure_theme *theme,
                                               qk_error *err);

#endif
