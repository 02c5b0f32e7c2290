/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope scatter, and pca-visualize and rotate-visualize of the original tools. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <qkscope/scatter.h>

static const char COMMAND[] = "qkscope scatter";
static const char DESCRIPTION[] =
    "Draws the rows of query heads and of the keys they attend to on two axes: components of\n"
    "their PCA, the axes a and b of the rotation model, or the pairs of axes of what is left\n"
    "(complement: a figure with many small panels for each head). Queries are blue and keys "
    "red,\n"
    "light early in the context and dark late. CAPTURE is a folder with l{LL}h{HH}{q|k} "
    "folders\n"
    "somewhere below it, or a dataset (org/name) in the Hugging Face cache. Writes pictures "
    "into\n"
    "DIR with the gnuplot script and the numbers they were drawn from. As pca-visualize and\n"
    "rotate-visualize it takes the options of the original tools.";

enum { DEFAULT_SIDE = 2, MAX_RANDOM = 4096, MAX_FOLDER = 4096 };

/* What was parsed apart from the settings. */
typedef struct request {
    qk_scatter_settings settings;
    qk_config *config;
    cli_common common;
    cli_messages messages;
    const char *config_path, *loaded_path; /* as the options have it; as load_config found it */
    const char *basis, *heads, *random, *collage, *kind, *format, *theme, *b_axis;
    const char *output;
    qk_index_list layers;
    int layer, head; /* -1 = not given */
    bool complement, qk;
    qk_scatter_head one;        /* of --layer and --head */
    qk_scatter_head *head_list; /* of --heads */
    char *folder, *name;        /* of an --output that names a picture */
} request;

static int usage(const char *option, const char *text, const char *expected)
{
    cli_error(COMMAND, "--%s %s: expected %s", option, text, expected);
    return EXIT_CODE_USAGE;
}

/* A whole number from 1 to most with nothing but stop behind it. */
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

static int apply_basis(request *r)
{
    qk_scatter_settings *s = &r->settings;
    static const char *const NAMES[] = {"pca", "ab", "complement"};
    if (r->complement)
        s->basis = QK_BASIS_COMPLEMENT;
    if (!r->basis)
        return -1;
    for (int i = 0; i < 3; i++) {
        if (strcmp(r->basis, NAMES[i]) != 0)
            continue;
        if (r->complement && i != QK_BASIS_COMPLEMENT)
            return usage("basis", r->basis, "complement beside --complement");
        s->basis = (qk_scatter_basis)i;
        return -1;
    }
    return usage("basis", r->basis, "pca, ab or complement");
}

static int apply_collage(request *r)
{
    qk_scatter_settings *s = &r->settings;
    const char *end = r->collage;
    if (!r->collage)
        return -1;
    if (!*r->collage) {
        /* the complement of a head is a collage by itself */
        s->rows = s->columns = s->basis == QK_BASIS_COMPLEMENT ? 0 : DEFAULT_SIDE;
        return -1;
    }
    if (parse_count(r->collage, 'x', 12, &s->rows, &end) &&
        parse_count(end + 1, 0, 12, &s->columns, &end))
        return -1;
    return usage("collage", r->collage, "rows and columns, 1x1 to 12x12");
}

static int apply_heads(request *r)
{
    qk_scatter_settings *s = &r->settings;
    const char *end;
    qk_error err;
    if ((r->layer >= 0) != (r->head >= 0)) {
        cli_error(COMMAND, "--layer and --head go together");
        return EXIT_CODE_USAGE;
    }
    if ((r->heads != NULL) + (r->random != NULL) + (r->layer >= 0) > 1) {
        cli_error(COMMAND,
                  "which heads? Give one of --heads, --random, and --layer with --head");
        return EXIT_CODE_USAGE;
    }
    if (r->heads) {
        if (qk_scatter_heads_parse(r->heads, &r->head_list, &s->num_heads, &err) != QK_OK) {
            cli_error(COMMAND, "--heads %s", err.message);
            return EXIT_CODE_USAGE;
        }
        s->heads = r->head_list;
    } else if (r->layer >= 0) {
        r->one = (qk_scatter_head){r->layer, r->head};
        s->heads = &r->one;
        s->num_heads = 1;
    } else if (r->random && *r->random) {
        if (!parse_count(r->random, 0, MAX_RANDOM, &s->random, &end))
            return usage("random", r->random, "a number of heads, 1 to 4096");
    } else if (r->random) {
        bool panels = s->rows > 0 && s->basis != QK_BASIS_COMPLEMENT;
        s->random = panels ? s->rows * s->columns : 1;
    }
    return -1;
}

static int apply_kind(request *r)
{
    qk_scatter_settings *s = &r->settings;
    if (!r->kind)
        return -1;
    if (r->qk) {
        cli_error(COMMAND, "--qk draws both kinds: leave out --kind");
        return EXIT_CODE_USAGE;
    }
    if (strcmp(r->kind, "q") != 0 && strcmp(r->kind, "k") != 0)
        return usage("kind", r->kind, "q or k");
    s->kinds = r->kind[0] == 'q' ? QK_KINDS_Q : QK_KINDS_K;
    return -1;
}

static int apply_looks(request *r)
{
    qk_scatter_settings *s = &r->settings;
    qk_error err;
    if (r->format && qk_figure_formats_parse(r->format, &s->figures.formats, &err) != QK_OK) {
        cli_error(COMMAND, "--format %s", err.message);
        return EXIT_CODE_USAGE;
    }
    if (r->theme && qk_figure_theme_parse(r->theme, &s->figures.theme, &err) != QK_OK) {
        cli_error(COMMAND, "--theme %s", err.message);
        return EXIT_CODE_USAGE;
    }
    if (r->b_axis) {
        bool centroid = strcmp(r->b_axis, "centroid") == 0;
        if (!centroid && strcmp(r->b_axis, "pairs") != 0)
            return usage("b-axis", r->b_axis, "pairs or centroid");
        s->input.rotation.b_axis = centroid ? QK_B_CENTROID : QK_B_PAIRS;
    }
    return -1;
}

/* ---- where to --------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The format that the ending of a path names; 0 = none. */
static unsigned format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    unsigned format;
    qk_error err;
    if (!dot || strchr(dot, '/') || dot == path || dot[-1] == '/' || strchr(dot, ',') ||
        (strcasecmp(dot, ".png") != 0 && strcasecmp(dot, ".svg") != 0 &&
         strcasecmp(dot, ".pdf") != 0))
        return 0;
    char ending[4] = {0};
    for (int i = 0; i < 3; i++)
        ending[i] = (char)(dot[i + 1] | 0x20); /* to lower case */
    return qk_figure_formats_parse(ending, &format, &err) == QK_OK ? format : 0;
}

/* Whether a path ends like a picture of a format that cannot be drawn. */
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

/* "a/b.png" draws the figure b into a, as a PNG whatever else is asked for; anything else is a
 * folder. */
static int apply_output(request *r)
{
    qk_scatter_settings *s = &r->settings;
    if (!r->output)
        return -1;
    unsigned format = format_of(r->output);
    if (is_foreign_picture(r->output) && !is_folder(r->output))
        return usage("output", r->output, "a picture that ends in .png, .svg or .pdf");
    if (!format || is_folder(r->output)) {
        s->output = r->output;
        return -1;
    }
    const char *slash = strrchr(r->output, '/'), *base = slash ? slash + 1 : r->output;
    r->folder = slash ? strndup(r->output, (size_t)(base - r->output)) : strdup(".");
    r->name = strndup(base, strlen(base) - strlen(".png"));
    if (!r->folder || !r->name) {
        cli_error(COMMAND, "out of memory");
        return EXIT_CODE_FAILURE;
    }
    if (s->name) {
        cli_error(COMMAND, "--output %s names the figure already: leave out --name", r->output);
        return EXIT_CODE_USAGE;
    }
    s->output = r->folder;
    s->name = r->name;
    s->figures.formats = format | (r->format ? s->figures.formats : 0);
    return -1;
}

static int check(const request *r)
{
    const qk_scatter_settings *s = &r->settings;
    if (r->config_path != r->loaded_path) {
        cli_error(COMMAND, "give --config once, and write it in full");
        return EXIT_CODE_USAGE;
    }
    if (!s->input.capture || !s->output) {
        cli_error(COMMAND,
                  !s->input.capture
                      ? "which capture? Give a folder, or org/name of a dataset in the "
                        "Hugging Face cache"
                      : "where to? Give -o DIR, or -o FILE.png");
        return EXIT_CODE_USAGE;
    }
    return -1;
}

static int apply(request *r)
{
    int (*const steps[])(request *) = {apply_basis, apply_collage, apply_heads,
                                       apply_kind,  apply_looks,   apply_output};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int code = steps[i](r);
        if (code >= 0)
            return code;
    }
    if (r->layers.count)
        r->settings.input.layers = r->layers;
    r->settings.figures.threads = r->settings.input.threads;
    return check(r);
}

/* ---- parsing ---------------------------------------------------------------------------- */

static int parse(int argc, char **argv, request *r)
{
    qk_scatter_settings *s = &r->settings;
    qk_study_settings *in = &s->input;
    const cli_option options[] = {
        {'o', "output", "DIR",
         "folder for the figures, or one picture: FILE.png, .svg\nor .pdf", OPTION_TEXT,
         &r->output, 0, 0},
        {0, "config", "FILE", "settings in YAML; options given here override it", OPTION_TEXT,
         &r->config_path, 0, 0},
        {0, "basis", "WHICH", "pca (default), ab or complement", OPTION_TEXT, &r->basis, 0, 0},
        {0, "complement", NULL, "the same as --basis complement", OPTION_FLAG, &r->complement,
         0, 0},
        {0, "heads", "L:H,...",
         "query heads as LAYER:HEAD, e.g. 5:13,1:8 (default: the\nfirst)", OPTION_TEXT,
         &r->heads, 0, 0},
        {0, "layer", "L", "layer of the one head to draw", OPTION_INT, &r->layer, 0, 65535},
        {0, "head", "H", "head to draw in that layer", OPTION_INT, &r->head, 0, 65535},
        {0, "random", "[N]",
         "N heads drawn as by random.Random(S).sample (without\nN: as many as there are "
         "panels)",
         OPTION_TEXT, &r->random, 0, 0},
        {0, "seed", "S", "of every draw (default: 0)", OPTION_INT64, &in->seed, 0, 0},
        {0, "layers", "LIST", "--random draws from these layers only", OPTION_LIST, &r->layers,
         0, 0},
        {0, "collage", "[RxC]", "R rows of C panels in a figure (without RxC: 2x2)",
         OPTION_TEXT, &r->collage, 0, 0},
        {0, "pc-x", "N", "component on the x axis, from 0 (default: 0)", OPTION_INT, &s->pc_x,
         0, 4095},
        {0, "pc-y", "N", "component on the y axis (default: 1)", OPTION_INT, &s->pc_y, 0, 4095},
        {0, "kind", "q|k", "queries or keys alone, on their own components", OPTION_TEXT,
         &r->kind, 0, 0},
        {0, "qk", NULL, "queries and keys together (the default)", OPTION_FLAG, &r->qk, 0, 0},
        {0, "centred", NULL,
         "of pca: zero is the mean of all rows, lines run through\nit, and a box has r of the "
         "components (pca-visualize)",
         OPTION_FLAG, &s->centred, 0, 0},
        {0, "example-id", "N", "one text in colour, all others grey", OPTION_INT64,
         &s->example_id, 0, 9e15},
        {0, "max-points", "N",
         "points per kind and panel (default: 8000, complement\n2000; 0: all)", OPTION_INT64,
         &s->max_points, 0, 1e15},
        {0, "b-axis", "WHICH", "pairs (default) or centroid: see qkscope rotate", OPTION_TEXT,
         &r->b_axis, 0, 0},
        {0, "format", "LIST", "png, svg, pdf or several of them (default: png)", OPTION_TEXT,
         &r->format, 0, 0},
        {0, "theme", "THEME", "paper (default), screen or dark", OPTION_TEXT, &r->theme, 0, 0},
        {0, "title", "TEXT", "above the figure", OPTION_TEXT, &s->title, 0, 0},
        {0, "name", "NAME", "of the files (default: made from basis and heads)", OPTION_TEXT,
         &s->name, 0, 0},
        {0, "revision", "REV", "of a cached dataset (default: main)", OPTION_TEXT,
         &in->revision, 0, 0},
        {0, "split", "PREFIX", "sub-folder, when CAPTURE holds several captures", OPTION_TEXT,
         &in->prefix, 0, 0},
        {0, "q-per-kv-group", "G",
         "query heads per key head (default: from\ncapture.json, else inferred)", OPTION_INT,
         &in->q_per_kv_group, 1, 65536},
        {0, "strict", NULL,
         "a group size that does not fit the heads, or\ncapture.json, is an error", OPTION_FLAG,
         &in->strict, 0, 0},
        {0, "max-samples", "N", "only the first N rows of each head", OPTION_INT64,
         &in->max_samples, 1, 1e15},
        {0, "threads", "N", "threads (default: all processors)", OPTION_INT, &in->threads, 1,
         4096},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "CAPTURE -o DIR [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r->common,
                               .max_arguments = 1};
    int count;
    int code = cli_parse(&syntax, argc, argv, &in->capture, &count);
    return code < 0 ? apply(r) : code;
}

/* The file's settings come first, so that options override them. */
static int load_config(int argc, char **argv, request *r)
{
    qk_error err;
    r->loaded_path = cli_find_value(argc, argv, "config");
    if (!r->loaded_path)
        return -1;
    qk_status status = qk_config_load(&r->config, r->loaded_path, &err);
    if (status != QK_OK) {
        cli_error(COMMAND, "%s", err.message);
        return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : EXIT_CODE_FAILURE;
    }
    r->settings.input = *qk_config_settings(r->config);
    r->settings.output = r->settings.input.output;
    return -1;
}

/* ---- running ---------------------------------------------------------------------------- */

static void print_outcome(const request *r, const qk_scatter_outcome *o)
{
    static const struct {
        unsigned format;
        const char *ending;
    } ENDINGS[] = {{QK_FIGURE_PNG, "png"}, {QK_FIGURE_SVG, "svg"}, {QK_FIGURE_PDF, "pdf"}};
    const qk_scatter_settings *s = &r->settings;
    cli_print("%zu head%s, %zu point%s in %.2f s\n", o->num_heads, cli_s((int64_t)o->num_heads),
              o->num_points, cli_s((int64_t)o->num_points), o->seconds);
    bool here = strcmp(s->output, ".") == 0;
    const char *folder = here ? "" : s->output;
    const char *slash = here || s->output[strlen(s->output) - 1] == '/' ? "" : "/";
    for (size_t i = 0; i < o->num_figures; i++)
        for (size_t f = 0; f < sizeof ENDINGS / sizeof *ENDINGS; f++)
            if (s->figures.formats & ENDINGS[f].format)
                cli_print("%s%s%s.%s\n", folder, slash, o->figures[i], ENDINGS[f].ending);
}

static void print_outcome_json(const request *r, const qk_scatter_outcome *o)
{
    static const char *const BASES[] = {"pca", "ab", "complement"};
    const qk_scatter_settings *s = &r->settings;
    json_t *heads = json_array(), *figures = json_array(), *formats = json_array();
    for (size_t i = 0; i < o->num_heads; i++)
        json_array_append_new(heads, json_pack("{s:i, s:i}", "layer", o->heads[i].layer, "head",
                                               o->heads[i].head));
    for (size_t i = 0; i < o->num_figures; i++)
        json_array_append_new(figures, cli_json_text(o->figures[i]));
    if (s->figures.formats & QK_FIGURE_PNG)
        json_array_append_new(formats, json_string("png"));
    if (s->figures.formats & QK_FIGURE_SVG)
        json_array_append_new(formats, json_string("svg"));
    if (s->figures.formats & QK_FIGURE_PDF)
        json_array_append_new(formats, json_string("pdf"));
    cli_json_print(json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:f}", "basis", BASES[s->basis], "kinds",
        s->kinds == QK_KINDS_Q   ? "q"
        : s->kinds == QK_KINDS_K ? "k"
                                 : "q,k",
        "heads", heads, "output", cli_json_text(s->output), "figures", figures, "formats",
        formats, "points", (json_int_t)o->num_points, "seconds", o->seconds));
}

static int run(request *r)
{
    qk_scatter_outcome *outcome;
    qk_error err;
    cli_messages_init(&r->messages, COMMAND, &r->common, "heads and figures");
    for (size_t i = 0; r->config && i < qk_config_num_notes(r->config); i++)
        if (!r->common.quiet)
            cli_error(COMMAND, "note: %s", qk_config_note(r->config, i));
    r->settings.input.notice = cli_notice;
    r->settings.input.progress = cli_progress;
    r->settings.input.user = &r->messages;
    qk_status status = qk_scatter_run(&r->settings, &outcome, &err);
    cli_clear(&r->messages);
    if (status != QK_OK)
        cli_error(COMMAND, "%s", err.message);
    else if (r->common.json)
        print_outcome_json(r, outcome);
    else if (!r->common.quiet)
        print_outcome(r, outcome);
    qk_scatter_outcome_free(&outcome);
    return cli_finish(COMMAND,
                      status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status));
}

int cmd_scatter(int argc, char **argv)
{
    request r = {.layer = -1, .head = -1};
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    qk_scatter_settings_default(&r.settings);
    if (strcmp(name, "rotate-visualize") == 0)
        r.settings.basis = QK_BASIS_AB;
    r.settings.centred = strcmp(name, "pca-visualize") == 0;
    int code = load_config(argc, argv, &r);
    if (code < 0)
        code = parse(argc, argv, &r);
    if (code < 0)
        code = run(&r);
    qk_index_list_free(&r.layers);
    qk_config_free(&r.config);
    free(r.head_list);
    free(r.folder);
    free(r.name);
    return code;
}
