/* SPDX-License-Identifier: MIT */
/*
 * Reads the number of this run's mutant from the environment, before main(). Linked into
 * an instrumented library; children inherit the environment, so takers, wardens and the
 * command are the same mutant.
 *
 *   HFM_NUMBER   the mutant; none if it is not set
 *   HFM_REACHED  a file with a byte per mutant, shared: what SIGKILL ends has written, too
 *   HFM_TESTS    a directory: `contract --one NAME` writes to NAME in it, with / as +
 *   HFM_CHOSEN   a file of such names: `contract --one` ends well at once for all others
 *   HFM_LUA      a directory with the scripts of a mutant that is written in Lua
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int hfm_number = -1;
unsigned char *hfm_reached;

static void map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, HFM_COUNT) != 0)
        return;
    void *bytes = mmap(NULL, HFM_COUNT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes != MAP_FAILED)
        hfm_reached = bytes;
    syscall(SYS_close, fd); /* the simulation has a close() of its own */
}

static void chosen_or_exit(const char *list, const char *name)
{
    char line[512];
    FILE *file = fopen(list, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, name) == 0) {
            fclose(file);
            return;
        }
    }
    if (file)
        _exit(0);
}

static void one(const char *name)
{
    static char path[1024];
    const char *tests = getenv("HFM_TESTS");
    if (getenv("HFM_CHOSEN"))
        chosen_or_exit(getenv("HFM_CHOSEN"), name);
    if (!tests)
        return;
    int head = snprintf(path, sizeof path, "%s/", tests);
    snprintf(path + head, sizeof path - (size_t)head, "%s", name);
    for (char *at = path + head; *at; at++)
        if (*at == '/')
            *at = '+';
    setenv("HFM_REACHED", path, 1);
    unsetenv("HFM_TESTS");
}

__attribute__((constructor(101))) static void begin(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--one") == 0)
        one(argv[2]);
    if (getenv("HFM_NUMBER"))
        hfm_number = atoi(getenv("HFM_NUMBER"));
    if (getenv("HFM_REACHED"))
        map(getenv("HFM_REACHED"));
}

/* The scripts of a mutant in Lua: for each that it changes a line `name sha length` and
 * the text. `script` is as in scripts.h. */
struct script {
    const char *name;
    const char *text;
    size_t len;
    char sha[41];
};

static void replace(struct script *const *all, FILE *file)
{
    char name[64], sha[41];
    size_t len;
    while (fscanf(file, "%63s %40s %zu", name, sha, &len) == 3) {
        char *text = malloc(len + 1);
        fgetc(file);
        if (!text || fread(text, 1, len, file) != len)
            _exit(125);
        text[len] = '\0';
        for (size_t i = 0; all[i]; i++)
            if (strcmp(all[i]->name, name) == 0) {
                all[i]->text = text;
                all[i]->len = len;
                memcpy(all[i]->sha, sha, sizeof sha);
            }
    }
}

void hfm_scripts(struct script *const *all);
void hfm_scripts(struct script *const *all)
{
    char path[1024];
    if (!getenv("HFM_LUA") || !getenv("HFM_NUMBER"))
        return;
    snprintf(path, sizeof path, "%s/%s", getenv("HFM_LUA"), getenv("HFM_NUMBER"));
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    replace(all, file);
    fclose(file);
}
