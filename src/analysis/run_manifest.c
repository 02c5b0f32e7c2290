/* SPDX-License-Identifier: Apache-2.0 */
/* What manifest.json says of a run: what was run on which files with which settings, so that a
 * result can be traced and repeated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include <qkscope/common.h>

#include "analysis/run.h"
#include "analysis/run_manifest.h"
#include "analysis/run_states.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json_build.h"
#include "capture/capture.h"
#include "capture/packed_file.h"
#include "schema/schema.h"
#include "tables/text_lengths.h"
#include "settings/settings_json.h"
#include "stats/gram.h"

static json_t *list_analyses(unsigned analyses)
{
    json_t *array = json_array();
    for (const qk_word *w = qk__analyses; w->text; w++)
        if (analyses & (unsigned)w->value)
            array = qk__json_append(array, json_string(w->text));
    if (analyses & QK__ANALYSE_STAGES)
        array = qk__json_append(array, json_string("stages"));
    return array;
}

/* Leaves out the settings of analyses that were not asked for. */
json_t *qk__describe_settings(const qk_analysis_settings *s)
{
    json_t *root = qk__json_set(json_object(), "analyses", list_analyses(s->analyses));
    root = qk__json_settings(root, &qk_analysis_settings_table, s);
    for (const qk_word *w = qk__analyses; root && w->text; w++)
        if (!(s->analyses & (unsigned)w->value))
            json_object_del(root, w->text);
    return root;
}

char *qk__input_name(const qk__run *run, const qk__input *input)
{
    const char *path = input->path;
    size_t root = strlen(qk_capture_path(run->capture));
    if (strncmp(path, qk_capture_path(run->capture), root) == 0)
        path += root + strspn(path + root, "/");
    return input->head && input->head->parts ? qk__format("%s#%d", path, input->head->id.head)
                                             : qk__strdup(path);
}

static bool is_input(const qk__run *run, qk__input candidate, const char *name,
                     qk__input *input)
{
    char *own = qk__input_name(run, &candidate);
    bool is = own && strcmp(own, name) == 0;
    free(own);
    *input = candidate;
    return is;
}

static bool find_layer(const qk__run *run, const char *name, qk__input *input)
{
    for (size_t i = 0; i < run->states.files; i++)
        if (is_input(run, (qk__input){.path = run->states.layers[i].path}, name, input))
            return true;
    return false;
}

bool qk__input_find(const qk__run *run, const char *name, qk__input *input)
{
    qk_head_id id;
    char folder[QK_HEAD_NAME_SIZE] = "";
    const char *mark = strrchr(name, '#');
    size_t length = strcspn(name, "/");
    if (length < sizeof folder)
        memcpy(folder, name, length);
    if (mark && qk__layer_parse(folder, &id))
        id.head = atoi(mark + 1);
    else if (!qk_head_parse(folder, &id))
        return find_layer(run, name, input);
    const qk_head *head = qk_capture_find(run->capture, id);
    for (size_t i = 0; head && i < head->num_files; i++)
        if (is_input(run, (qk__input){.path = head->files[i], .head = head, .file = i}, name,
                     input))
            return true;
    return false;
}

qk_status qk__input_print(const qk__input *input, bool hash, qk__file_print *print)
{
    if (input->head)
        return qk__head_file_print(input->head, input->file, NULL, hash, print, NULL);
    return qk__fingerprint_file(input->path, &print->bytes, print->hash, NULL);
}

static json_t *list_inputs(const qk__run *run)
{
    json_t *array = json_array();
    for (size_t i = 0; i < run->num_inputs; i++) {
        const qk__input *input = &run->inputs[i];
        if (!input->path) /* belongs to a head that was not asked for */
            continue;
        char *name = qk__input_name(run, input);
        array = qk__json_append(
            array,
            json_pack("{s:o, s:I, s:o}", "file", name ? qk__json_text(name) : NULL, "bytes",
                      (json_int_t)input->print.bytes, "xxh3_128",
                      input->print.hash[0] ? json_string(input->print.hash) : json_null()));
        free(name);
    }
    return array;
}

/* capture.json is an input, too: the group size and the model's frequencies come from it. */
json_t *qk__describe_capture_json(const qk__run *run)
{
    size_t length = strlen(qk_capture_path(run->capture));
    size_t prefix = strlen(qk_capture_prefix(run->capture));
    int64_t bytes;
    char hash[QK__FINGERPRINT_SIZE];
    qk_status status = QK_ERR_NOT_FOUND;
    if (!qk_capture_get_info(run->capture)->has_manifest)
        return json_null();
    /* beside the heads, else in the folder that was given */
    for (int i = 0; i < 2 && status != QK_OK; i++) {
        qk__buffer path = {0};
        status = qk__buffer_printf(&path, NULL, "%.*s/capture.json",
                                   (int)(i == 0 ? length : length - prefix),
                                   qk_capture_path(run->capture));
        if (status == QK_OK)
            status = qk__fingerprint_file((char *)path.data, &bytes, hash, NULL);
        qk__buffer_free(&path);
    }
    if (status == QK_ERR_NOMEM)
        return NULL;
    return status == QK_OK
               ? json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "xxh3_128", hash)
               : json_null();
}

static json_t *list_failures(const qk_analysis_results *results)
{
    json_t *array = json_array();
    for (size_t i = 0; i < results->num_heads; i++) {
        const qk_head_results *head = &results->heads[i];
        char name[QK_HEAD_NAME_SIZE];
        if (head->status == QK_OK)
            continue;
        qk_head_name(head->id, name);
        array = qk__json_append(array, json_pack("{s:s, s:s, s:o}", "head", name, "reason",
                                                 qk_status_text(head->status), "message",
                                                 qk__json_text(head->message)));
    }
    return array;
}

json_t *qk__describe_group(const qk_group *group)
{
    static const char *const sources[] = {"given", "capture.json", "inferred"};
    if (group->size == 0)
        return json_null();
    return json_pack("{s:i, s:s, s:b, s:i}", "q_per_kv_group", group->size, "source",
                     sources[group->source], "consistent", group->consistent, "num_consistent",
                     group->num_consistent);
}

/* The buckets of plasticity, where it was asked for. */
static json_t *describe_buckets(const qk__run *run)
{
    const qk__buckets *b = &run->buckets;
    double width = run->results->plasticity.bucket_width;
    if (!qk__run_does(run, QK_ANALYSE_PLASTICITY))
        return json_null();
    if (b->count == 0)
        return isfinite(width) ? json_pack("{s:s, s:f}", "from", "capture", "width", width)
                               : json_pack("{s:s}", "from", "capture");
    return json_pack("{s:s, s:i, s:I, s:I, s:o}", "from", "positions", "count", b->count,
                     "first_position", (json_int_t)b->first, "last_position",
                     (json_int_t)b->last, "width", qk__json_number(qk__buckets_width(b)));
}

/* What of the capture decides numbers: compare and study warn where it differs. null: not told. */
static json_t *describe_capture(const qk__run *run, json_t *root)
{
    static const char *const STAGES[] = {
        [QK_STAGE_PRE_ROPE] = "pre-rope", [QK_STAGE_POST_ROPE] = "post-rope"};
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    root = qk__json_set(root, "stage", qk__json_text_or_null(STAGES[info->stage]));
    return qk__json_set(root, "sampler",
                        qk__json_text_or_null(*info->sampler ? info->sampler : NULL));
}

/* When and where: what a reader of the report asks first. */
static json_t *describe_occasion(json_t *root)
{
    struct utsname system;
    char date[QK__DATE_SIZE];
    root = qk__json_set(root, "date", json_string(qk__date(date)));
    return qk__json_set(root, "host",
                        qk__json_text_or_null(uname(&system) == 0 ? system.nodename : NULL));
}

json_t *qk__describe_run(const qk__run *run)
{
    const qk_analysis_settings *s = run->settings;
    const qk_analysis_results *results = run->results;
    json_t *timings = json_pack("{s:o, s:o, s:o}", "open", qk__json_number(run->seconds_open),
                                "heads", qk__json_number(run->seconds_heads), "tables",
                                qk__json_number(run->seconds_tables));
    json_t *root = json_pack(
        "{s:s, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:i, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
        "qkscope", QK_VERSION, "command_line", qk__json_text_or_null(s->command_line),
        "capture", qk__json_text(results->capture), "model", qk__json_text(results->model),
        "num_layers", results->num_layers, "group", qk__describe_group(&results->group),
        "settings", qk__describe_settings(s), "buckets", describe_buckets(run), "threads",
        results->threads, "kernel", qk__moments_kernel(), "heads",
        (json_int_t)results->num_heads, "heads_without_numbers",
        (json_int_t)results->num_failed + (json_int_t)results->num_missing, "rows",
        (json_int_t)results->num_rows, "failures", list_failures(results), "seconds", timings,
        "capture_json", qk__describe_capture_json(run), "inputs", list_inputs(run));
    root = qk__json_set(describe_occasion(root), "warnings", json_incref(run->warnings));
    root = qk__json_set(root, "lengths", qk__lengths_to_json(&results->lengths));
    root = describe_capture(run, root);
    const qk__run *before = run->before_rope;
    if (run->states.count > 0)
        root = qk__json_set(root, "kept", qk__states_describe(run));
    if (!before)
        return root;
    return qk__json_set(root, "before_rope",
                        json_pack("{s:o, s:o, s:o, s:O}", "capture",
                                  qk__json_text(qk_capture_path(before->capture)),
                                  "capture_json", qk__describe_capture_json(before), "inputs",
                                  list_inputs(before), "warnings", before->warnings));
}
