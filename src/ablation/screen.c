/* SPDX-License-Identifier: Apache-2.0 */
/* Which heads deserve a test of their own: those of an earlier ablation's groups of heads without which the loss
 * changed. */
#include <string.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "base/json_build.h"
#include "base/csv_reader.h"
#include "tables/manifest.h"

static qk_status check_screen(const qk__ablation *a, const qk__manifest *manifest,
                              qk_error *err)
{
    const qk_model_facts *facts = a->recording.facts;
    const char *folder = a->settings->screen;
    const char *model = qk__json_string(manifest->root, "model");
    QK_TRY(qk__manifest_verify(manifest, folder, err));
    if (strcmp(qk__json_string(manifest->root, "kind"), "ablation") != 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "screen: %s holds no ablation", folder);
    if (strcmp(model, a->recording.model_name) != 0 ||
        qk__manifest_query_heads(manifest) != facts->num_layers * facts->num_q_heads)
        return qk__fail(err, QK_ERR_INCONSISTENT, "screen: %s is of %s, not of %s", folder,
                        model, a->recording.model_name);
    if (strcmp(qk__json_string(manifest->root, "texts_xxh3_128"), a->recording.texts_hash) == 0)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_WARNING,
                        "screen: %s is of the same texts, which chose the heads; give other "
                        "texts",
                        folder);
    return QK_OK;
}

/* Adds the heads of one group, which the manifest lists. */
static void add_heads(const qk__ablation *a, const json_t *root, const char *group,
                      bool *screened)
{
    const int width = a->recording.facts->num_q_heads;
    size_t i, j;
    const json_t *of, *head;
    json_array_foreach(json_object_get(root, "groups"), i, of)
    {
        if (strcmp(qk__json_string(of, "group"), group) != 0 ||
            json_integer_value(json_object_get(of, "draw")) != 0)
            continue;
        json_array_foreach(json_object_get(of, "heads"), j, head)
        {
            const json_int_t layer = json_integer_value(json_array_get(head, 0)),
                             number = json_integer_value(json_array_get(head, 1));
            if (layer >= 0 && layer < a->recording.facts->num_layers && number >= 0 &&
                number < width)
                screened[layer * width + number] = true;
        }
    }
}

static qk_status read_groups(const qk__ablation *a, qk__csv_reader *reader, const json_t *root,
                             bool *screened, qk_error *err)
{
    static const char *const NAMES[] = {"group", "delta_lo", "delta_hi"};
    enum { GROUP, LO, HI };
    size_t columns[3], told = 0, changed = 0;
    for (int i = 0; i < 3; i++)
        QK_TRY(qk__reader_find(reader, NAMES[i], true, &columns[i], err));
    for (;;) {
        bool more;
        double lo, hi;
        QK_TRY(qk__reader_next(reader, &more, err));
        if (!more)
            break;
        QK_TRY(qk__reader_number(reader, columns[LO], &lo, err));
        QK_TRY(qk__reader_number(reader, columns[HI], &hi, err));
        told += lo <= hi;
        if (!(lo > 0) && !(hi < 0))
            continue;
        changed++;
        add_heads(a, root, qk__reader_text(reader, columns[GROUP]), screened);
    }
    if (changed > 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_DEGENERATE,
                    told > 0
                        ? "screen: no group of %s changed the loss: there is no head to "
                          "test by itself"
                        : "screen: %s has no group with an interval: run it with --groups, "
                          "as layer, over two texts or more",
                    a->settings->screen);
}

qk_status qk__screen_heads(const qk__ablation *a, bool *screened, qk_error *err)
{
    qk__manifest manifest;
    qk__csv_reader *reader = NULL;
    qk__path path;
    QK_TRY(qk__path_in(&path, a->settings->screen, "ablation_groups.csv", err));
    QK_TRY(qk__manifest_read(&manifest, a->settings->screen, err));
    qk_status status = check_screen(a, &manifest, err);
    if (status == QK_OK)
        status = qk__reader_open(&reader, path.text, err);
    if (status == QK_OK)
        status = read_groups(a, reader, manifest.root, screened, err);
    qk__reader_close(&reader);
    qk__manifest_free(&manifest);
    return status;
}
