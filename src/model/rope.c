/* SPDX-License-Identifier: Apache-2.0 */
/* Frequencies of rotary position embedding. Steps that the original takes in float32 are taken
 * in float32 here, in its order; what is double there is double here. */
#include "model/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

#define TWO_PI 6.283185307179586

static const char *const type_names[] = {
    [QK_ROPE_DEFAULT] = "default",
    [QK_ROPE_LINEAR] = "linear",
    [QK_ROPE_DYNAMIC] = "dynamic",
    [QK_ROPE_LLAMA3] = "llama3",
    [QK_ROPE_YARN] = "yarn",
    [QK_ROPE_LONGROPE] = "longrope",
    [QK_ROPE_PROPORTIONAL] = "proportional",
};
enum { NUM_TYPES = sizeof type_names / sizeof *type_names };

bool qk__rope_type_parse(const char *name, qk__rope_type *type)
{
    for (int i = 0; i < NUM_TYPES; i++)
        if (strcmp(name, type_names[i]) == 0) {
            *type = (qk__rope_type)i;
            return true;
        }
    return false;
}

const char *qk__rope_type_name(qk__rope_type type)
{
    return type_names[type];
}

/* theta^(2 i / width): the power in double precision rounds to what the original has, but for a
 * last bit here and there; powf would differ more often. */
static float period(const qk__rope_settings *s, float theta, int i)
{
    float exponent = (float)(2 * i) / (float)s->width;
    return (float)pow((double)theta, (double)exponent);
}

static void plain(const qk__rope_settings *s, float theta, float *out)
{
    for (int i = 0; i < s->width / 2; i++)
        out[i] = 1 / period(s, theta, i);
}

static void linear(const qk__rope_settings *s, float *out)
{
    plain(s, (float)s->theta, out);
    for (int i = 0; i < s->width / 2; i++)
        out[i] /= (float)s->factor;
}

/* theta grows with the length of a text that is longer than the model was made for. */
static void dynamic(const qk__rope_settings *s, int64_t length, float *out)
{
    float theta = (float)s->theta;
    if (length > s->max_positions) {
        float stretch = (float)length * (float)s->factor / (float)s->max_positions;
        stretch -= (float)(s->factor - 1);
        float exponent = (float)((double)s->width / (s->width - 2));
        theta = (float)pow((double)stretch, (double)exponent) * theta;
    }
    plain(s, theta, out);
}

/* Long waves are stretched, short ones are not, those between are blended; or all of it is said
 * by numbers to divide by. */
static void llama3(const qk__rope_settings *s, float *out)
{
    float factor = (float)s->factor, original = (float)s->original;
    float longest = (float)((double)s->original / s->low_freq_factor);
    float shortest = (float)((double)s->original / s->high_freq_factor);
    plain(s, (float)s->theta, out);
    for (int i = 0; s->short_factor && i < s->width / 2; i++)
        out[i] /= s->short_factor[i];
    for (int i = 0; !s->short_factor && i < s->width / 2; i++) {
        float wave = 1 / out[i] * (float)TWO_PI;
        if (wave > longest) {
            out[i] /= factor;
        } else if (!(wave < shortest)) {
            float blend = (1 / wave * original - (float)s->low_freq_factor) /
                          (float)(s->high_freq_factor - s->low_freq_factor);
            out[i] = (1 - blend) * out[i] / factor + blend * out[i];
        }
    }
}

/* The index, a fraction, of the wave that turns so often in the original context. */
static double index_of_turns(const qk__rope_settings *s, double turns)
{
    return s->width * log((double)s->original / (turns * TWO_PI)) / (2 * log(s->theta));
}

static void yarn(const qk__rope_settings *s, float *out)
{
    double low = index_of_turns(s, s->beta_fast);
    double high = index_of_turns(s, s->beta_slow);
    if (s->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, s->width - 1);
    if (low == high)
        high += 0.001; /* no division by zero */
    for (int i = 0; i < s->width / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep = 1 - fminf(fmaxf(ramp, 0), 1);
        float wave = period(s, (float)s->theta, i);
        out[i] = 1 / ((float)s->factor * wave) * (1 - keep) + 1 / wave * keep;
    }
}

static void longrope(const qk__rope_settings *s, int64_t length, float *out)
{
    const float *stretch = length > s->original ? s->long_factor : s->short_factor;
    for (int i = 0; i < s->width / 2; i++)
        out[i] = 1 / (stretch[i] * period(s, (float)s->theta, i));
}

/* The frequencies of a whole head, of which the slow ones do not turn at all. */
static void proportional(const qk__rope_settings *s, float *out)
{
    linear(s, out);
    for (int i = s->turned; i < s->width / 2; i++)
        out[i] = 0;
}

void qk__rope_frequencies(const qk__rope *rope, int64_t length, float *frequencies)
{
    const qk__rope_settings *s = rope->settings;
    switch (s->type) {
    case QK_ROPE_DEFAULT:
        plain(s, (float)s->theta, frequencies);
        break;
    case QK_ROPE_LINEAR:
        linear(s, frequencies);
        break;
    case QK_ROPE_DYNAMIC:
        dynamic(s, length, frequencies);
        break;
    case QK_ROPE_LLAMA3:
        llama3(s, frequencies);
        break;
    case QK_ROPE_YARN:
        yarn(s, frequencies);
        break;
    case QK_ROPE_LONGROPE:
        longrope(s, length, frequencies);
        break;
    case QK_ROPE_PROPORTIONAL:
        proportional(s, frequencies);
        break;
    }
}

qk_status qk__rope_init(qk__rope *rope, const qk__rope_settings *settings, qk_error *err)
{
    *rope = (qk__rope){
        .settings = settings,
        .pairs = settings->width / 2,
        .attention_factor = (float)settings->attention_factor,
        .needs_length = settings->type == QK_ROPE_DYNAMIC || settings->type == QK_ROPE_LONGROPE,
    };
    rope->frequencies = qk__calloc((size_t)rope->pairs, sizeof *rope->frequencies);
    if (!rope->frequencies)
        return qk__nomem(err);
    qk__rope_frequencies(rope, 0, rope->frequencies);
    for (int i = 0; i < rope->pairs; i++)
        if (!isfinite(rope->frequencies[i])) {
            qk__rope_free(rope);
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "these RoPE parameters give no finite frequencies");
        }
    return QK_OK;
}

void qk__rope_free(qk__rope *rope)
{
    free(rope->frequencies);
    *rope = (qk__rope){0};
}

void qk__rope_cos_sin(const qk__rope *rope, const float *frequencies, int64_t first,
                      int64_t count, float *cosines, float *sines)
{
    for (int64_t t = 0; t < count; t++)
        for (int i = 0; i < rope->pairs; i++) {
            /* The rounding of this product is half a turn of the last bit: at position 131,071
             * it shows in the fourth digit, and the original has it. */
            float angle = frequencies[i] * (float)(first + t);
            *cosines++ = cosf(angle) * rope->attention_factor;
            *sines++ = sinf(angle) * rope->attention_factor;
        }
}
