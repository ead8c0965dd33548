/* SPDX-License-Identifier: BSD-3-Clause
 * limber help: lists the commands, or explains a word. */
#include "tools/cli/commands.h"

#include <ctype.h>
#include <limits.h>
#include <popt.h>
#include <string.h>

/* Prints the list of commands, each with a line about it. */
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

/* "..." after a word that ends in =, since any value may follow. */
static const char *rest_of(const char *word)
{
    return word[strlen(word) - 1] == '=' ? "..." : "";
}

/* Returns the path of a page of the installed documentation, or else the page's name in the
 * sources. */
static const char *place_of(const char *page, char path[PATH_MAX])
{
    char name[PATH_MAX];

    snprintf(name, sizeof name, "%s/%s", LIMBER_DOC, page);
    return file_beside(name, path) ? path : page;
}

/* Prints what a word means as a word of this kind, and where its page is. */
static void explain_one(const struct word_kind *kind, const char *word)
{
    char path[PATH_MAX];

    printf("%s%s: a %s\n", word, rest_of(word), kind->name);
    kind->tell(word);
    if (kind->more) {
        printf("  More: ");
        printf(kind->more, word);
        printf("\n");
    }
    printf("  Page: %s\n", place_of(kind->page ? kind->page : kind->page_of(word), path));
}

/* Explains a word in all its meanings: `native` is both a contract and a scheme.  If the text is no
 * word, explains all words that begin with it.  Returns 0 if nothing was found. */
static int explain_all(const char *text)
{
    const struct word_kind *kind;
    const char *word;
    int found = 0;

    for (int i = 0; (kind = word_kind_at(i)); i++)
        if ((word = word_find(kind, text))) {
            printf("%s", found++ ? "\n" : "");
            explain_one(kind, word);
        }
    for (int i = 0; !found && (kind = word_kind_at(i)); i++)
        for (int at = 0; (word = word_with_prefix(kind, text, at)); at++) {
            printf("%s", found || at ? "\n" : "");
            explain_one(kind, word);
            found = found || !word_with_prefix(kind, text, at + 1);
        }
    return found;
}

/* Explains a word: as it was typed; else in lower case; else in capitals, as "limber_cache" names a
 * variable; else with an s, as "format" means "formats".  Returns the exit status. */
static int explain(const char *text)
{
    char other[64], capitals[64];
    size_t n = strlen(text);

    if (explain_all(text))
        return 0;
    for (size_t i = 0; n + 2 < sizeof other && i <= n; i++) {
        other[i] = (char)tolower((unsigned char)text[i]);
        capitals[i] = (char)toupper((unsigned char)text[i]);
    }
    if (n + 2 < sizeof other) {
        if (explain_all(other) || explain_all(capitals))
            return 0;
        strcat(other, "s");
        if (command_named(other) && explain_all(other))
            return 0;
    }
    complain("help: nothing is called \"%s\"%s", text, words_near(NULL, text));
    fprintf(stderr,
            "Words are commands (limber help), formats and schemes (limber formats), "
            "units (limber units),\ncontracts (limber help contracts), functions (limber "
            "help functions), routines of a BLAS (limber help routines),\nvariables (limber "
            "help variables) and topics (limber help topics).\n");
    return 2;
}

/* Lists all words of a kind, such as "contracts" or "contract", with a line about each.  Returns
 * false if the text names no kind. */
static bool list_kind(const char *text)
{
    const struct word_kind *kind;
    const char *word;

    for (int k = 0; (kind = word_kind_at(k)); k++) {
        char plural[32], path[PATH_MAX];

        snprintf(plural, sizeof plural, "%ss", kind->name);
        if ((strcmp(text, plural) && strcmp(text, kind->name)) || command_named(plural))
            continue;
        for (int i = 0; (word = kind->at(i)); i++) {
            printf("%s%s\n", word, rest_of(word));
            kind->tell(word);
        }
        if (kind->page)
            printf("  Page: %s\n", place_of(kind->page, path));
        return true;
    }
    return false;
}

/* The command `limber help`: lists the commands, or explains a word. */
int cmd_help(int argc, const char **argv)
{
    struct poptOption table[] = { POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);
    const char *word;
    int status = 0;

    if (!options_read(o, "[WORD]\n\nSays what a command, format, contract, scheme, unit, backend, "
                         "function, routine of a BLAS or variable "
                         "of the environment is\nand which page has more; contracts, schemes, "
                         "backends, functions, routines, variables or topics lists all of a "
                         "kind.\n\n"
                         "example: limber help bits=40"))
        status = 2;
    else if (!(word = poptGetArg(o)))
        commands_list(stdout);
    else if (poptPeekArg(o))
        status = complain("help takes one word") + 1;
    else if (!list_kind(word))
        status = explain(word);
    poptFreeContext(o);
    return status;
}
