/* SPDX-License-Identifier: Apache-2.0 */
/* How figures are drawn: formats, theme, which gnuplot.
 *
 * Every figure NAME leaves NAME.gp and NAME.dat beside its pictures: `gnuplot NAME.gp` in that
 * folder draws it again, so that a figure can be restyled for a paper. docs/gallery.md */
#ifndef QKSCOPE_FIGURE_H
#define QKSCOPE_FIGURE_H

#include <stdbool.h>

#include <qkscope/status.h>

QK_BEGIN_DECLS

typedef enum qk_figure_format {
    QK_FIGURE_PNG = 1 << 0, /* at twice the nominal size */
    QK_FIGURE_SVG = 1 << 1,
    QK_FIGURE_PDF = 1 << 2,
} qk_figure_format;

typedef enum qk_figure_theme {
    QK_THEME_PAPER,  /* white, thin lines, small type */
    QK_THEME_SCREEN, /* white, larger type: slides */
    QK_THEME_DARK,   /* dark background */
} qk_figure_theme;

typedef struct qk_figure_settings {
    unsigned formats; /* sum of qk_figure_format */
    qk_figure_theme theme;
    const char *gnuplot; /* program, looked for in PATH; NULL = "gnuplot" */
    int threads;         /* figures drawn at once; 0 = all processors */
} qk_figure_settings;

/* PNG and SVG, paper. */
QK_API void qk_figure_settings_default(qk_figure_settings *settings);

/* "png,svg,pdf": any of them, each once; QK_ERR_ARGUMENT names what is not one. */
QK_API QK_MUST_CHECK qk_status qk_figure_formats_parse(const char *text, unsigned *formats,
                                                       qk_error *err);
/* "paper", "screen" or "dark". */
QK_API QK_MUST_CHECK qk_status qk_figure_theme_parse(const char *text, qk_figure_theme *theme,
                                                     qk_error *err);

/* The ramps of the figures, matplotlib's. */
typedef enum qk_ramp { QK_RAMP_BLUES, QK_RAMP_REDS, QK_RAMP_MAGMA } qk_ramp;

/* The ramp's colour at x (0..1, clamped); returns whether white text is easier to read on it
 * than black. */
QK_API bool qk_ramp_color(qk_ramp ramp, double x, unsigned char rgb[3]);

QK_END_DECLS

#endif
