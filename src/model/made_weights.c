/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are made up for a model of which config.json alone is there, so that its time can be measured. The file has every
 * tensor of the model. Layers that are not run, and MLPs, are holes, which take no room on disk: zeros take as long to
 * multiply as other numbers. Attention has random numbers, since rows of zeros would be written faster than others. */
#include "model/made_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "model/model.h"
#include "model/weight_files.h"

enum { HEADER = 4 << 20, CHUNK = (1 << 20) - 6 /* so that rows of a matrix differ */ };

typedef struct making {
    int fd, last_layer;
    int64_t bytes;     /* of the tensors so far */
    qk__buffer header; /* so far */
    uint16_t *numbers;
} making;

/* bfloat16, of either sign, from 1/64 to 1/32. */
static qk_status draw_numbers(making *m, qk_error *err)
{
    qk__rng rng;
    qk__rng_init(&rng, 1, NULL, 0);
    m->numbers = qk__calloc(CHUNK / sizeof *m->numbers, sizeof *m->numbers);
    if (!m->numbers)
        return qk__nomem(err);
    for (size_t i = 0; i < CHUNK / sizeof *m->numbers; i++)
        m->numbers[i] = (uint16_t)(0x3C80 | (qk__rng_next(&rng) >> 48 & 0x807F));
    return QK_OK;
}

static qk_status add_tensor(void *user, const char *name, int64_t rows, int64_t columns,
                            qk_error *err)
{
    making *m = user;
    const int64_t begin = m->bytes, end = begin + 2 * rows * columns;
    int layer = -1;
    char shape[48] = "";
    if (rows > 1)
        snprintf(shape, sizeof shape, "%" PRId64 ",", rows);
    QK_TRY(qk__buffer_printf(&m->header, err,
                             "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s%" PRId64
                             "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}",
                             begin > 0 ? "," : "{", name, shape, columns, begin, end));
    m->bytes = end;
    sscanf(name, "model.layers.%d.", &layer);
    for (int64_t at = begin; at < end && layer <= m->last_layer && !strstr(name, ".mlp.");
         at += CHUNK)
        QK_TRY(qk__write_at(m->fd, m->numbers, (size_t)(end - at < CHUNK ? end - at : CHUNK),
                            8 + HEADER + at, err));
    return QK_OK;
}

static qk_status write_header(making *m, qk_error *err)
{
    uint8_t length[8] = {0};
    QK_TRY(qk__buffer_printf(&m->header, err, "}"));
    if (m->header.size > HEADER)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "a model of too many tensors");
    for (int i = 0; i < 4; i++)
        length[i] = (uint8_t)(HEADER >> (8 * i));
    while (m->header.size < HEADER)
        QK_TRY(qk__buffer_append(&m->header, "        ",
                                 HEADER - m->header.size < 8 ? HEADER - m->header.size : 8,
                                 err));
    QK_TRY(qk__write_at(m->fd, length, sizeof length, 0, err));
    QK_TRY(qk__write_at(m->fd, m->header.data, HEADER, sizeof length, err));
    return ftruncate(m->fd, 8 + HEADER + m->bytes) == 0
               ? QK_OK
               : qk__fail(err, QK_ERR_IO, "%s", strerror(errno));
}

static qk_status write_file(making *m, const char *folder, const char *overrides, qk_error *err)
{
    qk_model *model;
    QK_TRY(qk_model_open_shape(&model, folder, overrides, err));
    const qk__checkpoint made = {.make = add_tensor, .maker = m};
    qk_status status = draw_numbers(m, err);
    if (status == QK_OK)
        status = qk__model_take_tensors(model, &made, err);
    qk_model_close(&model);
    return status == QK_OK ? write_header(m, err) : status;
}

static qk_status copy_config(const char *from, const char *to, qk_error *err)
{
    enum { MOST = 64 << 20 };
    qk__path path;
    qk__buffer text = {0};
    QK_TRY(qk__path_in(&path, from, "config.json", err));
    qk_status status = qk__read_file(path.text, MOST, &text, err);
    if (status == QK_OK)
        status = qk__write_file_in(to, "config.json", text.data, text.size, err);
    qk__buffer_free(&text);
    return status;
}

qk_status qk__make_weights(const char *folder, const char *overrides, int last_layer,
                           const char *output, qk_error *err)
{
    qk__path path;
    making m = {.last_layer = last_layer};
    QK_TRY(qk__make_dirs(output, err));
    QK_TRY(copy_config(folder, output, err));
    QK_TRY(qk__path_in(&path, output, "model.safetensors", err));
    m.fd = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (m.fd < 0)
        return qk__fail(err, QK_ERR_IO, "%s: %s", path.text, strerror(errno));
    qk_status status =
        qk__context(err, write_file(&m, folder, overrides, err), "%s", path.text);
    close(m.fd);
    qk__buffer_free(&m.header);
    free(m.numbers);
    return status;
}
