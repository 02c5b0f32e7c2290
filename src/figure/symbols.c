/* SPDX-License-Identifier: Apache-2.0 */
/* Labels in symbols, for readers of another language or pages without room for words. These are all: what is not here
 * has no symbol that a reader would know, and stays as it is. */
#include <stdio.h>
#include <string.h>

#include "figure/figure_text.h"

#define R_Q  "<i>r</i><sub>q</sub>"
#define R_K  "<i>r</i><sub>k</sub>"
#define BIAS "μ<sup>a</sup><sub>q</sub> α<sub>k</sub>"

static const struct {
    const char *words, *symbol; /* markup */
} SYMBOLS[] = {
    {"Correlation of queries with position, " R_Q, R_Q},
    {"Correlation of keys with position, " R_K, R_K},
    {"Correlation with position on PC0", "<i>r</i>"},
    {"Mean Pearson r with position", "<i>r</i>"},
    {"Pearson r with position", "<i>r</i>"},
    {R_Q ", mean ± 1 sd", R_Q " ± σ"},
    {"|" R_K "|, mean ± 1 sd", "|" R_K "| ± σ"},
    {"mean ± 1 sd", "± σ"},
    {"Correlation on the drift axis a, |<i>r</i>|", "|<i>r</i><sup>a</sup>|"},
    {"Mean |<i>r</i>| with position", "|<i>r</i><sup>a</sup>|"},
    {"|" R_K "| on the drift axis a", "|<i>r</i><sup>a</sup><sub>k</sub>|"},
    {"|" R_K "| on axis a", "|<i>r</i><sup>a</sup><sub>k</sub>|"},
    {"keys, |<i>r</i>|", "|<i>k</i>|"},
    {"queries", "<i>q</i>"},
    {"keys", "<i>k</i>"},
    {"Drift along a, |α|", "|α|"},
    {"Drift of keys, α<sub>k</sub>", "α<sub>k</sub>"},
    {"Median |α<sub>k</sub>| / |α<sub>q</sub>|", "|α<sub>k</sub>| / |α<sub>q</sub>|"},
    {"Mean of queries on axis a, μ<sup>a</sup><sub>q</sub>", "μ<sup>a</sup><sub>q</sub>"},
    {"Bias strength " BIAS, BIAS},
    {"Bias strength", BIAS},
    {"bias strength", BIAS},
    {"Bias", BIAS},
    {"axis a (drift)", "<i>a</i>"},
    {"axis b (separation)", "<i>b</i>"},
    {"<i>a</i> (position axis)", "<i>a</i>"},
    {"<i>b</i> (separation axis)", "<i>b</i>"},
    {"Attention plasticity", "AP"},
    {"attention plasticity", "AP"},
    {"first 20 % of the context", "0–20 %"},
    {"last 20 %", "80–100 %"},
    {"drop", "Δ"},
    {"Principal component", "PC"},
    {"Position of the query (tokens)", "<i>t</i>"},
    {"Depth (layer / last layer)", "ℓ / ℓ<sub>max</sub>"},
    {"Layer", "ℓ"},
    {"Query head", "<i>h</i>"},
    {"Head", "<i>h</i>"},
};

/* The length of the words at the beginning of the label; 0: they are not there. A power of ten may follow, or what the
 * numbers leave out. */
static size_t words_at(const char *label, const char *words)
{
    size_t length = strlen(words);
    const char *rest = label + length;
    if (strncmp(label, words, length) != 0)
        return 0;
    return *rest == 0 || *rest == ',' || strncmp(rest, " × ", strlen(" × ")) == 0 ? length : 0;
}

const char *qk__in_symbols(const qk__figure *figure, const char *markup,
                           char out[QK__LINE_SIZE])
{
    size_t most = 0, found = 0;
    for (size_t i = 0; figure->symbols && i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        size_t length = words_at(markup, SYMBOLS[i].words);
        found = length > most ? i : found;
        most = length > most ? length : most;
    }
    if (most == 0)
        return markup;
    snprintf(out, QK__LINE_SIZE, "%s%s", SYMBOLS[found].symbol, markup + most);
    return out;
}
