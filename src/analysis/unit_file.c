/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a unit as a file, every number bit for bit:
 *
 *     "qkscope unit\n\0\0\0"  16 bytes
 *     version                 4 bytes; a machine with the other order of bytes finds a later one
 *     what `walk_unit` walks
 *
 * Structs of results go as they lie in memory, then the arrays that they point to, as the rows below have
 * them. So a new number in a struct needs no change here: sizes and places of members are part of
 * the run's name (qk__unit_layout), and units of a program with other structs are of another run.
 *
 * One function walks a struct for both writing and reading, so the two cannot part. The unit's seal tells
 * a file that is not whole, or of another unit; sizes are checked all the same. */
#include <stdlib.h>
#include <string.h>

#include "analysis/sharing.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "schema/schema.h"

#define MAGIC "qkscope unit\n\0\0"
enum {
    VERSION = 3,
    HEADER = 20,
    DIGITS = QK__FINGERPRINT_SIZE - 1,
    MAX_FILE = 1 << 30,
    MAX_MESSAGE = sizeof(((qk_error *)NULL)->message)
};

/* ---- structs and their arrays ----------------------------------------------------------- */

/* A pointer of a struct to items, which follow the struct. */
typedef struct array {
    size_t at;                 /* place of the pointer in the struct */
    size_t size;               /* of an item; 0: nothing of it follows */
    size_t rows, columns;      /* places of the numbers (size_t) of items; ONE: it is 1 */
    bool optional;             /* NULL may stand for the items */
    const struct layout *deep; /* of an item that has pointers itself */
} array;

typedef struct layout {
    size_t size;
    bool (*is_sound)(const void *data); /* NULL: any numbers are */
    size_t num_arrays;
    const array *arrays;
} layout;

enum { ONE = UINT16_MAX, ADDRESS = sizeof(void *) };
#define AT(owner, member)             offsetof(owner, member), sizeof *((owner *)NULL)->member
#define LIST(owner, member, rows)     AT(owner, member), offsetof(owner, rows), ONE, false, NULL
#define MAYBE(owner, member, rows)    AT(owner, member), offsetof(owner, rows), ONE, true, NULL
#define STRUCT(owner, member, layout) AT(owner, member), ONE, ONE, true, layout
#define LEFT_OUT(owner, member)       offsetof(owner, member), 0, ONE, ONE, true, NULL
#define LAYOUT(type, is_sound, arrays)                                                         \
    sizeof(type), is_sound, sizeof(arrays) / sizeof *(arrays), arrays

/* A byte that is no truth value must not be read as one. */
static bool is_truth(const void *data, size_t at)
{
    return ((const uint8_t *)data)[at] <= 1;
}

static bool is_pca(const void *data)
{
    return (unsigned)((const qk_pca *)data)->category < QK_NUM_CATEGORIES;
}

static bool is_rotation(const void *data)
{
    return is_truth(data, offsetof(qk_rotation, degenerate));
}

static bool is_attention(const void *data)
{
    const qk_attention *attention = data;
    return memchr(attention->names, 0, sizeof attention->names) != NULL;
}

static bool is_head(const void *data)
{
    return is_truth(data, offsetof(qk_head_results, key_missing)) &&
           (unsigned)((const qk_head_results *)data)->status <= QK_ERR_CANCELLED &&
           ((const qk_head_results *)data)->first_tokens.category < QK_NUM_CATEGORIES;
}

static const array PCA_ARRAYS[] = {
    {LIST(qk_pca, components, num_components)},
    {AT(qk_pca, axes), offsetof(qk_pca, num_components), offsetof(qk_pca, dim), false, NULL},
    {LIST(qk_pca, mean, dim)},
};
static const array ROTATION_ARRAYS[] = {
    {LIST(qk_rotation, planes, num_planes)},
    {MAYBE(qk_rotation, a, dim)},
    {MAYBE(qk_rotation, b, dim)},
    /* two a plane */
    {offsetof(qk_rotation, axes), 2 * sizeof(double), offsetof(qk_rotation, num_planes),
     offsetof(qk_rotation, dim), true, NULL},
    {MAYBE(qk_rotation, mean_q, dim)},
    {MAYBE(qk_rotation, mean_k, dim)},
};
static const array PLASTICITY_ARRAYS[] = {
    {LIST(qk_plasticity, component_r2, dim)},
    {LIST(qk_plasticity, component_weight, dim)},
    {LIST(qk_plasticity, profile, num_profile)},
    {LIST(qk_plasticity, cells, num_cells)},
    {LIST(qk_plasticity, distances, num_distances)},
};
static const array LENGTHS_ARRAYS[] = {
    {LIST(qk_head_lengths, items, count)},
};
static const array ATTENTION_ARRAYS[] = {
    {LIST(qk_attention, profile, num_profile)},
};
static const layout PCA = {LAYOUT(qk_pca, is_pca, PCA_ARRAYS)};
static const layout ROTATION = {LAYOUT(qk_rotation, is_rotation, ROTATION_ARRAYS)};
static const layout PLASTICITY = {LAYOUT(qk_plasticity, NULL, PLASTICITY_ARRAYS)};
static const layout LENGTHS = {LAYOUT(qk_head_lengths, NULL, LENGTHS_ARRAYS)};
static const layout ATTENTION = {LAYOUT(qk_attention, is_attention, ATTENTION_ARRAYS)};
static const array HEAD_ARRAYS[] = {
    {STRUCT(qk_head_results, pca, &PCA)},
    {STRUCT(qk_head_results, at_lengths, &LENGTHS)},
    {STRUCT(qk_head_results, rotation, &ROTATION)},
    {STRUCT(qk_head_results, plasticity, &PLASTICITY)},
    {STRUCT(qk_head_results, attention, &ATTENTION)},
    {STRUCT(qk_head_results, intervals, NULL)},
    {LEFT_OUT(qk_head_results, message)}, /* `walk_text` has it */
    {LEFT_OUT(qk_head_results, stages)},  /* of other runs */
};
static const layout HEAD = {LAYOUT(qk_head_results, is_head, HEAD_ARRAYS)};

static qk_status add_layout(qk__buffer *text, const layout *l, qk_error *err)
{
    QK_TRY(qk__buffer_printf(text, err, " %zu", l->size));
    for (const array *a = l->arrays; a < l->arrays + l->num_arrays; a++) {
        QK_TRY(qk__buffer_printf(text, err, " %zu %zu", a->at, a->size));
        if (a->deep)
            QK_TRY(add_layout(text, a->deep, err));
    }
    return QK_OK;
}

qk_status qk__unit_layout(qk__buffer *text, qk_error *err)
{
    QK_TRY(qk__buffer_printf(text, err, "results %d %zu %zu", VERSION, sizeof(qk__unit_counts),
                             sizeof(qk_file_print)));
    QK_TRY(add_layout(text, &HEAD, err));
    for (const qk__table *t = qk__tables; t < qk__tables + qk__num_tables; t++)
        for (size_t i = 0; i < t->num_columns; i++)
            QK_TRY(qk__buffer_printf(text, err, " %s %d %zu", t->columns[i].info.name,
                                     (int)t->columns[i].storage, t->columns[i].offset));
    return qk__buffer_printf(text, err, "\n");
}

/* ---- walking ---------------------------------------------------------------------------- */

typedef struct walk {
    qk__buffer *out; /* NULL: reading */
    const uint8_t *at, *end;
    qk_status status; /* the first failure; nothing is done after it */
    qk_error *err;
} walk;

static void fail(walk *w, const char *what)
{
    if (w->status == QK_OK)
        w->status = qk__fail(w->err, QK_ERR_MALFORMED, "%s", what);
}

static void walk_bytes(walk *w, void *data, size_t size)
{
    if (w->status != QK_OK || size == 0)
        return;
    if (w->out) {
        w->status = qk__buffer_append(w->out, data, size, w->err);
    } else if (size > (size_t)(w->end - w->at)) {
        fail(w, "it ends too early");
    } else {
        memcpy(data, w->at, size);
        w->at += size;
    }
}

/* Whether there is something. */
static bool walk_flag(walk *w, bool is)
{
    uint8_t flag = is;
    walk_bytes(w, &flag, sizeof flag);
    if (flag > 1)
        fail(w, "a flag is neither 0 nor 1");
    return w->status == QK_OK && flag == 1;
}

/* Room for `count` items, none where the file has fewer; NULL ends the walk. */
static void *make_room_for(walk *w, size_t count, size_t size)
{
    if (w->status != QK_OK)
        return NULL;
    if (count > (size_t)(w->end - w->at) / size) {
        fail(w, "it ends too early");
        return NULL;
    }
    void *items = qk__calloc(count, size);
    if (!items)
        w->status = qk__nomem(w->err);
    return items;
}

static size_t number_at(const void *data, size_t at)
{
    size_t number = 1;
    if (at != ONE)
        memcpy(&number, (const char *)data + at, sizeof number);
    return number;
}

static void walk_struct(walk *w, void *data, const layout *l);

static void walk_array(walk *w, void *data, const array *a)
{
    size_t rows = number_at(data, a->rows), columns = number_at(data, a->columns);
    char *pointer = (char *)data + a->at;
    void *items;
    memcpy(&items, pointer, sizeof items);
    if (a->optional && !walk_flag(w, items != NULL))
        return;
    if (columns > 0 && rows > (size_t)MAX_FILE / columns)
        fail(w, "an array is too large");
    if (w->status != QK_OK || rows * columns == 0)
        return;
    if (!w->out) {
        items = make_room_for(w, rows * columns, a->size);
        memcpy(pointer, &items, sizeof items);
    }
    if (items && a->deep)
        walk_struct(w, items, a->deep);
    else if (items)
        walk_bytes(w, items, rows * columns * a->size);
}

/* Addresses are of one process: in the file, and in what was read of it, they are NULL. */
static void walk_struct(walk *w, void *data, const layout *l)
{
    walk_bytes(w, data, l->size);
    if (w->status != QK_OK)
        return;
    char *copy = w->out ? (char *)w->out->data + w->out->size - l->size : data;
    for (size_t i = 0; i < l->num_arrays; i++)
        memset(copy + l->arrays[i].at, 0, ADDRESS);
    if (l->is_sound && !l->is_sound(data))
        fail(w, "there is no such category, status or truth value");
    for (size_t i = 0; i < l->num_arrays; i++)
        if (l->arrays[i].size > 0)
            walk_array(w, data, &l->arrays[i]);
}

static void walk_text(walk *w, char **text)
{
    if (!walk_flag(w, *text != NULL))
        return;
    uint64_t size = w->out && *text ? strlen(*text) + 1 : 0;
    walk_bytes(w, &size, sizeof size);
    if (size == 0 || size > MAX_MESSAGE)
        fail(w, "a message is too long");
    if (!w->out)
        *text = make_room_for(w, size, 1);
    if (*text)
        walk_bytes(w, *text, size);
    if (*text && w->status == QK_OK && memchr(*text, 0, size) != *text + size - 1)
        fail(w, "a message does not end");
}

/* ---- heads and inputs ------------------------------------------------------------------- */

/* Whose results they are is known here, and has to be what the file says. */
static void walk_head(walk *w, qk_head_results *h)
{
    const qk_head_results known = *h;
    walk_struct(w, h, &HEAD);
    if (memcmp(&h->id, &known.id, sizeof h->id) != 0 || h->k_head != known.k_head) {
        h->id = known.id;
        h->k_head = known.k_head;
        fail(w, "it is of other heads");
    }
    walk_text(w, &h->message);
    if ((h->status == QK_OK) != (h->message == NULL))
        fail(w, "a failure has no message");
}

/* The files of a head that was read, as the manifest lists them. */
typedef struct input_walk {
    walk *w;
    qk__run *run;
} input_walk;

/* What a unit did not read it does not list. */
static void walk_input(walk *w, qk__input *input, qk__input is)
{
    qk_file_print *print = &input->print;
    if (!walk_flag(w, input->path != NULL))
        return;
    walk_bytes(w, print, sizeof *print);
    size_t length = strnlen(print->hash, sizeof print->hash);
    if (w->status == QK_OK && length != DIGITS && length != 0)
        fail(w, "a fingerprint is none");
    is.print = *print;
    *input = is;
}

static qk_status walk_inputs(void *user, const qk_head *head, qk_error *err)
{
    (void)err;
    const input_walk *i = user;
    qk__input *inputs = &i->run->inputs[i->run->first_input[head->index]];
    uint64_t files = head->num_files;
    walk_bytes(i->w, &files, sizeof files);
    if (files != head->num_files)
        fail(i->w, "it is of other files");
    for (size_t f = 0; f < head->num_files && i->w->status == QK_OK; f++)
        walk_input(i->w, &inputs[f],
                   (qk__input){.path = head->files[f], .head = head, .file = f});
    size_t states = i->run->states.files;
    for (size_t l = 0; l < states; l++) {
        const qk__state_layer *layer = &i->run->states.layers[l];
        if (layer->layer == head->id.layer)
            walk_input(i->w, &i->run->inputs[i->run->num_inputs - states + l],
                       (qk__input){.path = layer->path});
    }
    return i->w->status;
}

static qk_status walk_unit(walk *w, qk__run *run, qk__unit *unit)
{
    walk_bytes(w, &unit->counts, sizeof unit->counts);
    for (size_t i = 0; i < unit->count; i++)
        walk_head(w, &run->results->heads[unit->first + i]);
    input_walk inputs = {w, run};
    if (w->status == QK_OK)
        w->status = qk__unit_heads(run, unit, walk_inputs, &inputs, w->err);
    return w->status;
}

/* ---- files ------------------------------------------------------------------------------ */

static const char NAME[] = "results";

qk_status qk__unit_write(qk__run *run, const qk__unit *unit, const char *folder, qk_error *err)
{
    const uint32_t version = VERSION;
    qk__buffer out = {0};
    walk w = {.out = &out, .err = err};
    qk__unit copy = *unit;
    qk_status status = qk__buffer_append(&out, MAGIC, sizeof MAGIC, err);
    if (status == QK_OK)
        status = qk__buffer_append(&out, &version, sizeof version, err);
    if (status == QK_OK) /* which changes nothing while it writes */
        status = walk_unit(&w, run, &copy);
    if (status == QK_OK)
        status = qk__write_file_in(folder, NAME, out.data, out.size, err);
    qk__buffer_free(&out);
    return status;
}

static qk_status check_file_header(const qk__buffer *file, qk_error *err)
{
    uint32_t version;
    if (file->size < HEADER || memcmp(file->data, MAGIC, sizeof MAGIC) != 0)
        return qk__fail(err, QK_ERR_MALFORMED, "no unit of qkscope");
    memcpy(&version, file->data + sizeof MAGIC, sizeof version);
    return version == VERSION ? QK_OK
                              : qk__fail(err, QK_ERR_UNSUPPORTED,
                                         "version %u: written by a later qkscope", version);
}

static qk_status read_unit(qk__run *run, qk__unit *unit, const qk__buffer *file, qk_error *err)
{
    walk w = {.at = file->data + HEADER, .end = file->data + file->size, .err = err};
    QK_TRY(walk_unit(&w, run, unit));
    return w.at == w.end ? QK_OK
                         : qk__fail(err, QK_ERR_MALFORMED, "something follows the results");
}

qk_status qk__unit_read(qk__run *run, qk__unit *unit, qk_error *err)
{
    qk__buffer file = {0};
    char *path = qk__units_path(&run->units_at, unit->name, NAME);
    qk_status status =
        path ? qk__unit_check(&run->units_at, unit->name, NAME, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__read_file(path, MAX_FILE, &file, err);
    if (status == QK_OK)
        status = check_file_header(&file, err);
    if (status == QK_OK)
        status = read_unit(run, unit, &file, err);
    if (status == QK_ERR_MALFORMED || status == QK_ERR_UNSUPPORTED)
        qk__context(err, status, "%s: remove its folder and run the same command again", path);
    qk__buffer_free(&file);
    free(path);
    return status;
}
