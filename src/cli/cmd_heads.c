/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope heads: a row for each head that is asked for. */
#include "row_formats.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const qk_word FORMATS[] = {{"table", CLI_AS_TABLE}, {"csv", CLI_AS_CSV},
                                  {"json", CLI_AS_JSON},   {"markdown", CLI_AS_MARKDOWN},
                                  {"latex", CLI_AS_LATEX}, {"longtable", CLI_AS_LONGTABLE},
                                  {"list", CLI_AS_LIST},   {NULL, 0}};

static const qk_word BY[] = {{"query", 0}, {"key", 1}, {NULL, 0}};

enum { MOST_LENGTHS = 2 * QK_LENGTHS_SIZE + 16 };

typedef struct request {
    cli_common common;
    qk_head_query query;
    int format;
} request;

static const qk_setting ROWS[] = {
    {"where", QK_SETTING_TEXT, QK_SETTING_AT(request, query.where), .value = "CONDITION",
     .help = "heads that meet this: \"category = 'mixed' and abs(r_k) >= 0.5\"", .unset = "all",
     .section = "Heads"},
    {"heads", QK_SETTING_HEADS, QK_SETTING_AT(request, query.heads), .value = "L:H,...",
     .help = "of these query heads: 2:1,14-23:*, 5 (of every layer), @FILE", .unset = "all",
     .section = "Heads"},
    {"sort", QK_SETTING_TEXT, QK_SETTING_AT(request, query.sort), .value = "COLUMN",
     .help = "order by a column or an expression, -abs(r_k); -: largest first",
     .unset = "layer and head", .section = "Heads"},
    {"top", QK_SETTING_INTEGER, QK_SETTING_AT(request, query.top), .min = 1, .max = 1e9,
     .value = "N", .help = "the first N of them", .unset = "all", .section = "Heads",
     .traits = QK_SETTING_ZERO_IS_NULL},
    {"by", QK_SETTING_CHOICE, QK_SETTING_AT(request, query.by_key), .words = BY,
     .help =
         "a row a query head; or a key head, with least, mean and largest number of its query "
         "heads",
     .section = "Heads"},
    {"force", QK_SETTING_FLAG, QK_SETTING_AT(request, query.force),
     .help = "also read tables that are incomplete or were changed", .section = "Heads"},
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

/* ---- formats ---------------------------------------------------------------------------- */

typedef struct printed {
    const request *request;
    const cli_call *call;
    const qk_columns *columns;
    size_t rows;
    qk_head_totals of;
} printed;

/* Of the texts, and of an ablation's where they are others. */
static const char *lengths_of(const qk_head_side *side, char text[MOST_LENGTHS])
{
    snprintf(text, MOST_LENGTHS, "%s%s%s%s", side->lengths,
             *side->lengths && *side->ablation ? "; " : "", *side->ablation ? "ablation: " : "",
             side->ablation);
    return text;
}

/* Says which model is a, and which b. */
static void print_sides(const printed *p)
{
    const qk_head_query *query = &p->request->query;
    for (int i = 0; i < 2 && query->other && !p->request->common.quiet; i++) {
        const qk_head_side *side = &p->of.sides[i];
        char lengths[MOST_LENGTHS];
        cli_print("%c: %s (%s%s%s), %s\n", "ab"[i], i ? query->other : query->results,
                  *side->model ? side->model : "a model without a name",
                  *side->capture ? ", " : "", side->capture, lengths_of(side, lengths));
    }
}

static int print_table(const printed *p)
{
    const bool quiet = p->request->common.quiet, two = p->request->query.other;
    char lengths[MOST_LENGTHS];
    print_sides(p);
    if (two && !quiet)
        cli_print("\n");
    const bool chosen = p->request->query.columns || !isatty(STDOUT_FILENO);
    int code = cli_print_rows(p->columns, chosen ? CLI_AS_TABLE : CLI_TO_FIT, NULL);
    if (quiet)
        return code;
    cli_print(p->rows > 0 ? "\n" : "");
    if (!two && *lengths_of(&p->of.sides[0], lengths))
        cli_print("%s\n", lengths);
    if (p->request->query.by_key)
        cli_print("%zu key head%s, of %zu query heads\n", p->rows, cli_s((int64_t)p->rows),
                  p->of.heads);
    else
        cli_print("%zu of %zu head%s\n", p->rows, p->of.heads, cli_s((int64_t)p->of.heads));
    if (p->of.sides[0].alone + p->of.sides[1].alone > 0)
        cli_print("in a alone: %zu, in b alone: %zu\n", p->of.sides[0].alone,
                  p->of.sides[1].alone);
    return code;
}

static int print_json(const printed *p)
{
    json_t *heads = cli_rows_json(p->columns);
    char lengths[2][MOST_LENGTHS];
    for (int i = 0; i < 2; i++)
        lengths_of(&p->of.sides[i], lengths[i]);
    cli_json_print(cli_object(
        CLI_ROWS(CLI_ROW("results", p->request->query.results),
                 CLI_ROW_IF(p->request->query.other, "beside", p->request->query.other),
                 CLI_ROW("heads_in_results", p->of.heads), CLI_ROW("lengths", lengths[0]),
                 CLI_ROW_IF(p->request->query.other, "lengths_beside", lengths[1]),
                 CLI_ROW_IF(p->request->query.other, "in_a_alone", p->of.sides[0].alone),
                 CLI_ROW_IF(p->request->query.other, "in_b_alone", p->of.sides[1].alone),
                 CLI_ROW("heads", heads))));
    return EXIT_CODE_OK;
}

/* For --heads, where an empty list would mean none given. */
static int print_list(const printed *p)
{
    const char *const *models = qk_columns_texts(p->columns, "model");
    const int64_t *layers = qk_columns_integers(p->columns, "layer");
    const int64_t *heads = qk_columns_integers(p->columns, "q_head");
    for (size_t i = 1; i < p->rows && models; i++)
        if (strcmp(models[i], models[0]) != 0)
            return cli_usage("these heads are of more than one model; a list is of one: say "
                             "which with --where \"model = '%s'\"",
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

/* They are in no row. */
static void tell_failed(const printed *p)
{
    const qk_head_query *query = &p->request->query;
    for (int i = 0; i < (query->other ? 2 : 1); i++) {
        const qk_head_side *side = &p->of.sides[i];
        if (side->failed > 0)
            cli_error("warning: %s/manifest.json: %zu head%s no numbers; the first is %s",
                      i == 0 ? query->results : query->other, side->failed,
                      side->failed == 1 ? " has" : "s have", side->first_failed);
    }
}

/* ---- running ---------------------------------------------------------------------------- */

static int print_heads(const printed *p)
{
    const int format = p->request->common.json ? CLI_AS_JSON : p->request->format;
    char count[80], a[MOST_LENGTHS], b[MOST_LENGTHS], lengths[2 * MOST_LENGTHS + 8];
    if (format == CLI_AS_TABLE)
        return print_table(p);
    if (format == CLI_AS_JSON)
        return print_json(p);
    if (format == CLI_AS_LIST)
        return print_list(p);
    snprintf(count, sizeof count,
             p->request->query.by_key ? "%zu key heads, of %zu query heads"
                                      : "%zu of %zu heads",
             p->rows, p->of.heads);
    snprintf(lengths, sizeof lengths, "%s%s%s", lengths_of(&p->of.sides[0], a),
             p->request->query.other ? "; b: " : "", lengths_of(&p->of.sides[1], b));
    const char *const comments[3] = {p->call->line ? p->call->line : "qkscope heads", count,
                                     lengths};
    return cli_print_rows(p->columns, format, comments);
}

static int run_heads(cli_call *call)
{
    static const char *const COLUMNS[] = {"columns", NULL};
    request *r = call->request;
    if (call->count == 0)
        return cli_usage("which results? Give the folder with the tables");
    r->query.results = call->arguments[0];
    r->query.other = call->count > 1 ? call->arguments[1] : NULL;
    if (r->query.by_key && r->format == CLI_AS_LIST)
        return cli_usage(
            "a list for --heads is of query heads: give --by key without --format list");
    if (r->format == CLI_AS_LIST && !r->common.json) {
        cli_note_idle(call, "a format of columns", true, COLUMNS);
        r->query.columns = r->query.other ? "layer,q_head" : "model,layer,q_head";
    }
    r->query.sentence = !r->query.columns && (r->common.json || r->format == CLI_AS_JSON ||
                                              (r->format == CLI_AS_TABLE && !r->common.quiet));
    qk_columns *columns;
    qk_error err;
    printed p = {.request = r, .call = call};
    qk_status status = qk_head_list(&r->query, &columns, &p.of, &err);
    if (status != QK_OK) {
        cli_error("%s", err.message);
        return cli_settings_code(status);
    }
    p.columns = columns;
    p.rows = qk_columns_num_rows(columns);
    if (*p.of.empty && !r->common.quiet)
        cli_error("note: no head has %s here: the fields are empty; 'qkscope explain COLUMN' "
                  "says where a column comes from",
                  p.of.empty);
    tell_failed(&p);
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
        "Lists the heads that meet a condition, a row each, with their numbers from the tables. "
        "RESULTS is the output folder of pca, rotate, plasticity, attention, analyze, "
        "compare-stages, ablate or study.\n\nA condition is SQL over columns: \"category = "
        "'mixed' and abs(r_k) >= 0.5\". == and != are = and <>; a text stands in single quotes; "
        "probability is category_probability; a comparison with an empty field does not hold. "
        "'qkscope explain' lists the columns there are, docs/sql.md says more.\n\nWith two "
        "folders of one model each, a row has both: a.r_q is from the first, b.r_q from the "
        "second, diff.r_q the second less the first. --columns r_q is a.r_q and b.r_q.\n\nWith "
        "--by key a row is a key head, which is what a cache of keys and values holds: q_heads "
        "of its group_size query heads meet the condition, and r_q_min, r_q_mean and r_q_max "
        "are over these.\n\nNumbers are rounded, except as CSV and JSON. A list is what --heads "
        "takes, as it is or as @FILE (docs/sql.md#lists-of-heads). Results that are not "
        "complete, or were changed, are refused unless --force is given.",
    .examples =
        "qkscope heads results\n"
        "qkscope heads results --where \"category == 'position-dominated' and probability >= "
        "0.95\"\n"
        "qkscope heads results --sort \"-abs(bias_strength)\" --top 10 --format latex\n"
        "qkscope heads results --sort -r_q --top 6 --format list\n"
        "qkscope heads results --by key --where \"window_99_hi <= 256\"\n"
        "qkscope heads before after --where \"a.category != b.category\" --sort "
        "\"-abs(diff.r_q)\"\n",
    .table = &TABLE,
    .max_arguments = 2,
    .run = run_heads,
};
