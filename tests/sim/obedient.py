"""A device that obeys operators: core, tables and role are the product's; what it sets is recorded at the port.

What it lets hold is a file: it outlives the process, and the state.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from covey.app.orders.setting_role import OrderedSettings, PinnedOperators
from covey.config.schema import Config, OperationsConfig
from covey.core.history.orders import Scalar
from covey.core.ids import key_text
from covey.core.orders.authority import Pins
from covey.core.settings.obedience import Effect, Obedience
from covey.core.settings.states import SettingState
from covey.errors import SettingError
from tests.sim.unlucky import Unlucky

BAD_RELAY = "mqtt://nobody"


class Obedient(Unlucky):
    """Obeys whom its owner pinned."""

    def __init__(self, name: str, folder: Path, chance: random.Random, pins: Pins) -> None:
        self.holds: dict[str, Scalar] = {}
        """The file of what operators have set."""
        self.taken_up: list[tuple[str, ...]] = []
        self._pins = pins
        self._wants_start = False
        super().__init__(name, folder, chance)

    def _boot(self) -> None:
        super()._boot()
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

    def maintain(self) -> None:
        """Write what is due, and obey."""
        super().maintain()
        if self._wants_start:
            self._wants_start = False
            self.restart()

    def _maintain(self) -> None:
        super()._maintain()
        self.role.turn(self.node, self.now)
        if self.node.discarded:
            self.replace_node()

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
