/* SPDX-License-Identifier: BSD-3-Clause
 * Words that options and `limber help` accept. */
#include "tools/cli/commands.h"

#include <limber/environment.h>
#include <limber/names.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The words for contracts. */
static const struct contract_word {
    const char *name, *about;
    limber_promise promise;
} contracts[] = {
    { "native", "at most (k+2) u |A||B| off, as the machine's own sums are; integers wrap",
      LIMBER_CONTRACT_NATIVE },
    { "reproducible",
      "native, by one stated order of sums: products have the same bits on every CPU and GPU",
      LIMBER_CONTRACT_REPRODUCIBLE },
    { "correct", "the exact value, rounded once to nearest-even", LIMBER_CONTRACT_CORRECT },
    { "correct,round=", "the exact value, rounded once: up, down, zero (toward it), or away (ties)",
      LIMBER_CONTRACT_CORRECT },
    { "bits=", "at most 2^-N |A||B| off, and one rounding; N is 1 to 160", LIMBER_CONTRACT_BITS },
    { "exact", "results of integers: the exact value, or a refusal where it does not fit",
      LIMBER_CONTRACT_EXACT },
    { "mod=", "integers modulo N, from 0 to N - 1; mod=N,symmetric: above -N/2, at most N/2",
      LIMBER_CONTRACT_EXACT },
    { "fast", "what the scheme of --scheme gives, with its own published bound",
      LIMBER_CONTRACT_FAST },
    { "simulate=", "bit for bit what the described unit computes", LIMBER_CONTRACT_SIMULATE },
};
enum { CONTRACTS = sizeof contracts / sizeof *contracts };

/* The words for backends. */
static const struct backend_word {
    const char *name, *about, *page;
} backends[] = {
    { "auto", "the best of those that run here", "docs/platforms.md" },
    { "interp", "the definition of every plan: slow, on any machine", "docs/platforms.md" },
    { "llvm", "CPUs: kernels that are part of the library, and code that libLLVM compiles",
      "docs/platforms.md" },
    { "cuda", "NVIDIA's GPUs: kernels that NVRTC compiles", "docs/gpu.md" },
};
enum { BACKEND_WORDS = sizeof backends / sizeof *backends };

/* ---- the words of each kind ------------------------------------------------------------------ */

static const char *command_word(int i)
{
    const struct command *c = command_at(i);

    return c ? c->name : NULL;
}

static const char *contract_word(int i)
{
    return i < CONTRACTS ? contracts[i].name : NULL;
}

static const char *backend_word(int i)
{
    return i < BACKEND_WORDS ? backends[i].name : NULL;
}

static const char *scheme_word(int i)
{
    const limber_scheme *s = limber_scheme_at(i);

    return s ? s->name : NULL;
}

static const char *unit_word(int i)
{
    const limber_unit_preset *u = limber_unit_preset_at(i);

    return u ? u->name : NULL;
}

static const char *variable_word(int i)
{
    const limber_variable *v = limber_variable_at(i);

    return v ? v->name : NULL;
}

/* Returns the index of a word in its list, or -1.  A word of the list that ends in = is found if
 * the text begins with it. */
static int index_of(const char *(*at)(int i), const char *text)
{
    const char *word;

    for (int i = 0; (word = at(i)); i++) {
        size_t n = strlen(word);
        bool goes_on = word[n - 1] == '=';

        if (!strcmp(word, text) || (goes_on && !strncmp(word, text, n)) ||
            (goes_on && strlen(text) == n - 1 && !strncmp(word, text, n - 1)))
            return i;
    }
    return -1;
}

/* ---- lines about a word ---------------------------------------------------------------------- */

static void tell_command(const char *word)
{
    const struct command *c = command_named(word);

    printf("  %s\n", c->about);
}

static const char *command_page(const char *word)
{
    return command_named(word)->page;
}

/* Prints what `limber help` tells about a format: its layout, range and other names. */
static void tell_format(const char *word)
{
    limber_format_facts x = LIMBER_FORMAT_FACTS_INIT;
    limber_format f = format_of(word);
    const char *also = "  Also read as ";
    char largest[60];

    limber_format_describe(f, &x);
    if (f.kind == LIMBER_KIND_FLOAT)
        printf("  A float of 1 sign, %d exponent and %d fraction bits, in %d byte%s.\n", f.exp_bits,
               f.frac_bits, f.size, f.size > 1 ? "s" : "");
    else if (f.kind == LIMBER_KIND_DD)
        printf("  The sum of two f64, the high part first, in %d bytes.\n", f.size);
    else if (f.kind == LIMBER_KIND_POSIT)
        printf("  A posit of %d bits (Posit Standard 2022).\n", 8 * f.size);
    else if (f.kind == LIMBER_KIND_POWER)
        printf("  A power of two in a byte, without sign and zero.\n");
    else if (f.kind == LIMBER_KIND_SHORT)
        printf("  A signed integer of %d bits, the low ones of a byte.\n", f.frac_bits + 1);
    else
        printf("  An %s integer in %d byte%s.\n",
               f.kind == LIMBER_KIND_UINT ? "unsigned" : "signed", f.size, f.size > 1 ? "s" : "");
    if (!fact_beyond_f64(&x, "largest", largest))
        snprintf(largest, sizeof largest, "%.6g", x.largest);
    printf("  Largest %s, %d significant bits.\n", largest, x.significant_bits);
#define ALSO(NAME, name) \
    if (limber_format_equal(f, LIMBER_##NAME)) { \
        printf("%s%s", also, name); \
        also = ", "; \
    }
    LIMBER_FORMAT_NAMES(ALSO)
#undef ALSO
    if (also[0] == ',')
        printf(".\n");
}

static void tell_contract(const char *word)
{
    printf("  %s\n", contracts[index_of(contract_word, word)].about);
}

static void tell_backend(const char *word)
{
    printf("  %s\n", backends[index_of(backend_word, word)].about);
}

static const char *backend_page(const char *word)
{
    return backends[index_of(backend_word, word)].page;
}

static void tell_scheme(const char *word)
{
    printf("  %s\n", limber_scheme_at(index_of(scheme_word, word))->about);
}

static void tell_unit(const char *word)
{
    const limber_unit_preset *u = limber_unit_preset_at(index_of(unit_word, word));

    printf("  %s\n  From: %s\n", u->words, u->source);
}

static void tell_variable(const char *word)
{
    const limber_variable *v = limber_variable_at(index_of(variable_word, word));
    const char *value = limber_variable_value(word);

    printf("  %s\n  Read by: %s.\n", v->meaning, v->reader);
    if (*v->danger)
        printf("  Limber %s what it names.\n", v->danger);
    printf("  Here it is %s%s.\n", value ? "set: " : "not set", value ? value : "");
}

/* ---- kinds of words, and looking one up ------------------------------------------------------ */

static const struct word_kind kinds[] = {
    { "command", NULL, "limber %s --help", command_word, tell_command, command_page },
    { "format", "docs/formats.md", "limber formats '%s'", limber_format_at, tell_format },
    { "contract", "docs/contracts.md", NULL, contract_word, tell_contract },
    { "scheme", "docs/accuracy.md", NULL, scheme_word, tell_scheme },
    { "unit", "docs/simulation.md", "limber units %s", unit_word, tell_unit },
    { "backend", NULL, NULL, backend_word, tell_backend, backend_page },
    { "variable", "docs/environment.md", NULL, variable_word, tell_variable },
    { "function", "docs/operators.md", NULL, function_word, function_tell },
    { "routine", "docs/blas.md", NULL, routine_word, routine_tell },
    { "figure", "docs/papers.md", "limber reproduce %s", reproduced_word, reproduced_tell },
    { "topic", NULL, NULL, topic_word, topic_tell, topic_page },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const struct word_kind *word_kind_at(int i)
{
    return i >= 0 && i < KINDS ? &kinds[i] : NULL;
}

const struct word_kind *word_kind_named(const char *name)
{
    int i = 0;

    while (strcmp(kinds[i].name, name) != 0)
        i++;
    return &kinds[i];
}

/* Returns the kind of word whose name in capital letters is `description` (of `length` bytes),
 * as options' help has it; NULL if there is none. */
const struct word_kind *word_kind_taken(const char *description, size_t length)
{
    for (int i = 0; i < KINDS; i++) {
        size_t n = 0;

        while (n < length && kinds[i].name[n] &&
               toupper((unsigned char)kinds[i].name[n]) == description[n])
            n++;
        if (n == length && !kinds[i].name[n])
            return &kinds[i];
    }
    return NULL;
}

static const char *find_format(const char *text)
{
    static char name[64];
    limber_format f;

    if (limber_format_named(text, &f) || f.kind == LIMBER_KIND_EXACT)
        return NULL;
    return limber_format_name(f, name, sizeof name);
}

/* Returns the index of a routine, given any of its symbols: cblas_dgemm, dgemm_64_, scipy_dgesv_;
 * -1 if there is none. */
static int find_routine(const char *text)
{
    static const char *const before[] = { "scipy_", "cblas_" }, *const behind[] = { "_", "64",
                                                                                    "_" };
    char plain[64];
    size_t n;

    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp(text, before[i], strlen(before[i])) == 0)
            text += strlen(before[i]);
    snprintf(plain, sizeof plain, "%s", text);
    n = strlen(plain);
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        const size_t end = strlen(behind[i]);

        if (n > end && strcmp(plain + n - end, behind[i]) == 0)
            plain[n -= end] = 0;
    }
    return index_of(routine_word, plain);
}

const char *word_find(const struct word_kind *kind, const char *text)
{
    int i;

    if (kind->at == limber_format_at)
        return find_format(text);
    i = kind->at == routine_word ? find_routine(text) : index_of(kind->at, text);
    return i < 0 ? NULL : kind->at(i);
}

const char *contract_about(const limber_contract *k)
{
    for (int i = 0; i < CONTRACTS; i++)
        if (contracts[i].promise == k->promise && (!k->rounding || strchr(contracts[i].name, '=')))
            return contracts[i].about;
    return "";
}

/* Parses the rest of a contract "mod=N" or "mod=N,symmetric". */
static bool read_modulus(const char *number, limber_contract *k)
{
    char *end;

    if (!isdigit((unsigned char)*number))
        return false;
    errno = 0;
    k->modulus = strtoull(number, &end, 10);
    k->residues = *end ? LIMBER_RESIDUES_SYMMETRIC : LIMBER_RESIDUES_LEAST;
    return !errno && k->modulus >= 2 && k->modulus <= INT64_MAX &&
           (!*end || strcmp(end, ",symmetric") == 0);
}

/* Parses the rest of a contract "correct,round=MODE". */
static bool read_rounding(const char *mode, limber_contract *k)
{
    static const char *const modes[] = { [LIMBER_ROUND_NEAREST] = "nearest",
                                         [LIMBER_ROUND_ZERO] = "zero",
                                         [LIMBER_ROUND_UP] = "up",
                                         [LIMBER_ROUND_DOWN] = "down",
                                         [LIMBER_ROUND_AWAY] = "away" };

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(mode, modes[i])) {
            k->rounding = (limber_rounding)i;
            return true;
        }
    return false;
}

/* Parses a contract, such as "bits=40", other than `simulate`.  Returns false if the text is
 * none. */
bool contract_of(const char *words, limber_contract *k)
{
    int i = index_of(contract_word, words);
    const char *number;
    char *end;
    long bits;

    if (i < 0 || contracts[i].promise == LIMBER_CONTRACT_SIMULATE)
        return false;
    k->promise = contracts[i].promise;
    number = strchr(words, '=');
    if (!number)
        return !strchr(contracts[i].name, '=');
    if (k->promise == LIMBER_CONTRACT_EXACT)
        return read_modulus(number + 1, k);
    if (k->promise == LIMBER_CONTRACT_CORRECT)
        return read_rounding(number + 1, k);
    if (k->promise != LIMBER_CONTRACT_BITS)
        return true;
    bits = strtol(number + 1, &end, 10);
    k->bits = (int)bits;
    return end != number + 1 && *end == 0 && bits >= 1 && bits <= 160;
}

const char *word_with_prefix(const struct word_kind *kind, const char *text, int i)
{
    const size_t n = strlen(text);
    const char *word;

    for (int at = 0; n > 1 && (word = kind->at(at)); at++)
        if (!strncmp(word, text, n) && word[n] &&
            (ispunct((unsigned char)word[n]) || isdigit((unsigned char)word[n])) && i-- == 0)
            return word;
    return NULL;
}

/* ---- similar words --------------------------------------------------------------------------- */

/* LONGEST: largest length of words to compare.  MOST_NEAR: largest number of suggestions. */
enum { LONGEST = 40, MOST_NEAR = 4 };

/* Returns the Damerau-Levenshtein distance, ignoring case: number of insertions, deletions,
 * replacements and transpositions. */
static int edit_distance(const char *a, const char *b)
{
    int row[3][LONGEST + 1], n = (int)strlen(a), m = (int)strlen(b);

    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];

        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            int best = last[j - 1] + (x != y);

            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

/* The known words that are nearest to a misspelt one, with their distances. */
struct near {
    const char *word[MOST_NEAR];
    int edits[MOST_NEAR], n;
};

/* Inserts a word into the sorted list of nearest words.  Of equally near words, the one that was
 * considered first is first. */
static void consider_word(struct near *near, const char *text, const char *word)
{
    int length = (int)strlen(text), edits = edit_distance(text, word), at;

    if (length > 2 && strncasecmp(word, text, (size_t)length) == 0)
        edits = 1; /* counts as one edit, since the word begins with the text */
    if (edits > (length < 4 ? 1 : length < 9 ? 2 : length / 3))
        return;
    for (int i = 0; i < near->n; i++)
        if (!strcmp(near->word[i], word))
            return;
    if (near->n == MOST_NEAR && edits >= near->edits[MOST_NEAR - 1])
        return;
    at = near->n < MOST_NEAR ? near->n++ : MOST_NEAR - 1;
    for (; at > 0 && near->edits[at - 1] > edits; at--) {
        near->edits[at] = near->edits[at - 1];
        near->word[at] = near->word[at - 1];
    }
    near->edits[at] = edits;
    near->word[at] = word;
}

/* Returns "; near: A, B" for the words of a kind, or of all kinds, that resemble the text; "" if
 * there are none. */
const char *words_near(const struct word_kind *kind, const char *words)
{
    char text[LONGEST + 2]; /* one character more than the longest word that can be near */
    static char list[MOST_NEAR * (LONGEST + 2) + 16];
    struct near near = { .n = 0 };
    size_t used = 0;
    const char *word;

    snprintf(text, sizeof text, "%.*s", kind ? (int)strcspn(words, " ") : LONGEST + 1, words);
    for (int k = 0; k < KINDS; k++) {
        if (kind && kind != &kinds[k])
            continue;
        for (int i = 0; (word = kinds[k].at(i)); i++)
            consider_word(&near, text, word);
        if (kinds[k].at != limber_format_at)
            continue;
#define CONSIDER(NAME, name) consider_word(&near, text, name);
        LIMBER_FORMAT_NAMES(CONSIDER)
#undef CONSIDER
    }
    list[0] = 0;
    for (int i = 0; i < near.n; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 i ? ", " : "; near: ", near.word[i]);
    return list;
}
