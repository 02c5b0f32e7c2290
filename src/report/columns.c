/* SPDX-License-Identifier: Apache-2.0 */
/* What each column of the per-head tables is, for the list of definitions and for the explorer.
 */
#include <string.h>

#include "report/sections.h"

static const struct {
    const char *field, *about;
} COLUMNS[] = {
    {"r_q", "Pearson correlation of the queries' projection on PC0 with token position"},
    {"r_k", "the same of the keys"},
    {"p_q", "two-sided p-value of r_q, as if rows were independent; 0: underflow"},
    {"p_k", "the same of r_k"},
    {"mu_q", "mean of the queries' projection on PC0, not centred"},
    {"mu_k", "mean of the keys' projection on PC0, not centred"},
    {"alpha", "least-squares slope of the queries' projection on PC0 over position, per token"},
    {"beta", "the same of the keys"},
    {"ev0", "share of the pooled variance of queries and keys in PC0"},
    {"pos_var_q", "sum over components of explained variance times r_q squared"},
    {"pos_var_k", "the same with r_k"},
    {"pos_var_q_pc0_share", "PC0's part of pos_var_q"},
    {"lin_var_q", "exact share of the queries' variance that is linear in position"},
    {"lin_var_k", "the same of the keys"},
    {"positional_overhead", "the same of both, each kind centred on its own mean"},
    {"separation", "distance of the means of queries and keys on PC0"},
    {"fisher", "squared separation over the sum of the variances of queries and keys on PC0"},
    {"lda_accuracy",
     "share of rows that a linear discriminant in (PC0, PC1) calls by the right kind"},
    {"mu_q_beta", "mean query on PC0 times slope of the keys: bias by key position"},
    {"alpha_beta", "product of the two slopes on PC0"},
    {"category_share",
     "share of the repetitions of a jackknife over texts in which the head keeps its category"},
    {"texts", "texts of the queries or of the keys, whichever are fewer"},
    {"r_q_width", "width of the 95 % interval of r_q by that jackknife"},
    {"position_r", "|correlation| of all rows with position along axis a"},
    {"r_q_a", "correlation of the queries with position along a"},
    {"r_k_a", "correlation of the keys with position along a"},
    {"alpha_q", "slope of the queries along a, per token"},
    {"alpha_k", "slope of the keys along a, per token"},
    {"mu_q_a", "mean query along a, not centred"},
    {"mu_k_a", "mean key along a, not centred"},
    {"mu_q_b", "mean query along b, not centred"},
    {"mu_k_b", "mean key along b, not centred"},
    {"bias_strength",
     "mean query along a times slope of the keys: what a key's score gains per token "
     "it is later; above 0 favours recent keys"},
    {"separation_strength", "share of the mean squared query-key difference along b"},
    {"var_frac_a", "share of the pooled variance along a"},
    {"var_frac_b", "share of the pooled variance along b"},
    {"plane_var_fraction", "share of the pooled variance in the plane (a, b)"},
    {"content_var_b", "mean of the variances of queries and of keys along b"},
    {"omega", "frequency of the best sinusoid along a, radians per token"},
    {"omega_r_squared", "how much of the variance along a that sinusoid explains"},
    {"q_R2_pos", "mean over dimensions of the share of query variance linear in position"},
    {"beta_norm", "length of the queries' drift, per token"},
    {"q_R2_scalar", "R² of log2(position + 1) predicted from the queries along their drift"},
    {"q_mae_ratio", "mean error of that prediction over the error of predicting the mean"},
    {"ap_overall",
     "attention plasticity, mean over the queries: 1 content decides, 0 position does"},
    {"ap_first_20pct", "the same of queries in the first fifth of the context"},
    {"ap_last_20pct", "the same of queries in the last fifth"},
    {"ap_drop", "first less last fifth"},
    {"r_q_before", "r_q of the rows before RoPE, on their own PC0"},
    {"r_k_before", "the same of the keys"},
    {"r_q_after", "r_q of the same rows after RoPE"},
    {"r_k_after", "the same of the keys"},
    {"r_squared_predicted",
     "share of the variance of the mean score over distance that mean vectors before RoPE and "
     "the frequencies predict; below 0: a constant does better"},
    {"measured_sd", "standard deviation of the mean score q·k over bins of distance"},
    {"top_wavelength", "tokens of a turn of the rotary pair with the largest score share"},
    {"context", "tokens that positions reach to"},
    {"slow_energy_q",
     "share of the queries' squared length in rotary pairs that turn less than once in the "
     "context"},
    {"slow_energy_k", "the same of the keys"},
    {"slow_score_share", "their share of the variance of the predicted score over distance"},
};

const char *qk__column_about(const char *field)
{
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++)
        if (strcmp(COLUMNS[i].field, field) == 0)
            return COLUMNS[i].about;
    return "";
}
