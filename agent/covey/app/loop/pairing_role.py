"""The inviter's side of pairing, loaded when this device has given out a code.

Most devices never invite another; an agent without `pairing_host.py` and what that loads needs 0.4 MiB less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.loop.pairing_host import PairingHost
    from covey.core.node import Node
    from covey.core.now import Now


class PairingWhenInvited:
    """The role of `PairingHost`, which exists from the first open code on."""

    def __init__(self, store: SqliteStore, make_host: Callable[[], PairingHost]) -> None:
        self._store = store
        self._make_host = make_host
        self._host: PairingHost | None = None

    def receive(self, topic: str, payload: bytes) -> None:
        """Take a message of a rendezvous; before there is a host, nobody listens there."""
        if self._host is not None:
            self._host.receive(topic, payload)

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due."""
        if self._host is None and self._store.pairings.any_to_look_after():
            self._host = self._make_host()
        return None if self._host is None else self._host.turn(node, now)

    def stop(self, node: Node, now: Now) -> None:
        """End what has begun."""
        if self._host is not None:
            self._host.stop(node, now)
