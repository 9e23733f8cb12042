"""`covey.app.groups.whole_chain`: a newcomer learns who admitted whom before it came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.app.groups.whole_chain import WholeChain
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.ids import GroupId
from covey.limits.group import BUNDLE_MANIFESTS
from tests.fleet import Device, admit, carry, found


@pytest.fixture
def devices(tmp_path: Path) -> list[Device]:
    return [Device(name, tmp_path) for name in ("ann", "ben", "cid")]


def _change(device: Device, group_id: GroupId, times: int) -> None:
    for number in range(times):

        def edit(draft: GroupManifest, _: bytes, number: int = number) -> GroupManifest:
            member = draft.member(device.key)
            assert member is not None
            return draft.changing(replace(member, label=f"label {number}"))

        with device.store.transaction():
            device.node.actions.change(group_id, edit, device.now)


def _go_on(role: WholeChain, newcomer: Device, *others: Device, minutes: int) -> None:
    for _ in range(minutes):
        for device in (newcomer, *others):
            device.wait(60)
            device.maintain()
        for each in others:
            newcomer.store.presence.seen(each.key, newcomer.now.wall_us)
        role.turn(newcomer.node, newcomer.now)
        for _ in range(3):
            carry(newcomer, *others)


@pytest.mark.slow
def test_a_newcomer_learns_all_manifests_though_nothing_names_them(devices: list[Device]) -> None:
    ann, ben, cid = devices
    group_id = found(ann)
    admit(ann, ben, group_id)
    _change(ann, group_id, BUNDLE_MANIFESTS + 20)
    carry(ann, ben)
    admit(ann, cid, group_id, ben)
    assert cid.store.groups.lowest_version(group_id) > 1
    role = WholeChain(cid.store)
    _go_on(role, cid, ann, ben, minutes=8)
    assert cid.store.groups.lowest_version(group_id) == 1
    chain = [read_manifest(raw) for raw in cid.store.groups.manifests_from(group_id, 1, 200)]
    admitted = next(each for each in chain if each.member(ben.key) is not None)
    assert admitted.issuer == ann.key, "who admitted ben"
    before = cid.store.outbox.totals()[0]
    _go_on(role, cid, minutes=3)
    assert cid.store.outbox.totals()[0] == before, "nothing is missing, nobody is asked"


@pytest.mark.slow
def test_a_member_that_never_answers_is_asked_less_often(devices: list[Device]) -> None:
    ann, _, cid = devices
    group_id = found(ann)
    _change(ann, group_id, BUNDLE_MANIFESTS + 20)
    admit(ann, cid, group_id)
    assert cid.store.groups.lowest_version(group_id) > 1
    role, asked = WholeChain(cid.store), 0
    for _ in range(240):
        cid.wait(60)
        with cid.store.transaction():
            cid.store.presence.seen(ann.key, cid.now.wall_us)
        before = cid.store.outbox.totals()[0]
        role.turn(cid.node, cid.now)
        asked += cid.store.outbox.totals()[0] - before
    assert 3 < asked < 20
