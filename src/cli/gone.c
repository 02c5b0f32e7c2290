/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and options of earlier versions, and what took their place. */
#include "cli.h"

#include <string.h>

/* By command. Blanks separate words; options NULL: the commands themselves. */
static const struct {
    const char *commands, *options, *instead; /* The message: "X has left: use " and this. */
} GONE[] = {
    {"analyze attention pca plasticity rotate", "shard",
     "--layers, and join the tables with qkscope merge"},
    {"analyze plasticity", "variance", "the command without it: the variance is diag"},
    {"analyze-heads", NULL, "qkscope plasticity --convention published"},
    {"capture", "compat", "--config FILE, which chooses heads as the original tool does"},
    {"capture", "no-compat", "--model and --text, which choose heads as qkscope does"},
    {"compare",
     "from-position heads layers max-samples no-plasticity offline q-per-kv-group revision "
     "taxonomy-high taxonomy-low",
     "the options of qkscope analyze, whose results are compared"},
    {"compare", "subspace", "NumPy, on the rows that qkscope.open of the Python package reads"},
    {"get", NULL, "hf download ORG/NAME --repo-type dataset"},
    {"inspect", "offline", "the command without it: it fetches nothing"},
    {"inspect study", "jobs", "hf download --max-workers"},
    {"plot-plasticity", NULL, "qkscope report --figure plasticity-02-profiles"},
    {"put", NULL, "qkscope-push of the Python package (docs/howto/published.md#the-hub)"},
    {"repack", NULL, "qkscope capture --layout, or qkscope.write_capture in Python"},
    {"scatter", "complement", "--basis complement"},
    {"scatter", "head layer", "--heads LAYER:HEAD"},
    {"scatter", "qk", "the command without --kind"},
    {"study", "keep-downloads",
     "the command without it: downloads stay, and hf cache rm removes them"},
    {"synth", NULL, "tools/make_capture.py of the sources"},
};

/* Whether `words` has the word of `length` characters. */
static bool is_among(const char *words, const char *word, size_t length)
{
    while (*words) {
        size_t own = strcspn(words, " ");
        if (own == length && strncmp(words, word, length) == 0)
            return true;
        words += own + (words[own] == ' ');
    }
    return false;
}

const char *cli_gone(const char *command, const char *option)
{
    for (size_t i = 0; i < sizeof GONE / sizeof *GONE; i++)
        if (!GONE[i].options == !option &&
            is_among(GONE[i].commands, command, strlen(command)) &&
            (!option || is_among(GONE[i].options, option, strcspn(option, "="))))
            return GONE[i].instead;
    return NULL;
}
