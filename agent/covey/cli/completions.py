"""Completion scripts for bash, zsh and fish. They hold all the words, so that a press of TAB starts no Python."""

from __future__ import annotations

from collections.abc import Callable

from covey.cli.command_tree import Argument, Command, Takes, commands
from covey.config.settings import settings


def bash() -> str:
    """Return a script for bash 4 and later; it needs nothing of the bash-completion package."""
    known = commands()
    files = _names(known, Takes.FILE)
    folders = _names(known, Takes.FOLDER)
    cases = [f"        {each.name}) words='{' '.join(_words(each))}' {_places(each)};;" for each in known]
    return "\n".join(
        [
            "# bash completion for covey",
            "_covey() {",
            "    local word command= words= places=",
            "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
            '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            "        [[ $word == -* ]] || { command=$word; break; }",
            "    done",
            "    COMPREPLY=()",
            "    case $before in",
            f"        {'|'.join(files)}) {_bash_paths('f')}; return;;",
            f"        {'|'.join(folders)}) {_bash_paths('d')}; return;;",
            f"        {_with_words(known)}) return;;",
            *_choices_of_options(known, _bash_choice),
            "    esac",
            "    case $command in",
            f"        '') words='--help --version {' '.join(each.name for each in known)}';;",
            *cases,
            "    esac",
            '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
            "    if [[ $places == file && $current != -* ]]; then",
            "        compopt -o filenames",
            '        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$current")',
            "    fi",
            "}",
            "complete -F _covey covey",
            "",
        ]
    )


def fish() -> str:
    """Return a script for fish 3 and later."""
    known = commands()
    lines = ["# fish completion for covey", "complete -c covey -f"]
    lines += [f"complete -c covey -n __fish_use_subcommand -a {each.name} -d {_quoted(each.summary)}" for each in known]
    lines.append("complete -c covey -n __fish_use_subcommand -l help -d 'show the options'")
    lines.append("complete -c covey -n __fish_use_subcommand -l version -d 'show the version'")
    for each in known:
        condition = f"complete -c covey -n '__fish_seen_subcommand_from {each.name}'"
        for option in each.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            lines.append(f"{condition} {names}{_fish_value(option)} -d {_quoted(option.help)}")
        for place in each.places:
            if words := _choices(place):
                lines.append(f"{condition} -a {_quoted(' '.join(words))}")
            if place.takes in {Takes.FILE, Takes.FOLDER}:
                lines.append(f"{condition} -F")
    return "\n".join(lines) + "\n"


def zsh() -> str:
    """Return a script for zsh: a file `_covey` in `$fpath`, or to be sourced after compinit."""
    known = commands()
    lines = ["#compdef covey", "", "_covey() {", "    local -a commands=("]
    lines += [f"        {_quoted(f'{each.name}:{each.summary}')}" for each in known]
    lines += [
        "    )",
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
        specifications = [_zsh_option(option) for option in each.options]
        specifications += [f"':{place.shown}:{_zsh_value(place)}'" for place in each.places]
        lines += [
            f"        {each.name}) _arguments \\",
            *(f"            {one} \\" for one in specifications),
            "            ;;",
        ]
    lines += [
        "    esac",
        "}",
        "",
        'if [[ $funcstack[1] == _covey ]]; then _covey "$@"; else compdef _covey covey; fi',
        "",
    ]
    return "\n".join(lines)


SHELLS: dict[str, Callable[[], str]] = {"bash": bash, "fish": fish, "zsh": zsh}


def _names(known: list[Command], takes: Takes) -> list[str]:
    return sorted({name for each in known for option in each.options if option.takes is takes for name in option.names})


def _with_words(known: list[Command]) -> str:
    """Return the options whose word nobody can guess."""
    options = [option for each in known for option in each.options if option.takes is Takes.WORD and not option.choices]
    return "|".join(sorted({name for option in options for name in option.names}))


def _choices_of_options(known: list[Command], write: Callable[[str, str], str]) -> list[str]:
    found = {
        name: " ".join(option.choices)
        for each in known
        for option in each.options
        if option.choices
        for name in option.names
    }
    return [write(name, words) for name, words in sorted(found.items())]


def _bash_paths(kind: str) -> str:
    return f'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -{kind} -- "$current")'


def _bash_choice(name: str, words: str) -> str:
    return f"        {name}) mapfile -t COMPREPLY < <(compgen -W '{words}' -- \"$current\"); return;;"


def _choices(argument: Argument) -> tuple[str, ...]:
    return tuple(settings()) if argument.key else argument.choices


def _words(command: Command) -> list[str]:
    options = [name for option in command.options for name in option.names if name.startswith("--")]
    return [*options, *(word for place in command.places for word in _choices(place))]


def _places(command: Command) -> str:
    return "places=file " if any(place.takes in {Takes.FILE, Takes.FOLDER} for place in command.places) else ""


def _fish_value(option: Argument) -> str:
    if option.takes is Takes.NOTHING:
        return ""
    if option.choices:
        return f" -x -a {_quoted(' '.join(option.choices))}"
    return {Takes.FILE: " -r -F", Takes.FOLDER: " -x -a '(__fish_complete_directories)'"}.get(option.takes, " -x")


def _zsh_option(option: Argument) -> str:
    # In a specification [ ] and : have a meaning.
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:").replace("'", "'\\''")
    value = "" if option.takes is Takes.NOTHING else f":{option.shown.replace(':', ' ')}:{_zsh_value(option)}"
    return " ".join(f"'{name}[{text}]{value}'" for name in option.names)


def _zsh_value(argument: Argument) -> str:
    words = f"({' '.join(found)})" if (found := _choices(argument)) else ""
    paths = {Takes.FILE: "_files", Takes.FOLDER: "_files -/"}.get(argument.takes, "")
    # A blank in front has zsh call it as it stands.
    return f' _alternative "words:word:{words}" "paths:path:{paths}"' if words and paths else words or paths


def _quoted(text: str) -> str:
    """Quote for zsh; fish reads a quoted apostrophe in the same way."""
    return "'" + text.replace("'", "'\\''") + "'"
