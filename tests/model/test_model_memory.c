/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model and a tokenizer when memory runs out at any moment, jansson's too: the status
 * says so and nothing is leaked. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <stdbool.h>

#include <jansson.h>

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
    assert_true(failures > 100);
    assert_int_equal(qk_model_get_facts(model)->fingerprint == fingerprint, true);
    qk_model_close(&model);
    assert_null(model);
    qk_model_close(&model);
}

/* By config.json alone: the same facts but for those of weights. */
static void every_allocation_of_a_shape(void **state)
{
    (void)state;
    add_model();
    qk_model *model = NULL;
    qk_error err;
    remove(tree_path("a.safetensors"));
    remove(tree_path("model.safetensors.index.json"));
    qk_status status = QK_ERR_NOMEM;
    long failures = -1;
    for (long i = 0; status == QK_ERR_NOMEM; i++, failures++) {
        remaining = i;
        status = qk_model_open_shape(&model, tree_path(""), NULL, &err);
        bool failed = remaining < 0;
        remaining = -1;
        assert_int_equal(status, failed ? QK_ERR_NOMEM : QK_OK);
        assert_int_equal(model == NULL, failed);
    }
    assert_true(failures > 20);
    const qk_model_facts *facts = qk_model_get_facts(model);
    assert_true(facts->num_layers == 1 && facts->head_dim == 4 && facts->layers[0].rope);
    assert_true(facts->layers[0].num_frequencies == 2 && facts->layers[0].frequencies[0] == 1);
    assert_true(facts->parameters > 0 && facts->weight_bytes == 0 && facts->fingerprint != 0);
    assert_string_equal(facts->dtype, "");
    qk_model_close(&model);
}

#define ADDED(id, text)                                                                        \
    "{\"id\": " id ", \"content\": \"" text "\", \"special\": false, \"normalized\": true}"

static void add_tokenizer(void)
{
    tree_add(
        "tokenizer.json",
        "{\"version\": \"1.0\", \"truncation\": {\"direction\": \"Right\"},"
        " \"added_tokens\": [" ADDED("7", "<a long added token>") "," ADDED(
            "8",
            "<two>") "], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\":"
                     " \"NFC\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"},"
                     " \"content\": \"_\"}]}, \"pre_tokenizer\": {\"type\": \"Split\","
                     " \"pattern\": {\"Regex\": \"b+\"}, \"behavior\": \"Isolated\", "
                     "\"invert\": false},"
                     " \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\":"
                     " [{\"SpecialToken\": {\"id\": \"b\"}}, {\"Sequence\": {\"id\": \"A\"}}],"
                     " \"special_tokens\": {\"b\": {\"ids\": [1]}}}, \"model\": {\"type\": "
                     "\"BPE\","
                     " \"unk_token\": \"?\", \"vocab\": {\"a\": 0, \"b\": 1, \"?\": 2, \"_\": "
                     "3,"
                     " \"ab\": 4, \"z\\u0000\": 5, \"<0x0A>\": 6}, \"merges\": [\"a b\"]}}");
    tree_add("tokenizer_config.json",
             "{\"model_max_length\": 1000000000000000019884624838656,"
             " \"truncation_side\": \"left\", \"extra_special_tokens\": [\"<|user|>\"]}");
}

static void every_allocation_of_a_tokenizer(void **state)
{
    (void)state;
    add_tokenizer();
    qk_tokenizer *tokenizer;
    qk_error err;
    long failures = 0;
    for (long i = 0;; i++) {
        remaining = i;
        qk_status status = qk_tokenizer_open(&tokenizer, tree_path(""), &err);
        bool failed = remaining < 0;
        remaining = -1;
        if (!failed) {
            assert_int_equal(status, QK_OK);
            break;
        }
        failures++;
        assert_int_equal(status, QK_ERR_NOMEM);
        assert_null(tokenizer);
    }
    assert_true(failures > 100);
    qk_tokens tokens;
    assert_int_equal(qk_tokenizer_encode(tokenizer, "ab", 2, true, 2, &tokens, &err), QK_OK);
    assert_int_equal(tokens.count, 2);
    assert_int_equal(tokens.ids[1], 1); /* its beginning is cut */
    qk_tokens_free(&tokens);
    qk_tokenizer_close(&tokenizer);
}

/* Files from the fuzzing corpus: a vocabulary with merges, one with scores, Llama 3's divisors.
 */
static void every_allocation_of_gguf_files(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"llama", "gemma", "llama3", "longrope"};
    const char *folder = getenv("QKSCOPE_CORPUS");
    if (!folder)
        skip();
    for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++) {
        char path[1000];
        snprintf(path, sizeof path, "%s/%s", folder, NAMES[k]);
        long failures = 0;
        qk_error err = {0};
        qk_status status = QK_ERR_NOMEM;
        for (long i = 0; status == QK_ERR_NOMEM; i++, failures++) {
            qk_model *model;
            remaining = i;
            status = qk_model_open(&model, path, "{\"rms_norm_eps\": 0.5}", &err);
            bool failed = remaining < 0;
            remaining = -1;
            assert_int_equal(status == QK_OK, !failed);
            qk_model_close(&model);
        }
        assert_string_equal(status == QK_OK ? "" : err.message, "");
        bool with_tokenizer = k < 3;
        status = with_tokenizer ? QK_ERR_NOMEM : QK_OK;
        for (long i = 0; status == QK_ERR_NOMEM; i++, failures++) {
            qk_tokenizer *tokenizer;
            remaining = i;
            status = qk_tokenizer_open(&tokenizer, path, &err);
            bool failed = remaining < 0;
            remaining = -1;
            assert_int_equal(status == QK_OK, !failed);
            qk_tokenizer_close(&tokenizer);
        }
        assert_string_equal(status == QK_OK ? "" : err.message, "");
        assert_true(failures > 100);
    }
}

int main(void)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation, tree_setup_in_memory, tree_teardown),
        cmocka_unit_test_setup_teardown(every_allocation_of_a_shape, tree_setup_in_memory,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(every_allocation_of_a_tokenizer, tree_setup_in_memory,
                                        tree_teardown),
        cmocka_unit_test(every_allocation_of_gguf_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
