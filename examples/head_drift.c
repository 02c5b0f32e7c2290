/* SPDX-License-Identifier: Apache-2.0 */
/* How far the first principal component of each head follows token position, in about sixty
 * lines on top of libqkscope-core:
 *
 *     cc head_drift.c -o head_drift $(pkg-config --cflags --libs qkscope-core)
 *     ./head_drift examples/kjv-tiny-capture */
#include <stdio.h>

#include <qkscope/capture.h>
#include <qkscope/stats.h>

/* All rows of one head, in blocks, to moments. */
static qk_status gather(const qk_head *head, qk_moments **moments, qk_error *err)
{
    qk_rows *rows;
    qk_block block;
    qk_accumulator *acc = NULL;
    qk_status status = qk_rows_open(&rows, head, QK_COLUMN_VECTOR | QK_COLUMN_POSITION, 0, err);
    if (status != QK_OK)
        return status;
    status = qk_accumulator_create(&acc, qk_rows_dim(rows), err);
    while (status == QK_OK) {
        status = qk_rows_next(rows, 256, &block, err);
        if (status != QK_OK || block.rows == 0)
            break;
        status = qk_accumulator_add(acc, &block, err);
    }
    if (status == QK_OK)
        status = qk_accumulator_finish(&acc, moments, err);
    qk_accumulator_free(&acc);
    qk_rows_close(&rows);
    return status;
}

static qk_status print_head(const qk_capture *capture, const qk_head *q_head, int group,
                            qk_error *err)
{
    qk_head_id key = {q_head->id.layer, q_head->id.head / group, QK_KEY};
    const qk_head *k_head = qk_capture_find(capture, key);
    qk_moments *q = NULL, *k = NULL;
    qk_pca *pca = NULL;
    qk_pca_settings settings;
    qk_pca_settings_default(&settings);
    if (!k_head)
        return QK_OK; /* keys of this head were not captured */
    qk_status status = gather(q_head, &q, err);
    if (status == QK_OK)
        status = gather(k_head, &k, err);
    if (status == QK_OK)
        status = qk_pca_combined(q, k, &settings, &pca, err);
    if (status == QK_OK)
        printf("%d\t%d\t%.3f\t%.3f\n", q_head->id.layer, q_head->id.head,
               pca->components[0].r_q, pca->components[0].r_k);
    qk_pca_free(&pca);
    qk_moments_free(&q);
    qk_moments_free(&k);
    return status;
}

int main(int argc, char **argv)
{
    qk_error err;
    qk_capture *capture;
    qk_group group;
    qk_status status = qk_capture_open(&capture, argc > 1 ? argv[1] : ".", NULL, &err);
    if (status == QK_OK)
        status = qk_capture_group(capture, 0, &group, &err);
    if (status == QK_OK)
        printf("layer\thead\tr_q\tr_k\n");
    for (size_t i = 0; status == QK_OK && i < qk_capture_num_heads(capture); i++)
        if (qk_capture_head(capture, i)->id.kind == QK_QUERY)
            status = print_head(capture, qk_capture_head(capture, i), group.size, &err);
    if (status != QK_OK)
        fprintf(stderr, "head_drift: %s\n", err.message);
    qk_capture_close(&capture);
    return status == QK_OK ? 0 : 1;
}
