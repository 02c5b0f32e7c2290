/* SPDX-License-Identifier: Apache-2.0 */
/* What a user may ask of figures: formats and themes by name. */
#include <qkscope/figure.h>

#include <assert.h>
#include <string.h>

#include "base/error.h"

static const struct {
    const char *name;
    qk_figure_format format;
} FORMATS[] = {{"png", QK_FIGURE_PNG}, {"svg", QK_FIGURE_SVG}, {"pdf", QK_FIGURE_PDF}};

static const struct {
    const char *name;
    qk_figure_theme theme;
} THEMES[] = {{"paper", QK_THEME_PAPER}, {"screen", QK_THEME_SCREEN}, {"dark", QK_THEME_DARK}};

void qk_figure_settings_default(qk_figure_settings *settings)
{
    assert(settings);
    *settings =
        (qk_figure_settings){.formats = QK_FIGURE_PNG | QK_FIGURE_SVG, .theme = QK_THEME_PAPER};
}

qk_status qk_figure_formats_parse(const char *text, unsigned *formats, qk_error *err)
{
    QK_NEED(err, text, formats);
    unsigned found = 0;
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        unsigned format = 0;
        for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
            if (strlen(FORMATS[i].name) == length &&
                strncmp(word, FORMATS[i].name, length) == 0)
                format = FORMATS[i].format;
        if (!format)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "'%.*s' is not a figure format: png, svg and pdf are",
                            (int)(length < 40 ? length : 40), word);
        if (found & format)
            return qk__fail(err, QK_ERR_ARGUMENT, "the format '%.*s' is there twice",
                            (int)length, word);
        found |= format;
        word += length;
        if (!*word)
            break;
    }
    *formats = found;
    return QK_OK;
}

qk_status qk_figure_theme_parse(const char *text, qk_figure_theme *theme, qk_error *err)
{
    QK_NEED(err, text, theme);
    for (size_t i = 0; i < sizeof THEMES / sizeof *THEMES; i++)
        if (strcmp(text, THEMES[i].name) == 0) {
            *theme = THEMES[i].theme;
            return QK_OK;
        }
    return qk__fail(err, QK_ERR_ARGUMENT, "'%.40s' is not a theme: paper, screen and dark are",
                    text);
}
