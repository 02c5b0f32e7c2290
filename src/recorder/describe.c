/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture says about itself: keys for capture.json, and the table of examples. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_build.h"
#include "base/number.h"
#include "recorder/recording.h"

/* Examples in capture.json, read whole by whoever opens it; the table has all of them. */
enum { MAX_LISTED = 1000 };

/* ---- rotation --------------------------------------------------------------------------- */

/* Frequencies by layer number; layers without rotation are left out. */
static json_t *list_frequencies(const qk_model_facts *facts)
{
    json_t *layers = json_object();
    for (int l = 0; layers && l < facts->num_layers; l++) {
        const qk_layer_facts *layer = &facts->layers[l];
        if (!layer->attends || !layer->frequencies)
            continue;
        char name[16];
        json_t *list = json_array();
        for (size_t i = 0; list && i < layer->num_frequencies; i++)
            list = qk__json_append(list, json_real(layer->frequencies[i]));
        snprintf(name, sizeof name, "%d", l);
        layers = qk__json_set(layers, name, list);
    }
    return layers;
}

static json_t *describe_rope(const qk_model_facts *facts)
{
    return json_pack("{s:s, s:f, s:s}", "type", facts->rope_type ? facts->rope_type : "none",
                     "theta", facts->rope_theta, "pairing",
                     facts->rope_interleaved ? "interleaved" : "half");
}

/* ---- the examples ----------------------------------------------------------------------- */

/* Calls take for every line of spool/examples, at most `limit` of them. */
typedef qk_status take_fn(void *user, json_t *example, qk_error *err);

static qk_status read_lines(FILE *file, int64_t bytes, int64_t limit, take_fn *take, void *user,
                            qk_error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    qk_status status = QK_OK;
    for (int64_t i = 0; status == QK_OK && bytes > 0 && i < limit; i++) {
        ssize_t got = getline(&line, &capacity, file);
        json_t *example;
        bytes -= got;
        status =
            qk__json_parse(&example, line, got > 0 ? (size_t)got : 0, QK__JSON_NO_ZEROS, NULL);
        if (status == QK_OK)
            status = take(user, example, err);
        else if (status == QK_ERR_NOMEM)
            status = qk__nomem(err);
        else
            status =
                qk__fail(err, status, "the list of examples of the unfinished run is damaged");
        json_decref(example);
    }
    free(line);
    return status;
}

static qk_status each_example(const qk__recording *r, int64_t limit, take_fn *take, void *user,
                              qk_error *err)
{
    char *path = qk__path_join(r->spool, "examples");
    if (!path)
        return qk__nomem(err);
    FILE *file = fopen(path, "rb");
    qk_status status =
        file ? read_lines(file, r->journal.example_bytes, limit, take, user, err)
             : qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (file)
        fclose(file);
    free(path);
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

static const char *text_in(const json_t *example, const char *key)
{
    const char *text = json_string_value(json_object_get(example, key));
    return text ? text : "";
}

static qk_status make_row(json_t *example, qk__buffer *row, qk_error *err)
{
    bool truncated = json_is_true(json_object_get(example, "truncated"));
    QK_TRY(qk__csv_integer(row, number_in(example, "example_id"), ',', err));
    QK_TRY(qk__csv_text(row, text_in(example, "source"), ',', err));
    QK_TRY(qk__csv_text(row, text_in(example, "source_id"), ',', err));
    QK_TRY(qk__csv_integer(row, number_in(example, "tokens"), ',', err));
    QK_TRY(qk__csv_integer(row, truncated, ',', err));
    QK_TRY(qk__csv_integer(row, number_in(example, "window"), ',', err));
    return qk__csv_integer(row, number_in(example, "first_token"), '\n', err);
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

qk_status qk__write_examples(const qk__recording *r, const char *dir, qk_error *err)
{
    static const char HEADER[] =
        "example_id,source,source_id,tokens,truncated,window,first_token\n";
    qk__outfile *file = NULL;
    char *path = qk__path_join(dir, "examples.csv");
    qk_status status = path ? qk__outfile_open(&file, path, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__outfile_write(file, HEADER, sizeof HEADER - 1, err);
    if (status == QK_OK)
        status = each_example(r, INT64_MAX, write_example, file, err);
    if (status == QK_OK)
        status = qk__outfile_commit(&file, err);
    qk__outfile_discard(&file);
    free(path);
    return status;
}

/* ---- capture.json ----------------------------------------------------------------------- */

static json_t *warn(json_t *list, int64_t count, const char *one, const char *many)
{
    if (count == 0)
        return list;
    return qk__json_append(list, count == 1
                                     ? json_sprintf("1 text %s", one)
                                     : json_sprintf("%" PRId64 " texts %s", count, many));
}

static json_t *list_warnings(const qk__recording *r)
{
    json_t *list = json_array();
    list = warn(list, r->journal.cut, "was longer than max_length and was cut",
                "were longer than max_length and were cut");
    list = warn(list, r->journal.skipped, "was longer than max_length and was passed over",
                "were longer than max_length and were passed over");
    list = warn(list, r->journal.empty, "had no tokens and was passed over",
                "had no tokens and were passed over");
    if (r->max_length > r->facts->max_positions)
        list = qk__json_append(list, json_sprintf("max_length %" PRId64
                                                  " is above the model's %" PRId64 " positions",
                                                  r->max_length, r->facts->max_positions));
    return list;
}

/* Under the names of the original, which counts what was drawn. */
static json_t *describe_draw(const qk__recording *r)
{
    const qk_recorder_settings *s = r->settings;
    const qk_recorder_selection *sel = r->selection;
    if (s->sample_heads == 0)
        return json_null();
    return json_pack("{s:s, s:I, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:b, s:b, s:i}", "strategy",
                     "random_query", "seed", (json_int_t)s->head_seed, "requested_query_heads",
                     s->sample_heads, "selected_query_heads", (json_int_t)sel->drawn_q,
                     "selected_key_heads", (json_int_t)sel->drawn_k, "candidates",
                     (json_int_t)sel->candidates, "num_layers", sel->num_layers,
                     "num_query_heads", sel->num_q_heads, "num_key_heads", sel->num_k_heads,
                     "full_attention_only", s->full_attention_only, "compat", s->compat,
                     "sliding_layer_count", sel->sliding_layers);
}

static json_t *describe_stage(const qk__recording *r, int stage, json_t *examples)
{
    const qk__journal *j = &r->journal;
    json_t *rope = describe_rope(r->facts);
    if (stage == QK__PRE) /* rows that were not rotated do not turn at these */
        rope = qk__json_set(rope, "frequencies", list_frequencies(r->facts));
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:O, s:o, s:o, s:o, s:o, s:o, s:s}", "fingerprint", r->fingerprint,
        "stage", stage == QK__POST ? "post-rope" : "pre-rope", "num_layers",
        r->facts->num_layers, "run", r->identity, "rope", rope, "head_sampling",
        describe_draw(r), "texts",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "count", (json_int_t)j->texts,
                  "windows", (json_int_t)j->windows, "tokens", (json_int_t)j->tokens, "split",
                  (json_int_t)j->split, "truncated", (json_int_t)j->cut, "skipped",
                  (json_int_t)j->skipped, "empty", (json_int_t)j->empty, "positions_of",
                  r->settings->long_texts == QK_LONG_SPLIT ? "window" : "text"),
        "warnings", list_warnings(r), "examples", examples, "examples_table", "examples.csv");
    if (stage == QK__POST)
        root = qk__json_set(root, "rope_frequencies", list_frequencies(r->facts));
    return root;
}

/* ---- both ------------------------------------------------------------------------------- */

qk_status qk__describe(const qk__recording *r, int stage, char **json, char **card,
                       qk_error *err)
{
    qk__buffer text = {0};
    *json = *card = NULL;
    json_t *examples = json_array();
    qk_status status = each_example(r, MAX_LISTED, list_example, examples, err);
    if (status != QK_OK) {
        json_decref(examples);
        return status;
    }
    json_t *root = describe_stage(r, stage, examples);
    *json = qk__json_dumps(root, JSON_REAL_PRECISION(17));
    json_decref(root);
    status = *json ? qk__write_card(r, stage, &text, err) : qk__nomem(err);
    if (status == QK_OK) {
        *card = (char *)text.data;
        return QK_OK;
    }
    free(*json);
    *json = NULL;
    qk__buffer_free(&text);
    return status;
}
