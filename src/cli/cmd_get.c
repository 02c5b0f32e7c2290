/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope get: brings a dataset or a model from the Hub into the cache, or says what there is. */
#include "tell.h"

#include <string.h>

#include <qkscope/hub.h>

typedef struct request {
    cli_common common;
    qk_hub_settings settings;
    bool list;
} request;

static const qk_setting ROWS[] = {
    {"list", QK_SETTING_FLAG, QK_SETTING_AT(request, list),
     .help = "say which branches there are, with heads and sizes; fetch nothing",
     .section = "What"},
    QK_SETTING_PART(request, settings, qk_hub_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* ---- --list ------------------------------------------------------------------------------ */

static json_t *branch_json(const qk_hub_branch *b)
{
    return cli_object(
        CLI_ROWS(CLI_OF(b, name), CLI_ROW("kind", b->tag ? "tag" : "branch"), CLI_OF(b, commit),
                 CLI_ROW("files", b->num_files), CLI_OF(b, bytes),
                 CLI_ROW("layers", b->num_layers), CLI_OF(b, query_heads), CLI_OF(b, key_heads),
                 CLI_OF(b, packed_files), CLI_OF(b, cached_files), CLI_OF(b, cached_bytes)));
}

static void print_list_json(const request *r, const qk_hub_listing *listing)
{
    json_t *branches = json_array();
    for (size_t i = 0; i < listing->num_branches; i++)
        json_array_append_new(branches, branch_json(&listing->branches[i]));
    cli_tell(&r->common, "",
             CLI_ROWS(CLI_ROW("name", r->settings.name), CLI_ROW("model", r->settings.model),
                      CLI_ROW("branches", branches)));
}

static void print_list(const qk_hub_listing *listing)
{
    size_t width = strlen("revision");
    for (size_t i = 0; i < listing->num_branches; i++) {
        size_t columns = cli_text_columns(listing->branches[i].name, -1);
        width = columns > width ? columns : width;
    }
    cli_print("%-*s  %6s %7s %7s %7s %10s %8s  %s\n", (int)width, "revision", "layers",
              "queries", "keys", "files", "MB", "cached", "commit");
    for (size_t i = 0; i < listing->num_branches; i++) {
        const qk_hub_branch *b = &listing->branches[i];
        cli_print("%-*s  %6zu %7zu %7zu %7zu %10.1f %7.0f%%  %.12s%s\n", (int)width, b->name,
                  b->num_layers, b->query_heads, b->key_heads, b->num_files,
                  (double)b->bytes / 1e6,
                  b->bytes > 0 ? 100.0 * (double)b->cached_bytes / (double)b->bytes : 0.0,
                  b->commit, b->tag ? " (tag)" : "");
    }
}

static int list(const request *r, cli_messages *messages)
{
    qk_hub_listing *listing;
    qk_error err;
    qk_status status = qk_hub_list(&r->settings, &listing, &err);
    cli_messages_end(messages, status, &err);
    if (status == QK_OK && r->common.json)
        print_list_json(r, listing);
    else if (status == QK_OK && !r->common.quiet)
        print_list(listing);
    qk_hub_listing_free(&listing);
    return cli_settings_code(status);
}

/* ---- fetching ---------------------------------------------------------------------------- */

static void print_snapshot(const request *r, const qk_hub_snapshot *s)
{
    cli_tell(&r->common, "{path}\n",
             CLI_ROWS(CLI_ROW("name", r->settings.name), CLI_OF(s, commit),
                      CLI_ROW("path", s->gguf ? s->gguf : s->path),
                      CLI_ROW("files", s->num_files), CLI_OF(s, bytes),
                      CLI_OF(s, fetched_files), CLI_OF(s, fetched_bytes), CLI_OF(s, requests)));
}

static int get(const request *r, cli_messages *messages)
{
    qk_hub_snapshot *snapshot;
    qk_error err;
    qk_status status = qk_hub_get(&r->settings, &snapshot, &err);
    cli_messages_end(messages, status, &err);
    if (status == QK_OK)
        print_snapshot(r, snapshot);
    qk_hub_snapshot_free(&snapshot);
    return cli_settings_code(status);
}

static int run_get(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    if (call->count == 0)
        return cli_usage("what? Give org/name of a dataset on the Hub, or of a model with "
                         "--model");
    r->settings.name = call->arguments[0];
    cli_messages_init(&messages, &r->common, &r->settings.context);
    messages.of = r->settings.name;
    return r->list ? list(r, &messages) : get(r, &messages);
}

const cli_command cmd_get = {
    .name = "get",
    .group = "Make",
    .summary = "fetch a dataset or a model from the Hugging Face Hub",
    .usage = "ORG/NAME [options]",
    .description =
        "Brings the files of a dataset, or with --model of a model, into the Hugging Face "
        "cache, where other programs find them, and prints the folder. What is in the cache "
        "is not fetched again; a file that was cut off is gone on with. Every file is "
        "checked by the hash that the Hub lists before it takes its name.\n\nOf a capture "
        "--layers and --heads choose; key heads that the chosen query heads attend to come "
        "along. Without them all files of a dataset are fetched, and of a model what qkscope "
        "capture needs.\n\nFor what is private or gated, log in with hf auth login or set "
        "HF_TOKEN.",
    .examples = "qkscope get --list viktoroo/sniffed-qk\n"
                "qkscope get viktoroo/sniffed-qk --revision qwen3-8b --layers 0-3\n"
                "qkscope get --model HuggingFaceTB/SmolLM2-135M\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run_get,
};
