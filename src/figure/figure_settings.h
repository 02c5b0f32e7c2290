/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what a user may ask of figures. */
#ifndef QK_FIGURE_FIGURE_SETTINGS_H
#define QK_FIGURE_FIGURE_SETTINGS_H

#include <qkscope/settings.h>

extern const qk_settings_table qk__figure_settings_table;
extern const qk_word qk__figure_formats[];

#endif
