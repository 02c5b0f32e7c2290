/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the files of a figure: writes its script and data, lets gnuplot draw, and moves what it
 * made to its place when every picture is there. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/number.h"
#include "base/process.h"
#include "figure/figure.h"
#include "figure/figure_note.h"

typedef struct picture_kind {
    qk_figure_format format;
    const char *ending;
    const char *end; /* what stands in the last bytes of a whole file */
} picture_kind;

static const picture_kind PICTURES[] = {{QK_FIGURE_PNG, "png", "IEND"},
                                        {QK_FIGURE_SVG, "svg", "</svg>"},
                                        {QK_FIGURE_PDF, "pdf", "%%EOF"}};
enum {
    NUM_PICTURES = sizeof PICTURES / sizeof *PICTURES,
    MAX_PREAMBLE_SERIES = 12,
    SCALE = 2,       /* of a PNG */
    PRINT_SCALE = 3, /* 300 dots an inch */
};
#define RASTER_ENDING "dat.png" /* of the image, while the figure is drawn */

/* ---- the script ------------------------------------------------------------------------- */

/* Terminals that come out alike, measured with gnuplot 5.4: type of font_size pixels, lines and
 * dashes of one length. A size of type means points of 1/96 inch, at 2/3 of their size in a
 * PDF, and pixels in an SVG. What stands beside an axis is placed by the height of a line,
 * which an SVG takes for 1.5 times its size of type and the others for 1.16 times: so a smaller
 * size and a larger scale there. Points of an SVG stay 1.4 times as large; nothing
 * scales them. The middle of an SVG's line of text is a tenth of its size too high, which the
 * variable `mid` mends as an offset of labels. */
static qk_status add_terminals(const qk__figure *figure, qk__buffer *text, qk_error *err)
{
    const qk__theme *theme = figure->theme;
    const double font = theme->font_size;
    char png_size[QK_NUMBER_SIZE], svg_size[QK_NUMBER_SIZE], pdf_size[QK_NUMBER_SIZE];
    char line[QK_NUMBER_SIZE];
    qk__format_number(0.75 * font, png_size);
    qk__format_number(0.8 * font, svg_size);
    qk__format_number(0.72 * font, pdf_size);
    qk__format_number(theme->line_width, line);
    QK_TRY(qk__buffer_printf(
        text, err,
        "if (format eq 'png') {\n"
        "  size = %s; mid = 0\n"
        "  set terminal pngcairo enhanced size %d*scale,%d*scale fontscale scale pointscale "
        "scale linewidth %s*scale dashlength 2 font sprintf('sans-serif,%%g', size) "
        "background rgb '%s'\n",
        png_size, figure->width, figure->height, line, theme->background));
    QK_TRY(
        qk__buffer_printf(text, err,
                          "} else { if (format eq 'svg') {\n"
                          "  size = %s; mid = -0.07\n"
                          "  set terminal svg enhanced size %d,%d fontscale 1.25 linewidth %s "
                          "font sprintf('sans-serif,%%g', size) background rgb '%s'\n",
                          svg_size, figure->width, figure->height, line, theme->background));
    char width[QK_NUMBER_SIZE];
    double points =
        round(figure->millimetres / 25.4 * 72); /* cairo cuts a page to whole ones */
    qk__format_number(points > 0 ? (points + 0.01) / 72 : figure->width / 100.0, width);
    return qk__buffer_printf(
        text, err,
        "} else {\n"
        "  size = %s; mid = 0\n"
        "  set terminal pdfcairo enhanced size %sin,%d.%02din fontscale 0.75 "
        "pointscale 0.735 linewidth 1.4*%s dashlength 1.33 font sprintf('sans-serif,%%g', "
        "size) "
        "background rgb '%s'\n}}\n",
        pdf_size, width, figure->height / 100, figure->height % 100, line, theme->background);
}

/* What is to be an image is drawn first, on a page of its own. */
static qk_status add_image_script(const qk__figure *figure, qk__buffer *text, qk_error *err)
{
    char line[QK_NUMBER_SIZE];
    if (figure->raster.size == 0)
        return QK_OK;
    qk__format_number(figure->theme->line_width, line);
    QK_TRY(qk__buffer_printf(
        text, err,
        "raster = format eq 'svg'%s\n"
        "if (raster) {\n"
        "dots = %d\nraster_w = dots*%d; raster_h = dots*%d\n"
        "set terminal pngcairo size raster_w,raster_h pointscale dots linewidth dots*%s "
        "background rgb '%s'\n"
        "set output data.'.png'\nunset key; unset border; unset xtics; unset ytics\n"
        "set multiplot\n",
        figure->raster_pdf ? " || format eq 'pdf'" : "",
        figure->millimetres > 0 ? PRINT_SCALE : SCALE, figure->width, figure->height, line,
        figure->theme->background));
    QK_TRY(qk__buffer_append(text, figure->raster.data, figure->raster.size, err));
    return qk__buffer_printf(text, err, "unset multiplot\nset output\nreset\n}\n");
}

/* gnuplot's own format of tics is "% h": the space before a number that has no sign moves a
 * centred label of an SVG half a space to the right of its tic. */
static qk_status add_theme(const qk__theme *theme, qk__buffer *text, qk_error *err)
{
    QK_TRY(qk__buffer_printf(text, err,
                             "set border 3 lc rgb '%s' lw 0.8\n"
                             "set tics nomirror out scale 0.5 tc rgb '%s'\nset format '%%h'\n"
                             "set ytics offset 0,mid\n"
                             "set grid lc rgb '%s' lt 1 lw 0.5 front\nunset grid\n"
                             "set title tc rgb '%s'\nset xlabel tc rgb '%s'\n"
                             "set ylabel tc rgb '%s'\nset cblabel tc rgb '%s'\n"
                             "set key tc rgb '%s' noautotitle Left reverse samplen 1.5\n"
                             "set minussign\n",
                             theme->muted, theme->ink, theme->grid, theme->ink, theme->ink,
                             theme->ink, theme->ink, theme->ink));
    for (int i = 0; i < MAX_PREAMBLE_SERIES; i++)
        QK_TRY(qk__buffer_printf(text, err, "set style line %d lc rgb '%s' lt 1 lw 1.5 pt %d\n",
                                 i + 1, qk__series_color(theme, i), qk__series_point(i)));
    return qk__buffer_printf(text, err,
                             "set style line 101 lc rgb '%s' lt 1 lw 1.8 pt 7\n"
                             "set style line 102 lc rgb '%s' lt 1 lw 1.8 pt 5\n"
                             "set style line 103 lc rgb '%s' lt 1 lw 0.8 dt (8,6)\n",
                             theme->q, theme->k, theme->muted);
}

static qk_status make_script(const qk__figure *figure, qk__buffer *text, qk_error *err)
{
    QK_TRY(qk__buffer_printf(text, err,
                             "# Drawn by qkscope. In this folder,\n"
                             "#     gnuplot %s.gp\n"
                             "# draws it again as PNG, and gnuplot -e \"format='svg'\" (or "
                             "'pdf') %s.gp as the others.\n"
                             "if (!exists('format')) format = 'png'\n"
                             "if (!exists('scale')) scale = %d # of the PNG\n"
                             "data = '%s.dat'\nset encoding utf8\n",
                             figure->name, figure->name,
                             figure->millimetres > 0 ? PRINT_SCALE : SCALE, figure->name));
    QK_TRY(add_image_script(figure, text, err));
    QK_TRY(add_terminals(figure, text, err));
    QK_TRY(qk__buffer_printf(text, err, "set output '%s.'.format\n", figure->name));
    QK_TRY(add_theme(figure->theme, text, err));
    QK_TRY(qk__figure_define_texts(figure, text, err));
    QK_TRY(qk__buffer_append(text, figure->script.data, figure->script.size, err));
    return qk__buffer_printf(text, err, "set output\n");
}

/* ---- the staging folder ----------------------------------------------------------------- */

static void name_part(const char *figure, const char *ending, char name[160])
{
    snprintf(name, 160, "%s.%s", figure, ending);
}

/* To free; NULL: no memory. */
static char *part_path(const char *folder, const char *figure, const char *ending)
{
    char name[160];
    name_part(figure, ending, name);
    return qk__path_join(folder, name);
}

static qk_status write_part(const char *folder, const qk__figure *figure, const char *ending,
                            const qk__buffer *contents, qk_error *err)
{
    char *path = part_path(folder, figure->name, ending);
    qk_status status =
        path ? qk__write_file(path, contents->data, contents->size, err) : qk__nomem(err);
    free(path);
    return status;
}

/* Moves a part of the figure to its place; of one that is not there an older one goes. */
static qk_status settle_part(const char *staging, const char *folder, const char *figure,
                             const char *ending, qk_error *err)
{
    char name[160];
    name_part(figure, ending, name);
    char *from = qk__path_join(staging, name);
    char *to = qk__path_join(folder, name);
    qk_status status = QK_OK;
    if (!from || !to)
        status = qk__nomem(err);
    else if (!qk__is_file(from))
        status = qk__remove_file(folder, name, err);
    else if (rename(from, to) != 0)
        status =
            qk__fail(err, QK_ERR_IO, "cannot put '%s' in its place: %s", to, strerror(errno));
    free(from);
    free(to);
    return status;
}

/* The note likewise, but what somebody else has written under its name stays. */
static qk_status settle_note(const char *staging, const char *folder, const char *figure,
                             qk_error *err)
{
    char *path = part_path(folder, figure, "md");
    bool foreign = false;
    qk_status status = path ? qk__note_look(path, &foreign, err) : qk__nomem(err);
    free(path);
    if (status == QK_OK && !foreign)
        status = settle_part(staging, folder, figure, "md", err);
    return status;
}

/* The script goes first and comes last: whoever finds one finds all it needs, of one drawing.
 * */
qk_status qk__figure_settle(const char *figure, const char *staging, const char *folder,
                            qk_error *err)
{
    char script[160];
    name_part(figure, "gp", script);
    QK_TRY(qk__remove_file(folder, script, err));
    qk_status status = settle_note(staging, folder, figure, err);
    if (status == QK_OK)
        status = settle_part(staging, folder, figure, "dat", err);
    if (status == QK_OK) /* what drawing by hand has left */
        status = settle_part(staging, folder, figure, RASTER_ENDING, err);
    for (int i = 0; i < NUM_PICTURES && status == QK_OK; i++)
        status = settle_part(staging, folder, figure, PICTURES[i].ending, err);
    return status == QK_OK ? settle_part(staging, folder, figure, "gp", err) : status;
}

/* What gnuplot may be at fault for; all else that keeps a figure from its file is the disk's. */
#define ENDED   "gnuplot ended with"
#define MADE_NO "gnuplot made no"

bool qk__is_unwritten(qk_status status, const char *message)
{
    return status == QK_ERR_IO && message && !strstr(message, ENDED) &&
           !strstr(message, MADE_NO);
}

/* ---- gnuplot ---------------------------------------------------------------------------- */

/* Fontconfig's complaints about its cache, and what gnuplot says where the user's locale has no
 * degree sign (we use none), are no faults. */
static bool is_harmless(const char *line)
{
    return strncmp(line, "Fontconfig", 10) == 0 || strstr(line, "convert degree sign");
}

/* The last line that says something, cut out of the messages: gnuplot shows the command, a
 * caret, and then says what is wrong. */
static const char *last_message(qk__buffer *messages)
{
    const char *last = NULL;
    char *line = (char *)messages->data;
    while (line && *line) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        line += strspn(line, " \t\r^");
        if (*line && !is_harmless(line))
            last = line;
        line = end ? end + 1 : NULL;
    }
    return last;
}

/* Long names leave little room for a plot, or a range is a single value: gnuplot says so and
 * draws what it can, and a picture is better than none. */
static bool is_warning(const char *message)
{
    return strstr(message, "warning:") || strstr(message, "Warning:") ||
           strstr(message, "WARNING **");
}

/* Whether the file ends as such a file should: gnuplot does not notice a full disk. */
static qk_status check_picture(const qk__figure *figure, const char *staging,
                               const picture_kind *picture, qk_error *err)
{
    char *path = part_path(staging, figure->name, picture->ending), last[17] = "";
    if (!path)
        return qk__nomem(err);
    FILE *file = fopen(path, "rbe");
    size_t got = 0;
    free(path);
    if (!file)
        return qk__fail(err, QK_ERR_IO, MADE_NO " %s", picture->ending);
    if (fseek(file, -(long)(sizeof last - 1), SEEK_END) == 0)
        got = fread(last, 1, sizeof last - 1, file);
    fclose(file);
    for (size_t i = 0; i < got; i++)
        if (strncmp(last + i, picture->end, strlen(picture->end)) == 0)
            return QK_OK;
    return qk__fail(err, QK_ERR_IO, "gnuplot made only a part of the %s (is the disk full?)",
                    picture->ending);
}

/* An SVG is as wide as was asked for, and its pixels are hundredths of an inch as in a PDF.
 * gnuplot writes its size in pixels only. */
static qk_status give_size(const qk__figure *figure, const char *staging, qk_error *err)
{
    qk__buffer svg = {0}, sized = {0};
    char pixels[64];
    int length = snprintf(pixels, sizeof pixels, "width=\"%d\" height=\"%d\"", figure->width,
                          figure->height);
    char *path = part_path(staging, figure->name, "svg");
    qk_status status = path ? qk__read_file(path, SIZE_MAX / 2, &svg, err) : qk__nomem(err);
    const char *text = (const char *)svg.data, *at = text ? strstr(text, pixels) : NULL;
    if (at) {
        status = qk__buffer_append(&sized, text, (size_t)(at - text), err);
        if (status == QK_OK)
            status = qk__buffer_printf(&sized, err, "width=\"%gmm\" height=\"%.2fmm\"",
                                       figure->millimetres,
                                       figure->millimetres * figure->height / figure->width);
        if (status == QK_OK)
            status = qk__buffer_append(&sized, at + length,
                                       svg.size - (size_t)(at + length - text), err);
        if (status == QK_OK)
            status = write_part(staging, figure, "svg", &sized, err);
    }
    qk__buffer_free(&svg);
    qk__buffer_free(&sized);
    free(path);
    return status;
}

static qk_status draw_picture(const qk__figure *figure, const char *staging,
                              const char *gnuplot, const picture_kind *picture, qk_error *err)
{
    char script[170], format[32];
    snprintf(script, sizeof script, "./%s.gp", figure->name);
    snprintf(format, sizeof format, "format='%s'", picture->ending);
    const char *argv[] = {gnuplot, "-d", "-e", format, script, NULL};
    qk__buffer messages = {0};
    int exit_code = 0;
    const qk__program program = {.argv = argv, .directory = staging, .hidden = "GNUTERM"};
    qk_status status = qk__process_run(&program, &messages, &exit_code, err);
    if (status == QK_ERR_NOT_FOUND)
        status =
            qk__fail(err, QK_ERR_NOT_FOUND,
                     "gnuplot is needed to draw figures and '%s' was not found: install the "
                     "package gnuplot-nox, or gnuplot",
                     gnuplot);
    if (status == QK_OK)
        status = qk__buffer_append(&messages, "", 1, err);
    if (status == QK_OK) {
        const char *message = last_message(&messages);
        if (exit_code == 128 + SIGXFSZ)
            status = qk__fail(err, QK_ERR_IO, "the %s may not become as large as it has to",
                              picture->ending);
        else if (exit_code != 0 || (message && !is_warning(message)))
            status = qk__fail(err, QK_ERR_IO, ENDED " %d: %s", exit_code,
                              message ? message : "(no message)");
        else
            status = check_picture(figure, staging, picture, err);
    }
    qk__buffer_free(&messages);
    return status;
}

static qk_status draw_in(const qk__figure *figure, const char *staging, const char *folder,
                         const qk_figure_settings *settings, qk_error *err)
{
    qk__buffer script = {0};
    qk_status status = make_script(figure, &script, err);
    if (status == QK_OK)
        status = write_part(staging, figure, "gp", &script, err);
    if (status == QK_OK)
        status = write_part(staging, figure, "dat", &figure->data, err);
    if (status == QK_OK && figure->note.size > 0)
        status = write_part(staging, figure, "md", &figure->note, err);
    for (int i = 0; i < NUM_PICTURES && status == QK_OK; i++)
        if (settings->formats & PICTURES[i].format)
            status =
                draw_picture(figure, staging, settings->gnuplot ? settings->gnuplot : "gnuplot",
                             &PICTURES[i], err);
    if (status == QK_OK && figure->millimetres > 0 && (settings->formats & QK_FIGURE_SVG))
        status = give_size(figure, staging, err);
    qk__buffer_free(&script);
    char image[160]; /* which has done its work */
    name_part(figure->name, RASTER_ENDING, image);
    if (status == QK_OK)
        status = qk__remove_file(staging, image, err);
    return status == QK_OK ? qk__figure_settle(figure->name, staging, folder, err) : status;
}

bool qk__is_figure_name(const char *name)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *name && *name != '.' && name[strspn(name, plain)] == '\0';
}

qk_status qk__figure_draw(qk__figure *figure, const char *folder,
                          const qk_figure_settings *settings, qk_error *err)
{
    if (figure->status != QK_OK) {
        if (err)
            *err = figure->err;
        return qk__context(err, figure->status, "figure %s", figure->name);
    }
    if (!qk__is_figure_name(figure->name))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "'%s' cannot name a figure: a name has only letters, digits and . _ -",
                        figure->name);
    char *staging;
    QK_TRY(qk__make_dirs(folder, err));
    qk_status status = qk__stage_below(folder, "", figure->name, &staging, err);
    if (status == QK_OK) {
        status = draw_in(figure, staging, folder, settings, err);
        qk__remove_staging(staging);
    }
    free(staging);
    return status == QK_OK ? QK_OK : qk__context(err, status, "figure %s", figure->name);
}
