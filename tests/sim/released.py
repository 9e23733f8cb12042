"""Many devices that let operators install something on trial, over two brokers and a stick, in one seeded world.

Core, tables, roles and the operator's side are the product's; what is installed is recorded at the port, in place of a
program, and brokers are what carries envelopes or loses them. All begin as if they had joined and obeyed long ago.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.membership.groups import place_of_secret
from covey.app.orders.ordered_actions import OrderedActions
from covey.app.orders.pinned_commands import PinnedCommands
from covey.app.relays.export_files import export_files, import_files
from covey.config.schema import Config, OperationsConfig
from covey.core.actions.commands import ObeyedSince
from covey.core.actions.definition import INSTALLER_ARGUMENTS, ActionDefinition, Invocation
from covey.core.actions.execution import Execution
from covey.core.actions.installing import Installing
from covey.core.actions.moving import Moving
from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import Obeying
from covey.core.ids import Incarnation, inbox_name, key_text
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.limits.group import MAXIMUM_MANIFEST_BYTES
from covey.ports import ProgramEnd
from tests.fleet import START, Device, identity
from tests.staging import Staged

TRIAL_US = 60_000_000
_STEP_US = 5_000_000
_LOOK_US = 60_000_000
_TURNS, _TURN_US = 10, 250_000


@dataclass(frozen=True, slots=True)
class _Ended:
    end: ProgramEnd

    def look(self, _now_us: int) -> ProgramEnd:
        return self.end

    def stop(self) -> ProgramEnd:
        return self.end


class Pump(Device):
    """A device with one program on it; `version` is what runs, `versions` are all that ever did."""

    def __init__(self, name: str, folder: Path, pins: Pins) -> None:
        self._pins = pins
        self.version, self.kept, self.offered = "good 1", "", ""
        self.versions = ["good 1"]
        self.turns_at_us = 0
        self.cuts_off = ""
        """The version that cuts it off."""
        self.trial_us = TRIAL_US
        super().__init__(name, folder)

    def restart(self) -> None:
        """Begin a process."""
        super().restart()
        installing = Installing(self.store.installations, self, Staged())
        commands = PinnedCommands(self.store, lambda _group_id: self._pins)
        self.actions = OrderedActions(
            self.store,
            self.store.commands,
            Execution(self.store.commands, self, self.identity.noise, installing, Moving(self.store)),
            commands,
            *(self, self, lambda _level, _line: None),
            *(lambda: self.name, lambda: True),
        )

    @property
    def is_cut_off(self) -> bool:
        """Say whether what runs has cut it off."""
        return self.version == self.cuts_off

    def turn(self, now: Now) -> None:
        """Do what is due, as turns of the loop do within a step."""
        self.now = max(self.now, now, key=lambda each: each.monotonic_us)
        self.node.handle_deadline(self.now)
        for _ in range(_TURNS):
            self.maintain()
            self.actions.turn(self.node, self.now)
            if not self.store.installations.all():
                break
            self.now = Now(self.now.monotonic_us + _TURN_US, self.now.wall_us + _TURN_US)
        self.turns_at_us = self.now.monotonic_us + _LOOK_US

    # -- what its owner defines, and its program (`execution.ActionOwner`, `ports.Programs`) ---------------------------

    def action(self, name: str) -> ActionDefinition:
        """Return the one action."""
        return ActionDefinition(name, name, ("/bin/pump",), INSTALLER_ARGUMENTS, trial_us=self.trial_us)

    defined = action

    def start(self, invocation: Invocation, _now_us: int) -> _Ended:
        """Do what an installer is to do, at once."""
        code = 0
        match invocation.step:
            case "install":
                self.kept = self.kept or self.version
                self._run(self.offered)
            case "confirm":
                code = int(not self.version.startswith("good"))
                self.kept = self.kept if code else ""
            case "rollback" if self.kept:
                self._run(self.kept)
                self.kept = ""
        return _Ended(ProgramEnd(code, self.version.encode(), cut=False, timed_out=False))

    def _run(self, version: str) -> None:
        self.version = version
        self.versions.append(version)

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
        """Return what another boot has otherwise: there is none."""
        return bytes(8)


class ReleaseWorld:
    """An operator on both brokers, half of the devices on each, and some that a stick alone comes to."""

    def __init__(self, folder: Path, seed: int, devices: int, by_stick: int) -> None:
        self.chance = random.Random(seed)
        self.loss = 0.05
        self._one_memory = patch("covey.core.group.manifest.REMEMBERED_MANIFEST_BYTES", MAXIMUM_MANIFEST_BYTES)
        self._one_memory.start()  # a thousand devices in one process need not parse the same manifest a thousand times
        self.now = START
        pins = Pins(frozenset({identity("operator").signing_public}))
        self.operator = Pump("operator", folder, pins)
        names = [f"device {seed} {number}" for number in range(devices)]
        self.group = _group(self.operator, names)
        _begin_as_members(self.operator, names, folder, self.group)
        self.devices = [Pump(name, folder, pins) for name in names]
        self.by_stick = self.devices[devices - by_stick :]
        for each in self.by_stick:
            each.trial_us = 100 * TRIAL_US  # as long as somebody may take who comes with a stick
        self.brokers = [self.devices[: devices - by_stick : 2], self.devices[1 : devices - by_stick : 2]]
        self._by_key = {inbox_name(each.key): each for each in (*self.brokers[0], *self.brokers[1])}
        self._stick = folder / "stick"
        self._busy: set[Pump] = set()

    def close(self) -> None:
        """End everybody's process: each has files open."""
        self._one_memory.stop()
        for each in (self.operator, *self.devices):
            each.stop()

    def opened(self, device: Pump) -> Any:
        """Return a device as commands open it."""
        config = Config(operations=OperationsConfig((key_text("sign", self.operator.key),)))
        folder = SimpleNamespace(wake_pipe=Path(device.name, "no agent listens"))
        return SimpleNamespace(
            store=device.store, node=device.node, clock=device, config=config, folder=folder, now=lambda: device.now
        )

    def offer(self, version: str) -> None:
        """Have a file hold a version, wherever it is installed."""
        for each in self.devices:
            each.offered = version

    def step(self) -> None:
        """Let some seconds pass."""
        self.now = Now(self.now.monotonic_us + _STEP_US, self.now.wall_us + _STEP_US)
        self.operator.now = self.now
        self.operator.node.handle_deadline(self.now)
        for device in self.devices:
            if device in self._busy or device.turns_at_us <= self.now.monotonic_us:
                device.turn(self.now)
        while self._sent_down() + self._sent_up():
            continue

    def _sent_down(self) -> int:
        """Carry what the operator has for devices, but what gets lost; return how much that was."""
        count = 0
        for outgoing in self._sent(self.operator):
            device = self._by_key.get(outgoing.topic.rpartition("/")[2])
            if device is not None and not device.is_cut_off and self.chance.random() >= self.loss:
                device.receive(outgoing.envelope)
                self._busy.add(device)
                count += 1
        return count

    def _sent_up(self) -> int:
        """Carry what devices have for the operator, but what gets lost; return how much that was."""
        count = 0
        for device in [each for each in self._by_key.values() if each in self._busy]:
            device.turn(self.now)
            for outgoing in [] if device.is_cut_off else self._sent(device):
                if outgoing.topic.endswith(inbox_name(self.operator.key)) and self.chance.random() >= self.loss:
                    self.operator.receive(outgoing.envelope)
                    count += 1
            if not device.store.installations.all() and not device.store.outbox.totals()[0]:
                self._busy.discard(device)
        return count

    @staticmethod
    def _sent(device: Pump) -> list[Any]:
        device.node.make_acknowledgements_due(device.now)
        device.maintain()
        return device.sends()

    def carry_stick(self) -> None:
        """Carry what waits on a stick to those that nothing else comes to, and what they say back."""
        for device in self.by_stick:
            shutil.rmtree(self._stick, ignore_errors=True)
            list(export_files(self.opened(self.operator), self._stick, device.key.hex()))
            device.now, device.turns_at_us = self.now, 0
            list(import_files(self.opened(device), [str(self._stick)]))
            device.turn(self.now)
            shutil.rmtree(self._stick)
            list(export_files(self.opened(device), self._stick, self.operator.key.hex()))
            list(import_files(self.opened(self.operator), [str(self._stick)]))

    def was_on(self, version: str) -> set[Pump]:
        """Return the devices that ever were on a version."""
        return {each for each in self.devices if version in each.versions}

    def has(self, device: Pump, kind: OperationKind) -> bool:
        """Say whether an operation of a kind has come to a device."""
        return next(iter(device.store.operations.of_kind(self.group.group_id, kind)), None) is not None


def _group(operator: Pump, names: Iterable[str]) -> GroupManifest:
    """Make a group of an operator and others."""
    membership, now = operator.node.membership, operator.now
    with operator.store.transaction():
        group_id = membership.create("operator", (), now.wall_us).group_id
        members = [Member(identity(name).keys) for name in names]

        def with_all(draft: GroupManifest) -> GroupManifest:
            for each in members:
                draft = draft.adding(each)
            return draft

        membership.change(group_id, lambda draft, _: with_all(draft), now.wall_us)
    return membership.groups.group(group_id)


def _begin_as_members(operator: Pump, names: list[str], folder: Path, group: GroupManifest) -> None:
    """Lay down for each what it would have by now: the group, its secret, and that every one of them obeys."""
    words: list[tuple[Operation, Incarnation]] = []
    for number, name in enumerate(names):
        own, incarnation = identity(name), Incarnation(number.to_bytes(8, "big"))
        after = words[-1][0] if words else None
        log = Log(own.signing_public, incarnation)
        parents, height = ((after.id,), after.height + 1) if after else ((), 1)
        place = (group.group_id, log, 1, None, parents, height, group.hash, START.wall_us)
        operation = Operation(*place, OperationKind.OBEYING, Obeying().to_wire())
        words.append((sign_operation(operation, own), incarnation))
    with operator.store.transaction():
        for operation, _ in words:
            operator.store.operations.add(operation, group.version, START.wall_us)
    secret = operator.node.membership.groups.secret(group.group_id)
    assert secret is not None
    template = _template(operator, folder, group, secret, [operation for operation, _ in words])
    for name, (operation, _) in zip(names, words, strict=True):
        shutil.copy(template, folder / name)
        become_member(folder / name, name, group, secret, operation)
    operator.restart()


def become_member(path: Path, name: str, group: GroupManifest, secret: bytes, operation: Operation) -> None:
    """Have a copy of what a group's members have in common be the state of one, which obeys since its own operation."""
    incarnation = operation.log.incarnation
    with closing(sqlite3.connect(path)) as state, state:
        state.execute("UPDATE device SET incarnation = ?", (incarnation,))
        wrapped = StorageKey.of(identity(name)).wrap(secret, *place_of_secret(group.group_id, group.epoch_id))
        state.execute("UPDATE epoch_secret SET secret = ?", (wrapped,))
        since = ObeyedSince(operation.id, operation.height, incarnation)
        row = (group.group_id, since.operation, since.height, since.incarnation)
        state.execute("INSERT INTO obeyed_group VALUES (?, ?, ?, ?)", row)


def _template(
    operator: Pump, folder: Path, group: GroupManifest, secret: bytes, operations: Iterable[Operation]
) -> Path:
    """Write the state of a member that has the group and its history, and has said nothing itself."""
    device = Device("template", folder)
    with device.store.transaction():
        for _, _, raw in operator.store.groups.manifests():
            each = read_manifest(raw)
            device.store.groups.save_manifest(group.group_id, each.hash, each.version, raw, 0)
        device.store.groups.save_secret(group.group_id, group.epoch_id, secret, 0)
        for operation in operations:
            device.store.operations.add(operation, group.version, START.wall_us)
    device.stop()
    return device.path
