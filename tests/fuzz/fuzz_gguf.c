/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as a GGUF file, opened as a model and as a tokenizer; of what is
 * accepted, the first and last rows of every tensor are read, and a text is encoded. */
#define _GNU_SOURCE /* memfd_create */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <qkscope/model.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_COLUMNS = 1 << 16 };

static void read_tensor(const qk__tensor *tensor)
{
    static float out[MAX_COLUMNS];
    if (!tensor->data || tensor->columns < 1 || tensor->columns > MAX_COLUMNS)
        return;
    for (int64_t row = 0; row<tensor->rows; row += tensor->rows> 1 ? tensor->rows - 1 : 1) {
        const float *values = qk__tensor_rows(tensor, row, 1, out);
        volatile float seen = values[0] + values[tensor->columns - 1];
        (void)seen;
    }
}

static void read_layer(const qk__layer *layer)
{
    const qk__linear *linears[] = {&layer->q,    &layer->k,  &layer->v,   &layer->o,
                                   &layer->gate, &layer->up, &layer->down};
    const qk__tensor *norms[] = {&layer->q_norm,         &layer->k_norm,
                                 &layer->attention_norm, &layer->attention_out_norm,
                                 &layer->mlp_norm,       &layer->mlp_out_norm};
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
        read_tensor(&linears[i]->weight);
        read_tensor(&linears[i]->bias);
    }
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        read_tensor(norms[i]);
}

static void read_model(const char *path)
{
    qk_model *model;
    if (qk_model_open(&model, path, NULL, NULL) != QK_OK)
        return;
    read_tensor(&model->embedding);
    for (int i = 0; i < model->config.num_layers; i++)
        read_layer(&model->layers[i]);
    qk_model_close(&model);
}

static void encode(const char *path)
{
    static const char text[] = "Ab 12\n\xc3\xa9 <s>";
    qk_tokenizer *tokenizer;
    qk_tokens tokens;
    if (qk_tokenizer_open(&tokenizer, path, NULL) != QK_OK)
        return;
    if (qk_tokenizer_encode(tokenizer, text, sizeof text - 1, true, 0, &tokens, NULL) == QK_OK)
        qk_tokens_free(&tokens);
    qk_tokenizer_close(&tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    int fd = memfd_create("gguf", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_model(path);
    encode(path);
    close(fd);
    return 0;
}
