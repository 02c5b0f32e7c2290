/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of figures: formats and themes by name. */
#include "figure/figure_settings.h"

#include <qkscope/report.h>

#include "base/error.h"
#include "settings/common_rows.h"
#include "settings/settings.h"

const qk_word qk__figure_formats[] = {
    {"png", QK_FIGURE_PNG}, {"svg", QK_FIGURE_SVG}, {"pdf", QK_FIGURE_PDF}, {0}};

static const qk_word THEMES[] = {
    {"paper", QK_THEME_PAPER}, {"screen", QK_THEME_SCREEN}, {"dark", QK_THEME_DARK}, {0}};

static const qk_setting ROWS[] = {
    {"format", QK_SETTING_SET, QK_SETTING_AT(qk_figure_settings, formats),
     .number = QK_FIGURE_SVG, .words = qk__figure_formats, .value = "LIST",
     .help = "pictures beside each SVG: png, pdf or both (by rsvg-convert)",
     .section = "Figures", .yaml = "figures.formats"},
    {"theme", QK_SETTING_CHOICE, QK_SETTING_AT(qk_figure_settings, theme),
     .number = QK_THEME_PAPER, .words = THEMES, .help = "colours and fonts of the figures",
     .section = "Figures", .yaml = "figures.theme"},
    {"width", QK_SETTING_INTEGER, QK_SETTING_AT(qk_figure_settings, width), .min = 60,
     .max = 400, .value = "MM", .unit = "mm",
     .help = "page width, e.g. 85mm or 170mm for one or two columns of a journal; type keeps "
             "its size, and a PNG has 300 dots an inch",
     .unset = "each figure's own", .section = "Figures", .yaml = "figures.width",
     .traits = QK_SETTING_ZERO_IS_NULL},
    {"no-title", QK_SETTING_FLAG, QK_SETTING_AT(qk_figure_settings, no_title),
     .help = "no heading, for a paper whose caption says it", .section = "Figures",
     .yaml = "figures.no_title"},
    {"no-legend", QK_SETTING_FLAG, QK_SETTING_AT(qk_figure_settings, no_legend),
     .help = "no legend, for a paper whose caption says it", .section = "Figures",
     .yaml = "figures.no_legend"},
    {"symbols", QK_SETTING_FLAG, QK_SETTING_AT(qk_figure_settings, symbols),
     .help = "symbols instead of words in labels and legends, where there are any: r_q, AP",
     .section = "Figures", .yaml = "figures.symbols"},
};

const qk_settings_table qk__figure_settings_table = {
    QK_SETTINGS_ROWS(qk_figure_settings, ROWS)};

void qk__figure_settings_default(qk_figure_settings *settings)
{
    qk_settings_default(&qk__figure_settings_table, settings);
}

static qk_status parse_setting(const qk_setting *row, const char *text, void *value,
                               qk_error *err)
{
    qk_status status = qk__setting_parse(row, value, text, NULL, err);
    return status == QK_OK ? status : qk__context(err, status, "'%.40s'", text);
}

qk_status qk__figure_formats_parse(const char *text, unsigned *formats, qk_error *err)
{
    QK_NEED(err, text, formats);
    return parse_setting(&ROWS[0], text, formats, err);
}

qk_status qk__figure_theme_parse(const char *text, qk_figure_theme *theme, qk_error *err)
{
    QK_NEED(err, text, theme);
    return parse_setting(&ROWS[1], text, theme, err);
}
