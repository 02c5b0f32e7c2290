/* SPDX-License-Identifier: Apache-2.0 */
/* matplotlib's colour ramps as tables: Blues, Reds and Oranges have nine colours (ColorBrewer),
 * magma and viridis every fifth of 256, which is right to 1/255 between them. */
#include <assert.h>
#include <math.h>

#include "draw/theme.h"

static const unsigned char BLUES[][3] = {
    {247, 251, 255}, {222, 235, 247}, {198, 219, 239}, {157, 202, 225}, {106, 174, 214},
    {65, 145, 198},  {32, 112, 180},  {8, 80, 155},    {8, 48, 107},
};
static const unsigned char REDS[][3] = {
    {255, 245, 240}, {254, 224, 210}, {252, 187, 161}, {252, 146, 114}, {251, 105, 74},
    {238, 58, 44},   {202, 24, 29},   {163, 15, 21},   {103, 0, 13},
};
static const unsigned char MAGMA[][3] = {
    {0, 0, 4},       {2, 2, 11},      {5, 4, 22},      {9, 7, 32},      {14, 11, 43},
    {20, 14, 54},    {26, 16, 66},    {33, 17, 78},    {41, 17, 90},    {49, 17, 101},
    {57, 15, 110},   {66, 15, 117},   {74, 16, 121},   {82, 19, 124},   {90, 22, 126},
    {98, 25, 128},   {106, 28, 129},  {114, 31, 129},  {121, 34, 130},  {129, 37, 129},
    {137, 40, 129},  {145, 43, 129},  {153, 45, 128},  {161, 48, 126},  {170, 51, 125},
    {178, 53, 123},  {186, 56, 120},  {194, 59, 117},  {202, 62, 114},  {210, 66, 111},
    {217, 70, 107},  {224, 76, 103},  {231, 82, 99},   {236, 88, 96},   {241, 96, 93},
    {244, 105, 92},  {247, 114, 92},  {249, 123, 93},  {251, 133, 96},  {252, 142, 100},
    {253, 152, 105}, {254, 161, 110}, {254, 170, 116}, {254, 180, 123}, {254, 189, 130},
    {254, 198, 138}, {254, 207, 146}, {254, 216, 154}, {253, 226, 163}, {253, 235, 172},
    {252, 244, 182}, {252, 253, 191},
};
static const unsigned char VIRIDIS[][3] = {
    {68, 1, 84},    {70, 8, 92},    {71, 16, 99},   {72, 23, 105},  {72, 29, 111},
    {72, 36, 117},  {71, 42, 122},  {70, 48, 126},  {69, 55, 129},  {67, 61, 132},
    {65, 66, 135},  {63, 72, 137},  {61, 78, 138},  {58, 83, 139},  {56, 89, 140},
    {53, 94, 141},  {51, 99, 141},  {49, 104, 142}, {46, 109, 142}, {44, 113, 142},
    {42, 118, 142}, {41, 123, 142}, {39, 128, 142}, {37, 132, 142}, {35, 137, 142},
    {33, 142, 141}, {32, 146, 140}, {31, 151, 139}, {30, 156, 137}, {31, 161, 136},
    {33, 165, 133}, {36, 170, 131}, {40, 174, 128}, {46, 179, 124}, {53, 183, 121},
    {61, 188, 116}, {70, 192, 111}, {80, 196, 106}, {90, 200, 100}, {101, 203, 94},
    {112, 207, 87}, {124, 210, 80}, {137, 213, 72}, {149, 216, 64}, {162, 218, 55},
    {176, 221, 47}, {189, 223, 38}, {202, 225, 31}, {216, 226, 25}, {229, 228, 25},
    {241, 229, 29}, {253, 231, 37},
};
static const unsigned char ORANGES[][3] = {
    {255, 245, 235}, {254, 230, 206}, {253, 208, 162}, {253, 174, 107}, {253, 141, 60},
    {241, 105, 19},  {217, 72, 1},    {166, 54, 3},    {127, 39, 4},
};

#define COLORMAP(name, table)                                                                  \
    {                                                                                          \
        name, sizeof table / sizeof *table, table                                              \
    }

const qk__colormap qk__blues = COLORMAP("Blues", BLUES);
const qk__colormap qk__reds = COLORMAP("Reds", REDS);
const qk__colormap qk__magma = COLORMAP("magma", MAGMA);
const qk__colormap qk__viridis = COLORMAP("viridis", VIRIDIS);
const qk__colormap qk__oranges = COLORMAP("Oranges", ORANGES);

void qk__colormap_at(const qk__colormap *map, double x, unsigned char rgb[3])
{
    double at = (x > 0 ? x < 1 ? x : 1 : 0) * (double)(map->count - 1);
    size_t low = (size_t)at < map->count - 1 ? (size_t)at : map->count - 2;
    for (int c = 0; c < 3; c++) {
        double mixed =
            map->rgb[low][c] + (at - (double)low) * (map->rgb[low + 1][c] - map->rgb[low][c]);
        rgb[c] = (unsigned char)lround(mixed);
    }
}

/* Relative luminance of WCAG: below 0.18, white text has the better contrast. */
int qk__is_dark(const unsigned char rgb[3])
{
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    double luminance = 0;
    for (int c = 0; c < 3; c++) {
        double part = rgb[c] / 255.0;
        luminance +=
            weights[c] * (part <= 0.04045 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
    }
    return luminance < 0.18;
}

bool qk_ramp_color(qk_ramp ramp, double x, unsigned char rgb[3])
{
    assert(rgb);
    const qk__colormap *maps[] = {
        [QK_RAMP_BLUES] = &qk__blues, [QK_RAMP_REDS] = &qk__reds, [QK_RAMP_MAGMA] = &qk__magma};
    qk__colormap_at(maps[ramp], x, rgb);
    return qk__is_dark(rgb);
}
