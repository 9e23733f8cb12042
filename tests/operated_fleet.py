"""Several groups whose devices obey one person's laptop and phone, made in one process, without the devices.

What the devices would report is kept at once, and what the laptop has written comes to the phone when a test says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Self

from covey.app.device.device import Device, find_state, open_device
from covey.app.groups.groups import create_group
from covey.core.actions.results import CommandState, OrderResult
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, Mode, read_manifest
from covey.core.history.bodies import read_body
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.orders import Approval, CommandOrder, Obeying
from covey.core.ids import DeviceKey, EpochId, GroupId, Incarnation, OperationId
from tests.command import Here
from tests.fleet import identity

_KINDS = range(64)
_ALL = 2**31


class OperatedFleet:
    """A laptop and a phone of one operator, both members of so many groups with so many devices each."""

    def __init__(self, folder: Path, groups: int, devices: int, *, phone: bool = True, threshold: int = 1) -> None:
        self.laptop = Here(folder, "laptop")
        self.laptop.ok("own", "create")
        self.phone = Here(folder, "phone") if phone else None
        own = [self.laptop, *([self.phone] if self.phone else [])]
        keys = ",".join(each.json("key", "show")["signing_key"] for each in own)
        for each in own:
            each.ok("config", "set", "operations.operators", keys)
            each.ok("config", "set", "operations.threshold", str(threshold))
        self.groups: list[GroupId] = []
        self.devices: dict[GroupId, list[DeviceKey]] = {}
        with self.open(self.laptop) as opened:
            personal = next(each for each in opened.node.groups.joined() if each.mode is Mode.PERSONAL)
            self.personal = personal.group_id
            with opened.store.transaction():
                self._let_in(opened, self.personal, [])
            for number in range(groups):
                group = create_group(opened, (), "invites-only")
                self.groups.append(group.group_id)
                members = [identity(f"{number} {place}") for place in range(devices)]
                self.devices[group.group_id] = [each.signing_public for each in members]
                with opened.store.transaction():
                    self._let_in(opened, group.group_id, members)
        if self.phone:
            self.carry([self.personal, *self.groups])
            with self.open(self.phone) as opened, opened.store.transaction():
                opened.store.personal.pin(self.personal)

    def copied(self, folder: Path) -> Self:
        """Return the same fleet in another folder: making one takes five times as long."""
        fleet = copy(self)
        fleet.laptop, fleet.phone = self.laptop.copied(folder), self.phone and self.phone.copied(folder)
        return fleet

    @contextmanager
    def open(self, own: Here) -> Iterator[Device]:
        """Open one of the operator's devices."""
        with open_device(find_state(str(own.state))) as opened:
            yield opened

    def _let_in(self, opened: Device, group_id: GroupId, members: list[Identity]) -> None:
        """Let the phone and devices into a group; the devices obey."""
        joined = [Member(each.keys, f"device-{place}") for place, each in enumerate(members)]
        if self.phone:
            with self.open(self.phone) as other:
                joined.append(Member(other.node.identity.keys, "phone"))

        def edit(draft: GroupManifest, _: EpochId) -> GroupManifest:
            for each in joined:
                draft = draft.adding(Member(each.keys, each.label, since=draft.version))
            return draft

        opened.node.actions.change(group_id, edit, opened.now())
        for each in joined:
            opened.store.outbox.forget(each.keys.signing_public)
        manifest = opened.node.groups.group(group_id)
        before: tuple[Operation, ...] = ()
        for one in members:
            before = (_said(opened, manifest, one, Obeying(), before),)

    def say(self, opened: Device, group_id: GroupId, author: Identity, body: OperationBody) -> None:
        """Have an own device hold what another member has said in a group."""
        raws = (opened.store.operations.raw(group_id, each) for each in opened.store.operations.heads(group_id))
        after = tuple(read_operation(raw, verify=False) for raw in raws if raw is not None)
        with opened.store.transaction():
            _said(opened, opened.node.groups.group(group_id), author, body, after)

    def carry(self, groups: Collection[GroupId], kinds: Iterable[int] = _KINDS) -> None:
        """Bring what the laptop has of groups to the phone, of histories these kinds."""
        assert self.phone is not None, "there is a phone"
        with self.open(self.laptop) as here, self.open(self.phone) as there, there.store.transaction():
            for group_id in groups:
                for raw in here.store.groups.manifests_from(group_id, 1):
                    manifest = read_manifest(raw)
                    if not there.store.groups.has_manifest(group_id, manifest.hash):
                        there.store.groups.save_manifest(group_id, manifest.hash, manifest.version, raw, 0)
                    secret = here.store.groups.secret(group_id, manifest.epoch_id)
                    if secret is not None:
                        there.store.groups.save_secret(group_id, manifest.epoch_id, secret, 0)
                for stored in here.store.operations.of_kinds_after(group_id, [*kinds], 0, _ALL):
                    if there.store.operations.raw(group_id, stored.id) is None:
                        there.store.operations.add(read_operation(stored.raw, verify=False), 1, here.now().wall_us)

    def delete_covered(self, own: Here, group_id: GroupId) -> None:
        """Have an own device delete in a group what a checkpoint covers that both own devices have signed."""
        others = [each for each in (self.laptop, self.phone) if each is not None and each is not own]
        own.ok("history", "post", "the last of its log stays", "--group", group_id.hex())
        checkpoint = OperationId(bytes.fromhex(own.json("history", "checkpoint", "--group", group_id.hex())["id"]))
        for each in others:
            with self.open(each) as there, self.open(own) as here:
                self.say(here, group_id, there.node.identity, Approval(checkpoint))
        own.ok("history", "delete", "--keep", "0", "--group", group_id.hex())

    def report(self, own: Here, failing: Collection[DeviceKey] = (), silent: Collection[DeviceKey] = ()) -> int:
        """Have the devices that were given a wave report to an own device; return how many did for the first time."""
        found = 0
        with self.open(own) as opened, opened.store.transaction():
            for group_id in self.groups:
                group = opened.node.groups.group(group_id)
                for stored in opened.store.operations.of_kind(group_id, OperationKind.COMMAND):
                    body = read_body(read_operation(stored.raw, verify=False))
                    assert isinstance(body, CommandOrder)
                    known = {each.device for each in opened.store.order_results.of_order(group_id, stored.id)}
                    for key in body.selector.devices:
                        if group.member(key) and key in self.devices[group_id] and key not in known | {*silent}:
                            now_us = opened.now().wall_us
                            code = int(key in failing)
                            result = OrderResult(stored.id, CommandState.DONE, now_us, now_us, now_us, True, code)
                            opened.node.order_results.keep(group_id, key, result, opened.now())
                            found += 1
        return found


def _said(
    opened: Device, manifest: GroupManifest, author: Identity, body: OperationBody, after: tuple[Operation, ...]
) -> Operation:
    height = 1 + max((each.height for each in after), default=0)
    log = Log(author.signing_public, Incarnation(height.to_bytes(8, "big")))
    fields = (manifest.group_id, log, 1, None, tuple(each.id for each in after), height, manifest.hash)
    operation = sign_operation(Operation(*fields, opened.now().wall_us, int(body.kind), body.to_wire()), author)
    opened.store.operations.add(operation, manifest.version, 0)
    return operation
