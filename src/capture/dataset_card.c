/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset card of a capture: a README.md whose front matter declares one dataset
 * configuration per head, so that load_dataset(folder, "l00h00q") finds its rows. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "capture/capture_writer.h"

#include <qkscope/common.h>

static qk_status put_front_matter(const qk_capture_writer *writer, qk__buffer *out,
                                  qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err, "---\nconfigs:%s\n", writer->num_records ? "" : " []"));
    for (size_t i = 0; i < writer->num_records; i++) {
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(writer->records[i].id, name);
        QK_TRY(qk__buffer_printf(out, err,
                                 "- config_name: %s\n  data_files:\n  - split: train\n"
                                 "    path: %s/%s\n",
                                 name, name,
                                 writer->records[i].shards > 1 ? "*.parquet" : "data.parquet"));
    }
    return qk__buffer_printf(out, err, "---\n\n");
}

static qk_status put_summary(const qk_capture_writer *writer, qk__buffer *out, qk_error *err)
{
    size_t queries = 0;
    int64_t rows = 0;
    for (size_t i = 0; i < writer->num_records; i++) {
        queries += writer->records[i].id.kind == QK_QUERY;
        rows += writer->records[i].rows;
    }
    const char *model = writer->model[0] ? writer->model : "an unnamed model";
    QK_TRY(qk__buffer_printf(out, err, "# Query and key vectors: %s\n\n", model));
    QK_TRY(qk__buffer_printf(out, err, "- model: %s\n- query heads: %zu\n- key heads: %zu\n",
                             model, queries, writer->num_records - queries));
    QK_TRY(qk__buffer_printf(out, err, "- rows: %lld\n", (long long)rows));
    if (writer->q_per_kv_group > 0)
        QK_TRY(qk__buffer_printf(out, err, "- query heads per key head: %d\n",
                                 writer->q_per_kv_group));
    if (writer->source[0])
        QK_TRY(qk__buffer_printf(out, err, "- source: %s\n", writer->source));
    return qk__buffer_printf(out, err, "- written by: qkscope %s\n%s\n", QK_VERSION,
                             writer->card);
}

static qk_status put_explanation(const qk_capture_writer *writer, qk__buffer *out,
                                 qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE] = "l00h00q";
    if (writer->num_records > 0)
        qk_head_name(writer->records[0].id, name);
    return qk__buffer_printf(
        out, err,
        "One configuration per head: `l` and the layer, `h` and the head, `q` for queries or\n"
        "`k` for keys (key heads are counted by themselves).\n\n"
        "```python\nfrom datasets import load_dataset\n\n"
        "rows = load_dataset(\"path/to/this/folder\", \"%s\", split=\"train\")\n```\n\n"
        "## Columns\n\n"
        "| column | type | meaning |\n| --- | --- | --- |\n"
        "| bucket | int32 | position bucket |\n"
        "| example_id | %s | which text the row comes from |\n"
        "| position | int32 | token position in the text, from 0 |\n"
        "| vector | list of float32 | the vector, all of one length |\n"
        "| sliding_window | int32 | attention window in tokens, null = full attention |\n"
        "| token_str | string | the token, where it was captured |\n\n",
        name, writer->wide_ids ? "int64" : "int32");
}

static qk_status put_heads(const qk_capture_writer *writer, qk__buffer *out, qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err,
                             "## Heads\n\n| head | rows | dimension |\n"
                             "| --- | ---: | ---: |\n"));
    for (size_t i = 0; i < writer->num_records; i++) {
        const qk__head_record *record = &writer->records[i];
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(record->id, name);
        QK_TRY(qk__buffer_printf(out, err, "| %s | %lld | %zu |\n", name,
                                 (long long)record->rows, record->dim));
    }
    return QK_OK;
}

qk_status qk__capture_write_card(const qk_capture_writer *writer, qk_error *err)
{
    qk__buffer text = {0};
    char *path = qk__path_join(writer->dir, "README.md");
    qk_status status = path ? put_front_matter(writer, &text, err) : qk__nomem(err);
    if (status == QK_OK)
        status = put_summary(writer, &text, err);
    if (status == QK_OK)
        status = put_explanation(writer, &text, err);
    if (status == QK_OK)
        status = put_heads(writer, &text, err);
    if (status == QK_OK)
        status = qk__write_file(path, text.data, text.size, err);
    qk__buffer_free(&text);
    free(path);
    return status;
}
