"""Taking up a noise key that a command has drawn, and wiping the ones whose time is over
(docs/protocol/groups.md, section 35)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.node import Node
from covey.core.now import Now
from covey.ports import Report, Transactions

if TYPE_CHECKING:
    from covey.adapters.keys.noise_key_file import NoiseKeyFile


_LOOK_US = 60_000_000


class KeyReload:
    """Keeps the noise keys in memory those of the file."""

    def __init__(self, file: NoiseKeyFile, store: Transactions, report: Report) -> None:
        self._file = file
        self._store = store
        self._report = report
        self._stamp: tuple[int, int] | None = None
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Look; return when to look again, where anything is retired."""
        stamp = self._file.stamp()
        if stamp != self._stamp:
            self._file.refresh(node.identity)
            self._stamp = stamp
        if not node.identity.noise.retired:
            return None
        if now.monotonic_us >= self._look_at_us:
            self._look_at_us = now.monotonic_us + _LOOK_US
            publics = node.actions.noise_keys_to_wipe(now)
            if publics:
                with self._store.transaction():
                    self._file.forget(node.identity, publics)
                for public in publics:
                    self._report("notice", f"deleted the earlier noise key {public[:4].hex()}")
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
