/* SPDX-License-Identifier: MIT */
/*
 * A main() for fuzz targets in builds without libFuzzer: runs the target once with
 * every file of the directory named, one TAP line for each, so that what was found
 * once stays found. tools/fuzz.sh builds the same target with a fuzzer behind it.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { INPUT_MAX = 1 << 20 };

/* A block of its exact size, so that a sanitizer sees a read beyond it. */
static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    size_t size = file && data ? fread(data, 1, INPUT_MAX, file) : 0;
    int fine = file && data;

    if (file)
        fclose(file);
    uint8_t *exact = fine ? realloc(data, size ? size : 1) : NULL;
    if (exact)
        LLVMFuzzerTestOneInput(exact, size);
    free(exact ? exact : data);
    return fine && exact;
}

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    char path[4096];
    int failed = 0;
    int count = argc > 1 ? scandir(argv[1], &entries, is_input, alphasort) : -1;

    printf("1..%d\n", count > 0 ? count : 1);
    if (count <= 0)
        printf("not ok 1 - no inputs\n");
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        int fine = run_file(path);
        printf("%sok %d - %s\n", fine ? "" : "not ", i + 1, entries[i]->d_name);
        fflush(stdout);
        failed += !fine;
        free(entries[i]);
    }
    free(entries);
    return failed || count <= 0;
}
