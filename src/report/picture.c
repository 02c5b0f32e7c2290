/* SPDX-License-Identifier: Apache-2.0 */
/* Puts figures into the page: figures of this run as elements, other files as images. */
#include "report/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse_number.h"

static bool is_plain(uint8_t c)
{
    return c > 0x20 && c < 0x7f && !strchr("\"#%&'<>?[]^`{|}", c);
}

/* The box that a picture stands in. */
static void put_plate(qk__page *page, double width, double height)
{
    qk__open(page, "div.plate[style=--wide:%.0fpx]", width);
    qk__open(page, "div.sheet[style=aspect-ratio:%.0f/%.0f]", width, height);
}

/* Most of it is base64 already, so only characters that an address cannot have are escaped. */
char *qk__svg_address(const qk__buffer *svg)
{
    static const char HEX[] = "0123456789ABCDEF";
    size_t size = 1;
    for (size_t i = 0; i < svg->size; i++)
        size += is_plain(svg->data[i]) ? 1 : 3;
    char *text = qk__calloc(size, 1), *out = text;
    for (size_t i = 0; text && i < svg->size; i++) {
        const uint8_t c = svg->data[i];
        if (is_plain(c)) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = HEX[c >> 4];
            *out++ = HEX[c & 15];
        }
    }
    return text;
}

void qk__put_drawn(qk__page *page, const qk__drawn *drawn)
{
    put_plate(page, drawn->width, drawn->height);
    qk__page_bytes(page, drawn->in_page.data, drawn->in_page.size);
    qk__close(page, "div div");
}

void qk__put_svg_file(qk__page *page, const qk__buffer *svg, double width, double height,
                      bool dark, const char *label)
{
    char *data = qk__svg_address(svg);
    if (!data)
        qk__page_nomem(page);
    put_plate(page, width, height);
    qk__open(page, "img.%s[alt=%s][src=data:image/svg+xml,%s]", dark ? "dark" : "light", label,
             data ? data : "");
    qk__close(page, "div div");
    free(data);
}

bool qk__svg_size(const qk__buffer *svg, double *width, double *height)
{
    enum { HEAD = 1000 };
    char head[HEAD + 1];
    size_t size = svg->size < HEAD ? svg->size : HEAD;
    memcpy(head, svg->data ? svg->data : (const uint8_t *)"", size);
    head[size] = 0;
    static const char BOX[] = "viewBox=\"0 0 ";
    const char *p = strncmp(head, "<svg", 4) == 0 ? strstr(head, BOX) : NULL;
    p = p ? qk__read_number(p + sizeof BOX - 1, width) : NULL;
    return p && *p == ' ' && qk__read_number(p + 1, height) && *width > 0 && *height > 0 &&
           *width < 1e5 && *height < 1e5;
}
