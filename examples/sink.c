/* SPDX-License-Identifier: Apache-2.0 */
/* A capture from arrays: what a program does that runs a model itself, in about a hundred lines on top
 * of libqkscope-core. The model and its vectors are made up.
 *
 *     cc sink.c -o sink $(pkg-config --cflags --libs qkscope-core) -lm
 *     ./sink capture
 *     qkscope analyze capture
 *
 * Of each text the sink says beforehand which positions it keeps, so only their vectors leave the
 * model. Vectors may come from any thread, and a run that is stopped goes on when it is
 * started again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <qkscope/sink.h>

enum { LAYERS = 2, Q_HEADS = 4, K_HEADS = 2, DIM = 16, TEXTS = 6, TOKENS = 400 };

/* Something between -1 and 1. */
static float noise(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*state >> 32) / 2147483648.0F;
}

/* The forward pass of one layer, as it were: vectors of all heads at some positions, [head][row][dim].
 * There is a direction in which they drift, queries and keys apart. */
static void compute(int64_t text, int layer, qk_kind kind, size_t heads,
                    const int64_t *positions, size_t rows, float *out)
{
    for (size_t h = 0; h < heads; h++)
        for (size_t r = 0; r < rows; r++) {
            uint64_t state = ((uint64_t)text << 40) + ((uint64_t)positions[r] << 16) +
                             ((uint64_t)layer << 8) + 2 * h + (uint64_t)kind;
            float drift = (float)positions[r] / TOKENS * (kind == QK_QUERY ? 4.0F : -4.0F);
            for (int i = 0; i < 3; i++) /* far from the seed */
                noise(&state);
            for (size_t i = 0; i < DIM; i++)
                *out++ = noise(&state) + (i == h ? 1 + drift : 0);
        }
}

/* Queries or keys of one layer: those positions of the text that the sink keeps. */
static qk_status put_layer(qk_sink *sink, int64_t text, int layer, qk_kind kind, qk_error *err)
{
    size_t heads = kind == QK_QUERY ? Q_HEADS : K_HEADS, count;
    int64_t *positions;
    qk_status status = qk_sink_positions(sink, text, layer, kind, &positions, &count, err);
    if (status != QK_OK || count == 0)
        return status;
    float *vectors = malloc(heads * count * DIM * sizeof *vectors);
    if (vectors) {
        compute(text, layer, kind, heads, positions, count, vectors);
        status = qk_sink_put(sink,
                             &(qk_sink_rows){.text = text,
                                             .layer = layer,
                                             .kind = kind,
                                             .num_heads = heads, /* 0, 1, ... */
                                             .positions = positions,
                                             .rows = count,
                                             .type = QK_FLOAT32,
                                             .data = vectors},
                             err);
    }
    free(positions);
    free(vectors);
    return vectors ? status : QK_ERR_NOMEM;
}

static qk_status run_text(qk_sink *sink, int64_t text, qk_error *err)
{
    qk_status status = qk_sink_begin(
        sink,
        &(qk_sink_text){
            .number = text, .example_id = 100 + text, .tokens = TOKENS, .source = "made up"},
        err);
    for (int layer = 0; status == QK_OK && layer < LAYERS; layer++)
        for (int kind = QK_QUERY; status == QK_OK && kind <= QK_KEY; kind++)
            status = put_layer(sink, text, layer, (qk_kind)kind, err);
    return status == QK_OK ? qk_sink_text_done(sink, text, err) : status;
}

/* At what frequencies RoPE turns pairs of dimensions: the rotation model is fitted to them. */
static void set_frequencies(double values[DIM / 2], qk_frequencies layers[LAYERS])
{
    for (int j = 0; j < DIM / 2; j++)
        values[j] = pow(10000, -2.0 * j / DIM);
    for (int layer = 0; layer < LAYERS; layer++)
        layers[layer] = (qk_frequencies){values, DIM / 2};
}

int main(int argc, char **argv)
{
    qk_error err = {0};
    qk_sink *sink;
    qk_sink_outcome outcome;
    qk_sink_settings settings;
    qk_frequencies frequencies[LAYERS];
    double values[DIM / 2];
    set_frequencies(values, frequencies);
    qk_sink_settings_default(&settings);
    settings.output = argc > 1 ? argv[1] : "capture";
    settings.model_name = "made up";
    settings.num_layers = LAYERS;
    settings.num_q_heads = Q_HEADS;
    settings.num_k_heads = K_HEADS;
    settings.head_dim = DIM;
    settings.frequencies = frequencies;
    settings.num_texts = TEXTS;
    settings.num_tokens = TEXTS * TOKENS;
    settings.sampler.type = QK_SAMPLER_UNIFORM; /* about 48 of each 64 positions */
    settings.sampler.min_bucket_size = 64;
    settings.sampler.base_rate = 48;
    qk_status status = qk_keep_parse(argc > 2 ? argv[2] : "rows,moments", &settings.keep, &err);
    if (status == QK_OK)
        status = qk_sink_open(&sink, &settings, &err);
    if (status == QK_OK) {
        int64_t text = -1; /* those that were run before are left out */
        while (status == QK_OK && (text = qk_sink_next(sink, text)) >= 0)
            status = run_text(sink, text, &err);
        if (status == QK_OK)
            status = qk_sink_finish(&sink, &outcome, &err);
        else
            qk_sink_close(&sink);
    }
    if (status == QK_OK)
        printf("%zu heads, %lld rows, %lld of them summed\n", outcome.heads,
               (long long)outcome.rows, (long long)outcome.summed);
    else
        fprintf(stderr, "sink: %s\n", err.message);
    return status == QK_OK ? 0 : 1;
}
