/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting the keys of a head, and what their pairs count. */
#include "stats/key_index.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/row_order.h"

static qk_status allocate_index(qk__key_index **index, size_t rows, size_t examples,
                                qk_error *err)
{
    *index = NULL;
    qk__key_index *x = calloc(1, sizeof *x);
    if (!x)
        return qk__nomem(err);
    /* One more than needed, so that no rows are no failure. */
    qk_status status = QK__CREATE_ARRAYS(err, {&x->row, rows + 1, sizeof *x->row},
                                         {&x->bucket, rows + 1, sizeof *x->bucket},
                                         {&x->position, rows + 1, sizeof *x->position},
                                         {&x->start, examples + 1, sizeof *x->start});
    if (status != QK_OK)
        qk__key_index_free(&x);
    *index = x;
    return status;
}

void qk__key_index_free(qk__key_index **index)
{
    if (!*index)
        return;
    free((*index)->row);
    free((*index)->bucket);
    free((*index)->position);
    free((*index)->start);
    free((*index)->chosen_of);
    free(*index);
    *index = NULL;
}

qk_status qk__key_index_create(qk__key_index **index, const qk_block *keys, qk_error *err)
{
    *index = NULL;
    if (keys->rows >= UINT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%zu keys in one head", keys->rows);
    qk__key_index *x;
    QK_TRY(allocate_index(&x, keys->rows, keys->rows, err));
    x->rows = keys->rows;
    for (size_t i = 0; i < x->rows; i++)
        x->row[i] = (uint32_t)i;
    const int64_t *const columns[] = {keys->example, keys->bucket, keys->position};
    qk_status status = qk__order_rows(x->row, x->rows, columns, 3, err);
    if (status != QK_OK) {
        qk__key_index_free(&x);
        return status;
    }
    for (size_t i = 0; i < x->rows; i++) {
        uint32_t row = x->row[i];
        x->bucket[i] = keys->bucket[row];
        x->position[i] = (double)keys->position[row];
        if (i == 0 || keys->example[row] != keys->example[x->row[i - 1]])
            x->start[x->num_examples++] = i;
    }
    x->start[x->num_examples] = x->rows;
    *index = x;
    return QK_OK;
}

qk_status qk__key_sign(const qk_block *keys, int *sign, qk_error *err)
{
    uint32_t *order;
    QK_TRY(qk__rows_in_order(&order, keys->rows, &keys->bucket, 1, err));
    double total = 0, sum = 0, count = 0;
    for (size_t i = 0; i < keys->rows; i++) {
        size_t at = order[i] * keys->dim;
        sum += keys->f32 ? (double)keys->f32[at] : keys->f64[at];
        count++;
        if (i + 1 == keys->rows || keys->bucket[order[i + 1]] != keys->bucket[order[i]]) {
            total += sum / count;
            sum = count = 0;
        }
    }
    *sign = total < 0 ? -1 : 1;
    free(order);
    return QK_OK;
}

bool qk__key_index_allocate_weights(qk__key_index *index, size_t rows)
{
    index->chosen_of = qk__calloc(3 * rows + 1, sizeof *index->chosen_of);
    index->weight = index->chosen_of ? index->chosen_of + rows : NULL;
    index->alike = index->chosen_of ? index->weight + rows : NULL;
    return index->chosen_of != NULL;
}

size_t qk__key_index_bucket_end(const qk__key_index *index, size_t i, size_t end)
{
    size_t next = i + 1;
    while (next < end && index->bucket[next] == index->bucket[i])
        next++;
    return next;
}

void qk__key_index_set_weights(qk__key_index *index)
{
    for (size_t e = 0; e < index->num_examples; e++)
        for (size_t i = index->start[e], next; i < index->start[e + 1]; i = next) {
            next = qk__key_index_bucket_end(index, i, index->start[e + 1]);
            double here = (double)(next - i), all = index->chosen_of[i];
            for (size_t k = i; k < next; k++) {
                index->weight[k] = all / here;
                index->alike[k] = here > 1 ? (all - 1) / all * (here / (here - 1)) : 1;
            }
        }
}

qk_status qk__key_index_select(qk__key_index **selected, const qk__key_index *index,
                               const qk_block *keys, qk_error *err)
{
    qk__key_index *x;
    QK_TRY(allocate_index(&x, index->rows, index->num_examples, err));
    if (index->chosen_of && !qk__key_index_allocate_weights(x, index->rows)) {
        qk__key_index_free(&x);
        return qk__nomem(err);
    }
    for (size_t e = 0; e < index->num_examples; e++) {
        size_t before = x->rows;
        for (size_t i = index->start[e]; i < index->start[e + 1]; i++) {
            if (keys->group && keys->group[index->row[i]] == keys->left_out)
                continue;
            x->row[x->rows] = index->row[i];
            x->bucket[x->rows] = index->bucket[i];
            if (index->chosen_of)
                x->chosen_of[x->rows] = index->chosen_of[i];
            x->position[x->rows++] = index->position[i];
        }
        if (x->rows > before)
            x->start[x->num_examples++] = before;
    }
    x->start[x->num_examples] = x->rows;
    if (x->chosen_of)
        qk__key_index_set_weights(x);
    *selected = x;
    return QK_OK;
}
