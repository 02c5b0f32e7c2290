/* SPDX-License-Identifier: Apache-2.0 */
/* The norm behind the last layer, and the output layer. They are looked up when losses are asked for: a capture does
 * without, and files that hold no more than a capture needs are fine. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "model/model_config.h"

/* The layers' names begin with "model.", or with that of a part and "model.", and this one's do without. */
void qk__model_name_head(const char *prefix, char name[QK__TENSOR_NAME_SIZE])
{
    size_t length = prefix ? strlen(prefix) : 0;
    bool part = length > 7 && strcmp(prefix + length - 7, ".model.") == 0;
    snprintf(name, QK__TENSOR_NAME_SIZE, "%.*s%s", part ? (int)length - 6 : 0,
             prefix ? prefix : "", prefix ? "lm_head.weight" : "output.weight");
}

static qk_status find_logits(const qk_model *model, qk__tensor *weight, qk_error *err)
{
    const qk__model_config *c = &model->config;
    char name[QK__TENSOR_NAME_SIZE];
    qk__model_name_head(model->prefix, name);
    bool own = qk__checkpoint_has(model->checkpoint, name);
    if (!own && c->tie != QK_TIE_NEVER) {
        *weight = qk__tensor_slice(&model->embedding, 0, c->vocab_size);
        return QK_OK;
    }
    if (!own)
        return qk__fail(
            err, QK_ERR_NOT_FOUND,
            "the weights have no tensor %s, and config.json says that it is not the "
            "embedding (tie_word_embeddings): losses need it",
            name);
    return qk__checkpoint_get(model->checkpoint, name, c->vocab_size, c->hidden_size, weight,
                              err);
}

qk_status qk__model_output(const qk_model *model, qk__output_layer *output, qk_error *err)
{
    char name[QK__TENSOR_NAME_SIZE];
    *output = (qk__output_layer){0};
    snprintf(name, sizeof name, "%s%s", model->prefix ? model->prefix : "",
             model->prefix ? "norm.weight" : "output_norm.weight");
    QK_TRY(qk__checkpoint_get(model->checkpoint, name, 1, model->config.hidden_size,
                              &output->norm, err));
    return find_logits(model, &output->logits.weight, err);
}

/* The first and the last row tell: a head that was trained has no row of the embedding left. */
static bool same_rows(const qk__tensor *a, const qk__tensor *b)
{
    size_t row = (size_t)a->columns / a->type->block_values * a->type->block_bytes;
    size_t last = (size_t)(a->rows - 1) * row;
    const uint8_t *x = a->data, *y = b->data;
    return a->type == b->type && !memcmp(x, y, row) && !memcmp(x + last, y + last, row);
}

void qk__model_note_head(qk_model *model)
{
    qk__model_config *c = &model->config;
    qk__tensor head;
    char name[QK__TENSOR_NAME_SIZE];
    qk__model_name_head(model->prefix, name);
    if (c->tie == QK_TIE_ALWAYS &&
        qk__checkpoint_get(model->checkpoint, name, c->vocab_size, c->hidden_size, &head,
                           NULL) == QK_OK &&
        !same_rows(&head, &model->embedding))
        qk__model_config_note(c,
                              "tie_word_embeddings is true, and the weights have a %s that "
                              "is not the embedding: losses come from %s",
                              name, name);
}
