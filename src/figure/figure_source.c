/* SPDX-License-Identifier: Apache-2.0 */
/* Where the numbers of every figure of the catalog come from. */
#include <string.h>

#include "figure/figure_note.h"

#define EVERY_HEAD "every head that has the number"
#define PC0        "component 0 of every head"
#define MEAN       "mean over the heads of a model"
#define TENTHS     "mean over the heads in each tenth of the depth, layer / last layer, of a model"
#define PER_HEAD   "the number itself, a cell a head"

static const qk__figure_source SOURCES[] = {
    {"map-01-r-q", "qk.csv", PC0, "r_q: " PER_HEAD, false},
    {"map-02-r-k", "qk.csv", PC0, "r_k: " PER_HEAD, false},
    {"map-03-bias", "rotated.csv", EVERY_HEAD, "bias_strength: " PER_HEAD, false},
    {"map-04-plane-variance", "rotated.csv", EVERY_HEAD, "plane_var_fraction: " PER_HEAD,
     false},
    {"map-05-plasticity", "head_metrics.csv", EVERY_HEAD, "ap_overall: " PER_HEAD, false},
    {"map-06-category", "heads.csv", EVERY_HEAD, "category: a cell a head", false},
    {"map-07-layer-curves", "qk.csv, rotated.csv, head_metrics.csv", EVERY_HEAD,
     "r_q, r_k, |r_q_a|, |r_k_a|, |alpha_q|, |alpha_k|, var_frac_a, var_frac_b, bias_strength, "
     "ap_first_20pct, ap_last_20pct: mean and quartiles over the heads of a layer",
     false},
    {"pca-01-pc-roles", "qk.csv", "components 0 to 9 of every head",
     "r_q, r_k: mean over the heads of all models, by component", false},
    {"pca-02-rq-rk-scatter", "qk.csv", PC0, "r_q and r_k: a point a head", false},
    {"pca-03-layer-heatmap-rq", "qk.csv", PC0, "r_q: " TENTHS, true},
    {"pca-04-layer-heatmap-rk", "qk.csv", PC0, "r_k: " TENTHS, true},
    {"pca-05-explained-variance", "qk.csv", "components 0 to 9 of every head",
     "explained_variance: mean over the heads of all models, by component", false},
    {"pca-07-position-signal", "qk.csv", PC0,
     "r_q, r_k: mean and standard deviation over the heads of a checkpoint", false},
    {"pca-08-taxonomy", "heads.csv", "every head with a category",
     "category: share of the heads of a checkpoint", false},
    {"pca-09-pc0-variance", "heads.csv", EVERY_HEAD,
     "ev0: mean and standard deviation over the heads of a checkpoint", false},
    {"pca-12-phase-portraits", "qk.csv", PC0 " of up to six checkpoints",
     "r_q and r_k: a point a head", false},
    {"rotation-02-drift-correlation", "rotated.csv", EVERY_HEAD, "|r_q_a|, |r_k_a|: " MEAN,
     true},
    {"rotation-03-variance-shares", "rotated.csv", "every head that has both axes",
     "var_frac_a, var_frac_b, and what they leave of 1: " MEAN, true},
    {"rotation-04-bias-histograms", "rotated.csv", EVERY_HEAD,
     "bias_strength: density over the heads of a model", false},
    {"rotation-05-slope-ratio", "rotated.csv", "every head whose ratio is finite",
     "|alpha_k| / |alpha_q|: median over the heads of a model", true},
    {"rotation-06-layer-heatmaps", "rotated.csv", EVERY_HEAD, "|r_k_a|, bias_strength: " TENTHS,
     true},
    {"rotation-07-bias-vs-separation", "rotated.csv", "every head that has both numbers",
     "bias_strength and separation_strength: a point a head; Pearson r in each family", false},
    {"rotation-09-training-metrics", "rotated.csv", EVERY_HEAD,
     "|r_k_a|, separation_strength, bias_strength, plane_var_fraction: mean, median and "
     "quartiles over the heads of a checkpoint",
     false},
    {"rotation-10-bias-decomposition", "rotated.csv", EVERY_HEAD,
     "mu_q_a, alpha_k, bias_strength: mean over the heads of a checkpoint", false},
    {"plasticity-01-distance-heatmap", "head_distance.csv",
     "every pair of keys that is counted",
     "plasticity: mean over all heads, weighted by pairs, by distance of the keys and lag",
     false},
    {"plasticity-02-profiles", "head_profile.csv", "every bucket of queries of every head",
     "plasticity: a line a head, and the mean over heads", false},
    {"plasticity-03-component-weights", "head_component_weights.csv", "every head with weights",
     "weight: mean over heads, by dimension", false},
    {"plasticity-04-trajectory", "head_metrics.csv, rotated.csv", EVERY_HEAD,
     "ap_first_20pct, ap_last_20pct, bias_strength: mean over the heads of a checkpoint",
     false},
    {"plasticity-05-score", "scores.csv, head_metrics.csv", "every model with a score",
     "the metric, from the score file or its mean over heads, against the score; Pearson r and "
     "the least-squares line",
     false},
    {"plasticity-06-by-model", "head_metrics.csv", EVERY_HEAD,
     "ap_first_20pct, ap_last_20pct, ap_drop: " MEAN, true},
    {"stages-01-rotary-pairs", "rope_pairs.csv", "every rotary pair of every head",
     "shares of energy and of the predicted score: mean over the heads of a layer", false},
    {"stages-02-score-by-distance", "score_by_distance.csv",
     "the head of each fifth of the depth whose score varies most, and the one predicted worst",
     "measured and predicted mean score, by distance", false},
    {"stages-03-categories", "stages.csv", "every head with a category before and after RoPE",
     "number of heads", false},
    {"compare-01-heads", "compare.csv", "every head that both have, of up to six metrics",
     "a and b: a point a head", false},
    {"compare-02-map", "compare.csv", "every head that both have, of up to six metrics",
     "difference: a cell a head", false},
    {"compare-03-overlap", "compare_angles.csv", "every head and space",
     "overlap, and the smaller of overlap_halves_a and overlap_halves_b: a point a head, and "
     "mean over the heads of a layer",
     false},
};

const qk__figure_source *qk__source_of(const char *figure)
{
    for (size_t i = 0; i < sizeof SOURCES / sizeof *SOURCES; i++)
        if (strcmp(SOURCES[i].figure, figure) == 0)
            return &SOURCES[i];
    return NULL;
}

bool qk__pools_models(const char *figure)
{
    static const char *const NAMES[] = {"pca-01-pc-roles", "pca-05-explained-variance",
                                        "rotation-07-bias-vs-separation"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(NAMES[i], figure) == 0)
            return true;
    return false;
}
