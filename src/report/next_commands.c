/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that bring what results do not have. */
#include "report/next_commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "base/error.h"
#include "base/json_build.h"
#include "figure/figure_note.h"
#include "figure/panels.h"

enum { MOST_COMMANDS = 3 };
static const char ABLATION[] = "ablation_heads.csv";

typedef bool is_missing(const qk__report *report, const char *table);

static bool has_table(const qk__report *report, const char *table)
{
    for (size_t f = 0; f < qk__num_fields; f++)
        if (strcmp(qk__fields[f].file, table) == 0 &&
            qk__has_field(report->results, qk__fields[f].info.name))
            return true;
    return false;
}

static bool lacks_table(const qk__report *report, const char *table)
{
    return !has_table(report, table);
}

/* heads.csv comes with qk.csv, and one command is said once. */
static bool lacks_pca(const qk__report *report, const char *table)
{
    return lacks_table(report, table) && has_table(report, "qk.csv");
}

static bool has_interval(const qk__field *field, const qk__result_head *head)
{
    return isfinite(qk__field_value(field, &head->lo));
}

/* Those of an ablation do not count: it always has them. */
static bool lacks_intervals(const qk__report *report, const char *unused)
{
    (void)unused;
    qk__each_model (report->results, model)
        qk__each_head (model, head)
            for (size_t f = 0; f < qk__num_fields; f++)
                if (strcmp(qk__fields[f].file, ABLATION) != 0 &&
                    has_interval(&qk__fields[f], head))
                    return false;
    return true;
}

static bool has_few_texts(const qk__report *report, const char *unused)
{
    (void)unused;
    qk__each_model (report->results, model)
        qk__each_head (model, head)
            if (head->v.texts < QK_FEW_TEXTS)
                return true;
    return false;
}

static bool is_always_next(const qk__report *report, const char *unused)
{
    (void)report;
    (void)unused;
    return true;
}

/* First what tells how far the numbers hold, then geometry, behaviour, cause, use. */
static const struct {
    const char *table; /* or the name of what is missing */
    is_missing *missing;
    const char *brings, *command;
} ROWS[] = {
    {"intervals", lacks_intervals, "Intervals over texts, which tell how far the numbers hold",
     "qkscope analyze CAPTURE -o RESULTS --ci 95"},
    {"texts", has_few_texts, "More texts: of so few, others may give other numbers",
     "qkscope capture --model MODEL --text TEXTS -o LARGER"},
    {"qk.csv", lacks_table, "Components, and which heads follow position",
     "qkscope pca CAPTURE -o RESULTS"},
    {"heads.csv", lacks_pca, "Which heads follow position", "qkscope pca CAPTURE -o RESULTS"},
    {"rotated.csv", lacks_table, "Drift and separation, and which keys they favour",
     "qkscope rotate CAPTURE -o RESULTS"},
    {"head_metrics.csv", lacks_table, "Plasticity: how far the query decides",
     "qkscope plasticity CAPTURE -o RESULTS"},
    {"attention.csv", lacks_table, "What the heads attend to, measured",
     "qkscope attention CAPTURE -o RESULTS"},
    {ABLATION, lacks_table, "What the model loses without a head",
     "qkscope ablate --model MODEL --text TEXT -o RESULTS/ablation"},
    {"stages.csv", lacks_table, "What RoPE changes",
     "qkscope compare-stages PRE POST -o RESULTS"},
    {"list", is_always_next, "Heads as a list for other programs",
     "qkscope heads RESULTS --format list"},
};
enum { NUM_ROWS = sizeof ROWS / sizeof *ROWS };

json_t *qk__commands_by_table(void)
{
    json_t *commands = json_object();
    for (size_t i = 0; i < NUM_ROWS; i++)
        commands = qk__json_set(commands, ROWS[i].table, json_string(ROWS[i].command));
    return commands;
}

/* The capture of the only model; NULL: of several, or unknown. */
static const char *only_capture(const qk__report *report)
{
    const qk__result_model *model = report->results->models;
    return report->results->num_models == 1
               ? qk__provenance_capture(&report->provenance, model->name, model->label)
               : NULL;
}

static qk_status spell_command(qk__buffer *out, const char *command, const char *capture)
{
    static const char PLACE[] = "CAPTURE";
    const char *at = capture ? strstr(command, PLACE) : NULL;
    if (!at)
        return qk__buffer_printf(out, NULL, "%s", command);
    QK_TRY(qk__buffer_append(out, command, (size_t)(at - command), NULL));
    QK_TRY(qk__put_word(out, capture, NULL));
    return qk__buffer_printf(out, NULL, "%s", at + sizeof PLACE - 1);
}

static void put_command(qk__page *page, const char *brings, const char *command,
                        const char *capture)
{
    qk__buffer out = {0};
    if (spell_command(&out, command, capture) == QK_OK)
        qk__put(page, "li", "%s: `%s`", brings, (const char *)out.data);
    else
        qk__page_nomem(page);
    qk__buffer_free(&out);
}

void qk__put_next_commands(qk__page *page, const qk__report *report)
{
    const char *capture = only_capture(report);
    qk__open(page, "div.card#next");
    qk__put(page, "h3", "What to do next");
    qk__open(page, "ul");
    for (size_t i = 0, shown = 0; i < NUM_ROWS && shown < MOST_COMMANDS; i++)
        if (ROWS[i].missing(report, ROWS[i].table)) {
            put_command(page, ROWS[i].brings, ROWS[i].command, capture);
            shown++;
        }
    qk__close(page, "ul");
    if (report->results->num_models > 1)
        qk__put(page, "p.note",
                "Of each model by itself; in a study its file says it for all of them.");
    qk__close(page, "div");
}
