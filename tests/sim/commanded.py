"""A device that does what operators command: core, tables and role are the product's; programs are recorded.

A program has its effect when it starts, and ends later, or is lost with the power: that goes before a start, beside it,
and while a program runs, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from covey.app.orders.ordered_actions import OrderedActions
from covey.app.orders.pinned_commands import PinnedCommands
from covey.core.actions.definition import ActionDefinition, Ends, Integer, Invocation, LimitedText
from covey.core.actions.execution import Execution
from covey.core.actions.installing import Installing
from covey.core.actions.moving import Moving
from covey.core.actions.results import NOT_ALLOWED
from covey.core.orders.authority import Pins
from covey.errors import ActionError
from covey.ports import ProgramEnd
from tests.sim.obedient import Obedient
from tests.sim.unlucky import PowerCutError
from tests.staging import Unstaged

ACTIONS = {
    name: ActionDefinition(
        *(name, name, (f"/bin/{name}", "{number}"), {"number": Integer(0, 2**40)}),
        idempotent=name == "again",
        ends=ends,
    )
    for name, ends in (
        ("once", Ends.NOTHING),
        ("again", Ends.NOTHING),
        ("restart", Ends.AGENT),
        ("reboot", Ends.MACHINE),
    )
}
ACTIONS |= {
    f"hush-{name}": replace(
        ACTIONS[name],
        name=f"hush-{name}",
        arguments={**ACTIONS[name].arguments, "word": LimitedText(1_024, "0123456789abcdef")},
        stdin="{word}\n",
    )
    for name in ("once", "again")
}
"""By their names. What these two do besides, they are given a secret for."""
_LONGEST_US = 8_000_000


class _Program:
    def __init__(self, end: ProgramEnd, ends_at_us: int) -> None:
        self._end, self._ends_at_us = end, ends_at_us

    def look(self, now_us: int) -> ProgramEnd | None:
        return self._end if now_us >= self._ends_at_us else None

    def stop(self) -> ProgramEnd:
        return ProgramEnd(-15, b"", cut=False, timed_out=False)


class Commanded(Obedient):
    """`effects` are the numbers of the commands of which a program was started; `watch` is told of each before,
    and what it reads."""

    watch: Callable[[Commanded, int, bytes], None] = staticmethod(lambda _device, _number, _read: None)

    def __init__(self, name: str, folder: Path, chance: random.Random, pins: Pins) -> None:
        self.effects: list[int] = []
        self.first_number = 0
        """Commands of lower numbers were given before this device began to obey, as it now does."""
        self._boot_id = bytes(8)
        self._ends: Ends | None = None
        super().__init__(name, folder, chance, pins)

    def _boot(self) -> None:
        if self._ends is not Ends.AGENT:
            self._boot_id = self._luck.randbytes(8)
        self._ends = None
        super()._boot()
        commands = self.store.commands
        self.actions = OrderedActions(
            self.store,
            commands,
            Execution(
                *(commands, self, self.identity.noise),
                Installing(self.store.installations, self, Unstaged()),
                Moving(self.store),
            ),
            PinnedCommands(self.store, lambda _group_id: self._pins),
            *(self, self, lambda _level, _line: None),
            *(lambda: self.name, lambda: True),
        )

    def _maintain(self) -> None:
        super()._maintain()
        self.actions.turn(self.node, self.now)
        if self.node.discarded:
            self.replace_node()
        if self._ends is not None:
            self._want_start()

    def end_tidily(self) -> None:
        """End the process as it ends when it is told to, and begin another one in the same boot."""
        if self.does(lambda: self.actions.stop(self.node, self.now)):
            self._ends = Ends.AGENT
            self.restart()

    # -- what its owner defines, and its programs (`execution.ActionOwner`, `ports.Programs`) --------------------------

    def action(self, name: str) -> ActionDefinition:
        """Return an action that is allowed."""
        if name not in ACTIONS:
            raise ActionError(name, NOT_ALLOWED)
        return ACTIONS[name]

    defined = action

    def start(self, invocation: Invocation, now_us: int) -> _Program:
        """Start a program: its effect is at once."""
        self._may_lose_power()
        number = int(invocation.argv[-1])
        self.watch(self, number, invocation.stdin)
        self.effects.append(number)
        self._may_lose_power()
        ends = ACTIONS[invocation.action].ends
        if ends is not Ends.NOTHING:
            self._ends = ends
        end = ProgramEnd(self._luck.choice((0, 0, 1)), b"said " + invocation.stdin, cut=False, timed_out=False)
        return _Program(end, now_us + self._luck.randrange(_LONGEST_US))

    def _may_lose_power(self) -> None:
        if self._luck.random() < 5 * self.odds:
            raise PowerCutError

    # -- its clock (`ports.Clock`) -------------------------------------------------------------------------------------

    def monotonic_us(self) -> int:
        """Return microseconds since some time."""
        return self.now.monotonic_us

    def wall_us(self) -> int:
        """Return microseconds since 1970."""
        return self.now.wall_us

    def synchronised(self) -> bool:
        """Say whether the date can be believed."""
        return True

    def boot_id(self) -> bytes:
        """Return what another boot has otherwise."""
        return self._boot_id
