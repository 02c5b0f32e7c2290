/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "type base_rate min_bucket_size max_rows example_id layer q|k first_head count"
 * and prints position:bucket of what is kept of each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <qkscope/recorder.h>

int main(void)
{
    char type[16];
    char kind;
    qk_sampler sampler;
    int64_t id, count;
    int layer, head;
    while (scanf("%15s %lf %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %c %d %" SCNd64, type,
                 &sampler.base_rate, &sampler.min_bucket_size, &sampler.max_rows, &id, &layer,
                 &kind, &head, &count) == 9) {
        int64_t *positions;
        size_t num;
        qk_error err;
        if (!qk_sampler_type_parse(type, &sampler.type) ||
            qk_sampler_positions(&sampler, id, layer, kind == 'q' ? QK_QUERY : QK_KEY, head,
                                 count, &positions, &num, &err) != QK_OK)
            return 1;
        for (size_t i = 0; i < num; i++)
            printf("%" PRId64 ":%" PRId64 " ", positions[i],
                   qk_sampler_bucket(&sampler, positions[i]));
        puts("");
        free(positions);
    }
    return 0;
}
