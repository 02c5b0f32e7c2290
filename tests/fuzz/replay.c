/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target once on every file of a folder, so that what was found stays found without
 * a fuzzer: replay-NAME FOLDER. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return -1;
    long size = ftell(file);
    rewind(file);
    /* Exactly as large, so that a sanitizer sees the first byte beyond. */
    uint8_t *data = size >= 0 ? malloc((size_t)size + (size == 0)) : NULL;
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
        return -1;
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        if (replay(argv[1], entry->d_name) != 0) {
            fprintf(stderr, "%s/%s: cannot read\n", argv[1], entry->d_name);
            return 1;
        }
        count++;
    }
    if (dir)
        closedir(dir);
    printf("%d files\n", count);
    return count > 0 ? 0 : 1;
}
