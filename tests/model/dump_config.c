/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what is understood of a config.json as JSON: dump_config FILE [OVERRIDES]. A second
 * program argument of "" is none. The frequencies are those for a text of 0 and, with a third
 * argument, of that many tokens; dump_config --rules prints the table of keys. Errors go to standard error; the exit code is the status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buffer.h"
#include "base/file.h"
#include "model/architectures.h"
#include "model/model_config.h"

static json_t *frequency_list(const qk__rope *rope, int64_t length)
{
    float *values = qk__calloc((size_t)rope->pairs, sizeof *values);
    qk__rope_frequencies(rope, length, values);
    json_t *list = json_array();
    for (int i = 0; i < rope->pairs; i++)
        json_array_append_new(list, json_real((double)values[i]));
    free(values);
    return list;
}

static json_t *rope_object(const qk__rope_settings *settings, int64_t length)
{
    qk__rope rope;
    if (qk__rope_init(&rope, settings, NULL) != QK_OK)
        return json_null();
    json_t *object =
        json_pack("{s:s, s:f, s:i, s:f, s:o, s:o}", "type", qk__rope_type_name(settings->type),
                  "theta", settings->theta, "width", settings->width, "attention_factor",
                  (double)rope.attention_factor, "short", frequency_list(&rope, 0), "long",
                  frequency_list(&rope, length));
    qk__rope_free(&rope);
    return object;
}

static json_t *layer_list(const qk__model_config *c)
{
    json_t *layers = json_array();
    for (int i = 0; i < c->num_layers; i++)
        json_array_append_new(
            layers, json_pack("{s:b, s:b, s:I, s:i}", "attends", c->layers[i].attends,
                              "sliding", c->layers[i].sliding, "window",
                              (json_int_t)c->layers[i].window, "rope", c->layers[i].rope));
    return layers;
}

static json_t *config_object(const qk__model_config *c, int64_t length)
{
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "architecture",
                  c->architecture->name, "num_layers", c->num_layers, "num_q_heads",
                  c->num_q_heads, "num_k_heads", c->num_k_heads, "head_dim", c->head_dim,
                  "hidden_size", c->hidden_size, "intermediate_size", c->intermediate_size,
                  "vocab_size", c->vocab_size, "max_positions", (json_int_t)c->max_positions);
    json_t *rules = json_pack(
        "{s:i, s:f, s:i, s:b, s:b, s:b, s:b, s:b, s:f, s:f, s:f, s:I}", "norm", (int)c->norm,
        "norm_eps", (double)c->norm_eps, "activation", (int)c->activation, "qkv_bias",
        c->qkv_bias, "o_bias", c->o_bias, "mlp_bias", c->mlp_bias, "qk_norm", c->qk_norm,
        "interleaved", c->interleaved_rope, "attention_scale", (double)c->attention_scale,
        "embedding_scale", (double)c->embedding_scale, "query_scale_beta", c->query_scale_beta,
        "query_scale_original", (json_int_t)c->query_scale_original);
    json_object_update_new(object, rules);
    json_object_set_new(object, "logit_cap", json_real(c->logit_cap));
    json_object_set_new(object, "tie", json_integer(c->tie));
    json_object_set_new(object, "notice", json_string(c->notice));
    json_object_set_new(object, "layers", layer_list(c));
    json_t *ropes = json_array();
    for (int i = 0; i < (c->architecture->local_rope ? QK_NUM_ROPES : 1); i++)
        json_array_append_new(ropes, rope_object(&c->rope[i], length));
    json_object_set_new(object, "ropes", ropes);
    return object;
}

/* The table of keys: lists of use, keys and architectures, which are null for all. */
static int print_rules(void)
{
    json_t *list = json_array();
    for (const qk__config_rule *r = qk__config_rules; r->use; r++)
        json_array_append_new(list, json_pack("[s, s, s?]", r->use, r->keys, r->of));
    json_dumpf(list, stdout, JSON_COMPACT);
    json_decref(list);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--rules") == 0)
        return print_rules();
    if (argc < 2)
        return QK_ERR_ARGUMENT;
    qk_error err;
    qk__buffer text;
    qk__model_config config;
    const char *overrides = argc > 2 && *argv[2] ? argv[2] : NULL;
    qk_status status = qk__read_file(argv[1], 1 << 24, &text, &err);
    if (status == QK_OK) {
        status = qk__model_config_parse(&config, (const char *)text.data, text.size, overrides,
                                        &err);
        qk__buffer_free(&text);
    }
    if (status != QK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return (int)status;
    }
    json_t *object = config_object(&config, argc > 3 ? strtoll(argv[3], NULL, 10) : 0);
    json_dumpf(object, stdout, JSON_COMPACT);
    puts("");
    json_decref(object);
    qk__model_config_free(&config);
    return 0;
}
