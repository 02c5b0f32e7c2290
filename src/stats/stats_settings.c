/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of PCA, rotation and plasticity. */
#include "stats/stats_settings.h"

#include <qkscope/stats.h>

#include "settings/settings.h"

#define PCA        "pca analyze"
#define ROTATION   "rotate analyze"
#define PLASTICITY "plasticity analyze"

/* ---- pca -------------------------------------------------------------------------------- */

#define AT(member) QK_SETTING_AT(qk_pca_settings, member)

static const qk_setting PCA_ROWS[] = {
    {"components", QK_SETTING_INTEGER, AT(components), .number = 10, .min = 1, .max = 4096,
     .value = "N", .help = "principal components per head", .section = "PCA", .commands = PCA,
     .yaml = "pca.n_components", .manifest = "pca.components"},
    {"taxonomy-low", QK_SETTING_REAL, AT(low), .number = 0.3, .min = 0, .max = 1, .value = "R",
     .help = "lower taxonomy threshold on |r|", .section = "PCA",
     .commands = PCA " compare-stages", .manifest = "pca.taxonomy_low",
     .not_above = "taxonomy-high"},
    {"taxonomy-high", QK_SETTING_REAL, AT(high), .number = 0.7, .min = 0, .max = 1,
     .value = "R", .help = "upper taxonomy threshold on |r|", .section = "PCA",
     .commands = PCA " compare-stages", .manifest = "pca.taxonomy_high"},
};

const qk_settings_table qk__pca_settings_table = {QK_SETTINGS_ROWS(qk_pca_settings, PCA_ROWS)};

void qk_pca_settings_default(qk_pca_settings *settings)
{
    qk_settings_default(&qk__pca_settings_table, settings);
}

/* ---- rotation --------------------------------------------------------------------------- */

#undef AT
#define AT(member) QK_SETTING_AT(qk_rotation_settings, member)

static const qk_word B_AXES[] = {{"pairs", QK_B_PAIRS}, {"centroid", QK_B_CENTROID}, {0}};

static const qk_setting ROTATION_ROWS[] = {
    {"b-axis", QK_SETTING_CHOICE, AT(b_axis), .number = QK_B_PAIRS, .words = B_AXES,
     .help = "axis b: pairs (the largest differences of queries and keys, at a right angle "
             "to a) or centroid (the difference of their means)",
     .section = "Rotation", .commands = ROTATION " scatter", .yaml = "rotation.b_axis",
     .manifest = "rotation.b_axis"},
    {"pairs", QK_SETTING_INTEGER, AT(planes), .min = 1, .max = 2048, .value = "N",
     .help = "write complement.csv, with N planes at most",
     .unset = "none; 30 with --complement", .section = "Rotation", .commands = ROTATION,
     .yaml = "rotation.complement_pairs", .manifest = "rotation.complement_pairs",
     .traits = QK_SETTING_ZERO_IN_FILES},
};

const qk_settings_table qk__rotation_settings_table = {
    QK_SETTINGS_ROWS(qk_rotation_settings, ROTATION_ROWS)};

/* ---- plasticity ------------------------------------------------------------------------- */

#undef AT
#define AT(member) QK_SETTING_AT(qk_plasticity_settings, member)

static const qk_word CONVENTIONS[] = {
    {"exact", QK_CONVENTION_EXACT}, {"published", QK_CONVENTION_PUBLISHED}, {0}};

static const qk_setting PLASTICITY_ROWS[] = {
    {"convention", QK_SETTING_CHOICE, AT(convention), .number = QK_CONVENTION_EXACT,
     .words = CONVENTIONS,
     .help = "published: signs of vectors and sliding window as in the original tool",
     .section = "Plasticity", .commands = PLASTICITY, .yaml = "plasticity.convention",
     .manifest = "plasticity.convention"},
    {"max-pairs", QK_SETTING_INTEGER, AT(max_pairs), .number = 65536, .min = 0, .max = 1e15,
     .value = "N",
     .help = "most pairs in a cell: where there are more, N are drawn; 0: no limit",
     .section = "Plasticity", .commands = PLASTICITY, .yaml = "plasticity.max_pairs",
     .manifest = "plasticity.max_pairs"},
    {"bucket-width", QK_SETTING_REAL, AT(bucket_width), .min = 1e-3, .max = 1e12, .value = "W",
     .unit = "tokens", .help = "tokens per bin of head_distance.csv", .unset = "the buckets'",
     .section = "Plasticity", .commands = PLASTICITY, .yaml = "plasticity.bucket_width",
     .manifest = "plasticity.bucket_width", .traits = QK_SETTING_ZERO_IS_NULL},
    {"ks-alpha", QK_SETTING_REAL, AT(ks_alpha), .number = 0.01, .min = 0, .max = 1,
     .value = "P", .help = "p-values below P count in q_noise_frac_ks_p_lt_alpha",
     .section = "Plasticity", .commands = PLASTICITY, .yaml = "plasticity.ks_alpha",
     .manifest = "plasticity.ks_alpha"},
};

const qk_settings_table qk__plasticity_settings_table = {
    QK_SETTINGS_ROWS(qk_plasticity_settings, PLASTICITY_ROWS)};
