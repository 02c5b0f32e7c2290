/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture says about itself: keys for capture.json, lines for its card, the table of
 * examples. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "base/number.h"
#include "sink/all_blocks.h"

/* The first examples are in capture.json, which every reader takes whole; the table has all. */
enum { MAX_LISTED = 1000 };

/* ---- the examples ----------------------------------------------------------------------- */

/* Calls `take` for at most `limit` texts of the blocks, by their numbers. */
typedef qk_status take_fn(void *user, json_t *example, qk_error *err);

/* A line "NUMBER {...}" of a block. */
typedef struct example_line {
    int64_t number, block, offset;
    size_t size;
} example_line;

static qk_status fail_damaged(qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED,
                    "the list of examples of the unfinished run is damaged");
}

static int compare_lines(const void *a, const void *b)
{
    const example_line *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* There are as many lines as texts in the block. */
static qk_status find_lines(const char *text, size_t size, int64_t texts, example_line line,
                            qk__buffer *lines, qk_error *err)
{
    const char *at = text, *end = text + size;
    for (int64_t i = 0; i < texts; i++) {
        const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        const char *begin = stop ? memchr(at, '{', (size_t)(stop - at)) : NULL;
        if (!begin)
            return fail_damaged(err);
        example_line found = line;
        found.number = strtoll(at, NULL, 10);
        found.offset += begin - text;
        found.size = (size_t)(stop - begin);
        QK_TRY(qk__buffer_append(lines, &found, sizeof found, err));
        at = stop + 1;
    }
    return at == end ? QK_OK : fail_damaged(err);
}

/* Reads lines of a block, in a buffer with a byte to spare. */
static qk_status read_text(const qk__block *block, int64_t offset, size_t size,
                           qk__buffer *text, qk_error *err)
{
    text->size = 0;
    QK_TRY(qk__buffer_reserve(text, size + 1, err));
    QK_TRY(qk__read_at(block->fd, text->data, size, offset, err));
    text->size = size;
    text->data[size] = 0;
    return QK_OK;
}

static qk_status list_lines(const qk__all_blocks *all, qk__buffer *lines, qk_error *err)
{
    qk__buffer text = {0};
    qk_status status = QK_OK;
    for (int64_t b = 0; status == QK_OK && b < all->sink->num_blocks; b++) {
        const int64_t *numbers = all->blocks[b].facts.numbers;
        const example_line line = {.block = b, .offset = numbers[QK__AT_EXAMPLES]};
        status = read_text(&all->blocks[b], line.offset, (size_t)numbers[QK__EXAMPLES_SIZE],
                           &text, err);
        if (status == QK_OK)
            status = find_lines((const char *)text.data, text.size, numbers[QK__BLOCK_TEXTS],
                                line, lines, err);
    }
    qk__buffer_free(&text);
    if (lines->size > 0)
        qsort(lines->data, lines->size / sizeof(example_line), sizeof(example_line),
              compare_lines);
    return status;
}

static qk_status take_line(const qk__buffer *text, take_fn *take, void *user, qk_error *err)
{
    json_t *example;
    qk_status status =
        qk__json_parse(&example, (const char *)text->data, text->size, QK__JSON_RUN, NULL);
    if (status == QK_OK && json_is_integer(json_object_get(example, "example_id")))
        status = take(user, example, err);
    else if (status == QK_ERR_NOMEM)
        status = qk__nomem(err);
    else
        status = fail_damaged(err);
    json_decref(example);
    return status;
}

static qk_status each_example(const qk__all_blocks *all, size_t limit, take_fn *take,
                              void *user, qk_error *err)
{
    qk__buffer lines = {0}, text = {0};
    qk_status status = list_lines(all, &lines, err);
    const example_line *line = (const example_line *)(const void *)lines.data;
    const size_t count = lines.size / sizeof *line;
    for (size_t i = 0; status == QK_OK && i < count && i < limit; i++) {
        status =
            read_text(&all->blocks[line[i].block], line[i].offset, line[i].size, &text, err);
        if (status == QK_OK)
            status = take_line(&text, take, user, err);
    }
    qk__buffer_free(&text);
    qk__buffer_free(&lines);
    return status;
}

static qk_status list_example(void *user, json_t *example, qk_error *err)
{
    return json_array_append(user, example) == 0 ? QK_OK : qk__nomem(err);
}

static int64_t number_in(const json_t *example, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(example, key));
}

static qk_status make_row(json_t *example, qk__buffer *row, qk_error *err)
{
    bool truncated = json_is_true(json_object_get(example, "truncated"));
    QK_TRY(qk__csv_integer(row, number_in(example, "example_id"), ',', err));
    QK_TRY(qk__csv_text(row, qk__json_string(example, "source"), ',', err));
    QK_TRY(qk__csv_text(row, qk__json_string(example, "source_id"), ',', err));
    QK_TRY(qk__csv_integer(row, number_in(example, "tokens"), ',', err));
    QK_TRY(qk__csv_integer(row, truncated, ',', err));
    QK_TRY(qk__csv_integer(row, number_in(example, "window"), ',', err));
    QK_TRY(qk__csv_integer(row, number_in(example, "first_token"), ',', err));
    const char *of = json_object_get(example, "text_id") ? "text_id" : "example_id";
    QK_TRY(qk__csv_integer(row, number_in(example, of), ',', err));
    return qk__csv_text(row, qk__json_string(example, "tokens_xxh3"), '\n', err);
}

static qk_status write_example(void *user, json_t *example, qk_error *err)
{
    qk__buffer row = {0};
    qk_status status = make_row(example, &row, err);
    if (status == QK_OK)
        status = qk__outfile_write(user, row.data, row.size, err);
    qk__buffer_free(&row);
    return status;
}

qk_status qk__write_examples(const qk__all_blocks *all, const char *dir, qk_error *err)
{
    static const char HEADER[] =
        "example_id,source,source_id,tokens,truncated,window,first_token,text_id,tokens_xxh3\n";
    qk__outfile *file;
    qk_status status = qk__outfile_open_in(&file, dir, "examples.csv", err);
    if (status == QK_OK)
        status = qk__outfile_write(file, HEADER, sizeof HEADER - 1, err);
    if (status == QK_OK)
        status = each_example(all, SIZE_MAX, write_example, file, err);
    if (status == QK_OK)
        status = qk__outfile_commit(&file, err);
    qk__outfile_discard(&file);
    return status;
}

/* ---- capture.json ----------------------------------------------------------------------- */

/* Frequencies by layer number; layers without rotation are left out. */
static json_t *list_frequencies(const qk_sink *sink)
{
    json_t *layers = json_object();
    for (int l = 0; layers && l < sink->settings.num_layers; l++) {
        const qk_frequencies *layer = &sink->settings.frequencies[l];
        char name[16];
        if (layer->count == 0)
            continue;
        json_t *list = json_array();
        for (size_t i = 0; list && i < layer->count; i++)
            list = qk__json_append(list, json_real(layer->values[i]));
        snprintf(name, sizeof name, "%d", l);
        layers = qk__json_set(layers, name, list);
    }
    return layers;
}

qk_status qk__extra_keys(const qk_sink *sink, json_t **root, qk_error *err)
{
    const char *text = sink->settings.extra_json ? sink->settings.extra_json : "{}";
    QK_TRY(qk__context(err, qk__json_parse(root, text, strlen(text), QK__JSON_GIVEN, err),
                       "extra_json"));
    if (json_is_object(*root))
        return QK_OK;
    json_decref(*root);
    *root = NULL;
    return qk__fail(err, QK_ERR_ARGUMENT, "extra_json: no JSON object");
}

static json_t *describe_keep(const qk_sink *sink, int stage)
{
    const qk_keep *keep = &sink->settings.keep;
    const bool attention = qk__keeps_attention(sink, stage);
    json_t *all = json_pack("{s:s, s:i, s:b, s:i}", "rows",
                            keep->rows            ? "all"
                            : keep->reservoir > 0 ? "reservoir"
                                                  : "none",
                            "reservoir", keep->reservoir, "moments", keep->moments, "groups",
                            keep->moments || attention ? keep->groups : 0);
    if (attention)
        all = qk__json_set(all, "attention", json_true());
    return keep->first > 0 ? qk__json_set(all, "first", json_integer(keep->first)) : all;
}

/* Rows before RoPE do not turn at the model's frequencies, so with them the frequencies stand beside the kind of
 * rotation. */
static json_t *add_rotation(const qk_sink *sink, int stage, json_t *root)
{
    const json_t *given = json_object_get(root, "rope");
    json_t *rope = given ? json_deep_copy(given)
                         : json_pack("{s:s}", "pairing",
                                     sink->settings.rope_interleaved ? "interleaved" : "half");
    if (!sink->settings.frequencies || stage == QK__POST) {
        root = qk__json_set(root, "rope", rope);
        return sink->settings.frequencies
                   ? qk__json_set(root, "rope_frequencies", list_frequencies(sink))
                   : root;
    }
    return qk__json_set(root, "rope",
                        qk__json_set(rope, "frequencies", list_frequencies(sink)));
}

static json_t *describe_stage(const qk_sink *sink, int stage, json_t *extra, json_t *examples)
{
    json_t *root = json_pack("{s:s, s:s, s:i, s:O, s:o}", "fingerprint", sink->fingerprint,
                             "stage", stage == QK__POST ? "post-rope" : "pre-rope",
                             "num_layers", sink->settings.num_layers, "run", sink->identity,
                             "keep", describe_keep(sink, stage));
    const char *key;
    json_t *value;
    json_object_foreach(extra, key, value) if (root && !json_object_get(root, key)) root =
        qk__json_set(root, key, json_incref(value));
    if (root)
        root = add_rotation(sink, stage, root);
    root = qk__json_set(root, "examples", examples);
    return qk__json_set(root, "examples_table", json_string("examples.csv"));
}

/* ---- buckets ---------------------------------------------------------------------------- */

/* The last counted bucket holds all further buckets, too. */
enum { COUNTED = 1 << 16, MAX_BUCKETS = 1000 };

typedef struct counting {
    const qk_sink *sink;
    int64_t heads; /* heads that have each row */
    int64_t *rows; /* [COUNTED] */
} counting;

static qk_status count_text(void *user, const qk__text_rows *text, qk_error *err)
{
    counting *c = user;
    (void)err;
    for (int64_t i = 0; i < text->rows; i++) {
        int64_t bucket = qk_sampler_bucket(&c->sink->settings.sampler, text->position[i]);
        c->rows[bucket < COUNTED ? bucket : COUNTED - 1] += c->heads;
    }
    return QK_OK;
}

static qk_status put_counts(const int64_t *rows, qk__buffer *out, qk_error *err)
{
    size_t listed = 0;
    int64_t rest = 0;
    QK_TRY(qk__buffer_printf(out, err, "- `bucket_counts`: `"));
    for (int i = 0; i < COUNTED; i++) {
        if (rows[i] == 0)
            continue;
        if (listed < MAX_BUCKETS && i < COUNTED - 1)
            QK_TRY(
                qk__buffer_printf(out, err, "%sb%d=%" PRId64, listed ? ", " : "", i, rows[i]));
        else
            rest += rows[i];
        listed++;
    }
    QK_TRY(qk__buffer_printf(out, err, "`"));
    if (rest > 0)
        QK_TRY(qk__buffer_printf(out, err, ", in further buckets %" PRId64, rest));
    return qk__buffer_printf(out, err, "\n");
}

/* Rows of all heads by bucket. */
static qk_status put_buckets(const qk__all_blocks *all, int stage, qk__buffer *out,
                             qk_error *err)
{
    const qk_sink *sink = all->sink;
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    counting c = {.sink = sink, .rows = qk__calloc(COUNTED, sizeof *c.rows)};
    qk_status status = c.rows ? QK_OK : qk__nomem(err);
    for (size_t part = 0; status == QK_OK && part < parts; part++) {
        const int *list;
        c.heads = (int64_t)qk__heads_of(sink, (int)(part / 2), (qk_kind)(part % 2), &list);
        if (c.heads > 0 && all->total.stored[part] > 0)
            status = qk__each_text(all, stage, part, count_text, &c, err);
    }
    if (status == QK_OK)
        status = put_counts(c.rows, out, err);
    free(c.rows);
    return status;
}

/* ---- the card --------------------------------------------------------------------------- */

static qk_status put_kept(const qk_sink *sink, int stage, qk__buffer *out, qk_error *err)
{
    const qk_keep *keep = &sink->settings.keep;
    const bool attention = qk__keeps_attention(sink, stage);
    if (!keep->moments && !attention)
        return QK_OK;
    QK_TRY(qk__buffer_printf(out, err, "- kept: %s%s%s%s", keep->rows ? "rows and " : "",
                             keep->moments ? "moments, a file a layer in `moments/`" : "",
                             keep->moments && attention ? ", and " : "",
                             attention ? "sums of attention, a file a layer in `attention/`"
                                       : ""));
    if (keep->groups > 0)
        QK_TRY(
            qk__buffer_printf(out, err, ", apart by up to %d groups of texts", keep->groups));
    if (keep->first > 0)
        QK_TRY(qk__buffer_printf(out, err, "; rows of positions below %d once more, apart",
                                 keep->first));
    if (keep->reservoir > 0)
        QK_TRY(qk__buffer_printf(out, err,
                                 "; of the rows %d of each text and bucket, chosen by a hash",
                                 keep->reservoir));
    return qk__buffer_printf(out, err, "\n");
}

static qk_status write_card(const qk__all_blocks *all, int stage, qk__buffer *out,
                            qk_error *err)
{
    const qk_sink *sink = all->sink;
    QK_TRY(qk__buffer_printf(out, err, "- stage: %s RoPE\n%s",
                             stage == QK__POST ? "after" : "before",
                             sink->settings.card ? sink->settings.card : ""));
    QK_TRY(put_kept(sink, stage, out, err));
    return qk__stores_rows(sink) ? put_buckets(all, stage, out, err) : QK_OK;
}

/* ---- both ------------------------------------------------------------------------------- */

qk_status qk__describe(const qk__all_blocks *all, int stage, char **json, char **card,
                       qk_error *err)
{
    qk__buffer text = {0};
    json_t *extra;
    *json = *card = NULL;
    QK_TRY(qk__extra_keys(all->sink, &extra, err));
    json_t *examples = json_array();
    qk_status status = each_example(all, MAX_LISTED, list_example, examples, err);
    if (status == QK_OK) {
        json_t *root = describe_stage(all->sink, stage, extra, json_incref(examples));
        *json = qk__json_dumps(root, JSON_REAL_PRECISION(17));
        json_decref(root);
        status = *json ? write_card(all, stage, &text, err) : qk__nomem(err);
    }
    json_decref(examples);
    json_decref(extra);
    if (status == QK_OK) {
        *card = (char *)text.data;
        return QK_OK;
    }
    free(*json);
    *json = NULL;
    qk__buffer_free(&text);
    return status;
}
