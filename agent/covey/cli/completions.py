"""Completion scripts for bash, zsh and fish. They contain all words, so that TAB starts no Python.

Only names from this device's own state are asked for: actions, orders, groups, devices (`covey completion --words`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath

from covey.cli.command_tree import Argument, Command, Takes, commands
from covey.config.settings import settings

_PATHS = {Takes.FILE, Takes.FOLDER}
_ASKED = {Takes.ACTIONS, Takes.DEVICES, Takes.GROUPS, Takes.ORDERS, Takes.PLANS, Takes.RELEASES, Takes.WHOM}


def _before_the_action(known: Iterable[Command]) -> list[str]:
    """Return the options that take a value and may stand between a command and its action."""
    options = [option for each in known if each.actions for option in each.options]
    return sorted({name for each in options if each.takes is not Takes.NOTHING for name in each.names})


def _choices(argument: Argument) -> tuple[str, ...]:
    if argument.takes is Takes.ARGUMENT:
        return _argument_names()
    return tuple(settings()) if argument.takes is Takes.SETTING else argument.choices


def _argument_names() -> tuple[str, ...]:
    """Return the arguments of the built-in actions, as `--arg` takes them."""
    from covey.app import shipped_files
    from covey.config.actions import read_action

    shipped = [name for name in shipped_files.names() if name.startswith("operations.d/")]
    actions = [read_action(PurePath(name).stem, shipped_files.read(name), name) for name in shipped]
    return tuple(sorted({f"{argument}=" for action in actions for argument in action.arguments}))


def _asking(argument: Argument) -> str:
    """Return the command substitution, without its sign, that asks for an argument's words; empty if none is needed."""
    return f"(covey completion --words {argument.takes.value} 2>/dev/null)" if argument.takes in _ASKED else ""


def _leaves(known: Iterable[Command]) -> Iterable[tuple[str, Command]]:
    """Yield the COMMAND/ACTION that a shell found, as a pattern, and the arguments that apply there.

    Before an action these are the command's arguments; if the action is unknown, those of the default action.
    """
    for command in known:
        if not command.actions:
            yield f"{command.name}/*", command
            continue
        yield f"{command.name}/", command
        for action in command.actions:
            yield "|".join(f"{command.name}/{name}" for name in action.names), action
        if command.default:
            yield f"{command.name}/*", command.default


def _taken(command: Command) -> list[Argument]:
    """Return a command's arguments, including those of its default action."""
    default = command.default.arguments if command.default else ()
    names = {each.names for each in command.arguments if each.names}
    return [*command.arguments, *(each for each in default if each.names not in names)]


def _action_names(command: Command) -> list[str]:
    return [name for each in command.actions for name in each.names]


# -- bash -------------------------------------------------------------------------------------------------------------


def bash() -> str:
    """Return a script for bash 4 and later; it needs nothing of the bash-completion package."""
    known = commands()
    lines = [
        "# bash completion for covey",
        "_covey_words() {",
        '    if [[ $current != -* ]]; then covey completion --words "$1" 2>/dev/null; fi',
        "}",
        "_covey() {",
        "    local word command= action= skip= words= paths=",
        "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        "        if [[ $skip ]]; then skip=; continue; fi",
        "        case $word in",
        f"            {'|'.join(_before_the_action(known))}) skip=1;;",
        "            -*) ;;",
        "            *) if [[ $command ]]; then action=$word; break; else command=$word; fi;;",
        "        esac",
        "    done",
        "    COMPREPLY=()",
        "    case $command/$action in",
        f"        /) words='--help --version {' '.join(each.name for each in known)}';;",
    ]
    for pattern, command in _leaves(known):
        lines += _bash_leaf(pattern, command)
    lines += [
        "    esac",
        "    if [[ $current == -* ]]; then paths=; fi",
        '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
        "    if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi",
        "    if [[ $paths ]]; then",
        "        compopt -o filenames",
        '        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen "-$paths" -- "$current")',
        "    fi",
        "}",
        "complete -F _covey covey",
        "",
    ]
    return "\n".join(lines)


def _bash_leaf(pattern: str, command: Command) -> list[str]:
    taken = _taken(command)
    words = [name for each in taken for name in each.names if name.startswith("--")]
    words += [*_action_names(command), *(word for each in taken if not each.names for word in _choices(each))]
    paths = {each.takes for each in taken if not each.names} & _PATHS
    asked = "".join(_bash_asking(each) for each in taken if not each.names)
    shown = f"words='{' '.join(words)}'{asked} paths={_bash_paths(paths)}"
    values: dict[str, list[str]] = {}
    for option in taken:
        if option.names and option.takes is not Takes.NOTHING:
            value = f"words='{' '.join(_choices(option))}'{_bash_asking(option)} paths={_bash_paths({option.takes})}"
            values.setdefault(value, []).extend(option.names)
    return [
        f"        {pattern}) case $before in",
        *(f"            {'|'.join(names)}) {value};;" for value, names in values.items()),
        f"            *) {shown};;",
        "            esac;;",
    ]


def _bash_asking(argument: Argument) -> str:
    return f'" $(_covey_words {argument.takes.value})"' if argument.takes in _ASKED else ""


def _bash_paths(kinds: set[Takes]) -> str:
    return "f" if Takes.FILE in kinds else "d" if Takes.FOLDER in kinds else ""


# -- fish -------------------------------------------------------------------------------------------------------------

_FISH_AT = """\
function __covey_at --description 'whether the command line is at one of these COMMAND/ACTION'
    set -l command ''
    set -l action ''
    set -l skip ''
    for word in (commandline -opc)[2..]
        if test -n "$skip"
            set skip ''
            continue
        end
        switch $word
            case {values}
                set skip 1
            case '-*'
            case '*'
                if test -z "$command"
                    set command $word
                else
                    set action $word
                    break
                end
        end
    end
    for each in $argv
        string match -q -- $each "$command/$action"; and return 0
    end
    return 1
end
"""


def fish() -> str:
    """Return a script for fish 3 and later."""
    known = commands()
    lines = ["# fish completion for covey", _FISH_AT.replace("{values}", " ".join(_before_the_action(known)))]
    lines.append("complete -c covey -f")
    lines += [f"{_fish_at(['/'])} -a {each.name} -d {_quoted(each.summary)}" for each in known]
    lines.append(f"{_fish_at(['/'])} -l help -d 'show the options'")
    lines.append(f"{_fish_at(['/'])} -l version -d 'show the version'")
    for command in known:
        if not command.actions:
            lines += _fish_leaf(_fish_at([f"{command.name}/*"]), command)
            continue
        before = _fish_at([f"{command.name}/"])
        for action in command.actions:
            lines += [f"{before} -a {name} -d {_quoted(action.summary)}" for name in action.names]
            lines += _fish_leaf(_fish_at([f"{command.name}/{name}" for name in action.names]), action)
        lines += _fish_leaf(before, command)
        if command.default:
            named = [f"{command.name}/{name}" for name in _action_names(command)]
            beside = f"complete -c covey -n '__covey_at {_fish_words([f'{command.name}/*'])}"
            beside += f"; and not __covey_at {_fish_words([f'{command.name}/', *named])}'"
            lines += _fish_leaf(beside, command.default)
    return "\n".join(lines) + "\n"


def _fish_at(places: list[str]) -> str:
    return f"complete -c covey -n '__covey_at {_fish_words(places)}'"


def _fish_words(words: list[str]) -> str:
    return " ".join(word.replace("*", '"*"') for word in words)


def _fish_leaf(condition: str, command: Command) -> list[str]:
    lines = []
    for each in _taken(command):
        words = _quoted(" ".join(_choices(each)))
        if each.names:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in each.names)
            lines.append(f"{condition} {names}{_fish_value(each)} -d {_quoted(each.help)}")
            continue
        if _choices(each):
            lines.append(f"{condition} -a {words}")
        if found := _asking(each):
            lines.append(f"{condition} -a '{found}'")
        if each.takes in _PATHS:
            lines.append(f"{condition} -F")
    return lines


def _fish_value(option: Argument) -> str:
    if option.takes is Takes.NOTHING:
        return ""
    if words := _choices(option):
        return f" -x -a {_quoted(' '.join(words))}"
    if found := _asking(option):
        return f" -x -a '{found}'"
    return {Takes.FILE: " -r -F", Takes.FOLDER: " -x -a '(__fish_complete_directories)'"}.get(option.takes, " -x")


# -- zsh --------------------------------------------------------------------------------------------------------------


def zsh() -> str:
    """Return a script for zsh: a file `_covey` in `$fpath`, or to be sourced after compinit."""
    known = commands()
    lines = ["#compdef covey", "", "_covey() {", "    local context state state_descr line", "    typeset -A opt_args"]
    lines += _zsh_names("commands", known)
    lines += [
        "    if (( CURRENT == 2 )); then",
        "        _describe -t commands command commands",
        "        _arguments '--help[show the options]' '--version[show the version]'",
        "        return",
        "    fi",
        "    local command=$words[2]",
        "    shift words; (( CURRENT-- ))",
        "    case $command in",
    ]
    for each in known:
        lines.append(f"        {each.name})")
        lines += _zsh_actions(each) if each.actions else _zsh_arguments(each.arguments, "            ")
        lines.append("            ;;")
    lines += [
        "    esac",
        "}",
        "",
        'if [[ $funcstack[1] == _covey ]]; then _covey "$@"; else compdef _covey covey; fi',
        "",
    ]
    return "\n".join(lines)


def _zsh_names(name: str, known: Iterable[Command]) -> list[str]:
    words = [f"        {_quoted(f'{word}:{each.summary}')}" for each in known for word in each.names]
    return [f"    local -a {name}=(", *words, "    )"]


def _zsh_actions(command: Command) -> list[str]:
    """Return the code that completes an action and then its own arguments."""
    options = [_zsh_option(each) for each in _taken(command) if each.names]
    lines = [f"        {line}" for line in _zsh_names("actions", command.actions)]
    lines += [
        "            _arguments -C \\",
        *(f"                {one} \\" for one in options),
        "                ':action:->action' \\",
        "                '*::word:->word' && return",
        "            case $state in",
        "            action)",
        "                _describe -t actions action actions",
    ]
    if command.default and command.default.places:
        first = command.default.places[0]
        lines.append(f"                _alternative {_quoted(f'words:{first.shown}:{_zsh_value(first)}')}")
    lines += ["                ;;", "            word)", "                case $words[1] in"]
    for action in command.actions:
        lines.append(f"                {'|'.join(action.names)})")
        lines += [*_zsh_arguments(action.arguments, " " * 20), "                    ;;"]
    if command.default:
        # Its first word stands where an action would, so _arguments sees only those that follow.
        rest = [*command.default.options, *command.default.places[1:]]
        lines += ["                *)", *_zsh_arguments(rest, " " * 20), "                    ;;"]
    return [*lines, "                esac", "                ;;", "            esac"]


def _zsh_arguments(arguments: Iterable[Argument], indent: str) -> list[str]:
    given = list(arguments)
    specifications = [_zsh_option(each) for each in given if each.names]
    for each in given:
        if not each.names:
            many = "*" if each.many else ""
            specifications.append(f"'{many}:{each.shown}:{_zsh_value(each)}'")
    return [f"{indent}_arguments \\", *(f"{indent}    {one} \\" for one in specifications[:-1])] + [
        f"{indent}    {one}" for one in specifications[-1:]
    ]


def _zsh_option(option: Argument) -> str:
    # In a specification [ ] and : have a meaning.
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:").replace("'", "'\\''")
    value = "" if option.takes is Takes.NOTHING else f":{option.shown.replace(':', ' ')}:{_zsh_value(option)}"
    repeated = "*" if option.many else ""
    return " ".join(f"'{repeated}{name}[{text}]{value}'" for name in option.names)


def _zsh_value(argument: Argument) -> str:
    words = f"({' '.join(found)})" if (found := _choices(argument)) else ""
    if asking := _asking(argument):
        words = f"(${asking})"
    return words or {Takes.FILE: "_files", Takes.FOLDER: "_files -/"}.get(argument.takes, "")


SHELLS: dict[str, Callable[[], str]] = {"bash": bash, "fish": fish, "zsh": zsh}


def _quoted(text: str) -> str:
    """Quote for zsh; fish reads a quoted apostrophe the same way."""
    return "'" + text.replace("'", "'\\''") + "'"
