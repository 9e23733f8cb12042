"""What lets a device into its relays, and what lets it let others in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.clock import PROGRAM_S
from covey.app.device.addresses import host_and_port
from covey.core.ids import inbox_name
from covey.core.wire.topics import inbox_topic
from covey.errors import ConfigurationError
from covey.limits.link import SESSION_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.adapters.keys.relay_credential import RelayAccount
    from covey.adapters.mqtt.relay import MqttRelay
    from covey.adapters.mqtt.settings import CertifiedTime, Place
    from covey.adapters.mqtt.wire_meter import WireMeter
    from covey.adapters.state_folder import StateFolder
    from covey.app.device.device import Device
    from covey.config.schema import Config, LinkConfig, RelayConfig
    from covey.core.crypto import Identity
    from covey.core.link.connect_windows import ConnectSchedule

WINDOW = 200
"""Publishes, and deliveries, of a relay without an answer."""

REFUSED_S = 30.0
"""Before a relay that has refused us is asked again."""


def schedule_of(link: LinkConfig) -> ConnectSchedule | None:
    """Return when a device connects by its settings; None: always."""
    from covey.core.link.budget import link_budget
    from covey.core.link.connect_windows import connect_schedule

    schedule, budget = connect_schedule(link.connect), link_budget(link.budget)
    return budget.schedule() if schedule is None and budget is not None else schedule


def make_relays(
    folder: StateFolder,
    config: Config,
    identity: Identity,
    refused_s: float = REFUSED_S,
    earliest_us: int = PROGRAM_S * 1_000_000,
    certified: CertifiedTime | None = None,
    meter: WireMeter | None = None,
) -> list[MqttRelay]:
    """Return the configured relays, not connected yet; `refused_s` is the shortest wait after one has said no.

    `earliest_us` is a moment that has passed, and `certified` learns of later ones (`known_time.py`). `meter` counts
    what all of them carry.

    Raises:
        ConfigurationError: no relay is set, or one is not usable.
    """
    from covey.adapters.keys.relay_credential import accounts
    from covey.adapters.mqtt.relay import MqttRelay
    from covey.core.link.budget import link_budget

    schedule, budget = schedule_of(config.link), link_budget(config.link.budget)
    session_s = SESSION_S if schedule is None else max(SESSION_S, 3 * schedule.longest_us // 1_000_000)
    return [
        MqttRelay(
            account.name,
            account.url,
            inbox_name(identity.signing_public),
            account.password,
            inbox_topic(identity.signing_public),
            ca_file=account.ca_file,
            client=account.client,
            allow_tls12=account.allow_tls12,
            refused_s_min=refused_s,
            earliest_s=earliest_us / 1e6,
            certified=certified,
            meter=meter,
            session_expiry_s=session_s,
            window=WINDOW if budget is None else budget.deliveries,
            find=other_places(account, config.relay),
        )
        for account in accounts(folder, config, identity)
    ]


def other_places(account: RelayAccount, relay: RelayConfig) -> Callable[[], list[Place]] | None:
    """Return what names other places of a relay that does not answer at its URL; None where there are none.

    These are the first relay's `relay.addresses`; and what answers on the local network (`relay.search`), where the
    relay's certificate has an authority of its own. At each of them TLS checks the name in the URL.

    Raises:
        ConfigurationError: an address is not one.
    """
    if not account.url.startswith("mqtts:"):
        return None
    named = [host_and_port(each, "relay.addresses") for each in relay.addresses if account.url == relay.url]
    authorities = account.ca_file if relay.search else None
    if not named and authorities is None:
        return None

    def find() -> list[Place]:
        if authorities is None:
            return named
        from covey.adapters.lan.relay_search import find_relays
        from covey.adapters.own_addresses import asking_addresses

        return [*named, *find_relays(authorities, asking_addresses)]

    return find


def require_relay(device: Device) -> None:
    """Check that a relay is set, without which nobody comes.

    Raises:
        ConfigurationError: none is.
    """
    if not device.config.relay.url:
        from covey.adapters.keys.relay_credential import NO_RELAY_HINT

        raise ConfigurationError("no relay is set", hint=NO_RELAY_HINT)


def lacks_account(device: Device) -> bool:
    """Say whether a device has nothing that lets it into a relay."""
    config = device.config
    return not (device.folder.relay_password(config, device.node.identity) or config.relay.client_certificate)


def has_authority(config: Config) -> bool:
    """Say whether a device can let others into the relay."""
    return bool(config.broker.password_file or config.broker.ca_folder)
