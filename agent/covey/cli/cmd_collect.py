"""`covey collect`: the agent with the collector role."""

from __future__ import annotations

import argparse

from covey.app.agent_roles import collector_role, configured_roles
from covey.app.daemon import run_agent
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--vault", metavar="WHERE", help="a directory or s3://BUCKET/PREFIX (default: vault.location)")
    parser.add_argument("--no-sensors", action="store_true", help="do not sample this machine")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""
    with open_device(options) as device:
        roles = [collector_role(device, options.vault), *configured_roles(device, sensors=not options.no_sensors)]
        run_agent(device, roles, lands_telemetry=True)
    return 0
