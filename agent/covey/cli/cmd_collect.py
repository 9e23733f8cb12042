"""`covey collect`: the agent with the collector role."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from covey.app.agent_roles import collector_role, configured_roles
from covey.app.daemon import run_agent
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.runtime import AgentRole


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--vault", metavar="WHERE", help="a directory or s3://BUCKET/PREFIX (default: vault.location)")
    parser.add_argument("--no-sensors", action="store_true", help="do not sample this machine")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""

    def roles(device: Device) -> list[AgentRole]:
        return [collector_role(device, options.vault), *configured_roles(device, sensors=not options.no_sensors)]

    run_agent(state_folder(options), roles, lands_telemetry=True)
    return 0
