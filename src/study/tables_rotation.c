/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the rotation model: rotated.csv, complement.csv. Their columns are defined here. */
#include <math.h>

#include "base/error.h"
#include "study/table.h"

static qk_status format_rotation(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                                 qk_error *err)
{
    const qk_rotation *r = head->rotation;
    if (!r)
        return QK_OK;
    const double values[] = {r->position_r,
                             r->r_q_a,
                             r->r_k_a,
                             r->alpha_q,
                             r->alpha_k,
                             r->mu_q_a,
                             r->mu_k_a,
                             r->mu_q_b,
                             r->mu_k_b,
                             r->bias_strength,
                             r->separation_strength,
                             r->var_frac_a,
                             r->var_frac_b,
                             r->plane_var_fraction,
                             r->content_var_b,
                             r->residual_pos_r,
                             r->omega,
                             r->omega_r_squared};
    QK_TRY(qk__add_ids(run, head, text, err));
    QK_TRY(qk__add_numbers(text, values, sizeof values / sizeof *values, ',', err));
    QK_TRY(qk__csv_integer(text, r->n_q, ',', err));
    QK_TRY(qk__csv_integer(text, r->n_k, qk__row_end(run), err));
    qk_interval intervals[] = {{NAN, NAN}, {NAN, NAN}, {NAN, NAN}, {NAN, NAN}};
    if (head->intervals) {
        intervals[0] = head->intervals->r_q_a;
        intervals[1] = head->intervals->r_k_a;
        intervals[2] = head->intervals->alpha_k;
        intervals[3] = head->intervals->bias_strength;
    }
    return qk__add_intervals(run, text, intervals, 4, err);
}

/* The model's frequency nearest to omega as a ratio, and how far off omega is. */
static void find_nearest(const double *frequencies, size_t count, double omega, double *nearest,
                         double *error)
{
    *nearest = *error = NAN;
    for (size_t i = 0; i < count && omega > 0; i++) {
        double off = fabs(omega / frequencies[i] - 1);
        if (!(fabs(log(omega / frequencies[i])) >= fabs(log(omega / *nearest)))) {
            *nearest = frequencies[i];
            *error = off;
        }
    }
}

static qk_status format_planes(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                               qk_error *err)
{
    const qk_rotation *r = head->rotation;
    size_t count;
    const double *frequencies =
        qk_capture_rope_frequencies(run->capture, head->id.layer, &count);
    for (size_t i = 0; r && i < r->num_planes; i++) {
        const qk_plane *plane = &r->planes[i];
        double nearest, error;
        find_nearest(frequencies, count, plane->omega, &nearest, &error);
        const double values[] = {plane->variance_share, plane->angle_r, plane->omega,
                                 plane->resultant,      nearest,        error};
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, (long long)i, ',', err));
        QK_TRY(qk__add_numbers(text, values, sizeof values / sizeof *values, '\n', err));
    }
    return QK_OK;
}

qk_status qk__write_rotation_tables(qk_run *run, qk_error *err)
{
    static const qk_table_spec rotated = {
        "rotated.csv",
        "model,layer,q_head,k_head,position_r,r_q_a,r_k_a,alpha_q,alpha_k,mu_q_a,mu_k_a,mu_q_b,"
        "mu_k_b,bias_strength,separation_strength,var_frac_a,var_frac_b,plane_var_fraction,"
        "content_var_b,residual_pos_r,omega,omega_r_squared,n_q,n_k",
        "r_q_a_lo,r_q_a_hi,r_k_a_lo,r_k_a_hi,alpha_k_lo,alpha_k_hi,bias_strength_lo,"
        "bias_strength_hi",
        format_rotation};
    static const qk_table_spec complement = {
        "complement.csv",
        "model,layer,q_head,k_head,pair,variance_share,angle_r,omega,resultant,rope_frequency,"
        "rope_relative_error",
        NULL, format_planes};
    QK_TRY(qk__write_table(run, &rotated, err));
    return run->settings->rotation.planes > 0 ? qk__write_table(run, &complement, err) : QK_OK;
}
