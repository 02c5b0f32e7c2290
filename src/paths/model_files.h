/* SPDX-License-Identifier: Apache-2.0 */
/* What files a model consists of, in the forms that are read and in others, by their names. Nothing else
 * knows such names: a new form is a row of model_files.c. */
#ifndef QK_PATHS_MODEL_FILES_H
#define QK_PATHS_MODEL_FILES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum qk__model_part {
    QK__PART_NONE,
    QK__PART_CONFIG,
    QK__PART_WEIGHTS,
    QK__PART_OTHER_WEIGHTS, /* in a form that is not read */
    QK__PART_ARRAYS,        /* which may be weights, and anything else */
    QK__PART_TOKENIZER,
    QK__PART_OTHER_TOKENIZER,
} qk__model_part;

typedef struct qk__model_form {
    const char *begin, *end; /* of the name */
    qk__model_part part;
    const char *remedy; /* how one gets from it what is read; NULL: it is read */
} qk__model_form;

/* The form of a file, NULL: of no model. Forms of more consequence have lower addresses: what an
 * adapter is says more of its folder than the weights beside. */
const qk__model_form *qk__model_form_of(const char *name);

/* Part of a model, whatever else lies beside: not arrays, nor tokenizers, which texts may lie with. */
bool qk__is_model_file(const char *name);

/* A file that is all of a model. */
bool qk__is_whole_model(const char *name);

#endif
