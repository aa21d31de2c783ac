/* SPDX-License-Identifier: MIT */
/*
 * Completion for bash and zsh, printed from the tables of the commands by the hidden
 * `holdfast help --complete SHELL`; the build captures and installs both.
 *
 * A script is a fixed frame around one `case` per command. The name of an option's
 * value selects what is offered: "URL" the stores of this build, "FILE" files,
 * "kill|warn" these words, any other name nothing. The store is asked for names of
 * locks. Other users choose these names, so the frames never let a shell expand one.
 */
#include "help.h"

#include <ctype.h>
#include <string.h>

static bool has_arg(const struct option *option)
{
    return option->type != OPT_FLAG;
}

/* Calls `each` for the options of a command that are not hidden. */
static void for_options(const struct command *command,
                        void (*each)(const struct option *, FILE *), FILE *out)
{
    const struct option *lists[] = { command->options, cli_common_options };

    for (size_t i = 0; i < 2; i++) {
        for (const struct option *o = lists[i]; o && o->name; o++) {
            if (o->help)
                each(o, out);
        }
    }
}

/* The type of the operands of a command: "names", "commands", "urls" or "". */
static const char *operand_type(const struct command *command)
{
    const char *operands = command->operands ? command->operands : "";

    if (strstr(operands, "NAME") || strstr(operands, "PREFIX"))
        return "names";
    if (strstr(operands, "URL"))
        return "urls";
    return strcmp(command->name, "help") == 0 ? "commands" : "";
}

/* ---- Words ----------------------------------------------------------------------- */

/* Prints the first words of all commands, each once; or, with `family`, the second
 * words of the commands that begin with it. */
static void put_words(const char *family, size_t family_len, FILE *out)
{
    const char *before = "", *space = "";
    size_t before_len = 0;

    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->name;
        size_t len = strcspn(name, " ");

        if (family && len == family_len && strncmp(name, family, len) == 0)
            fprintf(out, "%s%s", space, name + len + 1);
        else if (!family && (len != before_len || strncmp(name, before, len) != 0))
            fprintf(out, "%s%.*s", space, (int)len, name);
        else
            continue;
        space = " ";
        before = name;
        before_len = len;
    }
}

/* Calls `each` for the first word of every family of commands ("latch"), once. */
static void for_families(void (*each)(const char *, size_t, FILE *), FILE *out)
{
    const char *before = "";

    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->name, *space = strchr(name, ' ');
        size_t len = space ? (size_t)(space - name) : 0;

        if (!space || (strncmp(name, before, len) == 0 && before[len] == ' '))
            continue;
        each(name, len, out);
        before = name;
    }
}

/* The beginnings of URLs of the stores of this build; `escape` is put before colons. */
static void put_urls(const char *escape, FILE *out)
{
    const char *space = "";

    for (const char *store = hf_stores(); *store;) {
        size_t len = strcspn(store, " ");
        bool local =
            strncmp(store, "file", len) == 0 || strncmp(store, "mem", len) == 0;

        fprintf(out, "%s%.*s%s:%s", space, (int)len, store, escape, local ? "" : "//");
        space = " ";
        store += len + (store[len] == ' ');
    }
}

/* What may be offered as the value of an option: "urls", "files", "words a b" or
 * "nothing". The words are the fixed ones of "kill|warn|exec:CMD". */
static void put_value_type(const struct option *option, FILE *out)
{
    const char *arg = option->arg ? option->arg : "";

    if (strcmp(arg, "URL") == 0) {
        fputs("urls", out);
    } else if (strcmp(arg, "FILE") == 0 || strcmp(arg, "PATH") == 0) {
        fputs("files", out);
    } else if (strchr(arg, '|') && islower((unsigned char)*arg)) {
        fputs("words", out);
        for (const char *word = arg; *word;) {
            size_t len = strcspn(word, "|"), lower = 0;

            while (lower < len && !isupper((unsigned char)word[lower]))
                lower++;
            fprintf(out, " %.*s", (int)lower, word);
            word += len + (word[len] == '|');
        }
    } else if (option->type == OPT_FOREVER) {
        fputs("words forever", out);
    } else {
        fputs("nothing", out);
    }
}

/* ---- bash ------------------------------------------------------------------------ */

static const char bash_head[] =
    "# bash completion of holdfast. Made by `holdfast help --complete bash`.\n"
    "\n"
    "# Offers the words that begin with $cur. Not compgen -W: it would expand them.\n"
    "_holdfast_offer()\n"
    "{\n"
    "    local word\n"
    "    for word in \"$@\"; do\n"
    "        [[ $word == \"$cur\"* ]] && COMPREPLY+=(\"$(printf %q \"$word\")\")\n"
    "    done\n"
    "}\n"
    "\n"
    "# Names may hold colons, where readline breaks words: it wants what follows "
    "them.\n"
    "_holdfast_names()\n"
    "{\n"
    "    local line=${COMP_LINE:0:COMP_POINT} url=() names name old= before\n"
    "    [[ $line =~ \\ (--url[= ]|-u\\ ?)([^ ]+)\\  ]] &&\n"
    "        url=(--url \"${BASH_REMATCH[2]}\")\n"
    "    mapfile -t names < <(command holdfast ls \"${url[@]}\" 2>/dev/null |\n"
    "        tail -n +2 | cut -f 1)\n"
    "    cur=${line##*[[:space:]]}\n"
    "    for name in \"${names[@]}\"; do\n"
    "        [[ $name != \"$old\" ]] && _holdfast_offer \"$name\"\n"
    "        old=$name\n"
    "    done\n"
    "    before=${cur%\"${cur##*:}\"}\n"
    "    [[ $COMP_WORDBREAKS == *:* ]] && COMPREPLY=(\"${COMPREPLY[@]#\"$before\"}\")\n"
    "}\n"
    "\n"
    "# _holdfast_value SORT [WORD...]\n"
    "_holdfast_value()\n"
    "{\n"
    "    case $1 in\n"
    "    words) _holdfast_offer \"${@:2}\" ;;\n"
    "    names) _holdfast_names ;;\n"
    "    files) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n";

static const char bash_tail[] =
    "# The command line that `run` runs, from word $1 on.\n"
    "_holdfast_child()\n"
    "{\n"
    "    if declare -F _command_offset >/dev/null; then\n"
    "        _command_offset \"$1\"\n"
    "    elif ((COMP_CWORD == $1)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    fi\n"
    "}\n"
    "\n"
    "_holdfast()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local command=${COMP_WORDS[1]} begin=2 i second options operands child value\n"
    "    COMPREPLY=()\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        _holdfast_value commands\n"
    "        _holdfast_offer --help --version\n"
    "        return\n"
    "    fi\n"
    "    second=$(_holdfast_family \"$command\")\n"
    "    if [[ $second ]]; then\n"
    "        if ((COMP_CWORD == 2)); then\n"
    "            _holdfast_offer $second\n"
    "            return\n"
    "        fi\n"
    "        command+=\" ${COMP_WORDS[2]}\"\n"
    "        begin=3\n"
    "    fi\n"
    "    # --option=value comes as three words\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    _holdfast_command \"$command\" || return\n"
    "    for ((i = begin; i < COMP_CWORD; i++)); do\n"
    "        if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
    "            [[ $child ]] && _holdfast_child $((i + 1))\n"
    "            return\n"
    "        fi\n"
    "    done\n"
    "    if [[ $value ]]; then\n"
    "        _holdfast_value $value\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        _holdfast_offer $options\n"
    "        [[ $child ]] && _holdfast_offer --\n"
    "    else\n"
    "        _holdfast_value $operands\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _holdfast holdfast\n";

static void bash_family(const char *word, size_t len, FILE *out)
{
    fprintf(out, "    %.*s) echo '", (int)len, word);
    put_words(word, len, out);
    fputs("' ;;\n", out);
}

static void bash_option(const struct option *option, FILE *out)
{
    if (option->letter)
        fprintf(out, " -%c", option->letter);
    fprintf(out, " --%s", option->name);
}

static void bash_valued(const struct option *option, FILE *out)
{
    if (!has_arg(option))
        return;
    fputs("        ", out);
    if (option->letter)
        fprintf(out, "-%c | ", option->letter);
    fprintf(out, "--%s) value='", option->name);
    put_value_type(option, out);
    fputs("' ;;\n", out);
}

static void bash_command(const struct command *command, FILE *out)
{
    fprintf(out, "    '%s')\n        options='", command->name);
    for_options(command, bash_option, out);
    fprintf(out, "'\n        operands='%s' child='%s'\n", operand_type(command),
            command->takes_command ? "yes" : "");
    fputs("        case $prev in\n", out);
    for_options(command, bash_valued, out);
    fputs("        esac\n        ;;\n", out);
}

static void bash_print(FILE *out)
{
    fputs(bash_head, out);
    fputs("    commands) _holdfast_offer ", out);
    put_words(NULL, 0, out);
    fputs(" ;;\n    urls) _holdfast_offer ", out);
    put_urls("", out);
    fputs(" ;;\n    esac\n}\n\n_holdfast_family()\n{\n    case $1 in\n", out);
    for_families(bash_family, out);
    fputs("    esac\n}\n\n# What there is to say about $1, with $prev before the "
          "cursor.\n"
          "_holdfast_command()\n{\n    case $1 in\n",
          out);
    for (size_t i = 0; cli_commands[i]; i++)
        bash_command(cli_commands[i], out);
    fputs("    *) return 1 ;;\n    esac\n}\n\n", out);
    fputs(bash_tail, out);
}

/* ---- zsh ------------------------------------------------------------------------- */

static const char zsh_head[] =
    "#compdef holdfast\n"
    "# zsh completion of holdfast. Made by `holdfast help --complete zsh`.\n"
    "\n"
    "_holdfast_names()\n"
    "{\n"
    "    local -a url names\n"
    "    local i=${words[(I)(--url|-u)]}\n"
    "    ((i && i < CURRENT - 1)) && url=(--url ${(Q)words[i + 1]})\n"
    "    names=(${(fu)\"$(command holdfast ls $url 2>/dev/null | tail -n +2 | "
    "cut -f 1)\"})\n"
    "    compadd -a names\n"
    "}\n"
    "\n";

static const char zsh_body[] =
    "    local command=$words[2]\n"
    "    shift words\n"
    "    ((CURRENT--))\n"
    "    if [[ -n $families[$command] ]]; then\n"
    "        if ((CURRENT == 2)); then\n"
    "            compadd -- ${=families[$command]}\n"
    "            return\n"
    "        fi\n"
    "        command+=\" $words[2]\"\n"
    "        shift words\n"
    "        ((CURRENT--))\n"
    "    fi\n"
    "    local dashes=${words[(i)--]}\n"
    "    if [[ $command == ${~children} ]] && ((dashes < CURRENT)); then\n"
    "        shift dashes words\n"
    "        ((CURRENT -= dashes))\n"
    "        _normal\n"
    "        return\n"
    "    fi\n"
    "    case $command in\n";

/* Text inside '...' of a spec, where brackets and colons count. */
static void zsh_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            putc(*text, out);
    }
}

static void zsh_family(const char *word, size_t len, FILE *out)
{
    fprintf(out, " %.*s '", (int)len, word);
    put_words(word, len, out);
    putc('\'', out);
}

static void zsh_value(const struct option *option, FILE *out)
{
    char sort[256] = "";
    FILE *memory = fmemopen(sort, sizeof sort, "w");

    if (memory) {
        put_value_type(option, memory);
        fclose(memory);
    }
    putc(':', out);
    zsh_text(option->arg ? option->arg : "VALUE", out);
    if (strncmp(sort, "words ", 6) == 0) {
        fputs(":(", out);
        zsh_text(sort + 6, out);
        putc(')', out);
    } else if (strcmp(sort, "urls") == 0) {
        fputs(":(", out);
        put_urls("\\", out);
        putc(')', out);
    } else {
        fputs(strcmp(sort, "files") == 0 ? ":_files" : ": ", out);
    }
}

static void zsh_option(const struct option *option, FILE *out)
{
    const char *equals = has_arg(option) ? "=" : "";

    fputs(" \\\n            ", out);
    if (option->type == OPT_LIST)
        fputs("'*'", out);
    else if (option->letter)
        fprintf(out, "'(-%c --%s)'", option->letter, option->name);
    if (option->letter)
        fprintf(out, "{-%c%s,--%s%s}'[", option->letter, has_arg(option) ? "+" : "",
                option->name, equals);
    else
        fprintf(out, "'--%s%s[", option->name, equals);
    zsh_text(option->help, out);
    putc(']', out);
    if (has_arg(option))
        zsh_value(option, out);
    putc('\'', out);
}

static void zsh_command(const struct command *command, FILE *out)
{
    const char *sort = operand_type(command);

    fprintf(out, "    '%s')\n        _arguments -s -S :", command->name);
    for_options(command, zsh_option, out);
    fputs(" \\\n            ", out);
    if (strcmp(sort, "names") == 0) {
        fputs("'*:name:_holdfast_names'", out);
    } else if (strcmp(sort, "urls") == 0) {
        fputs("'*:url:(", out);
        put_urls("\\", out);
        fputs(")'", out);
    } else if (strcmp(sort, "commands") == 0) {
        fputs("'*:command:(", out);
        put_words(NULL, 0, out);
        fputs(")'", out);
    } else {
        fputs("'*: : '", out);
    }
    fputs("\n        ;;\n", out);
}

static void zsh_children(FILE *out)
{
    const char *bar = "";

    fputs("    local children='(", out);
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!cli_commands[i]->takes_command)
            continue;
        fprintf(out, "%s%s", bar, cli_commands[i]->name);
        bar = "|";
    }
    fputs(")'\n", out);
}

static void zsh_print(FILE *out)
{
    const char *before = "";

    fputs(zsh_head, out);
    fputs("_holdfast()\n{\n    local -A families\n    families=(", out);
    for_families(zsh_family, out);
    fputs(" )\n", out);
    zsh_children(out);
    fputs("    if ((CURRENT == 2)); then\n        local -a commands\n"
          "        commands=(\n",
          out);
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->name;
        size_t len = strcspn(name, " ");

        if (strncmp(name, before, len) == 0 && before[len] == ' ')
            continue;
        fprintf(out, "            '%.*s:", (int)len, name);
        if (name[len])
            put_words(name, len, out);
        else
            zsh_text(cli_commands[i]->summary, out);
        fputs("'\n", out);
        before = name;
    }
    fputs("        )\n        _describe command commands\n        return\n    fi\n",
          out);
    fputs(zsh_body, out);
    for (size_t i = 0; cli_commands[i]; i++)
        zsh_command(cli_commands[i], out);
    fputs("    esac\n}\n\n_holdfast \"$@\"\n", out);
}

int complete_print(const char *shell, FILE *out)
{
    if (strcmp(shell, "bash") == 0)
        bash_print(out);
    else if (strcmp(shell, "zsh") == 0)
        zsh_print(out);
    else
        return -1;
    return 0;
}
