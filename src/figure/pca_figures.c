/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the combined QK PCA: what each component carries, and how PC0 follows position. */
#include <math.h>

#include "figure/catalog.h"

enum { MAX_COMPONENTS = 10 };

static size_t count_components(const qk__results *results)
{
    size_t count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++)
            if (results->models[m].heads[h].num_pcs > count)
                count = results->models[m].heads[h].num_pcs;
    return count < MAX_COMPONENTS ? count : MAX_COMPONENTS;
}

static bool has_components(const qk__subject *subject)
{
    return count_components(subject->results) > 0;
}

static void set_component_axis(qk__figure *figure, size_t count)
{
    qk__figure_print(figure, "set xrange [-0.6:%.1f]\nset xtics scale 0 (",
                     (double)count - 0.4);
    for (size_t pc = 0; pc < count; pc++)
        qk__figure_print(figure, "%s'PC%zu' %zu", pc ? ", " : "", pc, pc);
    qk__figure_print(figure, ")\nset xlabel 'Principal component'\n");
}

/* 01: mean r_q and r_k by component. */
static void build_roles(qk__figure *figure, const qk__subject *subject)
{
    size_t count = count_components(subject->results);
    for (size_t pc = 0; pc < count; pc++) {
        qk__pc_means means = qk__mean_of_pc(subject->results, pc);
        qk__figure_words(figure, "%zu ", pc);
        qk__figure_value(figure, means.r_q);
        qk__figure_value(figure, means.r_k);
        qk__figure_end_row(figure);
    }
    qk__figure_end_block(figure);
    qk__figure_print(figure,
                     "set title 'Combined QK PCA: position correlation by component'\n"
                     "set ylabel 'Mean Pearson r with position'\n"
                     "set yrange [*<0:1]\nset grid y back\n"
                     "set xzeroaxis lt 1 lc rgb '%s'\nset boxwidth 0.38\n"
                     "set style fill solid 1 noborder\nset key top right\n",
                     figure->theme->muted);
    set_component_axis(figure, count);
    qk__figure_print(figure,
                     "plot data using ($1-0.2):2 with boxes ls 101 title '{/:Italic r}_q', "
                     "data using ($1+0.2):3 with boxes ls 102 title '{/:Italic r}_k'\n");
}

static const qk__figure_kind KINDS[] = {
    {"pca-01-pc-roles", "Position correlation by component",
     "Mean Pearson correlation of each component with token position, for queries and keys, "
     "over "
     "all heads.",
     false, 800, 400, has_components, build_roles},
};

const qk__figure_family qk__pca_figures = {"Combined QK PCA", KINDS,
                                           sizeof KINDS / sizeof *KINDS};
