/* SPDX-License-Identifier: Apache-2.0 */
/* One text: its branches, as many at once as memory allows, and sums of what they lose. */
#include <stdlib.h>
#include <string.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "base/rng.h"
#include "prefill/prefill.h"

/* What branches point to, released together. */
typedef struct arena {
    qk__buffer blocks; /* void * */
} arena;

typedef struct measuring {
    qk__ablation *ablation;
    const qk_tokens *tokens;
    size_t number;
    int64_t first_row;
    /* [count] whether the pair of a row's token and the next was there before */
    uint8_t *repeats;
    float *losses;             /* of the unchanged text */
    const bool **frozen;       /* [whats][layers] */
    const int32_t **positions; /* [whats] */
    arena memory;
    qk_prefill_branch *branches;
    size_t first_trial; /* of the current round */
    qk__text_sums *sums;
} measuring;

static void *take(arena *memory, size_t count, size_t size, qk_error *err)
{
    void *block = qk__calloc(count, size);
    if (!block || qk__buffer_append(&memory->blocks, &block, sizeof block, err) != QK_OK) {
        free(block);
        return NULL;
    }
    return block;
}

/* Keeps the first blocks. */
static void clear(arena *memory, size_t kept)
{
    void **blocks = (void **)(void *)memory->blocks.data;
    for (size_t i = kept; i < memory->blocks.size / sizeof *blocks; i++)
        free(blocks[i]);
    memory->blocks.size = kept * sizeof *blocks;
}

/* ---- of a text --------------------------------------------------------------------------- */

typedef struct pair {
    int32_t first, second, at;
} pair;

static int by_pair(const void *a, const void *b)
{
    const pair *one = a, *other = b;
    if (one->first != other->first)
        return one->first < other->first ? -1 : 1;
    if (one->second != other->second)
        return one->second < other->second ? -1 : 1;
    return one->at < other->at ? -1 : one->at > other->at;
}

/* Finds rows whose token and the next stood together before. */
static qk_status find_repeats(measuring *m, qk_error *err)
{
    const qk_tokens *t = m->tokens;
    pair *pairs = qk__calloc(t->count, sizeof *pairs);
    m->repeats = take(&m->memory, t->count, sizeof *m->repeats, err);
    if (!pairs || !m->repeats) {
        free(pairs);
        return qk__nomem(err);
    }
    for (size_t i = 0; i + 1 < t->count; i++)
        pairs[i] = (pair){t->ids[i], t->ids[i + 1], (int32_t)i};
    qsort(pairs, t->count - 1, sizeof *pairs, by_pair);
    for (size_t i = 1; i + 1 < t->count; i++)
        m->repeats[pairs[i].at] =
            pairs[i].first == pairs[i - 1].first && pairs[i].second == pairs[i - 1].second;
    free(pairs);
    return QK_OK;
}

/* Shuffles positions within each block of positions. */
static qk_status shuffle(measuring *m, size_t w, qk_error *err)
{
    const qk__ablation *a = m->ablation;
    const size_t block = (size_t)a->whats[w].block, count = m->tokens->count;
    const uint64_t words[] = {m->number, block};
    int32_t *positions = take(&m->memory, count, sizeof *positions, err);
    qk__rng rng;
    if (!positions)
        return qk__nomem(err);
    qk__rng_init(&rng, (uint64_t)a->settings->seed, words, 2);
    for (size_t i = 0; i < count; i++)
        positions[i] = (int32_t)i;
    for (size_t start = 0; start < count; start += block) {
        size_t n = count - start < block ? count - start : block;
        for (; n > 1; n--) {
            const size_t at = start + (size_t)qk__rng_below(&rng, n);
            const int32_t last = positions[start + n - 1];
            positions[start + n - 1] = positions[at];
            positions[at] = last;
        }
    }
    m->positions[w] = positions;
    return QK_OK;
}

static qk_status freeze(measuring *m, size_t w, qk_error *err)
{
    const qk_model_facts *facts = m->ablation->recording.facts;
    for (int layer = 0; layer < facts->num_layers; layer++) {
        const qk_layer_facts *of = &facts->layers[layer];
        bool *frozen = take(&m->memory, of->num_frequencies + 1, sizeof *frozen, err);
        if (!frozen)
            return qk__nomem(err);
        qk__freeze_pairs(&m->ablation->whats[w], of, frozen);
        m->frozen[w * (size_t)facts->num_layers + (size_t)layer] = frozen;
    }
    return QK_OK;
}

static qk_status prepare(measuring *m, qk_error *err)
{
    const qk__ablation *a = m->ablation;
    const size_t layers = (size_t)a->recording.facts->num_layers;
    m->losses = take(&m->memory, m->tokens->count, sizeof *m->losses, err);
    m->frozen = take(&m->memory, a->num_whats * layers, sizeof *m->frozen, err);
    m->positions = take(&m->memory, a->num_whats, sizeof *m->positions, err);
    if (!m->losses || !m->frozen || !m->positions)
        return qk__nomem(err);
    QK_TRY(find_repeats(m, err));
    for (size_t w = 0; w < a->num_whats; w++)
        if (a->whats[w].kind == QK_CHANGE_ROTATION)
            QK_TRY(a->whats[w].block > 0 ? shuffle(m, w, err) : freeze(m, w, err));
    return QK_OK;
}

/* ---- branches ---------------------------------------------------------------------------- */

static qk_status set_change(measuring *m, const qk__trial *trial, int head,
                            qk_head_change *change, qk_error *err)
{
    const qk__ablation *a = m->ablation;
    const qk__what *what = &a->whats[trial->what];
    const int width = a->recording.facts->num_q_heads;
    *change = (qk_head_change){.layer = head / width,
                               .q_head = head % width,
                               .kind = what->kind,
                               .keep_first = what->keep_first,
                               .positions = m->positions[trial->what],
                               .window = what->window,
                               .kept = what->kept};
    if (what->kind == QK_CHANGE_ROTATION)
        change->frozen = m->frozen[trial->what * (size_t)a->recording.facts->num_layers +
                                   (size_t)change->layer];
    if (what->kind == QK_CHANGE_DIRECTION) {
        const qk__direction *d = qk__direction_of(a, trial->what, trial->draw, head);
        change->values = d->u;
        change->part = d->part;
    }
    if (!what->profile && !what->mean)
        return QK_OK;
    const size_t values_of_bin =
        what->mean ? (size_t)a->recording.facts->head_dim : (size_t)QK_PROFILE_SHARES;
    float *values = take(&m->memory, QK_DISTANCE_BINS * values_of_bin, sizeof *values, err);
    if (!values)
        return qk__nomem(err);
    (what->mean ? qk__output_without : qk__profile_without)(a, (size_t)head,
                                                            a->window_group[m->number], values);
    change->values = values;
    return QK_OK;
}

static qk_status set_branch(measuring *m, const qk__trial *trial, qk_prefill_branch *branch,
                            qk_error *err)
{
    size_t count;
    const qk__head_group *group = &qk__head_groups(m->ablation, &count)[trial->group];
    qk_head_change *changes = take(&m->memory, group->count, sizeof *changes, err);
    if (!changes)
        return qk__nomem(err);
    for (size_t i = 0; i < group->count; i++)
        QK_TRY(set_change(m, trial, group->heads[i], &changes[i], err));
    *branch = (qk_prefill_branch){0, m->ablation->settings->suffix, changes, group->count};
    return QK_OK;
}

int64_t qk__branches_at_once(const qk__ablation *a, int64_t tokens)
{
    const qk_head_change turned = {.kind = QK_CHANGE_ROTATION};
    qk_prefill_branch some = {.changes = &turned};
    for (size_t w = 0; w < a->num_whats; w++)
        some.num_changes |= a->whats[w].kind == QK_CHANGE_ROTATION;
    const qk_prefill_settings settings = {.arithmetic = a->recorder.arithmetic,
                                          .branches = &some,
                                          .num_branches = 1,
                                          .context = {.threads = a->recorder.context.threads}};
    const int64_t text = qk_prefill_bytes(a->recording.model, &settings, tokens);
    const int64_t one =
        qk__prefill_branch_bytes(a->recording.model, &settings, tokens, a->settings->suffix);
    const int64_t left = a->settings->memory * (INT64_C(1) << 20) - text;
    return left < one ? 1 : left / one;
}

/* ---- sums -------------------------------------------------------------------------------- */

static qk_status take_losses(void *user, const qk_prefill_losses *losses, qk_error *err)
{
    const measuring *m = user;
    const bool text = losses->branch < 0;
    qk__text_sums *to = m->sums;
    (void)err;
    if (text)
        memcpy(m->losses, losses->of, (size_t)losses->count * sizeof *m->losses);
    else
        to += 1 + m->first_trial + (size_t)losses->branch;
    *to = (qk__text_sums){0};
    for (int64_t i = 0; i < losses->count; i++) {
        const int64_t row = losses->first + i;
        const int cells[] = {qk_distance_bin(row + 1), QK__ABLATION_REPEATED};
        if (row < m->first_row)
            continue;
        to->changed += !text && (losses->of[i] != m->losses[row] || losses->drift[i] != 0);
        for (int c = 0; c < (m->repeats[row] ? 2 : 1); c++) {
            to->values[cells[c]] +=
                text ? (double)losses->of[i] : (double)losses->of[i] - (double)m->losses[row];
            to->tokens[cells[c]] += text ? 1 : (double)losses->drift[i];
        }
    }
    return QK_OK;
}

static qk_status run_round(measuring *m, size_t count, qk_error *err)
{
    qk__ablation *a = m->ablation;
    size_t trials;
    const qk__trial *list = qk__trials(a, &trials);
    const size_t kept = m->memory.blocks.size / sizeof(void *);
    for (size_t i = 0; i < count; i++)
        QK_TRY(set_branch(m, &list[m->first_trial + i], &m->branches[i], err));
    const qk_prefill_settings settings = {.arithmetic = a->recorder.arithmetic,
                                          .loss = take_losses,
                                          .branches = m->branches,
                                          .num_branches = count,
                                          .user = m,
                                          .context = {.threads = a->recorder.context.threads}};
    const qk_sequence sequence = {m->tokens->ids, (int64_t)m->tokens->count};
    QK_TRY(qk_prefill(a->recording.model, &settings, &sequence, 1, err));
    clear(&m->memory, kept);
    a->done += (int64_t)count;
    m->first_trial += count;
    if (!qk__tell_progress(
            &a->recorder.context,
            &(qk_progress){.what = "branches", .done = a->done, .total = a->total}))
        return qk__fail(err, QK_ERR_CANCELLED,
                        "stopped after %lld of %lld branches; the same command goes on",
                        (long long)a->done, (long long)a->total);
    return QK_OK;
}

static qk_status run_rounds(measuring *m, qk_error *err)
{
    size_t trials;
    (void)qk__trials(m->ablation, &trials);
    const int64_t most = qk__branches_at_once(m->ablation, (int64_t)m->tokens->count);
    const size_t at_once = (uint64_t)most < trials ? (size_t)most : trials;
    m->branches = take(&m->memory, at_once, sizeof *m->branches, err);
    if (!m->branches)
        return qk__nomem(err);
    while (m->first_trial < trials) {
        const size_t left = trials - m->first_trial;
        QK_TRY(run_round(m, left < at_once ? left : at_once, err));
    }
    return QK_OK;
}

qk_status qk__measure_text(qk__ablation *a, size_t number, const qk_tokens *tokens,
                           qk__text_sums *sums, qk_error *err)
{
    const int64_t suffix = a->settings->suffix, count = (int64_t)tokens->count;
    measuring m = {.ablation = a,
                   .tokens = tokens,
                   .number = number,
                   .first_row = suffix > 0 && suffix < count ? count - suffix : 0,
                   .sums = sums};
    qk_status status = prepare(&m, err);
    if (status == QK_OK)
        status = run_rounds(&m, err);
    clear(&m.memory, 0);
    qk__buffer_free(&m.memory.blocks);
    return status;
}
