"""`noise_keys`: noise keys are replaced without a person, and nothing that is under way is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.app.loop.noise_keys import KEY_CONDITION, KeyRotation
from covey.core.ids import GroupId
from covey.core.membership.rotation import rotation_due_us
from covey.errors import StorageError
from covey.limits.key import RETIRED_NOISE_KEY_US_MAX, RETIRED_NOISE_KEY_US_MIN, ROTATION_PACE_US
from covey.limits.storage import OUTBOX_BYTES
from tests.fleet import carry, found
from tests.unit.core.membership.test_rotation import Rotating

_DAY_US = 86_400_000_000
_INTERVAL_US = 30 * _DAY_US


class Aging(Rotating):
    """A device whose agent replaces its noise key by itself."""

    interval_us = _INTERVAL_US
    outbox_room = OUTBOX_BYTES

    def restart(self) -> None:
        """Begin as a new process does."""
        self.reports: list[str] = []
        super().restart()
        self.rotation = self._role()

    def _role(self) -> KeyRotation:
        def report(_level: str, line: str) -> None:
            self.reports.append(line)

        return KeyRotation(self.files.noise_keys, self.store, self.interval_us, self.outbox_room, report)

    def turn(self) -> None:
        """Do what the runtime does between messages."""
        super().turn()
        if hasattr(self, "rotation"):
            self.rotation.turn(self.node, self.now)


Make = Callable[[str], Aging]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(name: str) -> Aging:
        device = Aging(name, tmp_path)
        device.turn()
        return device

    return made


def later(days: float, *devices: Aging, apart: bool = False) -> None:
    """Let days pass, in which devices that are not apart hear of each other every half day."""
    for _ in range(int(days * 2)):
        for device in devices:
            device.later(_DAY_US // 2)
        if not apart:
            carry(*devices)


@pytest.mark.slow
def test_a_key_is_replaced_about_every_thirty_days(make: Make) -> None:  # accepts: 003.05, 003.85
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    first = ann.identity.noise.current
    later(23, ann, ben)
    assert ann.identity.noise_public == first.public
    later(14, ann, ben)
    assert ann.identity.noise_public != first.public
    assert ann.listed_by(ben, group_id) == ann.identity.noise_public
    assert first.secret.reveal() == bytes(32), "wiped, as ben knows"
    second = ann.identity.noise_public
    ann.restart()
    later(10, ann, ben)
    assert ann.identity.noise_public == second, "a restart makes no key older"
    ben.blob(group_id, b"hello")
    carry(ann, ben)
    assert ann.inbox() == [b"hello"]


@pytest.mark.slow
def test_it_can_be_turned_off(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Aging, "interval_us", 0)
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    before = ann.identity.noise_public
    later(60, ann, ben)
    assert ann.identity.noise_public == before


@pytest.mark.slow
def test_devices_that_were_apart_while_both_rotated_find_each_other_again(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"from ann")
    ben.blob(group_id, b"from ben")
    before = {ann.identity.noise_public, ben.identity.noise_public}
    carry(ann, ben)
    later(100, ann, ben, apart=True)
    assert not before & {ann.identity.noise_public, ben.identity.noise_public}, "both have another key"
    assert len(ann.identity.noise.keys) == 2, "one rotation at a time, however long the other is away"
    ann.blob(group_id, b"ann again")
    ben.blob(group_id, b"ben again")
    for _ in range(20):
        for device in (ann, ben):
            device.later(300_000_000)
        carry(ann, ben)
    assert ann.inbox() == [b"from ben", b"ben again"]
    assert ben.inbox() == [b"from ann", b"ann again"]
    assert RETIRED_NOISE_KEY_US_MAX > 100 * _DAY_US


def _due(ann: Aging) -> None:
    ann.later(40 * _DAY_US)


@pytest.mark.slow
def test_it_waits_for_what_names_or_needs_the_key(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    before = ann.identity.noise_public
    with ann.store.transaction():
        ann.node.joining.invite(group_id, (), "", ann.now.wall_us, 60 * _DAY_US)
    _due(ann)
    assert ann.identity.noise_public == before, "a good invite names it"
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft, ann.now)
    later(30, ann, apart=True)
    assert ann.identity.noise_public == before, "ben has still to hear of a change"
    carry(ann, ben)
    ann.later(_DAY_US)
    assert ann.identity.noise_public != before


def test_it_waits_while_no_relay_is_there_or_others_have_the_room(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    before = ann.identity.noise_public
    ann.node.connection_lost()
    _due(ann)
    assert ann.identity.noise_public == before
    ann.node.connected(ann.now)
    ann.outbox_room = 100
    ann.rotation = ann._role()
    ann.turn()
    assert ann.identity.noise_public == before
    ann.outbox_room = OUTBOX_BYTES
    ann.rotation = ann._role()
    ann.turn()
    assert ann.identity.noise_public != before


@pytest.mark.slow
def test_a_clock_that_jumps_neither_stops_it_nor_makes_it_run(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    found(ann, ben)
    with ann.store.transaction():
        ann.store.conditions.set(KEY_CONDITION, ann.identity.noise_public.hex(), ann.now.wall_us + 3650 * _DAY_US)
    before = ann.identity.noise_public
    later(23, ann, ben)
    assert ann.identity.noise_public == before
    later(20, ann, ben)
    assert ann.identity.noise_public != before


@pytest.mark.parametrize("crash", ["after the file", "before the commit"])
def test_a_power_cut_at_any_step_leaves_one_key_that_all_learn(
    make: Make, crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    before = ann.identity.noise_public

    def cut(*_: object) -> None:
        raise StorageError("power cut")

    at = {
        "after the file": "covey.core.membership.actions.announce_in",
        "before the commit": "covey.adapters.sqlite.counters.Conditions.set",
    }
    with monkeypatch.context() as patch:
        patch.setattr(at[crash], cut)
        with pytest.raises(StorageError):
            _due(ann)
    ann.restart()
    ben.blob(group_id, b"sealed to the key that ben knows")
    later(1, ann, ben)
    assert ann.identity.noise_public != before
    assert ann.listed_by(ben, group_id) == ann.identity.noise_public
    assert ann.inbox() == [b"sealed to the key that ben knows"]
    assert len(ann.identity.noise.keys) == 1, "and the one before is wiped"
    assert RETIRED_NOISE_KEY_US_MIN < _DAY_US


def test_a_large_group_is_not_told_of_many_keys_at_a_time(make: Make) -> None:
    ann = make("ann")
    found(ann)

    class Thousand:
        members = range(1_000)
        group_id = GroupId(bytes(32))

        def joined(self) -> list[Thousand]:
            return [self]

    keys = [number.to_bytes(32, "big") for number in range(1_000)]
    due = sorted(rotation_due_us(Thousand(), key, 0, _INTERVAL_US) for key in keys)  # type: ignore[arg-type] # no group of 1,000
    mean = 1_000 * ROTATION_PACE_US
    assert due[0] >= 0.8 * mean
    assert due[-1] <= 1.2 * mean
    assert max(due[place + 50] - due[place] for place in range(0, 950, 50)) < mean, "spread, and not at once"
