/* SPDX-License-Identifier: Apache-2.0 */
/* matplotlib's colour ramps as tables: Blues, Reds and YlOrRd have nine colours (ColorBrewer),
 * magma and viridis enough for less than 3/255 of error between them. */
#include <math.h>

#include "figure/theme.h"

static const unsigned char BLUES[][3] = {
    {247, 251, 255}, {222, 235, 247}, {198, 219, 239}, {157, 202, 225}, {106, 174, 214},
    {65, 145, 198},  {32, 112, 180},  {8, 80, 155},    {8, 48, 107},
};
static const unsigned char REDS[][3] = {
    {255, 245, 240}, {254, 224, 210}, {252, 187, 161}, {252, 146, 114}, {251, 105, 74},
    {238, 58, 44},   {202, 24, 29},   {163, 15, 21},   {103, 0, 13},
};
static const unsigned char MAGMA[][3] = {
    {0, 0, 4},       {10, 8, 34},     {29, 17, 71},   {54, 16, 107},   {81, 18, 124},
    {106, 28, 129},  {131, 38, 129},  {156, 46, 127}, {183, 55, 121},  {208, 65, 111},
    {231, 82, 99},   {245, 107, 92},  {252, 137, 97}, {254, 167, 114}, {254, 196, 136},
    {253, 226, 163}, {252, 253, 191},
};
static const unsigned char VIRIDIS[][3] = {
    {68, 1, 84},    {71, 13, 96},   {72, 24, 106},  {72, 35, 116},  {71, 45, 123},
    {69, 55, 129},  {66, 64, 134},  {62, 73, 137},  {59, 82, 139},  {55, 91, 141},
    {51, 99, 141},  {47, 107, 142}, {44, 114, 142}, {41, 122, 142}, {38, 130, 142},
    {35, 137, 142}, {33, 145, 140}, {31, 152, 139}, {31, 160, 136}, {34, 167, 133},
    {40, 174, 128}, {50, 182, 122}, {63, 188, 115}, {78, 195, 107}, {94, 201, 98},
    {112, 207, 87}, {132, 212, 75}, {152, 216, 62}, {173, 220, 48}, {194, 223, 35},
    {216, 226, 25}, {236, 229, 27}, {253, 231, 37},
};
static const unsigned char YLORRD[][3] = {
    {255, 255, 204}, {255, 237, 160}, {254, 217, 118}, {254, 178, 76}, {253, 140, 60},
    {252, 77, 42},   {226, 25, 28},   {187, 0, 38},    {128, 0, 38},
};

#define COLORMAP(name, table)                                                                  \
    {                                                                                          \
        name, sizeof table / sizeof *table, table                                              \
    }

const qk__colormap qk__blues = COLORMAP("Blues", BLUES);
const qk__colormap qk__reds = COLORMAP("Reds", REDS);
const qk__colormap qk__magma = COLORMAP("magma", MAGMA);
const qk__colormap qk__viridis = COLORMAP("viridis", VIRIDIS);
const qk__colormap qk__ylorrd = COLORMAP("YlOrRd", YLORRD);

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

/* Relative luminance of WCAG: below 0.18, white text has the better contrast with the colour.
 */
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
    const qk__colormap *maps[] = {
        [QK_RAMP_BLUES] = &qk__blues, [QK_RAMP_REDS] = &qk__reds, [QK_RAMP_MAGMA] = &qk__magma};
    qk__colormap_at(maps[ramp], x, rgb);
    return qk__is_dark(rgb);
}
