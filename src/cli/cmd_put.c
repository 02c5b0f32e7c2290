/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope put: sends a capture to a branch of a dataset on the Hub. */
#include "cli.h"

#include <string.h>

#include <qkscope/hub.h>

typedef struct request {
    cli_common common;
    qk_hub_put_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_hub_put_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static void print_json(const request *r, const qk_hub_put_outcome *o)
{
    json_t *files = json_array();
    for (size_t i = 0; i < o->num_files; i++)
        json_array_append_new(files, json_pack("{s:o, s:I, s:s}", "path",
                                               cli_json_text(o->files[i].path), "bytes",
                                               (json_int_t)o->files[i].size, "change",
                                               qk_hub_change_name(o->files[i].change)));
    cli_json_print(json_pack(
        "{s:o, s:s, s:b, s:b, s:b, s:b, s:s, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:o}",
        "name", cli_json_text(r->settings.name), "revision",
        r->settings.revision ? r->settings.revision : "main", "dry_run", r->settings.dry_run,
        "public", o->is_public, "made_dataset", o->made_dataset, "made_branch", o->made_branch,
        "commit", o->commit, "address", cli_json_text(o->address), "commits", o->commits,
        "new_files", (json_int_t)o->new_files, "changed_files", (json_int_t)o->changed_files,
        "same_files", (json_int_t)o->same_files, "left_files", (json_int_t)o->left_files,
        "removed_files", (json_int_t)o->removed_files, "bytes", (json_int_t)o->bytes,
        "differing_bytes", (json_int_t)o->differing, "sent_bytes", (json_int_t)o->sent,
        "requests", (json_int_t)o->requests, "files", files));
}

/* What a dry run lists: all but what stays as it is. */
static void print_plan(const request *r, const qk_hub_put_outcome *o)
{
    const qk_hub_put_settings *s = &r->settings;
    size_t sent = o->new_files + o->changed_files;
    for (size_t i = 0; i < o->num_files; i++)
        if (o->files[i].change != QK_HUB_SAME)
            cli_print("%-8s %12.3f MB  %s\n", qk_hub_change_name(o->files[i].change),
                      (double)o->files[i].size / 1e6, o->files[i].path);
    cli_print("%zu file%s, %.1f MB, would be sent to %s at %s", sent, cli_s((int64_t)sent),
              (double)o->differing / 1e6, s->name, s->revision ? s->revision : "main");
    if (o->same_files > 0)
        cli_print("; %zu %s there", o->same_files, o->same_files == 1 ? "is" : "are");
    if (o->removed_files > 0)
        cli_print("; %zu would be removed", o->removed_files);
    if (o->made_dataset)
        cli_print("; the dataset would be made, %s", s->publish ? "public" : "private");
    else if (o->made_branch)
        cli_print("; the branch would be made");
    cli_print("\n");
}

static void print_address(const qk_hub_put_outcome *o)
{
    cli_print("%s", o->address);
    if (o->removed_files > 0)
        cli_print(" (%zu file%s removed)", o->removed_files, cli_s((int64_t)o->removed_files));
    cli_print("\n");
}

static int run(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    if (call->count < 2)
        return cli_usage("what, and where to? Give a capture's folder and org/name of a "
                         "dataset on the Hub");
    r->settings.capture = call->arguments[0];
    r->settings.name = call->arguments[1];
    cli_messages_init(&messages, &r->common, &r->settings.context);
    messages.of = r->settings.name;
    qk_hub_put_outcome *outcome;
    qk_error err;
    qk_status status = qk_hub_put(&r->settings, &outcome, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK && r->common.json)
        print_json(r, outcome);
    else if (status == QK_OK && !r->common.quiet && r->settings.dry_run)
        print_plan(r, outcome);
    else if (status == QK_OK && !r->common.quiet)
        print_address(outcome);
    qk_hub_put_outcome_free(&outcome);
    return cli_settings_code(status);
}

const cli_command cmd_put = {
    .name = "put",
    .group = "Make",
    .summary = "send a capture to the Hugging Face Hub",
    .usage = "CAPTURE ORG/NAME [options]",
    .description =
        "Sends a capture to a branch of a dataset, and prints the address of its page: rows, "
        "moments, capture.json, README.md, examples.csv and truth.json. Nothing else in the "
        "folder is sent. A capture that is not complete is refused.\n\nDataset and branch are "
        "made where they are missing; a new dataset is private unless --public is given, and a "
        "new branch is empty. Files that the branch has already are not sent, so the same "
        "command goes on with what was stopped, and sends only what has changed. A change by "
        "somebody else meanwhile is an error, and not lost. Files of the branch that are not "
        "parts of a capture are left alone; heads of another capture stay, with a warning, "
        "unless --delete is given. A README.md of the branch in which somebody has "
        "written stays, unless --replace-card is given.\n\nIt needs a token with the right to "
        "write: hf auth login, "
        "or HF_TOKEN.",
    .examples =
        "qkscope put capture me/my-captures --revision qwen3-8b --dry-run\n"
        "qkscope put capture me/my-captures --revision qwen3-8b\n"
        "qkscope put capture me/my-captures --public --message \"Twelve more layers\"\n",
    .table = &TABLE,
    .max_arguments = 2,
    .run = run,
};
