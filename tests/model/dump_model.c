/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a model and prints its facts and its tensors by place as JSON: dump_model FOLDER
 * [OVERRIDES]. Each tensor is [rows, columns, first number, last number]. Errors go to standard
 * error; the exit code is the status. */
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/buffer.h"
#include "model/model.h"

static json_t *tensor_list(const qk__tensor *tensor)
{
    if (!tensor->data)
        return json_null();
    float *row = qk__calloc((size_t)tensor->columns, sizeof *row);
    double first = (double)qk__tensor_rows(tensor, 0, 1, row)[0];
    double last =
        (double)qk__tensor_rows(tensor, tensor->rows - 1, 1, row)[tensor->columns - 1];
    free(row);
    return json_pack("[I, I, f, f]", (json_int_t)tensor->rows, (json_int_t)tensor->columns,
                     first, last);
}

static void add_linear(json_t *object, const char *name, const qk__linear *linear)
{
    char bias[40];
    snprintf(bias, sizeof bias, "%s_bias", name);
    json_object_set_new(object, name, tensor_list(&linear->weight));
    json_object_set_new(object, bias, tensor_list(&linear->bias));
}

static json_t *layer_object(const qk_model *model, int i)
{
    const qk__layer *layer = &model->layers[i];
    const qk_layer_facts *facts = &model->facts.layers[i];
    json_t *object =
        json_pack("{s:b, s:b, s:I, s:b, s:I, s:f}", "attends", layer->attends, "rope",
                  layer->rope != NULL, "window", (json_int_t)layer->window, "sliding",
                  facts->sliding, "num_frequencies", (json_int_t)facts->num_frequencies,
                  "frequency_1", facts->num_frequencies > 1 ? facts->frequencies[1] : 0.0);
    json_t *frequencies = json_array();
    for (size_t j = 0; j < facts->num_frequencies; j++)
        json_array_append_new(frequencies, json_real(facts->frequencies[j]));
    json_object_set_new(object, "frequencies", frequencies);
    add_linear(object, "q", &layer->q);
    add_linear(object, "k", &layer->k);
    add_linear(object, "v", &layer->v);
    add_linear(object, "o", &layer->o);
    add_linear(object, "gate", &layer->gate);
    add_linear(object, "up", &layer->up);
    add_linear(object, "down", &layer->down);
    json_object_set_new(object, "q_norm", tensor_list(&layer->q_norm));
    json_object_set_new(object, "k_norm", tensor_list(&layer->k_norm));
    json_object_set_new(object, "attention_norm", tensor_list(&layer->attention_norm));
    json_object_set_new(object, "attention_out_norm", tensor_list(&layer->attention_out_norm));
    json_object_set_new(object, "mlp_norm", tensor_list(&layer->mlp_norm));
    json_object_set_new(object, "mlp_out_norm", tensor_list(&layer->mlp_out_norm));
    return object;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return QK_ERR_ARGUMENT;
    qk_error err;
    qk_model *model;
    qk_status status =
        qk_model_open(&model, argv[1], argc > 2 && *argv[2] ? argv[2] : NULL, &err);
    if (status != QK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return (int)status;
    }
    const qk_model_facts *f = qk_model_get_facts(model);
    char fingerprint[20];
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)f->fingerprint);
    json_t *layers = json_array();
    for (int i = 0; i < f->num_layers; i++)
        json_array_append_new(layers, layer_object(model, i));
    json_t *object = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:s, s:f, s:s, s:I, s:I, s:s, s:o, s:o}", "architecture",
        f->architecture, "num_layers", f->num_layers, "num_q_heads", f->num_q_heads,
        "num_k_heads", f->num_k_heads, "head_dim", f->head_dim, "rope_type", f->rope_type,
        "rope_theta", f->rope_theta, "dtype", f->dtype, "weight_bytes",
        (json_int_t)f->weight_bytes, "parameters", (json_int_t)f->parameters, "fingerprint",
        fingerprint, "embedding", tensor_list(&model->embedding), "layers", layers);
    const qk__model_config *c = &model->config;
    json_object_set_new(object, "rules",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "attention_factor",
                                  f->attention_factor, "attention_scale", f->attention_scale,
                                  "logit_cap", c->logit_cap, "query_scale", c->query_scale_beta,
                                  "norm_eps", (double)c->norm_eps, "max_positions",
                                  (json_int_t)f->max_positions));
    json_dumpf(object, stdout, JSON_COMPACT);
    puts("");
    json_decref(object);
    qk_model_close(&model);
    return 0;
}
