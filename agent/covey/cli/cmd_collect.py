"""`covey collect`: the agent with the collector role."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

from covey.app.session import open_session, report, run_agent
from covey.cli.cmd_run import board_roles, sensor_roles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--vault", metavar="WHERE", help="a directory or s3://BUCKET/PREFIX (default: vault.location)")
    parser.add_argument("--no-sensors", action="store_true", help="do not sample this machine")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""
    from covey.adapters.objects.location import open_object_store
    from covey.app.roles.collector import Collector

    with open_session(options) as session:
        location = options.vault or str(session.config.vault.location)
        base = Path.cwd() if options.vault else session.folder.path
        collector = Collector(
            session.node.identity,
            session.folder.vault_keys,
            session.store,
            open_object_store(location, base),
            secrets.token_bytes,
            int(session.config.vault.segment_seconds * 1e6),
            report,
        )
        report("info", f"landing telemetry in {location}; the ingest needs {session.folder.vault_key_path}")
        roles = [] if options.no_sensors else sensor_roles(session)
        run_agent(session, [collector, *roles, *board_roles(session)], lands_telemetry=True)
    return 0
