/* SPDX-License-Identifier: Apache-2.0 */
/* find_dataset NAME [REVISION [LOCAL_ROOT]]: prints where the dataset lies. */
#include <stdio.h>
#include <stdlib.h>

#include <qkscope/hub.h>

int main(int argc, char **argv)
{
    char *path;
    qk_error err;
    if (argc < 2)
        return 2;
    qk_status status = qk_hub_find_dataset(argv[1], argc > 2 ? argv[2] : NULL,
                                           argc > 3 ? argv[3] : NULL, &path, &err);
    if (status != QK_OK) {
        fprintf(stderr, "%s: %s\n", qk_status_text(status), err.message);
        return 1;
    }
    puts(path);
    free(path);
    return 0;
}
