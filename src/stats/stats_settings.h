/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of settings of the analyses. */
#ifndef QK_STATS_STATS_SETTINGS_H
#define QK_STATS_STATS_SETTINGS_H

#include <qkscope/settings.h>

extern const qk_settings_table qk__pca_settings_table;
extern const qk_settings_table qk__rotation_settings_table;
extern const qk_settings_table qk__plasticity_settings_table;

#endif
