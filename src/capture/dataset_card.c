/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset card of a capture: a README.md whose front matter declares one dataset
 * configuration per head, so that load_dataset(folder, "l00h00q") finds its rows. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "capture/capture.h"
#include "capture/capture_writer.h"

#include <qkscope/common.h>

/* Whether record i is the first of its file: a packed file has the heads of a layer and kind. */
static bool begins_file(const qk_capture_writer *writer, size_t i)
{
    const qk__head_record *records = writer->records;
    if (writer->layout != QK_LAYOUT_PACKED)
        return true;
    for (size_t j = i; j > 0 && records[j - 1].id.layer == records[i].id.layer; j--)
        if (records[j - 1].id.kind == records[i].id.kind)
            return false;
    return true;
}

static void name_folder(const qk_capture_writer *writer, size_t i, char name[QK_HEAD_NAME_SIZE])
{
    qk_head_id id = writer->records[i].id;
    if (writer->layout == QK_LAYOUT_PACKED)
        qk__layer_name(id.layer, id.kind, name);
    else
        qk_head_name(id, name);
}

/* Whether there are files of rows, not only moments. */
static bool has_files(const qk_capture_writer *writer)
{
    bool any = false;
    for (size_t i = 0; i < writer->num_records; i++)
        any = any || writer->records[i].begun;
    return any;
}

static qk_status put_front_matter(const qk_capture_writer *writer, qk__buffer *out,
                                  qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err, "---\nconfigs:%s\n", has_files(writer) ? "" : " []"));
    for (size_t i = 0; i < writer->num_records; i++) {
        char name[QK_HEAD_NAME_SIZE];
        if (!begins_file(writer, i) || !writer->records[i].begun)
            continue;
        name_folder(writer, i, name);
        QK_TRY(qk__buffer_printf(out, err,
                                 "- config_name: %s\n  data_files:\n  - split: train\n"
                                 "    path: %s/data.parquet\n",
                                 name, name));
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

static qk_status put_examples(const qk_capture_writer *writer, qk__buffer *out, qk_error *err)
{
    bool packed = writer->layout == QK_LAYOUT_PACKED;
    char name[QK_HEAD_NAME_SIZE] = "l00q";
    if (!packed)
        snprintf(name, sizeof name, "l00h00q");
    if (writer->num_records > 0)
        name_folder(writer, 0, name);
    if (!packed)
        return qk__buffer_printf(
            out, err,
            "One configuration per head: `l` and the layer, `h` and the head, `q` for queries "
            "or\n"
            "`k` for keys (key heads are counted by themselves).\n\n"
            "```python\nfrom datasets import load_dataset\n\n"
            "rows = load_dataset(\"path/to/this/folder\", \"%s\", split=\"train\")\n```\n\n",
            name);
    return qk__buffer_printf(
        out, err,
        "One configuration per layer and kind: `l` and the layer, `q` for queries or `k` for\n"
        "keys. The column `head` has the number of the head (key heads are counted by "
        "themselves).\n"
        "A row group holds rows of one head, so a reader that filters by it skips all "
        "others.\n\n"
        "```python\nimport pyarrow.parquet as pq\nfrom datasets import load_dataset\n\n"
        "rows = load_dataset(\"path/to/this/folder\", \"%s\", split=\"train\")  # all heads\n"
        "rows = pq.read_table(\"path/to/this/folder/%s\", filters=[(\"head\", \"==\", 0)])\n"
        "```\n\n",
        name, name);
}

static qk_status put_explanation(const qk_capture_writer *writer, qk__buffer *out,
                                 qk_error *err)
{
    if (!has_files(writer))
        return QK_OK;
    QK_TRY(put_examples(writer, out, err));
    return qk__buffer_printf(
        out, err,
        "## Columns\n\n"
        "| column | type | meaning |\n| --- | --- | --- |\n"
        "%s"
        "| bucket | int32 | position bucket |\n"
        "| example_id | int64 | which text the row comes from |\n"
        "| position | int32 | token position in the text, from 0 |\n"
        "| vector | list of float32 | the vector, all of one length |\n"
        "| sliding_window | int32 | attention window in tokens, null = full attention |\n"
        "| token_str | string | the token, where it was captured |\n\n",
        writer->layout == QK_LAYOUT_PACKED ? "| head | int32 | number of the head |\n" : "");
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
