/* SPDX-License-Identifier: Apache-2.0 */
/* Times a prefill and the products inside it; prints JSON.
 *
 *     prefill run MODEL TOKENS THREADS [ARITHMETIC [TEXTS]]
 *                                           one text, all heads, rows copied out; float32,
 *                                           bf16, bf16-sim or bf16=I, of instruction sets 0 .. I
 *                                           (base/simd.h); with ",inner" behind it no queries of the last layer, with
 *                                           ",attention" measured attention, too. Or so many texts of small letters,
 *                                           and rows passed over
 *     prefill products OUTPUTS INPUTS TOKENS  our kernels and OpenBLAS's sgemm on one thread,
 *                                           interleaved, best of RUNS, in GFLOP/s */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cblas.h>

#include <qkscope/model.h>

#include "base/buffer.h"
#include "base/simd.h"
#include "prefill/prefill.h"

enum { RUNS = 7, MOST_TEXTS = 64 };

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a caller does at least: look at every value. */
static qk_status copy_rows(void *user, const qk_prefill_block *block, qk_error *err)
{
    (void)user;
    (void)err;
    size_t n = (size_t)block->num_tokens * block->num_heads * (size_t)block->head_dim;
    float *copy = malloc(n * sizeof *copy);
    if (!copy)
        return QK_ERR_NOMEM;
    memcpy(copy, block->rows, n * sizeof *copy);
    free(copy);
    return QK_OK;
}

static qk_status pass_over(void *user, const qk_prefill_block *block, qk_error *err)
{
    (void)user;
    (void)block;
    (void)err;
    return QK_OK;
}

static qk_status pass_over_sums(void *user, const qk_prefill_attention *sums, qk_error *err)
{
    (void)user;
    (void)sums;
    (void)err;
    return QK_OK;
}

/* All query heads, but those of the last layer; NULL: no memory. */
static bool *inner_heads(const qk_model_facts *facts)
{
    size_t heads = (size_t)facts->num_q_heads, last = (size_t)facts->num_layers - 1;
    bool *wanted = calloc(heads, last + 1);
    for (size_t i = 0; wanted && i < last * heads; i++)
        wanted[i] = true;
    return wanted;
}

/* Not ru_maxrss, which remembers the program that started this one. */
static double peak_mib(void)
{
    double kib = 0;
    char line[200];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib / 1024;
}

static int run(const char *folder, int64_t tokens, int threads, const char *arithmetic,
               size_t texts)
{
    qk_model *model;
    qk_error err;
    qk_prefill_settings settings;
    qk_prefill_settings_default(&settings);
    settings.context.threads = threads;
    const qk__bf16_kernel *bf16 = qk__best_bf16_kernel();
    if (strncmp(arithmetic, "bf16=", 5) == 0)
        bf16 = qk__bf16_kernels[qk__best_simd(QK__VERSIONS(qk__bf16_kernels) &
                                              ((2u << atoi(arithmetic + 5)) - 1))];
    if (strncmp(arithmetic, "bf16-sim", 8) == 0)
        settings.arithmetic = QK_ARITHMETIC_BF16_SIM;
    else if (strncmp(arithmetic, "float32", 7) != 0)
        settings.arithmetic = QK_ARITHMETIC_BF16;
    settings.sink = texts > 0 ? pass_over : copy_rows;
    if (qk_model_open(&model, folder, NULL, &err) != QK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (strstr(arithmetic, ",attention"))
        settings.attention = pass_over_sums;
    bool *inner = inner_heads(qk_model_get_facts(model));
    if (strstr(arithmetic, ",inner"))
        settings.q_heads = inner;
    int vocab = qk_model_get_facts(model)->vocab_size;
    int32_t *text = qk__alloc_aligned((size_t)tokens, sizeof *text);
    for (int64_t i = 0; text && i < tokens; i++)
        text[i] = (int32_t)(texts > 0 ? 'a' + i * 7919 % 26 : i * 7919 % vocab);
    texts = texts > 0 ? texts : 1;
    qk_sequence sequences[MOST_TEXTS];
    for (size_t i = 0; i < texts; i++)
        sequences[i] =
            (qk_sequence){text + tokens / (int64_t)texts * (int64_t)i, tokens / (int64_t)texts};
    double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    qk_status status =
        text ? qk__prefill_by(bf16, model, &settings, sequences, texts, &err) : QK_ERR_NOMEM;
    double wall = seconds(CLOCK_MONOTONIC) - start;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"seconds\": %.6f, \"cpu\": %.6f, \"flops\": %.6g, \"bytes\": %lld, "
           "\"peak_mib\": %.1f}\n",
           wall, cpu, qk_prefill_flops(model, &settings, tokens),
           (long long)qk_prefill_bytes(model, &settings, tokens), peak_mib());
    free(text);
    free(inner);
    qk_model_close(&model);
    return status != QK_OK;
}

static int products(size_t outputs, size_t inputs, size_t tokens)
{
    qk__matrix matrix = {0};
    qk_error err;
    size_t panels = tokens / QK_LANES;
    size_t whole = qk__whole_tiles(outputs);
    if (qk__matrix_init(&matrix, outputs, inputs, &err) != QK_OK)
        return 1;
    matrix.rows = outputs;
    float *x = qk__alloc_aligned(panels * inputs, QK_LANES * sizeof *x);
    float *y = qk__alloc_aligned(panels * whole, QK_LANES * sizeof *y);
    if (!x || !y || panels == 0)
        return 1;
    for (size_t i = 0; i < whole * matrix.step; i++)
        matrix.values[i] = (float)(i * 7919 % 1001) / 1000 - 0.5f;
    for (size_t i = 0; i < panels * inputs * QK_LANES; i++)
        x[i] = (float)(i * 7907 % 1009) / 1000 - 0.5f;
    memset(y, 0, panels * whole * QK_LANES * sizeof *y);
    qk__panels in = {x, inputs * QK_LANES, panels}, out = {y, whole * QK_LANES, panels};
    double best[QK_NUM_SIMD] = {0}, best_blas = 0;
    double work = 2e-9 * (double)outputs * (double)inputs * (double)(panels * QK_LANES);
    openblas_set_num_threads(1);
    for (int i = 0; i < RUNS; i++) {
        qk__each_version (k, qk__panel_kernels) {
            if (k == QK_PORTABLE)
                continue;
            double start = seconds(CLOCK_THREAD_CPUTIME_ID);
            qk__matrix_apply(qk__panel_kernels[k], &matrix, &in, &out);
            double rate = work / (seconds(CLOCK_THREAD_CPUTIME_ID) - start);
            best[k] = rate > best[k] ? rate : best[k];
        }
        double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)(panels * QK_LANES),
                    (blasint)outputs, (blasint)inputs, 1, x, (blasint)inputs, matrix.values,
                    (blasint)matrix.step, 0, y, (blasint)outputs);
        double rate = work / (seconds(CLOCK_THREAD_CPUTIME_ID) - start);
        best_blas = rate > best_blas ? rate : best_blas;
    }
    printf("{");
    qk__each_version (k, qk__panel_kernels)
        if (k != QK_PORTABLE)
            printf("\"%s\": %.1f, ", qk__simd_names[k], best[k]);
    printf("\"sgemm\": %.1f}\n", best_blas);
    free(x);
    free(y);
    qk__matrix_free(&matrix);
    return 0;
}

int main(int argc, char **argv)
{
    size_t texts = argc == 7 ? (size_t)atoll(argv[6]) : 0;
    if (argc >= 5 && argc <= 7 && strcmp(argv[1], "run") == 0 && texts <= MOST_TEXTS)
        return run(argv[2], atoll(argv[3]), atoi(argv[4]), argc > 5 ? argv[5] : "float32",
                   texts);
    if (argc == 5 && strcmp(argv[1], "products") == 0)
        return products((size_t)atoll(argv[2]), (size_t)atoll(argv[3]), (size_t)atoll(argv[4]));
    return 2;
}
