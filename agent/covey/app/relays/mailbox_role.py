"""Being a mailbox, and being woken by one, as roles of the agent (docs/protocol.md, "Mailbox").

What is kept and who may speak is decided in `core/mailbox/`. Here is what needs a turn: what expires, and whom to wake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.core.group.device_labels import DeviceLabels
from covey.limits.mailbox import MAILBOX_LOOK_US
from covey.ports import Report, Transactions

if TYPE_CHECKING:
    from covey.core.ids import DeviceKey
    from covey.core.mailbox.records import WakeHook
    from covey.core.node import Node
    from covey.core.now import Now


class MailboxRole:
    """Keeps what waits for sleepers, in `maximum_bytes` at most.

    `wake` calls a webhook or a program for a device, and waits for nothing; `by_topic`: a device may be woken by a
    publish, too, where it asks for that.
    """

    def __init__(
        self,
        store: Transactions,
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
                expired, gone = service.maintain(now), service.forget_strangers()
            self._look_at_us = now.monotonic_us + (0 if expired else MAILBOX_LOOK_US)
            if gone:
                self._report("info", f"the inboxes of {len(gone)} devices went that are in no group any more")
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
