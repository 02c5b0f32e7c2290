/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: one line of JSON, of which a text and an id are taken. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "recorder/texts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const qk__text_columns COLUMNS = {"text", "id"};
    json_t *value = NULL;
    qk__buffer name = {0};
    qk__input_text text = {.name = ""};
    qk_error err;
    if (qk__jsonl_parse((const char *)data, size, &COLUMNS, &value, &name, &text, &err) ==
        QK_OK) {
        volatile char last = text.size > 0 ? text.data[text.size - 1] : 0;
        (void)last;
        if (!text.has_id || text.data[text.size] != 0 || strlen(text.name) > size * 6 + 64)
            __builtin_trap();
    }
    json_decref(value);
    qk__buffer_free(&name);
    return 0;
}
