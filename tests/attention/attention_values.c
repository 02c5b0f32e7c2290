/* SPDX-License-Identifier: Apache-2.0 */
/* Reads "rows ROWS DIM SCALE WINDOW TOKENS", then queries, keys, and tokens where TOKENS is 1, and prints
 * the sums of qk__attention_add_text; or "numbers LEVEL SLOPE GROUPS BUCKETS", then sums of groups, the buckets, and sums of these, and prints
 * what qk__attention_numbers and qk__attention_profile make of them; for the tests in this folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stats/attention_profile.h"
#include "stats/attention_rows.h"

static double *read_numbers(size_t count)
{
    double *numbers = calloc(count + 1, sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++)
        if (scanf("%lf", &numbers[i]) != 1)
            exit(2);
    return numbers;
}

static void print_numbers(const qk_attention *a)
{
    for (int i = 0; i < QK_NUM_HEAD_NUMBERS; i++)
        printf("%.17g %.17g %.17g\n", a->value[i], a->lo[i], a->hi[i]);
    for (int i = 0; i < QK_NUM_HEAD_NAMES; i++)
        printf("%.17g\n", a->probability[i]);
    printf("%zu\n%s\n", a->groups, a->names);
}

/* The profile, and what scores of slope * distance make of it. */
static void print_profile(double slope, qk_attention *a)
{
    size_t reach = qk__attention_reach(a);
    double *scores = calloc(reach + 1, sizeof *scores);
    for (size_t d = 0; scores && d < reach; d++)
        scores[d] = slope * (double)d;
    qk__attention_predict(a, QK__BY_MEANS, scores);
    free(scores);
    printf("%zu %ld %.17g %.17g\n", reach, a->window, a->means_r2, a->distance_slope);
    for (const qk_attention_cell *c = a->profile; c < a->profile + a->num_profile; c++)
        printf("%ld %ld %ld %ld %.17g %.17g %.17g %.17g\n", c->row_first, c->row_last,
               c->distance_first, c->distance_last, c->mass, c->uniform, c->predicted_means,
               c->rest);
    free(a->profile);
}

static int print_numbers_of_sums(void)
{
    qk__attention_head head = {.texts = 1, .rows = 1};
    double level, slope;
    if (scanf("%lf %lf %zu %zu", &level, &slope, &head.num_groups, &head.num_buckets) != 4)
        return 2;
    head.group = read_numbers(head.num_groups * QK_ATTENTION_SUMS);
    head.bucket = calloc(head.num_buckets + 1, sizeof *head.bucket);
    for (size_t i = 0; head.bucket && i < head.num_buckets; i++)
        if (scanf("%ld", &head.bucket[i]) != 1)
            exit(2);
    head.by_bucket = read_numbers(head.num_buckets * QK_ATTENTION_SUMS);
    qk_attention numbers;
    qk_error err;
    qk_status status = qk__attention_numbers(&head, level, &numbers, &err);
    if (status == QK_OK) {
        print_numbers(&numbers);
        print_profile(slope, &numbers);
    }
    if (status != QK_OK)
        printf("%s\n", err.message);
    free(head.group);
    free(head.bucket);
    free(head.by_bucket);
    return status != QK_OK;
}

static int print_sums_of_rows(void)
{
    qk__attention_text text = {0};
    int has_tokens;
    if (scanf("%zu %zu %lf %ld %d", &text.rows, &text.dim, &text.scale, &text.window,
              &has_tokens) != 5)
        return 2;
    double *q = read_numbers(text.rows * text.dim), *k = read_numbers(text.rows * text.dim);
    double *sums = calloc((size_t)QK_DISTANCE_BINS * QK_ATTENTION_SUMS, sizeof *sums);
    int32_t *tokens = calloc(text.rows + 1, sizeof *tokens);
    for (size_t i = 0; i < text.rows && has_tokens; i++)
        if (scanf("%d", &tokens[i]) != 1)
            exit(2);
    text.q = q;
    text.k = k;
    text.tokens = has_tokens ? tokens : NULL;
    qk_error err;
    qk_status status = qk__attention_add_text(&text, sums, &err);
    for (int i = 0; status == QK_OK && i < QK_DISTANCE_BINS * QK_ATTENTION_SUMS; i++)
        printf("%.17g\n", sums[i]);
    if (status != QK_OK)
        printf("%s\n", err.message);
    free(q);
    free(k);
    free(sums);
    free(tokens);
    return status != QK_OK;
}

int main(void)
{
    char what[16];
    if (scanf("%15s", what) != 1)
        return 2;
    return strcmp(what, "rows") == 0 ? print_sums_of_rows() : print_numbers_of_sums();
}
