"""How this device wants to be woken by mailboxes when something waits: said after each welcome (002.15, 002.16).

First in each run a mailbox is told to forget all hooks of before, by an UNREGISTER_PUSH without a target.
"""

from __future__ import annotations

from collections.abc import Iterator

from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import Hook, RegisterPush, UnregisterPush
from covey.core.mailbox.records import WakeHook


class HookRegistration:
    """The hooks that are wanted, and after which of its welcomes each mailbox was told."""

    def __init__(self) -> None:
        self.wanted: tuple[WakeHook, ...] = ()
        self._reported: dict[DeviceKey, int] = {}

    def due(self, mailbox: DeviceKey, welcomes: int) -> Iterator[RegisterPush | UnregisterPush]:
        """Yield what a mailbox is to be told."""
        if mailbox not in self._reported:
            yield UnregisterPush(Hook.MQTT, "")
        if self._reported.get(mailbox, 0) < welcomes:
            for hook in self.wanted:
                yield RegisterPush(hook.kind, hook.target)
            self._reported[mailbox] = welcomes
