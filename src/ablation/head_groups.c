/* SPDX-License-Identifier: Apache-2.0 */
/* Which heads are changed together; random groups of as many heads in the same layers; and the branches of each text
 * that follow, in the order in which they begin. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/results.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "base/rng.h"

static int num_heads(const qk__ablation *a)
{
    return a->recording.facts->num_layers * a->recording.facts->num_q_heads;
}

/* Takes heads over, which are sorted. */
static qk_status add_group(qk__ablation *a, const char *name, int *heads, size_t count,
                           int draw, size_t of, qk_error *err)
{
    qk__head_group group = {
        .name = qk__strdup(name), .heads = heads, .count = count, .draw = draw, .of = of};
    qk_status status =
        group.name ? qk__buffer_append(&a->groups, &group, sizeof group, err) : qk__nomem(err);
    if (status != QK_OK) {
        free(group.name);
        free(heads);
    }
    return status;
}

/* Adds a group of the heads that are both chosen and wanted. */
static qk_status add_wanted(qk__ablation *a, const char *name, const bool *wanted,
                            qk_error *err)
{
    const bool *chosen = a->recording.selection->q_heads;
    size_t count, groups;
    const qk__head_group *group = qk__head_groups(a, &groups);
    for (size_t i = 0; i < groups; i++)
        if (strcmp(group[i].name, name) == 0)
            return qk__fail(err, QK_ERR_ARGUMENT, "groups: \"%s\" twice", name);
    int *heads = qk__calloc((size_t)num_heads(a), sizeof *heads);
    count = 0;
    if (!heads)
        return qk__nomem(err);
    for (int i = 0; i < num_heads(a); i++)
        if (chosen[i] && wanted[i])
            heads[count++] = i;
    if (count > 0)
        return add_group(a, name, heads, count, 0, 0, err);
    free(heads);
    return qk__fail(err, QK_ERR_DEGENERATE, "groups: \"%s\" has none of the heads", name);
}

static qk_status add_each(qk__ablation *a, bool *wanted, qk_error *err)
{
    const int width = a->recording.facts->num_q_heads;
    if (a->settings->screen) {
        memset(wanted, 0, (size_t)num_heads(a) * sizeof *wanted);
        QK_TRY(qk__screen_heads(a, wanted, err));
    }
    for (int i = 0; i < num_heads(a); i++) {
        if (!a->recording.selection->q_heads[i] || !wanted[i])
            continue;
        char name[32];
        int *head = qk__calloc(1, sizeof *head);
        if (!head)
            return qk__nomem(err);
        *head = i;
        snprintf(name, sizeof name, "L%dH%d", i / width, i % width);
        QK_TRY(add_group(a, name, head, 1, 0, 0, err));
        size_t count;
        qk__head_group *groups = qk__head_groups(a, &count);
        groups[count - 1].single = true;
    }
    return QK_OK;
}

static qk_status add_layers(qk__ablation *a, bool *wanted, qk_error *err)
{
    const int width = a->recording.facts->num_q_heads;
    for (int layer = 0; layer < a->recording.facts->num_layers; layer++) {
        bool any = false;
        for (int i = 0; i < num_heads(a); i++) {
            wanted[i] = i / width == layer;
            any = any || (wanted[i] && a->recording.selection->q_heads[i]);
        }
        char name[32];
        snprintf(name, sizeof name, "layer %d", layer);
        if (any)
            QK_TRY(add_wanted(a, name, wanted, err));
    }
    return QK_OK;
}

/* Heads of another model with as many layers would be wrong and look right. */
static qk_status check_model(const qk__ablation *a, const qk_columns *list, qk_error *err)
{
    const char *const *models = qk_columns_texts(list, "model");
    for (size_t i = 0; i < qk_columns_num_rows(list); i++)
        if (*models[i] && strcmp(models[i], a->recording.model_name) != 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s is of %s, not of %s: where that is another name of the same "
                            "model, give it with --model-name",
                            a->settings->results, models[i], a->recording.model_name);
    return QK_OK;
}

/* Adds heads of the results, by a list of heads. */
static qk_status add_listed(qk__ablation *a, const char *name, qk_head_query query,
                            bool *wanted, qk_error *err)
{
    const qk_model_facts *facts = a->recording.facts;
    query.results = a->settings->results;
    query.columns = "model,layer,q_head";
    if (!query.results)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "groups: \"%s\" asks for results of the model: --results DIR", name);
    qk_columns *list;
    QK_TRY(qk_head_list(&query, &list, NULL, err));
    const int64_t *layers = qk_columns_integers(list, "layer"),
                  *heads = qk_columns_integers(list, "q_head");
    memset(wanted, 0, (size_t)num_heads(a) * sizeof *wanted);
    qk_status status = check_model(a, list, err);
    for (size_t i = 0; i < qk_columns_num_rows(list) && status == QK_OK; i++)
        if (layers[i] < 0 || layers[i] >= facts->num_layers || heads[i] < 0 ||
            heads[i] >= facts->num_q_heads)
            status =
                qk__fail(err, QK_ERR_INCONSISTENT,
                         "%s has a layer %lld with a head %lld, the model has none: are they "
                         "results of this model?",
                         query.results, (long long)layers[i], (long long)heads[i]);
        else
            wanted[layers[i] * facts->num_q_heads + heads[i]] = true;
    qk_columns_free(&list);
    return status == QK_OK ? add_wanted(a, name, wanted, err) : status;
}

/* "top 1,2,4 by COLUMN": a group for each number. */
static qk_status add_tops(qk__ablation *a, const char *text, bool *wanted, qk_error *err)
{
    const char *by = strstr(text, " by ");
    char numbers[64];
    qk_index_list list = {0};
    if (!by || by - text - 4 >= (long)sizeof numbers)
        return qk__fail(err, QK_ERR_ARGUMENT, "groups: \"%s\": give \"top N by COLUMN\"", text);
    snprintf(numbers, sizeof numbers, "%.*s", (int)(by - text - 4), text + 4);
    qk_status status =
        qk__context(err, qk_index_list_parse(numbers, &list, err), "groups: \"%s\"", text);
    for (size_t i = 0; i < list.count && status == QK_OK; i++) {
        char name[160];
        const qk_head_query query = {.sort = by + 4, .top = (size_t)list.items[i]};
        snprintf(name, sizeof name, "top %d%s", list.items[i], by);
        status = list.items[i] > 0
                     ? add_listed(a, name, query, wanted, err)
                     : qk__fail(err, QK_ERR_ARGUMENT, "groups: \"%s\": 0 heads", text);
    }
    qk_index_list_free(&list);
    return status;
}

/* "2:1,14-23:*", "@FILE". */
static qk_status add_named(qk__ablation *a, const char *text, bool *wanted, qk_error *err)
{
    const int width = a->recording.facts->num_q_heads;
    qk_head_set set = {0};
    qk_error why = {0};
    if (qk_head_set_parse(text, &set, &why) != QK_OK) {
        qk_head_set_free(&set);
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "groups: \"%s\": give each, layer, all, \"where CONDITION\", \"top N by "
            "COLUMN\" or heads, as 2:1,5:*: %s",
            text, why.message);
    }
    for (int i = 0; i < num_heads(a); i++)
        wanted[i] = qk_head_set_has(&set, i / width, i % width);
    qk_head_set_free(&set);
    return add_wanted(a, text, wanted, err);
}

/* ---- random groups ----------------------------------------------------------------------- */

/* A layer's part of a group, heads done .. done + wanted - 1, and the heads that may be drawn in their place. */
typedef struct layer_part {
    size_t wanted, count;
    int *others; /* [query heads of a layer] */
} layer_part;

static void find_others(const qk__ablation *a, const qk__head_group *group, size_t done,
                        layer_part *part)
{
    const int width = a->recording.facts->num_q_heads, layer = group->heads[done] / width;
    part->wanted = part->count = 0;
    for (size_t i = done; i < group->count && group->heads[i] / width == layer; i++)
        part->wanted++;
    for (int head = layer * width; head < (layer + 1) * width; head++) {
        bool in = false;
        for (size_t i = done; i < done + part->wanted; i++)
            in = in || group->heads[i] == head;
        if (!in && a->recording.selection->q_heads[head])
            part->others[part->count++] = head;
    }
}

/* How many different groups can be drawn: 0 where a layer has too few other heads. */
static double count_possible(const qk__ablation *a, const qk__head_group *group, int *others)
{
    layer_part part = {.others = others};
    double possible = 1;
    for (size_t done = 0; done < group->count; done += part.wanted) {
        find_others(a, group, done, &part);
        double ways = part.count >= part.wanted;
        for (size_t i = 0; i < part.wanted && ways > 0; i++)
            ways = ways * (double)(part.count - i) / (double)(i + 1);
        possible *= ways;
    }
    return possible;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void draw_heads(const qk__ablation *a, const qk__head_group *group, qk__rng *rng,
                       int *heads)
{
    layer_part part = {.others = heads + group->count};
    for (size_t done = 0; done < group->count; done += part.wanted) {
        find_others(a, group, done, &part);
        for (size_t i = 0; i < part.wanted; i++) {
            const uint64_t at = qk__rng_below(rng, part.count);
            heads[done + i] = part.others[at];
            part.others[at] = part.others[--part.count];
        }
    }
    qsort(heads, group->count, sizeof *heads, by_number);
}

static bool is_drawn(const qk__ablation *a, size_t of, const int *heads)
{
    size_t count;
    const qk__head_group *groups = qk__head_groups(a, &count);
    for (size_t i = 0; i < count; i++)
        if (groups[i].draw > 0 && groups[i].of == of &&
            memcmp(groups[i].heads, heads, groups[i].count * sizeof *heads) == 0)
            return true;
    return false;
}

/* Draws until another group comes, of which there is one. */
static qk_status add_draw(qk__ablation *a, size_t of, int draw, qk__rng *rng, qk_error *err)
{
    size_t count;
    const qk__head_group group = qk__head_groups(a, &count)[of];
    const size_t room = group.count + (size_t)a->recording.facts->num_q_heads;
    int *heads = qk__calloc(room, sizeof *heads);
    if (!heads)
        return qk__nomem(err);
    do
        draw_heads(a, &group, rng, heads);
    while (is_drawn(a, of, heads));
    return add_group(a, group.name, heads, group.count, draw, of, err);
}

/* *few counts groups with some random groups beside them, and too few of them. */
static qk_status add_draws(qk__ablation *a, size_t of, size_t *few, qk_error *err)
{
    const uint64_t words[] = {of};
    size_t count;
    qk__rng rng;
    int *others = qk__calloc((size_t)a->recording.facts->num_q_heads, sizeof *others);
    if (!others)
        return qk__nomem(err);
    qk__head_group *group = &qk__head_groups(a, &count)[of];
    group->possible = count_possible(a, group, others);
    free(others);
    qk__rng_init(&rng, (uint64_t)a->settings->seed, words, 1);
    const int draws = (int)fmin(a->settings->draws, group->possible);
    for (int draw = 1; draw <= draws; draw++)
        QK_TRY(add_draw(a, of, draw, &rng, err));
    *few += draws > 0 && draws < QK__LEAST_CONTROLS;
    return QK_OK;
}

/* ---- trials ------------------------------------------------------------------------------ */

static int by_layer(const void *a, const void *b)
{
    const qk__trial *one = a, *other = b;
    if (one->first_layer != other->first_layer)
        return one->first_layer < other->first_layer ? -1 : 1;
    if (one->group != other->group)
        return one->group < other->group ? -1 : 1;
    if (one->what != other->what)
        return one->what < other->what ? -1 : 1;
    return one->draw - other->draw;
}

static qk_status add_trials(qk__ablation *a, qk_error *err)
{
    size_t count;
    const qk__head_group *groups = qk__head_groups(a, &count);
    for (size_t g = 0; g < count; g++)
        for (size_t w = 0; w < a->num_whats; w++) {
            const bool direction = a->whats[w].kind == QK_CHANGE_DIRECTION;
            const int draws = direction && a->settings->controls && !a->whats[w].next
                                  ? a->settings->draws
                                  : 0;
            if (direction && groups[g].draw > 0)
                continue;
            for (int draw = 0; draw <= draws; draw++) {
                const qk__trial trial = {
                    w, g, groups[g].heads[0] / a->recording.facts->num_q_heads, draw};
                QK_TRY(qk__buffer_append(&a->trials, &trial, sizeof trial, err));
            }
        }
    qk__trial *trials = qk__trials(a, &count);
    qsort(trials, count, sizeof *trials, by_layer);
    return QK_OK;
}

static qk_status add_asked(qk__ablation *a, bool *wanted, qk_error *err)
{
    const qk_ablation_settings *s = a->settings;
    static const char *const EACH[] = {"each"};
    const char *const *texts = s->num_groups > 0 ? s->groups : EACH;
    const size_t count = s->num_groups > 0 ? s->num_groups : 1;
    size_t each = 0;
    for (size_t i = 0; i < count; i++)
        each += strcmp(texts[i], "each") == 0;
    if (each > 1)
        return qk__fail(err, QK_ERR_ARGUMENT, "groups: \"each\" twice");
    if (s->screen && each == 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "screen: heads are changed one by one: give --groups each, too");
    for (size_t i = 0; i < count; i++) {
        qk_status status;
        for (int j = 0; j < num_heads(a); j++)
            wanted[j] = true;
        if (strcmp(texts[i], "each") == 0)
            status = add_each(a, wanted, err);
        else if (strcmp(texts[i], "layer") == 0)
            status = add_layers(a, wanted, err);
        else if (strcmp(texts[i], "all") == 0)
            status = add_wanted(a, "all", wanted, err);
        else if (strncmp(texts[i], "where ", 6) == 0)
            status =
                add_listed(a, texts[i], (qk_head_query){.where = texts[i] + 6}, wanted, err);
        else if (strncmp(texts[i], "top ", 4) == 0)
            status = add_tops(a, texts[i], wanted, err);
        else
            status = add_named(a, texts[i], wanted, err);
        QK_TRY(status);
    }
    return QK_OK;
}

/* Random directions beside a direction are as many as asked for. */
static void tell_few_directions(const qk__ablation *a)
{
    const qk_ablation_settings *s = a->settings;
    bool direction = false;
    for (size_t w = 0; w < a->num_whats; w++)
        direction |= a->whats[w].kind == QK_CHANGE_DIRECTION;
    if (direction && s->controls && s->draws > 0 && s->draws < QK__LEAST_CONTROLS)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_WARNING,
                        "draws: fewer than %d random directions stand beside each direction, "
                        "and beyond is empty",
                        QK__LEAST_CONTROLS);
}

/* Random directions stand beside a direction, random groups beside all other changes. */
static bool needs_random_groups(const qk__ablation *a)
{
    bool others = false;
    for (size_t w = 0; w < a->num_whats; w++)
        others |= a->whats[w].kind != QK_CHANGE_DIRECTION;
    return others && a->settings->controls;
}

qk_status qk__plan_trials(qk__ablation *a, qk_error *err)
{
    bool *wanted = qk__calloc((size_t)num_heads(a), sizeof *wanted);
    qk_status status = wanted ? add_asked(a, wanted, err) : qk__nomem(err);
    free(wanted);
    size_t asked, groups = 0, few = 0;
    (void)qk__head_groups(a, &asked);
    for (size_t g = 0; g < asked && status == QK_OK && needs_random_groups(a); g++) {
        size_t count;
        if (qk__head_groups(a, &count)[g].single)
            continue;
        groups++;
        status = add_draws(a, g, &few, err);
    }
    if (few > 0)
        qk__tell_notice(
            &a->recorder.context, QK_NOTICE_WARNING,
            "%zu of %zu group%s: fewer than %d different random groups stand beside it, "
            "and beyond is empty",
            few, groups, groups == 1 ? "" : "s", QK__LEAST_CONTROLS);
    tell_few_directions(a);
    return status == QK_OK ? add_trials(a, err) : status;
}
