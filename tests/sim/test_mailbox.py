"""Mailboxes in seeded worlds: one that lies loses nothing while the sender lives, one that does not needs no sender.

The production code of three or four devices over a wire that loses, doubles and reorders; each seed replays.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from covey.adapters.sqlite.mailbox import MailboxTables
from covey.core.ids import DeviceKey, Place, inbox_name
from covey.core.link.sealer import Outgoing
from covey.core.mailbox import client as client_module
from covey.core.mailbox.client import MailboxSession
from covey.core.mailbox.messages import MailboxWelcome, PullResponse, PushAck
from covey.core.mailbox.pushing import Pushing
from covey.core.now import Now
from covey.core.wire.sequences import SequenceSet
from tests.examples import beginning_with, parameters
from tests.fleet import Device
from tests.mailbox_fleet import MailboxFleet
from tests.proof import a_world_notices
from tests.sim.lying_mailbox import LyingInboxes

_SEEDS = range(24)
_MUTANT_SEEDS = range(60)
_SEED_OF_MUTANT = {"an answer is taken for the whole": 30}
"""The first that notices, where it comes late."""
_STEPS = 40
_PATIENCE = 250
_PULL_BLOBS = 3
"""What is asked for at once here, so that few blobs need several answers."""


class ViolationError(AssertionError):
    """Something was lost, or came twice."""


class MailboxWorld:
    """Ann writes to ben, who sleeps; `post`, and perhaps `office`, keep it. The wire is bad until `calm`."""

    def __init__(self, seed: int, folder: Path, *, lies: bool) -> None:
        self.chance = random.Random(seed)
        names = ("post", "office") if self.chance.random() < 0.3 else ("post",)
        self.fleet = MailboxFleet(folder, mailboxes=names)
        self.ann, self.ben, self.post = self.fleet.ann, self.fleet.ben, self.fleet.post
        self.liar: LyingInboxes | None = None
        if lies:
            self.liar = LyingInboxes(MailboxTables(self.post.store.database), self.chance)
            self.post.store.__dict__["mailbox"] = self.liar
            self._renew(self.post)
        self.calm = False
        self.said: list[bytes] = []
        self._late: list[Outgoing] = []

    def _renew(self, mailbox: Device) -> None:
        mailbox.replace_node()
        mailbox.node.connected(mailbox.now)
        self.fleet.serve(mailbox)

    def step(self) -> None:
        """Let some seconds pass, and the wire carry what it likes."""
        self.fleet.wait(self.chance.choice((1, 6, 11, 40)))
        for _ in range(4):
            moving, self._late = self._late, []
            for device in self.fleet.devices.values():
                if device.name not in self.fleet.asleep:
                    moving += device.sends()
                    self._check_idle(device)
            if not self.calm:
                self.chance.shuffle(moving)
            for outgoing in moving:
                self._carry(outgoing)
            for device in self.fleet.devices.values():
                device.node.make_acknowledgements_due(device.now)

    def _check_idle(self, device: Device) -> None:
        """A device that has just said all may not want to say more at once: its loop would spin."""
        exchange = device.node.mailboxes.exchange
        due = None if exchange is None else exchange.next_deadline()
        if due is not None and due <= device.now.monotonic_us:
            raise ViolationError(f"{device.name} spins")

    def _carry(self, outgoing: Outgoing) -> None:
        fate = 1.0 if self.calm else self.chance.random()
        receiver = next(
            (each for each in self.fleet.devices.values() if outgoing.topic.endswith(inbox_name(each.key))), None
        )
        if fate < 0.25 or receiver is None or receiver.name in self.fleet.asleep:
            return
        if fate < 0.35:
            self._late.append(outgoing)
            return
        for _ in range(2 if fate < 0.5 else 1):
            receiver.receive(outgoing.envelope)

    def speak(self) -> None:
        """Let ann say something to ben."""
        self.said.append(b"word %d" % len(self.said))
        with self.ann.store.transaction():
            self.ann.node.send_blob(self.fleet.group_id, self.said[-1], self.ann.now, self.ben.key)

    def fault(self) -> None:
        """Let something fail, or somebody wake or fall asleep."""
        kind = self.chance.randrange(6)
        if kind == 0:
            self.fleet.asleep ^= {"ben"}
        elif kind == 1:
            self.ann.restart()
        elif kind == 2:
            self.ben.restart()
        elif kind == 3:
            for mailbox in self.fleet.mailboxes:
                self._renew(mailbox)
        elif kind == 4:
            self.ann.node.nobody_listens(self.ben.key)
        elif any(each.recipient == self.ben.key and each.queued for each in self.ann.store.outbox.queues()):
            self.fleet.hand_over(self.ann, self.ben)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Step until a condition holds.

        Raises:
            ViolationError: it never does.
        """
        for _ in range(_PATIENCE):
            if condition():
                return
            self.step()
        raise ViolationError(f"never: {what}")

    def check(self, found: list[bytes]) -> None:
        """Compare what ben has got.

        Raises:
            ViolationError: something is missing, or there twice.
        """
        if Counter(found) != Counter(self.said):
            missing, more = Counter(self.said) - Counter(found), Counter(found) - Counter(self.said)
            raise ViolationError(f"missing {sorted(missing)}, too many {sorted(more)}")

    def stop(self) -> None:
        """End all."""
        for device in self.fleet.devices.values():
            device.stop()


def _run_with_a_liar(seed: int, folder: Path) -> int:
    """Let a mailbox lie all the time; the sender lives. Return how often it lied."""
    world = MailboxWorld(seed, folder, lies=True)
    try:
        for _ in range(_STEPS):
            if world.chance.random() < 0.4:
                world.speak()
            world.fault()
            world.step()
        world.fleet.asleep, world.calm = set(), True
        world.until(lambda: not world.ann.store.outbox.totals()[0], "the recipient acknowledges all")
        world.check(world.ben.inbox())
        assert world.liar is not None
        return world.liar.lies
    finally:
        world.stop()


def _run_without_a_sender(seed: int, folder: Path) -> None:
    """Let ben have seen some of it, and ann hand over the rest and go for good; the mailbox is restored before that."""
    world = MailboxWorld(seed, folder, lies=False)
    try:
        for _ in range(world.chance.randrange(6)):
            world.speak()
        if world.said:
            world.fleet.hand_over(world.ann, world.ben)
        backup = world.post.copy_state() if world.chance.random() < 0.5 else None
        world.fleet.serve(world.post)
        for _ in range(10):
            world.step()
        if backup is not None:
            world.post.return_to(backup)
            world.fleet.serve(world.post)
        world.fleet.asleep = {"ben"}
        for _ in range(world.chance.randrange(4, 12)):
            world.speak()
            world.step()
        world.fleet.hand_over(world.ann, world.ben)
        last = world.ann.store.mailbox.handed_over()[world.ben.key]
        world.until(lambda: world.ann.store.mailbox.is_handed_over(world.ben.key, last), "a mailbox keeps all")
        world.fleet.asleep = {"ann"}
        world.ben.restart()
        world.until(lambda: len(world.ben.inbox()) >= len(world.said), "ben has all")
        world.calm = True
        world.step()
        world.check(world.ben.inbox())
        in_order = [row[-1] for row in world.ben.store.inbox.arrived_in_order(1_000)]
        if in_order != world.said:
            raise ViolationError("not in the order of sending")
        world.until(lambda: not world.post.store.mailbox.state(world.ben.key).blobs, "the mailbox lets go of it")
    finally:
        world.stop()


@pytest.fixture(autouse=True)
def _few_at_once() -> object:
    with patch.object(client_module, "PULL_BLOBS", _PULL_BLOBS) as patched:
        yield patched


@pytest.mark.parametrize("seed", parameters(_SEEDS, quick=2, plain=3))
# accepts: 002.39, 002.41
def test_a_mailbox_that_lies_loses_nothing_while_the_sender_lives(seed: int, tmp_path: Path) -> None:
    assert _run_with_a_liar(seed, tmp_path) > 0


@pytest.mark.parametrize("seed", parameters(_SEEDS, quick=2, plain=3))
# accepts: 002.05, 002.08, 002.12, 002.39, 002.40, 002.41
def test_a_mailbox_that_does_not_lie_needs_no_sender(seed: int, tmp_path: Path) -> None:
    _run_without_a_sender(seed, tmp_path)


# -- mistakes that these worlds catch ---------------------------------------------------------------------------------


def _frees_on_its_word(pushing: Pushing, mailbox: DeviceKey, answer: PushAck, now: Now) -> bool:
    pushed = pushing._on_their_way.get(mailbox, {}).get(answer.blob_id)
    if pushed is not None:
        records: object = pushing._records
        records.outbox.free(pushed.recipient, SequenceSet().add(pushed.place))  # type: ignore[attr-defined]
        pushing._windows.acknowledged(pushed.recipient, SequenceSet().add(pushed.place), now)
    return _acknowledged(pushing, mailbox, answer, now)


def _notes_the_last_one(pushing: Pushing, mailbox: DeviceKey, answer: PushAck, now: Now) -> bool:
    pushed = pushing._on_their_way.get(mailbox, {}).pop(answer.blob_id, None)
    if pushed is None:
        return False
    pair = pushed.recipient, mailbox
    if pushed.place > pushing._records.mailbox.pushed_upto(*pair)[0]:
        pushing._records.mailbox.set_pushed(*pair, Place(pushed.place), now.wall_us)
    return True


def _knows_no_restored_one(session: MailboxSession, welcome: MailboxWelcome, generation: int, now: Now) -> bool:
    session.relay_id = welcome.relay_id
    maximum = max(welcome.max_cursor, session._position)
    seen = MailboxWelcome(welcome.version, welcome.relay_id, maximum, 0)
    return _welcomed(session, seen, generation, now)


def _deletes_what_it_gives(tables: MailboxTables, device: DeviceKey, *arguments: int) -> object:
    found = _after(tables, device, *arguments)
    for each in found[0]:
        tables.delete(device, (each.cursor, each.cursor))
    return found


def _goes_on_after_the_gap(session: MailboxSession, response: PullResponse, after: int, now: Now) -> int:
    del session, now
    return min(response.max_cursor, after + 10_000)


_acknowledged, _welcomed, _after = Pushing.acknowledged, MailboxSession.receive_welcome, MailboxTables.after

_MUTANTS: dict[str, tuple[object, str, object, Callable[[int, Path], object]]] = {
    "a mailbox's word frees": (Pushing, "acknowledged", _frees_on_its_word, _run_with_a_liar),
    "what was acknowledged last counts": (Pushing, "acknowledged", _notes_the_last_one, _run_without_a_sender),
    "a restored mailbox is taken for the same": (
        MailboxSession,
        "receive_welcome",
        _knows_no_restored_one,
        _run_without_a_sender,
    ),
    "a mailbox deletes what it gives": (MailboxTables, "after", _deletes_what_it_gives, _run_without_a_sender),
    "an answer is taken for the whole": (MailboxSession, "_checked", _goes_on_after_the_gap, _run_without_a_sender),
}


@pytest.mark.proof
@pytest.mark.parametrize("name", _MUTANTS)
def test_a_mistake_is_caught(name: str, tmp_path: Path) -> None:
    owner, attribute, replacement, run = _MUTANTS[name]
    with patch.object(owner, attribute, replacement):
        seeds = beginning_with(_SEED_OF_MUTANT.get(name), _MUTANT_SEEDS)
        a_world_notices(name, lambda folder, seed: run(seed, folder), tmp_path, seeds, ViolationError)
