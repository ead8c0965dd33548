/* SPDX-License-Identifier: BSD-3-Clause
 * limber units: lists the presets of simulated units, or expands a description. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/cli/commands.h"

#include <cjson/cJSON.h>
#include <popt.h>
#include <string.h>

static int print_json(cJSON *j)
{
    char *s = cJSON_Print(j);

    if (s)
        printf("%s\n", s);
    cJSON_Delete(j);
    if (!s)
        return complain("out of memory");
    cJSON_free(s);
    return 0;
}

/* Prints all presets of units with their descriptions and sources, as text or as JSON. */
static int list_units(bool json)
{
    const limber_unit_preset *u;
    cJSON *array = json ? cJSON_CreateArray() : NULL;
    int longest = 0;

    for (int i = 0; (u = limber_unit_preset_at(i)); i++)
        longest = (int)strlen(u->name) > longest ? (int)strlen(u->name) : longest;
    for (int i = 0; (u = limber_unit_preset_at(i)); i++) {
        cJSON *j;

        if (!json) {
            printf("%-*s  %s\n%*s  %s\n", longest, u->name, u->words, longest, "", u->source);
            continue;
        }
        j = cJSON_CreateObject();
        cJSON_AddStringToObject(j, "name", u->name);
        cJSON_AddStringToObject(j, "words", u->words);
        cJSON_AddStringToObject(j, "source", u->source);
        cJSON_AddItemToArray(array, j);
    }
    return json ? print_json(array) : 0;
}

/* What each key of a description says (docs/simulation.md, "The description"). */
static const struct {
    const char *key, *meaning;
} meanings[] = {
    { "in", "operands are rounded to this when they are loaded" },
    { "a", "elements of A are rounded to this when they are loaded" },
    { "b", "elements of B are rounded to this when they are loaded" },
    { "scale", "operands have scales of this format, one for each block of elements along k" },
    { "mul", "each product is rounded to this (exact: not rounded)" },
    { "acc", "the accumulator, rounded to this after every addition" },
    { "narrow", "yes: the accumulator may have fewer bits than a rounded product" },
    { "seed", "seed of stochastic rounding" },
    { "bits", "random bits of a stochastic rounding" },
    { "block", "number of products that enter the accumulator together" },
    { "frac", "fraction bits below the largest exponent that aligned terms keep" },
    { "floor", "smallest exponent to which terms are aligned" },
    { "zeros", "keep: zero terms count for the largest exponent" },
    { "sub", "number of neighbouring products that are added exactly before they are aligned" },
    { "late", "fraction bits with which the sum of a block is aligned to the accumulator" },
    { "reach",
      "the accumulator is left out if its exponent is more than this below the products'" },
    { "halves", "yes: products at even and at odd places of a block are summed apart" },
    { "tree", "yes: the products of a block are added by a binary tree" },
    { "order", "the order of k" },
    { "group", "after this number of products the accumulator is added to an outer sum" },
    { "outer", "the outer sum, rounded to this after every addition" },
    { "halve", "a rest of one to two groups is split in two, at a multiple of this" },
    { "lanes", "number of accumulators that take the products of a group in turn" },
    { "join", "how the accumulators of a group are added" },
    { "unroll", "accumulators take turns in whole steps of this number of products" },
    { "rest", "which accumulator takes the products that are left over" },
    { "split", "number of parts of k that are summed apart" },
    { "total", "the sum of the parts, rounded to this after every addition" },
    { "tile", "parts of k consist of whole tiles of this number of products" },
    { "deal", "turns: tiles belong to the parts in turn, not in runs" },
    { "merge", "pairs: parts are added in pairs, not one after another" },
    { "start", "c: the outermost sum starts from C" },
    { "out", "the result is rounded once more, to this" },
    { "epilogue", "alpha x + beta c is rounded to this before the format of C" },
};
/* Meanings of the words after a format in a description of a unit. */
static const struct {
    const char *word, *meaning;
} suffixes[] = {
    { "ra", "to nearest, ties away from zero" },
    { "rna", "to nearest, ties away from zero" },
    { "rz", "toward zero" },
    { "ru", "up" },
    { "rd", "down" },
    { "ro", "to odd" },
    { "rs", "stochastically" },
    { "sr", "stochastically" },
    { "sat", "overflow gives the largest number" },
    { "ftz", "subnormal numbers become zero" },
    { "inf", "overflow gives infinity" },
};

/* Prints one word of a description, and what it says. */
static void print_word(const char *word, int width)
{
    const size_t key = strcspn(word, "=");

    printf("  %-*s", width, word);
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strlen(meanings[i].key) == key && !strncmp(meanings[i].key, word, key))
            printf("  %s", meanings[i].meaning);
    for (const char *at = strchr(word, ':'); at; at = strchr(at + 1, ':'))
        for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
            if (strlen(suffixes[i].word) == strcspn(at + 1, ":") &&
                !strncmp(suffixes[i].word, at + 1, strlen(suffixes[i].word)))
                printf(", %s", suffixes[i].meaning);
    putchar('\n');
}

/* Prints the words of a description, one a line.  Changes `text`. */
static void print_words(char *text)
{
    int width = 0;

    for (const char *at = text; *at; at += strcspn(at, " "), at += *at == ' ')
        width = (int)strcspn(at, " ") > width ? (int)strcspn(at, " ") : width;
    for (char *rest = NULL, *word = strtok_r(text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        print_word(word, width);
}

/* Prints a unit's description in canonical form, as text, in which a line for each word explains
 * it, or as JSON.  Returns the exit status. */
static int print_unit(const char *words, bool json)
{
    limber_unit unit = LIMBER_UNIT_INIT;
    char text[UNIT_TEXT];
    cJSON *j;

    if (limber_unit_parse(words, &unit) != LIMBER_STATUS_OK)
        return complain("%s%s", limber_error_text(), words_near(word_kind_named("unit"), words));
    limber_unit_text(&unit, text, sizeof text);
    if (!json) {
        printf("%s\n", text);
        print_words(text);
        return 0;
    }
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "unit", text);
    return print_json(j);
}

/* The command `limber units`: lists the presets of simulated units, or explains a description. */
int cmd_units(int argc, const char **argv)
{
    int json = 0, status;
    bool ok;
    struct poptOption table[] = { { "json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL },
                                  POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);
    const char *words;

    ok = options_read(o, "[\"UNIT\"] [options]\n\n"
                         "example: limber units \"h100-e4m3 group=128 outer=f32\"");
    words = poptGetArg(o);
    if (!ok)
        status = 2;
    else if (words && poptPeekArg(o))
        status = complain("units takes one description, in quotes") + 1;
    else
        status = words ? print_unit(words, json) : list_units(json);
    poptFreeContext(o);
    return status;
}
