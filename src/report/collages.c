/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the collages in the folder of figures, and chooses as many as the page has room for. */
#include "report/collages.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "report/picture.h"

enum { MAX_FILE = 16 << 20 };

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

/* Length of the name without ".svg"; 0: not of this kind. */
static size_t collage_length(const char *file, const char *start)
{
    size_t length = strlen(file);
    bool fits = strncmp(file, start, strlen(start)) == 0 && length > 4 &&
                strcmp(file + length - 4, ".svg") == 0;
    return fits ? length - 4 : 0;
}

/* The model of "KIND-SLUG"; NULL for a collage with another name. */
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

/* About as many bytes as the picture takes in the page. */
static size_t bytes_of(const qk__buffer *picture)
{
    return picture->size / 20 * 21;
}

/* A figure of the dark theme begins with its dark background. */
static bool is_dark(const qk__buffer *svg)
{
    enum { HEAD = 1000 };
    const char *ground = qk__theme_of(QK_THEME_DARK)->background;
    const size_t length = strlen(ground), most = svg->size < HEAD ? svg->size : HEAD;
    for (size_t i = 0; i + length <= most; i++)
        if (memcmp(svg->data + i, ground, length) == 0)
            return true;
    return false;
}

/* Takes the first collage of each kind, the second of each kind, and so on, until no other has room. */
static void read_pictures(const char *folder, qk__collages *collages, size_t room)
{
    bool any = true;
    double width, height;
    for (size_t turn = 0; any; turn++) {
        any = false;
        for (int kind = 0; kind < QK__NUM_COLLAGE_KINDS; kind++) {
            size_t seen = 0, i = 0;
            while (i < collages->count && (collages->items[i].kind != kind || seen++ != turn))
                i++;
            if (i == collages->count)
                continue;
            any = true;
            qk__collage *collage = &collages->items[i];
            char *path = qk__format("%s/%s.svg", folder, collage->name);
            if (path && qk__read_file(path, MAX_FILE, &collage->picture, NULL) == QK_OK &&
                qk__svg_size(&collage->picture, &width, &height) &&
                bytes_of(&collage->picture) <= room)
                room -= bytes_of(&collage->picture);
            else
                qk__buffer_free(&collage->picture);
            collage->dark = is_dark(&collage->picture);
            free(path);
        }
    }
}

qk_status qk__collages_find(const char *folder, const qk__results *results, size_t room,
                            qk__collages *collages, qk_error *err)
{
    qk__names files = {0};
    *collages = (qk__collages){0};
    if (qk__list_dir(folder, &files, NULL) != QK_OK)
        return QK_OK;
    qk_status status = list_collages(&files, results, collages, err);
    qk__names_free(&files);
    if (status == QK_OK)
        read_pictures(folder, collages, room);
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
