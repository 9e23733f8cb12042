"""`covey run`: the agent."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.app.session import Session, open_session, report, run_agent
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from covey_boards.bridge import Bridge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--no-sensors", action="store_true", help="do not sample this machine")


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""
    with open_session(options) as session:
        roles = [] if options.no_sensors else sensor_roles(session)
        run_agent(session, [*roles, *board_roles(session)])
    return 0


def board_roles(session: Session) -> list[object]:
    """Return the bridge to boards where the configuration names ports."""
    ports = session.config.bridge.ports
    return [bridge_role(session, ports)] if ports else []


def bridge_role(session: Session, ports: Sequence[str]) -> Bridge:
    """Return the bridge to the boards on some ports, not opened yet.

    Raises:
        ConfigurationError: pyserial is not installed.
    """
    try:
        from covey_boards.serial_link import SerialPortLink
    except ImportError as error:
        raise ConfigurationError("boards need pyserial", hint="pip install 'covey[bridge]'") from error
    from covey_boards.bridge import Bridge

    links = [SerialPortLink(port, session.config.bridge.baud) for port in ports]
    return Bridge(links, session.store, session.clock.synchronised, report)


def sensor_roles(session: Session) -> list[object]:
    """Return the sensors role where the configuration wants it."""
    if not session.config.sensors.enabled:
        return []
    from covey.adapters.sensors.firmware import Firmware
    from covey.adapters.sensors.host import HostSensors
    from covey.app.roles.sensors import Sensors

    sensors, firmware = HostSensors(session.folder.path), Firmware(session.store.boards)
    interval_us = int(session.config.sensors.interval_seconds * 1e6)
    return [Sensors(lambda: [*sensors.sample(), *firmware.sample()], session.publisher(), interval_us, report)]
