"""`covey serve-action UNIT`: run one action for the machine's agent; started by `covey-action@.service`."""

from __future__ import annotations

import argparse
import os
import socket
from pathlib import Path

from covey.cli.grammar import Parser
from covey.errors import UsageError


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("unit", metavar="UNIT", help="name of this systemd unit; the agent's connection is stdin")


def run(options: argparse.Namespace) -> int:
    """Answer the one request on stdin."""
    from covey.app.orders.action_service import serve_machine

    runtime = os.environ.get("RUNTIME_DIRECTORY")
    if runtime is None:
        raise UsageError(
            "systemd starts this program, not a person", hint="sudo systemctl enable --now covey-action.socket"
        )
    with socket.socket(fileno=0) as channel:
        serve_machine(channel, Path(runtime), options.unit)
    return 0
