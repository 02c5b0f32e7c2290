/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of synthetic captures. */
#include <math.h>

#include <qkscope/capture.h>

#include "parquet/writer_settings.h"
#include "settings/common_rows.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_synth_settings, member)
#define DRAWN      .number = NAN, .unset = "drawn", .section = "Model"

static const qk_setting ROWS[] = {
    {"model-name", QK_SETTING_TEXT, AT(model), .value = "NAME", .help = "name in capture.json",
     .unset = "synth", .section = "Shape"},
    {"layers", QK_SETTING_INTEGER, AT(layers), .number = 2, .min = 1, .max = 1000, .value = "N",
     .help = "layers", .section = "Shape"},
    {"query-heads", QK_SETTING_INTEGER, AT(query_heads), .number = 4, .min = 1, .max = 1000,
     .value = "N", .help = "query heads per layer", .section = "Shape"},
    {"q-per-kv-group", QK_SETTING_INTEGER, AT(group), .number = 2, .min = 1, .max = 1000,
     .value = "G", .help = "query heads per key head", .section = "Shape"},
    {"dim", QK_SETTING_INTEGER, AT(dim), .number = 64, .min = 2, .max = 4096, .value = "D",
     .help = "head dimension", .section = "Shape"},
    {"examples", QK_SETTING_INTEGER, AT(examples), .number = 4, .min = 0, .max = 1e9,
     .value = "N", .help = "texts", .section = "Rows"},
    {"rows", QK_SETTING_INTEGER, AT(rows_per_example), .number = 1000, .min = 1, .max = 1e9,
     .value = "N", .unit = "rows", .help = "rows per text and head", .section = "Rows"},
    {"buckets", QK_SETTING_INTEGER, AT(buckets), .number = 16, .min = 1, .max = 1e9,
     .value = "N", .help = "position buckets", .section = "Rows"},
    {"bucket-width", QK_SETTING_INTEGER, AT(bucket_width), .number = 128, .min = 1, .max = 1e9,
     .value = "N", .unit = "tokens", .help = "tokens in a bucket", .section = "Rows"},
    {"position-offset", QK_SETTING_INTEGER, AT(position_offset), .min = 0, .max = 2e9,
     .value = "T", .unit = "tokens", .help = "position of the first token", .unset = "0",
     .section = "Rows"},
    {"sliding-window", QK_SETTING_INTEGER, AT(sliding_window), .min = 0, .max = 2e9,
     .value = "W", .unit = "tokens", .help = "window in tokens", .unset = "none",
     .section = "Rows"},
    {"seed", QK_SETTING_INTEGER, AT(seed), .value = "S", .help = "seed of everything drawn",
     .unset = "0", .section = "Rows"},
    {"bfloat16", QK_SETTING_FLAG, AT(bfloat16), .number = true, .off = "float32",
     .off_help = "do not round to bfloat16", .section = "Rows"},
    {"token-strings", QK_SETTING_FLAG, AT(strings), .help = "add the column token_str",
     .section = "Rows"},
    {"r-q", QK_SETTING_REAL, AT(r_q), .min = -0.999999, .max = 0.999999, .value = "R",
     .help = "correlation of queries with position along the drift", DRAWN},
    {"r-k", QK_SETTING_REAL, AT(r_k), .min = -0.999999, .max = 0.999999, .value = "R",
     .help = "the same of keys", DRAWN},
    {"slope-q", QK_SETTING_REAL, AT(slope_q), .number = NAN, .min = -1e6, .max = 1e6,
     .value = "A", .help = "drift of queries per token", .unset = "as --r-q demands",
     .section = "Model"},
    {"slope-k", QK_SETTING_REAL, AT(slope_k), .number = NAN, .min = -1e6, .max = 1e6,
     .value = "A", .help = "the same of keys", .unset = "as --r-k demands", .section = "Model"},
    {"separation", QK_SETTING_REAL, AT(separation), .min = 0, .max = 1e6, .value = "S",
     .unit = "sd of content",
     .help = "distance of the means of queries and keys, in standard deviations of content",
     DRAWN},
    {"mean-offset", QK_SETTING_REAL, AT(mean_offset), .min = 0, .max = 1e6, .value = "S",
     .unit = "sd of content",
     .help = "distance of the mean key from zero, in standard deviations of content", DRAWN},
    {"scale", QK_SETTING_REAL, AT(scale), .min = 1e-6, .max = 1e6, .value = "S",
     .help = "standard deviation of content per dimension", DRAWN},
    {"exponent", QK_SETTING_REAL, AT(exponent), .min = 0, .max = 20, .value = "E",
     .help = "decay of the eigenvalues, j^-E", DRAWN},
    {"rope-planes", QK_SETTING_INTEGER, AT(rope_planes), .number = 2, .min = 0, .max = 2047,
     .value = "N", .help = "planes that turn with position", .section = "Model"},
    {"rope-theta", QK_SETTING_REAL, AT(rope_theta), .number = 10000, .min = 1, .max = 1e12,
     .value = "B", .help = "theta of RoPE: base of the frequencies of these planes",
     .section = "Model"},
    {"rope-amplitude", QK_SETTING_REAL, AT(rope_amplitude), .min = 0, .max = 1e6, .value = "A",
     .unit = "sd of content", .help = "their radius, in standard deviations of content", DRAWN},
    {"truth-matrices", QK_SETTING_FLAG, AT(truth_matrices),
     .help = "add full covariance bases to truth.json", .section = "Files"},
    QK__LAYOUT_ROW(qk_synth_settings, NULL, .yaml = NULL),
    {"shards", QK_SETTING_INTEGER, AT(shards), .number = 1, .min = 1, .max = 10000,
     .value = "N", .help = "files per head, or of packed ones per layer and kind",
     .section = "Files"},
    QK_SETTING_PART(qk_synth_settings, writer, qk__parquet_writer_settings_table),
    QK__THREADS_ROW(qk_synth_settings, NULL, .yaml = NULL),
};

const qk_settings_table qk_synth_settings_table = {QK_SETTINGS_ROWS(qk_synth_settings, ROWS)};

void qk_synth_settings_default(qk_synth_settings *settings)
{
    qk__settings_default(&qk_synth_settings_table, settings);
}
