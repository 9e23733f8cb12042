"""The `covey` command. Subcommands live in modules of their own, loaded only when one is called."""

from __future__ import annotations

import covey.cli.lean_start  # noqa: F401 # isort: skip - before the others, because it changes how they are loaded

import argparse
import os
import sys
from functools import partial
from importlib import import_module
from typing import Any, TextIO

from covey.cli.grammar import Parser, state_options
from covey.errors import CoveyError, UsageError, hint_of_errno

_TOPICS = {
    "set up": {
        "init": ("init", "make this machine a device"),
        "relay": ("relay", "run a relay, or choose the relays that this device uses"),
        "hub": ("hub", "save what a second hub needs, or become that hub"),
        "broker": ("broker", "run a broker: enrol and remove devices, test its rules"),
        "link": ("link", "show what the link to the relays costs, or connect now"),
        "mailbox": ("mailbox", "store encrypted messages for devices that sleep"),
        "run": ("run", "run the agent: sensors, messages, orders"),
        "collect": ("collect", "run the agent as a collector that stores readings in a vault"),
        "config": ("config", "show, change or check this device's configuration"),
    },
    "members": {
        "invite": ("invite", "let a device join a group"),
        "join": ("join", "join a group with a code or an invite"),
        "group": ("group", "manage groups: members, admins, operators, bans"),
        "request": ("request", "accept or decline invitations to further groups"),
        "own": ("own", "keep your own devices in the same groups"),
        "key": ("key", "show keys and fingerprints, renew or seal them"),
    },
    "readings": {
        "sensor": ("sensor", "list the configured sensors, or try one"),
        "mcu": ("mcu", "find, flash, enrol and watch boards on serial ports"),
        "publish": ("publish", "publish readings from a file or stdin (SenML, NDJSON)"),
        "graph": ("graph", "draw what a device measured, in the terminal"),
        "vault": ("vault", "verify, mirror, share, thin or delete stored readings"),
        "tables": ("tables", "turn a vault into tables, and query them"),
        "door": ("door", "forward readings: webhook, Home Assistant, OTLP and others"),
        "prove": ("prove", "write a receipt that proves one reading to anyone"),
        "verify": ("verify", "verify a receipt with the device's key alone"),
    },
    "work together": {
        "setting": ("setting", "change a setting on many devices, and see the result"),
        "order": ("order", "run an action on many devices, and see the result"),
        "history": ("history", "read the group's history, or post a note"),
        "message": ("message", "send and receive messages, and list waiting ones"),
        "file": ("file", "offer files to a group, and fetch them"),
        "release": ("release", "install an update in waves; stop when devices fail"),
        "installer": ("installer", "run an installer that the owner defined, as the agent does"),
    },
    "watch": {
        "status": ("status", "show this device: health, relays, waiting messages, members"),
        "check": ("check", "find problems on this device, and say how to fix them"),
        "fleet": ("fleet", "show every device: online, last reading, waiting, lost"),
        "top": ("top", "watch this device live: rates, queues, members, boards"),
        "dashboard": ("dashboard", "serve the fleet as a web page"),
        "alert": ("alert", "notify people of problems: webhook, e-mail, program"),
        "metrics": ("metrics", "print metrics as OpenMetrics"),
        "support-bundle": ("support_bundle", "collect diagnostics without secrets"),
    },
    "for developers and packages": {
        "system-files": ("system_files", "print broker configurations, systemd units and udev rules"),
        "conformance": ("conformance", "test another implementation against the protocol"),
        "completion": ("completion", "print a completion script for a shell"),
        "serve-action": ("serve_action", "run one action for the agent (systemd starts it)"),
        "help": ("help", "explain a command, or list all commands"),
    },
}
"""Every command by what it is for: its module, and what it does."""

_EVERYDAY = (
    *("invite", "join", "status", "check", "fleet", "graph"),
    *("setting", "order", "history", "message", "file", "release"),
)
"""The commands that `covey --help` explains; it names the others of these topics, and leaves out the last topic."""

_ABOUT = "End-to-end encrypted sync and telemetry for fleets of small devices"

_RARE = {"installer"}
"""Commands that only programs call, though they belong to a topic of people."""

_COMMANDS = {name: command for topic in _TOPICS.values() for name, command in topic.items()}

EXIT_CODES = {
    0: "done",
    1: "failed",
    2: "wrong usage",
    3: "some devices allow no orders and did nothing (--wait)",
    78: "wrong configuration; restarting does not help",
    124: "the time to wait is over",
    130: "interrupted by Ctrl-C",
    141: "the reader closed the output, as with | head",
}
"""What each exit code means."""

_STATELESS = {"serve-action", "tables", "verify", "system-files", "conformance", "completion", "help"}
"""What needs no device."""

_OF_ROOT = {"join", "key seal", "relay serve", "collect", "broker", "installer", "mcu"}
"""What needs root's own rights: services, a broker's files, definitions, ports, systemd's
keys. The others are done as the owner."""

READER_GONE = 141
"""The exit code where nobody reads on (`| head`): 128 + SIGPIPE, as a shell says of other tools."""

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 + SIGINT, the same way."""


def full_parser() -> Parser:
    """Return the parser with every command's options."""
    return _parser(None, {*_COMMANDS})


def _parser(first: str | None, chosen: set[str]) -> Parser:
    """Build the parser with the options of the chosen commands only, so that no other command's module is loaded."""
    parser = Parser(
        prog="covey",
        usage="covey COMMAND ...",
        description=f"{_ABOUT}.",
    )
    parser.add_argument("--version", action="version", version=f"covey {_version(first)}", help="print the version")
    kind: Any = partial(_command_parser, chosen)
    commands = parser.add_subparsers(prog="covey", dest="command", metavar="COMMAND", required=True, parser_class=kind)
    for name, (module_name, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, summary=summary)
        if command is None:
            continue
        module = import_module(f"covey.cli.commands.{module_name}")
        if hasattr(module, "run"):
            command.set_defaults(act=module.run)
        module.add_arguments(command)
        if name not in _STATELESS:
            state_options(command)
    parser.format_help = first_screen  # type: ignore[method-assign] # argparse would list every command
    parser.actions_elsewhere = _commands_with_action
    return parser


def first_screen() -> str:
    """Return the output of `covey --help`: the everyday commands explained, the others named; at most 24 lines."""
    lines = ["usage: covey COMMAND ...", "", f"{_ABOUT}.", "", "everyday commands:"]
    lines += [f"  {name:<10} {_COMMANDS[name][1]}" for name in _EVERYDAY]
    lines.append("")
    for topic, commands in list(_TOPICS.items())[:-1]:
        if others := [name for name in commands if name not in _EVERYDAY and name not in _RARE]:
            lines.append(f"{topic + ':':<12} {', '.join(others)}")
    lines += ["", "'covey help COMMAND' explains a command, 'covey help all' lists all commands."]
    return "\n".join(lines) + "\n"


def all_commands() -> str:
    """Return the output of `covey help all`: every command by topic, and the exit codes."""
    lines = ["usage: covey COMMAND ...", "       covey --version", "", f"{_ABOUT}."]
    for topic, commands in _TOPICS.items():
        lines += ["", f"{topic}:", *(f"  {name:<15} {summary}" for name, (_, summary) in commands.items())]
    lines += ["", "exit codes:", *(f"  {code:<15} {meaning}" for code, meaning in EXIT_CODES.items())]
    lines += ["", "'covey help COMMAND' explains a command, 'covey help words' the words used."]
    return "\n".join(lines) + "\n"


def _commands_with_action(action: str) -> list[str]:
    """Return the commands that have an action of this name."""
    return [f"covey {name} {action}" for name, parser in full_parser().commands() if action in parser.actions]


def _command_parser(chosen: set[str], *, prog: str, **settings: Any) -> Parser | None:
    """Return a command's parser; for a command that is not chosen only its name and summary are needed.

    Each parser looks up translations of its headings: forty parsers cost more than most commands.
    """
    return Parser(prog=prog, **settings) if prog.rsplit(maxsplit=1)[-1] in chosen else None


def _version(first: str | None) -> str:
    if first != "--version":
        return ""
    from importlib.metadata import version

    return version("covey")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code = _run(words)
    except BrokenPipeError:
        code = READER_GONE
    except UnicodeEncodeError:
        if all(_is_text(word) for word in words):
            raise  # a defect
        print("error: an argument is not valid UTF-8", file=sys.stderr)
        print("hint: use a terminal and file names in UTF-8; 'locale' shows the terminal's encoding", file=sys.stderr)
        code = UsageError.exit_code
    for stream in (sys.stdout, sys.stderr):
        code = _flushed(stream, code)
    return code


def _parsed(words: list[str]) -> argparse.Namespace:
    """Parse the words, and free the parser, since an agent may run for a year."""
    first = words[0] if words else None
    parser = _parser(first, {first} & {*_COMMANDS} if first else set())
    return parser.parse_args(words, argparse.Namespace(words=words[1:]))


def _run(words: list[str]) -> int:
    try:
        options = _parsed(words)
        action = f"{options.command} {getattr(options, 'action', '')}"
        if os.geteuid() == 0 and not {options.command, action} & (_STATELESS | _OF_ROOT):
            from covey.app.agent.machine_service import done_as_owner
            from covey.cli.device_options import state_folder

            code = done_as_owner(state_folder(options))
            if code is not None:
                return code
        return int(options.act(options) or 0)
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if hint := error.hint or (f"covey help {words[0]}" if isinstance(error, UsageError) else ""):
            print(f"hint: {hint}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:  # a disk, socket or program that refuses is no defect: no traceback helps anybody
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        if hint := hint_of_errno(error.errno):
            print(f"hint: {hint}", file=sys.stderr)
        return 1
    except SystemExit as end:  # argparse's, after --help and --version
        return int(end.code or 0)
    except KeyboardInterrupt:
        return INTERRUPTED


def _is_text(word: str) -> bool:
    """Return whether an argument was UTF-8: Python keeps other bytes as lone surrogates, which nothing can encode."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def _flushed(stream: TextIO | None, code: int) -> int:
    """Write buffered output and return the exit code.

    Output that cannot be written is dropped, so that the interpreter does not fail on it at exit (its code 120).
    """
    try:
        if stream is not None:  # as where a shell has closed it
            stream.flush()
    except OSError as error:
        assert stream is not None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            return READER_GONE
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
