/* SPDX-License-Identifier: BSD-3-Clause
 * The command `limber completion` prints scripts with which shells complete words.  They are made
 * from the tables of commands and options. */
#include "tools/cli/commands.h"

#include <popt.h>
#include <string.h>

/* Functions that write the completion script for one shell. */
struct shell {
    const char *name;
    void (*begin)(void);
    /* writes what precedes the options of the command */
    void (*command)(const struct command *c, const char *part);
    void (*option)(const struct poptOption *o);
    void (*end_command)(void);
    void (*end)(void);
};

static bool has_value(const struct poptOption *o)
{
    return (o->argInfo & POPT_ARG_MASK) != POPT_ARG_NONE;
}

/* True for a letter.  Only bash completes short options that are not letters, such as popt's -?. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* True if an argument names a file or folder: FILE, FILE.svg, FOLDER. */
static bool is_file(const char *takes)
{
    return takes && (!strncmp(takes, "FILE", 4) || !strcmp(takes, "FOLDER"));
}

static const char *value_of(const struct poptOption *o)
{
    return has_value(o) && o->argDescrip ? o->argDescrip : "";
}

/* Calls item for each word of a choice such as "a|b", or of a kind of words such as FORMAT. */
static void each_word(const char *takes, void (*item)(const char *word))
{
    const struct word_kind *kind;
    const char *word, *end;

    for (; takes && *takes; takes = *end ? end + 1 : end) {
        size_t n = strcspn(takes, "|");
        char text[64];

        end = takes + n;
        if (n == 4 && !strncmp(takes, "WORD", 4)) {
            for (int k = 0; (kind = word_kind_at(k)); k++)
                for (int i = 0; (word = kind->at(i)); i++)
                    item(word);
        } else if ((kind = word_kind_taken(takes, n))) {
            for (int i = 0; (word = kind->at(i)); i++)
                item(word);
        } else if (n < sizeof text && strspn(takes, "abcdefghijklmnopqrstuvwxyz0123456789") == n) {
            snprintf(text, sizeof text, "%.*s", (int)n, takes);
            item(text);
        }
    }
}

/* True if one of the words of `takes`, which are separated by |, names a file. */
static bool takes_file(const char *takes)
{
    for (; takes && *takes; takes += strcspn(takes, "|"), takes += *takes == '|')
        if (is_file(takes))
            return true;
    return false;
}

/* True until a word of the list is printed. */
static bool first;

static void print_word(const char *word)
{
    printf("%s%s", first ? "" : " ", word);
    first = false;
}

static void print_words(const char *takes)
{
    first = true;
    each_word(takes, print_word);
}

/* ---- the script for bash --------------------------------------------------------------------- */

/* Bash's Readline splits words at =, so that "--as=f32" arrives as three words. */
static void bash_begin(void)
{
    printf("# bash: source <(limber completion bash)\n"
           "_limber() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command=${COMP_WORDS[1]} options= words= files= i\n"
           "    if [ \"$current\" = = ]; then\n"
           "        current=\n"
           "    elif [ \"$last\" = = ]; then\n"
           "        last=${COMP_WORDS[COMP_CWORD-2]}\n"
           "    fi\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"--help --version ");
    print_words("COMMAND");
    printf("\" -- \"$current\"))\n"
           "        return\n"
           "    fi\n"
           "    [ \"$COMP_CWORD\" -gt 2 ] && command=\"$command ${COMP_WORDS[2]}\"\n"
           "    case $command in\n");
}

/* Prints the case of bash's script that completes the value of an option, if it takes one. */
static void bash_option(const struct poptOption *o)
{
    const char *value = value_of(o);

    if (!has_value(o))
        return;
    printf("        ");
    if (o->longName)
        printf("--%s%s", o->longName, o->shortName ? "|" : "");
    if (o->shortName)
        printf("-%c", o->shortName);
    printf(") words=\"");
    print_words(value);
    printf("\" files=%s ;;\n", takes_file(value) ? "yes" : "no");
}

/* Prints an option's long name, for bash. */
static void bash_name(const struct poptOption *o)
{
    char text[64];

    snprintf(text, sizeof text, "--%s", o->longName ? o->longName : "");
    if (o->longName)
        print_word(text);
    snprintf(text, sizeof text, "-%c", o->shortName);
    if (o->shortName)
        print_word(text);
}

/* Calls a function for each option of a table, and of the tables that it includes. */
static void each_option(void *user, const struct poptOption *table)
{
    void (*option)(const struct poptOption *) = *(void (**)(const struct poptOption *))user;

    for (; table->longName || table->shortName || table->arg; table++) {
        if ((table->argInfo & POPT_ARG_MASK) == POPT_ARG_INCLUDE_TABLE)
            each_option(user, table->arg);
        else if ((table->longName || table->shortName) &&
                 !(table->argInfo & POPT_ARGFLAG_DOC_HIDDEN))
            option(table);
    }
}

static void visit_options(const struct command *c, const char *part,
                          void (*option)(const struct poptOption *))
{
    command_options(c, part, each_option, &option);
}

/* Prints what bash completes after a command, or after its word `part`. */
static void bash_command(const struct command *c, const char *part)
{
    printf("    \"%s%s%s\"%s)\n        options=\"", c->name, part ? " " : "", part ? part : "",
           part ? "" : "*");
    first = true;
    visit_options(c, part, bash_name);
    printf("\"\n        words=\"");
    print_words(part ? "FILE" : c->takes);
    printf("\" files=%s\n        case $last in\n",
           takes_file(part ? "FILE" : c->takes) ? "yes" : "no");
}

static void bash_end_command(void)
{
    printf("        esac ;;\n");
}

/* Prints the end of bash's script, which completes from `options`, `words` or file names. */
static void bash_end(void)
{
    printf("    esac\n"
           "    case $current in\n"
           "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$current\")) ;;\n"
           "    *)\n"
           "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "        if [ \"$files\" = yes ]; then\n"
           "            while IFS= read -r i; do\n"
           "                COMPREPLY+=(\"$i\")\n"
           "            done < <(compgen -f -- \"$current\")\n"
           "            compopt -o filenames 2> /dev/null\n"
           "        fi ;;\n"
           "    esac\n"
           "}\n"
           "complete -F _limber limber\n");
}

/* ---- the script for zsh ---------------------------------------------------------------------- */

/* Prints the text inside single quotes, with zsh's special characters escaped. */
static void print_quoted(const char *s, const char *escaped)
{
    for (; *s; s++) {
        if (*s == '\'')
            printf("'\\'");
        else if (strchr(escaped, *s))
            putchar('\\');
        putchar(*s);
    }
}

/* Prints the head of zsh's completion script: the list of commands. */
static void zsh_begin(void)
{
    const struct command *c;

    printf("#compdef limber\n"
           "# zsh: limber completion zsh > FOLDER/_limber, for a FOLDER of fpath; or\n"
           "# source <(limber completion zsh)\n"
           "_limber() {\n"
           "    local -a commands\n"
           "    commands=(\n");
    for (int i = 0; (c = command_at(i)); i++) {
        printf("        '%s:", c->name);
        print_quoted(c->about, ":\\");
        printf("'\n");
    }
    printf("    )\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe command commands\n"
           "        return\n"
           "    fi\n"
           "    local command=$words[2]\n"
           "    (( CURRENT > 3 )) && command=\"$command $words[3]\"\n"
           "    shift words\n"
           "    (( CURRENT-- ))\n"
           "    case $command in\n");
}

/* Prints what zsh completes for a value: file names, or the words that `takes` lists. */
static void zsh_values(const char *takes)
{
    bool files = takes_file(takes);

    printf(":%s:", *takes ? "value" : "");
    if (files && !strchr(takes, '|'))
        printf("_files");
    else {
        printf("(");
        print_words(takes);
        printf(")");
    }
}

/* Prints an option for zsh: its long and its short form, each with description and values. */
static void zsh_option(const struct poptOption *o)
{
    for (int form = 0; form < 2; form++) {
        if (form ? !is_letter(o->shortName) : !o->longName)
            continue;
        printf(" \\\n            '");
        if (form)
            printf("-%c", o->shortName);
        else
            printf("--%s%s", o->longName, has_value(o) ? "=" : "");
        printf("[");
        print_quoted(o->descrip ? o->descrip : "", "[]:\\");
        printf("]");
        if (has_value(o))
            zsh_values(value_of(o));
        printf("'");
    }
}

/* Prints what zsh completes after a command, or after its word `part`. */
static void zsh_command(const struct command *c, const char *part)
{
    const char *takes = part ? "FILE" : c->takes;

    printf("    \"%s%s%s\"%s)\n        _arguments", c->name, part ? " " : "", part ? part : "",
           part ? "" : "*");
    if (takes) {
        printf(" '*:word:");
        if (takes_file(takes) && !strchr(takes, '|'))
            printf("_files");
        else if (takes_file(takes)) {
            printf("{ compadd ");
            print_words(takes);
            printf("; _files }");
        } else {
            printf("(");
            print_words(takes);
            printf(")");
        }
        printf("'");
    }
}

static void zsh_end_command(void)
{
    printf(" ;;\n");
}

static void zsh_end(void)
{
    printf("    esac\n"
           "}\n"
           "if [[ $funcstack[1] = _limber ]]; then\n"
           "    _limber \"$@\"\n"
           "else\n"
           "    compdef _limber limber\n"
           "fi\n");
}

/* ---- the script for fish --------------------------------------------------------------------- */

/* The condition under which fish offers what is printed next. */
static char fish_when[128];

static void fish_begin(void)
{
    const struct command *c;

    printf("# fish: limber completion fish > ~/.config/fish/completions/limber.fish\n"
           "complete -c limber -f\n");
    for (int i = 0; (c = command_at(i)); i++) {
        printf("complete -c limber -n __fish_use_subcommand -a %s -d '", c->name);
        print_quoted(c->about, "\\");
        printf("'\n");
    }
}

/* Prints an option for fish as one `complete` command. */
static void fish_option(const struct poptOption *o)
{
    const char *value = value_of(o);

    printf("complete -c limber -n '%s'", fish_when);
    if (o->longName)
        printf(" -l %s", o->longName);
    if (is_letter(o->shortName))
        printf(" -s %c", o->shortName);
    if (has_value(o) && takes_file(value)) {
        printf(" -r -F");
    } else if (has_value(o)) {
        printf(" -x -a '");
        print_words(value);
        printf("'");
    }
    printf(" -d '");
    print_quoted(o->descrip ? o->descrip : "", "\\");
    printf("'\n");
}

/* Prints what fish completes after a command, or after its word `part`. */
static void fish_command(const struct command *c, const char *part)
{
    const char *takes = part ? "FILE" : c->takes;

    snprintf(fish_when, sizeof fish_when, "__fish_seen_subcommand_from %s%s%s", c->name,
             part ? "; and __fish_seen_subcommand_from " : "", part ? part : "");
    if (!takes)
        return;
    printf("complete -c limber -n '%s'%s -a '", fish_when, takes_file(takes) ? " -F" : "");
    print_words(takes);
    printf("'\n");
}

static void do_nothing(void)
{
}

/* ---- the command ----------------------------------------------------------------------------- */

static const struct shell shells[] = {
    { "bash", bash_begin, bash_command, bash_option, bash_end_command, bash_end },
    { "zsh", zsh_begin, zsh_command, zsh_option, zsh_end_command, zsh_end },
    { "fish", fish_begin, fish_command, fish_option, do_nothing, do_nothing },
};

static void print_command(const struct shell *s, const struct command *c, const char *part)
{
    s->command(c, part);
    visit_options(c, part, s->option);
    s->end_command();
}

/* The shell and the command whose options are printed. */
static const struct shell *shell_now;
static const struct command *command_now;

static void print_part(const char *part)
{
    print_command(shell_now, command_now, part);
}

/* Prints the completion script of a shell: all commands, each with its parts and options. */
static void print_script(const struct shell *s)
{
    const struct command *c;

    s->begin();
    for (int i = 0; (c = command_at(i)); i++) {
        if (c->parts) {
            shell_now = s;
            command_now = c;
            each_word(c->takes, print_part);
        }
        print_command(s, c, NULL);
    }
    s->end();
}

/* The command `limber completion`: prints the completion script for a shell. */
int cmd_completion(int argc, const char **argv)
{
    struct poptOption table[] = { POPT_AUTOHELP POPT_TABLEEND };
    poptContext o = options_open(argc, argv, table);
    const char *name;
    int status = 2;

    if (options_read(o, "bash|zsh|fish\n\nPrints a script that completes commands, options and "
                        "their words.\n\nexample: source <(limber completion bash)")) {
        name = poptGetArg(o);
        for (size_t i = 0; name && i < sizeof shells / sizeof *shells; i++)
            if (!strcmp(name, shells[i].name)) {
                print_script(&shells[i]);
                status = 0;
            }
        if (status)
            complain(name ? "completion: \"%s\" is none of bash, zsh, fish" :
                            "completion takes bash, zsh or fish",
                     name);
    }
    poptFreeContext(o);
    return status;
}
