"""`covey.core.membership.gathering`: the devices of a fleet are let in by one manifest, whenever they come together."""

from __future__ import annotations

import pytest

from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.pairing.invite import Invite, JoinRequest
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.errors import LocalError
from covey.limits.pairing import (
    GATHER_QUIET_US,
    GATHER_US,
    MAXIMUM_OPEN_INVITES,
    MAXIMUM_PREPARED_INVITES,
    PREPARED_INVITE_US,
)
from tests.fleet import Device, Make, carry, found, identity

_QUIET_S, _LONGEST_S = GATHER_QUIET_US / 1e6, GATHER_US / 1e6


def create(device: Device) -> GroupId:
    with device.store.transaction():
        return device.node.membership.create(device.name, (), device.now.wall_us).group_id


def prepare(hub: Device, group_id: GroupId, label: str, *capabilities: str) -> Invite:
    with hub.store.transaction():
        return hub.node.joining.invite(
            group_id, capabilities, "mqtt://fleet", hub.now.wall_us, PREPARED_INVITE_US, prepared_for=label
        )


def ask(joiner: Device, invite: Invite) -> None:
    with joiner.store.transaction():
        joiner.node.actions.request_join(invite, joiner.name, joiner.now)


def knock(hub: Device, name: str, invite: Invite, noise_of: str | None = None) -> DeviceKey:
    """Send the hub a JOIN of a device that has no more than its keys."""
    author = identity(name)
    body = JoinRequest(invite.secret, identity(noise_of or name).noise_public, name).to_wire()
    message = write_message(
        author,
        MessageType.JOIN,
        hub.key,
        invite.group_id,
        Incarnation(b"incarnat"),
        LinkSeq(1),
        LinkSeq(1),
        1,
        body,
    )
    hub.receive(seal(message, hub.identity.noise_public, hub.rng(32), hub.rng(24)))
    return author.signing_public


def labels(device: Device, group_id: GroupId) -> set[str]:
    return {each.label for each in device.node.groups.group(group_id).members}


@pytest.mark.slow
def test_forty_that_come_together_cost_one_manifest_and_one_message_each(make: Make) -> None:
    hub, ann, ben = make("hub"), make("ann"), make("ben")
    group_id = found(hub, ann, ben)
    carry(hub, ann, ben)
    before, waiting = hub.node.groups.group(group_id).version, hub.store.outbox.totals()[0]
    for number in range(40):
        knock(hub, f"gateway {number}", prepare(hub, group_id, f"gateway {number}"))
        hub.maintain()
    assert hub.node.groups.group(group_id).version == before
    hub.wait(_QUIET_S)
    hub.maintain()
    after = hub.node.groups.group(group_id)
    assert (after.version, len(after.members)) == (before + 1, 43)
    assert hub.store.outbox.totals()[0] - waiting == 2 + 40


def test_each_of_them_has_the_group_and_knows_the_others(make: Make) -> None:
    hub, *gateways = make("hub"), make("one"), make("two"), make("three")
    group_id = create(hub)
    for each in gateways:
        ask(each, prepare(hub, group_id, each.name, "relayer"))
    carry(hub, *gateways)
    hub.wait(_QUIET_S)
    hub.maintain()
    carry(hub, *gateways)
    for device in (hub, *gateways):
        assert labels(device, group_id) == {"hub", "one", "two", "three"}
    assert all(
        each.capabilities == ("relayer",) for each in hub.node.groups.group(group_id).members if each.label != "hub"
    )
    for device in gateways:  # what nobody acknowledged while it was waited for
        device.wait(120)
        device.maintain()
    carry(hub, *gateways)
    assert [device.store.outbox.totals()[0] for device in (hub, *gateways)] == [0, 0, 0, 0]


def test_a_gathered_joiner_waits_for_a_bounded_time(make: Make) -> None:
    hub = make("hub")
    group_id = create(hub)
    for number in range(int(_LONGEST_S)):
        knock(hub, f"gateway {number}", prepare(hub, group_id, ""))
        hub.wait(1)
        hub.maintain()
    assert len(hub.node.groups.group(group_id).members) == 1 + _LONGEST_S


def test_waiting_joiners_survive_a_restart(make: Make) -> None:
    hub = make("hub")
    group_id = create(hub)
    knock(hub, "one", prepare(hub, group_id, "one"))
    hub.restart()
    assert hub.node.has_work(hub.now)
    hub.maintain()
    hub.wait(_QUIET_S)
    hub.maintain()
    assert labels(hub, group_id) == {"hub", "one"}


def test_one_invite_lets_one_device_in(make: Make) -> None:
    hub = make("hub")
    group_id = create(hub)
    invite = prepare(hub, group_id, "one")
    knock(hub, "one", invite)
    knock(hub, "two", invite)
    hub.wait(_QUIET_S)
    hub.maintain()
    knock(hub, "three", invite)
    hub.wait(_QUIET_S)
    hub.maintain()
    assert labels(hub, group_id) == {"hub", "one"}


def test_a_refused_joiner_keeps_nobody_out(make: Make) -> None:
    hub = make("hub")
    group_id = create(hub)
    banned = knock(hub, "banned", prepare(hub, group_id, "banned"))
    knock(hub, "one", prepare(hub, group_id, "one"))
    knock(hub, "shares a noise key", prepare(hub, group_id, "two"), noise_of="one")
    gone_astray = prepare(hub, group_id, "astray")
    knock(hub, "astray", gone_astray)
    for target in (banned, DeviceKey(gone_astray.secret_hash)):
        with hub.store.transaction():
            hub.node.actions.change(
                group_id, lambda draft, epoch_id, target=target: draft.banning(target, epoch_id), hub.now
            )
    hub.wait(_QUIET_S)
    hub.maintain()
    members = labels(hub, group_id)
    assert members in ({"hub", "one"}, {"hub", "shares a noise key"})
    assert all(each.request is None for each in hub.store.invites.all())
    assert hub.store.counters.values()["dropped_invite"] == 3


def test_a_member_without_the_right_admits_nobody(make: Make) -> None:
    hub = make("hub")
    group_id = create(hub)
    knock(hub, "one", prepare(hub, group_id, "one"))
    with hub.store.transaction():
        hub.node.actions.leave(group_id, hub.now)
    hub.wait(_QUIET_S)
    hub.maintain()
    assert hub.node.groups.joined() == []
    assert not hub.node.has_work(hub.now)


@pytest.mark.slow
def test_prepared_invites_are_bounded_apart_from_those_that_people_hand_over(make: Make) -> None:
    hub = make("hub")
    group_id = create(hub)
    for _ in range(MAXIMUM_PREPARED_INVITES):
        prepare(hub, group_id, "")
    with pytest.raises(LocalError):
        prepare(hub, group_id, "")
    for _ in range(MAXIMUM_OPEN_INVITES):
        with hub.store.transaction():
            hub.node.joining.invite(group_id, (), "", hub.now.wall_us)
    with pytest.raises(LocalError), hub.store.transaction():
        hub.node.joining.invite(group_id, (), "", hub.now.wall_us)
