/* SPDX-License-Identifier: Apache-2.0 */
/* Draws one plot with every kind of mark, and the text it is given, in the locale of LOCPATH: as a file, or with "page" as an element of one. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/plot.h"
#include "draw/png.h"
#include "draw/text.h"

static void draw(qk__canvas *canvas, const char *text)
{
    static const double X[] = {1, 2, 3, 4, 5}, LOW[] = {0.1, NAN, 0.2, 0.3, 0.1},
                        HIGH[] = {0.4, NAN, 0.8, 0.9, 0.5};
    const qk__theme *theme = canvas->theme;
    const qk__plot plot = {canvas, 60, 30, 300, 200, {0, 6, false}, {0, 1, false}, 10.4};
    qk__bitmap bitmap;
    qk__buffer png = {0};
    char *markup = qk__escape(text);
    qk__number_tics(&plot, QK__BELOW, 50, 0, (qk__tic_style){.length = 4});
    qk__number_tics(&plot, QK__LEFT, 30, 0, (qk__tic_style){.length = 4, .grid = true});
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
    qk__draw_hatched(canvas, 310, 40, 40, 30);
    qk__begin_marks(&plot);
    qk__draw_bar(&plot, 0.6, 1.4, 0, 0.3, (qk__pen){.fill = theme->accent});
    qk__draw_band(&plot, X, LOW, HIGH, 5, (qk__pen){.fill = theme->q, .opacity = 0.2});
    qk__draw_curve(&plot, X, HIGH, 5, (qk__pen){.stroke = theme->q, .width = 1.8});
    qk__draw_whiskers(&plot, X, LOW, HIGH, 5, (qk__pen){.stroke = theme->ink, .width = 1});
    for (int sign = QK__DISC; sign <= QK__DIAMOND; sign++)
        qk__draw_points(&plot, (const double[]){0.5 + 0.8 * sign}, (const double[]){0.5}, 1,
                        (qk__sign)sign, 4, theme->k, 0.5);
    qk__end_marks(&plot);
    qk__line_across(&plot, 0.7,
                    (qk__pen){.stroke = theme->muted, .width = 0.8, .dashed = true});
    if (qk__bitmap_make(&bitmap, 8, 8, NULL) == QK_OK) {
        bitmap.count = 2;
        memcpy(bitmap.colors[1], "\x20\x40\x80", 3);
        qk__bitmap_sign(&bitmap, QK__DISC, 4, 4, 3, 1);
        if (qk__png_write(&bitmap, &png, NULL) == QK_OK)
            qk__draw_image(canvas, 320, 180, 32, 32, &png, true);
        qk__bitmap_free(&bitmap);
    }
    qk__draw_text(canvas, markup ? markup : "", 200, 15,
                  (qk__type){13, theme->ink, QK__MIDDLE, 0, markup});
    qk__draw_text(canvas, "μ<sup>a</sup><sub>q</sub> <i>r</i><sub>k</sub>", 20, 130,
                  (qk__type){13, theme->muted, QK__MIDDLE, -90, NULL});
    free(markup);
    qk__buffer_free(&png);
}

int main(int argc, char **argv)
{
    qk__canvas canvas;
    qk__buffer out = {0};
    if (argc < 2 ||
        (getenv("LOCPATH") && (!setlocale(LC_ALL, "") || *localeconv()->decimal_point != ',')))
        return 2;
    qk__canvas_init(&canvas, qk__theme_of(QK_THEME_PAPER));
    draw(&canvas, argv[1]);
    const qk_status status =
        argc > 2 ? qk__canvas_write_in_page(&canvas, 380, 280, argv[1], &out, NULL)
                 : qk__canvas_write(&canvas, 380, 280, 85, &out, NULL);
    if (status == QK_OK)
        fwrite(out.data, 1, out.size, stdout);
    qk__buffer_free(&out);
    qk__canvas_free(&canvas);
    return status != QK_OK;
}
