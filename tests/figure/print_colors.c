/* SPDX-License-Identifier: Apache-2.0 */
/* All colours of figures, for test_colors.py: "ramp NAME rrggbb..." at 256 equidistant places,
 * "theme THEME ROLE #rrggbb", "series THEME #rrggbb POINT", "category THEME #rrggbb". */
#include <stdio.h>

#include <qkscope/stats.h>

#include "draw/theme.h"

static void print_ramp(const qk__colormap *map)
{
    printf("ramp %s ", map->name);
    for (int i = 0; i < 256; i++) {
        unsigned char rgb[3];
        qk__colormap_at(map, i / 255.0, rgb);
        printf("%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
    }
    printf("\n");
}

static void print_theme(const qk__theme *theme)
{
    const struct {
        const char *role, *color;
    } roles[] = {{"background", theme->background},
                 {"ink", theme->ink},
                 {"muted", theme->muted},
                 {"grid", theme->grid},
                 {"box", theme->box},
                 {"q", theme->q},
                 {"k", theme->k},
                 {"accent", theme->accent},
                 {"highlight", theme->highlight}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        printf("theme %s %s %s\n", theme->name, roles[i].role, roles[i].color);
    for (int i = 0; i < 7; i++)
        printf("series %s %s %d\n", theme->name, qk__series_color(theme, i),
               (int)qk__series_sign(i));
    for (int i = -1; i < QK_NUM_CATEGORIES; i++)
        printf("category %s %s\n", theme->name, qk__category_color(theme, i));
}

int main(void)
{
    const qk__colormap *maps[] = {&qk__blues, &qk__reds, &qk__magma, &qk__viridis,
                                  &qk__oranges};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        print_ramp(maps[i]);
    const qk_figure_theme themes[] = {QK_THEME_PAPER, QK_THEME_SCREEN, QK_THEME_DARK};
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        print_theme(qk__theme_of(themes[i]));
    return 0;
}
