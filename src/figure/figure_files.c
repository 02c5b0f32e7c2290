/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the files of a figure in a hidden folder, has rsvg-convert make other pictures from the SVG, and moves all to
 * their places when each is there. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/process.h"
#include "figure/figure.h"
#include "figure/figure_note.h"

typedef struct picture_kind {
    qk_figure_format format;
    const char *ending;
    const char *end; /* the last bytes of a complete file */
} picture_kind;

static const picture_kind PICTURES[] = {{QK_FIGURE_PNG, "png", "IEND"},
                                        {QK_FIGURE_PDF, "pdf", "%%EOF"}};
/* Written with each figure, in the order in which they are moved: whoever finds the drawing finds the other files. */
static const char *const ENDINGS[] = {"csv", "png", "pdf", "svg"};
enum {
    NUM_PICTURES = sizeof PICTURES / sizeof *PICTURES,
    NUM_ENDINGS = sizeof ENDINGS / sizeof *ENDINGS,
    SCALE = 2,       /* of a PNG */
    PRINT_SCALE = 3, /* 300 dots an inch */
};
#define PROGRAM "rsvg-convert"

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

/* Moves a part of the figure to its place; where the part is missing, removes an older one. */
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

/* Moves the note; a foreign file of its name stays. */
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

/* The old drawing is removed first and the new one comes last: whoever finds a drawing finds all that belongs to it.
 * Scripts and data for gnuplot are of an earlier version. */
qk_status qk__figure_settle(const char *figure, const char *staging, const char *folder,
                            qk_error *err)
{
    static const char *const FIRST[] = {"svg", "gp", "dat"};
    for (size_t i = 0; i < sizeof FIRST / sizeof *FIRST; i++) {
        char name[160];
        name_part(figure, FIRST[i], name);
        QK_TRY(qk__remove_file(folder, name, err));
    }
    QK_TRY(settle_note(staging, folder, figure, err));
    for (int i = 0; i < NUM_ENDINGS; i++)
        QK_TRY(settle_part(staging, folder, figure, ENDINGS[i], err));
    return QK_OK;
}

/* What may be the program's fault; all other failures are the disk's. */
#define ENDED   PROGRAM " ended with"
#define MADE_NO PROGRAM " made no"

bool qk__is_unwritten(qk_status status, const char *message)
{
    return status == QK_ERR_IO && message && !strstr(message, ENDED) &&
           !strstr(message, MADE_NO);
}

/* ---- other pictures --------------------------------------------------------------------- */

/* The last line with any text, cut out of the messages. */
static const char *last_message(qk__buffer *messages)
{
    const char *last = NULL;
    char *line = (char *)messages->data;
    while (line && *line) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        line += strspn(line, " \t\r");
        if (*line && !strstr(line, "WARNING **"))
            last = line;
        line = end ? end + 1 : NULL;
    }
    return last;
}

/* Whether the file ends as it should: some programs do not report a full disk. */
static qk_status check_picture(const qk__figure *figure, const char *staging,
                               const picture_kind *picture, qk_error *err)
{
    char *path = part_path(staging, figure->name, picture->ending), last[33] = "";
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
    return qk__fail(err, QK_ERR_IO, PROGRAM " made only a part of the %s (is the disk full?)",
                    picture->ending);
}

static qk_status tell_end(const picture_kind *picture, int exit_code, qk__buffer *messages,
                          qk_error *err)
{
    QK_TRY(qk__buffer_append(messages, "", 1, err));
    const char *message = last_message(messages);
    if (exit_code == 128 + SIGXFSZ)
        return qk__fail(err, QK_ERR_IO, "the %s may not become as large as it has to",
                        picture->ending);
    return exit_code == 0 ? QK_OK
                          : qk__fail(err, QK_ERR_IO, ENDED " %d: %s", exit_code,
                                     message ? message : "(no message)");
}

/* A PDF has the width that was asked for, or a hundredth of an inch for each pixel. */
static qk_status draw_picture(const qk__figure *figure, const char *staging,
                              const picture_kind *picture, qk_error *err)
{
    char svg[170], out[170], width[24], height[24];
    const int scale = figure->millimetres > 0 ? PRINT_SCALE : SCALE;
    const bool pdf = picture->format == QK_FIGURE_PDF;
    const double inch =
        figure->millimetres > 0 ? figure->millimetres / 25.4 / figure->width : 0.01;
    snprintf(svg, sizeof svg, "./%s.svg", figure->name);
    snprintf(out, sizeof out, "./%s.%s", figure->name, picture->ending);
    /* points of 1/72 inch are the units of a PDF */
    snprintf(width, sizeof width, "%d",
             pdf ? (int)lround(72 * inch * figure->width) : scale * figure->width);
    snprintf(height, sizeof height, "%d",
             pdf ? (int)lround(72 * inch * figure->height) : scale * figure->height);
    const char *argv[] = {PROGRAM,   "--format",    picture->ending, "--dpi-x", "72",
                          "--dpi-y", "72",          "--width",       width,     "--height",
                          height,    "--unlimited", "--output",      out,       svg,
                          NULL};
    qk__buffer messages = {0};
    int exit_code = 0;
    const qk__program program = {.argv = argv, .directory = staging};
    qk_status status = qk__process_run(&program, &messages, &exit_code, err);
    if (status == QK_ERR_NOT_FOUND)
        status = qk__fail(
            err, QK_ERR_NOT_FOUND,
            PROGRAM
            " is needed for a %s and was not found: install the package librsvg2-bin (librsvg "
            "on macOS), or leave out --format, which leaves an SVG",
            picture->ending);
    if (status == QK_OK)
        status = tell_end(picture, exit_code, &messages, err);
    if (status == QK_OK)
        status = check_picture(figure, staging, picture, err);
    qk__buffer_free(&messages);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------- */

static qk_status write_drawing(const qk__figure *figure, const char *staging, qk_error *err)
{
    qk__buffer svg = {0};
    qk_status status = qk__canvas_write(&figure->canvas, figure->width, figure->height,
                                        figure->millimetres, &svg, err);
    if (status == QK_OK)
        status = write_part(staging, figure, "svg", &svg, err);
    qk__buffer_free(&svg);
    return status;
}

static qk_status write_in(const qk__figure *figure, const char *staging, const char *folder,
                          unsigned formats, qk_error *err)
{
    QK_TRY(write_drawing(figure, staging, err));
    QK_TRY(write_part(staging, figure, "csv", &figure->data, err));
    if (figure->note.size > 0)
        QK_TRY(write_part(staging, figure, "md", &figure->note, err));
    for (int i = 0; i < NUM_PICTURES; i++)
        if (formats & PICTURES[i].format)
            QK_TRY(draw_picture(figure, staging, &PICTURES[i], err));
    return qk__figure_settle(figure->name, staging, folder, err);
}

/* A figure named heads would replace the table heads.csv. */
static qk_status check_data(const char *folder, const char *figure, qk_error *err)
{
    enum { SIZE = sizeof QK__DATA_HEADER - 1 };
    char *path = part_path(folder, figure, "csv"), begin[SIZE];
    if (!path)
        return qk__nomem(err);
    FILE *file = fopen(path, "rbe");
    bool ours = !file || (fread(begin, 1, SIZE, file) == SIZE &&
                          memcmp(begin, QK__DATA_HEADER, SIZE) == 0);
    if (file)
        fclose(file);
    qk_status status =
        ours ? QK_OK
             : qk__fail(err, QK_ERR_EXISTS,
                        "%s is there and is not of a figure: give the figure another name, or "
                        "another folder",
                        path);
    free(path);
    return status;
}

bool qk__is_figure_name(const char *name)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *name && *name != '.' && name[strspn(name, plain)] == '\0';
}

qk_status qk__figure_write(qk__figure *figure, const char *folder,
                           const qk_figure_settings *settings, const char *label,
                           qk__buffer *in_page, qk_error *err)
{
    char *staging;
    qk__figure_fail(figure, figure->canvas.status, &figure->canvas.err);
    if (figure->status != QK_OK) {
        if (err)
            *err = figure->err;
        return qk__context(err, figure->status, "figure %s", figure->name);
    }
    if (!qk__is_figure_name(figure->name))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "'%s' cannot name a figure: a name has only letters, digits and . _ -",
                        figure->name);
    QK_TRY(qk__make_dirs(folder, err));
    QK_TRY(qk__context(err, check_data(folder, figure->name, err), "figure %s", figure->name));
    qk_status status = qk__stage_below(folder, "", figure->name, &staging, err);
    if (status == QK_OK) {
        status = write_in(figure, staging, folder, settings->formats, err);
        qk__remove_staging(staging);
    }
    free(staging);
    if (status == QK_OK && in_page)
        status = qk__canvas_write_in_page(&figure->canvas, figure->width, figure->height, label,
                                          in_page, err);
    return status == QK_OK ? QK_OK : qk__context(err, status, "figure %s", figure->name);
}
