"""An action's definition as its owner writes it: `operations.d/NAME.toml`, checked as strictly as the settings.

summary = "show the last lines of a service's log"
argv = ["/usr/bin/journalctl", "--unit={unit}", "--lines={lines}"]
idempotent = true        # doing it twice is as good as once: it may be repeated after a crash
seconds = 30             # 60 without it
memory_mib = 64          # 256
output_kib = 16          # 64
input = "{name}\\n"       # what the program reads from its standard input, the one place of secret arguments

[arguments.unit]
choice = ["grafana.service", "telegraf.service"]

[arguments.lines]
integer = [1, 1000]

[arguments.name]         # text: at most so many characters, out of these; `dash = true` lets it begin with -
text = 32
characters = "abcdefghijklmnopqrstuvwxyz-"

The first word is a program's whole path; or `covey`, this Covey's own command line; or `agent`, followed by what the
agent itself is to do. `ends = "agent"` (or "machine") says that doing it ends the agent (or the machine).

[installer]              # what it installs stays only where it proves good (`core/actions/installing.py`)
trial_seconds = 600      # so long it has for that; 600 without it
when = ["covey", "installer", "when", "--hours=22:00-05:00"]      # says whether this is the moment; any without it

[unit]                   # where systemd runs it in a unit of its own: what that has beyond a user who may write nothing
user = "root"
groups = ["systemd-journal"]
writes = ["/var/lib/pump"]
devices = ["/dev/ttyUSB0"]
capabilities = ["CAP_SYS_TIME"]
network = true
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from covey.config.settings import nearest
from covey.core.actions.definition import (
    INSTALLER_ARGUMENTS,
    PLACEHOLDER,
    ActionDefinition,
    Choice,
    Ends,
    Integer,
    LimitedText,
    ProgramBounds,
    Shape,
    UnitRights,
)
from covey.errors import ConfigurationError
from covey.limits.actions import (
    MAXIMUM_ACTION_INPUT_BYTES,
    MAXIMUM_ACTION_MIB,
    MAXIMUM_ACTION_OUTPUT_BYTES,
    MAXIMUM_ACTION_SECONDS,
    MAXIMUM_ACTION_SUMMARY_BYTES,
    MAXIMUM_ACTION_WORDS,
    MAXIMUM_ARGUMENT_CHOICES,
    MAXIMUM_TRIAL_SECONDS,
    MAXIMUM_UNIT_RIGHTS,
)
from covey.limits.message import MAXIMUM_COUNTER
from covey.limits.orders import (
    MAXIMUM_ACTION_BYTES,
    MAXIMUM_ARGUMENT_BYTES,
    MAXIMUM_ARGUMENT_NAME_BYTES,
    MAXIMUM_ARGUMENTS,
)
from covey.limits.units import KIB, MIB

COVEY = "covey"
AGENT = "agent"

_KEYS = (
    *("summary", "argv", "input", "idempotent", "ends", "seconds", "memory_mib", "output_kib", "arguments"),
    *("installer", "unit"),
)
_INSTALLER = ("trial_seconds", "when")
_SHAPES = ("integer", "choice", "text", "characters", "dash")
_RIGHTS = ("user", "groups", "writes", "devices", "capabilities", "network")
_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_.@:+-]{1,255}){1,32}")
_DEVICE = re.compile(r"/dev(/[A-Za-z0-9_@:+-][A-Za-z0-9_.@:+-]{0,254}){1,8}")
_CAPABILITY = re.compile(r"CAP_[A-Z_]{1,32}")
_HINT = "docs/how-to/orders.md shows a whole definition"


def read_action(name: str, text: str, where: str) -> ActionDefinition:
    """Read a definition; `where` says whose mistake it is.

    Raises:
        ConfigurationError: not TOML, an unknown or missing key, or a value that is none of its.
    """
    import tomllib

    _check_name(name, MAXIMUM_ACTION_BYTES, where)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    _check_keys(content, _KEYS, where)
    summary = _take(content, "summary", where, _is_summary, "a line of text")
    argv = _take(content, "argv", where, _is_command_line, "a list of words, the first one a program's whole path")
    idempotent = _take(content, "idempotent", where, lambda value: type(value) is bool, "true or false", default=False)
    ends = _take(
        content, "ends", where, lambda value: value in ("", "agent", "machine"), "agent or machine", default=""
    )
    trial_us, when = _installer(content, where)
    arguments = _arguments(content.get("arguments", {}), where)
    stdin = _take(content, "input", where, _is_input, f"a text of at most {MAXIMUM_ACTION_INPUT_BYTES:,} bytes", "")
    if stdin and argv[0] in {AGENT, COVEY}:
        raise ConfigurationError(
            f"{where}: {argv[0]} cannot read input", hint="use your own program, with its absolute path"
        )
    used = {found for word in (*argv, stdin) for found in PLACEHOLDER.findall(word)}
    if used != {*arguments}:
        odd = min(used ^ {*arguments})
        what = "is an argument that argv and input do not use" if odd in arguments else "is not an argument"
        raise ConfigurationError(f"{where}: {{{odd}}} {what}", hint=_HINT)
    most_kib = MAXIMUM_ACTION_OUTPUT_BYTES // KIB
    bounds = ProgramBounds(
        _whole(content, "seconds", where, 60, MAXIMUM_ACTION_SECONDS) * 1_000_000,
        _whole(content, "memory_mib", where, 256, MAXIMUM_ACTION_MIB) * MIB,
        _whole(content, "output_kib", where, most_kib, most_kib) * KIB,
    )
    rights = _rights(content.get("unit", {}), f"{where}: [unit]")
    if trial_us is not None:
        arguments = dict(INSTALLER_ARGUMENTS)
    return ActionDefinition(
        name, summary, tuple(argv), arguments, idempotent, Ends(ends), bounds, rights, stdin, trial_us, when
    )


def _installer(content: Mapping[str, Any], where: str) -> tuple[int | None, tuple[str, ...]]:
    """Return an installer's time on trial and its program `when`; None and () for other actions."""
    if "installer" not in content:
        return None, ()
    table = content["installer"]
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: [installer] must be a table", hint=_HINT)
    _check_keys(table, _INSTALLER, f"{where}: [installer]")
    for key in ("arguments", "idempotent", "input", "unit"):
        if key in content:
            raise ConfigurationError(f"{where}: an installer must not set {key}")
    where = f"{where}: [installer]"
    trial_us = _whole(table, "trial_seconds", where, 600, MAXIMUM_TRIAL_SECONDS) * 1_000_000
    return trial_us, tuple(_take(table, "when", where, _is_when, "a list of words, the first one a program's path", []))


def _rights(content: object, where: str) -> UnitRights:
    if not isinstance(content, dict):
        raise ConfigurationError(f"{where} must be a table", hint=_HINT)
    _check_keys(content, _RIGHTS, where)

    def some(key: str, shape: re.Pattern[str], what: str) -> tuple[str, ...]:
        def fits(value: object) -> bool:
            return isinstance(value, list) and len(value) <= MAXIMUM_UNIT_RIGHTS and all(map(is_one, value))

        def is_one(value: object) -> bool:
            return isinstance(value, str) and shape.fullmatch(value) is not None

        return tuple(_take(content, key, where, fits, f"a list of at most {MAXIMUM_UNIT_RIGHTS} {what}", default=[]))

    return UnitRights(
        _take(content, "user", where, lambda value: value == "" or _is_account(value), "a user's name", default=""),
        some("groups", _ACCOUNT, "groups"),
        some("writes", _PATH, "whole paths"),
        some("devices", _DEVICE, "paths in /dev"),
        some("capabilities", _CAPABILITY, "names like CAP_SYS_TIME"),
        _take(content, "network", where, lambda value: type(value) is bool, "true or false", default=False),
    )


def _is_account(value: object) -> bool:
    return isinstance(value, str) and _ACCOUNT.fullmatch(value) is not None


def is_action_name(name: str) -> bool:
    """Say whether an action may be called so."""
    return bool(_NAME.fullmatch(name)) and len(name) <= MAXIMUM_ACTION_BYTES


def _check_name(name: str, maximum: int, where: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > maximum:
        raise ConfigurationError(
            f"{where}: a name must be at most {maximum} lower-case letters and digits, with _ and - between them"
        )


def _check_keys(content: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in content:
        if key not in known:
            near = nearest(key, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise ConfigurationError(f"{where}: {key} is unknown", hint=hint)


def _take(
    content: Mapping[str, Any], key: str, where: str, fits: Callable[[Any], bool], what: str, default: object = None
) -> Any:
    value = content.get(key, default)
    if not fits(value):
        raise ConfigurationError(f"{where}: {key} must be {what}", hint=_HINT)
    return value


def _whole(content: Mapping[str, Any], key: str, where: str, default: int, high: int) -> int:
    what = f"a whole number between 1 and {high}"
    found: int = _take(content, key, where, lambda value: type(value) is int and 1 <= value <= high, what, default)
    return found


def _is_summary(value: object) -> bool:
    return type(value) is str and value.isprintable() and 0 < len(value.encode()) <= MAXIMUM_ACTION_SUMMARY_BYTES


def _is_input(value: object) -> bool:
    if type(value) is not str or len(value.encode()) > MAXIMUM_ACTION_INPUT_BYTES:
        return False
    return all(each.isprintable() or each in "\t\r\n" for each in value)


def _is_command_line(value: object) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= MAXIMUM_ACTION_WORDS or not _are_texts(value):
        return False
    if PLACEHOLDER.search(value[0]):
        return False
    return value[0].startswith("/") or value[0] == COVEY or (value[0] == AGENT and len(value) > 1)


def _is_when(value: object) -> bool:
    return value == [] or (_is_command_line(value) and isinstance(value, list) and value[0] != AGENT)


def _are_texts(values: list[Any]) -> bool:
    return all(
        type(each) is str and each.isprintable() and len(each.encode()) <= MAXIMUM_ARGUMENT_BYTES for each in values
    )


def _arguments(content: object, where: str) -> dict[str, Shape]:
    if not isinstance(content, dict) or not all(isinstance(each, dict) for each in content.values()):
        raise ConfigurationError(f"{where}: arguments must be tables, [arguments.NAME]", hint=_HINT)
    if len(content) > MAXIMUM_ARGUMENTS:
        raise ConfigurationError(f"{where}: more than {MAXIMUM_ARGUMENTS} arguments")
    for name in content:
        _check_name(name, MAXIMUM_ARGUMENT_NAME_BYTES, f"{where}: [arguments.{name}]")
    return {name: _shape(about, f"{where}: [arguments.{name}]") for name, about in content.items()}


def _shape(about: Mapping[str, Any], where: str) -> Shape:
    _check_keys(about, _SHAPES, where)
    match about:
        case {"integer": [low, high], **rest} if not rest and type(low) is type(high) is int:
            if -MAXIMUM_COUNTER <= low <= high <= MAXIMUM_COUNTER:
                return Integer(low, high)
        case {"choice": list(values), **rest} if not rest and 0 < len(values) <= MAXIMUM_ARGUMENT_CHOICES:
            if _are_texts(values):
                return Choice(tuple(values))
        case {"text": int(maximum), "characters": str(characters), **rest} if rest in ({}, {"dash": rest.get("dash")}):
            dash = rest.get("dash", False)
            fits = type(maximum) is int and 1 <= maximum <= MAXIMUM_ARGUMENT_BYTES and type(dash) is bool
            if fits and 0 < len(characters) <= MAXIMUM_ARGUMENT_CHOICES and characters.isprintable():
                return LimitedText(maximum, characters, dash)
    raise ConfigurationError(f"{where}: integer = [low, high], or choice, or text with characters", hint=_HINT)
