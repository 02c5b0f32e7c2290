/* SPDX-License-Identifier: Apache-2.0 */
/* Labels in symbols, for who writes in another language or has no room for words. All of them: what
 * is not here has no symbol that a reader would know, and stays as it is. */
#include <stdio.h>
#include <string.h>

#include "figure/figure_text.h"

#define R_Q  "{/:Italic r}_q"
#define R_K  "{/:Italic r}_k"
#define BIAS "μ@^a_q α_k"

static const struct {
    const char *words, *symbol; /* markup */
} SYMBOLS[] = {
    {"Correlation of queries with position, " R_Q, R_Q},
    {"Correlation of keys with position, " R_K, R_K},
    {"Correlation with position on PC0", "{/:Italic r}"},
    {"Mean Pearson r with position", "{/:Italic r}"},
    {"Pearson r with position", "{/:Italic r}"},
    {R_Q ", mean ± 1 sd", R_Q " ± σ"},
    {"|" R_K "|, mean ± 1 sd", "|" R_K "| ± σ"},
    {"mean ± 1 sd", "± σ"},
    {"Correlation on the drift axis a, |{/:Italic r}|", "|{/:Italic r}^a|"},
    {"Mean |{/:Italic r}| with position", "|{/:Italic r}^a|"},
    {"|" R_K "| on the drift axis a", "|{/:Italic r}@^a_k|"},
    {"|" R_K "| on axis a", "|{/:Italic r}@^a_k|"},
    {"keys, |{/:Italic r}|", "|{/:Italic k}|"},
    {"queries", "{/:Italic q}"},
    {"keys", "{/:Italic k}"},
    {"Drift along a, |α|", "|α|"},
    {"Drift of keys, α_k", "α_k"},
    {"Median |α_k| / |α_q|", "|α_k| / |α_q|"},
    {"Mean of queries on axis a, μ@^a_q", "μ@^a_q"},
    {"Bias strength " BIAS, BIAS},
    {"Bias strength", BIAS},
    {"bias strength", BIAS},
    {"Bias", BIAS},
    {"axis a (drift)", "{/:Italic a}"},
    {"axis b (separation)", "{/:Italic b}"},
    {"{/:Italic a} (position axis)", "{/:Italic a}"},
    {"{/:Italic b} (separation axis)", "{/:Italic b}"},
    {"Attention plasticity", "AP"},
    {"attention plasticity", "AP"},
    {"first 20 % of the context", "0–20 %"},
    {"last 20 %", "80–100 %"},
    {"drop", "Δ"},
    {"Principal component", "PC"},
    {"Position of the query (tokens)", "{/:Italic t}"},
    {"Depth (layer / last layer)", "ℓ / ℓ_{max}"},
    {"Layer", "ℓ"},
    {"Query head", "{/:Italic h}"},
    {"Head", "{/:Italic h}"},
};

/* How much of the label these words are; 0: they are not in it. A power of ten may follow, or what the
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
