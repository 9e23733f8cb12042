"""A second group of the world's devices and a guest, in which three admins vote; and it is destroyed.

Persons vote at random, about members, devices that are none, and an invite, and now and then somebody destroys the
group. Whatever fails meanwhile: all come to the same, whoever is banned is neither heard nor sealed for, and of a group
that was destroyed nobody keeps anything. The guest's keys are somebody else's, too, who says again what it once might.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, read_manifest, sign_manifest
from covey.core.group.messages import Bundle
from covey.core.group.policy import Action, majority, read_vote, sign_vote, voted_for
from covey.core.group.resolver import GroupState
from covey.core.group.revocation import sign_revoke
from covey.core.ids import DeviceKey, Incarnation
from covey.core.node import Node
from covey.core.now import Now
from covey.core.wire import cbor
from covey.core.wire.message import MessageType
from tests.sim.agenda import MINUTE, SECOND
from tests.sim.hostile_sender import HostileSender
from tests.sim.ledger import MARK, Submission, check
from tests.sim.store import SimStore

if TYPE_CHECKING:
    from tests.sim.device import Device
    from tests.sim.world import World

_INCARNATION = Incarnation(b"outcast!")
_DESTROYS = 0.03
"""How often what a person does is to destroy the group: in a third of the worlds where many things are done."""
_AGREES_US = 60 * MINUTE
_FORGETS_US = 15 * MINUTE
_HEARS_US = 30 * MINUTE
"""Whoever the broker has deafened and who has nothing to say hears of nothing until it subscribes again."""
_LEAVES_US = 30 * MINUTE
_SLEEPS_US = 3 * MINUTE
_GONE_US = 60 * MINUTE


class Governed:
    """What persons do in the group, and what must hold."""

    def __init__(self, world: World, chance: random.Random) -> None:
        known = world.template.governed
        assert known is not None
        self._known = known
        self.group_id = known.group_id
        self._world = world
        self._chance = chance
        self._admins, self._guest = world.devices[:3], world.devices[3]
        self._strangers = [DeviceKey(chance.randbytes(32)) for _ in range(2)]
        self._sender = HostileSender(world, self._guest.identity, chance)
        self.acts = 0
        self.said = 0
        """What the end adds: messages, and destructions."""
        self._may_destroy = not world.plan.restore_every_us
        """A device that is restored after all others have forgotten the group is told by nobody."""
        self._destroyed = False
        self._issuers: set[DeviceKey] = set()
        """Who has destroyed the group."""
        self._had_banned: list[Device] = []
        """Who held the ban of whoever destroyed the group first, when that one did: its word crosses the ban."""

    # -- persons ------------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Let a person vote, or destroy the group."""
        self.acts += 1
        person = self._chance.choice(self._admins)
        if self._may_destroy and self._chance.random() < _DESTROYS:
            self._destroy(person)
            return
        others = [each.identity.signing_public for each in (*self._admins, self._guest) if each is not person]
        target = self._chance.choice([*others, self._guest.identity.signing_public, *self._strangers])
        person.in_another_process(lambda store, node, now: self._vote(person, target, store, node, now))

    def _vote(self, person: Device, target: DeviceKey, store: SimStore, node: Node, now: Now) -> None:
        group = node.groups.group(self.group_id)
        action = Action.BAN if group.member(target) is not None else Action.KEEP_OUT
        if group.ban(target) is not None:
            action = Action.UNBAN
        with store.transaction():
            voting = node.actions.vote(self.group_id, action, target, now)
        self._world.trace(person.name, f"votes {action.name} {target.hex()[:6]}: {voting.votes} of {voting.needed}")

    def _destroy(self, person: Device) -> None:
        key = person.identity.signing_public

        def work(store: SimStore, node: Node, now: Now) -> None:
            with store.transaction():
                node.actions.destroy(self.group_id, now)
                store.on_commit(noted)

        def noted() -> None:
            if not self._destroyed:
                views = [(each, self._view(each)) for each in self._world.devices]
                self._had_banned = [each for each, view in views if view and view.member(key) is None]
            self._destroyed = True
            self._issuers.add(key)
            self._world.ledger.parted.add(self._guest.identity.signing_public)
            self._world.trace(person.name, "destroys the group")

        person.in_another_process(work)

    def has_obeyed(self, key: DeviceKey) -> bool:
        """Say whether the group was destroyed, and a device holds that, or has nothing of it any more."""
        groups = next(each for each in self._world.devices if each.identity.signing_public == key).store.groups
        return self._destroyed and bool(groups.revocations() or not groups.manifests_from(self.group_id, 1))

    def is_out(self, key: DeviceKey) -> bool:
        """Say whether a device knows that it is no member of the group."""
        device = next(each for each in self._world.devices if each.identity.signing_public == key)
        return device.is_out_of(self.group_id)

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Check what has come of it all; and, where there still is a group, of its end."""
        if not self._destroyed:
            self._wait(self._agrees, _AGREES_US, "admins' votes end in different groups")
            self._check_votes()
            self._probe()
            self._let_guest_leave()
        if self._may_destroy:
            self._destroy_beside_a_ban()
            self._check_bans_hold()
            self._wait(self._kept_without_issuers, _HEARS_US, "a destruction is not obeyed by who lists its issuer")
            while not self._destroyed or self._inside():
                self._destroy_and_go(self._chance.choice(self._inside()))
            self._wait(self._forgotten, _FORGETS_US, "a group that was destroyed is kept")
            self._replay(self._admins)
            check(self._forgotten(), "a group that was destroyed is back")

    def _destroy_beside_a_ban(self) -> None:
        """Let an admin destroy the group that was banned while it was asleep, before it can hear of that."""
        inside = [each for each in self._admins if self._view(each) is not None]
        if self._destroyed or len(inside) < len(self._admins) or self.acts % 2:
            return
        outcast, *others = inside
        target = outcast.identity.signing_public
        outcast.sleep(_SLEEPS_US)
        for person in others:
            person.in_another_process(
                lambda store, node, now, person=person: self._vote(person, target, store, node, now)
            )

        def banned() -> bool:
            views = [self._view(each) for each in others]
            return all(view is not None and view.member(target) is None for view in views)

        self._wait(banned, _AGREES_US, "two votes of three do not decide")
        self._destroy(outcast)
        self._wait(lambda: outcast.alive, _GONE_US, "a device stays away")
        self._world.agenda.run(self._world.agenda.now_us + _SLEEPS_US)

    def _check_bans_hold(self) -> None:
        """Check that who held the ban of whoever destroyed the group has kept it, unless it was removed itself."""
        for device in self._had_banned if len(self._issuers) == 1 else ():
            groups = device.store.groups
            kept = groups.manifests_from(self.group_id, 1) and not groups.revocations()
            check(bool(kept), "a destruction by who was banned has ended the group of who knew that")

    def _kept_without_issuers(self) -> bool:
        """Say whether those who are inside after a destruction had banned its issuer before they heard of it."""
        views = [view for each in self._inside() if (view := self._view(each)) is not None]
        return not any(view.member(issuer) for view in views for issuer in self._issuers)

    def _destroy_and_go(self, issuer: Device) -> None:
        """Let one destroy the group and tell one other, and be gone before those hear of it who are asleep meanwhile.

        What the brokers hold for them is lost, so that nobody but that other one is left to tell them.
        """
        self.said += 1
        agenda, others = self._world.agenda, [each for each in self._inside() if each is not issuer]
        for sleeper in others[1:]:
            sleeper.sleep(_SLEEPS_US)
        self._destroy(issuer)
        agenda.run(agenda.now_us + MINUTE)
        if not self._destroyed or not others or self._view(others[0]) is not None:
            return  # the disk refused, or the line was slow: all hear of it from its issuer
        issuer.sleep(_GONE_US)
        for broker in self._world.brokers:
            broker.wipe()
        agenda.run(agenda.now_us + _SLEEPS_US)
        self._wait(
            lambda: not {*others} & {*self._inside()},
            _FORGETS_US,
            "who slept hears of a destruction from its issuer alone",
        )
        self._wait(lambda: issuer.alive, _GONE_US, "a device stays away")
        # Who was let in and removed again before may hear of the former but now, and of the latter from the issuer.
        self._wait(
            lambda: not self._inside(), _FORGETS_US, "who hears late that it was let in never hears of its removal"
        )

    def _wait(self, holds: Callable[[], bool], most_us: int, rule: str) -> None:
        agenda = self._world.agenda
        until_us = agenda.now_us + most_us
        while not holds():
            check(agenda.now_us < until_us, rule)
            agenda.run(agenda.now_us + 5 * SECOND)

    def _view(self, device: Device) -> GroupManifest | None:
        return next((each for each in device.groups() if each.group_id == self.group_id), None)

    def _inside(self) -> list[Device]:
        return [each for each in self._world.devices if self._view(each) is not None]

    def _agrees(self) -> bool:
        inside = self._inside()
        views = [view for each in inside if (view := self._view(each)) is not None]
        listed = {member.keys.signing_public for view in views for member in view.members}
        same = len({view.raw for view in views}) == 1 and b"" not in {view.raw for view in views}
        return same and listed == {each.identity.signing_public for each in inside} and self._secrets_are_theirs()

    def _secrets_are_theirs(self) -> bool:
        """Say whether all who are inside have the epoch's secret; nobody else may."""
        inside = self._inside()
        view = self._view(inside[0])
        assert view is not None
        holders = [
            each for each in self._world.devices if each.store.groups.secret(self.group_id, view.epoch_id) is not None
        ]
        check(not set(holders) - set(inside), "who was banned has the secret of the group")
        return holders == inside

    def _check_votes(self) -> None:
        """Check that what was voted on in an earlier epoch decided nothing, and that nothing that is decided waits."""
        for device in self._inside():
            view, own = self._view(device), device.identity.signing_public
            kept = [read_vote(raw) for raw in device.store.votes.of_group(self.group_id)]
            for each in [vote for vote in kept if vote.voter == own and view is not None]:
                assert view is not None
                state = GroupState.of(view)
                epoch = device.epoch_of(self.group_id)
                voters = voted_for(state, epoch, self.group_id, each.action, each.target, kept)
                check(len(voters) < majority(state), f"{device.name} keeps votes that decide")
            manifests = [read_manifest(raw) for raw in device.store.groups.manifests_from(self.group_id, 1)]
            for manifest in manifests:
                votes = [read_vote(raw) for raw in manifest.votes]
                late = [each for each in votes if each.action is Action.KEEP_OUT and each.since != manifest.epoch - 1]
                check(not late, "a vote of another epoch has kept somebody out")

    def _probe(self) -> None:
        """Let everybody inside speak, and whoever has the guest's keys say what a banned one may not."""
        view = self._view(self._inside()[0])
        for device in self._inside():
            body = MARK + b"governed" + device.name.encode()
            recipients = {each.identity.signing_public for each in self._inside() if each is not device}
            submission = Submission(device.identity.signing_public, frozenset(recipients), telemetry=False)
            device.in_another_process(self._saying(body, submission))
        self._replay(self._inside())
        self._world.run_until_quiet()
        self._wait(self._agrees, _AGREES_US, "what a banned device says again divides a group")
        assert view is not None
        check(view.raw in {each.raw for each in map(self._view, self._inside()) if each}, "what is said again counts")

    def _let_guest_leave(self) -> None:
        """Let the guest leave by its own word while something is on its way to it: then nobody owes anything."""
        guest = self._guest
        if self._view(guest) is None or not self.acts % 2:
            return
        self._world.ledger.parted.add(guest.identity.signing_public)
        others = [each for each in self._inside() if each is not guest]  # `covey group leave` waits for its own
        for device in others:
            body = MARK + b"farewell" + device.name.encode()
            recipients = {each.identity.signing_public for each in others if each is not device}  # it gives up the rest
            submission = Submission(device.identity.signing_public, frozenset(recipients), telemetry=False)
            device.in_another_process(self._saying(body, submission))

        def leave(store: SimStore, node: Node, now: Now) -> None:
            with store.transaction():
                node.actions.leave(self.group_id, now)

        guest.in_another_process(leave)
        self._world.trace(guest.name, "leaves the group")
        self._world.run_until_quiet()
        groups = guest.store.groups
        self._wait(lambda: not groups.manifests_from(self.group_id, 1), _LEAVES_US, "who has left keeps the group")
        self._wait(self._agrees, _AGREES_US, "who leaves divides a group")

    def _saying(self, body: bytes, submission: Submission) -> Callable[[SimStore, Node, Now], None]:
        self.said += 1

        def say(store: SimStore, node: Node, now: Now) -> None:
            with store.transaction():
                node.send_blob(self.group_id, body, now)
                store.on_commit(lambda: self._world.ledger.accept(body, submission))

        return say

    def _replay(self, victims: list[Device]) -> None:
        """Say what the guest might have said before its ban, where it was banned since or the group is no more."""
        world, key = self._world, self._guest.identity.signing_public
        view = next((view for each in victims if (view := self._view(each)) is not None), None)
        present = None if view is None else view.member(key)
        first = self._known.member(key)
        assert first is not None
        if present is not None and present.since == first.since:
            return
        for victim in victims:
            if victim is self._guest:
                continue
            target = victim.identity.signing_public
            rival = sign_manifest(self._known.changing(replace(first, label="outcast")), self._guest.identity)
            vote = sign_vote(self.group_id, Action.BAN, target, first.since, self._guest.identity)
            self._say(victim, MessageType.REVOKE, sign_revoke(self._known, self._guest.identity).raw)
            self._say(victim, MessageType.GROUP_MANIFEST, Bundle((self._known.raw, rival.raw)).to_wire())
            self._say(victim, MessageType.GROUP_VOTE, vote.raw)
            if present is None:
                self._say(victim, MessageType.BLOB, cbor.encode([1, MARK + b"outcast"]))
        world.agenda.run(world.agenda.now_us + MINUTE)

    def _say(self, victim: Device, kind: MessageType, body: bytes) -> None:
        self._world.provoked += 1
        self._sender.say(victim, kind, self.group_id, body, _INCARNATION)

    def _forgotten(self) -> bool:
        """Say whether no device is in the group, or has anything of it that was in it."""
        kept = "SELECT (SELECT count(*) FROM group_manifest WHERE group_id = ?1) + (SELECT count(*) FROM epoch_secret "
        kept += "WHERE group_id = ?1) + (SELECT count(*) FROM vote WHERE group_id = ?1)"
        if self._inside():
            return False
        keeping = [
            each for each in self._world.devices if each.store.connection.execute(kept, (self.group_id,)).fetchone()[0]
        ]
        # Who was removed before keeps what it had; who still tells somebody that forgot it already does so for a day.
        return all(each.is_out_of(self.group_id) or each.store.groups.revocations() for each in keeping)
