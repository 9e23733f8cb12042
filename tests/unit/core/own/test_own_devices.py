"""`covey.core.own`: what one of a person's devices joins, leaves or erases shows on the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.core.group.manifest import Mode
from covey.core.history.bodies import Note, read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.personal import Holding, OwnGroup, Preference
from covey.core.ids import GroupId
from covey.core.own.own_devices import OwnDevices
from covey.core.own.state import PersonalState
from covey.errors import LocalError
from covey.limits.group import MAINTENANCE_US
from covey.limits.pairing import MAXIMUM_GROUP_REQUESTS_OF_ONE
from covey.limits.personal import JOINED_UNASKED
from tests.fleet import Device, admit, carry

Make = Callable[..., Device]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda name: Device(name, tmp_path)


def own(device: Device) -> OwnDevices:
    node = device.node
    return OwnDevices(node.identity, node.groups, node.history, node.actions, device.store)


def state(device: Device) -> PersonalState:
    personal = own(device).group()
    assert personal is not None
    return own(device).state(personal)


def create(device: Device, mode: Mode = Mode.INVITES_ONLY) -> GroupId:
    with device.store.transaction():
        return device.node.membership.create(device.name, (), device.now.wall_us, mode).group_id


def linked(*devices: Device) -> GroupId:
    """Make these one person's."""
    group_id = create(devices[0], Mode.PERSONAL)
    for each in devices:
        with each.store.transaction():
            each.store.personal.pin(group_id)
        if each is not devices[0]:
            admit(devices[0], each, group_id)
    settle(*devices)
    return group_id


def settle(*devices: Device) -> None:
    """Let everybody do what is due, and hear of each other, until nothing changes any more."""
    for _ in range(4):
        for each in devices:
            with each.store.transaction():
                list(own(each).turn(each.name, each.now))
        carry(*devices)
        for each in devices:
            each.wait(2)
            each.maintain()


def leave(device: Device, group_id: GroupId) -> None:
    with device.store.transaction():
        own(device).leave(group_id, device.now)


def write(device: Device, group_id: GroupId, text: bytes) -> None:
    with device.store.transaction():
        device.node.history.write(group_id, Note("text/plain", text), device.now)


def notes(device: Device, group_id: GroupId) -> list[bytes]:
    operations = device.store.operations.of_kind(group_id, OperationKind.NOTE)
    bodies = [read_body(read_operation(stored.raw)) for stored in operations]
    return [body.content for body in bodies if isinstance(body, Note)]


def members(device: Device, group_id: GroupId) -> set[bytes]:
    return {member.keys.signing_public for member in device.node.groups.group(group_id).members}


def joined(device: Device) -> set[GroupId]:
    return {group.group_id for group in device.node.groups.joined()}


def has_nothing_of(device: Device, group_id: GroupId) -> bool:
    """Say whether neither a secret of a group nor its history is in the store."""
    [[secrets]] = device.store.database.run("SELECT count(*) FROM epoch_secret WHERE group_id = ?", (group_id,))
    return not secrets and not device.store.operations.heads(group_id)


def test_a_group_that_is_made_shows_on_the_others_which_are_let_in(make: Make) -> None:  # accepts: 003.12
    laptop, phone = make("laptop"), make("phone")
    linked(laptop, phone)
    fleet = create(laptop)
    settle(laptop, phone)
    assert state(phone).groups[fleet].holding is Holding.HELD
    assert members(phone, fleet) == {laptop.key, phone.key}


@pytest.mark.slow
def test_a_new_laptop_learns_of_all_groups(make: Make) -> None:  # accepts: 003.12, 003.61
    laptop, phone, new = make("laptop"), make("phone"), make("new")
    personal = linked(laptop, phone)
    fleets = {create(laptop), create(phone)}
    with phone.store.transaction():
        phone.node.history.write(personal, Preference(None, "theme", "dark"), phone.now)
    settle(laptop, phone)
    with new.store.transaction():
        new.store.personal.pin(personal)
    admit(laptop, new, personal)
    settle(laptop, phone, new)
    assert fleets < joined(new)
    assert state(new).preferences == {(None, "theme"): "dark"}


def test_the_last_preference_in_the_historys_order_holds_everywhere(make: Make) -> None:  # accepts: 003.61
    laptop, phone = make("laptop"), make("phone")
    personal = linked(laptop, phone)
    for value, device in (("dark", laptop), ("light", phone), (None, laptop), ("grey", phone)):
        with device.store.transaction():
            device.node.history.write(personal, Preference(None, "theme", value), device.now)
        settle(laptop, phone)
        expected = {} if value is None else {(None, "theme"): value}
        assert state(laptop).preferences == state(phone).preferences == expected


def test_leaving_on_one_leaves_and_erases_on_all(make: Make) -> None:  # accepts: 003.51, 003.54
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    settle(laptop, phone, other)
    carry(laptop, phone, other)
    assert phone.key in members(other, fleet)
    leave(laptop, fleet)
    settle(laptop, phone, other)
    carry(laptop, phone, other)
    assert members(other, fleet) == {other.key}
    for each in (laptop, phone):
        each.wait(601)
        each.maintain()
    settle(laptop, phone, other)
    assert fleet not in joined(phone)
    assert all(has_nothing_of(each, fleet) for each in (laptop, phone))
    assert state(laptop).groups[fleet].holding is state(phone).groups[fleet].holding is Holding.ERASED


@pytest.mark.slow
def test_who_does_not_wait_erases_on_all_before_anybody_knows(make: Make) -> None:  # accepts: 003.53, 003.55
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    pair, fleet = create(laptop), create(laptop)
    for each in (pair, fleet):
        admit(laptop, other, each)
    admit(laptop, make("third"), fleet)
    settle(laptop, phone, other)
    assert [each.group_id for each in own(laptop).shared_with(other.key)] == [pair], "the phone is the same person's"
    with laptop.store.transaction():
        own(laptop).leave(pair, laptop.now, at_once=True)
    assert has_nothing_of(laptop, pair)
    settle(laptop, phone)
    assert has_nothing_of(phone, pair)
    assert joined(phone) == joined(laptop) == joined(laptop) - {pair}
    carry(laptop, phone, other)
    assert members(other, pair) == {other.key}, "it is told all the same"


def test_one_that_was_offline_erases_when_it_is_back(make: Make) -> None:  # accepts: 003.54
    laptop, phone = make("laptop"), make("phone")
    personal = linked(laptop, phone)
    fleet = create(laptop)
    settle(laptop, phone)
    assert not has_nothing_of(phone, fleet)
    with laptop.store.transaction():  # the others of the group are gone: nobody acknowledges the leaving
        laptop.node.history.write(personal, OwnGroup(fleet, Holding.ERASED), laptop.now)
    phone.restart()
    carry(laptop, phone)
    with phone.store.transaction():
        done = [each.what for each in own(phone).turn("phone", phone.now)]
    assert done == ["left", "erased"]
    assert has_nothing_of(phone, fleet)


@pytest.mark.slow
def test_who_is_let_in_again_stays(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(other)
    admit(other, laptop, fleet)
    settle(laptop, phone, other)
    leave(laptop, fleet)
    settle(laptop, phone, other)
    carry(laptop, phone, other)
    assert joined(laptop) == joined(phone)
    admit(other, laptop, fleet)
    settle(laptop, phone, other)
    assert fleet in joined(laptop)
    assert state(phone).groups[fleet].holding is Holding.HELD


def test_a_device_that_was_removed_orders_nothing_more(make: Make) -> None:
    """Even where what it said was followed before it was removed, for who has not obeyed yet."""
    laptop, phone, tablet = make("laptop"), make("phone"), make("tablet")
    personal = linked(laptop, phone, tablet)
    fleet = create(laptop)
    settle(laptop, phone, tablet)
    with phone.store.transaction():
        phone.node.history.write(personal, OwnGroup(fleet, Holding.ERASED), phone.now)
    carry(phone, tablet)
    with tablet.store.transaction():
        tablet.node.history.write(personal, Preference(None, "theme", "dark"), tablet.now)
        tablet.node.actions.change(personal, lambda draft, epoch: draft.removing(phone.key, epoch), tablet.now)
    carry(tablet, laptop)
    with laptop.store.transaction():
        done = [each.what for each in own(laptop).turn("laptop", laptop.now)]
    assert "left" not in done
    assert "erased" not in done
    assert fleet in joined(laptop)
    assert not has_nothing_of(laptop, fleet)


@pytest.mark.slow
@pytest.mark.parametrize("obeyed", [True, False])
def test_what_a_retired_device_has_left_stays_left(make: Make, *, obeyed: bool) -> None:  # accepts: 003.51
    laptop, phone, old = make("laptop"), make("phone"), make("old")
    personal = linked(laptop, phone, old)
    fleet = create(laptop)
    settle(laptop, phone, old)
    leave(old, fleet)
    if obeyed:
        settle(laptop, phone, old)
    else:
        carry(old, phone)
    with phone.store.transaction():
        own(phone).speak_for(old.key, phone.now)
        phone.node.actions.change(personal, lambda draft, epoch: draft.removing(old.key, epoch), phone.now)
    settle(laptop, phone)
    known = state(laptop).groups[fleet]
    assert known.holding is not Holding.HELD
    assert known == state(phone).groups[fleet]
    assert fleet not in joined(laptop) | joined(phone)


def test_who_obeyed_a_thief_before_it_heard_of_the_removal_is_invited_again(make: Make) -> None:
    laptop, phone, tablet = make("laptop"), make("phone"), make("tablet")
    personal = linked(laptop, phone, tablet)
    fleet = create(laptop)
    settle(laptop, phone, tablet)
    assert fleet in joined(tablet)
    with phone.store.transaction():
        phone.node.history.write(personal, OwnGroup(fleet, Holding.ERASED), phone.now)
    carry(phone, tablet)
    with tablet.store.transaction():
        assert [each.what for each in own(tablet).turn(tablet.name, tablet.now)] == ["left", "erased"]
    with laptop.store.transaction():
        laptop.node.actions.change(personal, lambda draft, epoch: draft.removing(phone.key, epoch), laptop.now)
    settle(laptop, tablet)
    reported = state(laptop).groups[fleet]
    assert (reported.holding, reported.author) == (Holding.HELD, tablet.key)
    settle(laptop, tablet)
    assert state(laptop).groups[fleet] == reported, "once is enough"
    assert fleet in joined(tablet)
    assert members(laptop, fleet) == {laptop.key, phone.key, tablet.key}


def test_a_personal_group_that_nobody_named_here_orders_nothing(make: Make) -> None:
    laptop, thief = make("laptop"), make("thief")
    fleet = create(laptop)
    theirs = create(thief, Mode.PERSONAL)
    admit(thief, laptop, theirs)
    with thief.store.transaction():
        thief.node.history.write(theirs, OwnGroup(fleet, Holding.ERASED), thief.now)
    carry(thief, laptop)
    with laptop.store.transaction():
        assert list(own(laptop).turn("laptop", laptop.now)) == []
    assert fleet in joined(laptop)


def test_an_ordinary_group_knows_no_words_of_a_personal_one(make: Make) -> None:
    laptop = make("laptop")
    fleet = create(laptop)
    with laptop.store.transaction(), pytest.raises(LocalError, match="own_group in a group of another mode"):
        laptop.node.history.write(fleet, OwnGroup(fleet, Holding.LEFT), laptop.now)


@pytest.mark.slow
def test_an_own_device_fills_no_other_one_with_groups(make: Make) -> None:
    laptop, phone = make("laptop"), make("phone")
    linked(laptop, phone)
    for _ in range(JOINED_UNASKED + 4):
        create(phone)
    for _ in range(6):
        settle(laptop, phone)
    assert len(joined(laptop)) == JOINED_UNASKED
    assert len(state(laptop).groups) == JOINED_UNASKED + 4


def test_a_group_where_only_admins_let_in_is_listed(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(other, Mode.ADMIN_INVITES)
    admit(other, laptop, fleet)
    settle(laptop, phone, other)
    assert state(phone).groups[fleet].holding is Holding.HELD
    assert fleet not in joined(phone)


@pytest.mark.slow
def test_what_was_written_last_reaches_a_member_before_another_own_device_has_this_one_leave(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    settle(laptop, phone, other)
    carry(laptop, phone, other)
    write(phone, fleet, b"before")
    held_up = phone.sends()
    assert held_up
    write(phone, fleet, b"last words")
    leave(laptop, fleet)
    carry(laptop, phone)
    settle(laptop, phone)
    assert fleet in joined(phone)
    settle(laptop, phone, other)
    for _ in range(3):
        phone.wait(31)
        phone.maintain()
        settle(laptop, phone, other)
    assert fleet not in joined(phone)
    assert members(other, fleet) == {other.key}
    assert notes(other, fleet) == [b"before", b"last words"]


def test_an_own_device_leaves_in_the_end_though_nobody_takes_what_it_wrote(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    settle(laptop, phone, other)
    write(phone, fleet, b"nobody is there")
    leave(laptop, fleet)
    settle(laptop, phone)
    assert fleet in joined(phone)
    phone.wait(3_600)
    settle(laptop, phone)
    assert fleet not in joined(phone)


@pytest.mark.slow
def test_who_has_lost_its_state_is_let_into_all_groups_again(make: Make) -> None:  # accepts: 003.12, 003.64
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    personal = linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    settle(laptop, phone, other)
    assert phone.key in members(other, fleet)
    phone.return_to(None)
    with phone.store.transaction():
        phone.store.personal.pin(personal)
    admit(laptop, phone, personal)
    settle(laptop, phone, other)
    for each in (laptop, phone) * 2:  # heads are compared, and what the history says comes
        each.wait(601)
        each.maintain()
        settle(laptop, phone, other)
    assert fleet in joined(phone)
    assert members(phone, fleet) == members(other, fleet) == {laptop.key, phone.key, other.key}


@pytest.mark.slow
def test_who_loses_its_state_before_it_has_answered_is_invited_again_within_the_hour(make: Make) -> None:
    """What its lost life was invited to was as much as it would take, for a week (worlds 26 and 27)."""
    laptop, phone = make("laptop"), make("phone")
    personal = linked(laptop, phone)
    groups = {create(laptop) for _ in range(MAXIMUM_GROUP_REQUESTS_OF_ONE)}
    settle(laptop, phone)
    assert groups <= joined(phone)
    for _ in range(2):
        phone.return_to(None)
        with phone.store.transaction():
            phone.store.personal.pin(personal)
        admit(laptop, phone, personal)
        carry(laptop, phone)
        with laptop.store.transaction():
            list(own(laptop).turn(laptop.name, laptop.now))
        while laptop.store.outbox.totals()[0]:  # it has all invitations, says so, and dies
            for each in (laptop, phone):
                each.wait(30)
                each.maintain()
            carry(laptop, phone)
    for each in (laptop, phone) * 4:
        each.wait(1_000)
        each.maintain()
        settle(laptop, phone)
    assert groups <= joined(phone)


def test_who_is_in_a_group_takes_no_notice_of_being_invited_once_more(make: Make) -> None:
    laptop, phone = make("laptop"), make("phone")
    linked(laptop, phone)
    fleet = create(laptop)
    settle(laptop, phone)
    copy = phone.copy_state()
    phone.return_to(copy)
    version = laptop.node.groups.group(fleet).version
    settle(laptop, phone)
    assert fleet in joined(phone)
    assert laptop.node.groups.group(fleet).version == version


@pytest.mark.slow
def test_who_is_listed_and_was_never_answered_is_invited_by_another_member(make: Make) -> None:
    """The one that let it in lost its state before the answer had come, and is the only one that it would believe."""
    laptop, phone, tablet = make("laptop"), make("phone"), make("tablet")
    linked(laptop, phone, tablet)
    fleet = create(laptop)
    admit(laptop, phone, fleet)
    with laptop.store.transaction():
        list(own(laptop).turn(laptop.name, laptop.now))
    carry(laptop, tablet)
    with tablet.store.transaction():
        list(own(tablet).turn(tablet.name, tablet.now))
    for outgoing in tablet.sends():
        laptop.receive(outgoing.envelope)
    carry(laptop, phone)
    laptop.stop()
    assert tablet.key in members(phone, fleet)
    settle(phone, tablet)
    assert fleet not in joined(tablet)
    reported = []
    for _ in range(20):
        for each in (phone, tablet):
            each.wait(300)
            each.maintain()
            with each.store.transaction():
                reported += [done.what for done in own(each).turn(each.name, each.now) if done.group_id == fleet]
        carry(phone, tablet)
    assert fleet in joined(tablet)
    assert members(phone, fleet) == {laptop.key, phone.key, tablet.key}
    assert reported == ["invited", "asked"], "once is enough"


def test_what_was_erased_is_not_filled_again_by_a_secret_that_comes_late(make: Make) -> None:  # accepts: 003.54
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    settle(laptop, phone, other)
    carry(laptop, phone, other)
    with other.store.transaction():  # begins another epoch, and tells the laptop
        other.node.actions.change(fleet, lambda draft, epoch: draft.removing(phone.key, epoch), other.now)
    with laptop.store.transaction():
        own(laptop).leave(fleet, laptop.now, at_once=True)
    assert has_nothing_of(laptop, fleet)
    carry(laptop, other)
    assert has_nothing_of(laptop, fleet)


def test_who_destroys_a_group_has_nothing_of_it_when_it_is_said_to_be_erased(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    settle(laptop, phone)
    with laptop.store.transaction():
        laptop.node.actions.destroy(fleet, laptop.now)
    settle(laptop, phone)
    assert state(laptop).groups[fleet].holding is Holding.ERASED
    assert has_nothing_of(laptop, fleet)
    assert has_nothing_of(phone, fleet)
    settle(laptop, phone, other)
    assert fleet not in joined(other), "it is told all the same"


def test_a_group_of_own_devices_alone_is_erased_before_any_of_these_has_heard_of_the_leaving(make: Make) -> None:
    laptop, phone = make("laptop"), make("phone")
    linked(laptop, phone)
    fleet = create(laptop)
    write(laptop, fleet, b"what nobody has heard by then " * 60)
    settle(laptop, phone)
    leave(laptop, fleet)
    settle(laptop)  # the phone is away, and what goes is lost
    assert state(laptop).groups[fleet].holding is Holding.ERASED
    assert has_nothing_of(laptop, fleet)
    for _ in range(8):
        settle(laptop, phone)
    assert has_nothing_of(phone, fleet)


def test_who_destroys_a_group_keeps_no_word_for_who_has_not_heard_of_it(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    settle(laptop, phone, other)
    write(laptop, fleet, b"what nobody has heard by then " * 60)
    with laptop.store.transaction():
        laptop.node.actions.destroy(fleet, laptop.now)
    settle(laptop, phone)
    assert not on_disk(laptop, b"what nobody has heard by then")


def test_a_group_that_was_destroyed_while_another_own_device_left_it_is_erased(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(other)
    admit(other, laptop, fleet)
    settle(laptop, phone, other)
    leave(laptop, fleet)
    with other.store.transaction():
        other.node.actions.destroy(fleet, other.now)
    carry(other, phone)
    settle(laptop, phone)
    assert has_nothing_of(phone, fleet)
    assert state(laptop).groups[fleet].holding is Holding.ERASED


@pytest.mark.slow
def test_who_has_left_is_invited_again_where_another_device_was_let_in_again(make: Make) -> None:
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(other)
    admit(other, laptop, fleet)
    settle(laptop, phone, other)
    assert fleet in joined(phone)
    leave(phone, fleet)
    settle(laptop, phone, other)
    carry(laptop, phone, other)
    admit(other, laptop, fleet)
    settle(laptop, phone, other)
    settle(laptop, phone, other)
    assert fleet in joined(laptop)
    assert fleet in joined(phone)


@pytest.mark.slow
def test_nothing_of_an_erased_group_lies_on_in_the_file(make: Make) -> None:  # accepts: 003.54
    laptop, phone, other = make("laptop"), make("phone"), make("other")
    linked(laptop, phone)
    fleet = create(laptop)
    admit(laptop, other, fleet)
    secret = laptop.node.groups.secret(fleet)
    assert secret is not None
    write(laptop, fleet, b"the pump by the lake " * 60)
    settle(laptop, phone, other)
    write(laptop, fleet, b"what nobody has heard by then " * 60)
    with laptop.store.transaction():
        own(laptop).leave(fleet, laptop.now, at_once=True)
    assert not on_disk(laptop, b"what nobody has heard by then"), "nor does it wait for anybody"
    carry(laptop, phone, other)
    assert members(other, fleet) == {other.key, phone.key}
    assert not on_disk(laptop, secret)
    assert not on_disk(laptop, b"the pump by the lake")


@pytest.mark.parametrize("at_once", [True, False])
def test_no_secret_of_an_erased_group_waits_for_who_takes_none(make: Make, *, at_once: bool) -> None:
    laptop, phone, other, third = make("laptop"), make("phone"), make("other"), make("third")
    linked(laptop, phone)
    fleet = create(laptop)
    for each in (other, third):
        admit(laptop, each, fleet)
    settle(laptop, phone, other)
    with laptop.store.transaction():  # begins another epoch, and the phone is away
        laptop.node.actions.change(fleet, lambda draft, epoch: draft.removing(third.key, epoch), laptop.now)
    secret = laptop.node.groups.secret(fleet)
    assert secret is not None
    with laptop.store.transaction():
        own(laptop).leave(fleet, laptop.now, at_once=at_once)
    if not at_once:
        carry(laptop, other)
        laptop.wait(MAINTENANCE_US / 1_000_000)
        laptop.maintain()
    assert not on_disk(laptop, secret)
    carry(laptop, phone, other)
    assert members(other, fleet) == members(phone, fleet) == {other.key, phone.key}
    assert phone.node.groups.secret(fleet) == other.node.groups.secret(fleet)


def on_disk(device: Device, content: bytes) -> bool:
    """Say whether something lies anywhere in a device's file."""
    device.stop()
    try:
        return content in device.path.read_bytes()
    finally:
        device.restart()
