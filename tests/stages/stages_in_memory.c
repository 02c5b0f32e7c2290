/* SPDX-License-Identifier: Apache-2.0 */
/* stages_in_memory CAPTURE TABLE: a table of compare-stages as text, with nothing written. */
#include <stdio.h>

#include <qkscope/analysis.h>
#include <qkscope/results.h>

static void print_value(const qk_columns *columns, const qk_column_info *info, size_t row)
{
    if (info->type == QK_COLUMN_TEXT)
        printf("%s", qk_columns_texts(columns, info->name)[row]);
    else if (info->type == QK_COLUMN_INTEGER)
        printf("%lld", (long long)qk_columns_integers(columns, info->name)[row]);
    else
        printf("%.17g", qk_columns_reals(columns, info->name)[row]);
}

int main(int argc, char **argv)
{
    qk_stages_settings settings;
    qk_stages_results *report;
    qk_columns *columns;
    const qk_column_info *info;
    qk_error err;
    if (argc != 3)
        return 2;
    qk_stages_settings_default(&settings);
    settings.before = argv[1];
    if (qk_stages_run(&settings, &report, &err) != QK_OK ||
        qk_results_table(report->run, argv[2], &columns, &err) != QK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (size_t c = 0; (info = qk_columns_info(columns, c)); c++)
        printf("%s%s", c ? "," : "", info->name);
    for (size_t i = 0; i < qk_columns_num_rows(columns); i++)
        for (size_t c = 0; (info = qk_columns_info(columns, c)); c++) {
            printf("%s", c ? "," : "\n");
            print_value(columns, info, i);
        }
    printf("\n");
    qk_columns_free(&columns);
    qk_stages_results_free(&report);
    return 0;
}
