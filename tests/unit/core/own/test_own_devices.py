"""`covey.core.own`: what one of a person's devices joins, leaves or erases shows on the others."""

from __future__ import annotations

import pytest

from covey.core.group.manifest import Mode
from covey.core.history.personal import Holding, OwnGroup, Preference
from covey.errors import LocalError
from covey.limits.pairing import MAXIMUM_GROUP_REQUESTS_OF_ONE
from covey.limits.personal import JOINED_UNASKED
from tests.fleet import Make, admit, carry
from tests.own_devices import (
    create,
    has_nothing_of,
    joined,
    leave,
    linked,
    members,
    notes,
    own,
    settle,
    state,
    write,
)


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


@pytest.mark.slow
def test_a_readmitted_device_stays(make: Make) -> None:
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


@pytest.mark.slow
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
def test_groups_a_retired_device_left_stay_left(make: Make, *, obeyed: bool) -> None:  # accepts: 003.51
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


@pytest.mark.slow
def test_a_device_that_obeyed_a_thief_is_invited_again(make: Make) -> None:
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


@pytest.mark.slow
def test_a_device_that_lost_its_state_is_invited_again(make: Make) -> None:
    laptop, phone = make("laptop"), make("phone")
    linked(laptop, phone)
    earlier = phone.copy_state()
    fleet = create(laptop)
    settle(laptop, phone)
    assert fleet in joined(phone)
    phone.return_to(earlier)
    assert fleet not in joined(phone)
    settle(laptop, phone)
    assert fleet in joined(phone)


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
def test_the_last_messages_arrive_before_a_departure(make: Make) -> None:
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


@pytest.mark.slow
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
def test_a_device_without_state_rejoins_all_groups(make: Make) -> None:  # accepts: 003.12, 003.64
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
def test_a_lost_invitee_is_invited_again_within_the_hour(make: Make) -> None:
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


def test_a_member_ignores_another_invitation(make: Make) -> None:
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
def test_another_member_invites_a_listed_device_without_answer(make: Make) -> None:
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


@pytest.mark.slow
def test_a_device_that_left_is_invited_again(make: Make) -> None:
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
