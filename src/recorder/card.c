/* SPDX-License-Identifier: Apache-2.0 */
/* Writes lines for the card of a capture: where its rows come from and how they were chosen. Facts that the original
 * tool tells keep its names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "recorder/recording.h"

/* Further sources are only counted. */
enum { MAX_SOURCES = 20 };

/* ---- sources ---------------------------------------------------------------------------- */

/* Puts a text between backticks, on one line. */
static qk_status put_code(const char *text, qk__buffer *out, qk_error *err)
{
    size_t begin = out->size + 1;
    QK_TRY(qk__buffer_printf(out, err, "`%s`", text));
    for (size_t i = begin; i + 1 < out->size; i++)
        if (out->data[i] < 0x20 || out->data[i] == 0x7f || out->data[i] == '`')
            out->data[i] = ' ';
    return QK_OK;
}

static qk_status put_fact(const char *name, const char *value, qk__buffer *out, qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err, "- `%s`: ", name));
    QK_TRY(put_code(value, out, err));
    return qk__buffer_printf(out, err, "\n");
}

static qk_status put_sources(const qk_recorder_settings *s, qk__buffer *out, qk_error *err)
{
    if (s->num_texts == 0) /* an engine has them */
        return QK_OK;
    QK_TRY(qk__buffer_printf(out, err, "- `source_dataset`: "));
    for (size_t i = 0; i < s->num_texts && i < MAX_SOURCES; i++) {
        if (i > 0)
            QK_TRY(qk__buffer_printf(out, err, ", "));
        QK_TRY(put_code(s->texts[i], out, err));
    }
    if (s->num_texts > MAX_SOURCES)
        QK_TRY(qk__buffer_printf(out, err, " and %zu more", s->num_texts - MAX_SOURCES));
    QK_TRY(qk__buffer_printf(out, err, "\n"));
    const char *split = s->dataset_split;
    for (size_t i = 0; !split && i < s->num_texts; i++)
        split = qk__is_repeat(s->texts[i]) || qk__is_there(s->texts[i])
                    ? NULL
                    : "train"; /* a dataset in the cache */
    if (s->dataset_name)
        QK_TRY(put_fact("dataset_name", s->dataset_name, out, err));
    if (split)
        QK_TRY(put_fact("dataset_split", split, out, err));
    QK_TRY(put_fact("text_column", s->text_column ? s->text_column : "text", out, err));
    return s->id_column ? put_fact("id_column", s->id_column, out, err) : QK_OK;
}

/* ---- sampling --------------------------------------------------------------------------- */

static qk_status put_sampling(const qk__recording *r, qk__buffer *out, qk_error *err)
{
    const qk_recorder_settings *s = r->settings;
    const qk_sampler *sampler = &r->sampler;
    bool log = sampler->type == QK_SAMPLER_LOG_UNIFORM;
    char rate[QK_NUMBER_SIZE];
    qk__format_number(sampler->base_rate, rate);
    QK_TRY(put_fact("attention_scope", s->full_attention_only ? "full_only" : "all_attention",
                    out, err));
    QK_TRY(put_fact("sampling_strategy", log ? "log" : qk_sampler_type_name(sampler->type), out,
                    err));
    if (sampler->type != QK_SAMPLER_ALL)
        QK_TRY(put_fact("sampling_base_rate", rate, out, err));
    QK_TRY(qk__buffer_printf(out, err, "- `%s`: `%" PRId64 "`\n",
                             log ? "sampling_min_bucket_size" : "sampling_bucket_size",
                             qk_sampler_bucket_size(sampler)));
    if (sampler->max_rows > 0)
        QK_TRY(qk__buffer_printf(out, err,
                                 "- `max_rows`: `%" PRId64 "` of a text, layer and kind\n",
                                 sampler->max_rows));
    if (r->chosen)
        QK_TRY(qk__buffer_printf(
            out, err, "- rate: chosen to keep about %.0f rows of each head and kind\n",
            r->expected_rows));
    if (s->sample_heads > 0)
        QK_TRY(qk__buffer_printf(out, err, "- heads: %zu of %zu query heads drawn, seed %lld\n",
                                 r->selection->drawn_q, r->selection->candidates,
                                 (long long)s->head_seed));
    return QK_OK;
}

qk_status qk__write_card(const qk__recording *r, qk__buffer *out, qk_error *err)
{
    static const char *const ARITHMETICS[] = {
        [QK_ARITHMETIC_F32] = "float32",
        [QK_ARITHMETIC_BF16_SIM] = "float32, rounded where a bfloat16 run rounds",
        [QK_ARITHMETIC_F16_SIM] = "float32, rounded where a float16 run rounds",
        [QK_ARITHMETIC_BF16] = "bfloat16 products, rounded where a bfloat16 run rounds",
    };
    const qk__survey_counts *j = &r->counts;
    char theta[QK_NUMBER_SIZE];
    qk__format_number(r->facts->rope_theta, theta);
    QK_TRY(qk__buffer_printf(
        out, err,
        "- RoPE: %s, theta %s\n- architecture: %s, weights in %s, fingerprint "
        "%016" PRIx64 "\n- arithmetic: %s\n",
        r->facts->rope_type ? r->facts->rope_type : "none", theta, r->facts->architecture,
        r->facts->dtype, r->facts->fingerprint,
        r->settings->engine ? r->settings->engine->arithmetic
                            : ARITHMETICS[r->settings->arithmetic]));
    QK_TRY(put_sources(r->settings, out, err));
    QK_TRY(qk__buffer_printf(out, err,
                             "- texts: %" PRId64 " in %" PRId64 " windows, %" PRId64
                             " tokens (examples.csv lists them)\n",
                             j->texts, j->windows, j->tokens));
    QK_TRY(qk__buffer_printf(out, err,
                             "- longer than %" PRId64 " tokens: %" PRId64
                             " split (positions begin again in each window), %" PRId64
                             " cut, %" PRId64 " passed over\n",
                             r->max_length, j->split, j->cut, j->skipped));
    return put_sampling(r, out, err);
}
