"""Load the mailbox code only once one of this device's groups names a mailbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.core.group.manifest import MAILBOX
from covey.core.ids import DeviceKey
from covey.core.membership.groups import Groups

if TYPE_CHECKING:
    from covey.core.mailbox.exchange import MailboxExchange


class Mailboxes:
    """The exchange with the mailboxes of this device's groups, `make`d when there are any."""

    def __init__(self, groups: Groups, make: Callable[[], MailboxExchange]) -> None:
        self._groups = groups
        self._make = make
        self._exchange: MailboxExchange | None = None
        self._generation = -1

    @property
    def exchange(self) -> MailboxExchange | None:
        """The exchange; None while no group names a mailbox."""
        if self._generation != self._groups.generation:
            self._generation = self._groups.generation
            if not any(group.with_capability(MAILBOX) for group in self._groups.joined()):
                self._exchange = None
            elif self._exchange is None:
                self._exchange = self._make()
                self._exchange.refresh()
        return self._exchange

    def seen(self, device: DeviceKey) -> None:
        """Note that a device is there: it needs no mailbox for now."""
        if self.exchange is not None:
            self.exchange.seen(device)
