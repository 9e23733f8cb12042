"""`covey.core.own`: a group that one of a person's devices leaves or destroys is erased on all of them."""

from __future__ import annotations

import pytest

from covey.core.history.personal import Holding, OwnGroup
from covey.limits.group import MAINTENANCE_US
from tests.fleet import Device, Make, admit, carry
from tests.own_devices import (
    create,
    has_nothing_of,
    joined,
    leave,
    linked,
    members,
    own,
    settle,
    state,
    write,
)


@pytest.mark.slow
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
def test_an_immediate_departure_erases_on_all_devices(make: Make) -> None:  # accepts: 003.53, 003.55
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


def test_a_late_secret_does_not_refill_an_erased_group(make: Make) -> None:  # accepts: 003.54
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


def test_a_destroyed_group_leaves_nothing(make: Make) -> None:
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_destroyed_group_keeps_no_queued_messages(make: Make) -> None:
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


@pytest.mark.slow
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


@pytest.mark.slow
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
