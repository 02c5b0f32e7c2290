/* SPDX-License-Identifier: Apache-2.0 */
/* A program that wants moments and PCA and nothing else: four queries, which are keys as well, along one axis. Prints the share
 * of the variance on it and the correlation with position, which are 1. */
#include <stdio.h>

#include <qkscope/stats.h>

int main(void)
{
    static const double ROWS[] = {1, 0, 2, 0, 3, 0, 4, 0};
    static const int64_t POSITIONS[] = {0, 1, 2, 3};
    const qk_block rows = {.rows = 4, .dim = 2, .f64 = ROWS, .position = POSITIONS};
    qk_accumulator *acc = NULL;
    qk_moments *moments = NULL;
    qk_pca *pca = NULL;
    qk_pca_settings settings;
    qk_error err;
    qk_pca_settings_default(&settings);
    qk_status status = qk_accumulator_create(&acc, 2, &err);
    if (status == QK_OK)
        status = qk_accumulator_add(acc, &rows, &err);
    if (status == QK_OK)
        status = qk_accumulator_finish(&acc, &moments, &err);
    if (status == QK_OK)
        status = qk_pca_combined(moments, moments, &settings, &pca, &err);
    if (status == QK_OK)
        printf("%g %g\n", pca->components[0].explained_variance, pca->components[0].r_q);
    else
        fprintf(stderr, "%s\n", err.message);
    qk_pca_free(&pca);
    qk_moments_free(&moments);
    qk_accumulator_free(&acc);
    return status != QK_OK;
}
