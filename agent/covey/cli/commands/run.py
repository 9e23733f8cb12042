"""`covey run`: the agent."""

from __future__ import annotations

import argparse

from covey.app.agent.daemon import run_agent
from covey.app.agent.roles import configured_roles
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--no-sensors", action="store_true", help="do not read this machine's sensors")


def run(options: argparse.Namespace) -> int:
    run_agent(state_folder(options), lambda device: configured_roles(device, sensors=not options.no_sensors))
    return 0
