/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of models and tokenizers, and how one gets the form that is read here from others. */
#include "paths/model_files.h"

#include <string.h>

#include "base/file.h"

#define SAVE(class) class ".from_pretrained(FOLDER).save_pretrained(OTHER) of transformers"
#define NO_WEIGHTS(what)                                                                       \
    what " are not read; write the model as safetensors with " SAVE("AutoModelForCausalLM")
#define MAKERS                                                                                 \
    "this is the form in which the makers publish a model; take the one that transformers "    \
    "reads, with config.json and model*.safetensors"

/* The first that fits counts. */
static const qk__model_form FORMS[] = {
    {"adapter_config.json", "", QK__PART_OTHER_WEIGHTS,
     "this is an adapter (PEFT), not a model; merge it into its model with "
     "peft.AutoPeftModelForCausalLM.from_pretrained(FOLDER).merge_and_unload()"
     ".save_pretrained(OTHER), and put the tokenizer's files beside"},
    {"", ".gguf", QK__PART_WEIGHTS, "of GGUF files, give one itself: FOLDER/NAME.gguf"},
    {"pytorch_model", ".bin", QK__PART_OTHER_WEIGHTS,
     NO_WEIGHTS("weights as pytorch_model*.bin")},
    {"consolidated.", "pth", QK__PART_OTHER_WEIGHTS, MAKERS},
    {"consolidated.", "safetensors", QK__PART_OTHER_WEIGHTS, MAKERS},
    {"tf_model.h5", "", QK__PART_OTHER_WEIGHTS,
     "weights of TensorFlow are not read; take model*.safetensors"},
    {"flax_model", ".msgpack", QK__PART_OTHER_WEIGHTS,
     "weights of Flax are not read; take model*.safetensors"},
    {"", ".pth", QK__PART_OTHER_WEIGHTS, NO_WEIGHTS("tensors of PyTorch")},
    {"", ".pt", QK__PART_ARRAYS, NO_WEIGHTS("tensors of PyTorch")},
    {"", ".npz", QK__PART_ARRAYS,
     "arrays of NumPy: a model is a folder with config.json and model.safetensors"},
    {"", ".npy", QK__PART_ARRAYS,
     "an array of NumPy: a model is a folder with config.json and model.safetensors"},
    {"", ".safetensors", QK__PART_WEIGHTS, NULL},
    {"config.json", "", QK__PART_CONFIG, NULL},
    {"tokenizer.json", "", QK__PART_TOKENIZER, NULL},
    {"tokenizer.model", "", QK__PART_OTHER_TOKENIZER,
     "tokenizer.model alone is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
    {"tekken.json", "", QK__PART_OTHER_TOKENIZER,
     "tekken.json is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
    {"merges.txt", "", QK__PART_OTHER_TOKENIZER,
     "merges.txt and vocab.json are not read; write tokenizer.json with " SAVE(
         "AutoTokenizer")},
    {"vocab.json", "", QK__PART_OTHER_TOKENIZER,
     "vocab.json alone is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
    {"vocab.bpe", "", QK__PART_OTHER_TOKENIZER,
     "vocab.bpe alone is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
    {"vocab.txt", "", QK__PART_OTHER_TOKENIZER,
     "vocab.txt alone is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
};

/* A whole name has no end of its own. */
static bool fits(const char *name, const qk__model_form *form)
{
    size_t head = strlen(form->begin), tail = strlen(form->end);
    if (tail == 0)
        return strcmp(name, form->begin) == 0;
    return strlen(name) >= head + tail && strncmp(name, form->begin, head) == 0 &&
           qk__ends_with(name, form->end);
}

const qk__model_form *qk__model_form_of(const char *name)
{
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        if (fits(name, &FORMS[i]))
            return &FORMS[i];
    return NULL;
}

bool qk__is_model_file(const char *name)
{
    const qk__model_form *form = qk__model_form_of(name);
    return form && (form->part == QK__PART_CONFIG || form->part == QK__PART_WEIGHTS ||
                    form->part == QK__PART_OTHER_WEIGHTS);
}

bool qk__is_whole_model(const char *name)
{
    return qk__ends_with(name, ".gguf");
}
