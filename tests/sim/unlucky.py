"""A device whose power goes inside of commits and between them, and whose state is lost or put back from a copy."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.history.history import History
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import GroupId, Incarnation
from covey.errors import LocalError, UnknownGroupError
from tests.fleet import Device, open_store


class PowerCutError(Exception):
    """The power went."""


class UnluckyStore(SqliteStore):
    """Loses the power at a commit, before it or after it."""

    cut: Callable[[], bool] = staticmethod(lambda: False)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction, of which the power may leave nothing or all."""
        with super().transaction():
            yield
            self._boundary()
        self._boundary()

    def _boundary(self) -> None:
        if self.cut():
            raise PowerCutError


class Unlucky(Device):
    """`odds` are those of a power cut beside each commit."""

    def __init__(self, name: str, folder: Path, chance: random.Random, *, presence_us: int = 0) -> None:
        self.odds = 0.0
        self.was_restored = False
        self._luck = chance
        self._backup: Path | None = None
        super().__init__(name, folder, chance=chance, opens=self._opened, presence_us=presence_us)

    def _opened(self, path: Path, incarnation: Incarnation, storage_key: StorageKey, outbox_bytes: int) -> SqliteStore:
        open_store(path, incarnation).close()
        store = UnluckyStore(path, incarnation, storage_key, outbox_bytes)
        store.cut = lambda: self._luck.random() < self.odds
        return store

    def restart(self) -> None:
        """Lose the process, and begin another one, as often as the power lets it not come so far."""
        while not self._lasts(self._boot):
            pass

    def _boot(self) -> None:
        super().restart()

    def _lasts(self, work: Callable[[], object]) -> bool:
        try:
            work()
        except PowerCutError:
            return False
        return True

    def does(self, work: Callable[[], object]) -> bool:
        """Do something; return whether the power lasted."""
        if self._lasts(work):
            return True
        self.restart()
        return False

    def maintain(self) -> None:
        """Write what is due."""
        self.does(self._maintain)

    def _maintain(self) -> None:
        super().maintain()

    def receive(self, envelope: bytes) -> None:
        """Take an envelope in; without power it comes again."""
        self.does(lambda: super(Unlucky, self).receive(envelope))

    # -- its state ----------------------------------------------------------------------------------------------------

    def back_up(self) -> None:
        """Copy the state as it is, once."""
        if self._backup is None:
            self._backup = self.copy_state()

    def restore(self) -> None:
        """Put the copy in the place of the state, as is noticed at the next start."""
        if self._backup is not None:
            self.was_restored = True
            self.return_to(self._backup)

    def lose_state(self) -> None:
        """Lose the database: the keys are all that is left, and what lies in files beside it."""
        self.was_restored = True
        self.return_to(None)

    # -- what is here -------------------------------------------------------------------------------------------------

    def operations(self, group_id: GroupId) -> list[Operation]:
        """Return the history as it is here."""
        return [read_operation(stored.raw, verify=False) for stored in self.store.operations.in_order(group_id)]

    def write_operation(self, group_id: GroupId, body: Any) -> Operation | None:
        """Say something in a group, unless the power goes first or this device may not, or has lost the group."""
        written: list[Operation] = []

        def work() -> None:
            history: History = self.node.history
            with self.store.transaction():
                operation = history.write(group_id, body, self.now)
            written.append(operation)

        try:
            self.does(work)
        except (LocalError, UnknownGroupError):
            self.replace_node()
        return written[0] if written else None
