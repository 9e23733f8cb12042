"""`covey collect`: the agent with the collector role."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

from agent.cli.cmd_run import sensor_roles
from agent.cli.session import open_session, report, run_agent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--vault", metavar="DIR", help="the vault's directory (default: vault.folder)")
    parser.add_argument("--no-sensors", action="store_true", help="do not sample this machine")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""
    from agent.adapters.object_store import DirectoryStore
    from agent.roles.collector import Collector

    with open_session(options) as session:
        folder = Path(options.vault) if options.vault else session.folder.path / session.config.vault.folder
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        collector = Collector(
            session.node.identity,
            session.folder.vault_key(),
            session.store,
            DirectoryStore(folder.absolute()),
            secrets.token_bytes,
            int(session.config.vault.segment_seconds * 1e6),
            report,
        )
        report("info", f"landing telemetry in {folder}; the ingest needs {session.folder.vault_key_path}")
        roles = [] if options.no_sensors else sensor_roles(session)
        run_agent(session, [collector, *roles], lands_telemetry=True)
    return 0
