"""The inviter's side of pairing, on the relay connection of the agent or of a waiting command.

Open codes are rows of the store, through which the person's command and this role exchange decisions and events. The
ceremony itself (`core/pairing/inviter.py`) is in memory: a restart ends it without a trace. Its counterpart is
`pairing_guest.py`.

    1. An accepted joiner's invite is bound to its key, and durable, before the joiner is notified.
    2. An account at the relay that was made for a joiner is removed again if the joiner never joins. The joiner is
       notified once the relay knows the account, if that is visible: a relay delays the next attempt after a refusal.
    3. If a ceremony ends before that, its invite ends too, except one in a file, whose device is unattended: its
       rendezvous stays, and the device may try again.
    4. The account at the relay in such a file is removed as soon as its invite is over.

`host_facts` are what this device tells joiners: its label, its relay, and the relay's authorities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.device.relay_access import has_authority
from covey.core.ids import GroupId, device_name, inbox_name, labelled_name
from covey.core.membership.requests import preview_of
from covey.core.node import Node
from covey.core.now import Now
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.invite import Invite
from covey.core.pairing.inviter import Inviter
from covey.core.pairing.messages import Admission, InviterIntroduction, JoinerIntroduction, Password
from covey.core.pairing.pending import OpenInvite, Pairing
from covey.core.pairing.preview import GroupDescription, GroupPreview
from covey.core.pake import Side
from covey.core.wire.topics import rendezvous_topic
from covey.errors import CoveyError, RemoteError
from covey.limits.pairing import (
    ACCOUNT_WAIT_US,
    INVITE_US,
    MAXIMUM_CERTIFICATES_BYTES,
    PAIRED_JOIN_US,
    RENDEZVOUS_BURST,
    RENDEZVOUS_MESSAGE_US,
    RENDEZVOUS_WAITING,
)
from covey.ports import Report, Topics

if TYPE_CHECKING:
    from covey.adapters.broker.authority import Authority
    from covey.adapters.sqlite.store import SqliteStore
    from covey.adapters.state_folder import StateFolder
    from covey.config.schema import Config
    from covey.core.crypto import Identity


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What an inviter tells a joiner: its own label, the relay's URL and further addresses, and the PEM text of its
    authorities.

    `credentials` opens this device's authority over the relay, if it has one; `in_force` says whether a relay served by
    this device has loaded its accounts.
    """

    label: str
    relay_url: str
    certificates: str = ""
    credentials: Callable[[], Authority] | None = None
    in_force: Callable[[], bool] | None = None
    relay_addresses: tuple[str, ...] = ()


@dataclass(slots=True)
class _Account:
    """What lets the joiner into the relay, kept until the relay knows it; nothing where it needs none."""

    credential: str
    made_at_us: int


@dataclass(slots=True)
class _Room:
    """One code in use, and what has come to its rendezvous since the last turn."""

    number: int
    machine: Inviter
    waiting: list[bytes] = field(default_factory=list)
    said: int = 0
    taken_upto_us: int = -RENDEZVOUS_BURST * RENDEZVOUS_MESSAGE_US
    wrong_tries: int = 0
    account: _Account | None = None

    @property
    def topic(self) -> str:
        return rendezvous_topic(self.number, Side.INVITER)

    def take(self, payload: bytes, below: Callable[[int], int]) -> bool:
        """Let a message wait; where too many do, who stays is drawn, each as likely. Return whether none had to go."""
        self.said += 1
        if len(self.waiting) < RENDEZVOUS_WAITING:
            self.waiting.append(payload)
            return True
        place = below(self.said)
        if place < RENDEZVOUS_WAITING:
            self.waiting[place] = payload
        return False

    def due(self, now_us: int) -> list[bytes]:
        """Return what is looked at now: `RENDEZVOUS_BURST` at once, then one each `RENDEZVOUS_MESSAGE_US`."""
        start_us = max(self.taken_upto_us, now_us - RENDEZVOUS_BURST * RENDEZVOUS_MESSAGE_US)
        count = min(len(self.waiting), (now_us - start_us) // RENDEZVOUS_MESSAGE_US)
        self.taken_upto_us = start_us + count * RENDEZVOUS_MESSAGE_US
        due, self.waiting = self.waiting[:count], self.waiting[count:]
        self.said = len(self.waiting)
        return due


class PairingHost:
    """Waits at the rendezvous of each open code; admits devices that the person accepts."""

    def __init__(
        self, store: SqliteStore, relay: Topics, facts: HostFacts, rng: Callable[[int], bytes], report: Report
    ) -> None:
        self._store = store
        self._relay = relay
        self._facts = facts
        self._rng = rng
        self._report = report
        self._rooms: dict[bytes, _Room] = {}
        self._topics: frozenset[str] = frozenset()
        self._dropped: Counter[str] = Counter()

    def receive(self, topic: str, payload: bytes) -> None:
        """Take a message of a rendezvous; what is too much, or for no code of ours, is dropped."""
        room = next((room for room in self._rooms.values() if room.topic == topic), None)
        if room is None:
            self._dropped["not_for_us"] += 1
        elif not room.take(payload, lambda most: int.from_bytes(self._rng(4), "big") % most):
            self._dropped["limit"] += 1

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due. The loop turns four times a second at least, which is soon enough for people."""
        rows = [
            row
            for row in self._store.pairings.all()
            if row.ended is None or row.minted or row.prepared or row.secret_hash in self._rooms
        ]
        if rows:
            invites = {invite.secret_hash: invite for invite in self._store.invites.all()}
            for row in rows:
                invite = invites.get(row.secret_hash)
                if row.ended is None:
                    self._maintain(row, invite, node, now)
                elif row.secret_hash in self._rooms:  # the person has cancelled it
                    self._close(row, Ending.CANCELLED, now)
                if row.minted:
                    self._look_after_account(row, invite, node, now)
                if row.prepared and row.ended is not None:
                    self._close_account_of_file(row)
            self._listen()
        if self._dropped:
            with self._store.transaction():
                for code, count in self._dropped.items():
                    self._store.counters.count(f"pairing_dropped_{code}", count)
            self._dropped.clear()
        return None

    def stop(self, node: Node, now: Now) -> None:  # noqa: ARG002 - as every role
        """End what has begun, and tell the joiners; what nobody has come for yet waits for the next process."""
        for row in self._store.pairings.all():
            room = self._rooms.get(row.secret_hash)
            if room is not None and room.machine.begun and not room.machine.admitted:
                self._leave(row, Ending.INTERRUPTED, now)
                if not row.prepared:
                    self._end(row, Ending.INTERRUPTED, joined=False)
        self._rooms.clear()
        self._listen()

    def _listen(self) -> None:
        topics = frozenset(room.topic for room in self._rooms.values())
        if topics != self._topics:
            self._topics = topics
            self._relay.listen(topics)

    # -- one code -----------------------------------------------------------------------------------------------------

    def _maintain(self, row: Pairing, invite: OpenInvite | None, node: Node, now: Now) -> None:
        """Advance a code: it has expired, waits for an accepted joiner, or is at its rendezvous."""
        room = self._rooms.get(row.secret_hash)
        if invite is None or now.wall_us >= invite.expires_at_us:
            self._close(row, Ending.EXPIRED if invite is None or invite.bound_to is None else Ending.VANISHED, now)
        elif invite.used_by is not None:
            if row.joiner != invite.used_by:  # it had an account, and came by the URI
                self._note(replace(row, joiner=invite.used_by))
            self._close(row, Ending.PAIRED if room is None or room.machine.admitted else Ending.TAKEN, now, joined=True)
        elif room is not None:
            self._meet(room, row, invite, node, now)
        elif not row.prepared and invite.bound_to is None and row.joiner is not None:
            self._close(row, Ending.INTERRUPTED, now)  # what they agreed on was in the memory of an earlier process
        elif row.prepared or invite.bound_to is None:
            self._rooms[row.secret_hash] = _Room(row.number, self._machine(row, invite, node, now))

    def _machine(self, row: Pairing, invite: OpenInvite, node: Node, now: Now) -> Inviter:
        passwords = {Password.URI: row.secret}
        if row.code is not None:
            passwords[Password.CODE] = row.code.encode()
        left_us = max(0, row.expires_at_us - now.wall_us)
        if not row.prepared:
            left_us = min(INVITE_US, left_us)
        preview = self._preview(invite.group_id, node)
        own = InviterIntroduction(node.identity.keys, self._facts.label, invite.group_id, preview, row.operators)
        return Inviter(node.identity, own, passwords, now.monotonic_us + left_us, self._rng)

    def _preview(self, group_id: GroupId, node: Node) -> GroupPreview:
        group = next((each for each in node.groups.joined() if each.group_id == group_id), None)
        if group is None:
            return GroupPreview("", 0, ())
        profile = node.history.profile(group_id)
        return preview_of(group, GroupDescription(profile.title, profile.description))  # a picture is too large here

    def _meet(self, room: _Room, row: Pairing, invite: OpenInvite, node: Node, now: Now) -> None:
        machine = room.machine
        for raw in room.due(now.monotonic_us):
            try:
                machine.receive_message(raw, now.monotonic_us)
            except RemoteError as error:
                self._dropped[error.code] += 1
        machine.handle_deadline(now.monotonic_us)
        if machine.wrong_tries > room.wrong_tries:
            room.wrong_tries = machine.wrong_tries
            self._report("warning", f"pairing {row.number}: {room.wrong_tries} wrong codes")
        if machine.ending is None and machine.met is not None:
            key = machine.met.joiner.keys.signing_public
            if row.joiner is None or (invite.bound_to is None and row.joiner != key):
                row = self._introduce(row, machine)
            if invite.bound_to not in {None, key}:
                machine.end(Ending.TAKEN)
            elif not machine.admitted and (row.accepts or machine.password is Password.URI):
                self._admit(room, row, invite, node, now)
            elif row.accepts is False:
                machine.end(Ending.DECLINED)
        self._speak(room, now)
        if machine.ending is not None:
            if row.prepared or (machine.admitted and machine.ending is not Ending.LEFT):
                del self._rooms[row.secret_hash]  # it has what it needs, or will never ask again: its invite tells
            else:
                self._close(row, machine.ending, now)

    def _introduce(self, row: Pairing, machine: Inviter) -> Pairing:
        assert machine.met is not None
        joiner = machine.met.joiner
        known = replace(
            row,
            joiner=joiner.keys.signing_public,
            label=joiner.label,
            verifier=machine.met.verifier,
            lacks_account=joiner.needs_credential,
        )
        self._note(known)
        name = labelled_name(device_name(joiner.keys.signing_public), joiner.label)
        self._report("notice", f"pairing {row.number}: {name} proved the code")
        return known

    def _note(self, row: Pairing) -> None:
        with self._store.transaction():
            self._store.pairings.note_joiner(row)

    def _admit(self, room: _Room, row: Pairing, invite: OpenInvite, node: Node, now: Now) -> None:
        """Give the joiner an account, if it needs one and this device may, and an invite of its own (rules 1 and 2)."""
        machine = room.machine
        assert machine.met is not None
        joiner = machine.met.joiner
        if room.account is None:
            try:
                room.account = _Account(self._credential(joiner, row), now.monotonic_us)
            except CoveyError as error:
                name = labelled_name(device_name(joiner.keys.signing_public), joiner.label)
                self._report("error", f"the relay account for {name} could not be created: {error}")
                machine.end(Ending.FAILED)
                return
        if room.account.credential and not self._is_in_force(room.account, now):
            return
        expires_at_us = now.wall_us + PAIRED_JOIN_US
        if row.prepared:
            expires_at_us = max(expires_at_us, invite.expires_at_us)
        addresses = self._facts.relay_addresses
        own = Invite(invite.group_id, node.identity.keys, row.secret, expires_at_us, "", addresses=addresses)
        with self._store.transaction():
            self._store.invites.bind(row.secret_hash, joiner.keys.signing_public, own.expires_at_us)
        machine.accept(Admission(self._facts.relay_url, self._facts.certificates, room.account.credential, own))

    def _credential(self, joiner: JoinerIntroduction, row: Pairing) -> str:
        """Make an account for a joiner, and return its credential; nothing where it needs none, or none can be made.

        Raises:
            CoveyError: it cannot be made.
        """
        if not joiner.needs_credential or self._facts.credentials is None:
            return ""
        with self._store.transaction():
            self._store.pairings.note_minted(row.secret_hash, minted=True)
        return self._facts.credentials().mint(inbox_name(joiner.keys.signing_public))

    def _is_in_force(self, account: _Account, now: Now) -> bool:
        """Return whether the relay knows an account, or need not be waited for any longer."""
        if self._facts.in_force is None or now.monotonic_us - account.made_at_us >= ACCOUNT_WAIT_US:
            return True
        return self._facts.in_force()

    def _speak(self, room: _Room, now: Now) -> None:
        topic = rendezvous_topic(room.number, Side.JOINER)
        for message in room.machine.messages_to_send(now.monotonic_us):
            self._relay.publish(topic, message)  # what does not go now is asked for again

    def _close(self, row: Pairing, ending: Ending, now: Now, *, joined: bool = False) -> None:
        self._leave(row, ending, now)
        self._end(row, ending, joined=joined)

    def _leave(self, row: Pairing, ending: Ending, now: Now) -> None:
        room = self._rooms.pop(row.secret_hash, None)
        if room is not None:
            room.machine.end(ending)
            self._speak(room, now)

    def _end(self, row: Pairing, ending: Ending, *, joined: bool) -> None:
        with self._store.transaction():
            self._store.pairings.end(row.secret_hash, Ending.PAIRED.value if joined else ending.value)
            if not joined:
                self._store.invites.cancel(row.secret_hash)

    def _look_after_account(self, row: Pairing, invite: OpenInvite | None, node: Node, now: Now) -> None:
        """Remove an account that nobody has used (rule 2)."""
        used = invite is not None and invite.used_by is not None
        if not used and row.ended is None and invite is not None and now.wall_us < invite.expires_at_us:
            return
        assert row.joiner is not None
        if not used and node.groups.shares_nothing_with(row.joiner) and self._facts.credentials is not None:
            name = labelled_name(device_name(row.joiner), row.label)
            try:
                self._facts.credentials().remove(inbox_name(row.joiner))
                self._report("notice", f"{name} never joined; its relay account was removed")
            except CoveyError as error:
                self._report("error", f"the relay account of {name} could not be removed: {error}")
        with self._store.transaction():
            self._store.pairings.note_minted(row.secret_hash, minted=False)

    def _close_account_of_file(self, row: Pairing) -> None:
        """Remove the account with which the holder of a file came to the relay (rule 4)."""
        try:
            if self._facts.credentials is not None:
                self._facts.credentials().remove(inbox_name(row.secret_hash))
        except CoveyError as error:
            self._report("error", f"the relay account of an invite file could not be removed: {error}")
        with self._store.transaction():
            self._store.pairings.note_account_gone(row.secret_hash)


def host_facts(folder: StateFolder, config: Config, identity: Identity) -> HostFacts:
    """Return what a device tells joiners."""
    from covey.adapters.broker.served_folder import SERVED_FOLDER, ServedFolder

    def credentials() -> Authority:
        from covey.adapters.broker.authority import authority

        found = authority(config.broker, folder.path, identity)
        assert found is not None
        return found

    certificates = ""
    if config.relay.ca_file and Path(config.relay.ca_file).stat().st_size <= MAXIMUM_CERTIFICATES_BYTES:
        certificates = Path(config.relay.ca_file).read_text()
    served = ServedFolder(folder.path / SERVED_FOLDER)
    return HostFacts(
        config.label,
        config.relay.url,
        certificates,
        credentials if has_authority(config) else None,
        served.in_force if served.exists else None,
        config.relay.addresses,
    )
