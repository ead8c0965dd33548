/* SPDX-License-Identifier: BSD-3-Clause
 * limber help: the commands, or what a word stands for. */
#include "tools/cli/commands.h"

#include <ctype.h>
#include <limits.h>
#include <popt.h>
#include <string.h>

void commands_list(FILE *out)
{
    const struct command *c;
    int longest = 0;

    for (int i = 0; (c = command_at(i)); i++)
        longest = (int)strlen(c->name) > longest ? (int)strlen(c->name) : longest;
    fprintf(out, "usage: limber COMMAND [options]\n\n");
    for (int i = 0; (c = command_at(i)); i++)
        fprintf(out, "  %-*s  %s\n", longest, c->name, c->about);
    fprintf(out,
            "\n`limber COMMAND --help` has the options and an example, `limber help WORD` says "
            "what a word is.\n"
            "example: limber gemm A.npy B.npy -o C.npy --contract correct --check\n");
}

static const char *rest_of(const char *word)
{
    return word[strlen(word) - 1] == '=' ? "..." : "";
}

/* The page where an installation has it, else its name within the sources. */
static const char *place_of(const char *page, char path[PATH_MAX])
{
    char name[PATH_MAX];

    snprintf(name, sizeof name, "%s/%s", LIMBER_DOC, page);
    return file_beside(name, path) ? path : page;
}

/* How many kinds have the word: native is a contract and a scheme. */
static int explain_as(const char *text)
{
    const struct word_kind *kind;
    char path[PATH_MAX];
    int found = 0;

    for (int i = 0; (kind = word_kind_at(i)); i++) {
        const char *word = word_find(kind, text);

        if (!word)
            continue;
        printf("%s%s%s: a %s\n", found++ ? "\n" : "", word, rest_of(word), kind->name);
        kind->tell(word);
        if (kind->more) {
            printf("  More: ");
            printf(kind->more, word);
            printf("\n");
        }
        printf("  Page: %s\n", place_of(word_page(kind, word), path));
    }
    return found;
}

/* Words are in small letters, but for variables and parts of a few formats. */
static int explain(const char *text)
{
    char small[64], large[64];
    size_t n = strlen(text);

    for (size_t i = 0; i <= n && n < sizeof small; i++) {
        small[i] = (char)tolower((unsigned char)text[i]);
        large[i] = (char)toupper((unsigned char)text[i]);
    }
    if (explain_as(text) || (n < sizeof small && (explain_as(small) || explain_as(large))))
        return 0;
    complain("help: nothing is called \"%s\"%s", text, words_near(NULL, text));
    fprintf(stderr, "Words are commands (limber help), formats and schemes (limber formats), "
                    "units (limber units),\ncontracts (limber help contracts), variables "
                    "(limber help variables) and topics (limber help topics).\n");
    return 2;
}

/* "contracts": all words of a kind, with what is said of them. */
static bool list(const char *text)
{
    const struct word_kind *kind;
    const char *word;

    for (int k = 0; (kind = word_kind_at(k)); k++) {
        size_t n = strlen(kind->name);

        if (strncmp(text, kind->name, n) || strcmp(text + n, "s") || command_named(text))
            continue;
        for (int i = 0; (word = kind->at(i)); i++) {
            printf("%s%s\n", word, rest_of(word));
            kind->tell(word);
        }
        return true;
    }
    return false;
}

int cmd_help(int argc, const char **argv)
{
    struct poptOption table[] = { POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);
    const char *word;
    int status = 0;

    if (!options_read(o, "[WORD]\n\nSays what a command, format, contract, scheme, unit, backend, "
                         "variable of the environment or topic\nis and which page has more; "
                         "contracts, schemes, backends, variables or topics lists all of a "
                         "kind.\n\n"
                         "example: limber help bits=40"))
        status = 2;
    else if (!(word = poptGetArg(o)))
        commands_list(stdout);
    else if (poptPeekArg(o))
        status = complain("help takes one word") + 1;
    else if (!list(word))
        status = explain(word);
    poptFreeContext(o);
    return status;
}
