/* SPDX-License-Identifier: Apache-2.0 */
/* What an analysis command says when it is done: a short summary, or JSON. */
#include "analysis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const SOURCES[] = {"given", "from capture.json", "inferred"};

static size_t count_done(const qk_study_report *report)
{
    return report->num_heads - report->num_failed - report->num_missing;
}

/* ---- PCA ----------------------------------------------------------------------------------
 */

static void count_categories(const qk_study_report *report, size_t counts[QK_NUM_CATEGORIES])
{
    for (size_t i = 0; i < report->num_heads; i++)
        if (report->heads[i].pca)
            counts[report->heads[i].pca->category]++;
}

static void print_categories(const qk_study_report *report)
{
    size_t counts[QK_NUM_CATEGORIES] = {0}, total = 0;
    count_categories(report, counts);
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        total += counts[c];
    putchar('\n');
    for (int c = 0; c < QK_NUM_CATEGORIES && total > 0; c++)
        printf("  %-20s %5zu  %5.1f %%\n", qk_category_name((qk_category)c), counts[c],
               100.0 * (double)counts[c] / (double)total);
}

static json_t *categories(const qk_study_report *report)
{
    size_t counts[QK_NUM_CATEGORIES] = {0};
    json_t *object = json_object();
    count_categories(report, counts);
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        json_object_set_new(object, qk_category_name((qk_category)c),
                            json_integer((json_int_t)counts[c]));
    return object;
}

/* ---- rotation -----------------------------------------------------------------------------
 */

typedef struct rotation_summary {
    size_t heads, degenerate, recency;
    double r_q, r_k, plane; /* means of |r_q_a|, |r_k_a|, plane_var_fraction */
} rotation_summary;

static rotation_summary summarise_rotation(const qk_study_report *report)
{
    rotation_summary sum = {0};
    size_t planes = 0;
    for (size_t i = 0; i < report->num_heads; i++) {
        const qk_rotation *r = report->heads[i].rotation;
        if (r && r->degenerate)
            sum.degenerate++;
        if (!r || r->degenerate)
            continue;
        sum.heads++;
        sum.recency += r->bias_strength > 0;
        sum.r_q += fabs(r->r_q_a);
        sum.r_k += fabs(r->r_k_a);
        if (!isnan(r->plane_var_fraction)) {
            sum.plane += r->plane_var_fraction;
            planes++;
        }
    }
    sum.r_q /= (double)sum.heads;
    sum.r_k /= (double)sum.heads;
    sum.plane /= (double)planes;
    return sum;
}

static void print_rotation(const qk_study_report *report)
{
    rotation_summary sum = summarise_rotation(report);
    if (sum.heads > 0)
        printf("\n  bias towards recent keys      %5zu of %zu heads\n"
               "  mean |r_q|, |r_k| along a     %5.3f, %5.3f\n"
               "  mean variance in the plane    %5.1f %%\n",
               sum.recency, sum.heads, sum.r_q, sum.r_k, 100 * sum.plane);
    if (sum.degenerate > 0)
        printf("  without drift                 %5zu heads\n", sum.degenerate);
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *rotation_json(const qk_study_report *report)
{
    rotation_summary sum = summarise_rotation(report);
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o}", "heads", (json_int_t)sum.heads,
                     "degenerate", (json_int_t)sum.degenerate, "bias_positive",
                     (json_int_t)sum.recency, "mean_abs_r_q_a", number(sum.r_q),
                     "mean_abs_r_k_a", number(sum.r_k), "mean_plane_var_fraction",
                     number(sum.plane));
}

/* ---- plasticity ---------------------------------------------------------------------------
 */

static void print_plasticity(const qk_study_report *report)
{
    const qk_model_plasticity *model = &report->plasticity;
    printf("\n  plasticity                    %5.3f\n  by fifths of the context     ",
           model->ap_overall);
    for (int i = 0; i < QK_FIFTHS; i++)
        if (isnan(model->fifths[i]))
            printf("     -");
        else
            printf(" %5.3f", model->fifths[i]);
    printf("\n  drop, first to last           %5.3f\n", model->ap_drop);
}

static json_t *plasticity_json(const qk_study_report *report)
{
    const qk_model_plasticity *model = &report->plasticity;
    json_t *fifths = json_array();
    for (int i = 0; i < QK_FIFTHS; i++)
        json_array_append_new(fifths, number(model->fifths[i]));
    return json_pack("{s:I, s:o, s:o, s:o}", "heads", (json_int_t)model->heads, "ap_overall",
                     number(model->ap_overall), "ap_drop", number(model->ap_drop), "fifths",
                     fifths);
}

/* ---- the whole ----------------------------------------------------------------------------
 */

void cli_print_outcome(const qk_study_settings *settings, const qk_study_report *report)
{
    printf("%zu heads, %zu rows in %.2f s (%d threads, %.0f MB/s)\n", count_done(report),
           report->num_rows, report->seconds, report->threads,
           (double)report->bytes_read / 1e6 / report->seconds);
    if (settings->combined)
        printf("group size %d (%s)\n", report->group.size, SOURCES[report->group.source]);
    if (settings->combined && (settings->analyses & QK_ANALYSE_PCA))
        print_categories(report);
    if (settings->analyses & QK_ANALYSE_ROTATION)
        print_rotation(report);
    if (settings->analyses & QK_ANALYSE_PLASTICITY)
        print_plasticity(report);
    putchar('\n');
    for (size_t i = 0; i < report->num_outputs; i++)
        printf("%s/%s\n", settings->output, report->outputs[i]);
}

static json_t *list_failures(const qk_study_report *report)
{
    json_t *failures = json_array();
    for (size_t i = 0; i < report->num_heads; i++) {
        const qk_head_report *head = &report->heads[i];
        char name[QK_HEAD_NAME_SIZE];
        if (head->status == QK_OK)
            continue;
        qk_head_name(head->id, name);
        json_array_append_new(failures,
                              json_pack("{s:s, s:s, s:o}", "head", name, "reason",
                                        qk_status_text(head->status), "message",
                                        cli_json_text(head->message ? head->message : "")));
    }
    return failures;
}

static json_t *list_outputs(const qk_study_report *report)
{
    json_t *outputs = json_array();
    for (size_t i = 0; i < report->num_outputs; i++)
        json_array_append_new(outputs, json_string(report->outputs[i]));
    return outputs;
}

void cli_print_outcome_json(const qk_study_settings *settings, const qk_study_report *report)
{
    json_t *root =
        json_pack("{s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:i, s:f, s:o}", "output",
                  cli_json_text(settings->output), "files", list_outputs(report), "capture",
                  cli_json_text(report->capture), "model", cli_json_text(report->model),
                  "combined", settings->combined, "heads", (json_int_t)report->num_heads,
                  "rows", (json_int_t)report->num_rows, "threads", report->threads, "seconds",
                  report->seconds, "failures", list_failures(report));
    if (settings->combined) {
        json_object_set_new(root, "q_per_kv_group", json_integer(report->group.size));
        json_object_set_new(root, "q_per_kv_group_source",
                            json_string(SOURCES[report->group.source]));
        if (settings->analyses & QK_ANALYSE_PCA)
            json_object_set_new(root, "categories", categories(report));
    }
    if (settings->analyses & QK_ANALYSE_ROTATION)
        json_object_set_new(root, "rotation", rotation_json(report));
    if (settings->analyses & QK_ANALYSE_PLASTICITY)
        json_object_set_new(root, "plasticity", plasticity_json(report));
    cli_json_print(root);
}
