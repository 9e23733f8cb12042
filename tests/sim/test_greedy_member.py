"""A member that issues manifests, and lets devices in and removes them, without end, by a modified agent.

Every other member stores only what the member's allowance pays for, and can still change the group and remove it. A
mistake in the product that drops the bound is noticed.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.crypto import Identity
from covey.core.group import trust as trust_module
from covey.core.group.manifest import GroupManifest, Member, pages, read_manifest, sign_manifest
from covey.core.group.messages import Bundle, GroupSend
from covey.core.ids import EpochId, GroupId
from covey.core.wire.message import MessageType
from covey.errors import LocalError
from tests.examples import parameters
from tests.fleet import Device, carry, found, identity
from tests.proof import begins

_BUDGET = 60
_ACTS = 120


class _Greedy:
    """Mallory with a few dozen pages; its agent pays while it can, and issues manifests all the same afterwards."""

    def __init__(self, device: Device, group_id: GroupId, chance: random.Random) -> None:
        self._device = device
        self._group_id = group_id
        self._chance = chance
        self._guests: list[Identity] = []
        self._last = device.node.groups.group(group_id)
        own = self._last.member(device.key)
        assert own is not None
        self._last = self._signed(self._with(self._last.draft(), replace(own, allowance=_BUDGET)), unpaid=True)

    def begin(self, victims: tuple[Device, ...]) -> None:
        """Give away all but its budget, so that few manifests use it up."""
        self._show(self._last, victims)

    def act(self, victims: tuple[Device, ...]) -> None:
        """Issue one more manifest and show it to all other members, in some order."""
        last = self._last
        own = last.member(self._device.key)
        assert own is not None
        epoch_id = EpochId(self._chance.randbytes(32))
        present = [each for each in self._guests if last.member(each.signing_public) is not None]
        if present and self._chance.random() < 0.4:
            draft = last.removing(present[0].signing_public, epoch_id)
        elif self._chance.random() < 0.5:
            self._guests.append(identity(f"guest {len(self._guests)}"))
            draft = last.adding(Member(self._guests[-1].keys))
        else:
            draft = last.changing(replace(own, label=f"{self._chance.random()}"))
        try:
            made = self._signed(draft)
        except LocalError:
            made = self._signed(draft, unpaid=True)
        self._last = made
        self._show(made, victims)

    def _show(self, made: GroupManifest, victims: tuple[Device, ...]) -> None:
        body = Bundle((made.raw,)).to_wire()
        order = self._chance.sample(victims, len(victims))
        with self._device.store.transaction():
            sends = [GroupSend(each.key, MessageType.GROUP_MANIFEST, self._group_id, body) for each in order]
            self._device.node.actions.queue_sends(sends, self._device.now)
        for each in (self._device, *order):
            each.wait(30)
        carry(self._device, *order)

    def kept_by(self, device: Device) -> int:
        """Return how many pages of its family's manifests a device stores."""
        family = {self._device.key, *(each.signing_public for each in self._guests)}
        stored = map(read_manifest, device.store.groups.manifests_from(self._group_id, 1, -1))
        return sum(pages(len(each.raw)) for each in stored if each.issuer in family)

    def _signed(self, draft: GroupManifest, *, unpaid: bool = False) -> GroupManifest:
        return sign_manifest(replace(draft, before=None) if unpaid else draft, self._device.identity)

    def _with(self, draft: GroupManifest, record: Member) -> GroupManifest:
        others = [each for each in draft.members if each.keys.signing_public != self._device.key]
        members = sorted([*others, record], key=lambda each: each.keys.signing_public)
        return replace(draft, members=tuple(members))


def _play(folder: Path, seed: int) -> None:
    """Have it act for a while, then check what honest members store, and that they remove it."""
    chance = random.Random(seed)
    ann, ben, mal = (Device(name, folder) for name in ("ann", "ben", "mal"))
    group_id = found(ann, ben, mal)
    greedy = _Greedy(mal, group_id, chance)
    greedy.begin((ann, ben))
    for _ in range(_ACTS):
        greedy.act((ann, ben))
    for device in (ann, ben):
        assert greedy.kept_by(device) <= _BUDGET, "more manifests of a member than it can pay for"
    with ben.store.transaction():
        ben.node.actions.change(group_id, lambda draft, epoch: draft.removing(mal.key, epoch), ben.now)
    carry(ann, ben)
    assert ann.node.groups.group(group_id).member(mal.key) is None
    for device in (ann, ben, mal):
        device.stop()


@pytest.mark.parametrize("seed", parameters(range(2), quick=0, plain=1))
def test_a_greedy_member_makes_others_store_what_it_pays_for(tmp_path: Path, seed: int) -> None:
    _play(tmp_path, seed)


@pytest.mark.proof
def test_a_product_without_the_bound_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begins()
    monkeypatch.setattr(trust_module, "check_payment", lambda *_: None)
    with pytest.raises(AssertionError, match="than it can pay for"):
        _play(tmp_path, 0)
