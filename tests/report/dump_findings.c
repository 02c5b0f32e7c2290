/* SPDX-License-Identifier: Apache-2.0 */
/* For test_report_findings.py and test_report_null.py:
 *
 *     dump_findings FOLDER...     the findings of results folders, a JSON object a line
 *     dump_findings --tests       of each line of stdin a test: a name, and numbers; prints p and side
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/false_discovery.h"
#include "report/findings.h"
#include "stats/significance.h"

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *dump_finding(const qk__finding *f)
{
    json_t *figures = json_array();
    for (size_t i = 0; i < QK__NUM_SHOWN && f->figures[i]; i++)
        json_array_append_new(figures, json_string(f->figures[i]));
    return json_pack("{ss ss ss so so so ss ss so}", "id", f->id, "topic", f->topic, "verdict",
                     qk__verdict_tokens[f->verdict], "p", number(f->p), "adjusted",
                     number(f->p_adjusted), "effect", number(f->effect), "claim",
                     f->claim ? f->claim : "", "evidence", f->evidence ? f->evidence : "",
                     "figures", figures);
}

static int dump_folder(const char *folder)
{
    qk__store *tables = NULL;
    const qk_context context = {0};
    qk__findings findings = {0};
    const qk__score_choice scores = {"ap_drop", NULL};
    qk_error err = {0};
    qk_status status = qk__store_open(&tables, &context, &err);
    if (status == QK_OK)
        status = qk__store_add(tables, "main", folder, false, &err);
    if (status == QK_OK)
        status = qk__findings_derive(tables, &scores, &findings, &err);
    if (status == QK_OK) {
        json_t *all = json_array();
        for (size_t i = 0; i < findings.count; i++)
            json_array_append_new(all, dump_finding(&findings.items[i]));
        json_dumpf(all, stdout, JSON_REAL_PRECISION(17));
        putchar('\n');
        json_decref(all);
    } else {
        fprintf(stderr, "%s: %s\n", folder, err.message);
    }
    qk__findings_free(&findings);
    qk__store_close(&tables);
    return status != QK_OK;
}

/* Whether it is a slope, what it is tested against, and series, layer, x and value of each group. */
static qk__test test_layers(const double *v, size_t count)
{
    static qk__layer_mean items[1000];
    qk__layers layers = {.items = items};
    for (size_t i = 2; i + 3 < count; i += 4) {
        qk__layers_add(&layers, (size_t)v[i], (int)v[i + 1], v[i + 3]);
        items[layers.count - 1].x = v[i + 2];
    }
    qk__layer_fit fit = qk__fit_layers(&layers, v[0] != 0);
    return qk__test_layers(&fit, v[1]);
}

/* The numbers of a line as values. */
static void run_test(const char *name, const double *v, size_t count)
{
    qk__test test = {NAN, 0};
    double adjusted[64];
    if (strcmp(name, "mean") == 0)
        test = qk__test_mean(v + 1, count - 1, v[0]);
    else if (strcmp(name, "signs") == 0)
        test = qk__test_signs(v + 1, count - 1, v[0]);
    else if (strcmp(name, "correlation") == 0)
        test = qk__test_correlation(v[0], v[1]);
    else if (strcmp(name, "layers") == 0)
        test = test_layers(v, count);
    else if (strcmp(name, "correct") == 0) {
        if (qk__correct_p_values(v, count, adjusted, NULL) != QK_OK)
            exit(1);
        for (size_t i = 0; i < count; i++)
            printf("%.17g ", adjusted[i]);
        putchar('\n');
        return;
    }
    printf("%.17g %d\n", test.p, test.side);
}

static int run_tests(void)
{
    static char line[1 << 20];
    static double values[1 << 15];
    while (fgets(line, sizeof line, stdin)) {
        size_t count = 0;
        char *next = line + strcspn(line, " \n"), *end;
        for (double v; v = strtod(next + (*next == ' '), &end), end != next + (*next == ' ');
             next = end)
            values[count++] = v;
        line[strcspn(line, " \n")] = 0;
        run_test(line, values, count);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--tests") == 0)
        return run_tests();
    for (int i = 1; i < argc; i++)
        if (dump_folder(argv[i]))
            return 1;
    return 0;
}
