/* SPDX-License-Identifier: Apache-2.0 */
/* Tables through Arrow's C data interface: the values and nulls of the columns, whoever is released first,
 * and whichever allocation fails. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <qkscope/arrow.h>
#include <qkscope/capture.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"

static qk_analysis_results *results;

/* Every second layer has a sliding window, so that column has nulls. */
static int make(void **state)
{
    qk_synth_settings synth;
    qk_analysis_settings s;
    if (tree_setup(state) != 0)
        return 1;
    qk_synth_settings_default(&synth);
    synth.layers = 2;
    synth.query_heads = 4;
    synth.group = 2;
    synth.dim = 8;
    synth.examples = 5;
    synth.rows_per_example = 40;
    synth.model = "m\xc3\xa9";
    if (qk_synth_write(&synth, tree_path("capture"), NULL) != QK_OK)
        return 1;
    qk_analysis_settings_default(&s);
    s.capture = tree_path("capture");
    s.context.threads = 1;
    s.ci = 95;
    s.analyses = QK_ANALYSE_PCA | QK_ANALYSE_PLASTICITY;
    return qk_analysis_run(&s, &results, NULL) == QK_OK ? 0 : 1;
}

static int clear(void **state)
{
    qk_analysis_results_free(&results);
    return tree_teardown(state);
}

static bool bit(const void *bits, size_t i)
{
    return !bits || (((const uint8_t *)bits)[i / 8] >> (i % 8) & 1);
}

static void compare_texts(const struct ArrowArray *array, const char *const *texts, size_t i)
{
    const int32_t *offsets = array->buffers[1];
    const char *text = (const char *)array->buffers[2] + offsets[i];
    assert_int_equal(offsets[i + 1] - offsets[i], strlen(texts[i]));
    assert_memory_equal(text, texts[i], strlen(texts[i]));
}

/* Returns how many nulls there are. */
static int64_t compare(const qk_columns *columns, size_t c, const struct ArrowArray *array)
{
    const char *name = qk_columns_info(columns, c)->name;
    const double *reals = qk_columns_reals(columns, name);
    const int64_t *integers = qk_columns_integers(columns, name);
    const char *const *texts = qk_columns_texts(columns, name);
    bool window = strcmp(name, "sliding_window") == 0;
    int64_t nulls = 0;
    assert_int_equal(array->length, qk_columns_num_rows(columns));
    if (!texts) /* where it lies */
        assert_ptr_equal(array->buffers[1], reals ? (const void *)reals : integers);
    for (size_t i = 0; i < qk_columns_num_rows(columns); i++) {
        bool null = reals ? isnan(reals[i]) : window && integers[i] <= 0;
        assert_int_equal(bit(array->buffers[0], i), !null);
        nulls += null;
        if (texts)
            compare_texts(array, texts, i);
    }
    assert_int_equal(array->null_count, nulls);
    return nulls;
}

/* A value of a field's metadata; NULL: none. */
static const char *metadata(const struct ArrowSchema *field, const char *key, int32_t *length)
{
    const char *at = field->metadata;
    int32_t count, size;
    memcpy(&count, at, sizeof count);
    at += sizeof count;
    for (int32_t i = 0; i < count; i++) {
        memcpy(&size, at, sizeof size);
        bool found =
            (size_t)size == strlen(key) && memcmp(at + sizeof size, key, (size_t)size) == 0;
        at += sizeof size + (size_t)size;
        memcpy(length, at, sizeof *length);
        if (found)
            return at + sizeof *length;
        at += sizeof *length + (size_t)*length;
    }
    return NULL;
}

static void check_field(const struct ArrowSchema *field, const qk_column_info *info)
{
    static const char *const FORMATS[] = {"u", "l", "g"};
    int32_t length = 0;
    assert_string_equal(field->name, info->name);
    assert_string_equal(field->format, FORMATS[info->type]);
    assert_int_equal(field->flags, ARROW_FLAG_NULLABLE);
    const char *about = metadata(field, "about", &length);
    assert_non_null(about);
    assert_int_equal(length, strlen(info->about));
    assert_memory_equal(about, info->about, (size_t)length);
    assert_int_equal(!!metadata(field, "unit", &length), !!info->unit);
}

static void values_and_nulls(void **state)
{
    static const char *const TABLES[] = {"qk.csv", "heads.csv", "head_metrics.csv",
                                         "model_report"};
    int64_t nulls = 0;
    (void)state;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++) {
        qk_columns *columns;
        struct ArrowArrayStream stream;
        struct ArrowSchema schema;
        struct ArrowArray batch, end;
        assert_int_equal(qk_results_table(results, TABLES[t], &columns, NULL), QK_OK);
        assert_int_equal(qk_columns_arrow(columns, &stream, NULL), QK_OK);
        assert_int_equal(stream.get_schema(&stream, &schema), 0);
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        assert_int_equal(stream.get_next(&stream, &end), 0);
        assert_true(end.release == NULL);
        assert_null(stream.get_last_error(&stream));
        stream.release(&stream);
        assert_string_equal(schema.format, "+s");
        assert_int_equal(schema.n_children, batch.n_children);
        for (int64_t c = 0; c < batch.n_children; c++) {
            check_field(schema.children[c], qk_columns_info(columns, (size_t)c));
            nulls += compare(columns, (size_t)c, batch.children[c]);
        }
        assert_null(qk_columns_info(columns, (size_t)batch.n_children));
        schema.release(&schema);
        batch.release(&batch);
        qk_columns_free(&columns);
    }
    assert_true(nulls > 0);
}

/* The table goes first, then the stream, then the batch; a column that was taken out of it stays. */
static void any_order(void **state)
{
    qk_columns *columns;
    struct ArrowArrayStream stream;
    struct ArrowArray batch, taken;
    (void)state;
    assert_int_equal(qk_results_table(results, "qk.csv", &columns, NULL), QK_OK);
    double first = qk_columns_reals(columns, "explained_variance")[0];
    size_t c = 0;
    while (strcmp(qk_columns_info(columns, c)->name, "explained_variance") != 0)
        c++;
    assert_int_equal(qk_columns_arrow(columns, &stream, NULL), QK_OK);
    qk_columns_free(&columns);
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    stream.release(&stream);
    taken = *batch.children[c];
    batch.children[c]->release = NULL;
    batch.release(&batch);
    assert_true(((const double *)taken.buffers[1])[0] == first);
    taken.release(&taken);
    assert_int_equal(qk_results_table(results, "qk.csv", &columns, NULL), QK_OK);
    assert_int_equal(qk_columns_arrow(columns, &stream, NULL), QK_OK);
    qk_columns_free(&columns);
    stream.release(&stream); /* never read */
    assert_true(stream.release == NULL);
}

/* What a consumer does, with allocation n failing. */
static int take(struct ArrowArrayStream *stream)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    int code = stream->get_schema(stream, &schema);
    if (code == 0)
        code = stream->get_next(stream, &batch);
    if (code != 0) {
        remaining = -1;
        assert_int_equal(code, ENOMEM);
        assert_string_equal(stream->get_last_error(stream), "out of memory");
    }
    if (schema.release)
        schema.release(&schema);
    if (batch.release)
        batch.release(&batch);
    return code;
}

static void every_allocation(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        qk_columns *columns;
        struct ArrowArrayStream stream = {0};
        qk_error err = {0};
        remaining = n;
        qk_status status = qk_results_table(results, "head_metrics.csv", &columns, &err);
        if (status == QK_OK)
            status = qk_columns_arrow(columns, &stream, &err);
        int code = status == QK_OK ? take(&stream) : 0;
        bool reached = remaining < 0;
        remaining = -1;
        if (status != QK_OK) {
            assert_int_equal(status, QK_ERR_NOMEM);
            assert_true(stream.release == NULL);
        } else {
            stream.release(&stream);
        }
        qk_columns_free(&columns);
        if (status == QK_OK && code == 0 && !reached) {
            assert_true(n > 60);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_nulls),
        cmocka_unit_test(any_order),
        cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests_name("arrow", tests, make, clear);
}
