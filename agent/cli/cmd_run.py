"""`covey run`: the agent."""

from __future__ import annotations

import argparse

from agent.cli.session import Session, open_session, report, run_agent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--no-sensors", action="store_true", help="do not sample this machine")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""
    with open_session(options) as session:
        run_agent(session, [] if options.no_sensors else sensor_roles(session))
    return 0


def sensor_roles(session: Session) -> list[object]:
    """Return the sensors role where the configuration wants it."""
    if not session.config.sensors.enabled:
        return []
    from agent.adapters.host_sensors import HostSensors
    from agent.roles.sensors import Sensors

    sensors = HostSensors(session.folder.path)
    interval_us = int(session.config.sensors.interval_seconds * 1e6)
    return [Sensors(sensors.sample, session.publisher(), interval_us, report)]
