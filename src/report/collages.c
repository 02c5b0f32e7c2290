/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the collages in the folder of figures, and those that the page has room for. */
#include "report/collages.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "report/thumbnail.h"

enum { MAX_FILE = 64 << 20 };

/* How small a picture is made, the best first. */
static const struct {
    size_t divisor;
    int colors;
} SIZES[] = {{2, 256}, {2, 48}, {2, 20}, {3, 32}, {3, 16}, {4, 16}};
enum {
    NUM_SIZES = sizeof SIZES / sizeof *SIZES,
    SAMPLE = 6,             /* pictures that tell how many bytes all would have */
    LEAST_BYTES = 15 << 10, /* of a picture: how many may fit */
};

const qk__collage_kind qk__collage_kinds[QK__NUM_COLLAGE_KINDS] = {
    {"pca-06-collage", "Queries and keys on two components",
     "Projections of queries (blue) and keys (red); faint is early, strong is late in the "
     "text. "
     "Above each panel: share of the variance and correlation with position of both "
     "components."},
    {"rotation-01-plane", "Queries and keys in the plane (a, b)",
     "Along a lies all linear drift with position; b is the direction off it that tells "
     "queries (blue) from keys (red). Faint is early, strong is late."},
    {"rotation-08-complement", "What is left outside the plane",
     "Pairs of directions of the complement of a and b; rings that turn with position are "
     "planes of the rotary position embedding."},
    {"pca-13-extreme-heads", "The most extreme heads on two components",
     "The heads of each model with the highest and the lowest correlation with position, bias "
     "and plasticity, and beside few of them heads with a median number. Queries are blue, "
     "keys "
     "red; faint is early, strong is late in the text."},
};

/* Length of the name without ".png"; 0: not of this kind. */
static size_t collage_length(const char *file, const char *start)
{
    size_t length = strlen(file);
    bool fits = strncmp(file, start, strlen(start)) == 0 && length > 4 &&
                strcmp(file + length - 4, ".png") == 0;
    return fits ? length - 4 : 0;
}

/* The model of "KIND-SLUG"; a collage of some other name is nobody's. */
static const qk__result_model *model_of(const qk__results *results, const char *name,
                                        const char *start)
{
    const char *rest = name + strlen(start);
    for (size_t m = 0; m < results->num_models; m++)
        if (*rest == '-' && strcmp(rest + 1, results->models[m].slug) == 0)
            return &results->models[m];
    return NULL;
}

/* Models in the order of the study, then the others. */
static int compare_collages(const void *a, const void *b)
{
    const qk__collage *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind - y->kind;
    if (!x->model != !y->model)
        return x->model ? -1 : 1;
    if (x->model != y->model)
        return x->model < y->model ? -1 : 1;
    return strcmp(x->name, y->name);
}

static qk_status list_collages(const qk__names *files, const qk__results *results,
                               qk__collages *collages, qk_error *err)
{
    collages->items = qk__calloc(files->count + 1, sizeof *collages->items);
    if (!collages->items)
        return qk__nomem(err);
    for (int kind = 0; kind < QK__NUM_COLLAGE_KINDS; kind++)
        for (size_t i = 0; i < files->count; i++) {
            const char *file = files->items[i];
            size_t length = collage_length(file, qk__collage_kinds[kind].start);
            if (length == 0)
                continue;
            char *name = qk__strdup(file);
            if (!name)
                return qk__nomem(err);
            name[length] = 0;
            collages->items[collages->count++] =
                (qk__collage){.name = name,
                              .kind = kind,
                              .model = model_of(results, name, qk__collage_kinds[kind].start)};
        }
    qsort(collages->items, collages->count, sizeof *collages->items, compare_collages);
    return QK_OK;
}

/* ---- pictures --------------------------------------------------------------------------- */

typedef struct making {
    const char *folder;
    qk__collage **order;
    size_t size; /* of SIZES */
} making;

static void make_picture(void *context, size_t i, int worker)
{
    (void)worker;
    making *all = context;
    qk__collage *collage = all->order[i];
    qk__buffer file = {0}, name = {0};
    qk_error err;
    qk__buffer_free(&collage->picture);
    if (qk__buffer_printf(&name, &err, "%s/%s.png", all->folder, collage->name) == QK_OK &&
        qk__read_file((const char *)name.data, MAX_FILE, &file, &err) == QK_OK)
        (void)qk__shrink_png(&file, SIZES[all->size].divisor, SIZES[all->size].colors,
                             &collage->picture, &collage->dark);
    qk__buffer_free(&file);
    qk__buffer_free(&name);
}

/* As base64. */
static size_t base64_bytes(const qk__collage *collage)
{
    return (collage->picture.size + 2) / 3 * 4;
}

/* Makes the first pictures of the order; returns their bytes. */
static size_t make_some(making *all, size_t count, int threads)
{
    size_t bytes = 0;
    qk__parallel_for(count, threads, make_picture, all);
    for (size_t i = 0; i < count; i++)
        bytes += base64_bytes(all->order[i]);
    return bytes;
}

/* The first of each kind, the second of each kind, and so on. */
static size_t take_turns(qk__collages *collages, qk__collage **order)
{
    size_t count = 0;
    for (size_t turn = 0; count < collages->count; turn++)
        for (int kind = 0; kind < QK__NUM_COLLAGE_KINDS; kind++) {
            size_t seen = 0;
            for (size_t i = 0; i < collages->count; i++)
                if (collages->items[i].kind == kind && seen++ == turn)
                    order[count++] = &collages->items[i];
        }
    return count;
}

/* Pictures of the first size at which all have room; those of the last that find none are left
 * out. */
static void make_pictures(making *all, qk__collages *collages, size_t room, int threads)
{
    size_t count = take_turns(collages, all->order), most = room / LEAST_BYTES;
    size_t sample = count < SAMPLE ? count : SAMPLE;
    for (all->size = 0; all->size + 1 < NUM_SIZES; all->size++)
        if (count <= most &&
            make_some(all, sample, threads) / (sample + !sample) * count <= room &&
            make_some(all, count, threads) <= room)
            break;
    if (all->size + 1 == NUM_SIZES)
        make_some(all, count < most ? count : most, threads);
    collages->divisor = SIZES[all->size].divisor;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = base64_bytes(all->order[i]);
        if (bytes > room)
            qk__buffer_free(&all->order[i]->picture);
        else
            room -= bytes;
    }
}

qk_status qk__collages_find(const char *folder, const qk__results *results, size_t room,
                            int threads, qk__collages *collages, qk_error *err)
{
    qk__names files = {0};
    *collages = (qk__collages){0};
    if (qk__list_dir(folder, &files, NULL) != QK_OK)
        return QK_OK;
    qk_status status = list_collages(&files, results, collages, err);
    qk__names_free(&files);
    making all = {folder, qk__calloc(collages->count + 1, sizeof(qk__collage *)), 0};
    if (status == QK_OK && !all.order)
        status = qk__nomem(err);
    if (status == QK_OK)
        make_pictures(&all, collages, room, threads);
    free(all.order);
    if (status != QK_OK)
        qk__collages_free(collages);
    return status;
}

void qk__collages_free(qk__collages *collages)
{
    for (size_t i = 0; i < collages->count; i++) {
        free(collages->items[i].name);
        qk__buffer_free(&collages->items[i].picture);
    }
    free(collages->items);
    *collages = (qk__collages){0};
}
