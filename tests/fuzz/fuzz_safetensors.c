/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as a safetensors file; of what is accepted, every tensor is read. */
#include <stddef.h>
#include <stdint.h>

#include "model/convert.h"
#include "tensors/tensor_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qk__tensor_list list;
    if (qk__tensor_list_parse(&list, data, size, NULL) != QK_OK)
        return 0;
    static float out[1 << 12];
    for (size_t i = 0; i < list.count; i++) {
        size_t count = (size_t)list.items[i].size / 2;
        for (size_t from = 0; from < count; from += 1 << 12) {
            size_t part = count - from < (1 << 12) ? count - from : 1 << 12;
            qk__best_convert_kernel()->from_f16(list.items[i].data + 2 * from, out, part);
        }
    }
    qk__tensor_list_free(&list);
    return 0;
}
