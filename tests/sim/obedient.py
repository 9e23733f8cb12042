"""A device that obeys operators: core, tables and role are the product's; what it sets is recorded at the port.

Its power goes inside of commits and between them. What it lets hold is a file: it outlives the process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from covey.adapters.sqlite.store import SqliteStore
from covey.app.roles.ordered_settings import OrderedSettings
from covey.app.setting_orders import PinnedOperators
from covey.config.schema import Config, OperationsConfig
from covey.core.history.history import History
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import Scalar
from covey.core.ids import GroupId, Incarnation, key_text
from covey.core.orders.authority import Pins
from covey.core.settings.obedience import Effect, Obedience
from covey.core.settings.states import SettingState
from covey.errors import LocalError, SettingError
from tests.fleet import Device, open_store

BAD_RELAY = "mqtt://nobody"


class PowerCutError(Exception):
    """The power went."""


class _Store(SqliteStore):
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


class Obedient(Device):
    """Obeys whom its owner pinned; `odds` are those of a power cut beside each commit."""

    def __init__(self, name: str, folder: Path, chance: random.Random, pins: Pins) -> None:
        self.odds = 0.0
        self.holds: dict[str, Scalar] = {}
        """The file of what operators have set."""
        self.taken_up: list[tuple[str, ...]] = []
        self._luck, self._pins = chance, pins
        self._backup: Path | None = None
        self.was_restored = False
        self._wants_start = False
        super().__init__(name, folder, chance=chance, opens=self._opened)

    def _opened(self, path: Path, incarnation: Incarnation, outbox_bytes: int) -> SqliteStore:
        open_store(path, incarnation, outbox_bytes).close()
        store = _Store(path, incarnation, outbox_bytes)
        store.cut = lambda: self._luck.random() < self.odds
        return store

    def restart(self) -> None:
        """Lose the process, and begin another one, as often as the power lets it not come so far."""
        while not self._lasts(self._boot):
            pass

    def _boot(self) -> None:
        super().restart()
        store, records = self.store, self.store.ordered_settings
        obedience = Obedience(records, self, self.identity.noise)
        with store.transaction():
            obedience.begin(self.now.wall_us)
        self.write()
        config = Config(
            operations=OperationsConfig(
                tuple(key_text("sign", each) for each in sorted(self._pins.operators)), self._pins.threshold
            )
        )
        opened: Any = SimpleNamespace(store=store, config=config)
        self.operators = PinnedOperators(opened)
        self.role = OrderedSettings(
            store, records, obedience, self.operators, self, self._want_start, lambda _level, _line: None
        )

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
        """Write what is due, and obey."""
        self.does(self._maintain)
        if self._wants_start:
            self._wants_start = False
            self.restart()

    def _maintain(self) -> None:
        super().maintain()
        self.role.turn(self.node, self.now)
        if self.node.discarded:
            self.replace_node()

    def receive(self, envelope: bytes) -> None:
        """Take an envelope in; without power it comes again."""
        self.does(lambda: super(Obedient, self).receive(envelope))

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
        """Lose the database: the keys are all that is left, and the file of what operators set."""
        self.was_restored = True
        self.return_to(None)

    # -- what its owner lets operators set, and what follows of it (`obedience.Owner`, `ordered_settings.Layer`) -------

    def check(self, key: str, value: Scalar | None) -> None:
        """Check that operators may set a key; every value but a truth value is one."""
        if key.startswith("local."):
            raise SettingError("for the owner alone", "setting_local")
        if isinstance(value, bool):
            raise SettingError("no value", "setting_value")

    def effect(self, key: str) -> Effect:
        """Return how a value takes effect: the key's first part says so."""
        return {"app": Effect.BY_A_PROGRAM, "relay": Effect.ON_TRIAL, "start": Effect.AT_A_START}.get(
            key.partition(".")[0], Effect.AT_ONCE
        )

    def write(self) -> bool:
        """Have the file be what is stored; return whether it was not."""
        rows = self.store.ordered_settings.all()
        wanted = {each.key: each.held.value for each in rows if each.held is not None}
        changed, self.holds = wanted != self.holds, wanted
        return changed

    def take_up(self, keys: Iterable[str]) -> bool:
        """Let changed keys hold; return whether that needs a start."""
        self.taken_up.append(tuple(keys))
        states = {each.key: each.state for each in self.store.ordered_settings.all()}
        return any(
            states.get(key) in {SettingState.RESTARTING, SettingState.TRIED, SettingState.REVERTED} for key in keys
        )

    def relays_answer(self) -> bool:
        """Say whether the relay answers: all but one do."""
        return self.holds.get("relay.url") != BAD_RELAY

    def _want_start(self) -> None:
        self._wants_start = True

    # -- what is here -------------------------------------------------------------------------------------------------

    def operations(self, group_id: GroupId) -> list[Operation]:
        """Return the history as it is here."""
        return [read_operation(stored.raw, verify=False) for stored in self.store.operations.in_order(group_id)]

    def write_operation(self, group_id: GroupId, body: Any) -> Operation | None:
        """Say something in a group, unless the power goes first or this device may not."""
        written: list[Operation] = []

        def work() -> None:
            history: History = self.node.history
            with self.store.transaction():
                operation = history.write(group_id, body, self.now)
            written.append(operation)

        try:
            self.does(work)
        except LocalError:
            self.replace_node()
        return written[0] if written else None
