/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and options of earlier versions, and what took their place. */
#include "cli.h"

#include <string.h>

/* option NULL: the command itself; command NULL: of all commands. */
static const struct {
    const char *command, *option, *instead;
} GONE[] = {
    {"get", NULL, "hf download ORG/NAME --repo-type dataset (commands fetch what they need)"},
    {"put", NULL, "qkscope push, of the Python package"},
    {NULL, "jobs", "the settings of hf, which fetches"},
    {"study", "keep-downloads", "hf cache"},
    {"inspect", "offline", "no option: it fetches nothing"},
    {"analyze", "shard", "--layers, and 'qkscope merge' of the folders"},
    {"attention", "shard", "--layers, and 'qkscope merge' of the folders"},
    {"pca", "shard", "--layers, and 'qkscope merge' of the folders"},
    {"plasticity", "shard", "--layers, and 'qkscope merge' of the folders"},
    {"repack", NULL, "qkscope capture --layout, or qkscope.write_capture in Python"},
    {"analyze-heads", NULL, "qkscope plasticity --convention published"},
    {"plot-plasticity", NULL, "qkscope report, figure plasticity-02-profiles"},
    {"rotate", "shard", "--layers, and 'qkscope merge' of the folders"},
    {"synth", NULL, "tools/make_capture.py of the sources"},
    {"compare", "subspace", "qkscope.open and NumPy, for spaces of components"},
    {"compare", "no-plasticity", "qkscope pca or rotate, for results without plasticity"},
    {"compare", "layers", "qkscope analyze --layers, for results of these"},
    {"compare", "heads", "qkscope analyze --heads, for results of these"},
    {"compare", "max-samples", "qkscope analyze --max-samples, for results of these"},
    {"compare", "from-position", "qkscope analyze --from-position, for results of these"},
    {"compare", "q-per-kv-group", "qkscope analyze --q-per-kv-group"},
    {"compare", "revision", "qkscope analyze --revision, for results of each"},
    {"compare", "offline", "nothing: compare fetches nothing"},
    {"compare", "taxonomy-low", "qkscope analyze --taxonomy-low"},
    {"compare", "taxonomy-high", "qkscope analyze --taxonomy-high"},
    {NULL, "variance", "no --variance: it is diag"},
    {"capture", "compat", "--config FILE, which chooses heads as the original tool"},
    {"capture", "no-compat", "no --config, but --model, --text and options"},
    {"scatter", "layer", "--heads LAYER:HEAD"},
    {"scatter", "head", "--heads LAYER:HEAD"},
    {"scatter", "complement", "--basis complement"},
    {"scatter", "qk", "no --kind, which draws both"},
};

/* Of length characters, or of all where the second is shorter. */
static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(word, name, length) == 0;
}

const char *cli_gone(const char *command, const char *option)
{
    size_t length = option ? strcspn(option, "=") : 0;
    for (size_t i = 0; i < sizeof GONE / sizeof *GONE; i++)
        if ((!GONE[i].command || strcmp(GONE[i].command, command) == 0) &&
            (option ? GONE[i].option && is_word(option, length, GONE[i].option)
                    : !GONE[i].option))
            return GONE[i].instead;
    return NULL;
}
