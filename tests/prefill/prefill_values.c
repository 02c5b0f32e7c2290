/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model over the token numbers of a text file, a sequence a line, and writes every block
 * that the sink sees, for tests in Python:
 *
 *     prefill_values MODEL TOKENS OUT [threads=N] [bf16|bf16-products|bf16-kernel=I|f16]
 *                    [heads=SEED] [before|after|none] [stop=N] [cancel=N]
 *                    [attention=FILE] [attention-stop=N] [loss=FILE] [branches=FILE]
 *     prefill_values MODEL TOKENS OUT shape    the model is opened without its weights
 *
 * A record is 8 int32 (layer, kind, rotated, sequence, first token, tokens, heads, head_dim),
 * the heads as int32, the rows as float32. bf16-products is the processor's
 * fastest kernel, bf16-kernel=I its fastest of instruction sets 0 .. I (base/simd.h). heads draws a third of the heads. none: no rows and no sink.
 * attention measures it, a record of FILE is 4 int64 (layer, sequence, heads, buckets), the heads and the rows
 * of each bucket as int64, the sums as float64. loss: of each sequence 4 int64 (sequence, branch, first
 * row, losses) and the losses as float32; of branches (read_branches.h), which go on behind them, then the drifts too. stop and attention-stop fail in the N-th call, cancel ahead of the N-th layer. Prints flops and bytes of 1,000 tokens. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/attention.h>
#include <qkscope/model.h>

#include "base/buffer.h"
#include "base/error.h"
#include "prefill/prefill.h"
#include "read_branches.h"

enum { MAX_SEQUENCES = 4096 };

typedef struct output {
    FILE *file;
    pthread_mutex_t lock;
    int calls, stop, cancel;
    FILE *attention, *loss;
    int attention_calls, attention_stop;
} output;

static qk_status write_block(void *user, const qk_prefill_block *b, qk_error *err)
{
    output *out = user;
    const int32_t head[] = {b->layer,
                            b->kind,
                            b->rotated,
                            (int32_t)b->sequence,
                            (int32_t)b->first_token,
                            (int32_t)b->num_tokens,
                            (int32_t)b->num_heads,
                            b->head_dim};
    size_t n = (size_t)b->num_tokens * b->num_heads * (size_t)b->head_dim;
    pthread_mutex_lock(&out->lock);
    bool ok = fwrite(head, sizeof head, 1, out->file) == 1 &&
              fwrite(b->heads, sizeof(int), b->num_heads, out->file) == b->num_heads &&
              fwrite(b->rows, sizeof(float), n, out->file) == n && ++out->calls != out->stop;
    pthread_mutex_unlock(&out->lock);
    return ok ? QK_OK : qk__fail(err, QK_ERR_IO, "cannot write block");
}

static qk_status write_attention(void *user, const qk_prefill_attention *a, qk_error *err)
{
    output *out = user;
    const int64_t head[] = {a->layer, (int64_t)a->sequence, (int64_t)a->num_heads,
                            (int64_t)a->num_buckets};
    size_t n = a->num_heads * a->num_buckets * QK_ATTENTION_SUMS;
    bool ok = fwrite(head, sizeof head, 1, out->attention) == 1;
    for (size_t i = 0; i < a->num_heads; i++) {
        int64_t number = a->heads[i];
        ok = ok && fwrite(&number, sizeof number, 1, out->attention) == 1;
    }
    ok = ok && fwrite(a->bucket_rows, sizeof(int64_t), a->num_buckets, out->attention) ==
                   a->num_buckets;
    ok = ok && fwrite(a->sums, sizeof(double), n, out->attention) == n;
    if (++out->attention_calls == out->attention_stop)
        return out->attention_stop == 1 ? QK_ERR_IO
                                        : qk__fail(err, QK_ERR_IO, "cannot write attention");
    return ok ? QK_OK : qk__fail(err, QK_ERR_IO, "cannot write");
}

static qk_status write_losses(void *user, const qk_prefill_losses *losses, qk_error *err)
{
    output *out = user;
    const int64_t head[] = {(int64_t)losses->sequence, losses->branch, losses->first,
                            losses->count};
    const size_t count = (size_t)losses->count;
    bool ok = fwrite(head, sizeof head, 1, out->loss) == 1 &&
              fwrite(losses->of, sizeof *losses->of, count, out->loss) == count;
    if (ok && losses->branch >= 0)
        ok = fwrite(losses->drift, sizeof *losses->drift, count, out->loss) == count;
    return ok ? QK_OK : qk__fail(err, QK_ERR_IO, "cannot write losses");
}

static bool go_on(void *user, const qk_progress *at)
{
    const output *out = user;
    return at->done < at->total && at->done != out->cancel;
}

/* Lines of numbers; sequences point into *tokens. */
static size_t read_tokens(const char *name, qk__buffer *tokens, qk_sequence *sequences)
{
    qk_error err;
    FILE *file = fopen(name, "r");
    size_t count = 0, start = 0;
    int32_t token;
    char end;
    while (file && fscanf(file, "%" SCNd32 "%c", &token, &end) == 2) {
        if (qk__buffer_append(tokens, &token, sizeof token, &err) != QK_OK)
            exit(2);
        if (end == '\n' && count < MAX_SEQUENCES) {
            size_t n = tokens->size / sizeof token;
            sequences[count++].count = (int64_t)(n - start);
            start = n;
        }
    }
    if (file)
        fclose(file);
    const int32_t *next = (const int32_t *)(const void *)tokens->data;
    for (size_t i = 0; i < count; next += sequences[i++].count)
        sequences[i].tokens = next;
    return count;
}

static bool *draw_heads(unsigned seed, int layers, int heads)
{
    size_t n = (size_t)layers * (size_t)heads;
    bool *wanted = calloc(n, sizeof *wanted);
    for (size_t i = 0; wanted && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        wanted[i] = seed >> 24 < 85;
    }
    return wanted;
}

int main(int argc, char **argv)
{
    static qk_sequence sequences[MAX_SEQUENCES];
    qk_model *model = NULL;
    qk_error err = {0};
    qk__buffer tokens = {0};
    qk_prefill_settings settings;
    const qk__bf16_kernel *bf16 = NULL;
    output out = {.lock = PTHREAD_MUTEX_INITIALIZER, .cancel = -1};
    bool *q_heads = NULL, *k_heads = NULL;
    qk_prefill_branch *branches = NULL;
    if (argc < 4)
        return 2;
    size_t count = read_tokens(argv[2], &tokens, sequences);
    bool shape = argc > 4 && strcmp(argv[4], "shape") == 0;
    qk_status status =
        (shape ? qk_model_open_shape : qk_model_open)(&model, argv[1], NULL, &err);
    if (status == QK_OK) {
        const qk_model_facts *facts = qk_model_get_facts(model);
        qk_prefill_settings_default(&settings);
        settings.before_rope = true;
        settings.sink = write_block;
        settings.context.progress = go_on;
        settings.context.user = settings.user = &out;
        for (int i = 4; i < argc; i++) {
            if (strncmp(argv[i], "threads=", 8) == 0)
                settings.context.threads = atoi(argv[i] + 8);
            else if (strcmp(argv[i], "f16") == 0)
                settings.arithmetic = QK_ARITHMETIC_F16_SIM;
            else if (strcmp(argv[i], "bf16-products") == 0)
                settings.arithmetic = QK_ARITHMETIC_BF16;
            else if (strncmp(argv[i], "bf16-kernel=", 12) == 0) {
                settings.arithmetic = QK_ARITHMETIC_BF16;
                unsigned sets = (2u << atoi(argv[i] + 12)) - 1;
                bf16 = qk__bf16_kernels[qk__best_simd(QK__VERSIONS(qk__bf16_kernels) & sets)];
            } else if (strcmp(argv[i], "bf16") == 0)
                settings.arithmetic = QK_ARITHMETIC_BF16_SIM;
            else if (strcmp(argv[i], "before") == 0)
                settings.after_rope = false;
            else if (strcmp(argv[i], "after") == 0)
                settings.before_rope = false;
            else if (strcmp(argv[i], "none") == 0) {
                settings.before_rope = settings.after_rope = false;
                settings.sink = NULL;
            } else if (strncmp(argv[i], "attention=", 10) == 0) {
                settings.attention = write_attention;
                out.attention = fopen(argv[i] + 10, "wb");
            } else if (strncmp(argv[i], "loss=", 5) == 0) {
                settings.loss = write_losses;
                out.loss = fopen(argv[i] + 5, "wb");
            } else if (strncmp(argv[i], "branches=", 9) == 0) {
                if (!read_branches(argv[i] + 9, &branches, &settings.num_branches))
                    return 2;
                settings.branches = branches;
            } else if (strncmp(argv[i], "attention-stop=", 15) == 0)
                out.attention_stop = atoi(argv[i] + 15);
            else if (strncmp(argv[i], "stop=", 5) == 0)
                out.stop = atoi(argv[i] + 5);
            else if (strncmp(argv[i], "cancel=", 7) == 0)
                out.cancel = atoi(argv[i] + 7);
            else if (strncmp(argv[i], "heads=", 6) == 0) {
                unsigned seed = (unsigned)atoi(argv[i] + 6);
                free(q_heads);
                free(k_heads);
                q_heads = draw_heads(seed, facts->num_layers, facts->num_q_heads);
                k_heads = draw_heads(seed + 1, facts->num_layers, facts->num_k_heads);
            }
        }
        settings.q_heads = q_heads;
        settings.k_heads = k_heads;
        printf("%.17g %" PRId64 "\n", qk_prefill_flops(model, &settings, 1000),
               qk_prefill_bytes(model, &settings, 1000));
        out.file = fopen(argv[3], "wb");
        if (!out.file || (settings.attention && !out.attention) || (settings.loss && !out.loss))
            return 2;
        status = bf16 ? qk__prefill_by(bf16, model, &settings, sequences, count, &err)
                      : qk_prefill(model, &settings, sequences, count, &err);
        if (fclose(out.file) != 0 || (out.attention && fclose(out.attention) != 0) ||
            (out.loss && fclose(out.loss) != 0))
            return 2;
    }
    qk_model_close(&model);
    qk__buffer_free(&tokens);
    free(q_heads);
    free(k_heads);
    if (status != QK_OK)
        fprintf(stderr, "%s\n", err.message);
    return status != QK_OK;
}
