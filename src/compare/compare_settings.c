/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings of a comparison. */
#include "compare/compare.h"
#include "figure/figure_settings.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_compare_settings, member)

_Static_assert((int)QK_MAX_SUBSPACE == (int)QK_MOST_SUBSPACE, "the same");

static const qk_setting ROWS[] = {
    {"a", QK_SETTING_TEXT, AT(a), .value = "A", .help = "results, or a capture",
     .section = "Input", .commands = ""},
    {"b", QK_SETTING_TEXT, AT(b), .value = "B", .help = "what it is compared with",
     .section = "Input", .commands = ""},
    {"ci", QK_SETTING_PERCENT, AT(ci), .number = 95, .min = 1, .max = 99.999999,
     .value = "PERCENT", .unit = "percent",
     .help = "level of the intervals; those of tables must be of it", .section = "Intervals"},
    {"subspace", QK_SETTING_INTEGER, AT(subspace), .number = 3, .min = 1,
     .max = QK_MAX_SUBSPACE, .value = "K",
     .help = "of captures: angles between the spaces of the first K components",
     .section = "Comparison"},
    {"plasticity", QK_SETTING_FLAG, AT(plasticity), .number = true, .off = "no-plasticity",
     .off_help = "of captures: leave plasticity out, which takes longest",
     .section = "Comparison"},
    {"html", QK_SETTING_FLAG, AT(html), .number = true, .off = "no-html",
     .off_help = "tables alone: neither figures nor compare.html", .section = "Output"},
    QK_SETTING_PART(qk_compare_settings, figures, qk__figure_settings_table),
    QK_SETTING_PART(qk_compare_settings, input, qk_analysis_settings_table),
};

const qk_settings_table qk_compare_settings_table = {
    QK_SETTINGS_ROWS(qk_compare_settings, ROWS)};

void qk_compare_settings_default(qk_compare_settings *settings)
{
    qk__settings_default(&qk_compare_settings_table, settings);
}
