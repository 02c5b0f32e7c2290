/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of quantised weights to float32: one function a type, each with its block drawn.
 *
 * All of them keep two or more values in a byte in planes: the low parts of one half of the
 * block, then of the other, in the same bytes. */
#include "model/quants.h"

#include <string.h>

#include "model/convert.h"

enum { SMALL = 32, LARGE = 256 }; /* values in a block */

static float half(const uint8_t *at)
{
    float value;
    qk__convert_portable.from_f16(at, &value, 1);
    return value;
}

static uint32_t load_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* ---- blocks of 32 ----------------------------------------------------------------------- */

/* d | 16 bytes: low halves are values 0..15, high ones 16..31 */
static void expand_q4_0(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 18, out += SMALL) {
        float d = half(b);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((b[2 + i] & 15) - 8);
            out[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
        }
    }
}

/* d m | 16 bytes as in Q4_0 */
static void expand_q4_1(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 20, out += SMALL) {
        float d = half(b), m = half(b + 2);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)(b[4 + i] & 15) + m;
            out[i + 16] = d * (float)(b[4 + i] >> 4) + m;
        }
    }
}

/* d | fifth bits of the 32 values | 16 bytes */
static void expand_q5_0(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 22, out += SMALL) {
        float d = half(b);
        uint32_t fifth = load_u32(b + 2);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((int)((b[6 + i] & 15) | (fifth >> i & 1) << 4) - 16);
            out[i + 16] = d * (float)((int)(b[6 + i] >> 4 | (fifth >> (i + 16) & 1) << 4) - 16);
        }
    }
}

/* d m | fifth bits | 16 bytes */
static void expand_q5_1(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 24, out += SMALL) {
        float d = half(b), m = half(b + 2);
        uint32_t fifth = load_u32(b + 4);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((b[8 + i] & 15) | (fifth >> i & 1) << 4) + m;
            out[i + 16] = d * (float)(b[8 + i] >> 4 | (fifth >> (i + 16) & 1) << 4) + m;
        }
    }
}

/* d | 32 signed bytes */
static void expand_q8_0(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 34, out += SMALL) {
        float d = half(b);
        for (int i = 0; i < SMALL; i++)
            out[i] = d * (float)(int8_t)b[2 + i];
    }
}

/* Integers of the "non-linear" types: denser around zero. */
static const int8_t CODES[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

/* d | 16 bytes of codes as in Q4_0 */
static void expand_iq4_nl(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 18, out += SMALL) {
        float d = half(b);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)CODES[b[2 + i] & 15];
            out[i + 16] = d * (float)CODES[b[2 + i] >> 4];
        }
    }
}

/* ---- blocks of 256, whose parts have scales of their own -------------------------------- */

/* 16 bytes: scale (low) and minimum (high) of 16 values each | 64 bytes | d dmin. Two bits a
 * value; byte j of each 32 holds values j, j+32, j+64, j+96 of its 128. */
static void expand_q2_k(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 84, out += LARGE) {
        float d = half(b + 80), dmin = half(b + 82);
        for (int part = 0; part < 16; part++) {
            const uint8_t *bits = b + 16 + part / 8 * 32 + part % 2 * 16;
            float scale = d * (float)(b[part] & 15), minimum = dmin * (float)(b[part] >> 4);
            int shift = part / 2 % 4 * 2;
            for (int i = 0; i < 16; i++)
                out[part * 16 + i] = scale * (float)(bits[i] >> shift & 3) - minimum;
        }
    }
}

/* The i-th of 16 scales of 6 bits in 12 bytes: low halves of bytes 0..7, then their high
 * halves; upper bits, two each, in bytes 8..11. Stored with 32 added. */
static int q3_scale(const uint8_t *s, int i)
{
    int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    return (low | (s[8 + i % 4] >> (i / 4 * 2) & 3) << 4) - 32;
}

/* 32 bytes: third bits, bit k of byte j for value 32 k + j, 1 meaning nothing to subtract | 64
 * bytes of two bits as in Q2_K | 12 bytes of scales | d */
static void expand_q3_k(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 110, out += LARGE) {
        float d = half(b + 108);
        for (int part = 0; part < 16; part++) {
            const uint8_t *thirds = b + part % 2 * 16;
            const uint8_t *bits = b + 32 + part / 8 * 32 + part % 2 * 16;
            float scale = d * (float)q3_scale(b + 96, part);
            int shift = part / 2 % 4 * 2;
            for (int i = 0; i < 16; i++) {
                int third = thirds[i] >> (part / 2) & 1;
                out[part * 16 + i] = scale * (float)((bits[i] >> shift & 3) + 4 * third - 4);
            }
        }
    }
}

/* The i-th of 8 scales and minima of 6 bits in 12 bytes: the first four whole in bytes 0..3 and
 * 4..7, whose upper two bits are the upper bits of the last four; these have their low bits in
 * the halves of bytes 8..11. */
static void q4_scale(const uint8_t *s, int i, float *scale, float *minimum)
{
    int a, m;
    if (i < 4) {
        a = s[i] & 63;
        m = s[i + 4] & 63;
    } else {
        a = (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
        m = s[i + 4] >> 4 | s[i] >> 6 << 4;
    }
    *scale = (float)a;
    *minimum = (float)m;
}

/* d dmin | 12 bytes of scales and minima of 32 values each | 128 bytes: of each 32, low halves
 * are the first 32 of its 64 values */
static void expand_q4_k(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 144, out += LARGE) {
        float d = half(b), dmin = half(b + 2);
        for (int part = 0; part < 8; part++) {
            float scale, minimum;
            q4_scale(b + 4, part, &scale, &minimum);
            scale *= d;
            minimum *= dmin;
            for (int i = 0; i < 32; i++) {
                int bits = b[16 + part / 2 * 32 + i] >> (part % 2 * 4) & 15;
                out[part * 32 + i] = scale * (float)bits - minimum;
            }
        }
    }
}

/* d dmin | 12 bytes as in Q4_K | 32 bytes: fifth bits, bit k of byte j for value 32 k + j | 128
 * bytes as in Q4_K */
static void expand_q5_k(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 176, out += LARGE) {
        float d = half(b), dmin = half(b + 2);
        for (int part = 0; part < 8; part++) {
            float scale, minimum;
            q4_scale(b + 4, part, &scale, &minimum);
            scale *= d;
            minimum *= dmin;
            for (int i = 0; i < 32; i++) {
                int bits = b[48 + part / 2 * 32 + i] >> (part % 2 * 4) & 15;
                int fifth = b[16 + i] >> part & 1;
                out[part * 32 + i] = scale * (float)(bits | fifth << 4) - minimum;
            }
        }
    }
}

/* 128 bytes: of each 64, low halves are the first 64 of its 128 values | 64 bytes: upper two
 * bits as in Q2_K | 16 signed scales of 16 values each | d */
static void expand_q6_k(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 210, out += LARGE) {
        float d = half(b + 208);
        for (int part = 0; part < 16; part++) {
            const uint8_t *low = b + part / 8 * 64 + part % 4 * 16;
            const uint8_t *high = b + 128 + part / 8 * 32 + part % 2 * 16;
            float scale = d * (float)(int8_t)b[192 + part];
            int low_shift = part / 4 % 2 * 4, high_shift = part / 2 % 4 * 2;
            for (int i = 0; i < 16; i++) {
                int bits = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
                out[part * 16 + i] = scale * (float)(bits - 32);
            }
        }
    }
}

/* d | 16 bits: upper two of 8 scales | 4 bytes: their low four | 128 bytes of codes: of each
 * 16, low halves are the first 16 of its 32 values. Scales are stored with 32 added. */
static void expand_iq4_xs(const uint8_t *b, size_t count, float *out)
{
    for (; count > 0; count--, b += 136, out += LARGE) {
        float d = half(b);
        int upper = b[2] | b[3] << 8;
        for (int part = 0; part < 8; part++) {
            int low = b[4 + part / 2] >> (part % 2 * 4) & 15;
            float scale = d * (float)((low | (upper >> (2 * part) & 3) << 4) - 32);
            for (int i = 0; i < 32; i++)
                out[part * 32 + i] =
                    scale * (float)CODES[b[8 + part * 16 + i % 16] >> (i / 16 * 4) & 15];
        }
    }
}

/* ---- the table -------------------------------------------------------------------------- */

static const qk__quant QUANTS[] = {
    {"F32", QK_TYPE_F32, 1, 4, NULL},         {"F16", QK_TYPE_F16, 1, 2, NULL},
    {"Q4_0", 2, SMALL, 18, expand_q4_0},      {"Q4_1", 3, SMALL, 20, expand_q4_1},
    {"Q5_0", 6, SMALL, 22, expand_q5_0},      {"Q5_1", 7, SMALL, 24, expand_q5_1},
    {"Q8_0", 8, SMALL, 34, expand_q8_0},      {"Q2_K", 10, LARGE, 84, expand_q2_k},
    {"Q3_K", 11, LARGE, 110, expand_q3_k},    {"Q4_K", 12, LARGE, 144, expand_q4_k},
    {"Q5_K", 13, LARGE, 176, expand_q5_k},    {"Q6_K", 14, LARGE, 210, expand_q6_k},
    {"IQ4_NL", 20, SMALL, 18, expand_iq4_nl}, {"IQ4_XS", 23, LARGE, 136, expand_iq4_xs},
    {"BF16", QK_TYPE_BF16, 1, 2, NULL},
};

enum { NUM_QUANTS = sizeof QUANTS / sizeof *QUANTS };

const qk__quant *qk__quant_find(uint32_t id)
{
    for (size_t i = 0; i < NUM_QUANTS; i++)
        if (QUANTS[i].id == id)
            return &QUANTS[i];
    return NULL;
}

const qk__quant *qk__quant_plain(const char *name)
{
    for (size_t i = 0; i < NUM_QUANTS; i++)
        if (!QUANTS[i].expand && strcmp(QUANTS[i].name, name) == 0)
            return &QUANTS[i];
    return NULL;
}

/* Types of the format that are not in the table, for messages. */
static const struct {
    uint32_t id;
    const char *name;
} OTHERS[] = {
    {4, "Q4_2"},    {5, "Q4_3"},        {9, "Q8_1"},        {15, "Q8_K"},       {16, "IQ2_XXS"},
    {17, "IQ2_XS"}, {18, "IQ3_XXS"},    {19, "IQ1_S"},      {21, "IQ3_S"},      {22, "IQ2_S"},
    {24, "I8"},     {25, "I16"},        {26, "I32"},        {27, "I64"},        {28, "F64"},
    {29, "IQ1_M"},  {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"},   {34, "TQ1_0"},
    {35, "TQ2_0"},  {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}, {39, "MXFP4"},
    {40, "NVFP4"},  {41, "Q1_0"},
};

const char *qk__quant_name(uint32_t id)
{
    const qk__quant *known = qk__quant_find(id);
    if (known)
        return known->name;
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (OTHERS[i].id == id)
            return OTHERS[i].name;
    return NULL;
}

void qk__quant_expand(const qk__quant *type, const void *source, size_t count, float *out)
{
    if (type->expand)
        type->expand(source, count / type->block_values, out);
    else if (type->id == QK_TYPE_F16)
        qk__best_convert_kernel()->from_f16(source, out, count);
    else if (type->id == QK_TYPE_BF16)
        qk__best_convert_kernel()->from_bf16(source, out, count);
    else
        memcpy(out, source, count * sizeof *out);
}
