"""What overtakes the manifest that it rests on: a vote, and the destruction of a group, over a bad network.

Who has issued the manifest is gone before everybody has it, so what rests on it comes first, from another member, and
is said once. Whoever hears it is one manifest behind, may be started again meanwhile, and obeys it in the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.sqlite.membership.groups import MessagesAhead
from covey.core.group.manifest import GroupManifest, Mode, Role
from covey.core.group.policy import Action
from covey.core.membership.former_members import FormerMembers
from covey.core.now import Now
from covey.core.receiving.handlers import GroupMessages
from covey.core.receiving.outcome import HandlerOutcome
from covey.core.wire.message import Message
from tests.examples import parameters
from tests.fleet import Device, admit, carry
from tests.proof import a_world_notices
from tests.split_network import SplitNetwork

_SEEDS_OF_MISTAKES = (1, 2, 3, 0)
_STEPS_OF_ONE = 10
_STEPS_OF_A_ROUND = 8_000
"""An hour: who hears nothing of others compares what it holds with them in rounds."""
_STEPS = 240
"""Two minutes: who is behind is brought the manifest by whoever made it know of it."""


class _World:
    """Ann, an admin, changes the group and is gone; ben knows of it, cem and dan do not; eve is to go."""

    def __init__(self, folder: Path, seed: int, mode: Mode) -> None:
        folder.mkdir(exist_ok=True)
        self._chance = random.Random(seed)
        self.devices = [Device(name, folder, chance=self._chance) for name in ("ann", "ben", "cem", "dan", "eve")]
        self.ann, self.ben, self.cem, self.dan, self.eve = self.devices
        with self.ann.store.transaction():
            self.group_id = self.ann.node.membership.create("ann", (), self.ann.now.wall_us, mode).group_id
        for device in self.devices[1:]:
            admit(self.ann, device, self.group_id, *self.devices)
        if mode is Mode.ADMIN_INVITES:
            self._promote(self.cem)
            carry(*self.devices)
        self._network = SplitNetwork(self.devices, self._chance, loss=0.2)

    def _promote(self, target: Device) -> None:
        def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
            member = draft.member(target.key)
            assert member is not None
            return draft.changing(replace(member, role=Role.ADMIN))

        with self.ann.store.transaction():
            self.ann.node.actions.change(self.group_id, edit, self.ann.now)

    def vote(self) -> None:
        """Let ben vote, whom only ann and ben know to be an admin; cem, who has heard of it, makes it two of three."""
        self._known_to_ben(lambda: self._promote(self.ben))
        self._vote(self.ben)
        self._go_on()
        self._network.run(lambda: len(self.cem.store.votes.of_group(self.group_id)) == 1, _STEPS)
        self._vote(self.cem)
        self._network.run(lambda: all(self._is_out(each) for each in (self.ben, self.cem, self.dan)), _STEPS)

    def _vote(self, voter: Device) -> None:
        with voter.store.transaction():
            voter.node.actions.vote(self.group_id, Action.BAN, self.eve.key, voter.now)

    def destroy(self) -> None:
        """Let ben destroy the group in an epoch that only ann and ben know of."""
        self._known_to_ben(self._remove)
        with self.ben.store.transaction():
            self.ben.node.actions.destroy(self.group_id, self.ben.now)
        self._go_on()
        remaining = (self.ben, self.cem, self.dan)
        self._network.run(lambda: not any(each.node.groups.joined() for each in remaining), _STEPS)

    def remove(self) -> None:
        """Let eve, whom only ann and ben know to be removed, hear of it without ann."""
        self._known_to_ben(self._remove)
        self._network.run(lambda: not self.eve.node.groups.joined(), _STEPS_OF_A_ROUND)

    def _remove(self) -> None:
        with self.ann.store.transaction():
            self.ann.node.actions.change(
                self.group_id, lambda draft, epoch: draft.removing(self.eve.key, epoch), self.ann.now
            )

    def _known_to_ben(self, change: Callable[[], None]) -> None:
        """Let ann change the group while only ben hears of it, and go."""
        change()
        carry(self.ann, self.ben)
        self.devices.remove(self.ann)
        self.ann.stop()

    def _go_on(self) -> None:
        """Let what was said come; who keeps some of it for later may be started again."""
        for _ in range(_STEPS_OF_ONE):
            self._network.step()
            for device in (self.cem, self.dan):
                if device.store.ahead.of_group(self.group_id) and self._chance.random() < 0.5:
                    device.restart()

    def _is_out(self, device: Device) -> bool:
        return all(group.member(self.eve.key) is None for group in device.node.groups.joined())


def _vote(folder: Path, seed: int) -> None:
    _World(folder, seed, Mode.ADMIN_INVITES).vote()


def _destroy(folder: Path, seed: int) -> None:
    _World(folder, seed, Mode.INVITES_ONLY).destroy()


_Course = Callable[[Path, int], None]
_COURSES: tuple[_Course, ...] = (_vote, _destroy)


@pytest.mark.parametrize("course", _COURSES)
@pytest.mark.parametrize("seed", parameters(range(4)))
def test_messages_that_overtake_their_manifest_are_obeyed(tmp_path: Path, seed: int, course: _Course) -> None:
    # accepts: 000.22, 003.34
    course(tmp_path, seed)


def _at_once(
    messages: GroupMessages, take: Callable[[Message, Now], HandlerOutcome], message: Message, now: Now
) -> HandlerOutcome:
    del messages
    return take(message, now)


_MISTAKES: dict[str, tuple[object, str, object]] = {
    "what comes too early is refused": (GroupMessages, "_now_or_later", _at_once),
    "what waits is never taken": (GroupMessages, "take_what_waited", lambda *_: HandlerOutcome()),
    "nobody looks at what waits": (GroupMessages, "has_work", False),
    "a start forgets what waits": (MessagesAhead, "groups", lambda _: []),
}


@pytest.mark.proof
@pytest.mark.parametrize("course", _COURSES)
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_with_what_comes_too_early_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str, course: _Course
) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, course, tmp_path, _SEEDS_OF_MISTAKES)


def _removal(folder: Path, seed: int) -> None:
    _World(folder, seed, Mode.INVITES_ONLY).remove()


@pytest.mark.slow
def test_any_member_that_knows_of_a_removal_reports_it(tmp_path: Path) -> None:  # accepts: 000.20
    _removal(tmp_path, 1)


@pytest.mark.proof
def test_a_removal_that_its_issuer_alone_reports_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FormerMembers, "receive", lambda *_: [])
    a_world_notices("its issuer alone reports a removal", _removal, tmp_path, [1])
