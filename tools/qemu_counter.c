/* SPDX-License-Identifier: BSD-3-Clause
 * A plugin for QEMU's user emulation, which counts a program's instructions and prints their number
 * at the end.  Debian has no header for plugins.  The declarations below follow QEMU's manual, and
 * fit all versions from 1 on.
 * Use: qemu-aarch64 -plugin ./qemu_counter.so -d plugin PROGRAM */
#include <inttypes.h>
#include <stdio.h>

struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*cb)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
                                          void (*cb)(unsigned vcpu, void *data), int flags,
                                          void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*cb)(uint64_t id, void *data), void *data);
void qemu_plugin_outs(const char *text);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info,
                                                               int argc, char **argv);

static uint64_t count;

/* Called at run time for each block of instructions. */
static void add_instructions(unsigned vcpu, void *data)
{
    (void)vcpu;
    __atomic_fetch_add(&count, (uintptr_t)data, __ATOMIC_RELAXED);
}

/* Called when QEMU translates a block: has add_instructions called with its length. */
static void instrument_block(uint64_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, add_instructions, 0,
                                         (void *)qemu_plugin_tb_n_insns(tb));
}

/* Prints the count at the end of the program. */
static void print_count(uint64_t id, void *data)
{
    char text[64];

    (void)id, (void)data;
    snprintf(text, sizeof text, "instructions %" PRIu64 "\n", count);
    qemu_plugin_outs(text);
}

/* QEMU calls this when it loads the plugin. */
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, instrument_block);
    qemu_plugin_register_atexit_cb(id, print_count, NULL);
    return 0;
}
