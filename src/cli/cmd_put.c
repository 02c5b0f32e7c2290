/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope put: sends a capture to a branch of a dataset on the Hub. */
#include "tell.h"

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

/* What a dry run lists: all but what stays as it is. */
static void print_plan(const qk_hub_put_outcome *o)
{
    for (size_t i = 0; i < o->num_files; i++)
        if (o->files[i].change != QK_HUB_SAME)
            cli_print("%-8s %12.3f MB  %s\n", qk_hub_change_name(o->files[i].change),
                      (double)o->files[i].size / 1e6, o->files[i].path);
}

static json_t *list_files(const qk_hub_put_outcome *o)
{
    json_t *files = json_array();
    for (size_t i = 0; i < o->num_files; i++) {
        const qk_hub_put_file *f = &o->files[i];
        json_array_append_new(
            files, cli_object(CLI_ROWS(CLI_OF(f, path), CLI_ROW("bytes", f->size),
                                       CLI_ROW("change", qk_hub_change_name(f->change)))));
    }
    return files;
}

static void tell_outcome(const request *r, const qk_hub_put_outcome *o)
{
    const qk_hub_put_settings *s = &r->settings;
    if (s->dry_run && !r->common.json && !r->common.quiet)
        print_plan(o);
    cli_tell(&r->common,
             s->dry_run ? "{would_send} file{s}, {differing_bytes:MB}, would be sent to {name} "
                          "at {revision}"
                          "[; {same_files} {is|are} there][; {removed_files} would be removed]"
                          "[; the dataset would be made, {made_dataset?}{visibility}][; the "
                          "branch would be made{made_branch?}{made_dataset!}]\n"
                        : "{address}[ ({removed_files} file{s} removed)]\n",
             CLI_ROWS(CLI_OF(s, name), CLI_ROW("revision", s->revision ? s->revision : "main"),
                      CLI_OF(s, dry_run), CLI_ROW("public", o->is_public),
                      CLI_OF(o, made_dataset), CLI_OF(o, made_branch), CLI_OF(o, commit),
                      CLI_OF(o, address), CLI_OF(o, commits), CLI_OF(o, new_files),
                      CLI_OF(o, changed_files), CLI_OF(o, same_files), CLI_OF(o, left_files),
                      CLI_OF(o, removed_files), CLI_OF(o, bytes),
                      CLI_ROW("differing_bytes", o->differing), CLI_ROW("sent_bytes", o->sent),
                      CLI_OF(o, requests), CLI_ROW("files", list_files(o)),
                      CLI_SAY("would_send", o->new_files + o->changed_files),
                      CLI_SAY("visibility", s->publish ? "public" : "private")));
}

static int run_put(cli_call *call)
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
    if (status == QK_OK)
        tell_outcome(r, outcome);
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
    .run = run_put,
};
