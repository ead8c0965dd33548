/* SPDX-License-Identifier: BSD-3-Clause
 * Makes the device hang, be lost or give wrong results, to test how programs react.  README.md
 * lists the variables. */
#include "test/cuda/simt/engine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns whether the variable has the number of this launch. */
static bool is_launch(const char *variable, long number)
{
    const char *text = getenv(variable);

    return text && *text && strtol(text, NULL, 10) == number;
}

/* Returns whether the device is lost, maybe by an earlier process. */
bool fault_is_gone(void)
{
    const char *file = getenv("SIMT_GONE");

    return file && access(file, F_OK) == 0;
}

/* Lets the device be lost, also for later processes if SIMT_GONE names a file. */
static void lose_device(void)
{
    const char *file = getenv("SIMT_GONE");
    int fd = file ? open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;

    if (fd >= 0)
        close(fd);
    engine_fail("the device is lost (SIMT_LOST)");
}

/* Called before each launch: hangs or loses the device if the environment asks for it at this
 * one. */
void fault_before(void)
{
    static long number;

    number++;
    while (is_launch("SIMT_HANG", number))
        pause();
    if (is_launch("SIMT_LOST", number))
        lose_device();
}

/* Called after a kernel: flips a bit in memory if the environment names the kernel. */
void fault_after(const char *kernel)
{
    const char *wrong = getenv("SIMT_WRONG");

    if (wrong && !strcmp(kernel, wrong))
        memory_flip_bit();
}
