/* SPDX-License-Identifier: BSD-3-Clause
 * collect_cubins FILE...: compiles CUDA programs that a run with SIMT_PROGRAMS recorded, with
 * NVRTC, so that their cubins are stored in the folder LIMBER_KEEP_CUBINS.  Programs whose cubin is
 * in LIMBER_CUBINS already are not compiled again.  Exit status: 0, 1 for a program that NVRTC does
 * not compile, 2 for a file that is no recorded program. */
#include "backends/cuda/cuda.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the file's text, ended by a 0; NULL if it cannot be read. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long size;

    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
        (text = calloc(1, (size_t)size + 1)) && fread(text, 1, (size_t)size, f) != (size_t)size) {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* Compiles one recorded program, whose first line names the architecture.  Returns the exit
 * status. */
static int compile_recorded(const char *path)
{
    char *text = read_text(path), *end = text ? strchr(text, '\n') : NULL;
    struct blob cubin = { 0 };
    struct diag d = { 0 };
    int status = 2;

    if (!end || strncmp(text, "//sm_", 5) != 0) {
        fprintf(stderr, "collect_cubins: %s: no program that SIMT_PROGRAMS kept\n", path);
    } else {
        *end = 0;
        status = !limber_nvrtc(end + 1, text + 2, false, NULL, &cubin, &d);
        if (status)
            fprintf(stderr, "collect_cubins: %s: %s\n", path, d.text);
    }
    free(cubin.data);
    free(text);
    return status;
}

/* Compiles each recorded program named on the command line.  Returns the worst status, 2 without
 * arguments. */
int main(int argc, char **argv)
{
    int worst = argc < 2 ? 2 : 0;

    settings_from_environment();
    if (argc < 2)
        fprintf(stderr, "usage: collect_cubins FILE...\n"
                        "example: LIMBER_KEEP_CUBINS=cubins collect_cubins programs/*.cu\n");
    for (int i = 1; i < argc; i++) {
        int status = compile_recorded(argv[i]);

        worst = status > worst ? status : worst;
    }
    return worst;
}
