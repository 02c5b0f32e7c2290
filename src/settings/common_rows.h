/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of settings that several tables share: threads, revision, split, group size. */
#ifndef QK_SETTINGS_COMMON_ROWS_H
#define QK_SETTINGS_COMMON_ROWS_H

#include <qkscope/settings.h>

#include "settings/index_list.h"

/* These two are of the owner's context. */
#define QK__THREADS_ROW(owner, of, ...)                                                        \
    {                                                                                          \
        "threads", QK_SETTING_INTEGER, QK_SETTING_AT(owner, context.threads),                  \
            .min = 1, .max = 4096, .value = "N",                                               \
            .help = "number of threads; results do not depend on it",                          \
            .unset = "all processors", .section = "Running", .commands = of, __VA_ARGS__       \
    }

#define QK__OFFLINE_ROW(owner, of, ...)                                                        \
    {                                                                                          \
        "offline", QK_SETTING_FLAG, QK_SETTING_AT(owner, context.offline),                     \
            .help = "fetch nothing from the Hub: take what is in the cache, as with "          \
                    "HF_HUB_OFFLINE=1",                                                        \
            .section = "Input", .commands = of, __VA_ARGS__                                    \
    }

#define QK__REVISION_ROW(owner, of, ...)                                                       \
    {                                                                                          \
        "revision", QK_SETTING_TEXT, QK_SETTING_AT(owner, revision),                           \
            .value = "REV", .help = "branch, tag or commit of a dataset on the Hub",           \
            .unset = "main", .section = "Input", .commands = of, __VA_ARGS__                   \
    }

#define QK__SPLIT_ROW(owner, of, ...)                                                          \
    {                                                                                          \
        "split", QK_SETTING_TEXT, QK_SETTING_AT(owner, prefix),                                \
            .value = "PREFIX", .help = "sub-folder, when CAPTURE holds several captures",      \
            .unset = "found by looking", .section = "Input", .commands = of, __VA_ARGS__       \
    }

#define QK__GROUP_ROW(owner, of, ...)                                                          \
    {                                                                                          \
        "q-per-kv-group", QK_SETTING_INTEGER, QK_SETTING_AT(owner, q_per_kv_group),            \
            .min = 1, .max = QK_MAX_INDEX, .value = "G", .help = "query heads per key head",   \
            .unset = "from capture.json, else inferred", .section = "Input", .commands = of,   \
            __VA_ARGS__                                                                        \
    }

#endif
