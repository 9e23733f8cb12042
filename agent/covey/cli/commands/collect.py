"""`covey collect`: the agent with the collector role."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from covey.app.agent.daemon import run_agent
from covey.app.agent.machine_service import MachineService
from covey.app.agent.roles import configured_roles
from covey.app.device.relay_access import require_relay
from covey.app.groups.groups import found_collectors_group
from covey.app.telemetry.collecting import collector_roles, open_vault_place
from covey.cli.device_options import open_device, state_folder
from covey.cli.grammar import Parser

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--vault", metavar="WHERE", help="folder or s3://BUCKET/PREFIX (default: vault.location)")
    parser.add_argument("--new-group", action="store_true", help="create a group, if this device is in none")
    parser.add_argument("--no-sensors", action="store_true", help="do not read this machine's sensors")


def run(options: argparse.Namespace) -> int:
    folder = state_folder(options)
    service = MachineService(folder, "covey-collector.service", instead_of="covey.service")
    service.managed = service.managed and options.new_group

    def roles(device: Device) -> list[AgentRole]:
        require_relay(device)  # before anything of a vault is made
        return [*collector_roles(device, options.vault), *configured_roles(device, sensors=not options.no_sensors)]

    def collect() -> int:
        if options.new_group:
            with open_device(options) as device:
                require_relay(device)
                open_vault_place(device, options.vault)
                found_collectors_group(device)
        if not service.managed:
            run_agent(folder, roles, lands_telemetry=True)
        return 0

    return service.after(collect) if options.new_group else collect()
