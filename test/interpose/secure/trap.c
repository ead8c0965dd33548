/* SPDX-License-Identifier: BSD-3-Clause
 * A library that creates a file when it is loaded. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void spring(void)
{
    const char *file = getenv("TRAP_FILE");
    int fd = file ? open(file, O_WRONLY | O_CREAT, 0666) : -1;

    if (fd >= 0)
        close(fd);
}
