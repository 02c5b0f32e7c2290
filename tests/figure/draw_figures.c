/* SPDX-License-Identifier: Apache-2.0 */
/* Draws every figure that applies to a results folder, for the Python tests:
 *     draw_figures RESULTS FOLDER [THEME [FORMATS]]
 * Says "NAME STATUS CAPTION" of each. The exit code is the first status that is not QK_OK. */
#include <stdio.h>

#include "figure/catalog.h"
#include "results/read_results.h"

static qk_status draw(int argc, char **argv, qk_error *err)
{
    qk_figure_settings settings;
    qk__results *results;
    qk_figure_settings_default(&settings);
    qk_status status = qk__results_read(&results, argv[1], NULL, err);
    if (status != QK_OK)
        return status;
    if (argc > 3)
        status = qk_figure_theme_parse(argv[3], &settings.theme, err);
    if (status == QK_OK && argc > 4)
        status = qk_figure_formats_parse(argv[4], &settings.formats, err);
    if (status == QK_OK) {
        qk__drawn_list list;
        qk__subject subject = {.results = results};
        status = qk__draw_figures(&subject, argv[2], &settings, &(qk_context){0}, &list, err);
        for (size_t i = 0; i < list.count; i++)
            printf("%s %d %s\n", list.items[i].name, (int)list.items[i].status,
                   list.items[i].kind->caption);
        qk__drawn_list_free(&list);
    }
    qk__results_free(&results);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "draw_figures RESULTS FOLDER [THEME [FORMATS]]\n");
        return QK_ERR_ARGUMENT;
    }
    qk_error err = {0};
    qk_status status = draw(argc, argv, &err);
    if (status != QK_OK)
        fprintf(stderr, "%s\n", err.message);
    return (int)status;
}
