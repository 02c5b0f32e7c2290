/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope heads: a row a head, of those that are asked for. */
#include "tell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/results.h>

typedef enum list_format {
    AS_TABLE,
    AS_CSV,
    AS_JSON,
    AS_MARKDOWN,
    AS_LATEX,
    AS_LONGTABLE,
    AS_LIST
} list_format;

static const qk_word FORMATS[] = {{"table", AS_TABLE}, {"csv", AS_CSV},
                                  {"json", AS_JSON},   {"markdown", AS_MARKDOWN},
                                  {"latex", AS_LATEX}, {"longtable", AS_LONGTABLE},
                                  {"list", AS_LIST},   {NULL, 0}};

typedef struct request {
    cli_common common;
    qk_head_query query;
    list_format format;
} request;

static const qk_setting ROWS[] = {
    {"where", QK_SETTING_TEXT, QK_SETTING_AT(request, query.where), .value = "CONDITION",
     .help = "heads of which this holds: \"category == mixed and abs(r_k) >= 0.5\"",
     .unset = "all", .section = "Heads"},
    {"heads", QK_SETTING_HEADS, QK_SETTING_AT(request, query.heads), .value = "L:H,...",
     .help = "of these query heads: 2:1,14-23:*, 5 (of every layer), @FILE", .unset = "all",
     .section = "Heads"},
    {"sort", QK_SETTING_TEXT, QK_SETTING_AT(request, query.sort), .value = "COLUMN",
     .help = "order by this column or abs(COLUMN); -COLUMN: in descending order",
     .unset = "layer and head", .section = "Heads"},
    {"top", QK_SETTING_INTEGER, QK_SETTING_AT(request, query.top), .min = 1, .max = 1e9,
     .value = "N", .help = "the first N of them", .unset = "all", .section = "Heads",
     .traits = QK_SETTING_ZERO_IS_NULL},
    {"force", QK_SETTING_FLAG, QK_SETTING_AT(request, query.force),
     .help = "also from tables that are incomplete or were changed", .section = "Heads"},
    {"columns", QK_SETTING_TEXT, QK_SETTING_AT(request, query.columns), .value = "A,B,...",
     .help = "columns of heads.csv, qk.csv, rotated.csv, head_metrics.csv, stages.csv, "
             "attention.csv, ablation_heads.csv",
     .unset = "the usual ones", .section = "Output"},
    {"format", QK_SETTING_CHOICE, QK_SETTING_AT(request, format), .words = FORMATS,
     .help = "how the list is printed; longtable: LaTeX over several pages; list: L:H,..., as "
             "--heads takes it",
     .section = "Output"},
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* ---- cells ------------------------------------------------------------------------------ */

/* A column as it is printed. */
typedef struct shown {
    const qk_column_info *info;
    const double *reals;
    const int64_t *integers;
    const char *const *texts;
    const char *format; /* of reals: one for all, so that they can be compared */
} shown;

enum { MAX_CELL = 64 };

/* Whole numbers as they are, others to three digits of the largest or more, very small and large
 * ones as powers of ten. */
static const char *number_format(const double *values, size_t rows)
{
    double most = 0;
    bool whole = true;
    for (size_t i = 0; i < rows; i++) {
        if (!isfinite(values[i]))
            continue;
        most = fmax(most, fabs(values[i]));
        whole = whole && values[i] == floor(values[i]);
    }
    if (whole && most < 1e9)
        return "%.0f";
    if (most >= 1e5 || most < 1e-3)
        return "%.2e";
    return most >= 0.1 ? "%.3f" : most >= 0.01 ? "%.4f" : "%.5f";
}

/* The column that this one is an end of the interval of, or the cross-fitted value of; NULL: of none
 * of these. */
static const shown *interval_of(const shown *columns, size_t i)
{
    const char *name = columns[i].info->name, *ending = strrchr(name, '_');
    if (!ending || (strcmp(ending, "_lo") != 0 && strcmp(ending, "_hi") != 0 &&
                    strcmp(ending, "_cv") != 0))
        return NULL;
    size_t length = (size_t)(ending - name);
    for (size_t k = 0; k < i; k++)
        if (columns[k].reals && strlen(columns[k].info->name) == length &&
            strncmp(columns[k].info->name, name, length) == 0)
            return &columns[k];
    return NULL;
}

/* NULL: out of memory. */
static shown *show_columns(const qk_columns *columns, size_t *count)
{
    const qk_column_info *info;
    for (*count = 0; qk_columns_info(columns, *count);)
        ++*count;
    shown *list = calloc(*count + 1, sizeof *list);
    for (size_t i = 0; list && (info = qk_columns_info(columns, i)); i++) {
        list[i] = (shown){info, qk_columns_reals(columns, info->name),
                          qk_columns_integers(columns, info->name),
                          qk_columns_texts(columns, info->name), ""};
        const shown *of = interval_of(list, i);
        if (list[i].reals)
            list[i].format =
                of ? of->format : number_format(list[i].reals, qk_columns_num_rows(columns));
    }
    return list;
}

/* What stands in a cell, "" where it is empty. */
static const char *cell_text(const shown *column, size_t row, char text[MAX_CELL])
{
    *text = 0;
    if (column->texts)
        return column->texts[row] ? column->texts[row] : "";
    if (column->integers)
        snprintf(text, MAX_CELL, "%lld", (long long)column->integers[row]);
    else if (isfinite(column->reals[row]))
        snprintf(text, MAX_CELL, column->format, column->reals[row]);
    return text;
}

/* ---- formats ---------------------------------------------------------------------------- */

typedef struct printed {
    const request *request;
    const cli_call *call;
    const qk_columns *columns;
    shown *shown;
    size_t count, rows; /* columns; heads */
    qk_head_totals of;
} printed;

/* Texts to the left, numbers to the right; no spaces behind the last column. */
static void print_padded(const printed *p, size_t i, const char *text, int width)
{
    bool last = i + 1 == p->count;
    if (!p->shown[i].texts)
        cli_print(last ? "%*s\n" : "%*s  ", width, text);
    else
        cli_print(last ? "%-*s\n" : "%-*s  ", last ? 0 : width, text);
}

/* Which is a, and which b. */
static void print_sides(const printed *p)
{
    const qk_head_query *query = &p->request->query;
    for (int i = 0; i < 2 && query->other && !p->request->common.quiet; i++) {
        const qk_head_side *side = &p->of.sides[i];
        cli_print("%c: %s (%s%s%s), %s\n", "ab"[i], i ? query->other : query->results,
                  *side->model ? side->model : "a model without a name",
                  *side->capture ? ", " : "", side->capture, side->lengths);
    }
}

static int print_table(const printed *p)
{
    char text[MAX_CELL];
    int *widths = calloc(p->count + 1, sizeof *widths);
    if (!widths)
        return cli_exit_code(QK_ERR_NOMEM);
    for (size_t i = 0; i < p->count; i++) {
        widths[i] = (int)strlen(p->shown[i].info->name);
        for (size_t row = 0; row < p->rows; row++) {
            int width = (int)cli_text_columns(cell_text(&p->shown[i], row, text), -1);
            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    print_sides(p);
    if (p->request->query.other && !p->request->common.quiet)
        cli_print("\n");
    for (size_t i = 0; i < p->count && p->rows > 0; i++)
        print_padded(p, i, p->shown[i].info->name, widths[i]);
    for (size_t row = 0; row < p->rows; row++)
        for (size_t i = 0; i < p->count; i++) {
            const char *cell = cell_text(&p->shown[i], row, text);
            print_padded(p, i, *cell ? cell : "-", widths[i]);
        }
    free(widths);
    if (!p->request->common.quiet)
        cli_print(p->rows > 0 ? "\n" : "");
    if (!p->request->common.quiet && !p->request->query.other && *p->of.sides[0].lengths)
        cli_print("%s\n", p->of.sides[0].lengths);
    if (!p->request->common.quiet)
        cli_print("%zu of %zu head%s\n", p->rows, p->of.heads, cli_s((int64_t)p->of.heads));
    if (!p->request->common.quiet && p->of.sides[0].alone + p->of.sides[1].alone > 0)
        cli_print("in a alone: %zu, in b alone: %zu\n", p->of.sides[0].alone,
                  p->of.sides[1].alone);
    return EXIT_CODE_OK;
}

static int print_csv(const printed *p)
{
    char *text;
    qk_error err;
    if (qk_columns_csv(p->columns, &text, &err) != QK_OK) {
        cli_error("%s", err.message);
        return EXIT_CODE_FAILURE;
    }
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        cli_print("%s\n", line);
    }
    free(text);
    return EXIT_CODE_OK;
}

static json_t *json_cell(const shown *column, size_t row)
{
    if (column->integers)
        return json_integer(column->integers[row]);
    if (column->reals)
        return cli_json_number(column->reals[row]);
    return cli_json_text(column->texts[row] && *column->texts[row] ? column->texts[row] : NULL);
}

static int print_json(const printed *p)
{
    json_t *heads = json_array();
    for (size_t row = 0; row < p->rows; row++) {
        json_t *head = json_object();
        for (size_t i = 0; i < p->count; i++)
            json_object_set_new(head, p->shown[i].info->name, json_cell(&p->shown[i], row));
        json_array_append_new(heads, head);
    }
    cli_json_print(cli_object(CLI_ROWS(
        CLI_ROW("results", p->request->query.results),
        CLI_ROW_IF(p->request->query.other, "beside", p->request->query.other),
        CLI_ROW("heads_in_results", p->of.heads), CLI_ROW("lengths", p->of.sides[0].lengths),
        CLI_ROW_IF(p->request->query.other, "lengths_beside", p->of.sides[1].lengths),
        CLI_ROW_IF(p->request->query.other, "in_a_alone", p->of.sides[0].alone),
        CLI_ROW_IF(p->request->query.other, "in_b_alone", p->of.sides[1].alone),
        CLI_ROW("heads", heads))));
    return EXIT_CODE_OK;
}

/* Each: a character that means something, and what stands for it. */
static const char *const MARKDOWN[] = {"\\\\\\", "|\\|", "*\\*", "`\\`", "<\\<", "[\\[", NULL};
static const char *const LATEX[] = {"\\\\textbackslash{}",
                                    "^\\textasciicircum{}",
                                    "~\\textasciitilde{}",
                                    "{\\{",
                                    "}\\}",
                                    "$\\$",
                                    "&\\&",
                                    "#\\#",
                                    "%\\%",
                                    "_\\_",
                                    NULL};

/* One character at a time: the precision of a %s counts columns. One that a terminal would obey is spelt with a
 * backslash, which means something, too. */
static void print_escaped(const char *text, const char *const *escapes)
{
    while (*text) {
        char spelt[CLI_SPELT];
        const char *escape = "", *rest = spelt;
        text += cli_spell(text, spelt);
        for (size_t i = 0; escapes[i]; i++)
            if (*escapes[i] == *spelt) {
                escape = escapes[i] + 1;
                rest = spelt + 1;
            }
        cli_print("%s%s", escape, rest);
    }
}

static void print_markdown_cell(const char *text, size_t i)
{
    cli_print(i == 0 ? "| " : " ");
    print_escaped(text, MARKDOWN);
    cli_print(" |");
}

static int print_markdown(const printed *p)
{
    char text[MAX_CELL];
    for (size_t i = 0; i < p->count; i++)
        print_markdown_cell(p->shown[i].info->name, i);
    cli_print("\n");
    for (size_t i = 0; i < p->count; i++)
        cli_print("%s%s|", i == 0 ? "|" : "", p->shown[i].texts ? "---" : "--:");
    for (size_t row = 0; row < p->rows; row++) {
        cli_print("\n");
        for (size_t i = 0; i < p->count; i++)
            print_markdown_cell(cell_text(&p->shown[i], row, text), i);
    }
    cli_print("\n");
    return EXIT_CODE_OK;
}

/* A number with its minus, and its power of ten. */
static void print_latex_number(const char *text)
{
    const char *power = strchr(text, 'e');
    if (power)
        cli_print("$%.*s\\times10^{%d}$", (int)(power - text), text, atoi(power + 1));
    else
        cli_print(*text ? "$%s$" : "--", text);
}

static int print_latex(const printed *p)
{
    char text[MAX_CELL];
    const bool pages = p->request->format == AS_LONGTABLE;
    const char *environment = pages ? "longtable" : "tabular";
    cli_print(
        "%% %s\n%% %zu of %zu heads; needs \\usepackage{booktabs%s}\n%% %s%s%s\n\\begin{%s}{",
        p->call->line ? p->call->line : "qkscope heads", p->rows, p->of.heads,
        pages ? ",longtable" : "", p->of.sides[0].lengths,
        p->request->query.other ? "; b: " : "", p->of.sides[1].lengths, environment);
    for (size_t i = 0; i < p->count; i++)
        cli_print(p->shown[i].texts ? "l" : "r");
    cli_print("}\n\\toprule\n");
    for (size_t i = 0; i < p->count; i++) {
        print_escaped(p->shown[i].info->name, LATEX);
        cli_print(i + 1 < p->count ? " & " : " \\\\\n\\midrule\n");
    }
    cli_print(pages ? "\\endhead\n" : "");
    for (size_t row = 0; row < p->rows; row++)
        for (size_t i = 0; i < p->count; i++) {
            const char *cell = cell_text(&p->shown[i], row, text);
            if (p->shown[i].texts)
                print_escaped(*cell ? cell : "--", LATEX);
            else
                print_latex_number(cell);
            cli_print(i + 1 < p->count ? " & " : " \\\\\n");
        }
    cli_print("\\bottomrule\n\\end{%s}\n", environment);
    return EXIT_CODE_OK;
}

/* For --heads, which would take an empty list for none given. */
static int print_list(const printed *p)
{
    const char *const *models = qk_columns_texts(p->columns, "model");
    const int64_t *layers = qk_columns_integers(p->columns, "layer");
    const int64_t *heads = qk_columns_integers(p->columns, "q_head");
    for (size_t i = 1; i < p->rows && models; i++)
        if (strcmp(models[i], models[0]) != 0)
            return cli_usage("these heads are of more than one model; a list is of one: say "
                             "which with --where \"model == '%s'\"",
                             models[0]);
    if (p->rows == 0) {
        cli_error("there is no such head among %zu", p->of.heads);
        return EXIT_CODE_FAILURE;
    }
    for (size_t i = 0; i < p->rows; i++)
        cli_print("%s%lld:%lld", i == 0 ? "" : ",", (long long)layers[i], (long long)heads[i]);
    cli_print("\n");
    return EXIT_CODE_OK;
}

/* ---- running ---------------------------------------------------------------------------- */

static int print_heads(printed *p)
{
    static int (*const PRINT[])(const printed *) = {
        [AS_TABLE] = print_table,       [AS_CSV] = print_csv,     [AS_JSON] = print_json,
        [AS_MARKDOWN] = print_markdown, [AS_LATEX] = print_latex, [AS_LONGTABLE] = print_latex,
        [AS_LIST] = print_list,
    };
    p->rows = qk_columns_num_rows(p->columns);
    p->shown = show_columns(p->columns, &p->count);
    int code = EXIT_CODE_FAILURE;
    if (p->shown)
        code = PRINT[p->request->common.json ? AS_JSON : p->request->format](p);
    else
        cli_error("out of memory");
    free(p->shown);
    return code;
}

static int run_heads(cli_call *call)
{
    static const char *const COLUMNS[] = {"columns", NULL};
    request *r = call->request;
    if (call->count == 0)
        return cli_usage("which results? Give the folder with the tables");
    r->query.results = call->arguments[0];
    r->query.other = call->count > 1 ? call->arguments[1] : NULL;
    if (r->format == AS_LIST && !r->common.json) {
        cli_note_idle(call, "a format of columns", true, COLUMNS);
        r->query.columns = r->query.other ? "layer,q_head" : "model,layer,q_head";
    }
    qk_columns *columns;
    qk_error err;
    printed p = {.request = r, .call = call};
    qk_status status = qk_head_list(&r->query, &columns, &p.of, &err);
    if (status != QK_OK) {
        cli_error("%s", err.message);
        return cli_settings_code(status);
    }
    p.columns = columns;
    int code = print_heads(&p);
    qk_columns_free(&columns);
    return code;
}

const cli_command cmd_heads = {
    .name = "heads",
    .group = "Look",
    .summary = "a list of heads, by a condition",
    .usage = "RESULTS [RESULTS] [options]",
    .description =
        "Lists the heads of which a condition holds, a row each, with their numbers from the "
        "tables. RESULTS is the output folder of pca, rotate, plasticity, attention, "
        "analyze, compare-stages, ablate or study.\n\nA condition compares columns with "
        "numbers or "
        "texts by ==, !=, <, <=, >, >=, and joins such comparisons by and, or, not and "
        "parentheses. abs(r_k) is r_k without its sign; probability is category_probability; "
        "a text with spaces stands in quotes. A comparison with an empty field does not "
        "hold. 'qkscope explain' lists the columns there are.\n\nOf two folders, of one "
        "model each, a row has both: a.r_q is of the first, b.r_q of the second, diff.r_q "
        "the second less the first. --columns r_q is a.r_q and b.r_q.\n\nNumbers are "
        "rounded, except as CSV and JSON. A list is what --heads takes, as it is or as @FILE "
        "(docs/heads.md). Results that are not complete, or were changed, are refused unless "
        "--force is given.",
    .examples =
        "qkscope heads results\n"
        "qkscope heads results --where \"category == position-dominated and probability >= "
        "0.95\"\n"
        "qkscope heads results --sort \"-abs(bias_strength)\" --top 10 --format latex\n"
        "qkscope heads results --sort -r_q --top 6 --format list\n"
        "qkscope heads before after --where \"a.category != b.category\" --sort "
        "\"-abs(diff.r_q)\"\n",
    .table = &TABLE,
    .max_arguments = 2,
    .run = run_heads,
};
