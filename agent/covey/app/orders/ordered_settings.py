"""Doing what operators have told this device to set, as a role of the agent (docs/protocol.md, "Settings").

A turn stores what is to be, and only then lets it hold: the layer of the configuration is written after the commit, and
the first turn of the next process writes it where a crash came between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId
from covey.core.node import Node
from covey.core.now import Now
from covey.core.settings.obedience import RELAY_SILENT, Desired, Obedience, Objection
from covey.core.settings.states import SettingState
from covey.errors import LocalError
from covey.limits.history import ANNOUNCE_US
from covey.limits.settings import RELAY_TRIAL_US, SETTINGS_RESTART_US
from covey.ports import Report, Transactions

if TYPE_CHECKING:
    from covey.core.records.orders import OrderedSettingRecords

_LOOK_US = 60_000_000
"""Between two looks while nothing has come: labels, and who operates, change with the manifest."""
_SECOND_US = 1_000_000


class Orders(Protocol):
    """What operators want, by what this device knows."""

    def desired(self, node: Node) -> list[Desired]:
        """Return what is wanted of this device, each key once."""

    def hearers(self, node: Node, group_id: GroupId) -> list[DeviceKey]:
        """Return who is to know what became of it: operators, and collectors."""


class Layer(Protocol):
    """The layer of the configuration that operators make, and what follows of a change of it."""

    def write(self) -> bool:
        """Have it be what is stored; return whether it was not."""

    def take_up(self, keys: Iterable[str]) -> bool:
        """Let changed keys hold in this process; return whether it needs a restart."""

    def relays_answer(self) -> bool:
        """Say whether every configured relay is reached."""


class OrderedSettings:
    """Obeys, and reports."""

    def __init__(
        self,
        store: Transactions,
        records: OrderedSettingRecords,
        obedience: Obedience,
        orders: Orders,
        layer: Layer,
        restart: Callable[[], None],
        report: Report,
    ) -> None:
        self._store = store
        self._records = records
        self._obedience = obedience
        self._orders = orders
        self._layer = layer
        self._restart = restart
        self._report = report
        self._started_us: int | None = None
        self._seen: tuple[int, int] | None = None
        self._look_at_us = 0
        self._restart_wanted = False
        self._owes_report = True
        self._tried_here: set[tuple[str, Scalar | None]] = set()
        """Keys and values on trial when this process began, whoever orders them: others hold from the next one on."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""
        first = self._started_us is None
        started_us = self._started_us = now.monotonic_us if self._started_us is None else self._started_us
        changed: list[str] = []
        if first:
            changed += self._within(lambda: self._obedience.prove(now.wall_us, (SettingState.RESTARTING,)))
        seen = (id(node), node.history.generation)
        if first or seen != self._seen or now.monotonic_us >= self._look_at_us:
            self._seen, self._look_at_us = seen, now.monotonic_us + _LOOK_US
            desired = self._orders.desired(node)
            changed += self._within(lambda: self._obedience.obey(desired, now.wall_us, rejudge=first))
            self._owes_report = True
        on_trial = (each for each in self._records.all() if each.state is SettingState.TRIED)
        tried = {(each.key, None if each.held is None else each.held.value) for each in on_trial}
        if first:
            self._tried_here = tried
        trial = bool(tried) and tried <= self._tried_here  # else this process speaks with another relay
        if trial and not first:
            changed += self._try(now, now.monotonic_us - started_us)
        self._let_hold(changed)
        if self._owes_report:
            self._report_settings(node, now)
        if self._restart_wanted and now.monotonic_us >= started_us + SETTINGS_RESTART_US:
            self._restart_wanted = False
            self._restart()
        return self._next(started_us, now, trial=trial)

    def _next(self, started_us: int, now: Now, *, trial: bool) -> int:
        due = [self._look_at_us]
        if trial:
            due.append(now.monotonic_us + _SECOND_US)
        if self._restart_wanted:
            due.append(started_us + SETTINGS_RESTART_US)
        if self._owes_report:
            due.append(now.monotonic_us + ANNOUNCE_US)
        return min(due)

    def _within(self, work: Callable[[], list[str]]) -> list[str]:
        """Do what stores something, in a transaction of its own."""
        with self._store.transaction():
            return work()

    def _try(self, now: Now, running_us: int) -> list[str]:
        """See whether a relay that operators named answers, or has had its time."""
        if self._layer.relays_answer():
            return self._within(lambda: self._obedience.prove(now.wall_us, (SettingState.TRIED,)))
        if running_us < RELAY_TRIAL_US:
            return []
        why = Objection(RELAY_SILENT, f"the relay did not answer within {RELAY_TRIAL_US // 1_000_000} s")
        given_back = self._within(lambda: self._obedience.revert(why, now.wall_us, (SettingState.TRIED,)))
        self._report("warning", f"{', '.join(given_back)}: {why.why}; the address of before holds again")
        return given_back

    def _let_hold(self, changed: list[str]) -> None:
        if changed:
            self._owes_report = True
        if self._layer.write() and self._layer.take_up(changed):
            self._restart_wanted = True

    def _report_settings(self, node: Node, now: Now) -> None:
        """Report what became of it; what has to wait for an acknowledgement is looked at again."""
        given = self._records.all()
        waiting = False
        try:
            with self._store.transaction():
                for group in node.groups.joined():
                    settings = [each.reported for each in given if each.group_id == group.group_id]
                    hearers = self._orders.hearers(node, group.group_id)
                    waiting |= node.setting_reports.queue(group.group_id, hearers, settings, now)
        except LocalError:  # the outbox is full
            waiting = True
        self._owes_report = waiting

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
