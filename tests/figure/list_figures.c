/* SPDX-License-Identifier: Apache-2.0 */
/* Every figure of the catalog, for test_gallery.py: "NAME<tab>TITLE<tab>CAPTION". */
#include <stdio.h>

#include "figure/catalog.h"

int main(void)
{
    for (size_t f = 0; f < qk__num_figure_families; f++)
        for (size_t k = 0; k < qk__figure_families[f].count; k++) {
            const qk__figure_kind *kind = &qk__figure_families[f].kinds[k];
            printf("%s\t%s\t%s\n", kind->name, kind->title, kind->caption);
        }
    return 0;
}
