"""What `covey check` asks the relay: is it there, does it let this device in, does it keep others' secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agent.cli.findings import Device, Level, Seen, error, ok, warning

_CERTIFICATE_DAYS = 30
"""A gateway that is away for a month must still trust the relay when it is back."""


def relay(device: Device) -> Iterator[Seen]:
    """The relay: reachable, and who it says it is, for longer than the longest outage."""
    from agent.adapters.mqtt_settings import parse_url
    from agent.adapters.relay_probe import reach
    from agent.cli.session import client_certificate

    settings = device.configuration.config.relay
    if not settings.url:
        yield error("no relay is set", "covey relay --url mqtts://HOST")
        return
    host, _, encrypted = parse_url(settings.url)
    reached = reach(
        settings.url,
        Path(settings.ca_file) if settings.ca_file else None,
        client_certificate(device.folder, device.configuration.config),
    )
    if not encrypted and host not in {"localhost", "127.0.0.1", "::1"}:
        yield warning(
            f"{reached.place} without TLS: the network reads the password and who talks to whom",
            "let the broker speak TLS, then covey relay --url mqtts://HOST",
        )
    if reached.certificate_ends_at is None:
        yield ok(f"{reached.place} answers")
        return
    days = int((reached.certificate_ends_at - device.clock.wall_us() / 1e6) // 86_400)
    line = f"{reached.place} answers with {reached.protocol}; its certificate ends in {days} days"
    if days < _CERTIFICATE_DAYS:
        yield warning(line, "renew it in time: a gateway that was away must still trust it")
    else:
        yield ok(line)


def credential(device: Device) -> Iterator[Seen]:
    """Whether the relay accepts this device: asked only while no agent is signed in, whom it would throw out."""
    condition, since_us = device.store.conditions().get("relay", ("never connected", device.clock.wall_us()))
    lock = None if device.folder.agent_runs() else device.folder.lock_relay()
    if lock is None:
        seconds = max(0, device.clock.wall_us() - since_us) // 1_000_000
        if condition == "up":
            yield ok(f"the agent is signed in, since {seconds} s")
        else:
            yield error(f"the agent is not signed in, since {seconds} s: {condition}", "journalctl -u covey shows more")
        return
    from agent.adapters.relay_probe import sign_in
    from agent.cli.session import make_relay

    try:
        up = sign_in(make_relay(device.folder, device.configuration.config, device.identity))
    finally:
        os.close(lock)
    yield ok(f"the relay accepts this device, messages up to {up.maximum_payload} bytes")


def acl(device: Device) -> Iterator[Seen]:
    """Whether this device can read what is sent to others. Like its credential, asked only while no agent is there."""
    from agent.adapters.acl_probe import look_around
    from agent.adapters.mqtt_settings import parse_url, tls_context
    from agent.adapters.mqtt_visitor import Place
    from agent.cli.session import client_certificate

    lock = None if device.folder.agent_runs() else device.folder.lock_relay()
    if lock is None:
        yield (
            Level.SKIPPED,
            "asking would throw the agent out",
            "systemctl stop covey, then covey check",
        )
        return
    config = device.configuration.config
    host, port, encrypted = parse_url(config.relay.url)
    ca_file = Path(config.relay.ca_file) if config.relay.ca_file else None
    tls = tls_context(ca_file, client_certificate(device.folder, config)) if encrypted else None
    user_name = device.identity.signing_public.hex()
    try:
        openings = look_around(Place(host, port, tls), user_name, device.folder.relay_password(config))
    finally:
        os.close(lock)
    rules = "give the broker the rules of broker_conf/mosquitto/acl; 'covey broker check' tries them all"
    if openings.overhears:
        yield error("this device can read what is sent to others", rules)
    if not openings.writes:
        yield error("the broker does not let this device write to others", rules)
    if openings.statistics:
        yield warning("the broker tells this device its statistics ($SYS)", rules)
    if openings.writes and not openings.overhears and not openings.statistics:
        yield ok("this device can write to others, and reads nothing but its own inbox")
