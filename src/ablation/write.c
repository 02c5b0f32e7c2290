/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tables and manifest of an ablation, all of them or none. */
#include <math.h>
#include <string.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "base/json_build.h"
#include "tables/manifest.h"
#include "tables/text_lengths.h"
#include "schema/schema.h"
#include "settings/settings_json.h"

const char *const qk__ablation_tables[4] = {"ablation.csv", "ablation_heads.csv",
                                            "ablation_groups.csv", "ablation_positions.csv"};

static qk_status add_row(const qk__table *table, const void *item, qk__buffer *text,
                         qk_error *err)
{
    const qk__row row = {.from = {[QK__OF_ITEM] = item}};
    return qk__csv_row(table, QK__ABLATION, &row, text, err);
}

/* Adds the parts of one effect, position by position. */
static qk_status add_positions(const qk__ablation *a, const qk__table *table, size_t trial,
                               qk__buffer *text, qk_error *err)
{
    size_t count, groups;
    const qk__trial *t = &qk__trials(a, &count)[trial];
    const qk__head_group *group = &qk__head_groups(a, &groups)[t->group];
    for (int bin = 1; bin < QK_DISTANCE_BINS; bin++) {
        double tokens = 0;
        qk__ablation_position p = {.group = group->name, .what = a->whats[t->what].name};
        for (size_t i = 0; i < a->num_texts; i++) {
            const qk__text_sums *of = a->sums + i * (1 + count), *own = of + 1 + trial;
            tokens += of->tokens[bin];
            p.loss += of->values[bin];
            p.delta += own->values[bin];
            p.drift += own->tokens[bin];
        }
        if (tokens == 0)
            continue;
        p.first = INT64_C(1) << (bin - 1);
        p.last = bin + 1 < QK_DISTANCE_BINS ? 2 * p.first - 1 : a->recording.max_length - 1;
        p.tokens = (int64_t)tokens;
        p.loss /= tokens;
        p.delta /= tokens;
        p.drift /= tokens;
        QK_TRY(add_row(table, &p, text, err));
    }
    return QK_OK;
}

/* Takes the numbers of one change of the head of `row`, if the effect is of that head. */
static void take_effect(const qk_ablation_effect *e, qk__ablated_head *row)
{
    const qk__ablated_number delta = {e->delta, e->delta_lo, e->delta_hi};
    const qk__ablated_number share = {e->share, e->share_lo, e->share_hi};
    if (e->layer != row->layer || e->q_head != row->q_head)
        return;
    if (strcmp(e->what, "remove") == 0) {
        row->remove = delta;
        row->drift = (qk__ablated_number){e->drift, e->drift_lo, e->drift_hi};
    } else if (strcmp(e->what, "freeze") == 0) {
        row->freeze = delta;
        row->freeze_share = share;
    } else if (strcmp(e->what, "profile") == 0) {
        row->profile = delta;
        row->profile_share = share;
    }
}

static qk_status add_heads(const qk__ablation *a, const qk__table *table, qk__buffer *text,
                           qk_error *err)
{
    const qk_ablation_outcome *o = a->outcome;
    const int group = a->recording.facts->num_q_heads / a->recording.facts->num_k_heads;
    const qk__ablated_number none = {NAN, NAN, NAN};
    size_t groups;
    const qk__head_group *of = qk__head_groups(a, &groups);
    for (size_t g = 0; g < groups; g++) {
        if (!of[g].single)
            continue;
        qk__ablated_head row = {o->model, 0, 0, 0, none, none, none, none, none, none};
        row.layer = of[g].heads[0] / a->recording.facts->num_q_heads;
        row.q_head = of[g].heads[0] % a->recording.facts->num_q_heads;
        row.k_head = row.q_head / group;
        for (size_t i = 0; i < o->num_effects; i++)
            take_effect(&o->effects[i], &row);
        QK_TRY(add_row(table, &row, text, err));
    }
    return QK_OK;
}

static qk_status add_rows(const qk__ablation *a, const qk__table *table, qk__buffer *text,
                          qk_error *err)
{
    const qk_ablation_outcome *o = a->outcome;
    const bool singles = strcmp(table->info.name, "ablation.csv") == 0;
    size_t trials, groups;
    const qk__trial *list = qk__trials(a, &trials);
    const qk__head_group *of = qk__head_groups(a, &groups);
    if (strcmp(table->info.name, "ablation_positions.csv") == 0) {
        for (size_t i = 0; i < trials; i++)
            if (of[list[i].group].draw == 0 && list[i].draw == 0)
                QK_TRY(add_positions(a, table, i, text, err));
        return QK_OK;
    }
    if (strcmp(table->info.name, "ablation_heads.csv") == 0)
        return add_heads(a, table, text, err);
    for (size_t i = 0; i < o->num_effects; i++)
        if ((o->effects[i].layer >= 0) == singles)
            QK_TRY(add_row(table, &o->effects[i], text, err));
    return QK_OK;
}

static qk_status write_table(qk__ablation *a, const char *name, qk_error *err)
{
    const qk__table *table = qk__find_table(name);
    qk__buffer text = {0};
    qk_status status = qk__csv_header(table, QK__ABLATION, &text, err);
    if (status == QK_OK)
        status = add_rows(a, table, &text, err);
    if (status == QK_OK)
        status = qk__file_set_write(&a->files, a->recorder.output, table->info.name, text.data,
                                    text.size, err);
    qk__buffer_free(&text);
    return status;
}

static json_t *list_groups(const qk__ablation *a)
{
    const int width = a->recording.facts->num_q_heads;
    size_t count;
    const qk__head_group *groups = qk__head_groups(a, &count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (groups[i].single)
            continue;
        json_t *heads = json_array();
        for (size_t h = 0; h < groups[i].count; h++)
            heads = qk__json_append(heads, json_pack("[ii]", groups[i].heads[h] / width,
                                                     groups[i].heads[h] % width));
        list = qk__json_append(list, json_pack("{s:s, s:i, s:o}", "group", groups[i].name,
                                               "draw", groups[i].draw, "heads", heads));
    }
    return list;
}

static json_t *describe(const qk__ablation *a)
{
    const qk_ablation_settings *s = a->settings;
    const qk_ablation_outcome *o = a->outcome;
    const qk_model_facts *facts = a->recording.facts;
    json_t *whats = json_array();
    for (size_t i = 0; i < a->num_whats; i++)
        whats = qk__json_append(whats, json_string(a->whats[i].name));
    return json_pack(
        "{s:s, s:o, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:I, s:o, s:I, s:i, s:f, s:o, s:I, s:b, s:i, "
        "s:I, "
        "s:f, s:s, s:o, s:o, s:o}",
        "qkscope", QK_VERSION, "command_line", qk__json_text_or_null(s->command_line), "kind",
        "ablation", "run", a->name, "model", o->model, "num_layers", facts->num_layers,
        "num_q_heads", facts->num_q_heads, "num_k_heads", facts->num_k_heads, "texts_xxh3_128",
        a->recording.texts_hash, "texts", (json_int_t)o->texts, "lengths",
        qk__lengths_to_json(&o->lengths), "tokens", (json_int_t)o->tokens, "text_groups",
        (int)a->text_groups, "loss", o->loss, "what", whats, "suffix", (json_int_t)s->suffix,
        "controls", s->controls, "draws", s->draws, "seed", (json_int_t)s->seed, "level",
        s->level, "profiles", qk__needs_profiles(a) ? "of the other groups of texts" : "none",
        "groups", list_groups(a), "capture", qk__json_text_or_null(s->capture), "screen",
        qk__json_text_or_null(s->screen));
}

static qk_status clear(const void *context, qk_error *err)
{
    (void)context; /* every ablation writes the same files */
    (void)err;
    return QK_OK;
}

qk_status qk__ablation_write(qk__ablation *a, qk_error *err)
{
    const char *output = a->recorder.output;
    const char *command = a->settings->command_line ? a->settings->command_line : "";
    qk__outfile *last, *mark;
    for (size_t i = 0; i < sizeof qk__ablation_tables / sizeof *qk__ablation_tables; i++)
        QK_TRY(write_table(a, qk__ablation_tables[i], err));
    json_t *root = describe(a);
    QK_TRY(qk__describe_files(&root, &a->files, err));
    QK_TRY(qk__json_write(root, output, QK__MANIFEST_NAME, &last, err));
    QK_TRY(qk__file_set_add(&a->files, QK__MANIFEST_NAME, last, QK_OK));
    QK_TRY(qk__json_write(json_pack("{s:s, s:b, s:s, s:o}", "kind", "ablation", "complete", 0,
                                    "run", a->name, "command_line", qk__json_text(command)),
                          output, QK__MANIFEST_NAME, &mark, err));
    return qk__file_set_install(&a->files, mark, clear, a, err);
}
