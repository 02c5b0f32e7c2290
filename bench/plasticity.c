/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of attention plasticity for the first head of a capture whose rows are in memory, one
 * thread, and the pairs behind them. Prints JSON; best of RUNS. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <qkscope/capture.h>
#include <qkscope/stats.h>

#include "stats/plasticity_core.h"
#include "stats/stats_settings.h"

enum { RUNS = 7 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(qk_status status, const qk_error *err)
{
    if (status != QK_OK) {
        fprintf(stderr, "plasticity: %s\n", err->message);
        exit(1);
    }
}

/* All rows of a head in one block, which lives as long as *rows, and their moments. */
static qk_block read_head(const qk_capture *capture, qk_kind kind, qk_rows **rows,
                          qk_moments **moments)
{
    qk_error err;
    qk_block block;
    qk_accumulator *acc;
    const qk_head *head = qk_capture_find(capture, (qk_head_id){0, 0, kind});
    if (!head) {
        fprintf(stderr, "plasticity: the capture has no head 0 in layer 0\n");
        exit(1);
    }
    check(qk_rows_open(rows, head,
                       QK_COLUMN_VECTOR | QK_COLUMN_POSITION | QK_COLUMN_BUCKET |
                           QK_COLUMN_EXAMPLE | QK_COLUMN_WINDOW,
                       0, &err),
          &err);
    check(qk_rows_next(*rows, (size_t)qk_rows_total(*rows), &block, &err), &err);
    check(qk_accumulator_create(&acc, block.dim, &err), &err);
    qk_block whole = block;
    whole.example = NULL; /* not apart by texts */
    check(qk_accumulator_add(acc, &whole, &err), &err);
    check(qk_accumulator_finish(&acc, moments, &err), &err);
    return (qk_block){.rows = block.rows,
                      .dim = block.dim,
                      .f32 = block.f32,
                      .position = block.position,
                      .bucket = block.bucket,
                      .example = block.example,
                      .window = block.window};
}

int main(int argc, char **argv)
{
    qk_error err;
    qk_capture *capture;
    qk_rows *q_rows, *k_rows;
    qk_moments *q, *k;
    qk_plasticity_settings settings;
    if (argc != 2) {
        fprintf(stderr, "Usage: plasticity CAPTURE\n");
        return 2;
    }
    check(qk_capture_open(&capture, argv[1], NULL, &err), &err);
    qk_block queries = read_head(capture, QK_QUERY, &q_rows, &q);
    qk_block keys = read_head(capture, QK_KEY, &k_rows, &k);
    qk_settings_default(&qk__plasticity_settings_table, &settings);
    double best = 1e9, ap = 0;
    long long pairs = 0, sampled = 0;
    for (int run = 0; run < RUNS; run++) {
        qk_plasticity *plasticity;
        double start = now();
        const qk__plasticity_input in = {.queries = &queries,
                                         .keys = &keys,
                                         .settings = &settings,
                                         .stream = (uint64_t[2]){0, 0}};
        check(qk__plasticity_fit(q, &in, 1, &plasticity, &err), &err);
        double spent = now() - start;
        best = spent < best ? spent : best;
        pairs = (long long)plasticity->pairs_evaluated;
        sampled = (long long)plasticity->cells_sampled;
        ap = plasticity->ap_overall;
        qk__plasticity_free(&plasticity);
    }
    printf("{\"seconds\": %.9f, \"pairs\": %lld, \"cells_sampled\": %lld, \"ap_overall\": "
           "%.17g}\n",
           best, pairs, sampled, ap);
    qk_moments_free(&q);
    qk_moments_free(&k);
    qk_rows_close(&q_rows);
    qk_rows_close(&k_rows);
    qk_capture_close(&capture);
    return 0;
}
