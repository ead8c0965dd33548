/* SPDX-License-Identifier: BSD-3-Clause
 * limber cache: lists, checks and clears the kernels on disk. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <popt.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The listing of the cache's entries; bad: number of damaged ones. */
struct listing {
    cJSON *entries; /* owned; NULL if the list is printed as text */
    bool verify;
    int bad;
};

/* An entry's state in a word; "-" if its bytes were not read. */
static const char *state_of(const struct listing *l, const limber_cache_entry *e)
{
    return e->foreign ? "FOREIGN" : !e->good ? "DAMAGED" : !l->verify ? "-" : "good";
}

/* Callback for each entry: prints it, or adds it to the JSON. */
static int print_entry(void *user, const limber_cache_entry *e)
{
    struct listing *l = user;
    time_t used = (time_t)e->used;
    char when[32] = "";
    struct tm t;

    l->bad += !e->good;
    if (localtime_r(&used, &t))
        strftime(when, sizeof when, "%Y-%m-%d", &t);
    if (l->entries) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "key", e->key);
        cJSON_AddStringToObject(j, "plan", e->plan);
        cJSON_AddNumberToObject(j, "bytes", (double)e->bytes);
        cJSON_AddStringToObject(j, "used", when);
        if (e->good && !l->verify)
            cJSON_AddNullToObject(j, "good");
        else
            cJSON_AddBoolToObject(j, "good", e->good);
        cJSON_AddBoolToObject(j, "foreign", e->foreign);
        cJSON_AddItemToArray(l->entries, j);
    } else {
        printf("%.12s  %8zu  %s  %-7s  %s\n", e->key, e->bytes, when, state_of(l, e), e->plan);
    }
    return 0;
}

/* Prints an object, and deletes it. */
static void print_object(cJSON *j)
{
    char *s = cJSON_Print(j);

    printf("%s\n", s ? s : "{}");
    cJSON_free(s);
    cJSON_Delete(j);
}

/* True if the folder is writable, or can be created since its nearest existing ancestor is
 * writable. */
static bool can_be_made(const char *folder)
{
    char path[sizeof((limber_cache_info *)0)->directory];

    snprintf(path, sizeof path, "%s", folder);
    while (access(path, F_OK) != 0) {
        char *slash = strrchr(path, '/');

        if (errno != ENOENT || !slash || !path[1])
            return false;
        slash[slash == path] = '\0'; /* keeps the "/" of the root */
    }
    return access(path, W_OK | X_OK) == 0;
}

/* Prints the folder of the cache, its size and entries, and the reason if it is not used. */
static int print_info(limber_context *ctx, bool json)
{
    limber_cache_info i = LIMBER_CACHE_INFO_INIT;
    bool absent, usable;

    if (limber_cache_describe(ctx, &i) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text());
    absent = access(i.directory, F_OK) != 0;
    usable = i.writable && can_be_made(i.directory);
    if (json) {
        cJSON *j = cJSON_CreateObject();

        cJSON_AddStringToObject(j, "directory", i.directory);
        cJSON_AddStringToObject(j, "why_not", i.why_not);
        cJSON_AddBoolToObject(j, "writable", usable);
        cJSON_AddNumberToObject(j, "entries", (double)i.entries);
        cJSON_AddNumberToObject(j, "bytes", (double)i.bytes);
        cJSON_AddNumberToObject(j, "limit", (double)i.limit);
        cJSON_AddBoolToObject(j, "tuned", i.tuned);
        print_object(j);
        return 0;
    }
    printf("directory  %s\n", i.directory[0] ? i.directory : "none");
    if (i.why_not[0])
        printf("not used   %s\n", i.why_not);
    printf("kernels    %zu, %zu bytes of at most %zu\nwritable   %s\ntuned      %s\n", i.entries,
           i.bytes, i.limit,
           !i.writable      ? "no" :
           usable && absent ? "the folder is not there yet: made at first use" :
           usable           ? "yes" :
           absent           ? "no: the folder is not there and cannot be made" :
                              "no: the folder is another's",
           i.tuned ? "yes" : "no: limber tune");
    return 0;
}

/* Lists the entries of the cache.  verify: also reads and checks their bytes. */
static int print_list(limber_context *ctx, bool verify, bool json)
{
    struct listing l = { json ? cJSON_CreateArray() : NULL, verify, 0 };

    if (limber_cache_each(ctx, verify ? LIMBER_CACHE_VERIFY : LIMBER_CACHE_LIST, print_entry, &l) !=
        LIMBER_STATUS_OK) {
        cJSON_Delete(l.entries);
        return complain("%s", limber_error_text());
    }
    if (json)
        print_object(l.entries);
    if (verify && l.bad)
        return complain(
            "%d entries are damaged, or sealed by another key than this user's; they will be "
            "compiled again, or remove them with limber cache clear --damaged",
            l.bad);
    return 0;
}

/* Removes kernels from the cache, and prints how many. */
static int clear_cache(limber_context *ctx, bool damaged)
{
    size_t removed;

    if (limber_cache_clear(ctx, damaged ? LIMBER_CACHE_CLEAR_DAMAGED : LIMBER_CACHE_CLEAR_ALL,
                           &removed) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text());
    printf("%zu removed\n", removed);
    return 0;
}

/* The command `limber cache`: prints information, lists or verifies entries, or clears the
 * cache. */
int cmd_cache(int argc, const char **argv)
{
    int json = 0, damaged = 0, status;
    bool ok;
    struct poptOption table[] = { { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
                                  { "damaged", 0, POPT_ARG_NONE, &damaged, 0,
                                    "with clear: remove damaged and foreign entries only", NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);
    limber_context *ctx = NULL;
    const char *what;

    ok = options_read(o, "info|list|verify|clear [options]\n\nexample: limber cache list");
    what = poptGetArg(o);
    if (!ok)
        status = 2;
    else if (!what)
        status = complain("cache takes info, list, verify or clear") + 1;
    else if (limber_create(&ctx, NULL) != LIMBER_STATUS_OK)
        status = complain("%s", limber_error_text());
    else if (!strcmp(what, "info"))
        status = print_info(ctx, json);
    else if (!strcmp(what, "list") || !strcmp(what, "verify"))
        status = print_list(ctx, what[0] == 'v', json);
    else if (!strcmp(what, "clear"))
        status = clear_cache(ctx, damaged);
    else
        status = complain("cache: \"%s\" is none of info, list, verify, clear", what) + 1;
    context_end(ctx);
    poptFreeContext(o);
    return status;
}
