"""`rotation`: a device's new noise key reaches everybody, and nothing that was under way is lost."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.loop.noise_keys import KeyReload
from covey.core.crypto import NoiseKey
from covey.core.group.manifest import Mode, Role
from covey.core.ids import GroupId
from covey.core.membership.actions import GroupActions
from covey.core.membership.rotation import control_waits
from covey.errors import LocalError, StorageError
from covey.limits.key import RETIRED_NOISE_KEY_US_MAX, RETIRED_NOISE_KEY_US_MIN, RETIRED_NOISE_KEYS
from covey_boards.shared import messages
from tests.board import Board, enrol
from tests.fleet import Device, Make, admit, carry, found


class Rotating(Device):
    """A device whose keys lie in a real state folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.files = StateFolder.at(folder / f"{name} files")
        self.files.create({})
        super().__init__(name, folder)

    def restart(self) -> None:
        """Read the keys, too, as a new process does."""
        self.nodes.identity = self.files.identity()
        super().restart()
        self.key_reload = KeyReload(self.files.noise_keys, self.store, lambda _level, _line: None)
        self.turn()

    def rotate(self) -> None:
        """Do what `covey key rotate` does."""
        with self.store.transaction():
            self.files.noise_keys.rotate(self.identity, self.now.wall_us)
            self.node.actions.rotate_noise_key(self.now)

    def turn(self) -> None:
        """Do what the runtime does between messages."""
        self.key_reload.turn(self.node, self.now)
        self.maintain()

    def later(self, microseconds: int) -> None:
        """Let time pass."""
        self.wait(microseconds / 1e6)
        self.turn()

    def back_up(self) -> Path:
        """Copy the keys and the state, and go on; return the folder of the copies."""
        copies = self.files.path.with_name("backup")
        shutil.copytree(self.files.path, copies)
        self.copy_state().rename(copies / "state.sqlite")
        return copies

    def restore(self, copies: Path) -> None:
        """Put copies of keys and state in their places."""
        shutil.copytree(copies, self.files.path, dirs_exist_ok=True)
        self.return_to(copies / "state.sqlite")

    def listed_by(self, other: Device, group_id: GroupId) -> bytes:
        """Return the noise key that another device knows for this one."""
        member = other.node.groups.group(group_id).member(self.key)
        assert member is not None
        return member.keys.noise_public


@pytest.fixture
def ann(tmp_path: Path) -> Rotating:
    return Rotating("ann", tmp_path)


def test_a_rotation_reaches_every_group_and_what_is_under_way_still_opens(make: Make, ann: Rotating) -> None:
    ben, cem = make("ben"), make("cem")
    first, second = found(ann, ben), found(cem, ann)
    before = ann.identity.noise_public
    ben.blob(first, b"sealed to the old key")
    under_way = [outgoing.envelope for outgoing in ben.sends()]
    ann.rotate()
    assert ann.identity.noise_public != before
    carry(ann, ben, cem)
    assert ann.listed_by(ben, first) == ann.listed_by(cem, second) == ann.identity.noise_public
    for envelope in under_way:
        ann.receive(envelope)
    ben.blob(first, b"sealed to the new key")
    carry(ann, ben)
    assert ann.inbox() == [b"sealed to the old key", b"sealed to the new key"]
    assert (ann.store.outbox.totals()[0], ben.store.outbox.totals()[0]) == (0, 0)


def test_the_old_key_is_wiped_when_everybody_knows(make: Make, ann: Rotating) -> None:
    ben = make("ben")
    found(ann, ben)
    old = ann.identity.noise.current
    ann.rotate()
    carry(ann, ben)
    ann.later(RETIRED_NOISE_KEY_US_MIN - 1_000_000)
    assert ann.identity.noise.holds(old.public)
    ann.later(60_000_000)
    assert not ann.identity.noise.holds(old.public)
    assert old.secret.reveal() == bytes(32), "wiped from memory"
    assert not ann.files.identity().noise.holds(old.public), "wiped from the file"


def test_the_old_key_is_wiped_after_half_a_year_even_if_somebody_is_away(make: Make, ann: Rotating) -> None:
    ben = make("ben")
    group_id = found(ann, ben)
    old = ann.identity.noise_public
    ann.rotate()
    ann.sends()  # and nobody is there
    ann.later(RETIRED_NOISE_KEY_US_MAX - 60_000_000)
    assert ann.identity.noise.holds(old)
    ann.later(120_000_000)
    assert not ann.identity.noise.holds(old)
    ben.blob(group_id, b"sealed to a key that is gone")
    carry(ann, ben)
    for _ in range(20):  # ann's manifest goes again, and then ben's blob, sealed anew
        ann.wait(300)
        ben.wait(300)
        carry(ann, ben)
    assert ann.inbox() == [b"sealed to a key that is gone"]
    assert ann.listed_by(ben, group_id) == ann.identity.noise_public


@pytest.mark.parametrize("crash", ["before the file", "after the file", "after the commit", "after the first envelope"])
def test_a_power_cut_at_any_step_leaves_a_device_that_works(
    make: Make, ann: Rotating, crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ben, cem = make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    ben.blob(group_id, b"old")
    under_way = [outgoing.envelope for outgoing in ben.sends() if outgoing.recipient == ann.key]

    def cut(*_: object) -> None:
        raise StorageError("power cut")

    with monkeypatch.context() as patch, suppress(StorageError):
        if crash == "before the file":
            patch.setattr("covey.adapters.keys.noise_key_file.write_secret_twice", cut)
        elif crash == "after the file":
            patch.setattr(GroupActions, "rotate_noise_key", cut)
        ann.rotate()
    if crash == "after the first envelope":
        ben.receive(next(ann.node.envelopes_to_send(ann.now)).envelope)
    ann.restart()
    for envelope in under_way:
        ann.receive(envelope)
    carry(ann, ben, cem)
    cem.blob(group_id, b"new")
    carry(ann, ben, cem)
    assert sorted(ann.inbox()) == [b"new", b"old"]
    assert ann.listed_by(ben, group_id) == ann.listed_by(cem, group_id) == ann.identity.noise_public
    assert len(ann.identity.noise.retired) == (crash != "before the file")
    assert not ann.store.outbox.totals()[0]


def test_an_invite_that_was_printed_before_a_rotation_still_works(make: Make, ann: Rotating) -> None:
    dan = make("dan")
    group_id = found(ann)
    with ann.store.transaction():
        invite = ann.node.joining.invite(group_id, (), "mqtt://fleet", ann.now.wall_us)
    ann.rotate()
    with dan.store.transaction():
        dan.node.actions.request_join(invite, "dan", dan.now)
    carry(ann, dan)
    assert ann.listed_by(dan, group_id) == ann.identity.noise_public
    assert not dan.store.outbox.totals()[0]


def test_a_joiner_that_replaced_its_key_tells_the_new_one(make: Make, ann: Rotating) -> None:
    ben = make("ben")
    group_id = found(ben)
    with ben.store.transaction():
        invite = ben.node.joining.invite(group_id, (), "mqtt://fleet", ben.now.wall_us)
    with ann.store.transaction():
        ann.node.actions.request_join(invite, "ann", ann.now)
    ann.rotate()
    carry(ann, ben)
    assert ann.listed_by(ben, group_id) == ann.identity.noise.retired[0].public
    ann.turn()
    carry(ann, ben)
    assert ann.listed_by(ben, group_id) == ann.identity.noise_public


def test_a_rotation_and_another_change_at_the_same_time_are_both_meant(make: Make, ann: Rotating) -> None:
    ben, cem = make("ben"), make("cem")
    group_id = found(ben, ann, cem)
    ann.rotate()
    with ben.store.transaction():
        ben.node.actions.change(group_id, lambda draft, epoch: draft.removing(cem.key, epoch), ben.now)
    carry(ann, ben, cem)
    for device in (ann, ben):
        assert ann.listed_by(device, group_id) == ann.identity.noise_public
        assert device.node.groups.group(group_id).member(cem.key) is None


def test_of_two_rotations_of_one_device_the_later_one_holds(make: Make, ann: Rotating) -> None:
    group_id = found(ann, make("ben"))
    node = ann.make_node()
    rivals = []
    for _ in range(2):  # neither knows of the other: both follow the same version
        with suppress(StorageError), ann.store.transaction():
            ann.files.noise_keys.rotate(ann.identity, ann.now.wall_us)
            rival = ann.make_node()
            rival.actions.rotate_noise_key(ann.now)
            rivals.append(rival.groups.group(group_id))
            raise StorageError("not committed")
    trust = node.groups.trust(group_id)
    for manifest in reversed(rivals):
        trust.offer(manifest)
    later = max(rivals, key=lambda manifest: (manifest.version, manifest.hash))
    held = trust.current
    assert held is not None
    assert (own := held.member(ann.key)) is not None
    assert own == later.member(ann.key)
    assert ann.identity.noise.holds(own.keys.noise_public)


@pytest.mark.parametrize("mode", Mode)
def test_in_every_mode_a_member_changes_its_own_key_and_nobody_elses(make: Make, mode: Mode) -> None:
    ann, ben = make("ann"), make("ben")
    with ann.store.transaction():
        invited = ben.key if mode is Mode.ONE_TO_ONE else None
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us, mode, invited).group_id
    admit(ann, ben, group_id)
    new = NoiseKey.of(b"\x42" * 32)
    old = ben.identity.noise.current
    ben.identity.noise.take((new, replace(old, retired_at_us=1)))
    with ben.store.transaction():
        ben.node.maintain(ben.now)
    carry(ann, ben)
    group = ann.node.groups.group(group_id)
    member = group.member(ben.key)
    assert member is not None
    assert (member.keys.noise_public, member.role) == (new.public, Role.MEMBER)
    foreign = replace(member, keys=replace(member.keys, noise_public=NoiseKey.of(b"\x43" * 32).public))
    with pytest.raises(LocalError, match="only a noise key's owner"):
        ann.node.actions.change(group_id, lambda draft, _: draft.changing(foreign), ann.now)


def test_a_removed_device_gains_nothing_by_its_keys(make: Make, ann: Rotating) -> None:
    ben = make("ben")
    group_id = found(ben, ann)
    with ben.store.transaction():
        ben.node.actions.change(group_id, lambda draft, epoch: draft.removing(ann.key, epoch), ben.now)
    ann.rotate()
    carry(ann, ben)
    group = ben.node.groups.group(group_id)
    assert group.member(ann.key) is None
    assert ben.node.groups.secret(group_id) is not None
    assert ann.store.groups.secret(group_id, group.epoch_id) is None
    ben.blob(group_id, b"not for ann")
    assert ben.sends() == []


def test_keys_are_not_piled_up(ann: Rotating) -> None:
    for _ in range(RETIRED_NOISE_KEYS):
        ann.rotate()
    with pytest.raises(LocalError, match="still keeps"):
        ann.rotate()
    assert len(ann.files.identity().noise.keys) == RETIRED_NOISE_KEYS + 1


def test_a_running_agent_takes_up_what_a_command_has_rotated(make: Make, ann: Rotating) -> None:
    ben = make("ben")
    group_id = found(ann, ben)
    command = StateFolder.at(ann.files.path).identity()
    assert command == ann.identity
    node = replace(ann.nodes, identity=command).make(ann.store)
    with ann.store.transaction():
        ann.files.noise_keys.rotate(command, ann.now.wall_us)
        node.actions.rotate_noise_key(ann.now)
    assert command != ann.identity
    ann.node.refresh()
    ann.turn()
    assert command == ann.identity
    carry(ann, ben)
    assert ann.listed_by(ben, group_id) == ann.identity.noise_public
    ben.blob(group_id, b"hello")
    carry(ann, ben)
    assert ann.inbox() == [b"hello"]


def test_a_collector_tells_the_boards_that_seal_for_it(tmp_path: Path) -> None:
    gate, board = Device("gate", tmp_path), Board("board")
    collector = Rotating("collector", tmp_path)
    with gate.store.transaction():
        group_id = gate.node.membership.create("gate", (), gate.now.wall_us).group_id
    collector.nodes.collects = True
    collector.restart()
    admit(gate, collector, group_id)
    enrol(board, gate, group_id)
    carry(gate, collector)
    collector.rotate()
    with gate.store.transaction():
        envelope = board.message(collector.identity.keys, group_id)
        gate.node.forward(board.key, collector.key, envelope, gate.now)
    carry(gate, collector)
    opened = [
        messages.read_message(messages.open_sealed(forward.envelope, board.identity.noise_secret))
        for forward in gate.node.routes.take()
    ]
    assert [fields[8] for fields in opened if fields[0] == messages.COLLECTOR_KEY] == [collector.identity.noise_public]
    assert control_waits(collector.store.outbox), "the old key stays until the board has answered"


@pytest.mark.slow
@pytest.mark.parametrize("rotated", ["the restored device", "the others", "everybody"])
def test_a_device_that_is_restored_from_before_a_rotation_reaches_the_others(
    make: Make, tmp_path: Path, ann: Rotating, rotated: str
) -> None:
    """Nothing that is sealed for the key that the others know opens at ann, or nothing that ann seals for theirs."""
    ben, cem = Rotating("ben", tmp_path), Rotating("cem", tmp_path)
    for each in (ann, ben, cem):
        each.restart()
    group_id = found(ann, ben, cem)
    backup = ann.back_up()
    for each in [ann] * (rotated != "the others") + [ben, cem] * (rotated != "the restored device"):
        each.rotate()
        carry(ann, ben, cem)
    for each in (ann, ben, cem):
        each.later(RETIRED_NOISE_KEY_US_MIN + 120_000_000)
        assert not each.identity.noise.retired, "the earlier key is wiped"
    ann.restore(backup)
    ben.blob(group_id, b"from ben")
    ann.blob(group_id, b"from ann")
    for _ in range(12):
        for each in (ann, ben, cem):
            each.later(300_000_000)
        carry(ann, ben, cem)
    assert [sorted(each.inbox()) for each in (ann, ben, cem)] == [
        [b"from ben"],
        [b"from ann"],
        [b"from ann", b"from ben"],
    ]
    assert ann.listed_by(ben, group_id) == ann.listed_by(cem, group_id) == ann.identity.noise_public


def test_a_device_whose_keys_alone_are_of_before_a_rotation_tells_the_one_that_it_holds(
    make: Make, ann: Rotating
) -> None:
    ben = make("ben")
    group_id = found(ann, ben)
    before = ann.files.noise_keys.path.read_bytes()
    ann.rotate()
    carry(ann, ben)
    ann.files.noise_keys.path.write_bytes(before)
    ann.restart()
    ben.blob(group_id, b"hello")
    for _ in range(4):
        ann.later(60_000_000)
        ben.wait(60)
        carry(ann, ben)
    assert ann.inbox() == [b"hello"]
    assert ann.listed_by(ben, group_id) == ann.identity.noise_public


@pytest.mark.slow
def test_two_devices_with_one_identity_do_not_answer_each_other_without_end(make: Make, ann: Rotating) -> None:
    """Ann's keys are an old copy, and whoever holds the new ones tells them again each time."""
    ben = make("ben")
    group_id = found(ann, ben)
    before = ann.files.noise_keys.path.read_bytes()
    ann.rotate()
    carry(ann, ben)
    after = ann.files.noise_keys.path.read_bytes()
    version = ben.node.groups.group(group_id).version
    for _ in range(24):
        for keys in (before, after):
            ann.files.noise_keys.path.write_bytes(keys)
            ann.key_reload.turn(ann.node, ann.now)
            for _ in range(3):
                ann.later(600_000_000)
                carry(ann, ben)
    assert 2 <= ben.node.groups.group(group_id).version - version <= 2 * (24 // 6 + 1)
