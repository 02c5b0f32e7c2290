/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a table in memory as a table for eyes, CSV, JSON, Markdown or LaTeX. */
#include "row_formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- cells ------------------------------------------------------------------------------ */

/* A column as it is printed. */
typedef struct shown {
    const qk_column_info *info;
    const double *reals;
    const int64_t *integers;
    const char *const *texts;
    const char *format; /* one for all real numbers of a column, so that they can be compared */
    int width;          /* in a table for eyes */
    bool left_out;      /* there is no room for it */
} shown;

enum { MAX_CELL = 64 };

/* Whole numbers as they are, other numbers to three digits of the largest or more, very small and large ones as powers
 * of ten. */
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

/* The column whose interval this column bounds, or whose cross-fitted value it holds; NULL: none. */
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
        list[i] = (shown){info,
                          qk_columns_reals(columns, info->name),
                          qk_columns_integers(columns, info->name),
                          qk_columns_texts(columns, info->name),
                          "",
                          0,
                          false};
        const shown *of = interval_of(list, i);
        if (list[i].reals)
            list[i].format =
                of ? of->format : number_format(list[i].reals, qk_columns_num_rows(columns));
    }
    return list;
}

/* The text of a cell, "" where it is empty. */
static const char *cell_text(const shown *column, size_t row, char text[MAX_CELL])
{
    *text = 0;
    if (column->texts)
        return column->texts[row] ? column->texts[row] : "";
    if (column->integers)
        snprintf(text, MAX_CELL, "%lld", (long long)column->integers[row]);
    else if (column->reals && isfinite(column->reals[row]))
        snprintf(text, MAX_CELL, column->format, column->reals[row]);
    return text;
}

/* ---- formats ---------------------------------------------------------------------------- */

typedef struct printed {
    const qk_columns *columns;
    shown *shown;
    size_t count, rows; /* columns; rows */
    const char *const *comments;
} printed;

/* ---- tables for eyes -------------------------------------------------------------------- */

enum { GAP = 2, NO_LIMIT = 1 << 30, FEW_ROWS = 6 };

/* Among real numbers in one format the smallest, the largest and the nearest to 0 are the widest. */
static int width_of(const printed *p, size_t i)
{
    const shown *column = &p->shown[i];
    size_t some[3] = {0}; /* rows */
    int widest = (int)strlen(column->info->name);
    for (size_t row = 0; row < p->rows && column->reals; row++) {
        const double x = column->reals[row], *of = column->reals;
        some[0] = !(x >= of[some[0]]) && isfinite(x) ? row : some[0];
        some[1] = !(x <= of[some[1]]) && isfinite(x) ? row : some[1];
        some[2] = !(fabs(x) >= fabs(of[some[2]])) && isfinite(x) && x != 0 ? row : some[2];
    }
    for (size_t k = 0; k < (column->reals ? 3 : p->rows) && k < p->rows; k++) {
        char text[MAX_CELL];
        int width =
            (int)cli_text_columns(cell_text(column, column->reals ? some[k] : k, text), -1);
        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Chooses the columns there is room for; ends of intervals come last. */
static void choose(const printed *p, int room)
{
    room += GAP;
    for (int intervals = 0; intervals < 2; intervals++)
        for (size_t i = 0; i < p->count; i++) {
            shown *column = &p->shown[i];
            if ((interval_of(p->shown, i) != NULL) != intervals)
                continue;
            column->width = width_of(p, i);
            column->left_out = column->width + GAP > room;
            room -= column->left_out ? 0 : column->width + GAP;
        }
}

/* Texts to the left, numbers to the right; no spaces behind the last column. */
static void print_padded(const shown *column, const char *text, bool last)
{
    if (!column->texts)
        cli_print(last ? "%*s\n" : "%*s  ", column->width, text);
    else
        cli_print(last ? "%-*s\n" : "%-*s  ", last ? 0 : column->width, text);
}

/* row counts from 1; row 0 has the names. */
static void print_row(const printed *p, size_t row)
{
    char text[MAX_CELL];
    size_t last = p->count;
    while (last > 0 && p->shown[last - 1].left_out)
        last--;
    for (size_t i = 0; i < last; i++) {
        const shown *column = &p->shown[i];
        const char *cell = row > 0 ? cell_text(column, row - 1, text) : column->info->name;
        if (!column->left_out)
            print_padded(column, *cell ? cell : "-", i + 1 == last);
    }
}

static void name_others(const printed *p, int room)
{
    int at = 0;
    for (size_t i = 0; i < p->count; i++) {
        const int width = (int)strlen(p->shown[i].info->name) + 1;
        if (!p->shown[i].left_out)
            continue;
        if (at == 0 || at + width > room) {
            cli_print(at == 0 ? "\nno room for:" : "\n            ");
            at = (int)strlen("no room for:");
        }
        cli_print(" %s", p->shown[i].info->name);
        at += width;
    }
    if (at > 0)
        cli_print("\na wider terminal, --columns, or --format csv has these\n");
}

/* Of few heads the sentences stand before the table, which has no room for them. */
static void print_sentences(printed *p, int room)
{
    const shown *last = p->count > 0 ? &p->shown[p->count - 1] : NULL;
    if (!last || strcmp(last->info->name, "sentence") != 0)
        return;
    bool any = false;
    p->count--;
    for (size_t i = 0; i < p->rows && p->rows <= FEW_ROWS && last->texts; i++)
        if (last->texts[i] && *last->texts[i]) {
            cli_print_wrapped(last->texts[i], 0, room);
            cli_print("\n");
            any = true;
        }
    cli_print(any ? "\n" : "");
}

static int print_within(const printed *all, int room)
{
    printed p = *all;
    print_sentences(&p, room);
    choose(&p, room);
    for (size_t row = 0; row <= p.rows && p.rows > 0; row++)
        print_row(&p, row);
    if (p.rows > 0)
        name_others(&p, room);
    return EXIT_CODE_OK;
}

static int print_table(const printed *p)
{
    return print_within(p, NO_LIMIT);
}

static int print_to_fit(const printed *p)
{
    return print_within(p, cli_columns(STDOUT_FILENO));
}

/* ---- formats for programs --------------------------------------------------------------- */

static int print_csv(const printed *p)
{
    char *text;
    qk_error err;
    if (qk_columns_csv(p->columns, &text, &err) != QK_OK) {
        cli_error("%s", err.message);
        return EXIT_CODE_FAILURE;
    }
    cli_print_file(text);
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

static json_t *rows_json(const printed *p)
{
    json_t *rows = json_array();
    for (size_t row = 0; row < p->rows; row++) {
        json_t *object = json_object();
        for (size_t i = 0; i < p->count; i++)
            json_object_set_new(object, p->shown[i].info->name, json_cell(&p->shown[i], row));
        json_array_append_new(rows, object);
    }
    return rows;
}

/* Each entry: a character with a meaning, and what replaces it. */
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

/* One character at a time, since the precision of a %s counts columns. A character that a terminal would obey is spelt
 * with a backslash, which is escaped, too. */
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

/* Prints a number with its minus sign and its power of ten. */
static void print_latex_number(const char *text)
{
    const char *power = strchr(text, 'e');
    if (power)
        cli_print("$%.*s\\times10^{%d}$", (int)(power - text), text, atoi(power + 1));
    else
        cli_print(*text ? "$%s$" : "--", text);
}

/* A symbol of the schema, "μ_q α_k": an index is one character. */
static void print_symbol(const char *symbol)
{
    static const struct {
        const char *text, *latex;
    } SIGNS[] = {
        {"α", "\\alpha"}, {"β", "\\beta"}, {"μ", "\\mu"}, {"ω", "\\omega"}, {"²", "^2"}};
    enum { NUM_SIGNS = sizeof SIGNS / sizeof *SIGNS };
    cli_print("$");
    while (*symbol) {
        const size_t letters = strspn(symbol, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        size_t i = 0;
        while (i < NUM_SIGNS && strncmp(symbol, SIGNS[i].text, strlen(SIGNS[i].text)) != 0)
            i++;
        if (letters > 1)
            cli_print("\\mathrm{%.*s}", (int)letters, symbol);
        else if (i < NUM_SIGNS)
            cli_print("%s", SIGNS[i].latex);
        else
            cli_print("%.1s", symbol);
        symbol += letters > 1 ? letters : i < NUM_SIGNS ? strlen(SIGNS[i].text) : 1;
    }
    cli_print("$");
}

/* The symbol of a column; its name where it has none, or another column has the same. */
static void print_latex_header(const printed *p, size_t i)
{
    const char *symbol = p->shown[i].info->symbol;
    for (size_t k = 0; k < p->count && symbol; k++)
        if (k != i && p->shown[k].info->symbol && strcmp(symbol, p->shown[k].info->symbol) == 0)
            symbol = NULL;
    if (symbol)
        print_symbol(symbol);
    else
        print_escaped(p->shown[i].info->name, LATEX);
}

static int print_tex(const printed *p, bool pages)
{
    char text[MAX_CELL];
    const char *environment = pages ? "longtable" : "tabular";
    cli_print("%% %s\n%% %s; needs \\usepackage{booktabs%s}\n", p->comments[0], p->comments[1],
              pages ? ",longtable" : "");
    if (p->comments[2])
        cli_print("%% %s\n", p->comments[2]);
    cli_print("\\begin{%s}{", environment);
    for (size_t i = 0; i < p->count; i++)
        cli_print(p->shown[i].texts ? "l" : "r");
    cli_print("}\n\\toprule\n");
    for (size_t i = 0; i < p->count; i++) {
        print_latex_header(p, i);
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

static int print_latex(const printed *p)
{
    return print_tex(p, false);
}

static int print_longtable(const printed *p)
{
    return print_tex(p, true);
}

/* ---- for commands ----------------------------------------------------------------------- */

const qk_word cli_row_formats[] = {{"table", CLI_AS_TABLE},
                                   {"csv", CLI_AS_CSV},
                                   {"json", CLI_AS_JSON},
                                   {"markdown", CLI_AS_MARKDOWN},
                                   {"latex", CLI_AS_LATEX},
                                   {"longtable", CLI_AS_LONGTABLE},
                                   {NULL, 0}};

static int print_json(const printed *p)
{
    cli_json_print(rows_json(p));
    return EXIT_CODE_OK;
}

int cli_print_rows(const qk_columns *columns, int format, const char *const comments[3])
{
    static int (*const PRINT[])(const printed *) = {
        [CLI_AS_TABLE] = print_table, [CLI_AS_CSV] = print_csv,
        [CLI_AS_JSON] = print_json,   [CLI_AS_MARKDOWN] = print_markdown,
        [CLI_AS_LATEX] = print_latex, [CLI_AS_LONGTABLE] = print_longtable,
        [CLI_TO_FIT] = print_to_fit,
    };
    printed p = {
        .columns = columns, .rows = qk_columns_num_rows(columns), .comments = comments};
    p.shown = show_columns(columns, &p.count);
    int code = p.shown ? PRINT[format](&p) : cli_exit_code(QK_ERR_NOMEM);
    if (!p.shown)
        cli_error("out of memory");
    free(p.shown);
    return code;
}

json_t *cli_rows_json(const qk_columns *columns)
{
    printed p = {.columns = columns, .rows = qk_columns_num_rows(columns)};
    p.shown = show_columns(columns, &p.count);
    json_t *rows = p.shown ? rows_json(&p) : NULL;
    free(p.shown);
    return rows;
}
