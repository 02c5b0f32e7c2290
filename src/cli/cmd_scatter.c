/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope scatter, and pca-visualize and rotate-visualize of the original tools. */
#include "run_analysis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <qkscope/report.h>

enum { DEFAULT_SIDE = 2, MAX_RANDOM = 4096 };

typedef struct request {
    cli_common common;
    qk_scatter_settings settings;
    qk_config *config;
    cli_messages messages;
    const char *random, *collage;
    char *folder, *name; /* from an --output that names a picture */
} request;

#define AT(member) QK_SETTING_AT(request, member)

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_scatter_settings_table),
    {"random", QK_SETTING_TEXT, AT(random), .value = "[N]",
     .help = "draw N heads at random, as Python's random.Random(S).sample does (without N: as "
             "many as there are panels), from --layers where these are given",
     .section = "Heads and rows", .traits = QK_SETTING_OPTIONAL},
    {"collage", QK_SETTING_TEXT, AT(collage), .value = "[RxC]",
     .help = "R rows of C panels in a figure (without RxC: 2x2)", .section = "Output",
     .traits = QK_SETTING_OPTIONAL},
    CLI_CONFIG(request, "settings in YAML; options given here override it"),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* A whole number from 1 to most, followed by stop. */
static bool parse_count(const char *text, char stop, int most, int *value, const char **end)
{
    char *after;
    errno = 0;
    long number = strtol(text, &after, 10);
    if (*text < '0' || *text > '9' || errno != 0 || *after != stop || number < 1 ||
        number > most)
        return false;
    *value = (int)number;
    *end = after;
    return true;
}

/* ---- options that take more than storing a value ---------------------------------------- */

static int apply_basis(const cli_call *call)
{
    request *r = call->request;
    qk_scatter_settings *s = &r->settings;
    const char *slash = strrchr(call->argv[0], '/');
    const char *name = slash ? slash + 1 : call->argv[0];
    if (strcmp(name, "rotate-visualize") == 0 && !cli_given(call, "basis"))
        s->basis = QK_BASIS_AB;
    if (strcmp(name, "pca-visualize") == 0 && s->basis != QK_BASIS_ATTENTION)
        s->centred = true;
    return -1;
}

static int apply_collage(const cli_call *call)
{
    request *r = call->request;
    qk_scatter_settings *s = &r->settings;
    const char *end = r->collage;
    if (!r->collage)
        return -1;
    if (!*r->collage) {
        /* the complement of a head is a collage of its own */
        s->rows = s->columns = s->basis == QK_BASIS_COMPLEMENT ? 0 : DEFAULT_SIDE;
        return -1;
    }
    if (parse_count(r->collage, 'x', 12, &s->rows, &end) &&
        parse_count(end + 1, 0, 12, &s->columns, &end))
        return -1;
    return cli_usage("--collage %s: expected rows and columns, 1x1 to 12x12", r->collage);
}

static int apply_heads(const cli_call *call)
{
    request *r = call->request;
    qk_scatter_settings *s = &r->settings;
    const char *end;
    if (s->heads.count > 0 && r->random)
        return cli_usage("which heads? Give --heads or --random");
    if (r->random && *r->random) {
        if (!parse_count(r->random, 0, MAX_RANDOM, &s->random, &end))
            return cli_usage("--random %s: expected a number of heads, 1 to %d", r->random,
                             MAX_RANDOM);
    } else if (r->random) {
        bool panels = s->rows > 0 && s->basis != QK_BASIS_COMPLEMENT;
        s->random = panels ? s->rows * s->columns : 1;
    }
    return -1;
}

/* ---- where to --------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const struct {
    unsigned format;
    const char *ending;
} FORMATS[] = {{QK_FIGURE_PNG, ".png"}, {QK_FIGURE_SVG, ".svg"}, {QK_FIGURE_PDF, ".pdf"}};

static const size_t NUM_FORMATS = sizeof FORMATS / sizeof *FORMATS;

/* The format that a path's ending names; 0 = none. */
static unsigned format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (size_t f = 0; dot && dot != path && dot[-1] != '/' && f < NUM_FORMATS; f++)
        if (strcasecmp(dot, FORMATS[f].ending) == 0)
            return FORMATS[f].format;
    return 0;
}

/* Whether a path ends like a picture in a format that cannot be drawn. */
static bool is_foreign_picture(const char *path)
{
    static const char *const ENDINGS[] = {".jpg", ".jpeg", ".gif",  ".webp",
                                          ".eps", ".tif",  ".tiff", ".bmp"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof ENDINGS / sizeof *ENDINGS; i++)
        if (strcasecmp(dot, ENDINGS[i]) == 0)
            return true;
    return false;
}

/* "a/b.png" draws the figure b into the folder a, at least as PNG; anything else is a folder. */
static int apply_output(const cli_call *call)
{
    request *r = call->request;
    qk_scatter_settings *s = &r->settings;
    const char *output = s->output;
    if (!cli_given(call, "output"))
        return -1;
    unsigned format = format_of(output);
    if (is_foreign_picture(output) && !is_folder(output))
        return cli_usage("--output %s: expected a picture that ends in .png, .svg or .pdf",
                         output);
    if (!format || is_folder(output))
        return -1;
    const char *slash = strrchr(output, '/'), *base = slash ? slash + 1 : output;
    r->folder = slash ? strndup(output, (size_t)(base - output)) : strdup(".");
    r->name = strndup(base, strlen(base) - strlen(".png"));
    if (!r->folder || !r->name) {
        cli_error("out of memory");
        return EXIT_CODE_FAILURE;
    }
    if (s->name)
        return cli_usage("--output %s names the figure already: leave out --name", output);
    s->output = r->folder;
    s->name = r->name;
    s->figures.formats = format | (cli_given(call, "format") ? s->figures.formats : 0);
    return -1;
}

static int check_scatter_options(const cli_call *call)
{
    const qk_scatter_settings *s = &((const request *)call->request)->settings;
    if (!s->input.capture)
        return cli_usage("which capture? Give a folder, or org/name of a dataset on the "
                         "Hugging Face Hub");
    if (!s->output)
        return cli_usage("where to? Give -o DIR, or -o FILE.png");
    return -1;
}

static int settle_scatter(const cli_call *call)
{
    request *r = call->request;
    int (*const steps[])(const cli_call *) = {apply_basis, apply_collage, apply_heads,
                                              apply_output, check_scatter_options};
    if (call->count > 0)
        r->settings.input.capture = call->arguments[0];
    int code = -1;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && code < 0; i++)
        code = steps[i](call);
    return code;
}

static qk_status load_scatter_file(void *of, qk_error *err)
{
    request *r = of;
    qk_status status = qk_config_load(&r->config, r->common.config, err);
    if (status != QK_OK)
        return status;
    r->settings.input = *qk_config_settings(r->config);
    r->settings.output = r->settings.input.output;
    return QK_OK;
}

/* ---- running ---------------------------------------------------------------------------- */

static void print_figures(const qk_scatter_settings *s, const qk_scatter_outcome *o)
{
    bool here = strcmp(s->output, ".") == 0;
    const char *folder = here ? "" : s->output;
    const char *slash = here || s->output[strlen(s->output) - 1] == '/' ? "" : "/";
    for (size_t i = 0; i < o->num_figures; i++)
        for (size_t f = 0; f < NUM_FORMATS; f++)
            if (s->figures.formats & FORMATS[f].format)
                cli_print("%s%s%s%s\n", folder, slash, o->figures[i], FORMATS[f].ending);
}

static void tell_outcome(const request *r, const qk_scatter_outcome *o)
{
    static const char *const BASES[] = {"pca", "ab", "complement", "attention"};
    const qk_scatter_settings *s = &r->settings;
    json_t *heads = json_array(), *formats = json_array();
    for (size_t i = 0; i < o->num_heads; i++)
        json_array_append_new(heads, cli_object(CLI_ROWS(CLI_OF(&o->heads[i], layer),
                                                         CLI_OF(&o->heads[i], head))));
    for (size_t f = 0; f < NUM_FORMATS; f++)
        if (s->figures.formats & FORMATS[f].format)
            json_array_append_new(formats, json_string(FORMATS[f].ending + 1));
    cli_tell(&r->common, "{drawn} head{s}, {points} point{s} in {seconds:.2f} s\n",
             CLI_ROWS(CLI_ROW("basis", BASES[s->basis]),
                      CLI_ROW("kinds", s->kinds == QK_KINDS_Q   ? "q"
                                       : s->kinds == QK_KINDS_K ? "k"
                                                                : "q,k"),
                      CLI_ROW("heads", heads), CLI_OF(s, output),
                      CLI_ROW("figures", cli_json_texts(o->figures, o->num_figures)),
                      CLI_ROW("formats", formats), CLI_ROW("points", o->num_points),
                      CLI_OF(o, seconds), CLI_SAY("drawn", o->num_heads)));
    if (!r->common.json && !r->common.quiet)
        print_figures(s, o);
}

static int draw_figures(request *r)
{
    qk_scatter_outcome *outcome;
    qk_error err;
    cli_messages_init(&r->messages, &r->common, &r->settings.input.context);
    cli_print_notes(r->config, &r->common);
    qk_status status = qk_scatter_run(&r->settings, &outcome, &err);
    cli_messages_end(&r->messages, status, &err);
    if (status == QK_OK)
        tell_outcome(r, outcome);
    qk_scatter_outcome_free(&outcome);
    return cli_settings_code(status);
}

static int run_scatter(cli_call *call)
{
    int code = settle_scatter(call);
    return code < 0 ? draw_figures(call->request) : code;
}

static void release_scatter(void *of)
{
    request *r = of;
    qk_config_free(&r->config);
    free(r->folder);
    free(r->name);
}

const cli_command cmd_scatter = {
    .name = "scatter",
    .group = "Look",
    .summary = "queries and keys on two axes, coloured by position",
    .usage = "CAPTURE -o DIR [options]",
    .description =
        "Draws queries (blue) and keys (red) of chosen heads on two axes, light early in the "
        "context and dark late. --basis chooses the axes: components of their PCA, a and b of "
        "the rotation model, or what is left (complement: many small panels). --basis attention "
        "shows what heads attend to in one text; the capture must have every row of it.\n\n" CLI_CAPTURE_IS
        "\n\nWrites pictures into DIR, with the numbers of each and a note on what it shows. "
        "Called as pca-visualize or rotate-visualize it takes the options of the original "
        "tools.",
    .usual = "output title format collage basis kind max-points heads layers max-samples "
             "random seed theme width json help",
    .examples =
        "qkscope scatter examples/kjv-tiny-capture -o figures --collage --random\n"
        "qkscope scatter capture -o head.png --heads 5:13 --basis ab\n"
        "qkscope scatter capture -o figures --basis complement --heads 2:1\n"
        "qkscope scatter capture -o figures --basis attention --heads 0:3,2:1 --collage\n",
    .table = &TABLE,
    .max_arguments = 1,
    .load = load_scatter_file,
    .run = run_scatter,
    .release = release_scatter,
};
