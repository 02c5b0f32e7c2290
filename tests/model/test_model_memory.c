/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model when memory runs out at any moment: the status says so and nothing is leaked.
 */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <stdbool.h>

#include <qkscope/model.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"

/* A header and as many zeros as it tells of. */
static void add_weights(const char *name, const char *const (*tensors)[2], size_t count)
{
    char header[4096];
    size_t used = 0, offset = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned rows = 0, columns = 1;
        sscanf(tensors[i][1], "%u, %u", &rows, &columns);
        size_t end = offset + (size_t)rows * columns * 4;
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%c\"%s\": {\"dtype\": \"F32\", \"shape\": [%s], "
                                 "\"data_offsets\": [%zu, %zu]}",
                                 i == 0 ? '{' : ',', tensors[i][0], tensors[i][1], offset, end);
        offset = end;
    }
    used += (size_t)snprintf(header + used, sizeof header - used, "}");
    uint64_t length = used;
    FILE *file = fopen(tree_path(name), "wb");
    if (!file || fwrite(&length, 8, 1, file) != 1 || fwrite(header, used, 1, file) != 1)
        abort();
    for (size_t i = 0; i < offset; i++)
        fputc(0, file);
    if (fclose(file) != 0)
        abort();
}

#define LAYER "model.layers.0."

static void add_model(void)
{
    static const char *const first[][2] = {
        {"model.embed_tokens.weight", "5, 8"},     {LAYER "self_attn.q_proj.weight", "8, 8"},
        {LAYER "self_attn.k_proj.weight", "4, 8"}, {LAYER "self_attn.v_proj.weight", "4, 8"},
        {LAYER "self_attn.o_proj.weight", "8, 8"},
    };
    static const char *const second[][2] = {
        {LAYER "mlp.gate_proj.weight", "6, 8"},         {LAYER "mlp.up_proj.weight", "6, 8"},
        {LAYER "mlp.down_proj.weight", "8, 6"},         {LAYER "input_layernorm.weight", "8"},
        {LAYER "post_attention_layernorm.weight", "8"},
    };
    tree_add("config.json",
             "{\"model_type\": \"llama\", \"hidden_size\": 8, \"intermediate_size\": 6,"
             " \"vocab_size\": 5, \"num_hidden_layers\": 1, \"num_attention_heads\": 2,"
             " \"num_key_value_heads\": 1, \"rope_scaling\": {\"type\": \"longrope\","
             " \"short_factor\": [1, 2], \"long_factor\": [2, 4]}}");
    tree_add("model.safetensors.index.json",
             "{\"weight_map\": {\"model.embed_tokens.weight\": \"a.safetensors\","
             " \"" LAYER "mlp.up_proj.weight\": \"b.safetensors\"}}");
    add_weights("a.safetensors", first, sizeof first / sizeof *first);
    add_weights("b.safetensors", second, sizeof second / sizeof *second);
}

static void every_allocation(void **state)
{
    (void)state;
    add_model();
    qk_model *model;
    qk_error err;
    assert_int_equal(qk_model_open(&model, tree_path(""), "{\"rms_norm_eps\": 0.5}", &err),
                     QK_OK);
    uint64_t fingerprint = qk_model_get_facts(model)->fingerprint;
    qk_model_close(&model);
    long failures = 0;
    for (long i = 0;; i++) {
        remaining = i;
        qk_status status =
            qk_model_open(&model, tree_path(""), "{\"rms_norm_eps\": 0.5}", &err);
        bool failed = remaining < 0;
        remaining = -1;
        if (!failed)
            break;
        failures++;
        assert_int_equal(status, QK_ERR_NOMEM);
        assert_null(model);
    }
    assert_true(failures > 20);
    assert_int_equal(qk_model_get_facts(model)->fingerprint == fingerprint, true);
    qk_model_close(&model);
    assert_null(model);
    qk_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
