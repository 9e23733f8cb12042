"""The group that every seed begins with: made once, by the real protocol over a perfect wire.

It has had another member, which was removed, and knows it. Some seeds have a second group, in which admins vote.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from covey.core.group.manifest import GroupManifest, Mode, Role
from covey.core.ids import EpochId, GroupId
from tests.fleet import Device, admit, carry, found

MEMBERS = ("ann", "ben", "collector")
JOINER = "joiner"
FORMER = "former"
GUEST = "guest"
"""Only a member of the second group, and no admin there."""


@dataclass(frozen=True, slots=True)
class Template:
    """Databases by device name, in memory, and the group that they are in."""

    group_id: GroupId
    epoch_id: EpochId
    states: dict[str, sqlite3.Connection]
    known_to_former: GroupManifest
    secret_of_former: bytes
    governed: GroupManifest | None
    """The second group, where there is one."""


@cache
def template(*, governed: bool = False) -> Template:
    """Return the states of three members of one group, of a fourth device that is in none, and what a fifth knew.

    `governed`: the three are admins of a second group, which a sixth device is in.
    """
    with tempfile.TemporaryDirectory() as folder:
        members = [Device(name, Path(folder), collects=name == "collector") for name in MEMBERS]
        former, joiner = Device(FORMER, Path(folder)), Device(JOINER, Path(folder))
        group_id = found(*members, former)
        known, secret = former.node.groups.group(group_id), former.node.groups.secret(group_id)
        assert secret is not None
        _remove(former, group_id, members)
        guests = [Device(GUEST, Path(folder))] if governed else []
        second = _govern(members, *guests) if governed else None
        devices = [*members, joiner, *guests]
        for device in (*devices, former):
            assert device.store.outbox.totals()[0] == 0
            device.store.close()
        assert all(len(device.node.groups.group(group_id).members) == len(MEMBERS) for device in members)
        epoch_id = members[0].node.groups.group(group_id).epoch_id
        states = {device.name: in_memory(device.path) for device in devices}
        return Template(group_id, epoch_id, states, known, secret, second)


def _remove(former: Device, group_id: GroupId, members: list[Device]) -> None:
    remover = members[0]
    with remover.store.transaction():
        remover.node.actions.change(group_id, lambda draft, epoch: draft.removing(former.key, epoch), remover.now)
    carry(*members, former)


def _govern(members: list[Device], guest: Device) -> GroupManifest:
    """Let the members create a group in which they are admins, and let a guest in."""
    first, *others = members
    with first.store.transaction():
        membership = first.node.membership
        group_id = membership.create(first.name, (), first.now.wall_us, Mode.ADMIN_INVITES).group_id
    for other in (*others, guest):
        admit(first, other, group_id, *members, guest)
    for other in others:
        with first.store.transaction():
            member = first.node.groups.group(group_id).member(other.key)
            assert member is not None
            admin = replace(member, role=Role.ADMIN)
            first.node.actions.change(group_id, lambda draft, _, admin=admin: draft.changing(admin), first.now)
        carry(*members, guest)
    return first.node.groups.group(group_id)


def in_memory(path: Path) -> sqlite3.Connection:
    """Return a copy of a database; what lies in memory has no write-ahead log."""
    state = sqlite3.connect(":memory:")
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = DELETE")
        file.backup(state)
    return state
