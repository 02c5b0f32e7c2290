/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a figure whose texts come from a file, for the Python tests of the driver:
 *     draw_texts FOLDER TEXTS [NAME=VALUE ...]
 * TEXTS holds strings, each ended by a zero byte. Names: role (title, label, tic, legend or
 * all), name, formats, theme, gnuplot, times (that many figures, NAME-0, ...), threads. What
 * went wrong is said on stderr; the exit code is the qk_status. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "figure/figure.h"
#include "figure/figure_settings.h"

enum { MAX_TEXTS = 20000 };

typedef struct sample {
    const char *role, *name, *folder;
    qk__buffer bytes;
    const char *texts[MAX_TEXTS];
    size_t count, times;
    int threads;
    qk_figure_settings settings;
    qk_error *errors; /* [times] */
} sample;

/* ---- roles ------------------------------------------------------------------------------ */

static const char EMPTY[] = "set xrange [0:1]\nset yrange [0:1]\nunset border\nunset xtics\n"
                            "unset ytics\n";

/* One plot after another, each with its title and the same text along its axes. */
static void add_titles(qk__figure *figure, const sample *of)
{
    qk__figure_print(figure, "%sset multiplot\n", EMPTY);
    for (size_t i = 0; i < of->count; i++) {
        const char *text = qk__figure_quote(figure, of->texts[i]);
        qk__figure_print(figure, "set title %s\nset xlabel %s\nset ylabel %s\nplot 0\n", text,
                         text, text);
    }
    qk__figure_print(figure, "unset multiplot\n");
}

static void add_labels(qk__figure *figure, const sample *of)
{
    qk__figure_print(figure, "%s", EMPTY);
    for (size_t i = 0; i < of->count; i++)
        qk__figure_print(figure, "set label %zu %s at 0.5,%g tc rgb '%s'\n", i + 1,
                         qk__figure_quote(figure, of->texts[i]), (double)i / (double)of->count,
                         figure->theme->ink);
    qk__figure_print(figure, "plot 0\n");
}

/* Those that do not fit may be left out: ten a plot. */
enum { AT_ONCE = 10 };

static void add_tics(qk__figure *figure, const sample *of)
{
    qk__figure_print(figure, "%sset multiplot\n", EMPTY);
    for (size_t start = 0; start < of->count; start += AT_ONCE) {
        qk__figure_print(figure, "set xtics (");
        for (size_t i = start; i < of->count && i < start + AT_ONCE; i++)
            qk__figure_print(figure, "%s%s %g", i > start ? ", " : "",
                             qk__figure_tic(figure, of->texts[i]), 0.09 * (double)(i - start));
        qk__figure_print(figure, ")\nplot 0\n");
    }
    qk__figure_print(figure, "unset multiplot\n");
}

static void add_legend(qk__figure *figure, const sample *of)
{
    qk__figure_print(figure, "%sset key font ',4'\nset multiplot\n", EMPTY);
    for (size_t start = 0; start < of->count; start += AT_ONCE) {
        qk__figure_print(figure, "plot 0");
        for (size_t i = start; i < of->count && i < start + AT_ONCE; i++)
            qk__figure_print(figure, ", NaN with lines title %s",
                             qk__figure_quote(figure, of->texts[i]));
        qk__figure_print(figure, "\n");
    }
    qk__figure_print(figure, "unset multiplot\n");
}

/* A bit of everything: numbers, a line with a gap, and the first texts everywhere. */
static void add_all(qk__figure *figure, const sample *of)
{
    const char *first = of->count > 0 ? of->texts[0] : "";
    for (int i = 0; i < 50; i++) {
        qk__figure_value(figure, i / 7.0);
        qk__figure_value(figure, i == 20 ? 0.0 / (i - 20) : 1.0 / (i + 1) - 0.25);
        qk__figure_end_row(figure);
    }
    size_t block = qk__figure_end_block(figure);
    qk__figure_print(figure, "set xrange [-0.6:4.6]\nset xtics (");
    for (size_t i = 0; i < of->count && i < 5; i++)
        qk__figure_print(figure, "%s%s %zu", i ? ", " : "",
                         qk__figure_tic(figure, of->texts[i]), i);
    qk__figure_print(figure, ")\n");
    qk__figure_vertical(figure, 1.5);
    qk__figure_horizontal(figure, 0.125);
    qk__figure_print(figure, "set title %s\nset label 1 %s at 1,0.5\n",
                     qk__figure_quote(figure, first), qk__figure_quote(figure, first));
    qk__figure_print(figure, "plot data index %zu using 1:2 with linespoints ls 101 title %s\n",
                     block, qk__figure_quote(figure, first));
}

static const struct {
    const char *name;
    void (*add)(qk__figure *figure, const sample *of);
} ROLES[] = {{"title", add_titles},
             {"label", add_labels},
             {"tic", add_tics},
             {"legend", add_legend},
             {"all", add_all}};

/* ---- drawing ---------------------------------------------------------------------------- */

static void draw_one(void *context, size_t i, int worker)
{
    (void)worker;
    sample *of = context;
    char name[100];
    snprintf(name, sizeof name, "%.80s", of->name);
    if (of->times > 1)
        snprintf(name, sizeof name, "%.80s-%zu", of->name, i);
    qk__figure figure;
    qk__figure_init(&figure, name, qk__theme_of(of->settings.theme), 640, 400);
    for (size_t r = 0; r < sizeof ROLES / sizeof *ROLES; r++)
        if (strcmp(of->role, ROLES[r].name) == 0)
            ROLES[r].add(&figure, of);
    of->errors[i].status = qk__figure_draw(&figure, of->folder, &of->settings, &of->errors[i]);
    qk__figure_free(&figure);
}

static qk_status set_option(sample *of, const char *option, qk_error *err)
{
    char name[16];
    const char *value = strchr(option, '=');
    if (!value || value - option >= (long)sizeof name)
        return qk__fail(err, QK_ERR_ARGUMENT, "'%s' is not NAME=VALUE", option);
    snprintf(name, sizeof name, "%.*s", (int)(value - option), option);
    value++;
    if (strcmp(name, "theme") == 0)
        return qk__figure_theme_parse(value, &of->settings.theme, err);
    if (strcmp(name, "formats") == 0)
        return qk__figure_formats_parse(value, &of->settings.formats, err);
    if (strcmp(name, "role") == 0)
        of->role = value;
    else if (strcmp(name, "name") == 0)
        of->name = value;
    else if (strcmp(name, "gnuplot") == 0)
        of->settings.gnuplot = value;
    else if (strcmp(name, "threads") == 0)
        of->threads = atoi(value);
    else if (strcmp(name, "times") == 0)
        of->times = strtoul(value, NULL, 10);
    else
        return qk__fail(err, QK_ERR_ARGUMENT, "there is no option '%s'", name);
    return QK_OK;
}

static void find_texts(sample *of)
{
    size_t start = 0;
    for (size_t i = 0; i < of->bytes.size && of->count < MAX_TEXTS; i++)
        if (of->bytes.data[i] == 0) {
            of->texts[of->count++] = (const char *)of->bytes.data + start;
            start = i + 1;
        }
}

static int report(const qk_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return (int)err->status;
}

static int draw(sample *of)
{
    of->errors = calloc(of->times, sizeof *of->errors);
    if (!of->errors)
        return (int)QK_ERR_NOMEM;
    qk__parallel_for(of->times, of->threads, draw_one, of);
    int status = 0;
    for (size_t i = 0; i < of->times && status == 0; i++)
        if (of->errors[i].status != QK_OK)
            status = report(&of->errors[i]);
    free(of->errors);
    return status;
}

int main(int argc, char **argv)
{
    static sample of = {.role = "all", .name = "sample", .times = 1};
    qk_error err = {0};
    if (argc < 3)
        return 99;
    setlocale(LC_ALL, ""); /* as a program that uses the library may do */
    qk__figure_settings_default(&of.settings);
    of.folder = argv[1];
    for (int i = 3; i < argc; i++)
        if (set_option(&of, argv[i], &err) != QK_OK)
            return report(&err);
    if (qk__read_file(argv[2], (size_t)16 << 20, &of.bytes, &err) != QK_OK)
        return report(&err);
    find_texts(&of);
    int status = draw(&of);
    qk__buffer_free(&of.bytes);
    return status;
}
