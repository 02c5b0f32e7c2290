/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture holds, as text and as JSON; what both kinds of inspect share. */
#include "inspect_capture.h"

#include <inttypes.h>
#include <string.h>

static const char *const SOURCES[] = {"given", "from capture.json", "inferred"};

/* Values of a list are printed up to this many. */
enum { MAX_VALUES = 12 };

/* ---- shared ------------------------------------------------------------------------------ */

void cli_print_line(const char *label, const char *text, const char *rest)
{
    cli_print("%-12s%s%s\n", label, text, rest);
}

void cli_print_encodings(uint32_t encodings)
{
    for (int e = 0; e < 32; e++)
        if (encodings >> e & 1)
            cli_print(" %s", qk_parquet_encoding_name(e));
}

json_t *cli_encodings_json(uint32_t encodings)
{
    json_t *list = json_array();
    for (int e = 0; e < 32; e++)
        if (encodings >> e & 1)
            json_array_append_new(list, json_string(qk_parquet_encoding_name(e)));
    return list;
}

json_t *cli_range_json(bool has, int64_t first, int64_t last)
{
    return has ? json_pack("[I, I]", (json_int_t)first, (json_int_t)last) : NULL;
}

/* ---- a capture -------------------------------------------------------------------------- */

static size_t count_kind(const qk_inspection *in, qk_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < in->num_heads; i++)
        count += in->heads[i].id.kind == kind;
    return count;
}

/* Heads are sorted by layer. */
static size_t count_layers(const qk_inspection *in)
{
    size_t count = 0;
    for (size_t i = 0; i < in->num_heads; i++)
        count += i == 0 || in->heads[i].id.layer != in->heads[i - 1].id.layer;
    return count;
}

static void print_values(const char *label, const qk_values *values)
{
    cli_print("%-12s", label);
    if (values->count == 0)
        cli_print("none");
    else if (values->count > MAX_VALUES)
        cli_print("%zu, from %" PRId64 " to %" PRId64, values->count, values->items[0],
                  values->items[values->count - 1]);
    for (size_t i = 0; values->count <= MAX_VALUES && i < values->count; i++)
        cli_print("%s%" PRId64, i ? ", " : "", values->items[i]);
    putchar('\n');
}

/* Footers tell the ends alone. */
static void print_known_values(const qk_inspection *in, const char *label,
                               const qk_values *values)
{
    if (!in->footers)
        print_values(label, values);
    else if (values->count < 2)
        cli_print(values->count ? "%-12s%" PRId64 "\n" : "%-12snot known\n", label,
                  values->count ? values->items[0] : 0);
    else
        cli_print("%-12sfrom %" PRId64 " to %" PRId64 "\n", label, values->items[0],
                  values->items[values->count - 1]);
}

static void print_windows(const qk_inspection *in)
{
    size_t windowed = 0;
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_values *windows = &in->heads[i].windows;
        windowed += windows->count > 0 && windows->items[windows->count - 1] > 0;
    }
    if (windowed == 0 && in->footers && in->windows.count == 0) {
        cli_print("%-12snot known\n", "windows");
        return;
    }
    if (windowed == 0) {
        cli_print("%-12snone: full attention\n", "windows");
        return;
    }
    print_known_values(in, "windows", &in->windows);
    cli_print("%-12sin %zu of %zu heads (0 = full attention)\n", "", windowed, in->num_heads);
}

static void print_group(const qk_inspection *in)
{
    cli_print("%-12s", "group size");
    if (!in->has_group) {
        cli_print("unknown: %s\n", in->group_message);
        return;
    }
    cli_print("%d query head%s per key head (%s", in->group.size, cli_s(in->group.size),
              SOURCES[in->group.source]);
    if (!in->group.consistent && in->group.alternative)
        cli_print("; does not fit the heads present, %d does", in->group.alternative);
    else if (!in->group.consistent)
        cli_print("; does not fit the heads present");
    else if (in->group.source == QK_GROUP_INFERRED && in->group.num_consistent > 1)
        cli_print("; the smallest of %d that fit", in->group.num_consistent);
    cli_print(")\n");
}

/* Codec and encodings of the vectors, of all heads together. */
static void print_storage(const qk_inspection *in)
{
    uint32_t encodings = 0;
    const char *codec = "";
    const char *writer = "";
    bool several = false;
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_head_inspection *head = &in->heads[i];
        if (head->status != QK_OK || head->files == 0)
            continue;
        encodings |= head->encodings;
        codec = *codec && strcmp(codec, head->codec) != 0 ? "mixed codecs" : head->codec;
        several |= *writer && strcmp(writer, head->created_by) != 0;
        writer = head->created_by;
    }
    cli_print("%-12s%zu file%s%s, %.1f MB, %s:", "storage", in->num_files,
              cli_s((int64_t)in->num_files), in->packed ? " (packed)" : "",
              (double)in->bytes / 1e6, codec);
    cli_print_encodings(encodings);
    putchar('\n');
    cli_print_line("written by", *writer ? writer : "(not recorded)",
                   several ? " and others" : "");
}

static void print_head(const qk_inspection *in, const qk_head_inspection *head,
                       const char *name)
{
    cli_print("%-10s %9" PRId64 " %5zu", name, head->rows > 0 ? head->rows : head->summed,
              head->dim);
    if (head->has_positions)
        cli_print(" %10" PRId64 " %10" PRId64, head->position_min, head->position_max);
    else
        cli_print(" %10s %10s", "-", "-");
    if (in->footers)
        cli_print(" %8s %8s", "-", "-");
    else
        cli_print(" %8zu %8zu", head->buckets.count, head->examples.count);
    cli_print(" %9.1f  %s%s\n", (double)head->bytes / 1e3, head->codec,
              head->wide ? ", float64" : "");
}

static void print_heads(const qk_inspection *in)
{
    cli_print("\n%-10s %9s %5s %10s %10s %8s %8s %9s  %s\n", "head", "rows", "d", "first pos",
              "last pos", "buckets", "examples", "kB", "vectors");
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_head_inspection *head = &in->heads[i];
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(head->id, name);
        if (head->status != QK_OK)
            cli_print("%-10s %s\n", name, qk_status_text(head->status));
        else
            print_head(in, head, name);
    }
}

/* What there is in the place of rows, or besides them. */
static void print_kept(const qk_inspection *in)
{
    static const char *const ROWS_KEPT[] = {[QK_ROWS_ALL] = "all rows",
                                            [QK_ROWS_NONE] = "no rows",
                                            [QK_ROWS_RESERVOIR] = "a reservoir of rows"};
    if (!in->has_moments && in->kept == QK_ROWS_ALL)
        return;
    cli_print("%-12s%s", "kept", ROWS_KEPT[in->kept]);
    if (in->kept == QK_ROWS_RESERVOIR)
        cli_print(", up to %d of a bucket and text", in->reservoir);
    if (in->has_moments)
        cli_print("; moments of %" PRId64 " rows", in->summed);
    if (in->has_moments && in->groups > 0)
        cli_print(", in up to %d groups of texts", in->groups);
    putchar('\n');
    if (in->has_moments)
        cli_print("%-12s%zu file%s, %.1f MB\n", "moments", in->moments_files,
                  cli_s((int64_t)in->moments_files), (double)in->moments_bytes / 1e6);
}

/* What the Hub was asked, and what is not told by that. */
static void print_hub(const qk_inspection *in)
{
    if (!in->commit)
        return;
    cli_print("%-12s%.12s", "commit", in->commit);
    if (in->wanted_files > 0) /* else nobody knows */
        cli_print(", %zu of %zu files in the cache", in->cached_files, in->wanted_files);
    if (in->footers)
        cli_print("; footers by %" PRId64 " request%s, %.1f kB", in->requests,
                  cli_s(in->requests), (double)in->fetched_bytes / 1e3);
    putchar('\n');
}

static void print_text(const qk_inspection *in)
{
    cli_print_line("capture", in->path, "");
    print_hub(in);
    if (*in->prefix)
        cli_print_line("prefix", in->prefix, "");
    cli_print_line("model", *in->model ? in->model : "(not recorded)",
                   in->complete ? "" : " - the capture was not finished");
    size_t layers = count_layers(in);
    cli_print("%-12s%zu in %zu layer%s: %zu query, %zu key\n", "heads", in->num_heads, layers,
              cli_s((int64_t)layers), count_kind(in, QK_QUERY), count_kind(in, QK_KEY));
    print_group(in);
    if (in->dim > 0)
        cli_print("%-12s%zu\n", "dimension", in->dim);
    else
        cli_print("%-12s%s\n", "dimension",
                  in->rows + in->summed > 0 ? "differs between heads" : "unknown");
    cli_print("%-12s%" PRId64 "\n", "rows", in->rows);
    print_kept(in);
    if (in->has_positions)
        cli_print("%-12s%" PRId64 " to %" PRId64 "\n", "positions", in->position_min,
                  in->position_max);
    print_known_values(in, "buckets", &in->buckets);
    if (in->footers)
        cli_print("%-12snot counted", "examples");
    else
        cli_print("%-12s%zu", "examples", in->num_examples);
    if (in->num_windows > 0 && in->num_windows != in->num_texts)
        cli_print(", of %" PRId64 " text%s in %" PRId64 " window%s", in->num_texts,
                  cli_s(in->num_texts), in->num_windows, cli_s(in->num_windows));
    putchar('\n');
    if (in->kept == QK_ROWS_NONE)
        return; /* there are no columns to tell of windows, and no files of rows */
    print_windows(in);
    print_storage(in);
}

/* ---- as JSON ---------------------------------------------------------------------------- */

static json_t *values_json(const qk_values *values)
{
    json_t *list = json_array();
    for (size_t i = 0; i < values->count; i++)
        json_array_append_new(list, json_integer((json_int_t)values->items[i]));
    return list;
}

static const char *message_of(const qk_head_inspection *head)
{
    return head->message ? head->message : "out of memory";
}

/* All heads of a packed file that cannot be read say the same. */
static bool is_told_before(const qk_inspection *in, size_t i)
{
    for (size_t k = i; k-- > 0 && in->heads[k].id.layer == in->heads[i].id.layer;)
        if (in->heads[k].status != QK_OK &&
            strcmp(message_of(&in->heads[k]), message_of(&in->heads[i])) == 0)
            return true;
    return false;
}

/* An object, lest the ends be taken for all there is. */
static json_t *known_values_json(bool footers, const qk_values *values)
{
    if (!footers)
        return values_json(values);
    return values->count == 0 ? json_null()
                              : json_pack("{s:I, s:I}", "min", (json_int_t)values->items[0],
                                          "max", (json_int_t)values->items[values->count - 1]);
}

static json_t *hub_json(const qk_inspection *in)
{
    return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I}", "commit", in->commit, "footers",
                     in->footers, "files", (json_int_t)in->wanted_files, "cached_files",
                     (json_int_t)in->cached_files, "requests", (json_int_t)in->requests,
                     "fetched_bytes", (json_int_t)in->fetched_bytes);
}

static json_t *head_json(const qk_head_inspection *head, bool footers)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(head->id, name);
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:s, s:I, s:I}", "name", name, "layer", head->id.layer,
                  "head", head->id.head, "kind", head->id.kind == QK_QUERY ? "q" : "k", "files",
                  (json_int_t)head->files, "bytes", (json_int_t)head->bytes);
    if (head->status != QK_OK) {
        json_object_set_new(
            object, "error",
            cli_json_text(head->message ? head->message : qk_status_text(head->status)));
        return object;
    }
    json_t *counts = json_pack(
        "{s:I, s:I, s:o*, s:o?, s:o?, s:o, s:i, s:s, s:o, s:b, s:o}", "rows",
        (json_int_t)head->rows, "dim", (json_int_t)head->dim, "positions",
        cli_range_json(head->has_positions, head->position_min, head->position_max), "buckets",
        head->has_bucket ? known_values_json(footers, &head->buckets) : NULL, "examples",
        head->has_example ? json_integer((json_int_t)head->examples.count) : NULL, "windows",
        known_values_json(footers, &head->windows), "row_groups", head->row_groups, "codec",
        head->codec, "encodings", cli_encodings_json(head->encodings), "float64", head->wide,
        "created_by", cli_json_text(head->created_by ? head->created_by : ""));
    json_object_update(object, counts);
    json_decref(counts);
    if (head->summed > 0)
        json_object_set_new(object, "summed", json_integer((json_int_t)head->summed));
    return object;
}

static json_t *group_json(const qk_inspection *in)
{
    if (!in->has_group)
        return json_null();
    return json_pack("{s:i, s:s, s:b, s:i}", "size", in->group.size, "source",
                     SOURCES[in->group.source], "consistent", in->group.consistent,
                     "num_consistent", in->group.num_consistent);
}

static json_t *kept_json(const qk_inspection *in)
{
    static const char *const WORDS[] = {
        [QK_ROWS_ALL] = "all", [QK_ROWS_NONE] = "none", [QK_ROWS_RESERVOIR] = "reservoir"};
    return json_pack("{s:s, s:i, s:b, s:i, s:I, s:I, s:I}", "rows", WORDS[in->kept],
                     "reservoir", in->reservoir, "moments", in->has_moments, "groups",
                     in->groups, "summed", (json_int_t)in->summed, "files",
                     (json_int_t)in->moments_files, "bytes", (json_int_t)in->moments_bytes);
}

static void print_json(const qk_inspection *in)
{
    json_t *heads = json_array();
    for (size_t i = 0; i < in->num_heads; i++)
        json_array_append_new(heads, head_json(&in->heads[i], in->footers));
    json_t *texts = in->num_windows > 0
                        ? json_pack("{s:I, s:I}", "count", (json_int_t)in->num_texts, "windows",
                                    (json_int_t)in->num_windows)
                        : NULL;
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:b, s:b, s:o?, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:o?, s:o?, s:o, "
        "s:o, s:o?, s:o, s:o}",
        "capture", cli_json_text(in->path), "prefix", cli_json_text(in->prefix), "model",
        cli_json_text(in->model), "has_manifest", in->has_manifest, "complete", in->complete,
        "group", group_json(in), "num_heads", (json_int_t)in->num_heads, "num_layers",
        (json_int_t)count_layers(in), "num_failed", (json_int_t)in->num_failed, "files",
        (json_int_t)in->num_files, "packed", in->packed, "bytes", (json_int_t)in->bytes, "rows",
        (json_int_t)in->rows, "dim", in->dim ? json_integer((json_int_t)in->dim) : NULL,
        "positions", cli_range_json(in->has_positions, in->position_min, in->position_max),
        "buckets", known_values_json(in->footers, &in->buckets), "examples",
        in->footers ? json_null() : json_integer((json_int_t)in->num_examples), "texts", texts,
        "windows", known_values_json(in->footers, &in->windows), "heads", heads);
    if (in->commit)
        json_object_set_new(object, "hub", hub_json(in));
    if (in->has_moments || in->kept != QK_ROWS_ALL)
        json_object_set_new(object, "kept", kept_json(in));
    cli_json_print(object);
}

/* ---- both ------------------------------------------------------------------------------- */

int cli_print_capture(const qk_inspection *in, const cli_common *common, bool heads)
{
    for (size_t i = 0; i < in->num_heads; i++)
        if (in->heads[i].status != QK_OK &&
            (in->heads[i].files > 0 || in->kept == QK_ROWS_NONE) && !is_told_before(in, i))
            cli_error("%s", message_of(&in->heads[i]));
    if (in->num_missing > 0)
        cli_error("warning: %s: %zu of the %zu heads that capture.json lists are not there: %s",
                  in->path, in->num_missing, in->num_heads, in->missing);
    if (common->json)
        print_json(in);
    else if (!common->quiet)
        print_text(in);
    if (heads && !common->json && !common->quiet)
        print_heads(in);
    if (in->num_failed > 0)
        cli_error("%zu of %zu heads cannot be read", in->num_failed, in->num_heads);
    return in->num_failed == 0               ? EXIT_CODE_OK
           : in->num_failed == in->num_heads ? EXIT_CODE_FAILURE
                                             : EXIT_CODE_PARTIAL;
}
