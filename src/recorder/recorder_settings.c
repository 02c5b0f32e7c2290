/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a capture. The rows with a place in the manifest decide its bytes: a run is resumed only where they
 * are the same. */
#include <qkscope/recorder.h>

#include "base/error.h"
#include "sampler/sampler.h"
#include "settings/common_rows.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_recorder_settings, member)
#define CAPTURE    "capture" /* the other rows belong to `loss`, too */

static const qk_word LAYOUTS[] = {
    {"heads", QK_LAYOUT_HEADS}, {"packed", QK_LAYOUT_PACKED}, {0}};
static const qk_word LONG[] = {{"split", QK_LONG_SPLIT},
                               {"cut", QK_LONG_CUT},
                               {"truncate", QK_LONG_CUT},
                               {"skip", QK_LONG_SKIP},
                               {0}};
static const qk_word SAMPLERS[] = {{"uniform", QK_SAMPLER_UNIFORM},
                                   {"log_uniform", QK_SAMPLER_LOG_UNIFORM},
                                   {"all", QK_SAMPLER_ALL},
                                   {0}};
static const qk_word KINDS[] = {{"q", QK_KINDS_Q}, {"k", QK_KINDS_K}, {0}};
static const qk_word STAGES[] = {
    {"post", QK_ROPE_AFTER}, {"pre", QK_ROPE_BEFORE}, {"both", QK_ROPE_BOTH}, {0}};
static const qk_word DTYPES[] = {
    {"float32", QK_ARITHMETIC_F32},       {"f32", QK_ARITHMETIC_F32},
    {"bf16-sim", QK_ARITHMETIC_BF16_SIM}, {"bf16", QK_ARITHMETIC_BF16},
    {"f16-sim", QK_ARITHMETIC_F16_SIM},   {0}};

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "DIR",
     .help = "folder for the capture", .section = "Output", .commands = CAPTURE,
     .yaml = "output.data_root"},
    {"force", QK_SETTING_FLAG, AT(force),
     .help = "replace a capture or an unfinished run in DIR; the old one stays until the new "
             "one is complete",
     .section = "Output", .commands = CAPTURE},
    {"layout", QK_SETTING_CHOICE, AT(layout), .words = LAYOUTS, .value = "LAYOUT",
     .help = "a file a head (heads), or one a layer and kind (packed)", .section = "Files",
     .commands = CAPTURE},
    {"model-name", QK_SETTING_TEXT, AT(model_name), .value = "NAME",
     .help = "name in capture.json and tables", .unset = "org/name, or the folder's name",
     .section = "Output", .commands = CAPTURE, .traits = QK_SETTING_UTF8},
    {"token-strings", QK_SETTING_FLAG, AT(token_strings),
     .help = "add the column token_str, of which analyze lists tokens", .section = "Output",
     .commands = CAPTURE, .yaml = "capture.capture_token_strings", .manifest = "token_strings"},
    {"model", QK_SETTING_PATH, AT(model), .letter = 'm', .value = "MODEL",
     .help = "the model: a folder, a GGUF file, or org/name on the Hugging Face Hub",
     .section = "Model", .yaml = "model.name"},
    {"revision", QK_SETTING_TEXT, AT(revision), .value = "REV",
     .help = "branch, tag or commit of a model on the Hub", .unset = "main", .section = "Model",
     .yaml = "model.revision"},
    {"offline", QK_SETTING_FLAG, AT(context.offline),
     .help = "fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1",
     .section = "Model"},
    {"tokenizer", QK_SETTING_PATH, AT(tokenizer), .value = "FILE",
     .help = "tokenizer.json or its folder, or a GGUF file", .unset = "the model's",
     .section = "Model", .yaml = "tokenizer.name"},
    {"dtype", QK_SETTING_CHOICE, AT(arithmetic), .number = QK_ARITHMETIC_F32, .words = DTYPES,
     .help = "bf16: bfloat16 products, faster on AMD's processors with AVX512_BF16; bf16-sim, "
             "f16-sim: float32, rounded as a run in bfloat16 or float16 does",
     .section = "Model", .manifest = "arithmetic"},
    {"text", QK_SETTING_PATHS, AT(texts), .letter = 't', .value = "TEXT",
     .help = "file or folder of texts, or repeat:LENGTHxTIMES (and :COUNT:SEED), random tokens "
             "that "
             "are repeated; several may follow",
     .section = "Texts"},
    {"text-column", QK_SETTING_TEXT, AT(text_column), .value = "NAME",
     .help = "key or column of JSON, .parquet, .csv that holds the text", .unset = "text",
     .section = "Texts", .yaml = "dataset.text_column"},
    {"id-column", QK_SETTING_TEXT, AT(id_column), .value = "NAME",
     .help = "column that holds ids of texts", .unset = "their numbers", .section = "Texts",
     .yaml = "dataset.id_column"},
    {"dataset-name", QK_SETTING_TEXT, AT(dataset_name), .value = "WORD",
     .help = "of a folder, take files with this word in their path", .section = "Texts",
     .commands = "", .yaml = "dataset.name"},
    {"dataset-split", QK_SETTING_TEXT, AT(dataset_split), .value = "WORD",
     .help = "of a folder, take files with this word in their path", .section = "Texts",
     .commands = "", .yaml = "dataset.split"},
    {"max-texts", QK_SETTING_INTEGER, AT(max_examples), .min = 1, .max = 1e15, .value = "N",
     .help = "take the first N texts", .unset = "all", .section = "Texts",
     .yaml = "dataset.max_samples"},
    {"max-length", QK_SETTING_INTEGER, AT(max_length), .min = 1, .max = 1 << 30, .value = "N",
     .unit = "tokens", .help = "longest text, in tokens",
     .unset = "what the model was made for", .section = "Texts", .yaml = "tokenizer.max_length",
     .manifest = "texts.max_length"},
    {"long", QK_SETTING_CHOICE, AT(long_texts), .number = QK_LONG_SPLIT, .words = LONG,
     .help =
         "what becomes of longer texts: split into windows, each an example; cut; or skipped",
     .section = "Texts", .manifest = "texts.long"},
    {"rows", QK_SETTING_INTEGER, AT(rows), .number = 8000, .min = 1, .max = 1e15, .value = "N",
     .unit = "rows", .help = "keep about N rows of each head and kind",
     .unset = "8000, unless --sampler or --base-rate is given", .section = "Rows",
     .commands = CAPTURE},
    {"sampler", QK_SETTING_CHOICE, AT(sampler.type), .number = QK_SAMPLER_UNIFORM,
     .words = SAMPLERS,
     .help =
         "which positions are kept: uniform: evenly; log_uniform: early ones more often; all",
     .section = "Rows", .commands = CAPTURE, .yaml = "capture.sampler.type",
     .manifest = "sampler.type", .traits = QK_SETTING_ANY_CASE},
    {"base-rate", QK_SETTING_REAL, AT(sampler.base_rate), .min = 1e-9, .max = 1e9, .value = "R",
     .help = "instead of --rows: positions kept in a bucket, on average; with log_uniform, "
             "unless --sampler is given",
     .unset = "chosen by --rows", .section = "Rows", .commands = CAPTURE,
     .yaml = "capture.sampler.base_rate", .manifest = "sampler.base_rate"},
    {"bucket", QK_SETTING_INTEGER, AT(sampler.min_bucket_size), .min = 1,
     .max = 1099511627776.0 /* 2^40 */, .value = "N", .unit = "tokens",
     .help = "tokens in a bucket; with log_uniform, in the smallest bucket",
     .unset = "1/16 of the longest text; 128 with log_uniform or --base-rate",
     .section = "Rows", .commands = CAPTURE, .yaml = "capture.min_bucket_size",
     .manifest = "sampler.bucket_size"},
    {"max-rows", QK_SETTING_INTEGER, AT(sampler.max_rows), .min = 1, .max = 1e15, .value = "N",
     .unit = "rows", .help = "at most N rows of a text, layer and kind", .unset = "no limit",
     .section = "Rows", .commands = CAPTURE, .yaml = "capture.max_rows_per_batch",
     .manifest = "sampler.max_rows"},
    {"keep", QK_SETTING_TEXT, AT(keep), .value = "WHAT",
     .help =
         "what is kept: rows; moments: sums whose size does not grow with the texts, enough "
         "for pca and rotate; moments,reservoir=N: sums, and N rows of each text and "
         "bucket, for plasticity; moments,first=K: sums, those of positions below K apart, "
         "for --from-position K; or rows,moments. Sums are over all positions, unless a "
         "sampler is given. With any of these, attention: sums over every row of what heads "
         "attend to",
     .unset = "rows,attention; of a configuration file of the original tool, rows",
     .section = "Rows", .commands = CAPTURE},
    {"groups", QK_SETTING_INTEGER, AT(groups), .number = 16, .max = QK_MOST_GROUPS,
     .value = "G",
     .help = "keep sums of G groups of texts, for confidence intervals: 0, or 2 to 64",
     .section = "Rows", .commands = CAPTURE},
    {"layers", QK_SETTING_LIST, AT(layers), .value = "LIST", .help = "layers to keep",
     .unset = "all", .section = "Heads", .commands = CAPTURE, .yaml = "capture.layers",
     .manifest = "selection.layers"},
    {"heads", QK_SETTING_HEADS, AT(heads), .value = "L:H,...",
     .help = "query heads to keep, and their key heads: 2:1,14-23:*, 5 (of every layer), @FILE",
     .unset = "all", .section = "Heads", .commands = CAPTURE, .yaml = "capture.heads",
     .manifest = "selection.heads"},
    {"kinds", QK_SETTING_SET, AT(kinds), .number = QK_KINDS_BOTH, .words = KINDS,
     .value = "q,k", .help = "queries, keys or both", .section = "Heads", .commands = CAPTURE,
     .manifest = "selection.kinds"},
    {"sample-heads", QK_SETTING_INTEGER, AT(sample_heads), .min = 1, .max = 1e9, .value = "N",
     .help = "draw N query heads", .unset = "all", .section = "Heads", .commands = CAPTURE,
     .yaml = "capture.head_sampling.count", .manifest = "selection.sampling.count"},
    {"seed", QK_SETTING_INTEGER, AT(head_seed), .value = "S", .help = "seed of that draw",
     .unset = "0", .section = "Heads", .commands = CAPTURE,
     .yaml = "capture.head_sampling.seed", .manifest = "selection.sampling.seed"},
    {"stage", QK_SETTING_CHOICE, AT(stage), .number = QK_ROPE_AFTER, .words = STAGES,
     .help = "vectors after RoPE (post), before it (pre) or both", .section = "Heads",
     .commands = CAPTURE, .manifest = "stage"},
    {"full-attention-only", QK_SETTING_FLAG, AT(full_attention_only),
     .help = "leave out layers with sliding windows", .section = "Heads", .commands = CAPTURE,
     .yaml = "capture.full_attention_only", .manifest = "selection.full_attention_only"},
    {"compat", QK_SETTING_FLAG, AT(compat), .help = "choose heads as the original tool does",
     .section = "Heads", .commands = "", .manifest = "selection.compat"},
    QK__THREADS_ROW(qk_recorder_settings, NULL, .yaml = NULL),
    {"tokens-at-once", QK_SETTING_INTEGER, AT(tokens_at_once), .min = 1, .max = 1e9,
     .value = "N", .unit = "tokens",
     .help = "tokens that are run together; more take more memory", .unset = "8192",
     .section = "Running", .commands = "capture loss"},
};

const qk_settings_table qk_recorder_settings_table = {
    QK_SETTINGS_ROWS(qk_recorder_settings, ROWS)};

void qk_recorder_settings_default(qk_recorder_settings *settings)
{
    qk_settings_default(&qk_recorder_settings_table, settings);
}

qk_status qk_recorder_settle_sampler(const qk_settings *given, bool of_file,
                                     qk_recorder_settings *settings, qk_error *err)
{
    QK_NEED(err, given, settings);
    qk_sampler *s = &settings->sampler;
    qk_sampler usual;
    qk_keep keep = {.rows = true};
    qk__sampler_default(&usual);
    bool type = qk_settings_given(given, "sampler");
    bool rate = qk_settings_given(given, "base-rate"), rows = qk_settings_given(given, "rows");
    if (settings->keep)
        QK_TRY(qk__context(err, qk_keep_parse(settings->keep, &keep, err), "--keep"));
    if (!keep.rows && !type && !rate && !rows && !of_file) {
        s->type = QK_SAMPLER_ALL; /* sums of all positions are no larger */
        return QK_OK;
    }
    if (rows && rate)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "--rows chooses the rate: give --rows or --base-rate, not both");
    if (rows && s->type == QK_SAMPLER_ALL)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "--rows: the sampler \"all\" keeps every row; give uniform or "
                        "log_uniform, or leave out --rows");
    if (rows) {
        s->base_rate = 0;
    } else if ((type || rate) && !of_file) {
        s->type = type ? s->type : usual.type;
        s->base_rate = rate ? s->base_rate : usual.base_rate;
        if (s->min_bucket_size == 0 && s->type != QK_SAMPLER_ALL) /* a rate counts by bucket */
            s->min_bucket_size = usual.min_bucket_size;
    }
    return QK_OK;
}

_Static_assert(offsetof(qk_recorder_settings, num_texts) ==
                   offsetof(qk_recorder_settings, texts) + sizeof(char **),
               "as QK_SETTING_PATHS has it");
