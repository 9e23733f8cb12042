"""What this device tells those whom it invites: its label, its relay, and whom to trust there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.device.relay_access import has_authority
from covey.app.loop.pairing_host import HostFacts
from covey.limits.pairing import MAXIMUM_CERTIFICATES_BYTES

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.config.schema import Config
    from covey.ports import Credentials


def host_facts(folder: StateFolder, config: Config) -> HostFacts:
    """Return what a device tells those whom it invites."""
    from covey.adapters.broker.served_folder import SERVED_FOLDER, ServedFolder

    def credentials() -> Credentials:
        from covey.adapters.broker.authority import authority

        found = authority(config.broker, folder.path)
        assert found is not None
        return found

    certificates = ""
    if config.relay.ca_file and Path(config.relay.ca_file).stat().st_size <= MAXIMUM_CERTIFICATES_BYTES:
        certificates = Path(config.relay.ca_file).read_text()
    served = ServedFolder(folder.path / SERVED_FOLDER)
    return HostFacts(
        config.label,
        config.relay.url,
        certificates,
        credentials if has_authority(config) else None,
        served.in_force if served.exists else None,
    )
