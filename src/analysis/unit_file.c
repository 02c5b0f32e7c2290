/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a unit as a file, every number bit for bit:
 *
 *     "qkscope unit\n\0\0\0"  16 bytes
 *     version                 4 bytes; a machine with the other order of bytes finds a later one
 *     what `walk_unit` walks
 *
 * One function walks a struct for both writing and reading, so the two cannot part. The unit's seal tells
 * a file that is not whole, or of another unit; sizes are checked all the same. */
#include <stdlib.h>
#include <string.h>

#include "analysis/sharing.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"

#define MAGIC "qkscope unit\n\0\0"
enum {
    VERSION = 2,
    HEADER = 20,
    DIGITS = QK__FINGERPRINT_SIZE - 1,
    MAX_FILE = 1 << 30,
    MAX_MESSAGE = sizeof(((qk_error *)NULL)->message)
};

/* Members that this file does not know would be lost without a word. */
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(qk_head_results) == 176, "a new member: walk it");
_Static_assert(sizeof(qk_pca) == 152, "a new member: walk it");
_Static_assert(sizeof(qk_rotation) == 232, "a new member: walk it");
_Static_assert(sizeof(qk_plasticity) == 384, "a new member: walk it");
_Static_assert(sizeof(qk_head_intervals) == 240, "a new member: walk it");
_Static_assert(sizeof(qk_file_print) == 48, "a new member: walk it");
#endif
/* Items of arrays go as they lie: they must have no gaps. */
_Static_assert(sizeof(qk_component) == 88 && sizeof(qk_plane) == 48 &&
                   sizeof(qk_ap_profile) == 40 && sizeof(qk_ap_cell) == 32 &&
                   sizeof(qk_ap_distance) == 32,
               "a gap");

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

#define ONE(w, member) walk_bytes((w), &(member), sizeof(member))
/* Members without gaps from the first to the last. */
#define SPAN(w, p, first, last)                                                                \
    walk_bytes((w), (char *)(p) + offsetof(__typeof__(*(p)), first),                           \
               offsetof(__typeof__(*(p)), last) + sizeof(p)->last -                            \
                   offsetof(__typeof__(*(p)), first))

/* Whether there is something. */
static bool walk_flag(walk *w, bool is)
{
    uint8_t flag = is;
    ONE(w, flag);
    if (flag > 1)
        fail(w, "a flag is neither 0 nor 1");
    return w->status == QK_OK && flag == 1;
}

/* Room for `count` items, none where the file has fewer; NULL ends the walk. */
static void *make(walk *w, size_t count, size_t size)
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

static void walk_array(walk *w, void **items, size_t rows, size_t columns, size_t size)
{
    if (columns > 0 && rows > (size_t)MAX_FILE / columns) {
        fail(w, "an array is too large");
        return;
    }
    size_t count = rows * columns;
    if (w->status != QK_OK || count == 0)
        return;
    if (!w->out)
        *items = make(w, count, size);
    if (*items)
        walk_bytes(w, *items, count * size);
}

#define ARRAY(w, items, rows, columns)                                                         \
    walk_array((w), (void **)&(items), (rows), (columns), sizeof *(items))
/* One that may be absent. */
#define OPTIONAL_ARRAY(w, items, rows)                                                         \
    do {                                                                                       \
        if (walk_flag((w), (items) != NULL))                                                   \
            ARRAY((w), (items), (rows), 1);                                                    \
    } while (0)

static void walk_text(walk *w, char **text)
{
    if (!walk_flag(w, *text != NULL))
        return;
    uint64_t size = w->out ? strlen(*text) + 1 : 0;
    ONE(w, size);
    if (size == 0 || size > MAX_MESSAGE)
        fail(w, "a message is too long");
    ARRAY(w, *text, size, 1);
    if (*text && w->status == QK_OK && memchr(*text, 0, size) != *text + size - 1)
        fail(w, "a message does not end");
}

/* ---- the analyses ----------------------------------------------------------------------- */

static void walk_pca(walk *w, qk_pca *p)
{
    int32_t category = (int32_t)p->category;
    SPAN(w, p, dim, num_components);
    ONE(w, category);
    SPAN(w, p, pos_var_q, alpha_beta);
    if (category < 0 || category >= QK_NUM_CATEGORIES)
        fail(w, "there is no such category");
    p->category = (qk_category)category;
    ARRAY(w, p->components, p->num_components, 1);
    ARRAY(w, p->axes, p->num_components, p->dim);
    ARRAY(w, p->mean, p->dim, 1);
}

static void walk_rotation(walk *w, qk_rotation *r)
{
    SPAN(w, r, dim, n_k);
    r->degenerate = walk_flag(w, r->degenerate);
    SPAN(w, r, position_r, num_planes);
    ARRAY(w, r->planes, r->num_planes, 1);
    OPTIONAL_ARRAY(w, r->a, r->dim);
    OPTIONAL_ARRAY(w, r->b, r->dim);
    if (walk_flag(w, r->axes != NULL))
        ARRAY(w, r->axes, r->num_planes, 2 * r->dim);
    OPTIONAL_ARRAY(w, r->mean_q, r->dim);
    OPTIONAL_ARRAY(w, r->mean_k, r->dim);
}

static void walk_plasticity(walk *w, qk_plasticity *p)
{
    SPAN(w, p, dim, noise_frac_ks_p_lt_alpha);
    SPAN(w, p, ap_overall, num_distances);
    SPAN(w, p, pairs_evaluated, ap_overall_se);
    ARRAY(w, p->component_r2, p->dim, 1);
    ARRAY(w, p->component_weight, p->dim, 1);
    ARRAY(w, p->profile, p->num_profile, 1);
    ARRAY(w, p->cells, p->num_cells, 1);
    ARRAY(w, p->distances, p->num_distances, 1);
}

/* A struct that is there or not, and what it holds. */
#define STRUCT(w, p, walk_it)                                                                  \
    do {                                                                                       \
        if (walk_flag((w), (p) != NULL)) {                                                     \
            if (!(w)->out)                                                                     \
                (p) = make((w), 1, sizeof *(p));                                               \
            if (p)                                                                             \
                walk_it((w), (p));                                                             \
        }                                                                                      \
    } while (0)

static void walk_intervals(walk *w, qk_head_intervals *i)
{
    ONE(w, *i);
}

/* ---- heads and inputs ------------------------------------------------------------------- */

static void walk_head(walk *w, qk_head_results *h)
{
    qk_head_id id = h->id;
    int32_t status = (int32_t)h->status;
    int32_t known[] = {id.layer, id.head, (int32_t)id.kind, h->k_head};
    const int32_t expected[] = {id.layer, id.head, (int32_t)id.kind, h->k_head};
    uint64_t texts[] = {h->texts_q, h->texts_k};
    ONE(w, known);
    if (memcmp(known, expected, sizeof known) != 0)
        fail(w, "it is of other heads");
    SPAN(w, h, rows_q, rows_k);
    ONE(w, texts);
    h->texts_q = (size_t)texts[0];
    h->texts_k = (size_t)texts[1];
    ONE(w, status);
    if (status < 0 || status > QK_ERR_CANCELLED)
        fail(w, "there is no such status");
    h->status = (qk_status)status;
    walk_text(w, &h->message);
    if ((h->status == QK_OK) != (h->message == NULL))
        fail(w, "a failure has no message");
    ONE(w, h->certainty.groups);
    ONE(w, h->certainty.near_tie);
    SPAN(w, &h->certainty, category_probability, r_q_hi);
    STRUCT(w, h->pca, walk_pca);
    STRUCT(w, h->rotation, walk_rotation);
    STRUCT(w, h->plasticity, walk_plasticity);
    STRUCT(w, h->intervals, walk_intervals);
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
    ONE(w, print->bytes);
    walk_bytes(w, print->hash, sizeof print->hash);
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
    ONE(i->w, files);
    if (files != head->num_files)
        fail(i->w, "it is of other files");
    for (size_t f = 0; f < head->num_files && i->w->status == QK_OK; f++)
        walk_input(i->w, &inputs[f],
                   (qk__input){.path = head->files[f], .head = head, .file = f});
    size_t states = i->run->states.count;
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
    SPAN(w, &unit->counts, bytes, constant);
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
    char *path = qk__path_join(folder, NAME);
    qk_status status =
        path ? qk__buffer_append(&out, MAGIC, sizeof MAGIC, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__buffer_append(&out, &version, sizeof version, err);
    if (status == QK_OK) /* which changes nothing while it writes */
        status = walk_unit(&w, run, &copy);
    if (status == QK_OK)
        status = qk__write_file(path, out.data, out.size, err);
    qk__buffer_free(&out);
    free(path);
    return status;
}

static qk_status check(const qk__buffer *file, qk_error *err)
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
        status = check(&file, err);
    if (status == QK_OK)
        status = read_unit(run, unit, &file, err);
    if (status == QK_ERR_MALFORMED || status == QK_ERR_UNSUPPORTED)
        qk__context(err, status, "%s: remove its folder and run the same command again", path);
    qk__buffer_free(&file);
    free(path);
    return status;
}
