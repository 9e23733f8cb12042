"""The runtime of a device, composed in this process: node, relays and roles, until something holds.

One process at a time speaks with a device's relay (`relay.lock`): the agent, or a command that waits for something
while no agent runs.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.device.relay_access import schedule_of
from covey.errors import GroupDestroyedError, StorageError

if TYPE_CHECKING:
    from covey.adapters.broker.authority import Authority
    from covey.adapters.systemd import Systemd
    from covey.app.device.device import Device
    from covey.app.loop.link_costs import LinkCosts
    from covey.app.loop.link_windows import LinkWindows
    from covey.app.loop.pairing_host import PairingHost
    from covey.app.loop.relays import Relays
    from covey.app.loop.runtime import AgentRole

_POLL_S = 0.1
_SIGN_S = 0.02
_FRESH_REFUSED_S = 2.0
"""Before a relay that has refused an account made a moment ago is asked again."""


def wait_until(
    device: Device, condition: Callable[[], bool], seconds: float, sign: Callable[[], bool] | None = None
) -> bool:
    """Wait for something that needs the relay: the agent does it, or this process does while no agent runs.

    `sign` costs next to nothing, and says that the condition may hold: it is looked at more often. By default it is
    that the agent has committed something.
    """
    sign = sign or _commits(device)
    deadline, asked = time.monotonic() + seconds, False

    def done() -> bool:
        return condition() or time.monotonic() >= deadline

    while not done():
        relay_lock = None if device.folder.locks.agent_runs() else device.folder.locks.relay()
        if relay_lock is None:
            if not asked and schedule_of(device.config.link) is not None:
                asked = True
                _ask_for_window(device)
            _sleep(_POLL_S, sign)
            continue
        try:
            if speak_with_relay(device, [], lambda: done() or device.folder.locks.agent_runs()):
                raise KeyboardInterrupt
        finally:
            os.close(relay_lock)
    return condition()


def _ask_for_window(device: Device) -> None:
    from covey.app.loop.link_windows import ask_for_window

    with device.store.transaction():
        ask_for_window(device.store, device.now())


def _commits(device: Device) -> Callable[[], bool]:
    seen = device.store.data_version()

    def committed() -> bool:
        nonlocal seen
        before, seen = seen, device.store.data_version()
        return seen != before

    return committed


def _authority_roles(device: Device) -> list[AgentRole]:
    from covey.app.device.relay_access import has_authority

    if not has_authority(device.config):
        return []
    from covey.app.loop.member_accounts import MemberAccounts

    def held() -> Authority:
        from covey.adapters.broker.authority import authority

        found = authority(device.config.broker, device.folder.path, device.node.identity)
        assert found is not None, "has_authority"
        return found

    return [MemberAccounts(held, device.store, report)]


def _windows(device: Device, relays: Relays, costs: LinkCosts) -> LinkWindows | None:
    schedule = schedule_of(device.config.link)
    if schedule is None:
        return None
    from covey.app.loop.link_windows import LinkWindows
    from covey.core.link.connect_windows import ConnectWindows

    def pairs() -> bool:
        return device.store.pairings.any_to_look_after() or bool(device.store.joins.pending())

    windows = ConnectWindows(schedule, device.node.identity.signing_public, device.now())
    return LinkWindows(windows, device.store, relays, pairs, costs)


def _sleep(seconds: float, sign: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _SIGN_S))
        if sign():
            return


def speak_with_relay(
    device: Device,
    roles: Sequence[AgentRole],
    until: Callable[[], bool],
    *,
    lands_telemetry: bool = False,
    supervisor: Systemd | None = None,
) -> bool:
    """Run the loop in this process, holding the relay's lock; return whether a signal ended it before `until` did.

    An agent has a supervisor, and tells the collector that it is there; a command comes and goes unreported.

    Raises:
        ConfigurationError: no relay is set.
    """
    from covey.adapters.mqtt.settings import CertifiedTime
    from covey.adapters.mqtt.wire_meter import WireMeter
    from covey.app.device.known_time import KnownTime, earliest_us
    from covey.app.device.pins import pins
    from covey.app.device.relay_access import REFUSED_S, make_relays
    from covey.app.loop.group_teardown import GroupTeardown
    from covey.app.loop.link_costs import LinkCosts
    from covey.app.loop.noise_keys import KeyReload, KeyRotation
    from covey.app.loop.pairing_role import PairingWhenInvited
    from covey.app.loop.relays import Relays
    from covey.app.loop.runtime import Runtime
    from covey.core.link.budget import link_budget

    presence_us = 0 if supervisor is None else int(device.config.presence.interval_seconds * 1e6)
    refused_s = _FRESH_REFUSED_S if device.fresh_account else REFUSED_S
    earliest, certified = earliest_us(device.store), CertifiedTime()
    meter = WireMeter()
    relays = Relays(
        make_relays(device.folder, device.config, device.node.identity, refused_s, earliest, certified, meter)
    )
    costs = LinkCosts(
        device.store, meter, device.now(), link_budget(device.config.link.budget), device.clock.synchronised
    )
    windows = None if supervisor is None else _windows(device, relays, costs)
    teardown = GroupTeardown(device.store)

    def pairing_host() -> PairingHost:
        from covey.app.loop.pairing_host import PairingHost, host_facts

        return PairingHost(
            device.store,
            relays,
            host_facts(device.folder, device.config, device.node.identity),
            secrets.token_bytes,
            report,
        )

    pairing = PairingWhenInvited(device.store, pairing_host)
    own_roles: list[AgentRole] = [KeyReload(device.folder.noise_keys, device.store, report)]
    own_roles.append(costs)
    if supervisor is not None:
        interval_us, outbox_bytes = int(device.config.keys.rotation_days * 86_400e6), device.config.outbox.maximum_bytes
        rotation = KeyRotation(device.folder.noise_keys, device.store, interval_us, outbox_bytes, report)
        own_roles.append(rotation)
        own_roles += [KnownTime(device.clock, device.store, certified), *_authority_roles(device)]
    runtime = Runtime(
        device.store,
        relays,
        device.clock,
        lambda state: device.make_node(
            lands_telemetry=lands_telemetry, presence_us=presence_us, state=state, pins=partial(pins, device)
        ),
        [*roles, *own_roles, pairing, teardown],
        report,
        supervisor,
        pairing.receive,
        fresh_account=device.fresh_account,
        windows=windows,
        may_spend=costs.may_spend,
    )
    device.waking.follow(runtime.wake)
    with stop_signals() as stopping:
        runtime.run(lambda: bool(stopping) or teardown.nothing_left or until())
        with suppress(StorageError):  # a full disk: what was granted counts
            costs.finish(runtime.node, device.now())
    if teardown.nothing_left:
        device.store.close()
        device.folder.wipe()
        raise GroupDestroyedError("the group was destroyed, and this device deleted its state")
    return bool(stopping)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Give a list that stays empty until SIGTERM or SIGINT."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda signal_number, _frame: received.append(signal_number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
