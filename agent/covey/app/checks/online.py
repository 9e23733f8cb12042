"""The online checks: is the relay reachable, does it accept this device, does it isolate other devices' topics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.wording import duration

if TYPE_CHECKING:
    from covey.adapters.keys.relay_credential import RelayAccount

_CERTIFICATE_DAYS = 30
"""A gateway that is away for a month must still trust the relay when it is back."""


def relay(device: Examined) -> Iterator[Seen]:
    """Each relay: reachable, and who it says it is, for longer than the longest outage."""
    from covey.adapters.keys.relay_credential import accounts

    for account in accounts(device.folder, device.configuration.config):
        yield from _reached(account, device.clock.wall_us())


def _reached(account: RelayAccount, now_us: int) -> Iterator[Seen]:
    from covey.adapters.broker.own_relay import connect
    from covey.adapters.mqtt.settings import exposes_password

    reached = connect(account.url, account.ca_file, account.client, allow_tls12=account.allow_tls12)
    if exposes_password(account.url):
        yield warning(
            f"{reached.address} has no TLS: anyone on the network can read the password and see who talks to whom",
            "enable TLS at the broker, then: covey relay set mqtts://HOST",
        )
    if reached.certificate_ends_at is None:
        yield ok(f"{reached.address} answers")
        return
    days = int((reached.certificate_ends_at - now_us / 1e6) // 86_400)
    line = f"{reached.address} answers with {reached.protocol}; its certificate ends in {days} days"
    if days < _CERTIFICATE_DAYS:
        yield warning(line, "renew it early: gateways that were offline must still trust it")
    else:
        yield ok(line)


def credential(device: Examined) -> Iterator[Seen]:
    """Whether each relay accepts this device: asked only while no agent is signed in, whom it would throw out."""
    lock = None if device.folder.locks.agent_runs() else device.folder.locks.relay()
    if lock is None:
        yield from _signed_in(device)
        return
    from covey.adapters.broker.own_relay import sign_in
    from covey.app.device.relay_access import make_relays

    try:
        relays = make_relays(device.folder, device.configuration.config, device.identity)
        for relay in relays:
            up = sign_in(relay)
            which = "the relay" if len(relays) == 1 else relay.name
            yield ok(f"{which} accepts this device, messages up to {up.maximum_payload} bytes")
    finally:
        os.close(lock)


def _signed_in(device: Examined) -> Iterator[Seen]:
    for relay in device.status.relays:
        where = f" at {relay.url}" if device.configuration.config.relay.also else ""
        if relay.noted == "up":
            yield ok(f"the agent is connected{where}, for {duration(relay.seconds)}")
        else:
            line = (
                f"the agent is not connected{where}, for {duration(relay.seconds)}: {relay.noted or 'never connected'}"
            )
            yield error(line, "see: journalctl -u covey")


def acl(device: Examined) -> Iterator[Seen]:
    """Whether this device can read messages to other devices. Like its credential, asked only while no agent is "
    "there."""
    from covey.adapters.keys.relay_credential import accounts

    lock = None if device.folder.locks.agent_runs() else device.folder.locks.relay()
    if lock is None:
        yield (
            Level.SKIPPED,
            "not tested: the test would disconnect the agent",
            "systemctl stop covey, then covey check",
        )
        return
    try:
        for account in accounts(device.folder, device.configuration.config):
            for level, line, hint in _openings(account, device.identity.signing_public.hex()):
                yield level, f"{account.name}: {line}" if device.configuration.config.relay.also else line, hint
    finally:
        os.close(lock)


def _openings(account: RelayAccount, user_name: str) -> Iterator[Seen]:
    from covey.adapters.broker.own_relay import look_around

    openings = look_around(
        account.url, account.ca_file, account.client, user_name, account.password, allow_tls12=account.allow_tls12
    )
    rules = "give the broker the rules of 'covey system-files broker_conf/mosquitto/acl', then run 'covey broker check'"
    if openings.overhears:
        yield error("this device can read messages to other devices", rules)
    if not openings.writes:
        yield error("the broker does not let this device send to others", rules)
    if openings.statistics:
        yield warning("the broker shows this device its statistics ($SYS)", rules)
    if openings.writes and not openings.overhears and not openings.statistics:
        yield ok("this device can send to others, and can read only its own inbox")
