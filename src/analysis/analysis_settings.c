/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of an analysis, each told once: the command line and its help, configuration and study files, and
 * manifests follow from this table. */
#include <qkscope/analysis.h>

#include "analysis/run.h"
#include "settings/common_rows.h"
#include "settings/settings.h"
#include "stats/stats_settings.h"

#define ALL      "pca rotate plasticity attention analyze"
#define TABLES   ALL " compare-stages"
#define CAPTURES ALL " scatter"
#define EVERY    TABLES " scatter"

#define AT(member) QK_SETTING_AT(qk_analysis_settings, member)

static const qk_word KINDS[] = {{"q", QK_KINDS_Q}, {"k", QK_KINDS_K}, {0}};
const qk_word qk__analyses[] = {{"pca", QK_ANALYSE_PCA},
                                {"rotation", QK_ANALYSE_ROTATION},
                                {"plasticity", QK_ANALYSE_PLASTICITY},
                                {"attention", QK_ANALYSE_ATTENTION},
                                {0}};
static const qk_word BUCKETS[] = {{"capture", QK_BUCKETS_CAPTURE}, {0}};

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "DIR",
     .help = "folder for the tables", .section = "Output", .commands = TABLES,
     .yaml = "output.results_dir", .traits = QK_SETTING_PER_CAPTURE},
    {"force", QK_SETTING_FLAG, AT(force),
     .help = "replace the results that DIR holds, even those of another capture",
     .section = "Output", .commands = TABLES},
    {"model-name", QK_SETTING_TEXT, AT(model_name), .value = "NAME",
     .help = "name in the model column", .unset = "from capture.json, else of the dataset",
     .section = "Output", .commands = TABLES, .yaml = "output.model_name",
     .traits = QK_SETTING_PER_CAPTURE | QK_SETTING_UTF8},
    {"capture", QK_SETTING_TEXT, AT(capture), .value = "CAPTURE",
     .help = "folder with a capture, or org/name of a dataset on the Hub", .section = "Input",
     .commands = "", .yaml = "data.dataset_name", .traits = QK_SETTING_PER_CAPTURE},
    QK__REVISION_ROW(qk_analysis_settings, EVERY, .yaml = "data.revision",
                     .traits = QK_SETTING_PER_CAPTURE),
    {"local-root", QK_SETTING_PATH, AT(local_root), .value = "DIR",
     .help = "folder searched for the dataset before the cache", .section = "Input",
     .commands = "", .yaml = "data.local_root"},
    QK__OFFLINE_ROW(qk_analysis_settings, EVERY, .yaml = NULL),
    QK__SPLIT_ROW(qk_analysis_settings, CAPTURES, .yaml = "data.split",
                  .traits = QK_SETTING_PER_CAPTURE),
    QK__GROUP_ROW(qk_analysis_settings, EVERY, .yaml = "data.q_per_kv_group",
                  .manifest = "q_per_kv_group", .traits = QK_SETTING_PER_CAPTURE),
    {"strict", QK_SETTING_FLAG, AT(strict),
     .help = "fail where the group size is a guess, or does not fit the heads or capture.json",
     .section = "Input", .commands = CAPTURES},
    {"allow-missing", QK_SETTING_FLAG, AT(allow_missing),
     .help = "leave out missing heads, and query heads without their key head",
     .section = "Input", .commands = ALL},
    {"layers", QK_SETTING_LIST, AT(layers), .value = "LIST", .help = "only these layers",
     .unset = "all", .section = "Heads and rows", .commands = EVERY, .yaml = "data.layers",
     .manifest = "layers"},
    {"heads", QK_SETTING_HEADS, AT(heads), .value = "L:H,...",
     .help = "only these query heads: 2:1,14-23:*, 5 (of every layer), @FILE", .unset = "all",
     .section = "Heads and rows", .commands = TABLES, .yaml = "data.heads",
     .manifest = "heads"},
    {"max-samples", QK_SETTING_INTEGER, AT(max_samples), .min = 1, .max = 1e15, .value = "N",
     .unit = "rows", .help = "only the first N rows of each head", .unset = "all",
     .section = "Heads and rows", .commands = EVERY, .yaml = "data.max_samples",
     .manifest = "max_samples"},
    {"from-position", QK_SETTING_INTEGER, AT(from_position), .min = 0, .max = 1e15,
     .value = "K", .help = "leave out rows of positions below K", .section = "Heads and rows",
     .commands = EVERY, .yaml = "data.from_position", .manifest = "from_position"},
    {"allow-repeats", QK_SETTING_FLAG, AT(allow_repeats),
     .help = "take rows whose text and position are there more than once",
     .section = "Heads and rows", .commands = TABLES " scatter", .yaml = "data.allow_repeats",
     .manifest = "allow_repeats"},
    {"sample-heads", QK_SETTING_INTEGER, AT(sample_heads), .min = 1, .max = 1e9, .value = "N",
     .help = "draw N heads at random, as Python's random.Random(S).sample does", .unset = "all",
     .section = "Heads and rows", .commands = ALL, .yaml = "data.sample_heads",
     .manifest = "sample_heads"},
    {"seed", QK_SETTING_INTEGER, AT(seed), .value = "S", .help = "seed of every draw",
     .unset = "0", .section = "Heads and rows", .commands = CAPTURES, .yaml = "data.seed",
     .manifest = "seed"},
    {"ci", QK_SETTING_PERCENT, AT(ci), .min = 1, .max = 99.999999, .value = "PERCENT",
     .unit = "percent", .help = "confidence intervals over examples, e.g. 95", .unset = "none",
     .section = "Intervals", .commands = ALL, .yaml = "analysis.ci", .manifest = "ci"},
    QK_SETTING_PART(qk_analysis_settings, pca, qk__pca_settings_table),
    {"lda", QK_SETTING_FLAG, AT(lda),
     .help = "fill lda_accuracy in heads.csv (reads the rows twice)", .section = "PCA",
     .commands = "pca analyze", .yaml = "pca.lda", .manifest = "pca.lda"},
    {"lengths", QK_SETTING_TEXT, AT(lengths), .value = "L,...", .unit = "tokens",
     .help = "fill lengths.csv: categories as if texts ended after L tokens: 256,1024,4096",
     .unset = "none", .section = "PCA", .commands = "pca analyze", .yaml = "pca.lengths",
     .manifest = "pca.lengths"},
    {"combined", QK_SETTING_FLAG, AT(combined), .number = true,
     .help = "fit queries and keys together (the default without --config)", .section = "PCA",
     .commands = "pca", .yaml = "analysis.combined", .manifest = "pca.combined"},
    {"kinds", QK_SETTING_SET, AT(kinds), .number = QK_KINDS_BOTH, .words = KINDS,
     .value = "q,k", .help = "fit queries (q), keys (k) or both (q,k), each kind by itself",
     .unset = "together", .section = "PCA", .commands = "pca", .yaml = "data.kinds",
     .manifest = "pca.kinds", .traits = QK_SETTING_PER_CAPTURE},
    {"threshold", QK_SETTING_REAL, AT(correlation_threshold), .number = 0.3, .min = 0, .max = 1,
     .value = "R", .help = "|r| from which a component counts as high in summary.json",
     .section = "PCA", .commands = "pca", .yaml = "analysis.correlation_threshold",
     .manifest = "pca.correlation_threshold"},
    QK_SETTING_PART(qk_analysis_settings, rotation, qk__rotation_settings_table),
    QK_SETTING_PART(qk_analysis_settings, plasticity, qk__plasticity_settings_table),
    {"buckets", QK_SETTING_INTEGER, AT(buckets), .min = 2, .max = QK_MAX_BUCKETS,
     .words = BUCKETS, .value = "N",
     .help = "N position buckets of equal width, or capture: those of the capture",
     .unset = "the capture's if there are at most 32, else 32", .section = "Plasticity",
     .commands = "plasticity analyze", .yaml = "plasticity.buckets",
     .manifest = "plasticity.buckets", .traits = QK_SETTING_ZERO_IS_NULL},
    {"max-distance", QK_SETTING_TEXT, AT(max_distance), .value = "N",
     .help = "only pairs of keys within N tokens, or N% of their text", .unset = "all",
     .section = "Plasticity", .commands = "plasticity analyze",
     .yaml = "plasticity.max_distance", .manifest = "plasticity.max_distance"},
    {"attention-scale", QK_SETTING_REAL, AT(attention_scale), .min = 0, .max = 1e6,
     .value = "S",
     .help = "factor on scores where attention is predicted, or computed from rows",
     .unset = "the model's, as capture.json has it; else 1 over the root of the dimension",
     .section = "Attention", .commands = "attention analyze scatter", .yaml = "attention.scale",
     .manifest = "attention.scale", .traits = QK_SETTING_ZERO_IS_NULL},
    QK__THREADS_ROW(qk_analysis_settings, EVERY, .yaml = "analysis.parallel.max_workers"),
    {"analyses", QK_SETTING_SET, AT(analyses), .number = QK_ANALYSE_PCA, .words = qk__analyses,
     .value = "LIST", .help = "what is computed", .section = "Heads and rows", .commands = "",
     .yaml = "analyses", .traits = QK_SETTING_OF_STUDIES},
    {.type = QK_SETTING_INTEGER, AT(block_rows), .number = QK__BLOCK_ROWS},
};

const qk_settings_table qk_analysis_settings_table = {
    QK_SETTINGS_ROWS(qk_analysis_settings, ROWS)};

void qk_analysis_settings_default(qk_analysis_settings *settings)
{
    qk_settings_default(&qk_analysis_settings_table, settings);
}
