/* SPDX-License-Identifier: Apache-2.0 */
/* The norm behind the last layer, and the output layer. They are looked up when losses are asked for: a capture does
 * without, and files that hold no more than a capture needs are fine. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"

enum { NAME_SIZE = 160 };

/* The layers' names begin with "model.", or with that of a part and "model.", and this one's do without. */
static void name_head(const qk_model *model, char name[NAME_SIZE])
{
    const char *prefix = model->prefix;
    size_t length = prefix ? strlen(prefix) : 0;
    bool part = length > 7 && strcmp(prefix + length - 7, ".model.") == 0;
    snprintf(name, NAME_SIZE, "%.*s%s", part ? (int)length - 6 : 0, prefix ? prefix : "",
             prefix ? "lm_head.weight" : "output.weight");
}

static qk_status find_logits(const qk_model *model, qk__tensor *weight, qk_error *err)
{
    const qk__model_config *c = &model->config;
    char name[NAME_SIZE];
    name_head(model, name);
    bool own = qk__checkpoint_has(model->checkpoint, name);
    if (c->tie == QK_TIE_ALWAYS || (c->tie == QK_TIE_UNSAID && !own)) {
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
    char name[NAME_SIZE];
    *output = (qk__output_layer){0};
    snprintf(name, sizeof name, "%s%s", model->prefix ? model->prefix : "",
             model->prefix ? "norm.weight" : "output_norm.weight");
    QK_TRY(qk__checkpoint_get(model->checkpoint, name, 1, model->config.hidden_size,
                              &output->norm, err));
    return find_logits(model, &output->logits.weight, err);
}
