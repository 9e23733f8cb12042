"""The devices of worlds with plans: gateways that obey, an operator's laptop and phone, and the state they begin with.

Core, tables, roles and the operator's side are the product's. A database is in memory; programs are recorded.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from covey.adapters.keys.storage_key import StorageKey
from covey.app.orders.moved_devices import MovedDevices
from covey.app.orders.ordered_actions import OrderedActions
from covey.app.orders.pinned_commands import PinnedCommands
from covey.config.schema import Config, OperationsConfig
from covey.core.actions.commands import ObeyedSince
from covey.core.actions.definition import (
    INSTALLER_ARGUMENTS,
    MOVE,
    MOVE_ACTION,
    ActionDefinition,
    Invocation,
    LimitedText,
    ProgramBounds,
)
from covey.core.actions.execution import Execution
from covey.core.actions.installation import Installation
from covey.core.actions.installing import Installing
from covey.core.actions.moving import Moving
from covey.core.actions.results import NOT_FETCHED
from covey.core.group.manifest import COLLECTOR, GroupManifest, Member, Mode, read_manifest
from covey.core.history.files import FileOffer
from covey.core.history.operation import read_operation
from covey.core.history.orders import Obeying
from covey.core.ids import GroupId, Incarnation, OperationId, key_text
from covey.core.node import Node
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.errors import ActionError
from covey.ports import ProgramEnd
from tests.fleet import Device, carry, identity
from tests.sim.commanded import Commanded
from tests.sim.disk import Disk
from tests.sim.template import in_memory
from tests.sim.unlucky import Unlucky, UnluckyStore
from tests.staging import Unstaged

LAPTOP, PHONE, EVE = "laptop", "phone", "eve"
"""Two devices of the operator; and a member of the first group who is hostile."""
INSTALLER = "pump"
TRIAL_US = 60_000_000
LABELS = ("pump", "valve")
PINS = Pins(frozenset(identity(name).signing_public for name in (LAPTOP, PHONE)))
_MOVE = ActionDefinition(MOVE_ACTION, "move", (*MOVE, "{group}"), {"group": LimitedText(64, "0123456789abcdef")})
_PUMP = ActionDefinition(INSTALLER, INSTALLER, ("/bin/pump",), INSTALLER_ARGUMENTS, trial_us=TRIAL_US)


class _Store(UnluckyStore):
    """Is in memory, and outlives the process."""

    def __init__(self, disk: Disk, path: Path, incarnation: Incarnation, key: StorageKey, outbox_bytes: int) -> None:
        self._disk = disk
        path.touch(0o600)
        super().__init__(path, incarnation, key, outbox_bytes)

    def _connect(self, _path: Path) -> sqlite3.Connection:
        return self._disk.connect()


class _Files(Unstaged):
    """The files that are offered in a gateway's groups; `version` is the name of the last one that was fetched."""

    def __init__(self, store: UnluckyStore) -> None:
        self._store = store
        self.version = ""

    def fetch(self, installation: Installation) -> Invocation | None:
        """Return what opens an offered file."""
        raw = self._store.operations.raw(installation.group_id, OperationId(bytes.fromhex(installation.file)))
        if raw is None:
            raise ActionError("no member offers a file with that id", NOT_FETCHED)
        self.version = FileOffer.from_wire(read_operation(raw, verify=False).body).name
        return Invocation(installation.action, {}, ("covey", "get"), ProgramBounds())


@dataclass(frozen=True, slots=True)
class _Ended:
    end: ProgramEnd

    def look(self, _now_us: int) -> ProgramEnd | None:
        return self.end

    def stop(self) -> ProgramEnd:
        return self.end


class Gateway(Commanded):
    """Obeys an operator: runs commands, installs what passes its trial, and moves to other groups.

    `installs` counts how often each version was put in place; `stayed` are those that passed.
    """

    def __init__(self, name: str, folder: Path, chance: random.Random, disk: Disk) -> None:
        self._disk = disk
        self.version, self._kept = "good", ""
        self.installs = Counter[str]()
        self.stayed: set[str] = set()
        super().__init__(name, folder, chance, PINS)

    def _opened(self, path: Path, incarnation: Incarnation, storage_key: StorageKey, outbox_bytes: int) -> UnluckyStore:
        store = _Store(self._disk, path, incarnation, storage_key, outbox_bytes)
        store.cut = lambda: self._luck.random() < self.odds
        return store

    def _boot(self) -> None:
        super()._boot()
        self.files = _Files(self.store)  # type: ignore[arg-type] # it is what `_opened` returns
        commands = self.store.commands
        installing = Installing(self.store.installations, self, self.files)
        self.actions = OrderedActions(
            self.store,
            commands,
            Execution(commands, self, self.identity.noise, installing, Moving(self.store)),
            PinnedCommands(self.store, lambda _group_id: PINS),
            *(self, self, lambda _level, _line: None),
            *(lambda: self.name, lambda: False),
        )

    @property
    def is_cut_off(self) -> bool:
        """Whether what runs has cut it off."""
        return self.version.startswith("deaf")

    def action(self, name: str) -> ActionDefinition:
        """Return an action that is allowed."""
        return {MOVE_ACTION: _MOVE, INSTALLER: _PUMP}.get(name) or super().action(name)

    defined = action

    def start(self, invocation: Invocation, now_us: int) -> Any:
        """Start a program: its effect is at once."""
        if invocation.action != INSTALLER:
            return super().start(invocation, now_us)
        self._may_lose_power()
        code = 0
        match invocation.step:
            case "install":
                self._kept = self._kept or self.version
                self.version = self.files.version
                self.installs[self.version] += 1
            case "confirm":
                code = int(not self.version.startswith("good"))
                if not code:
                    self.stayed.add(self.version)
                    self._kept = ""
            case "rollback" if self._kept:
                self.version, self._kept = self._kept, ""
        self._may_lose_power()
        return _Ended(ProgramEnd(code, self.version.encode(), cut=False, timed_out=False))


@dataclass(frozen=True)
class Opened:
    """An own device as commands open it."""

    store: UnluckyStore
    node: Node
    clock: Own
    config: Config
    folder: Any

    def now(self) -> Now:
        """Return its clocks."""
        return self.clock.now


class Own(Unlucky):
    """One of the operator's devices, or of somebody's who would like to be one."""

    def __init__(self, name: str, folder: Path, chance: random.Random, disk: Disk) -> None:
        self._disk = disk
        self._folder = SimpleNamespace(wake_pipe=folder / f"{name} has no agent", path=folder)
        super().__init__(name, folder, chance)

    def _opened(self, path: Path, incarnation: Incarnation, storage_key: StorageKey, outbox_bytes: int) -> UnluckyStore:
        store = _Store(self._disk, path, incarnation, storage_key, outbox_bytes)
        store.cut = lambda: self._luck.random() < self.odds
        return store

    def _boot(self) -> None:
        super()._boot()
        self._moved = MovedDevices(self.opened)

    @property
    def opened(self) -> Any:
        """The device as commands open it."""
        operators = tuple(sorted(key_text("sign", each) for each in PINS.operators))
        config = Config(operations=OperationsConfig(operators))
        return Opened(self.store, self.node, self, config, self._folder)  # type: ignore[arg-type] # as `_opened` says

    def _maintain(self) -> None:
        super()._maintain()
        self._moved.turn(self.node, self.now)
        if self.node.discarded:
            self.replace_node()

    # -- its clock (`ports.Clock`) -------------------------------------------------------------------------------------

    def monotonic_us(self) -> int:
        """Return microseconds since some time."""
        return self.now.monotonic_us

    def wall_us(self) -> int:
        """Return microseconds since 1970."""
        return self.now.wall_us


@dataclass(frozen=True, slots=True)
class PlannedTemplate:
    """States by device name, in memory; the operator's groups; and in which of them each gateway is at first."""

    states: dict[str, sqlite3.Connection]
    groups: tuple[GroupId, ...]
    gateways: dict[str, GroupId]


@cache
def planned_template(sites: int, gateways: int) -> PlannedTemplate:
    """Return what a world begins with: so many groups, each of a collector and so many gateways that obey."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        laptop, phone, eve = (Device(name, folder) for name in (LAPTOP, PHONE, EVE))
        personal = _lay_down(laptop, [Member(phone.identity.keys, PHONE)], [phone], Mode.PERSONAL)
        for own in (laptop, phone):
            with own.store.transaction():
                own.store.personal.pin(personal)
        devices, groups, where = [laptop, phone, eve], [], {}
        for site in range(sites):
            collector = Device(f"collector {site}", folder, collects=True)
            obeying = [Device(f"gateway {site} {number}", folder) for number in range(gateways)]
            members = [Member(phone.identity.keys, PHONE), Member(collector.identity.keys, capabilities=(COLLECTOR,))]
            members += [Member(each.identity.keys, LABELS[place % 2]) for place, each in enumerate(obeying)]
            others = [phone, collector, *obeying]
            if site == 0:
                members.append(Member(eve.identity.keys, EVE))
                others.append(eve)
            group = _lay_down(laptop, members, others, Mode.INVITES_ONLY)
            for each in obeying:
                _obey(each, group)
                where[each.name] = group
            carry(laptop, *others)
            groups.append(group)
            devices += [collector, *obeying]
        carry(*devices)
        for each in devices:
            assert each.store.outbox.totals()[0] == 0, "nothing is under way"
            each.store.close()
        return PlannedTemplate({each.name: in_memory(each.path) for each in devices}, tuple(groups), where)


def _lay_down(first: Device, members: Iterable[Member], others: Iterable[Device], mode: Mode) -> GroupId:
    """Create a group, and give it to members as if they had joined long ago."""
    membership, now_us = first.node.membership, first.now.wall_us

    def with_all(draft: GroupManifest) -> GroupManifest:
        for each in members:
            draft = draft.adding(replace(each, since=draft.version))
        return draft

    with first.store.transaction():
        group_id = membership.create(first.name, (), now_us, mode).group_id
        membership.change(group_id, lambda draft, _: with_all(draft), now_us)
    current, secret = membership.groups.group(group_id), membership.groups.secret(group_id)
    assert secret is not None
    for other in others:
        with other.store.transaction():
            for raw in first.store.groups.manifests_from(group_id, 1):
                each = read_manifest(raw)
                other.store.groups.save_manifest(group_id, each.hash, each.version, raw, 0)
            other.store.groups.save_secret(group_id, current.epoch_id, secret, 0)
        other.node.refresh()
    return group_id


def _obey(device: Device, group_id: GroupId) -> None:
    """Have a device begin to obey in a group, as its role does."""
    with device.store.transaction():
        operation = device.node.history.write(group_id, Obeying(), device.now)
        since = ObeyedSince(operation.id, operation.height, device.store.incarnations.present())
        device.store.commands.note_obeyed(group_id, since)
