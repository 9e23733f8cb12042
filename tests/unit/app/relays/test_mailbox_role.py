"""`covey.app.relays.mailbox_role`: what expires, who is gone, and whom to wake by what, in the turns of an agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.app.relays.mailbox_role import BeingWoken, MailboxRole
from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import VERSION, Hello, Hook, Push, WakeHook
from covey.core.wire.topics import wake_topic
from covey.limits.mailbox import MAILBOX_LOOK_US
from covey.limits.units import MIB
from tests.fleet import Device
from tests.mailbox_fleet import MailboxFleet

_TOPIC, _PROGRAM = WakeHook(Hook.MQTT, "mqtt"), WakeHook(Hook.PROGRAM, "program")


class _Post:
    """A mailbox with its role, and what it has done."""

    def __init__(self, fleet: MailboxFleet, *, by_topic: bool) -> None:
        self.fleet, self.post = fleet, fleet.post
        self.woken: list[tuple[DeviceKey, WakeHook]] = []
        self.said: list[str] = []
        self.role = MailboxRole(
            self.post.store,
            MIB,
            self._wake,
            lambda _level, line: self.said.append(line),
            by_topic=by_topic,
        )

    def _wake(self, device: DeviceKey, name: str, hook: WakeHook) -> None:
        assert name == device[:4].hex()
        self.woken.append((device, hook))

    def turn(self) -> int | None:
        """Take a turn."""
        return self.role.turn(self.post.node, self.post.now)

    def keep(self, number: int, ttl_s: int = 60) -> None:
        """Let ann push a blob for ben."""
        fleet = self.fleet
        fleet.say(fleet.ann, self.post, Hello(VERSION, "ann", 0))
        fleet.say(fleet.ann, self.post, Push(number.to_bytes(16), b"secret", ttl_s, fleet.ben.key))

    def topics(self) -> dict[str, bytes]:
        """Return what is published for nobody's inbox."""
        return {each.topic: each.envelope for each in self.post.sends() if "/wake/" in each.topic}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MailboxFleet]:
    found = MailboxFleet(tmp_path)
    yield found
    for device in found.devices.values():
        device.stop()


@pytest.mark.parametrize("by_topic", [True, False])
def test_a_sleeper_is_woken_as_it_asks_and_the_owner_allows(  # accepts: 002.15
    fleet: MailboxFleet, *, by_topic: bool
) -> None:
    post = _Post(fleet, by_topic=by_topic)
    with post.post.store.transaction():
        for hook in (_TOPIC, _PROGRAM):
            post.post.store.mailbox.add_hook(fleet.ben.key, hook)
    post.keep(1)
    post.turn()
    assert post.woken == [(fleet.ben.key, _PROGRAM)]
    assert post.topics() == ({wake_topic(fleet.ben.key): b""} if by_topic else {}), "no content"
    assert post.topics() == {}, "once"


def test_expired_messages_are_deleted_in_a_turn(fleet: MailboxFleet) -> None:
    post = _Post(fleet, by_topic=False)
    post.turn()
    post.keep(1, ttl_s=60)
    assert post.post.store.mailbox.totals()[0] == 1
    with post.post.store.transaction():
        post.post.store.outbox.grow_older(60_000_000)
    post.turn()
    assert post.post.store.mailbox.totals()[0] == 1, "it looks once a minute"
    post.post.wait(MAILBOX_LOOK_US / 1e6)
    post.turn()
    assert post.post.store.mailbox.totals()[0] == 0
    assert post.post.store.counters.values()["dropped_mailbox_expired"] == 1


def test_envelopes_of_a_removed_device_are_deleted_and_counted(fleet: MailboxFleet) -> None:
    post = _Post(fleet, by_topic=False)
    post.keep(1)
    post.keep(2)
    with post.post.store.transaction():
        post.post.node.actions.change(
            fleet.group_id, lambda draft, epoch: draft.removing(fleet.ann.key, epoch), post.post.now
        )
    post.turn()
    assert post.post.store.mailbox.totals()[0] == 0
    assert post.post.store.counters.values()["dropped_mailbox_of_former_members"] == 2
    assert post.said == ["deleted 2 messages pushed by devices that are no longer in any group"]


def test_a_device_that_left_every_group_has_no_inbox(fleet: MailboxFleet) -> None:  # accepts: 002.13
    post = _Post(fleet, by_topic=False)
    post.keep(1)
    with post.post.store.transaction():
        post.post.node.actions.change(
            fleet.group_id, lambda draft, epoch: draft.removing(fleet.ben.key, epoch), post.post.now
        )
    post.turn()
    assert post.post.store.mailbox.devices() == []
    assert post.said == ["deleted the inboxes of 1 devices that are no longer in any group"]
    post.role.stop(post.post.node, post.post.now)


def test_an_agent_in_no_group_with_a_mailbox_does_nothing(tmp_path: Path) -> None:
    lone = Device("lone", tmp_path)
    role = MailboxRole(lone.store, MIB, lambda *_: None, lambda *_: None, by_topic=True)
    assert role.turn(lone.node, lone.now) is None
    assert BeingWoken((_PROGRAM,)).turn(lone.node, lone.now) is None
    lone.stop()


@pytest.mark.slow
def test_a_device_says_how_it_wants_to_be_woken(fleet: MailboxFleet) -> None:  # accepts: 002.15, 002.16
    woken = BeingWoken((_PROGRAM,))
    assert woken.turn(fleet.ben.node, fleet.ben.now) is None
    fleet.carry()
    assert fleet.post.store.mailbox.hooks(fleet.ben.key) == [_PROGRAM]
    woken.stop(fleet.ben.node, fleet.ben.now)
    fleet.ben.restart()
    fleet.carry()
    assert fleet.post.store.mailbox.hooks(fleet.ben.key) == [], "a run that does not ask is not woken"
