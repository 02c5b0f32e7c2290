/* SPDX-License-Identifier: Apache-2.0 */
/* Prints rows of numbers by depth, on colours where the terminal has them. */
#include "heat_strip.h"

#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum depth_of_color { NO_COLOR, COLORS_256, COLORS_24_BIT } depth_of_color;

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static bool contains(const char *name, const char *part)
{
    const char *value = getenv(name);
    return value && strstr(value, part);
}

/* Eight or sixteen colours make no ramp. */
static depth_of_color terminal_colors(void)
{
    if (!isatty(STDOUT_FILENO) || is_set("NO_COLOR"))
        return NO_COLOR;
    const char *terminal = getenv("TERM");
    if (!terminal || !*terminal || strcmp(terminal, "dumb") == 0)
        return NO_COLOR;
    if (contains("COLORTERM", "truecolor") || contains("COLORTERM", "24bit") ||
        contains("TERM", "direct"))
        return COLORS_24_BIT;
    return contains("TERM", "256") ? COLORS_256 : NO_COLOR;
}

/* The nearest colour of the 6x6x6 cube, whose levels are 0, 95, 135, 175, 215, 255. */
static int cube_color(const unsigned char rgb[3])
{
    int index = 0;
    for (int c = 0; c < 3; c++)
        index = 6 * index + (rgb[c] < 48 ? 0 : rgb[c] < 115 ? 1 : (rgb[c] - 35) / 40);
    return 16 + index;
}

/* Text and background are both set, so that the cell looks the same on light and dark terminals. */
static void print_on_color(depth_of_color colors, qk_ramp ramp, double value)
{
    unsigned char rgb[3];
    bool white = qk_ramp_color(ramp, value, rgb);
    if (colors == COLORS_24_BIT)
        cli_print("\033[48;2;%d;%d;%d;38;2;%sm", rgb[0], rgb[1], rgb[2],
                  white ? "255;255;255" : "0;0;0");
    else
        cli_print("\033[48;5;%d;38;5;%dm", cube_color(rgb), white ? 231 : 16);
    cli_print("%5.2f \033[0m", value);
}

void cli_print_depths(void)
{
    cli_print("\n  %-12s", "depth, %");
    for (int i = 0; i < QK_DEPTHS; i++)
        cli_print("%s%4d", i ? "  " : "", i * 100 / QK_DEPTHS);
    putchar('\n');
}

void cli_print_strip(const char *label, qk_ramp ramp, const double values[QK_DEPTHS])
{
    depth_of_color colors = terminal_colors();
    cli_print("  %-12s", label);
    for (int i = 0; i < QK_DEPTHS; i++) {
        if (!isnan(values[i]) && colors != NO_COLOR) {
            print_on_color(colors, ramp, values[i]);
            continue;
        }
        if (isnan(values[i]))
            fputs("    -", stdout);
        else
            cli_print("%5.2f", values[i]);
        if (i < QK_DEPTHS - 1)
            putchar(' ');
    }
    putchar('\n');
}
