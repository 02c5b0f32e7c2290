/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of an ablation. */
#include <qkscope/ablate.h>

#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_ablation_settings, member)

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(recorder.output), .letter = 'o', .value = "DIR",
     .help = "folder for the tables", .section = "Output"},
    {"force", QK_SETTING_FLAG, AT(recorder.force),
     .help = "replace another ablation in DIR; the old one stays until the new one is complete",
     .section = "Output"},
    {"model-name", QK_SETTING_TEXT, AT(recorder.model_name), .value = "NAME",
     .help = "name in the tables", .unset = "org/name, or the folder's name",
     .section = "Output", .traits = QK_SETTING_UTF8},
    {"what", QK_SETTING_TEXT, AT(what), .letter = 'w', .text = "remove,freeze,profile",
     .value = "CHANGE,...",
     .help =
         "remove, mean, freeze[:BAND], shuffle:TOKENS, profile, window:TOKENS[:KEPT], no-sink, "
         "uniform, direction:pcN|a[:PART]",
     .section = "Changes"},
    {"groups", QK_SETTING_PATHS, AT(groups), .value = "HEADS",
     .help =
         "heads that are changed together: each (one by one), layer, all, \"where "
         "CONDITION\" or \"top N,N,... by COLUMN\" of --results, or heads, as 2:1,5:*; may be "
         "given again",
     .unset = "each", .section = "Changes"},
    {"results", QK_SETTING_PATH, AT(results), .value = "DIR",
     .help = "results of the model, for --groups", .section = "Changes"},
    {"capture", QK_SETTING_PATH, AT(capture), .value = "DIR",
     .help = "capture of the model after RoPE, of other texts, for --what direction",
     .section = "Changes"},
    {"screen", QK_SETTING_PATH, AT(screen), .value = "DIR",
     .help = "with --groups each, only heads of groups whose loss changed in DIR, an earlier "
             "ablation",
     .section = "Changes"},
    {"suffix", QK_SETTING_INTEGER, AT(suffix), .min = 2, .max = 1 << 30, .value = "N",
     .unit = "rows", .help = "change only the last N rows of each text", .unset = "all rows",
     .section = "Changes"},
    {"layers", QK_SETTING_LIST, AT(recorder.layers), .value = "LIST", .help = "of these layers",
     .unset = "all", .section = "Changes"},
    {"heads", QK_SETTING_HEADS, AT(recorder.heads), .value = "L:H,...",
     .help = "of these query heads: 2:1,14-23:*, 5 (of every layer), @FILE", .unset = "all",
     .section = "Changes"},
    {"controls", QK_SETTING_FLAG, AT(controls), .number = true, .off = "no-controls",
     .off_help = "neither random groups nor changes that keep the first keys",
     .section = "Controls"},
    {"draws", QK_SETTING_INTEGER, AT(draws), .number = 20, .min = 0, .max = 1000, .value = "N",
     .help = "different random groups beside each group, as far as there are so many",
     .section = "Controls"},
    {"seed", QK_SETTING_INTEGER, AT(seed), .min = 0, .max = INT32_MAX, .value = "N",
     .help = "seed of random groups and shuffles", .section = "Controls"},
    {"ci", QK_SETTING_PERCENT, AT(level), .number = 95, .min = 1, .max = 99.999999,
     .value = "PERCENT", .unit = "percent", .help = "level of the intervals",
     .section = "Controls"},
    {"memory", QK_SETTING_INTEGER, AT(memory), .number = 2048, .min = 1, .max = 1 << 30,
     .value = "MIB", .unit = "MiB", .help = "memory for changes that run at once",
     .section = "Running"},
    {"dry-run", QK_SETTING_FLAG, AT(dry_run),
     .help = "say what would be run, and how long it takes", .section = "Running"},
    QK_SETTING_PART(qk_ablation_settings, recorder, qk_recorder_settings_table),
};

const qk_settings_table qk_ablation_settings_table = {
    QK_SETTINGS_ROWS(qk_ablation_settings, ROWS)};
