/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings of a comparison, and which of them are of captures alone. */
#include <string.h>

#include "base/error.h"
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
    {"any-length", QK_SETTING_FLAG, AT(any_length),
     .help = "test changes and compare categories also where texts of A and B differ in length "
             "by more than a tenth",
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

/* ---- what is of captures alone ---------------------------------------------------------- */

typedef struct looking {
    const char *settings, *plain; /* both structs, byte by byte */
    const qk_setting *found;      /* the first that was given */
} looking;

static void look_at_setting(void *user, const qk_setting *row, const void *member)
{
    static const char *const NAMES[] = {
        "subspace", "plasticity",  "revision",      "q-per-kv-group", "layers",
        "heads",    "max-samples", "from-position", "taxonomy-low",   "taxonomy-high"};
    enum { LONGEST = 1024 };
    looking *l = user;
    bool named = false;
    for (size_t i = 0; row->name && i < sizeof NAMES / sizeof *NAMES; i++)
        named = named || strcmp(NAMES[i], row->name) == 0;
    if (l->found || !named)
        return;
    char is[LONGEST], was[LONGEST];
    const char *plain = l->plain + ((const char *)member - l->settings);
    qk__setting_format(row, member, is, sizeof is);
    qk__setting_format(row, plain, was, sizeof was);
    if (strcmp(is, was) != 0)
        l->found = row;
}

qk_status qk__compare_refuse_settings(const qk_compare_settings *settings, qk_error *err)
{
    qk_compare_settings plain;
    qk_compare_settings_default(&plain);
    looking l = {(const char *)settings, (const char *)&plain, NULL};
    qk__settings_each(&qk_compare_settings_table, settings, look_at_setting, &l);
    if (!l.found)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "--%s is for captures: a and b are folders of results, whose numbers are "
                    "compared as they are; leave it out, or give the captures",
                    l.found->off ? l.found->off : l.found->name);
}
