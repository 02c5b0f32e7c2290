/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of sending to the Hub. */
#include <assert.h>

#include <qkscope/hub.h>

#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_hub_put_settings, member)

static const qk_setting ROWS[] = {
    {"revision", QK_SETTING_TEXT, AT(revision), .value = "REV",
     .help = "branch; a new one is empty", .unset = "main", .section = "What"},
    {"split", QK_SETTING_TEXT, AT(prefix), .value = "PREFIX",
     .help = "sub-folder of CAPTURE, where there are several captures", .unset = "the only one",
     .section = "What"},
    {"message", QK_SETTING_TEXT, AT(message), .letter = 'm', .value = "TEXT",
     .help = "title of the commit", .unset = "Queries and keys of the model",
     .section = "What"},
    {"public", QK_SETTING_FLAG, AT(publish),
     .help = "make a new dataset public; without it only you, or your organisation, can see it",
     .section = "What"},
    {"delete", QK_SETTING_FLAG, AT(remove),
     .help = "remove from the branch heads, moments and capture.json that another capture has "
             "left there; without it they stay, and a warning names them",
     .section = "What"},
    {"replace-card", QK_SETTING_FLAG, AT(replace_card),
     .help = "replace the README.md of the branch also where somebody has written in it; "
             "without it that one stays, and a line says so",
     .section = "What"},
    {"hide-paths", QK_SETTING_FLAG, AT(hide_paths),
     .help =
         "send the names of files alone where README.md, capture.json, examples.csv and "
         "truth.json have absolute paths; without it they are sent as they are, and a warning "
         "shows one",
     .section = "What"},
    {"dry-run", QK_SETTING_FLAG, AT(dry_run),
     .help = "list what would be sent, with sizes; send nothing", .section = "What"},
    {"endpoint", QK_SETTING_TEXT, AT(context.hub_endpoint), .value = "ADDRESS",
     .help = "address of a Hub", .unset = "HF_ENDPOINT, else the public one",
     .section = "Where"},
    {"offline", QK_SETTING_FLAG, AT(context.offline),
     .help = "is an error here, as is HF_HUB_OFFLINE=1", .section = "Running"},
    {"jobs", QK_SETTING_INTEGER, AT(context.hub_jobs), .letter = 'j', .number = 4, .min = 1,
     .max = 64, .value = "N", .unit = "files", .help = "so many at a time",
     .section = "Running"},
    {"tries", QK_SETTING_INTEGER, AT(context.hub_tries), .number = 6, .min = 1, .max = 100,
     .value = "N", .unit = "times",
     .help = "how often a request is sent that fails, after 1, 2, 4, 8, 8 seconds",
     .section = "Running"},
    {"timeout", QK_SETTING_INTEGER, AT(context.hub_timeout), .min = 1, .max = 86400,
     .value = "S", .unit = "seconds", .help = "try again after so long without a byte",
     .unset = "HF_HUB_DOWNLOAD_TIMEOUT, else 10", .section = "Running"},
};

const qk_settings_table qk_hub_put_settings_table = {
    QK_SETTINGS_ROWS(qk_hub_put_settings, ROWS)};

void qk_hub_put_settings_default(qk_hub_put_settings *settings)
{
    assert(settings);
    qk__settings_default(&qk_hub_put_settings_table, settings);
}
