/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of earlier versions, and what replaced them. */
#include <string.h>

#include <qkscope/results.h>

static const struct {
    const char *name, *instead;
} GONE[] = {
    {"duplicate_mul", "duplicate_mass"},
    {"effective_keys", "information"},
    {"entropy", "information"},
    {"first_mass", "sink_mass"},
    {"frequency", "wavelength (2π over the frequency)"},
    {"induction_mul", "induction_mass"},
    {"local_mass", "window_99, near_mass and far_mass"},
    {"means_tv", "means_r2"},
    {"participation", "information"},
    {"rotation_slope", "bias_strength"},
    {"rotation_tv", "rotation_r2"},
    {"top_frequency", "top_wavelength (2π over the frequency)"},
    {"top_offset", "mass of attention_profile"},
    {"top_offset_share", "mass of attention_profile"},
    {"top_previous", "previous_mass"},
    {"top_self", "self_mass"},
    {"top_sink", "sink_mass"},
    {"uniform_tv", "information"},
};

const char *qk_gone_column(const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *own = dot ? dot + 1 : name;
    for (size_t i = 0; i < sizeof GONE / sizeof *GONE; i++)
        if (strcmp(GONE[i].name, own) == 0)
            return GONE[i].instead;
    return NULL;
}
