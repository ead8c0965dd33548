/* SPDX-License-Identifier: BSD-3-Clause
 * limber version: prints versions and what the library finds on this machine. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <link.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

/* A library that was searched for. */
struct found {
    char version[64], file[512]; /* "" if unknown */
    char why_not[320]; /* why it is absent; "" if it was found */
};

/* What was found on this machine: the CPU, its target, and libraries. */
struct machine {
    char cpu[64], target[64];
    struct found llvm, cuda;
};

/* Stores the last error's text, without prefixes that name the failed call or the backend. */
static void set_reason(struct found *f)
{
    static const char *const own[] = { "create: ", "bind_shape: ", "backend cuda: ",
                                       "backend llvm: ", "llvm: " };
    const char *text = limber_error_text();

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strncmp(text, own[i], strlen(own[i])))
            text += strlen(own[i]);
    snprintf(f->why_not, sizeof f->why_not, "%s", text);
}

/* ---- which libLLVM is used ------------------------------------------------------------------- */

/* Callback of dl_iterate_phdr: reads the version, if this object is libLLVM. */
static int find_in_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct found *f = user;
    void (*version)(unsigned *major, unsigned *minor, unsigned *patch);
    unsigned v[3];
    void *h;

    (void)size;
    if (!info->dlpi_name || !*info->dlpi_name || !strstr(info->dlpi_name, "LLVM"))
        return 0;
    h = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    if (!h)
        return 0;
    *(void **)&version = dlsym(h, "LLVMGetVersion");
    if (version) {
        version(&v[0], &v[1], &v[2]);
        snprintf(f->version, sizeof f->version, "%u.%u.%u", v[0], v[1], v[2]);
        snprintf(f->file, sizeof f->file, "%s", info->dlpi_name);
    }
    dlclose(h);
    return version != NULL;
}

/* Binds a product of one element, which makes the Limber library load libLLVM by its own search
 * rules. */
static void find_llvm(limber_context *ctx, struct found *f)
{
    const limber_matrix one = { NULL, LIMBER_F64, 1, 1 };
    const limber_output c = { NULL, LIMBER_F64, 1, 1 };
    limber_kernel function;

    if (limber_bind_shape(ctx, NULL, 1, 1, 1, one, one, c, LIMBER_ACCUMULATE_NONE, &function) !=
        LIMBER_STATUS_OK)
        set_reason(f);
    else
        dl_iterate_phdr(find_in_object, f);
}

/* ---- the CPU's target ------------------------------------------------------------------------ */

/* Reads TARGET from a line of the log that has "llvm:TARGET". */
static void read_target(void *user, const char *line)
{
    static const char mark[] = " llvm:";
    const char *at = strstr(line, mark);
    struct machine *m = user;

    if (at)
        snprintf(m->target, sizeof m->target, "%.*s", (int)strcspn(at + sizeof mark - 1, " \n"),
                 at + sizeof mark - 1);
}

/* Computes a product of 1 x 1 matrices, so that the context has to compile a kernel. */
static void find_target(limber_context *ctx)
{
    const double one = 1;
    double c;
    limber_contract k = LIMBER_CONTRACT_INIT;
    limber_problem p = LIMBER_PROBLEM_INIT;

    k.scheme = "ozaki1-i8"; /* this scheme always needs a kernel */
    k.promise = LIMBER_CONTRACT_CORRECT;
    p.contract = &k;
    p.m = p.n = p.k = 1;
    p.a = p.b = (limber_matrix){ &one, LIMBER_F64, 1, 1 };
    p.c = (limber_output){ &c, LIMBER_F64, 1, 1 };
    limber_run(ctx, &p, NULL);
}

/* ---- this CPU and this GPU ------------------------------------------------------------------- */

/* Finds the CPU's name, the target that the library chooses for it, and libLLVM. */
static void find_cpu(struct machine *m)
{
    limber_config config = { .size = sizeof(limber_config),
                             .backend = "llvm",
                             .threads = 1,
                             .cache_dir = "",
                             .dump_dir = "",
                             .verbose = 1,
                             .log = read_target,
                             .log_user = m,
                             .kernels = LIMBER_KERNELS_BOTH };
    limber_context *ctx = NULL;

    cpu_name(m->cpu, sizeof m->cpu);
    if (limber_create(&ctx, &config) == LIMBER_STATUS_OK) {
        find_target(ctx);
        find_llvm(ctx, &m->llvm);
    } else {
        set_reason(&m->llvm);
    }
    limber_destroy(ctx);
}

/* Creates a context with the CUDA backend, and notes the reason if that fails. */
static void find_cuda(struct found *f)
{
    limber_config config = { .size = sizeof(limber_config),
                             .backend = "cuda",
                             .threads = 1,
                             .cache_dir = "",
                             .dump_dir = "" };
    limber_context *ctx = NULL;

    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        set_reason(f);
    limber_destroy(ctx);
}

/* ---- what was found, as text and JSON -------------------------------------------------------- */

static void add_text(cJSON *j, const char *name, const char *text)
{
    if (*text)
        cJSON_AddStringToObject(j, name, text);
    else
        cJSON_AddNullToObject(j, name);
}

static void found_json(cJSON *j, const char *name, const struct found *f)
{
    cJSON *o = cJSON_AddObjectToObject(j, name);

    cJSON_AddBoolToObject(o, "found", !*f->why_not);
    add_text(o, "version", f->version);
    add_text(o, "file", f->file);
    add_text(o, "why_not", f->why_not);
}

/* Prints the versions and the machine as JSON. Returns the exit status. */
static int print_json(const struct machine *m)
{
    cJSON *j = cJSON_CreateObject(), *cpu;

    cJSON_AddStringToObject(j, "limber", LIMBER_VERSION);
    cJSON_AddStringToObject(j, "library", limber_version());
    cpu = cJSON_AddObjectToObject(j, "cpu");
    add_text(cpu, "name", m->cpu);
    add_text(cpu, "target", m->target);
    found_json(j, "llvm", &m->llvm);
    found_json(j, "cuda", &m->cuda);
    return json_print(j) ? 0 : 1;
}

static void print_found(const char *name, const struct found *f)
{
    if (*f->why_not)
        printf("%-8s not found: %s\n", name, f->why_not);
    else
        printf("%-8s %s%s%s\n", name, *f->version ? f->version : "found", *f->file ? ", " : "",
               f->file);
}

static void print_text(const struct machine *m)
{
    printf("limber   %s\nlibrary  %s\nCPU      %s%s%s\n", LIMBER_VERSION, limber_version(), m->cpu,
           *m->target ? ", kernels for " : "", m->target);
    print_found("LLVM", &m->llvm);
    print_found("CUDA", &m->cuda);
}

/* The command `limber version`: prints the versions of the program and of the libraries that it
 * found. */
int cmd_version(int argc, const char **argv)
{
    int json = 0, status = 2;
    struct poptOption table[] = { { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object",
                                    NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);
    struct machine m = { .cpu = "" };

    if (!options_read(o, "[options]\n\nTells the versions of this program and of the library that "
                         "it runs with, the kernels that\nthe CPU gets, and whether libLLVM and "
                         "a CUDA driver are found.\n\nexample: limber version --json"))
        status = 2;
    else if (poptPeekArg(o))
        complain("version takes no words");
    else {
        find_cpu(&m);
        find_cuda(&m.cuda);
        status = json ? print_json(&m) : (print_text(&m), 0);
    }
    poptFreeContext(o);
    return status;
}
