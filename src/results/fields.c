/* SPDX-License-Identifier: Apache-2.0 */
/* Every number of a head by name, with what an axis calls it. */
#include <string.h>

#include "results/results.h"

#define FIELD(table, member, label)                                                            \
    {                                                                                          \
#member, label, table, offsetof(qk__head_numbers, member)                              \
    }
#define QK(member, label)      FIELD("qk.csv", member, label)
#define HEADS(member, label)   FIELD("heads.csv", member, label)
#define ROTATED(member, label) FIELD("rotated.csv", member, label)
#define METRICS(member, label) FIELD("head_metrics.csv", member, label)
#define STAGES(member, label)  FIELD("stages.csv", member, label)

const qk__field qk__fields[] = {
    QK(r_q, "query-position correlation r_q on PC0"),
    QK(r_k, "key-position correlation r_k on PC0"),
    QK(p_q, "p-value of r_q on PC0"),
    QK(p_k, "p-value of r_k on PC0"),
    QK(mu_q, "mean query projection on PC0"),
    QK(mu_k, "mean key projection on PC0"),
    QK(alpha, "query slope on PC0 (per token)"),
    QK(beta, "key slope on PC0 (per token)"),

    HEADS(ev0, "explained variance of PC0 (share)"),
    HEADS(pos_var_q, "positional variance of queries (share)"),
    HEADS(pos_var_k, "positional variance of keys (share)"),
    HEADS(pos_var_q_pc0_share, "share of PC0 in the positional variance of queries"),
    HEADS(lin_var_q, "query variance linear in position (share)"),
    HEADS(lin_var_k, "key variance linear in position (share)"),
    HEADS(positional_overhead, "positional overhead (share of variance)"),
    HEADS(separation, "query-key separation on PC0"),
    HEADS(fisher, "Fisher ratio of queries and keys on PC0"),
    HEADS(lda_accuracy, "LDA accuracy, queries against keys (share)"),
    HEADS(mu_q_beta, "key-position bias on PC0 (score per token)"),
    HEADS(alpha_beta, "product of slopes on PC0 (score per token squared)"),
    HEADS(category_share, "certainty of the category (share of repetitions)"),
    HEADS(texts, "texts"),
    HEADS(r_q_width, "width of the 95% interval of r_q on PC0"),

    ROTATED(position_r, "position correlation |r| on axis a"),
    ROTATED(r_q_a, "query-position correlation r_q on axis a"),
    ROTATED(r_k_a, "key-position correlation r_k on axis a"),
    ROTATED(alpha_q, "query slope on axis a (per token)"),
    ROTATED(alpha_k, "key slope on axis a (per token)"),
    ROTATED(mu_q_a, "mean query projection on axis a"),
    ROTATED(mu_k_a, "mean key projection on axis a"),
    ROTATED(mu_q_b, "mean query projection on axis b"),
    ROTATED(mu_k_b, "mean key projection on axis b"),
    ROTATED(bias_strength, "bias strength (score per token)"),
    ROTATED(separation_strength, "separation strength (share of query-key difference)"),
    ROTATED(var_frac_a, "variance on axis a (share)"),
    ROTATED(var_frac_b, "variance on axis b (share)"),
    ROTATED(plane_var_fraction, "variance in the (a, b) plane (share)"),
    ROTATED(content_var_b, "content variance on axis b"),
    ROTATED(omega, "frequency along axis a (radians per token)"),
    ROTATED(omega_r_squared, "R² of the sinusoid along axis a"),

    METRICS(q_R2_pos, "query variance linear in position, mean R² over dimensions"),
    METRICS(beta_norm, "query drift |β| (per token)"),
    METRICS(q_R2_scalar, "R² of log position from the query drift"),
    METRICS(q_mae_ratio, "error of log position from the query drift (ratio to baseline)"),
    METRICS(ap_overall, "attention plasticity"),
    METRICS(ap_first_20pct, "attention plasticity, first 20% of context"),
    METRICS(ap_last_20pct, "attention plasticity, last 20% of context"),
    METRICS(ap_drop, "attention plasticity drop, first to last 20% of context"),

    STAGES(r_q_before, "query-position correlation r_q on PC0 before RoPE"),
    STAGES(r_k_before, "key-position correlation r_k on PC0 before RoPE"),
    STAGES(r_q_after, "query-position correlation r_q on PC0 after RoPE"),
    STAGES(r_k_after, "key-position correlation r_k on PC0 after RoPE"),
    STAGES(r_squared_predicted, "score by distance: R² of the mean vectors' prediction"),
    STAGES(measured_sd, "score by distance: standard deviation"),
    STAGES(top_wavelength, "wavelength of the rotary pair with most of the score's variance"),
    STAGES(context, "tokens that positions reach to"),
    STAGES(slow_energy_q, "energy of queries in slow rotary pairs (share)"),
    STAGES(slow_energy_k, "energy of keys in slow rotary pairs (share)"),
    STAGES(slow_score_share, "score variance over distance in slow rotary pairs (share)"),
};
const size_t qk__num_fields = sizeof qk__fields / sizeof *qk__fields;

const qk__field *qk__find_field(const char *name)
{
    for (size_t i = 0; i < qk__num_fields; i++)
        if (strcmp(qk__fields[i].name, name) == 0)
            return &qk__fields[i];
    return NULL;
}

double qk__field_value(const qk__field *field, const qk__head_numbers *numbers)
{
    double value;
    memcpy(&value, (const char *)numbers + field->offset, sizeof value);
    return value;
}
