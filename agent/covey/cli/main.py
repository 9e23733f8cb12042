"""The `covey` command. Subcommands live in modules of their own, loaded only when one is called."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any

from covey.errors import CoveyError

_COMMANDS = {
    "init": ("init", "make this machine a device"),
    "relay": ("relay", "show or set the broker and this device's credential"),
    "broker": ("broker", "run a broker: let devices in, shut them out, prove that it keeps its promises"),
    "group": ("group", "create a group, see who is in it, remove, ban, leave"),
    "key": ("key", "show public keys, and the fingerprint that people compare"),
    "invite": ("invite", "let one device join a group"),
    "join": ("join", "join the group of an invite"),
    "requests": ("requests", "list, accept or decline invitations to further groups"),
    "run": ("run", "run the agent: sensors, outbox, inbox"),
    "collect": ("collect", "run the agent as a collector that lands telemetry in a vault"),
    "send": ("send", "send a blob to every member of a group"),
    "recv": ("recv", "take blobs that have arrived"),
    "outbox": ("outbox", "the messages that wait: list, verify, carry on a stick, quarantine"),
    "publish": ("publish", "publish readings: SenML or NDJSON from a file or stdin"),
    "vault": ("vault", "the vault: look into it, verify it, mirror it, its keys"),
    "ingest": ("ingest", "turn a vault into tables with Spark"),
    "check": ("check", "look for what is wrong, and say how to mend it"),
    "config": ("config", "show, change or check the settings"),
    "metrics": ("metrics", "print the numbers as OpenMetrics"),
    "support-bundle": ("support_bundle", "write what a helper needs to know, without secrets"),
    "status": ("status", "show what is waiting, for whom, since when, and who was heard"),
    "top": ("top", "watch the device live: rates, queues, members, boards"),
    "mcu": ("mcu", "boards on serial ports: find, flash, enrol, watch, restart them"),
    "files": ("files", "print broker configurations, systemd units and udev rules that Covey brings"),
    "completion": ("completion", "print the completion script of a shell"),
}


_STATELESS = {"ingest", "files", "completion"}
"""What needs no device."""


class _Parser(argparse.ArgumentParser):
    """Speaks of mistakes as every other error does."""

    def error(self, message: str) -> Any:
        self.exit(2, f"error: {message}\nhint: {self.prog} --help\n")


def full_parser() -> argparse.ArgumentParser:
    """Return the parser with every command's options."""
    return _parser(None, {*_COMMANDS})


def _parser(first: str | None, chosen: set[str]) -> argparse.ArgumentParser:
    """Build the parser; only the chosen commands' modules are loaded for their options."""
    parser = _Parser(
        prog="covey",
        description="End-to-end encrypted sync and telemetry for fleets of small devices.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 78 wrong configuration.",
    )
    parser.add_argument("--version", action="version", version=f"covey {_version(first)}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, (module, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name in chosen:
            import_module(f"covey.cli.cmd_{module}").add_arguments(command)
        if name in chosen and name not in _STATELESS:
            command.add_argument("--state", metavar="DIR", help="state folder (default: $COVEY_STATE, or the system's)")
            command.add_argument(
                "--config", metavar="FILE", help="configuration (default: config.toml in the state folder)"
            )
            command.add_argument(
                "--passphrase-file", metavar="FILE", help="file with the passphrase of the key, mode 0600"
            )
    return parser


def _version(first: str | None) -> str:
    if first != "--version":
        return ""
    from importlib.metadata import version

    return version("covey")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["ingest"]:
            from covey.cli.cmd_ingest import hand_over

            return hand_over(words[1:])
        first = words[0] if words else None
        options = _parser(first, {first} & {*_COMMANDS} if first else set()).parse_args(words)
        module, _ = _COMMANDS[options.command]
        return int(import_module(f"covey.cli.cmd_{module}").run(options))
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
