/* SPDX-License-Identifier: BSD-3-Clause
 * A plugin of QEMU's user emulation that counts the instructions of a program and prints their
 * number when it ends.  Debian has no header for it; what is declared here is as QEMU's manual of
 * plugins describes, for version 1 and later ones.
 *
 *   qemu-aarch64 -plugin ./qemu_counter.so -d plugin PROGRAM */
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

static void add(unsigned vcpu, void *data)
{
    (void)vcpu;
    __atomic_fetch_add(&count, (uintptr_t)data, __ATOMIC_RELAXED);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, add, 0, (void *)qemu_plugin_tb_n_insns(tb));
}

static void ended(uint64_t id, void *data)
{
    char text[64];

    (void)id, (void)data;
    snprintf(text, sizeof text, "instructions %" PRIu64 "\n", count);
    qemu_plugin_outs(text);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
