"""The role that applies settings given by operators (docs/protocol/history.md, "Settings").

A turn stores the new value before it takes effect: the configuration layer is written after the commit, and the first
turn of the next process writes it if a crash came between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from covey.adapters.journal import report
from covey.adapters.keys.relay_credential import place
from covey.app.device.pins import pins
from covey.app.orders.kept_orders import KeptOrders
from covey.app.orders.owner_rules import OwnerRules, write_layer
from covey.config.settings import settings
from covey.core.group.manifest import COLLECTOR, GroupManifest
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId
from covey.core.node import Node
from covey.core.now import Now
from covey.core.settings.desired import GivenOrder, GroupSettings, desired, reported
from covey.core.settings.obedience import NOT_STARTED, RELAY_SILENT, Desired, Obedience, Objection
from covey.core.settings.states import SettingState
from covey.errors import LocalError
from covey.limits.history import ANNOUNCE_US
from covey.limits.settings import RELAY_TRIAL_US, SETTINGS_RESTART_US
from covey.ports import Report, Transactions

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.records.orders import OrderedSettingRecords


_LOOK_US = 60_000_000
"""Between two looks while nothing has come: labels, and who operates, change with the manifest."""
_SECOND_US = 1_000_000


class Layer(Protocol):
    """The layer of the configuration that operators make. A device has one, and one is simulated."""

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
        orders: PinnedOperators,
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
        self._desired: list[Desired] = []
        self._restart_wanted = False
        self._owes_report = True
        self._tried_here: set[tuple[str, Scalar | None]] = set()
        """Keys and values on trial when this process began, whichever operator ordered them: others apply from the next
        process on."""

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
            self._desired = self._orders.desired(node)
            changed += self._within(lambda: self._obedience.obey(self._desired, now.wall_us, rejudge=first))
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
        with self._store.transaction():
            return work()

    def _try(self, now: Now, running_us: int) -> list[str]:
        if self._layer.relays_answer():
            return self._within(lambda: self._obedience.prove(now.wall_us, (SettingState.TRIED,)))
        if running_us < RELAY_TRIAL_US:
            return []
        why = Objection(RELAY_SILENT, f"the relay did not answer within {RELAY_TRIAL_US // 1_000_000} s")
        given_back = self._within(lambda: self._obedience.revert(why, now.wall_us, (SettingState.TRIED,)))
        self._report("warning", f"{', '.join(given_back)}: {why.why}; the earlier address applies again")
        return given_back

    def _let_hold(self, changed: list[str]) -> None:
        if changed:
            self._owes_report = True
        if self._layer.write() and self._layer.take_up(changed):
            self._restart_wanted = True

    def _report_settings(self, node: Node, now: Now) -> None:
        """Report results; those that wait for an acknowledgement are looked at again."""
        settings = reported(self._records.all(), self._desired)
        waiting = False
        try:
            with self._store.transaction():
                for group in node.groups.joined():
                    hearers, own = self._orders.hearers(node, group.group_id), settings.get(group.group_id, [])
                    waiting |= node.setting_reports.queue(group.group_id, hearers, own, now)
        except LocalError:  # the outbox is full
            waiting = True
        self._owes_report = waiting

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


_KINDS = (OperationKind.OPERATOR, OperationKind.SETTING, OperationKind.APPROVAL)

_UP = "up"


def settings_role(device: Device, restart: Callable[[], None]) -> OrderedSettings:
    """Return the role that applies operators' settings; `restart` restarts the agent."""
    obedience = _obedience(device)
    return OrderedSettings(
        device.store,
        device.store.ordered_settings,
        obedience,
        PinnedOperators(device),
        ConfiguredLayer(device),
        restart,
        report,
    )


class PinnedOperators:
    """The orders of the operators that a device's owner has pinned."""

    def __init__(self, device: Device) -> None:
        weigh = partial(GroupSettings, device.store.operations)
        self._orders = KeptOrders(device.store, _KINDS, partial(pins, device), weigh)

    def desired(self, node: Node) -> list[Desired]:
        """Return what is wanted of this device, each key once."""
        own = node.identity.signing_public
        given: list[GivenOrder] = []
        for group in node.groups.joined():
            member = group.member(own)
            if member is not None:
                given += self._orders.of(node, group).of([member])[own].values()
        return desired(given)

    def hearers(self, node: Node, group_id: GroupId) -> list[DeviceKey]:
        """Return the recipients of its results: operators, and collectors."""
        group, own = node.groups.group(group_id), node.identity.signing_public
        operators = self._orders.of(node, group).weighed.operators
        return [
            member.keys.signing_public
            for member in group.members
            if member.keys.signing_public != own
            and not member.is_board
            and (member.keys.signing_public in operators or COLLECTOR in member.capabilities)
        ]


def group_settings(device: Device, group: GroupManifest) -> GroupSettings:
    """Return what operators want in a group, by what this device knows."""
    void = device.node.history.standing(group.group_id).void
    return GroupSettings(device.store.operations, group, pins(device, group.group_id), void)


def write_layer_at_start(device: Device) -> bool:
    """Count the start for what has to prove itself; return whether the configuration was not what it should be."""
    with device.store.transaction():
        _obedience(device).begin(device.clock.wall_us())
    return write_layer(device.folder, device.store)


def give_back(device: Device, why: str) -> bool:
    """Let what held before hold again in place of what has not proved itself; return whether there was any."""
    with device.store.transaction():
        given_back = _obedience(device).revert(Objection(NOT_STARTED, why), device.clock.wall_us())
    return write_layer(device.folder, device.store) and bool(given_back)


def _obedience(device: Device) -> Obedience:
    return Obedience(device.store.ordered_settings, OwnerRules(device.folder, device.live), device.node.identity.noise)


class ConfiguredLayer:
    """The layer of one device; implements `Layer`."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def write(self) -> bool:
        return write_layer(self._device.folder, self._device.store)

    def take_up(self, keys: Iterable[str]) -> bool:
        device, keys = self._device, [key for key in keys if key in settings()]
        device.live.change(device.folder.configuration.config(), keys)
        return not all(device.live.follows(key) for key in keys)

    def relays_answer(self) -> bool:
        relay, conditions = self._device.config.relay, self._device.store.conditions.values()
        return all(conditions.get(f"relay {place(url)}", ("",))[0] == _UP for url in (relay.url, *relay.also))
