/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the float32 values of blocks: expand_blocks TYPE BLOCKS OUT, TYPE being its number. */
#include <stdio.h>
#include <stdlib.h>

#include "model/quants.h"

int main(int argc, char **argv)
{
    const qk__quant *type = argc == 4 ? qk__quant_find((uint32_t)atoi(argv[1])) : NULL;
    FILE *in = type ? fopen(argv[2], "rb") : NULL, *out = in ? fopen(argv[3], "wb") : NULL;
    if (!out)
        return 2;
    unsigned char block[256];
    float values[256];
    while (fread(block, type->block_bytes, 1, in) == 1) {
        qk__quant_expand(type, block, type->block_values, values);
        if (fwrite(values, sizeof *values, type->block_values, out) != type->block_values)
            return 1;
    }
    fclose(in);
    return fclose(out) == 0 ? 0 : 1;
}
