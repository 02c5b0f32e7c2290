/* SPDX-License-Identifier: Apache-2.0 */
/* Which other forms of models and tokenizers there are, and how one gets the form that is read
 * here from them. */
#include "model/checkpoint.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "paths/path_kind.h"

#define SAVE(class) class ".from_pretrained(FOLDER).save_pretrained(OTHER) of transformers"

/* By what the name of a file begins and ends with; the first that fits any file counts. */
static const struct {
    const char *begin, *end;
    bool tokenizer; /* or a model */
    const char *what;
} FORMS[] = {
    {"adapter_config.json", "", false,
     "this is an adapter (PEFT), not a model; merge it into its model with "
     "peft.AutoPeftModelForCausalLM.from_pretrained(FOLDER).merge_and_unload()"
     ".save_pretrained(OTHER), and put the tokenizer's files beside"},
    {"", ".gguf", false, "of GGUF files, give one itself: FOLDER/NAME.gguf"},
    {"pytorch_model", "", false,
     "weights as pytorch_model*.bin are not read; write them as safetensors with " SAVE(
         "AutoModelForCausalLM")},
    {"consolidated.", "", false,
     "this is the form in which the makers publish a model; take the one that transformers "
     "reads, "
     "with config.json and model*.safetensors"},
    {"tf_model.h5", "", false, "weights of TensorFlow are not read; take model*.safetensors"},
    {"flax_model", "", false, "weights of Flax are not read; take model*.safetensors"},
    {"tokenizer.model", "", true,
     "tokenizer.model alone is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
    {"tekken.json", "", true,
     "tekken.json is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
    {"merges.txt", "", true,
     "merges.txt and vocab.json are not read; write tokenizer.json with " SAVE(
         "AutoTokenizer")},
    {"vocab.", "", true,
     "vocab.* alone is not read; write tokenizer.json with " SAVE("AutoTokenizer")},
};

bool qk__folder_lacks(const char *folder, const char *path)
{
    return qk__is_dir(folder) && access(path, F_OK) != 0 && errno == ENOENT;
}

static bool fits(const char *name, const char *begin, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return strncmp(name, begin, strlen(begin)) == 0 && length >= tail &&
           strcmp(name + length - tail, end) == 0;
}

qk_status qk__refuse_folder(const char *folder, const char *missing, qk_error *err)
{
    qk__names names;
    const char *what = NULL;
    bool tokenizer = strcmp(missing, "tokenizer.json") == 0;
    QK_TRY(qk__list_dir(folder, &names, err));
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS && !what; i++)
        for (size_t j = 0; j < names.count && FORMS[i].tokenizer == tokenizer && !what; j++)
            if (fits(names.items[j], FORMS[i].begin, FORMS[i].end))
                what = FORMS[i].what;
    qk__names_free(&names);
    qk__set_error(err, QK_ERR_NOT_FOUND, "%s: there is no %s%s%s", folder, missing,
                  what ? "; " : "", what ? what : "");
    return qk__path_tell(folder, QK__PATH_MODEL, QK_ERR_NOT_FOUND, err);
}
