/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of fetching from the Hub. */
#include <assert.h>

#include <qkscope/hub.h>

#include "settings/index_list.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_hub_settings, member)

static const qk_setting ROWS[] = {
    {"revision", QK_SETTING_TEXT, AT(revision), .value = "REV", .help = "branch, tag or commit",
     .unset = "main", .section = "What"},
    {"model", QK_SETTING_FLAG, AT(model),
     .help = "a model: config.json, weights as safetensors (a GGUF file where there are none), "
             "tokenizer",
     .section = "What"},
    {"layers", QK_SETTING_LIST, AT(layers), .value = "LIST",
     .help = "of a capture, these layers, e.g. 0,2,5-9", .unset = "all", .section = "What"},
    {"heads", QK_SETTING_HEADS, AT(heads), .value = "L:H,...",
     .help = "of a capture, these heads (2:1,14-23:*, 5, @FILE), and the key heads that they "
             "attend to",
     .unset = "all", .section = "What"},
    {"q-per-kv-group", QK_SETTING_INTEGER, AT(q_per_kv_group), .min = 1, .max = QK_MAX_INDEX,
     .value = "G", .help = "query heads per key head", .unset = "as the names of heads tell",
     .section = "What"},
    {"split", QK_SETTING_TEXT, AT(prefix), .value = "PREFIX",
     .help = "sub-folder, where there are several captures", .unset = "all", .section = "What"},
    {"files", QK_SETTING_PATHS, AT(files), .value = "PATTERN",
     .help = "only files whose path fits, as in '*.json'; may be given several times",
     .unset = "all", .section = "What"},
    {"cache", QK_SETTING_PATH, AT(context.hub_cache), .value = "DIR",
     .help = "folder of the cache",
     .unset = "HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub",
     .section = "Where"},
    {"endpoint", QK_SETTING_TEXT, AT(context.hub_endpoint), .value = "ADDRESS",
     .help = "address of a Hub", .unset = "HF_ENDPOINT, else the public one",
     .section = "Where"},
    {"offline", QK_SETTING_FLAG, AT(context.offline),
     .help = "fetch nothing: say what is not in the cache, as with HF_HUB_OFFLINE=1",
     .section = "Running"},
    {"jobs", QK_SETTING_INTEGER, AT(context.hub_jobs), .letter = 'j', .number = 4, .min = 1,
     .max = 64, .value = "N", .unit = "files", .help = "so many at a time",
     .section = "Running"},
    {"tries", QK_SETTING_INTEGER, AT(context.hub_tries), .number = 6, .min = 1, .max = 100,
     .value = "N", .unit = "times",
     .help = "how often a request is sent that brings nothing new, after 1, 2, 4, 8, 8 seconds",
     .section = "Running"},
    {"timeout", QK_SETTING_INTEGER, AT(context.hub_timeout), .min = 1, .max = 86400,
     .value = "S", .unit = "seconds", .help = "try again after so long without a byte",
     .unset = "HF_HUB_DOWNLOAD_TIMEOUT, else 10", .section = "Running"},
};

const qk_settings_table qk_hub_settings_table = {QK_SETTINGS_ROWS(qk_hub_settings, ROWS)};

void qk_hub_settings_default(qk_hub_settings *settings)
{
    assert(settings);
    qk__settings_default(&qk_hub_settings_table, settings);
}
