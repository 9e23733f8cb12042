"""The `covey` command. Subcommands live in modules of their own, loaded only when one is called."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any

from agent.errors import CoveyError

_COMMANDS = {
    "init": ("init", "make this machine a device"),
    "relay": ("relay", "show or set the broker and this device's credential"),
    "group": ("group", "create a group, or show who is in one"),
    "invite": ("invite", "let one device join a group"),
    "join": ("join", "join the group of an invite"),
    "run": ("run", "run the agent: sensors, outbox, inbox"),
    "collect": ("collect", "run the agent as a collector that lands telemetry in a vault"),
    "send": ("send", "send a blob to every member of a group"),
    "recv": ("recv", "take blobs that have arrived"),
    "publish": ("publish", "publish readings: SenML or NDJSON from a file or stdin"),
    "ingest": ("ingest", "turn a vault into tables with Spark"),
    "status": ("status", "show what is waiting, for whom, and since when"),
}


class _Parser(argparse.ArgumentParser):
    """Speaks of mistakes as every other error does."""

    def error(self, message: str) -> Any:
        self.exit(2, f"error: {message}\nhint: {self.prog} --help\n")


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """Build the parser; only the chosen command's module is loaded for its options."""
    parser = _Parser(
        prog="covey",
        description="End-to-end encrypted sync and telemetry for fleets of small devices.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 78 wrong configuration.",
    )
    parser.add_argument("--version", action="version", version=f"covey {_version(chosen)}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, (module, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen and name != "ingest":
            import_module(f"agent.cli.cmd_{module}").add_arguments(command)
            command.add_argument("--state", metavar="DIR", help="state folder (default: $COVEY_STATE, or the system's)")
            command.add_argument(
                "--config", metavar="FILE", help="configuration (default: config.toml in the state folder)"
            )
    return parser


def _version(chosen: str | None) -> str:
    if chosen != "--version":
        return ""
    from importlib.metadata import version

    return version("covey")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["ingest"]:
            from agent.cli.cmd_ingest import hand_over

            return hand_over(words[1:])
        options = _parser(words[0] if words else None).parse_args(words)
        module, _ = _COMMANDS[options.command]
        return int(import_module(f"agent.cli.cmd_{module}").run(options))
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
