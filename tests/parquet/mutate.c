/* SPDX-License-Identifier: Apache-2.0 */
/* Damages a valid Parquet file in random ways and reads what comes of it.
 *
 *     parquet-mutate FILE [COUNT [SEED]]
 *
 * Every mutation must be read or refused without a crash (run it under sanitizers), in a
 * second or so of the processor, and in little memory. Exit status 1 if one took too long or too much. */
#define _GNU_SOURCE /* struct rusage */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "exercise.h"

enum {
    MOST_SECONDS = 5, /* of one mutation, sanitizers included */
    MOST_MEGABYTES = 64,
};

/* Freed memory that AddressSanitizer holds back is not the reader's. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1";
}

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A place in the file; as often as not in its last bytes, where the footer is. */
static size_t place(uint64_t *state, size_t size)
{
    size_t tail = size < 2000 ? size : 2000;
    if (next_random(state) % 2)
        return size - 1 - next_random(state) % tail;
    return next_random(state) % size;
}

static size_t mutate_once(uint8_t *data, size_t size, uint64_t *state)
{
    size_t at = place(state, size), from = place(state, size);
    size_t length = 1 + next_random(state) % 64;
    length = length < size - at ? length : size - at;
    length = length < size - from ? length : size - from;
    switch (next_random(state) % 8) {
    case 0:
        memset(data + at, 0, length);
        break;
    case 1:
        memmove(data + at, data + from, length);
        break;
    case 2: /* cut, with the end kept so that the footer is still found */
        memmove(data + at, data + at + length, size - at - length);
        return size - length > 16 ? size - length : size;
    case 3:
        data[at] = (uint8_t)next_random(state);
        break;
    case 4:
        return next_random(state) % 16 == 0 ? at + 1 : size; /* truncate */
    default:
        data[at] ^= (uint8_t)(1u << next_random(state) % 8);
    }
    return size;
}

static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static uint8_t *load(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(1 << 24);
    if (!file || !data) {
        perror(path);
        exit(2);
    }
    *size = fread(data, 1, 1 << 24, file);
    fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: parquet-mutate FILE [COUNT [SEED]]\n");
        return 2;
    }
    long count = argc > 2 ? atol(argv[2]) : 1000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    size_t size;
    uint8_t *sound = load(argv[1], &size);
    uint8_t *data = malloc(size + 1);
    if (!data || size < 16 || exercise_bytes(sound, size) < 0) {
        fprintf(stderr, "%s cannot be read as it is\n", argv[1]);
        return 2;
    }
    long opened = 0, columns = 0, start = peak_kilobytes();
    double slowest = 0;
    int code = 0;
    for (long i = 0; i < count; i++) {
        uint64_t state = seed * UINT64_C(1000003) + (uint64_t)i;
        size_t length = size;
        memcpy(data, sound, size);
        for (uint64_t n = 1 + next_random(&state) % 4; n > 0; n--)
            length = mutate_once(data, length, &state);
        double begin = processor_seconds();
        int whole = exercise_bytes(data, length);
        double seconds = processor_seconds() - begin;
        opened += whole >= 0;
        columns += whole > 0 ? whole : 0;
        slowest = seconds > slowest ? seconds : slowest;
        if (seconds > MOST_SECONDS || peak_kilobytes() - start > MOST_MEGABYTES * 1024L) {
            printf("mutation %ld of seed %" PRIu64 ": %.1f s, %ld MB\n", i, seed, seconds,
                   (peak_kilobytes() - start) / 1024);
            code = 1;
            break;
        }
    }
    printf("%ld mutations, %ld opened, %ld columns read, slowest %.3f s, memory +%ld kB\n",
           count, opened, columns, slowest, peak_kilobytes() - start);
    free(data);
    free(sound);
    return code;
}
