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
from covey.errors import CoveyError, hint_of_errno

_TOPICS = {
    "set up": {
        "init": ("init", "make this machine a device"),
        "relay": ("relay", "run a whole relay, or show and set the broker and this device's credential"),
        "broker": ("broker", "run a broker: let devices in, shut them out, prove that it keeps its promises"),
        "invite": ("invite", "let one device join a group"),
        "join": ("join", "join the group of an invite"),
        "run": ("run", "run the agent: sensors, outbox, inbox"),
        "collect": ("collect", "run the agent as a collector that lands telemetry in a vault"),
        "config": ("config", "show, change or check the settings"),
    },
    "who belongs, and who may order": {
        "group": ("group", "create a group, see who is in it, remove, ban, leave"),
        "requests": ("requests", "list, accept or decline invitations to further groups"),
        "own": ("own", "your own devices: what one joins or leaves, the others hear of"),
        "key": ("key", "show public keys, and the fingerprint that people compare"),
        "operator": ("operator", "who may give orders to devices: list, add, remove"),
    },
    "readings and tables": {
        "sensor": ("sensor", "sensors that the configuration names: list them, try one"),
        "mcu": ("mcu", "boards on serial ports: find, flash, enrol, watch, restart them"),
        "publish": ("publish", "publish readings: SenML or NDJSON from a file or stdin"),
        "vault": ("vault", "the vault: look into it, verify it, mirror it, its keys"),
        "tables": ("tables", "turn a vault into tables, and ask them"),
        "door": ("door", "send readings on: to a webhook, to Home Assistant, by OTLP"),
    },
    "messages": {
        "send": ("send", "send a blob to every member of a group"),
        "recv": ("recv", "take blobs that have arrived"),
        "outbox": ("outbox", "the messages that wait: list, verify, carry on a stick, quarantine"),
        "mailbox": ("mailbox", "keep sealed envelopes for devices that sleep, or hand one's own over"),
    },
    "words and orders": {
        "note": ("note", "say something to a group, for good"),
        "history": ("history", "what a group's members have said, and the proof of it"),
        "session": ("session", "where people meet to work on the fleet, and when they did"),
        "setting": ("setting", "change a setting everywhere, and see what became of it"),
        "do": ("do", "have devices do something, and see what became of it"),
        "orders": ("orders", "the orders of operators: who gave and signed them, what became of them; approve them"),
    },
    "files and releases": {
        "put": ("put", "offer a file to the members of a group"),
        "get": ("get", "fetch a file that a member offers"),
        "content": ("content", "the files of a group: list, show, keep, let go, verify"),
        "release": ("release", "bring a file to one wave of devices after the other, and stop where it goes wrong"),
        "installer": ("installer", "what devices install files with, as their owners define it; agents run it"),
    },
    "see how it is": {
        "status": ("status", "show what is waiting, for whom, since when, and who was heard"),
        "check": ("check", "look for what is wrong, and say how to mend it"),
        "graph": ("graph", "draw what a device measured, in the terminal"),
        "fleet": ("fleet", "see every device: who is there, what each said last, what waits, what was lost"),
        "dashboard": ("dashboard", "the fleet as a page, for a telephone or a wall"),
        "top": ("top", "watch the device live: rates, queues, members, boards"),
        "alert": ("alert", "tell somebody what is wrong with the fleet: by a webhook, e-mail, a program"),
        "metrics": ("metrics", "print the numbers as OpenMetrics"),
        "support-bundle": ("support_bundle", "write what a helper needs to know, without secrets"),
    },
    "for packages and shells": {
        "files": ("files", "print broker configurations, systemd units and udev rules that Covey brings"),
        "completion": ("completion", "print the completion script of a shell"),
        "serve-action": ("serve_action", "do one action for the machine's agent; systemd starts it"),
    },
}
"""Every command by what it is for: its module, and what it does."""

_COMMANDS = {name: command for topic in _TOPICS.values() for name, command in topic.items()}


_STATELESS = {"serve-action", "tables", "files", "completion"}
"""What needs no device."""

_OF_ROOT = {"join", "relay", "collect", "broker", "installer", "mcu"}
"""What needs root's own rights: services, a broker's files, definitions, ports. The others are done as the owner."""

READER_GONE = 141
"""The exit code where nobody reads on (`| head`): 128 + SIGPIPE, as a shell says of other tools."""

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 + SIGINT, the same way."""


def full_parser() -> Parser:
    """Return the parser with every command's options."""
    return _parser(None, {*_COMMANDS})


def _parser(first: str | None, chosen: set[str]) -> Parser:
    """Build the parser; only the chosen commands' modules are loaded for their options."""
    parser = Parser(
        prog="covey",
        description="End-to-end encrypted sync and telemetry for fleets of small devices.",
        epilog="covey COMMAND --help says more.\n\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some devices obey no operator and did nothing (--wait),\n"
        "78 wrong configuration, 124 the time to wait is over, 130 Ctrl-C, 141 nobody reads on (| head).",
    )
    parser.add_argument("--version", action="version", version=f"covey {_version(first)}", help="print the version")
    kind: Any = partial(_command_parser, chosen)
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True, parser_class=kind
    )
    for name, (module_name, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, summary=summary)
        if command is None:
            continue
        module = import_module(f"covey.cli.cmd_{module_name}")
        if hasattr(module, "run"):
            command.set_defaults(act=module.run)
        module.add_arguments(command)
        if name not in _STATELESS:
            state_options(command)
    parser.topics = {topic: tuple(names) for topic, names in _TOPICS.items()}
    return parser


def _command_parser(chosen: set[str], *, prog: str, **settings: Any) -> Parser | None:
    """Return a command's parser; none for one that is not chosen, of which the name and the summary are enough.

    A parser looks for translations of its every heading: forty of them cost more than most commands do.
    """
    return Parser(prog=prog, **settings) if prog.rsplit(maxsplit=1)[-1] in chosen else None


def _version(first: str | None) -> str:
    if first != "--version":
        return ""
    from importlib.metadata import version

    return version("covey")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; whoever calls it in a process of its own ends that with it."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        code = READER_GONE
    for stream in (sys.stdout, sys.stderr):
        code = _flushed(stream, code)
    return code


def _parsed(words: list[str]) -> argparse.Namespace:
    """Return what the words ask for; the parser goes, as an agent may run for a year."""
    first = words[0] if words else None
    parser = _parser(first, {first} & {*_COMMANDS} if first else set())
    return parser.parse_args(words, argparse.Namespace(words=words[1:]))


def _run(words: list[str]) -> int:
    try:
        options = _parsed(words)
        if os.geteuid() == 0 and options.command not in _STATELESS | _OF_ROOT:
            from covey.app.agent.machine_service import done_as_owner
            from covey.cli.device_options import state_folder

            code = done_as_owner(state_folder(options))
            if code is not None:
                return code
        return int(options.act(options) or 0)
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
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


def _flushed(stream: TextIO | None, code: int) -> int:
    """Write what is left to be written, and return the exit code that the process then has.

    What cannot be written goes nowhere, so that the interpreter finds nothing wrong when it ends (its 120).
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
