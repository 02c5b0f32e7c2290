/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a comparison, and which of them are for captures alone. */
#include <string.h>

#include "base/error.h"
#include "compare/compare.h"
#include "figure/figure_settings.h"
#include "settings/common_rows.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_compare_settings, member)

static const qk_setting ROWS[] = {
    {"a", QK_SETTING_TEXT, AT(a), .value = "A", .help = "a folder of results, or FOLDER:MODEL",
     .section = "Input", .commands = ""},
    {"b", QK_SETTING_TEXT, AT(b), .value = "B", .help = "what it is compared with",
     .section = "Input", .commands = ""},
    {"ci", QK_SETTING_PERCENT, AT(ci), .number = 95, .min = 1, .max = 99.999999,
     .value = "PERCENT", .unit = "percent",
     .help = "level of the intervals; the tables' intervals must have it, too",
     .section = "Intervals"},
    {"any-length", QK_SETTING_FLAG, AT(any_length),
     .help = "test changes and compare categories also where texts of A and B differ in length "
             "by more than a tenth",
     .section = "Comparison"},
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "DIR",
     .help = "folder for the tables", .section = "Output"},
    {"force", QK_SETTING_FLAG, AT(force),
     .help = "replace another comparison in DIR; also compare tables that were edited, with a "
             "warning",
     .section = "Output"},
    {"html", QK_SETTING_FLAG, AT(html), .number = true, .off = "no-html",
     .off_help = "only tables: neither figures nor compare.html", .section = "Output"},
    QK_SETTING_PART(qk_compare_settings, figures, qk__figure_settings_table),
    QK__THREADS_ROW(qk_compare_settings, NULL, .yaml = NULL),
};

const qk_settings_table qk_compare_settings_table = {
    QK_SETTINGS_ROWS(qk_compare_settings, ROWS)};
