/* SPDX-License-Identifier: BSD-3-Clause
 * What the programs that compare layouts share: counts, and what functions of kernels take for
 * granted. */
#ifndef LIMBER_TEST_LAYOUTS_H
#define LIMBER_TEST_LAYOUTS_H

static long compared, wrong;

static void same(const char *what, long ours, long theirs)
{
    compared++;
    if (ours != theirs && wrong++ < 20)
        printf("%s: %ld, in CuTe %ld\n", what, ours, theirs);
}

static int tell()
{
    printf("%ld numbers compared, %ld differ\n", compared, wrong);
    return wrong > 0;
}

#define DEVICE static
#define UNROLL
static uint32_t shared_address(uint32_t at)
{
    return at;
}

#endif
