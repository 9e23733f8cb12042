"""The roles of a mailbox and of a device that one wakes (docs/protocol/content.md, "Mailbox").

Loaded only where a setting asks for one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.mailbox_wakes import WakeCaller
from covey.app.relays.mailbox import EXPIRED, OF_FORMER
from covey.core.group.device_labels import DeviceLabels
from covey.core.mailbox.messages import Hook, WakeHook
from covey.errors import ConfigurationError
from covey.limits.mailbox import MAILBOX_LOOK_US, MAXIMUM_HOOK_BYTES
from covey.limits.units import MIB
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole
    from covey.core.ids import DeviceKey
    from covey.core.node import Node
    from covey.core.now import Now


class MailboxRole:
    """Keeps what waits for sleepers, in `maximum_bytes` at most.

    `wake` calls a webhook or a program for a device, and waits for nothing; `by_topic`: a device may be woken by a
    publish, too, where it asks for that.
    """

    def __init__(
        self,
        store: SqliteStore,
        maximum_bytes: int,
        wake: Callable[[DeviceKey, str, WakeHook], None],
        report: Report,
        *,
        by_topic: bool,
    ) -> None:
        self._store = store
        self._maximum_bytes = maximum_bytes
        self._wake = wake
        self._report = report
        self._by_topic = by_topic
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""
        exchange = node.mailboxes.exchange
        if exchange is None:
            return None
        service = exchange.serve(self._maximum_bytes)
        for wake in service.take_wakes(now):
            for hook in wake.hooks:
                if not hook.by_topic:
                    self._wake(wake.device, DeviceLabels(node.groups.joined()).named(wake.device), hook)
                elif self._by_topic:
                    exchange.wake_by_topic(wake.device)
        if now.monotonic_us >= self._look_at_us:
            with self._store.transaction():
                expired, (gone, dropped) = service.maintain(now), service.forget_strangers()
                for counter, number in ((EXPIRED, expired), (OF_FORMER, dropped)):
                    if number:
                        self._store.counters.count(counter, number)
            self._look_at_us = now.monotonic_us + (0 if expired or dropped else MAILBOX_LOOK_US)
            if gone:
                self._report("info", f"deleted the inboxes of {len(gone)} devices that are no longer in any group")
            if dropped:
                self._report("info", f"deleted {dropped} messages pushed by devices that are no longer in any group")
        wake_at_us = service.next_wake_us()
        return self._look_at_us if wake_at_us is None else min(self._look_at_us, wake_at_us)

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


class BeingWoken:
    """Asks the mailboxes of this device's groups to wake it by these hooks."""

    def __init__(self, hooks: tuple[WakeHook, ...]) -> None:
        self._hooks = hooks

    def turn(self, node: Node, now: Now) -> int | None:
        """Say so to the node, which may be another one than before."""
        del now
        if (exchange := node.mailboxes.exchange) is not None:
            exchange.be_woken(self._hooks)
        return None

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


_BY_NAME = {"mqtt": Hook.MQTT, "program": Hook.PROGRAM}


def mailbox_roles(device: Device, *, serve: bool) -> list[AgentRole]:
    """Return the roles of a mailbox, and of a device that wants to be woken by one.

    Raises:
        ConfigurationError: a hook, address or program that is none.
    """
    settings = device.config.mailbox
    roles: list[AgentRole] = []
    if serve:
        caller = WakeCaller(settings.wake_webhooks, settings.wake_program, report)
        maximum = settings.maximum_mib * MIB
        roles.append(MailboxRole(device.store, maximum, caller.wake, report, by_topic=settings.wake_topics))
    if settings.wake:
        roles.append(BeingWoken(tuple(map(_hook, settings.wake))))
    return roles


def _hook(text: str) -> WakeHook:
    if text in _BY_NAME:
        return WakeHook(_BY_NAME[text], text)
    if not text.startswith("https://") or len(text.encode()) > MAXIMUM_HOOK_BYTES:
        raise ConfigurationError(f"mailbox.wake: '{text}' must be mqtt, program or an https:// address")
    return WakeHook(Hook.WEBHOOK, text)
