/* SPDX-License-Identifier: Apache-2.0 */
/* Gives out a table in memory through Arrow's C data interface. Numbers stay where they are: whoever has a
 * batch holds the table. A consumer may take a column out of a batch (then it has set the column's release to
 * NULL) and release it later than the rest, so each column holds the table for itself. */
#include <qkscope/arrow.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "schema/columns.h"

/* ---- the schema ------------------------------------------------------------------------- */

static void release_field(struct ArrowSchema *field)
{
    free(field->private_data); /* metadata; the name is the library's */
    field->release = NULL;
}

static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t i = 0; schema->children && i < schema->n_children; i++)
        if (schema->children[i]->release)
            schema->children[i]->release(schema->children[i]);
    free(schema->children);
    free(schema->private_data);
    schema->release = NULL;
}

static qk_status add_text(qk__buffer *out, const char *text, qk_error *err)
{
    int32_t length = (int32_t)strlen(text);
    QK_TRY(qk__buffer_append(out, &length, sizeof length, err));
    return qk__buffer_append(out, text, (size_t)length, err);
}

/* The number of pairs, then keys and values with their lengths. */
static qk_status add_metadata(const qk_column_info *info, qk__buffer *out, qk_error *err)
{
    const char *const pairs[][2] = {{"unit", info->unit},     {"range", info->range},
                                    {"symbol", info->symbol}, {"label", info->label},
                                    {"about", info->about},   {"read", info->read},
                                    {"method", info->method}, {"option", info->option}};
    enum { NUM_PAIRS = sizeof pairs / sizeof *pairs };
    int32_t count = 0;
    for (size_t i = 0; i < NUM_PAIRS; i++)
        count += pairs[i][1] != NULL;
    QK_TRY(qk__buffer_append(out, &count, sizeof count, err));
    for (size_t i = 0; i < NUM_PAIRS; i++)
        if (pairs[i][1]) {
            QK_TRY(add_text(out, pairs[i][0], err));
            QK_TRY(add_text(out, pairs[i][1], err));
        }
    return QK_OK;
}

static qk_status make_field(const qk_column_info *info, struct ArrowSchema *field,
                            qk_error *err)
{
    qk__buffer metadata = {0};
    qk_status status = add_metadata(info, &metadata, err);
    if (status != QK_OK) {
        qk__buffer_free(&metadata);
        return status;
    }
    *field = (struct ArrowSchema){
        .format = info->type == QK_COLUMN_REAL      ? "g"
                  : info->type == QK_COLUMN_INTEGER ? "l"
                                                    : "u",
        .name = info->name,
        .metadata = (const char *)metadata.data,
        .flags = ARROW_FLAG_NULLABLE,
        .release = release_field,
        .private_data = metadata.data,
    };
    return QK_OK;
}

qk_status qk_columns_arrow_schema(const qk_columns *columns, struct ArrowSchema *schema,
                                  qk_error *err)
{
    QK_NEED(err, columns, schema);
    size_t count = columns->count;
    struct ArrowSchema *fields = qk__calloc(count + 1, sizeof *fields);
    *schema = (struct ArrowSchema){
        .format = "+s",
        .name = "",
        .children = qk__calloc(count + 1, sizeof *schema->children),
        .release = release_schema,
        .private_data = fields,
    };
    qk_status status = fields && schema->children ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        schema->children[schema->n_children++] = &fields[i];
        status = make_field(&columns->columns[i]->info, &fields[i], err);
    }
    if (status != QK_OK)
        release_schema(schema);
    return status;
}

/* ---- a batch ---------------------------------------------------------------------------- */

/* What a column of a batch needs. */
typedef struct lent_column {
    qk_columns *table;
    uint8_t *validity;
    int32_t *offsets;
    qk__buffer text;
    const void *buffers[3];
} lent_column;

static void release_column(struct ArrowArray *array)
{
    lent_column *lent = array->private_data;
    qk_columns_free(&lent->table);
    free(lent->validity);
    free(lent->offsets);
    qk__buffer_free(&lent->text);
    free(lent);
    array->release = NULL;
}

static void release_batch(struct ArrowArray *batch)
{
    for (int64_t i = 0; batch->children && i < batch->n_children; i++)
        if (batch->children[i]->release)
            batch->children[i]->release(batch->children[i]);
    free(batch->children);
    free(batch->private_data);
    batch->release = NULL;
}

static bool is_null(const qk_columns *c, size_t k, size_t row)
{
    qk__value value = c->values[k][row];
    switch (c->columns[k]->info.type) {
    case QK_COLUMN_REAL:
        return isnan(value.real);
    case QK_COLUMN_INTEGER:
        return qk__is_empty_integer(c->columns[k], value.integer) ||
               (c->empty && c->empty[k] && c->empty[k][row]);
    default:
        return !value.text;
    }
}

/* A bit for each row, where one is null. */
static qk_status mark_nulls(const qk_columns *c, size_t k, lent_column *lent, int64_t *nulls,
                            qk_error *err)
{
    *nulls = 0;
    for (size_t i = 0; i < c->num_rows; i++)
        *nulls += is_null(c, k, i);
    if (*nulls == 0)
        return QK_OK;
    lent->validity = qk__calloc(c->num_rows / 8 + 1, 1);
    if (!lent->validity)
        return qk__nomem(err);
    for (size_t i = 0; i < c->num_rows; i++)
        if (!is_null(c, k, i))
            lent->validity[i / 8] |= (uint8_t)(1U << (i % 8));
    return QK_OK;
}

static qk_status join_texts(const qk_columns *c, size_t k, lent_column *lent, qk_error *err)
{
    lent->offsets = qk__calloc(c->num_rows + 1, sizeof *lent->offsets);
    if (!lent->offsets)
        return qk__nomem(err);
    QK_TRY(qk__buffer_reserve(&lent->text, 1, err));
    for (size_t i = 0; i < c->num_rows; i++) {
        const char *text = c->values[k][i].text;
        if (text)
            QK_TRY(qk__buffer_append(&lent->text, text, strlen(text), err));
        if (lent->text.size > INT32_MAX)
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "column %s: its texts take more than 2 GiB",
                            c->columns[k]->info.name);
        lent->offsets[i + 1] = (int32_t)lent->text.size;
    }
    return QK_OK;
}

/* On failure, what is there waits for the batch's release. */
static qk_status lend_column(const qk_columns *c, size_t k, struct ArrowArray *array,
                             qk_error *err)
{
    bool is_text = c->columns[k]->info.type == QK_COLUMN_TEXT;
    lent_column *lent = qk__calloc(1, sizeof *lent);
    if (!lent)
        return qk__nomem(err);
    lent->table = qk__columns_hold(c);
    *array = (struct ArrowArray){
        .length = (int64_t)c->num_rows,
        .n_buffers = is_text ? 3 : 2,
        .buffers = lent->buffers,
        .release = release_column,
        .private_data = lent,
    };
    QK_TRY(mark_nulls(c, k, lent, &array->null_count, err));
    if (is_text)
        QK_TRY(join_texts(c, k, lent, err));
    lent->buffers[0] = lent->validity;
    lent->buffers[1] = is_text ? (const void *)lent->offsets : c->values[k];
    lent->buffers[2] = lent->text.data;
    return QK_OK;
}

static qk_status lend_batch(const qk_columns *c, struct ArrowArray *batch, qk_error *err)
{
    static const void *no_nulls[1];
    struct ArrowArray *arrays = qk__calloc(c->count + 1, sizeof *arrays);
    *batch = (struct ArrowArray){
        .length = (int64_t)c->num_rows,
        .n_buffers = 1,
        .buffers = no_nulls,
        .children = qk__calloc(c->count + 1, sizeof *batch->children),
        .release = release_batch,
        .private_data = arrays,
    };
    qk_status status = arrays && batch->children ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < c->count && status == QK_OK; i++) {
        batch->children[batch->n_children++] = &arrays[i];
        status = lend_column(c, i, &arrays[i], err);
    }
    if (status != QK_OK)
        release_batch(batch);
    return status;
}

/* ---- the stream ------------------------------------------------------------------------- */

typedef struct arrow_stream {
    qk_columns *table;
    bool ended;
    qk_error last;
} arrow_stream;

static int code_of(qk_status status)
{
    return status == QK_OK ? 0 : status == QK_ERR_NOMEM ? ENOMEM : EINVAL;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    arrow_stream *s = stream->private_data;
    return code_of(qk_columns_arrow_schema(s->table, out, &s->last));
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    arrow_stream *s = stream->private_data;
    *out = (struct ArrowArray){0};
    if (s->ended)
        return 0;
    qk_status status = lend_batch(s->table, out, &s->last);
    s->ended = status == QK_OK;
    return code_of(status);
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    const arrow_stream *s = stream->private_data;
    return s->last.status == QK_OK ? NULL : s->last.message;
}

static void release_stream(struct ArrowArrayStream *stream)
{
    arrow_stream *s = stream->private_data;
    qk_columns_free(&s->table);
    free(s);
    stream->release = NULL;
}

qk_status qk_columns_arrow(const qk_columns *columns, struct ArrowArrayStream *stream,
                           qk_error *err)
{
    QK_NEED(err, columns, stream);
    *stream = (struct ArrowArrayStream){0};
    arrow_stream *s = qk__calloc(1, sizeof *s);
    if (!s)
        return qk__nomem(err);
    s->table = qk__columns_hold(columns);
    *stream = (struct ArrowArrayStream){.get_schema = get_schema,
                                        .get_next = get_next,
                                        .get_last_error = get_last_error,
                                        .release = release_stream,
                                        .private_data = s};
    return QK_OK;
}
