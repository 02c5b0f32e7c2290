/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a Hub says. What begins with a bracket is a list of files, all else lines of headers. What is
 * taken of a list must be safe as paths of this machine, whatever is chosen of it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch.h"
#include "hub/hub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
    if (!holds)
        abort();
}

static void check_files(const qk__repo_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        const qk__repo_file *f = &files->items[i];
        need(*f->path && *f->path != '/' && strcmp(f->path, "..") != 0);
        need(strncmp(f->path, "../", 3) != 0 && !strstr(f->path, "/../") &&
             !strstr(f->path, "//"));
        need(f->size >= 0 && qk__is_hash(f->oid, strlen(f->oid)));
        need(!*f->sha256 || qk__is_hash(f->sha256, 64));
        need(!*f->xet || qk__is_hash(f->xet, 64));
    }
}

static void choose(qk__repo_files *files)
{
    int items[] = {0, 2};
    qk_index_list list = {items, 2};
    qk_head_range ranges[] = {{0, 65535, 0, 0}, {1, 1, 2, 3}};
    qk_head_set heads = {ranges, 2};
    qk__wanted_form form = qk__wanted_shape(files, NULL);
    need(form.num_layers >= 0 && form.group >= 0);
    for (int part = QK_HUB_ALL; part <= QK_HUB_TEXTS; part++)
        for (int chosen = 0; chosen < 2; chosen++) {
            size_t count = files->count + 1;
            const qk__wanted wanted = {.part = (qk_hub_part)part,
                                       .layers = chosen ? &list : NULL,
                                       .heads = chosen ? &heads : NULL,
                                       .words = {chosen ? "a" : NULL, "train"}};
            qk_error err;
            if (qk__wanted_choose(&wanted, files, &count, &err) == QK_OK)
                need(count <= files->count);
            need(qk__repo_files_sort(files, &err) == QK_OK);
        }
    check_files(files);
}

static void read_list(const uint8_t *data, size_t size)
{
    qk__repo_files files = {0};
    qk_error err;
    size_t entries;
    qk_status status = qk__listing_read(data, size, &files, &entries, &err);
    if (status == QK_OK)
        status = qk__repo_files_sort(&files, &err);
    need(status == QK_OK || err.status == status);
    check_files(&files);
    if (status == QK_OK)
        choose(&files);
    qk__repo_files_free(&files);
}

static void read_headers(const uint8_t *data, size_t size)
{
    qk__headers headers = {0};
    qk_error err;
    qk_status status = QK_OK;
    for (size_t at = 0; at < size && status == QK_OK;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (data + at)) + 1 : size - at;
        status = qk__headers_line(&headers, (const char *)data + at, length, &err);
        at += length;
    }
    need(headers.status >= 0 && headers.status <= 999);
    need(headers.length >= -1 && headers.first >= -1 && headers.total >= -1 &&
         headers.wait >= -1);
    need(strlen(headers.etag) < sizeof headers.etag);
    char *origin = NULL;
    qk__libraries libraries;
    if (headers.location && qk__libraries_load(&libraries, &err) == QK_OK &&
        qk__origin_of(&libraries, headers.location, &origin, &err) == QK_OK)
        need(strncmp(origin, "http", 4) == 0);
    free(origin);
    qk__headers_free(&headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    (data[0] == '[' ? read_list : read_headers)(data, size);
    return 0;
}
