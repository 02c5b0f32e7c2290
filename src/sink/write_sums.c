/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the sums of all blocks in the order of the blocks: so a sum depends neither on who made a block nor when. One
 * layer at a time; memory holds its sums and those of one block. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parallel.h"
#include "sink/all_blocks.h"
#include "state/layer_file.h"

typedef struct adding {
    const qk__all_blocks *all;
    qk_sink *sink;
    int set;
    const char *folder;
    atomic_size_t done; /* layers */
} adding;

/* Finds part i of a layer in a block's file. */
static qk_status find_sums(const adding *a, const qk__block *block, int layer, int i,
                           qk__stored_sums *found, qk_error *err)
{
    const size_t kinds = 2 * (size_t)a->sink->settings.num_layers;
    const size_t queue = (size_t)a->set * kinds + qk__part_of(layer, (qk_kind)(i % 2));
    const size_t place = 2 * queue + (i >= QK__FIRST_PARTS);
    return qk__read_at(block->fd, found, sizeof *found,
                       block->facts.numbers[QK__AT_SUMS] + (int64_t)(place * sizeof *found),
                       err);
}

/* Loads part i of a layer from one block. */
static qk_status load(const adding *a, const qk__block *block, int layer, int i,
                      const qk__part_shape *shape, qk__part_moments **part, qk_error *err)
{
    qk__stored_sums at;
    QK_TRY(find_sums(a, block, layer, i, &at, err));
    QK_TRY(qk__part_moments_create(part, shape, err));
    if (at.size < 0 || at.offset < 0 || at.size > block->bytes)
        return qk__fail(err, QK_ERR_MALFORMED, "sums at no place");
    qk_status status = qk__part_moments_load(*part, block->fd, at.offset, (size_t)at.size, err);
    if (status == QK_OK && i < QK__FIRST_PARTS && a->set != QK__ATTENTION &&
        qk__part_moments_count(*part) != block->facts.rows[qk__part_of(layer, (qk_kind)i)])
        status = qk__fail(err, QK_ERR_MALFORMED, "sums of other rows than were kept");
    return status;
}

static qk_status add_block(const adding *a, int64_t number, int layer, int i,
                           const qk__part_shape *shape, qk__part_moments **sum, qk_error *err)
{
    qk__part_moments *part = NULL;
    qk_error why = {0};
    qk_status status = load(a, &a->all->blocks[number], layer, i, shape, &part, &why);
    if (status == QK_OK && *sum)
        status = qk__part_moments_merge(*sum, part, &why);
    if (status == QK_ERR_MALFORMED || status == QK_ERR_INCONSISTENT)
        status = qk__block_fail(a->sink, number, why.message, err);
    else if (status != QK_OK)
        status = qk__fail(err, status, "%s", why.message);
    if (status == QK_OK && !*sum) {
        *sum = part;
        part = NULL;
    }
    qk__part_moments_free(&part);
    return status;
}

/* Adds all parts of a layer. */
static qk_status add_layer(const adding *a, int layer, qk__layer_parts *sums, qk_error *err)
{
    const bool first = a->set != QK__ATTENTION && a->sink->settings.keep.first > 0;
    for (int i = 0; i < (first ? QK__LAYER_PARTS : QK__FIRST_PARTS); i++) {
        qk__part_shape shape = qk__part_shape_of(a->sink, a->set, layer, (qk_kind)(i % 2));
        shape.by_bucket = shape.by_bucket && i < QK__FIRST_PARTS;
        for (int64_t b = 0; shape.num_heads > 0 && b < a->sink->num_blocks; b++)
            QK_TRY(add_block(a, b, layer, i, &shape, &sums->part[i], err));
    }
    return QK_OK;
}

/* Writes a layer with the name of its capture, so that no other sums are taken for it. */
static qk_status write_layer(const adding *a, int layer, const qk__layer_parts *sums,
                             qk_error *err)
{
    char name[32];
    snprintf(name, sizeof name, "l%02d.safetensors", layer);
    char *path = qk__path_join(a->folder, name);
    json_t *metadata = json_pack("{s:s}", QK__LAYER_CAPTURE, a->sink->fingerprint);
    qk_status status = path && metadata
                           ? qk__layer_moments_write(path, sums, layer, metadata, err)
                           : qk__nomem(err);
    json_decref(metadata);
    free(path);
    return status;
}

static qk_status make_layer(void *context, size_t i, int worker, qk_error *err)
{
    adding *a = context;
    qk__layer_parts sums = {{NULL}};
    (void)worker;
    QK_TRY(qk__sink_ask(a->sink, "layers", atomic_fetch_add(&a->done, 1),
                        (size_t)a->sink->settings.num_layers, err));
    qk_status status = add_layer(a, (int)i, &sums, err);
    if (status == QK_OK && (sums.part[QK_QUERY] || sums.part[QK_KEY]))
        status = write_layer(a, (int)i, &sums, err);
    qk__layer_parts_free(&sums);
    return status;
}

qk_status qk__write_sums(const qk__all_blocks *all, qk_sink *sink, int set, const char *folder,
                         qk_error *err)
{
    const char *name = set == QK__ATTENTION ? QK__ATTENTION_FOLDER : QK__MOMENTS_FOLDER;
    QK_TRY(qk__make_below(folder, name, err));
    char *to = qk__path_join(folder, name);
    adding a = {.all = all, .sink = sink, .set = set, .folder = to};
    atomic_init(&a.done, 0);
    qk_status status = to ? qk__parallel_try((size_t)sink->settings.num_layers, sink->threads,
                                             make_layer, &a, err)
                          : qk__nomem(err);
    free(to);
    return status;
}
