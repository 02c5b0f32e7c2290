/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture holds, as text and as JSON; and what `inspect` shares between its kinds. */
#include "inspect_capture.h"

#include <inttypes.h>
#include <string.h>

static const char *const SOURCES[] = {"given", "from capture.json", "inferred"};

/* Values of a list are printed up to this many. */
enum { MAX_VALUES = 12 };

/* ---- shared ------------------------------------------------------------------------------ */

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

static void print_windows(const qk_inspection *in)
{
    size_t windowed = 0;
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_values *windows = &in->heads[i].windows;
        windowed += windows->count > 0 && windows->items[windows->count - 1] > 0;
    }
    if (windowed == 0) {
        cli_print("windows     none: full attention\n");
        return;
    }
    print_values("windows", &in->windows);
    cli_print("%-12sin %zu of %zu heads (0 = full attention)\n", "", windowed, in->num_heads);
}

/* Codec and encodings of the vectors of all heads. */
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
    cli_say("storage     {files} file{s}[ (packed){packed?}], {bytes:MB}, {codec}:",
            CLI_ROWS(CLI_ROW("files", in->num_files), CLI_OF(in, packed), CLI_OF(in, bytes),
                     CLI_ROW("codec", codec)));
    cli_print_encodings(encodings);
    putchar('\n');
    cli_print("written by  %s%s\n", *writer ? writer : "(not recorded)",
              several ? " and others" : "");
}

static void print_head(const qk_head_inspection *head, const char *name)
{
    cli_print("%-10s %9" PRId64 " %5zu", name, head->rows > 0 ? head->rows : head->summed,
              head->dim);
    if (head->has_positions)
        cli_print(" %10" PRId64 " %10" PRId64, head->position_min, head->position_max);
    else
        cli_print(" %10s %10s", "-", "-");
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
            print_head(head, name);
    }
}

/* What is told of the whole capture. Files that replace rows are told of only where there are any. */
static const char CAPTURE[] =
    "capture     {capture}\n"
    "[prefix      {prefix}\n]"
    "model       {model}[(not recorded){model!}][ - the capture was not finished{complete!}]\n"
    "heads       {num_heads} in {num_layers} layer{s}: {num_q} query, {num_k} key\n"
    "group size  [{group.size} query head{s} per key head ({group.source}"
    "[{group.consistent!}; does not fit the heads present[, {other_size} does]]"
    "[{smallest?}, a guess: {other_size} fits too, with other pairs])][unknown: {no_group}]\n"
    "dimension   [{dim}][{differs?}differs between heads][unknown{dim!}{differs!}]\n"
    "rows        {rows}\n"
    "[kept        {rows_kept}[{kept.reservoir?}, up to {kept.reservoir} of a bucket and text]"
    "[{kept.moments?}; moments of {kept.summed} rows[, in up to {kept.groups} groups of "
    "texts]][{kept.attention?}; sums of attention]\n"
    "[{kept.moments?}moments     {kept.files} file{s}, {kept.bytes:MB}\n]]"
    "[{has_positions?}positions   {first_position} to {last_position}\n]";

static void print_rest(const qk_inspection *in)
{
    print_values("buckets", &in->buckets);
    cli_print("%-12s%zu", "examples", in->num_examples);
    if (in->num_windows > 0 && in->num_windows != in->num_texts)
        cli_print(", of %" PRId64 " text%s in %" PRId64 " window%s", in->num_texts,
                  cli_s(in->num_texts), in->num_windows, cli_s(in->num_windows));
    putchar('\n');
    if (in->kept == QK_ROWS_NONE)
        return; /* without files of rows there are no columns for windows */
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

/* All heads of an unreadable packed file have the same message. */
static bool is_told_before(const qk_inspection *in, size_t i)
{
    for (size_t k = i; k-- > 0 && in->heads[k].id.layer == in->heads[i].id.layer;)
        if (in->heads[k].status != QK_OK &&
            strcmp(message_of(&in->heads[k]), message_of(&in->heads[i])) == 0)
            return true;
    return false;
}

static json_t *head_json(const qk_head_inspection *head)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(head->id, name);
    bool read = head->status == QK_OK;
    return cli_object(CLI_ROWS(
        CLI_ROW("name", (char *)name), CLI_ROW("layer", head->id.layer),
        CLI_ROW("head", head->id.head), CLI_ROW("kind", head->id.kind == QK_QUERY ? "q" : "k"),
        CLI_OF(head, files), CLI_OF(head, bytes),
        CLI_ROW_IF(!read, "error",
                   head->message ? head->message : qk_status_text(head->status)),
        CLI_ROW_IF(read, "rows", head->rows), CLI_ROW_IF(read, "dim", head->dim),
        CLI_ROW_IF(read && head->has_positions, "positions",
                   cli_range_json(true, head->position_min, head->position_max)),
        CLI_ROW_IF(read, "buckets", head->has_bucket ? values_json(&head->buckets) : NULL),
        CLI_ROW_IF(read, "examples",
                   head->has_example ? json_integer((json_int_t)head->examples.count) : NULL),
        CLI_ROW_IF(read, "windows", values_json(&head->windows)),
        CLI_ROW_IF(read, "row_groups", head->row_groups),
        CLI_ROW_IF(read, "codec", head->codec),
        CLI_ROW_IF(read, "encodings", cli_encodings_json(head->encodings)),
        CLI_ROW_IF(read, "float64", head->wide),
        CLI_ROW_IF(read, "created_by", head->created_by ? head->created_by : ""),
        CLI_ROW_IF(read && head->summed > 0, "summed", head->summed)));
}

static json_t *group_json(const qk_group *group)
{
    return cli_object(CLI_ROWS(CLI_OF(group, size), CLI_ROW("source", SOURCES[group->source]),
                               CLI_OF(group, consistent), CLI_OF(group, num_consistent)));
}

static json_t *kept_json(const qk_inspection *in)
{
    static const char *const WORDS[] = {
        [QK_ROWS_ALL] = "all", [QK_ROWS_NONE] = "none", [QK_ROWS_RESERVOIR] = "reservoir"};
    return cli_object(CLI_ROWS(CLI_ROW("rows", WORDS[in->kept]), CLI_OF(in, reservoir),
                               CLI_ROW("moments", in->has_moments), CLI_OF(in, groups),
                               CLI_ROW("attention", in->has_attention), CLI_OF(in, summed),
                               CLI_ROW("files", in->moments_files),
                               CLI_ROW("bytes", in->moments_bytes)));
}

static json_t *texts_json(const qk_inspection *in)
{
    return cli_object(
        CLI_ROWS(CLI_ROW("count", in->num_texts), CLI_ROW("windows", in->num_windows)));
}

static void tell_inspection(const qk_inspection *in, const cli_common *common)
{
    static const char *const ROWS_KEPT[] = {[QK_ROWS_ALL] = "rows",
                                            [QK_ROWS_NONE] = "no rows",
                                            [QK_ROWS_RESERVOIR] = "a reservoir of rows"};
    const qk_group *group = &in->group;
    bool kept = in->has_moments || in->has_attention || in->kept != QK_ROWS_ALL;
    json_t *heads = json_array();
    for (size_t i = 0; i < in->num_heads; i++)
        json_array_append_new(heads, head_json(&in->heads[i]));
    cli_row *rows = CLI_ROWS(
        CLI_ROW("capture", in->path), CLI_OF(in, prefix), CLI_OF(in, model),
        CLI_OF(in, has_manifest), CLI_OF(in, complete),
        CLI_ROW("group", in->has_group ? group_json(group) : NULL), CLI_OF(in, num_heads),
        CLI_ROW("num_layers", count_layers(in)), CLI_OF(in, num_failed),
        CLI_ROW("files", in->num_files), CLI_OF(in, packed), CLI_OF(in, bytes),
        CLI_OF(in, rows), CLI_ROW_OR_NULL(in->dim > 0, "dim", in->dim),
        CLI_ROW("positions",
                cli_range_json(in->has_positions, in->position_min, in->position_max)),
        CLI_ROW("buckets", values_json(&in->buckets)), CLI_ROW("examples", in->num_examples),
        CLI_ROW("texts", in->num_windows > 0 ? texts_json(in) : NULL),
        CLI_ROW("windows", values_json(&in->windows)), CLI_ROW("heads", heads),
        CLI_ROW_IF(kept, "kept", kept_json(in)), CLI_SAY("num_q", count_kind(in, QK_QUERY)),
        CLI_SAY("num_k", count_kind(in, QK_KEY)), CLI_SAY("other_size", group->alternative),
        CLI_SAY("smallest", group->consistent && group->source == QK_GROUP_INFERRED &&
                                group->num_consistent > 1),
        CLI_SAY("no_group", in->group_message),
        CLI_SAY("differs", in->dim == 0 && in->rows + in->summed > 0),
        CLI_SAY("rows_kept", kept ? ROWS_KEPT[in->kept] : NULL),
        CLI_SAY("has_positions", in->has_positions),
        CLI_SAY("first_position", in->position_min),
        CLI_SAY("last_position", in->position_max));
    cli_tell(common, CAPTURE, rows);
    if (!common->json && !common->quiet)
        print_rest(in);
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
    tell_inspection(in, common);
    if (heads && !common->json && !common->quiet)
        print_heads(in);
    if (in->num_failed > 0)
        cli_error("%zu of %zu heads cannot be read", in->num_failed, in->num_heads);
    return in->num_failed == 0               ? EXIT_CODE_OK
           : in->num_failed == in->num_heads ? EXIT_CODE_FAILURE
                                             : EXIT_CODE_PARTIAL;
}
