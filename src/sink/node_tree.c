/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of blocks to those of all of them, in a fixed binary tree over the numbers of blocks: node i
 * of level l joins nodes 2i and 2i + 1 of the level below, where there are both. So a sum does not
 * depend on who made which block, nor when. A node is a unit of its own, a file for each layer; two that
 * have become one are removed, so that there are never many. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/parallel.h"
#include "sink/all_rows.h"
#include "sink/sink.h"
#include "state/layer_file.h"

typedef struct node {
    int tree, level;
    int64_t index;
} node;

/* ---- which ------------------------------------------------------------------------------ */

/* A node whose right half has no blocks is its left half. */
static node settle_node(const qk_sink *sink, node n)
{
    while (n.level > 0 && (2 * n.index + 1) << (n.level - 1) >= sink->num_blocks) {
        n.level--;
        n.index *= 2;
    }
    return n;
}

static node root_of(const qk_sink *sink, int tree)
{
    node n = {.tree = tree};
    while (INT64_C(1) << n.level < sink->num_blocks)
        n.level++;
    return settle_node(sink, n);
}

/* The left (0) or right one. */
static node half(const qk_sink *sink, node n, int side)
{
    return settle_node(sink, (node){n.tree, n.level - 1, 2 * n.index + side});
}

static void name_node(node n, char name[QK__UNIT_NAME_SIZE])
{
    snprintf(name, QK__UNIT_NAME_SIZE, "%s-n%02d-%06lld", qk__stage_name(n.tree), n.level,
             (long long)n.index);
}

static bool is_there(const qk_sink *sink, node n)
{
    char name[QK__UNIT_NAME_SIZE];
    name_node(n, name);
    return qk__unit_is_sealed(&sink->units, name);
}

static void remove_node(const qk_sink *sink, node n)
{
    char name[QK__UNIT_NAME_SIZE];
    name_node(n, name);
    if (qk__unit_remove(&sink->units, name, NULL) != QK_OK) { /* it goes with the others */
    }
}

/* ---- layers of a node ------------------------------------------------------------------- */

enum { LAYER_NAME = 32 };
static void name_layer(int layer, char name[LAYER_NAME])
{
    snprintf(name, LAYER_NAME, "l%02d.safetensors", layer);
}

static char *layer_path(const char *folder, int layer)
{
    char name[LAYER_NAME];
    name_layer(layer, name);
    return qk__path_join(folder, name);
}

static bool has_layer(const qk_sink *sink, int tree, int layer)
{
    return qk__part_shape_of(sink, tree, layer, QK_QUERY).num_heads +
               qk__part_shape_of(sink, tree, layer, QK_KEY).num_heads >
           0;
}

/* The sums of a layer of a node that is there. */
static qk_status read_layer(const qk_sink *sink, node n, int layer, qk__layer_parts *sums,
                            qk_error *err)
{
    char unit[QK__UNIT_NAME_SIZE], file[LAYER_NAME];
    name_node(n, unit);
    name_layer(layer, file);
    char *path = qk__units_path(&sink->units, unit, file);
    qk_status status = path ? QK_OK : qk__nomem(err);
    if (path)
        status = qk__context(err, qk__unit_check(&sink->units, unit, file, err), "%s/%s",
                             sink->units.path, unit);
    if (status == QK_OK)
        status = qk__layer_moments_read(path, sums, err);
    free(path);
    return status;
}

/* One job a layer, of a node that is being made. */
typedef struct making {
    const qk_sink *sink;
    qk_sink *ask;                /* NULL: nobody waits for it */
    const qk__text_block *block; /* a leaf is made of; NULL: its halves are joined */
    node made;
    const char *folder;
    atomic_size_t done; /* layers */
} making;

/* With the capture that the sums are of, so that no other one's are taken for them. */
static qk_status write_sums(const qk_sink *sink, const qk__layer_parts *sums, int layer,
                            const char *path, qk_error *err)
{
    json_t *metadata = json_pack("{s:s}", QK__LAYER_CAPTURE, sink->fingerprint);
    qk_status status =
        metadata ? qk__layer_moments_write(path, sums, layer, metadata, err) : qk__nomem(err);
    json_decref(metadata);
    return status;
}

static qk_status write_leaf(const making *m, int layer, const char *path, qk_error *err)
{
    qk__layer_parts sums;
    for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
        const qk__queue *queue =
            qk__queue_of(m->sink, m->block, m->made.tree, layer, (qk_kind)kind);
        sums.part[kind] = queue->sums;
        sums.part[QK__FIRST_PARTS + kind] = queue->first;
    }
    return write_sums(m->sink, &sums, layer, path, err);
}

static qk_status merge_parts(qk__part_moments *a, qk__part_moments *b, const char *path,
                             qk_error *err)
{
    if (!a != !b)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: of other heads", path);
    return a ? qk__part_moments_merge(a, b, err) : QK_OK;
}

/* The sums of a layer of a node: its own, or joined from its halves, for which nothing is written. */
static qk_status find_layer(const qk_sink *sink, node n, int layer, const char *path,
                            qk__layer_parts *sums, qk_error *err)
{
    if (n.level == 0 || is_there(sink, n))
        return read_layer(sink, n, layer, sums, err);
    qk__layer_parts right = {{NULL}};
    QK_TRY(find_layer(sink, half(sink, n, 0), layer, path, sums, err));
    qk_status status = find_layer(sink, half(sink, n, 1), layer, path, &right, err);
    for (int i = 0; status == QK_OK && i < QK__LAYER_PARTS; i++)
        status = merge_parts(sums->part[i], right.part[i], path, err);
    qk__layer_parts_free(&right);
    if (status != QK_OK)
        qk__layer_parts_free(sums);
    return status;
}

static qk_status join_layer(const making *m, int layer, const char *path, qk_error *err)
{
    qk__layer_parts sums = {{NULL}};
    QK_TRY(find_layer(m->sink, m->made, layer, path, &sums, err));
    qk_status status = write_sums(m->sink, &sums, layer, path, err);
    qk__layer_parts_free(&sums);
    return status;
}

/* Blocks whose sums are lost have to be made again, and nobody knows which. */
static qk_status tell_remedy(const qk_sink *sink, qk_status status, qk_error *err)
{
    if (status != QK_ERR_MALFORMED || !err)
        return status;
    qk_error why = *err;
    return qk__fail(err, status, "%s: remove %s and run the command again", why.message,
                    sink->partial);
}

static qk_status make_layer(void *context, size_t i, int worker, qk_error *err)
{
    making *m = context;
    (void)worker;
    if (m->ask)
        QK_TRY(qk__sink_ask(m->ask, "layers", atomic_fetch_add(&m->done, 1),
                            (size_t)m->sink->settings.num_layers, err));
    if (!has_layer(m->sink, m->made.tree, (int)i))
        return QK_OK;
    char *path = layer_path(m->folder, (int)i);
    qk_status status = !path      ? qk__nomem(err)
                       : m->block ? write_leaf(m, (int)i, path, err)
                                  : join_layer(m, (int)i, path, err);
    free(path);
    return tell_remedy(m->sink, status, err);
}

static qk_status make_layers(void *context, const char *folder, qk_error *err)
{
    making *m = context;
    m->folder = folder;
    return qk__parallel_try((size_t)m->sink->settings.num_layers, m->sink->threads, make_layer,
                            m, err);
}

static qk_status make_node(making *m, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    name_node(m->made, name);
    return qk__unit_put(&m->sink->units, name, make_layers, m, err);
}

/* ---- joining ---------------------------------------------------------------------------- */

/* Whether a node is there, or has become a part of one that is. */
static bool is_within(const qk_sink *sink, node n)
{
    int top = root_of(sink, n.tree).level;
    bool yes = false;
    for (; !yes && n.level <= top; n = (node){n.tree, n.level + 1, n.index / 2})
        yes = is_there(sink, settle_node(sink, n));
    return yes;
}

/* Makes a node of its halves if both are there. */
static qk_status try_join(const qk_sink *sink, node parent, bool *there, qk_error *err)
{
    node left = half(sink, parent, 0), right = half(sink, parent, 1);
    making m = {.sink = sink, .made = parent};
    *there = is_there(sink, parent);
    if (!*there && is_there(sink, left) && is_there(sink, right)) {
        qk_status status = make_node(&m, err);
        if (status != QK_OK && !is_within(sink, parent)) /* else another one was faster */
            return status;
        *there = true;
    }
    if (*there) {
        remove_node(sink, left);
        remove_node(sink, right);
    }
    return QK_OK;
}

static qk_status climb(const qk_sink *sink, node n, qk_error *err)
{
    node root = root_of(sink, n.tree);
    bool there = true;
    while (there && n.level < root.level) {
        n = (node){n.tree, n.level + 1, n.index / 2};
        node settled = settle_node(sink, n);
        if (settled.level == n.level)
            QK_TRY(try_join(sink, n, &there, err));
    }
    return QK_OK;
}

qk_status qk__tree_add(qk_sink *sink, const qk__text_block *block, qk_error *err)
{
    for (int tree = 0; tree < QK__TREES; tree++) {
        making m = {.sink = sink, .block = block, .made = {tree, 0, block->number}};
        if (!qk__keeps_tree(sink, tree))
            continue;
        QK_TRY(make_node(&m, err));
        QK_TRY(climb(sink, m.made, err));
    }
    return QK_OK;
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Whether sums are of the heads, and of as many rows, as the blocks say; who measures attention may have
 * looked at any rows. */
static qk_status check_part(const qk_sink *sink, int tree, const qk__all_rows *rows, int layer,
                            qk_kind kind, const qk__layer_parts *parts, qk_error *err)
{
    const qk__part_moments *sums = parts->part[kind];
    const qk__part_shape wanted = qk__part_shape_of(sink, tree, layer, kind);
    const qk__part_shape *shape = sums ? qk__part_moments_shape(sums) : NULL;
    const int64_t came = sums ? qk__part_moments_count(sums) : 0;
    int64_t kept = wanted.num_heads > 0 ? qk__all_rows_kept(rows, qk__part_of(layer, kind)) : 0;
    if (tree == QK__ATTENTION)
        kept = came;
    bool same = shape ? shape->dim == wanted.dim && shape->means == wanted.means &&
                            shape->pairs == wanted.pairs &&
                            shape->num_heads == wanted.num_heads &&
                            memcmp(shape->heads, wanted.heads,
                                   wanted.num_heads * sizeof *wanted.heads) == 0 &&
                            came == kept
                      : wanted.num_heads == 0;
    same = same && (parts->part[QK__FIRST_PARTS + kind] != NULL) ==
                       (sums && tree != QK__ATTENTION && sink->settings.keep.first > 0);
    return same ? QK_OK
                : qk__fail(err, QK_ERR_MALFORMED,
                           "sums of the unfinished run are damaged, or of another one: layer "
                           "%d, %s: %lld rows, of %lld: remove %s and run the command again",
                           layer, kind == QK_QUERY ? "queries" : "keys", (long long)came,
                           (long long)kept, sink->partial);
}

/* The same file in another place; a copy where a file cannot have two names. What lies there is of a
 * run that was stopped, and not looked at. */
static qk_status give_layer(const qk_sink *sink, const qk__all_rows *rows, node root,
                            const char *to, int layer, qk_error *err)
{
    qk__layer_parts sums = {{NULL}};
    char unit[QK__UNIT_NAME_SIZE], file[LAYER_NAME];
    name_node(root, unit);
    name_layer(layer, file);
    char *from = qk__units_path(&sink->units, unit, file), *target = layer_path(to, layer);
    qk_status status = from && target ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status = tell_remedy(sink, read_layer(sink, root, layer, &sums, err), err);
    for (int kind = QK_QUERY; status == QK_OK && kind <= QK_KEY; kind++)
        status = check_part(sink, root.tree, rows, layer, (qk_kind)kind, &sums, err);
    if (status == QK_OK) {
        unlink(target);
        if (link(from, target) != 0)
            status = write_sums(sink, &sums, layer, target, err);
    }
    qk__layer_parts_free(&sums);
    free(from);
    free(target);
    return status;
}

static qk_status give_layers(const qk_sink *sink, const qk__all_rows *rows, node root,
                             const char *to, qk_error *err)
{
    if (!is_there(sink, root))
        return qk__fail(
            err, QK_ERR_NOT_FOUND,
            "%s: sums of its blocks are missing: remove %s and run the command again",
            sink->units.path, sink->partial);
    for (int layer = 0; layer < sink->settings.num_layers; layer++)
        if (has_layer(sink, root.tree, layer))
            QK_TRY(give_layer(sink, rows, root, to, layer, err));
    return QK_OK;
}

qk_status qk__tree_finish(qk_sink *sink, int tree, const qk__all_rows *rows, const char *folder,
                          qk_error *err)
{
    const node root = root_of(sink, tree);
    making m = {.sink = sink, .ask = sink, .made = root};
    if (root.level > 0 && !is_there(sink, root))
        QK_TRY(make_node(&m, err));
    for (int level = 0; level < root.level; level++)
        for (int64_t i = 0; i << level < sink->num_blocks; i++)
            remove_node(sink, (node){tree, level, i});
    const char *name = tree == QK__ATTENTION ? QK__ATTENTION_FOLDER : QK__MOMENTS_FOLDER;
    QK_TRY(qk__make_below(folder, name, err));
    char *to = qk__path_join(folder, name);
    qk_status status = to ? give_layers(sink, rows, root, to, err) : qk__nomem(err);
    free(to);
    return status;
}
