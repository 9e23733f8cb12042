"""`covey.app.loop.pairing_host`, as `pairing_role` loads it: codes in a real store, and what becomes of them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from covey.app.loop.pairing_host import HostFacts, PairingHost
from covey.app.loop.pairing_role import PairingWhenInvited
from covey.core.group.manifest import Member
from covey.core.ids import inbox_name
from covey.core.now import Now
from covey.core.pairing.ceremony import Admitted, Ending, InviterMet, RefusalReceived
from covey.core.pairing.invite import Invite
from covey.core.pairing.joiner import Joiner
from covey.core.pairing.messages import (
    Answer,
    JoinerIntroduction,
    Offer,
    Password,
    Reason,
    Refusal,
    from_wire,
    to_wire,
)
from covey.core.pairing.pending import Pairing
from covey.errors import ConfigurationError, RemoteError
from covey.limits.pairing import (
    ACCOUNT_WAIT_US,
    GATHER_QUIET_US,
    INVITE_US,
    PAIRED_JOIN_US,
    PAIRING_SILENCE_US,
    PREPARED_INVITE_US,
    PREVIEWED_MEMBERS,
    RENDEZVOUS_BURST,
    RENDEZVOUS_MESSAGE_US,
    RENDEZVOUS_WAITING,
)
from covey.ports import Delivered, PublishRefusal, RelayEvent
from tests.fleet import START, Device, carry, identity

CODE = "42-abandon-zoo-river"
OURS, THEIRS = "covey/1/pair/42/a", "covey/1/pair/42/b"


class Wire:
    """A relay that keeps what is said at a rendezvous."""

    name = "wire"

    def __init__(self) -> None:
        self.said: deque[bytes] = deque()
        self.all_said: list[bytes] = []
        self.topics: frozenset[str] = frozenset()

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Satisfy the port."""

    def publish(self, topic: str, payload: bytes, _lifetime_s: int = 0) -> int | PublishRefusal:
        """Keep it."""
        assert topic == THEIRS
        self.said.append(payload)
        self.all_said.append(payload)
        return len(self.said)

    def acknowledge(self, delivered: Delivered) -> None:
        """Satisfy the port."""

    def alive(self) -> bool:
        """Satisfy the port."""
        return True

    def listen(self, topics: Collection[str]) -> None:
        """Note it."""
        self.topics = frozenset(topics)

    def stop(self) -> None:
        """Satisfy the port."""


class Authority:
    """Accounts at the relay."""

    def __init__(self) -> None:
        self.accounts: dict[str, str] = {}
        self.refuses = False
        self.in_force = True
        self.made = 0

    def mint(self, user_name: str, *, by_hand: bool = False) -> str:
        """Make one."""
        assert not by_hand
        if self.refuses:
            raise ConfigurationError("this user may not change the file")
        self.accounts[user_name] = "a password"
        self.made += 1
        return "a password"

    def remove(self, user_name: str) -> bool:
        """Take it away."""
        return self.accounts.pop(user_name, None) is not None

    def reinstate(self, user_names: Iterable[str]) -> list[str]:
        """Return whose accounts there are not."""
        return [name for name in user_names if name not in self.accounts]

    def close(self, user_names: Iterable[str]) -> list[str]:
        """Take accounts away; return whose."""
        return [name for name in user_names if self.remove(name)]


class Inn:
    """An inviter with one code, and a joiner that may come."""

    def __init__(self, folder: Path, *, prepared: bool = False) -> None:
        self.ann, self.ben = Device("ann", folder), Device("ben", folder)
        self.wire, self.authority = Wire(), Authority()
        self.now = START
        self.reported: list[tuple[str, str]] = []
        self.joiner = self.new_joiner("ben")
        with self.ann.store.transaction():
            self.group_id = self.ann.node.membership.create("ann", (), self.now.wall_us).group_id
            lifetime_us, label = (PREPARED_INVITE_US, "ben") if prepared else (INVITE_US, None)
            self.invite = self.ann.node.joining.invite(
                self.group_id, (), "", self.now.wall_us, lifetime_us, prepared_for=label
            )
            code, row = None if prepared else CODE, self.invite
            self.ann.store.pairings.open(
                Pairing(row.secret_hash, 42, code, row.secret, row.expires_at_us, prepared=prepared), self.now.wall_us
            )
        self.restart()

    def restart(self) -> None:
        """Begin a new process of the inviter."""

        self.wire.topics = frozenset()
        facts = HostFacts(
            "ann", "mqtts://relay.example", "PEM", lambda: self.authority, lambda: self.authority.in_force
        )
        self.host = PairingWhenInvited(
            self.ann.store, lambda: PairingHost(self.ann.store, self.wire, facts, self.ann.rng, self.report)
        )
        self.turn()

    def report(self, level: str, line: str) -> None:
        """Keep what a person is told."""
        if level == "warning":
            self.reported.append((level, line))

    def new_joiner(self, name: str, secret: tuple[Password, bytes] = (Password.CODE, CODE.encode())) -> Joiner:
        """Return a joiner's side."""
        own = JoinerIntroduction(self.ben.identity.keys, name, needs_credential=True)
        deadline = self.now.monotonic_us + INVITE_US
        return Joiner(self.ben.identity, own, secret, deadline, random.Random(name).randbytes)

    def turn(self) -> None:
        """Let the inviter's loop turn."""
        self.host.turn(self.ann.node, self.now)

    def wait(self, us: int) -> None:
        """Let time pass."""
        self.now = Now(self.now.monotonic_us + us, self.now.wall_us + us)

    def round(self) -> None:
        """Let the joiner speak, and hear the answers."""
        self.wait(2_000_000)
        for raw in self.joiner.messages_to_send(self.now.monotonic_us):
            self.host.receive(OURS, raw)
        self.turn()
        self.turn()
        while self.wire.said:
            with suppress(RemoteError):  # what others are told
                self.joiner.receive_message(self.wire.said.popleft(), self.now.monotonic_us)

    def decide(self, accepts: bool) -> None:
        """Be the person."""
        with self.ann.store.transaction():
            self.ann.store.pairings.decide(self.invite.secret_hash, accepts)

    def row(self) -> Pairing:
        """Return what the store holds of the code."""
        [row] = self.ann.store.pairings.all()
        return row

    def admitted(self) -> Invite:
        """Come as far as the admission; return the joiner's own invite."""
        self.round()
        self.round()
        self.decide(accepts=True)
        self.round()
        news = []
        while (event := self.joiner.next_event()) is not None:
            news.append(event)
        assert isinstance(news[-1], Admitted)
        assert news[-1].admission.credential == "a password"
        return news[-1].admission.invite


@pytest.fixture
def inn(tmp_path: Path) -> Inn:
    return Inn(tmp_path)


@pytest.fixture
def posted(tmp_path: Path) -> Inn:
    """An inviter with one file, which has an account of its own at the relay."""
    inn = Inn(tmp_path, prepared=True)
    inn.authority.mint(inbox_name(inn.invite.secret_hash))
    inn.joiner = by_file(inn)
    return inn


def by_file(inn: Inn) -> Joiner:
    """Return a new run of the joiner that has the file."""
    return inn.new_joiner(f"run {inn.now.monotonic_us}", (Password.URI, inn.invite.secret))


def ask(inn: Inn, joiner: Device) -> None:
    """Let a device ask to be let in by the file's invite."""
    with joiner.store.transaction():
        joiner.node.actions.request_join(inn.invite, joiner.name, joiner.now)
    carry(inn.ann, joiner)


def test_there_is_no_host_before_there_is_a_code(tmp_path: Path) -> None:
    ann = Device("ann", tmp_path)

    def make_host() -> PairingHost:
        raise AssertionError("nobody was invited")

    role = PairingWhenInvited(ann.store, make_host)
    assert role.turn(ann.node, START) is None
    role.receive(OURS, b"a stranger")
    role.stop(ann.node, START)


def test_a_file_outlives_a_ceremony_that_breaks_off(posted: Inn) -> None:
    posted.round()
    posted.round()
    assert posted.row().joiner == posted.ben.key
    posted.wait(PAIRING_SILENCE_US)  # the power is gone there
    posted.turn()
    posted.host.stop(posted.ann.node, posted.now)  # and here
    posted.restart()
    assert posted.row().ended is None
    assert posted.wire.topics == {OURS}
    posted.joiner = by_file(posted)
    posted.round()
    posted.round()
    news = [posted.joiner.next_event() for _ in range(2)]
    assert isinstance(news[-1], Admitted)
    assert news[-1].admission.credential == "a password"
    assert set(posted.authority.accounts) == {inbox_name(posted.ben.key), inbox_name(posted.invite.secret_hash)}


def test_a_file_is_for_one_device_and_its_account_goes_with_it(posted: Inn, tmp_path: Path) -> None:
    posted.round()
    posted.round()
    posted.wait(PAIRING_SILENCE_US)
    posted.turn()
    eve = Device("eve", tmp_path)
    own = JoinerIntroduction(eve.identity.keys, "eve", needs_credential=True)
    secret = (Password.URI, posted.invite.secret)
    posted.joiner = Joiner(
        eve.identity, own, secret, posted.now.monotonic_us + INVITE_US, random.Random("eve").randbytes
    )
    posted.turn()
    posted.round()
    posted.round()
    assert posted.joiner.ending is Ending.TAKEN
    assert inbox_name(eve.key) not in posted.authority.accounts
    ask(posted, posted.ben)
    posted.ann.wait(GATHER_QUIET_US / 1e6)
    posted.ann.maintain()
    posted.turn()
    posted.turn()
    assert (posted.row().ended, posted.row().joiner, posted.wire.topics) == ("paired", posted.ben.key, frozenset())
    assert set(posted.authority.accounts) == {inbox_name(posted.ben.key)}


def test_a_file_that_nobody_uses_expires_with_its_account(posted: Inn) -> None:
    posted.wait(PREPARED_INVITE_US)
    posted.turn()
    posted.turn()
    assert (posted.row().ended, posted.authority.accounts) == ("code_expired", {})
    assert not posted.row().prepared


def test_a_file_that_is_taken_back_loses_its_account(posted: Inn) -> None:
    with posted.ann.store.transaction():
        posted.ann.store.pairings.end(posted.invite.secret_hash, Ending.CANCELLED.value)
        posted.ann.store.invites.cancel(posted.invite.secret_hash)
    posted.restart()
    assert posted.authority.accounts == {}
    assert posted.wire.topics == frozenset()


def test_an_accepted_joiner_gets_an_invite_of_its_own(inn: Inn) -> None:  # accepts: 003.16
    assert inn.wire.topics == {OURS}
    own = inn.admitted()
    [stored] = inn.ann.store.invites.all()
    assert stored.bound_to == inn.ben.key
    assert stored.expires_at_us == own.expires_at_us == inn.now.wall_us + PAIRED_JOIN_US
    assert (own.group_id, own.inviter) == (inn.group_id, inn.ann.identity.keys)
    inn.joiner.stored()
    inn.round()
    assert inn.wire.topics == frozenset()
    inn.restart()  # the code is over; what the joiner has is durable on both sides
    with inn.ben.store.transaction():
        inn.ben.node.actions.request_join(own, "ben", inn.ben.now)
    carry(inn.ann, inn.ben)
    inn.turn()
    assert (inn.row().ended, inn.row().secret, inn.row().code) == ("paired", b"", None)
    assert inn.ben.node.groups.group(inn.group_id).member(inn.ben.key) is not None
    assert inbox_name(inn.ben.key) in inn.authority.accounts
    inn.wait(2 * PAIRED_JOIN_US)
    inn.turn()
    assert inbox_name(inn.ben.key) in inn.authority.accounts


@pytest.mark.slow
def test_a_joiner_with_the_code_sees_the_group_before_it_is_accepted(inn: Inn) -> None:  # accepts: 003.14
    for place in range(PREVIEWED_MEMBERS):
        member = Member(identity(f"member {place}").keys, f"member {place}")
        with inn.ann.store.transaction():
            inn.ann.node.actions.change(inn.group_id, lambda draft, _, new=member: draft.adding(new), inn.now)
    inn.restart()
    inn.joiner = inn.new_joiner("ben", (Password.CODE, b"42-wrong-words-river"))
    for _ in range(4):
        inn.round()
    assert inn.joiner.next_event() == RefusalReceived(Reason.WRONG_CODE)
    assert inn.joiner.next_event() is None
    assert {type(from_wire(raw)) for raw in inn.wire.all_said} == {Answer, Refusal}, "and nothing that is sealed"
    inn.joiner = inn.new_joiner("ben")
    inn.round()
    inn.round()
    met = inn.joiner.next_event()
    assert isinstance(met, InviterMet)
    shown = met.inviter.preview
    assert shown is not None
    assert (shown.title, shown.count, len(shown.members)) == ("", PREVIEWED_MEMBERS + 1, PREVIEWED_MEMBERS)
    assert shown.members[:2] == ((inn.ann.key, "ann"), (identity("member 0").signing_public, "member 0"))
    assert inn.joiner.next_event() is None, "ann's person has not decided yet"


def test_nobody_else_can_use_that_invite(inn: Inn, tmp_path: Path) -> None:
    own = inn.admitted()
    eve = Device("eve", tmp_path)
    with eve.store.transaction():
        eve.node.actions.request_join(own, "eve", eve.now)
    carry(inn.ann, eve)
    assert inn.ann.store.counters.values()["dropped_invite"] >= 1
    assert inn.ann.node.groups.group(inn.group_id).member(eve.key) is None


def test_a_joiner_that_never_comes_loses_its_account(inn: Inn) -> None:
    inn.admitted()
    assert inn.authority.accounts
    inn.wait(PAIRING_SILENCE_US)
    inn.turn()
    assert inn.row().ended is None
    inn.wait(PAIRED_JOIN_US)
    inn.restart()
    inn.turn()
    assert inn.row().ended == "vanished"
    assert inn.authority.accounts == {}
    assert not inn.row().minted


@pytest.mark.parametrize("comes", [True, False], ids=["served", "not served"])
def test_a_joiner_hears_of_its_account_when_the_relay_knows_it(inn: Inn, comes: bool) -> None:
    inn.authority.in_force = False
    inn.round()
    inn.round()
    inn.decide(accepts=True)
    inn.round()
    assert inbox_name(inn.ben.key) in inn.authority.accounts
    assert inn.ann.store.invites.all()[0].bound_to is None, "nothing was handed over: its first try would be refused"
    inn.authority.in_force = comes
    inn.wait(0 if comes else ACCOUNT_WAIT_US)
    inn.turn()
    assert inn.ann.store.invites.all()[0].bound_to == inn.ben.key
    assert inn.admitted()
    assert inn.authority.made == 1


def test_no_account_no_admission(inn: Inn) -> None:
    inn.authority.refuses = True
    inn.round()
    inn.round()
    inn.decide(accepts=True)
    inn.round()
    assert (inn.row().ended, inn.joiner.ending) == ("failed", Ending.FAILED)
    assert inn.ann.store.invites.all() == []


def test_a_restart_ends_what_has_begun(inn: Inn) -> None:
    inn.round()
    inn.round()
    inn.restart()
    assert inn.row().ended == "interrupted"
    assert inn.ann.store.invites.all() == []
    assert inn.wire.topics == frozenset()


def test_a_restart_before_anybody_came_changes_nothing(inn: Inn) -> None:
    inn.host.stop(inn.ann.node, inn.now)
    assert inn.wire.topics == frozenset()
    inn.restart()
    inn.admitted()


def test_a_vanished_joiner_leaves_nothing(inn: Inn) -> None:
    inn.round()
    inn.round()
    inn.wait(PAIRING_SILENCE_US)
    inn.turn()
    assert inn.row().ended == "vanished"
    assert (inn.ann.store.invites.all(), inn.authority.accounts, inn.wire.topics) == ([], {}, frozenset())


def test_a_code_that_nobody_uses_expires(inn: Inn) -> None:
    inn.wait(INVITE_US)
    inn.turn()
    assert inn.row().ended == "code_expired"
    assert inn.wire.topics == frozenset()


def test_a_joiner_by_the_uri_ends_the_code(inn: Inn) -> None:
    inn.round()
    carol = Device("carol", inn.ann.path.parent)
    with carol.store.transaction():
        carol.node.actions.request_join(inn.invite, "carol", carol.now)
    carry(inn.ann, carol)
    inn.round()
    assert (inn.row().ended, inn.row().joiner) == ("paired", carol.key)
    assert inn.joiner.ending is None  # nobody has proved to it that the code is over: it falls silent


def test_a_uri_needs_no_question(inn: Inn) -> None:
    inn.joiner = inn.new_joiner("by uri", (Password.URI, inn.invite.secret))
    inn.round()
    inn.round()
    assert inn.row().accepts is None
    [stored] = inn.ann.store.invites.all()
    assert stored.bound_to == inn.ben.key


def test_a_crowd_is_bounded_and_counted(inn: Inn) -> None:
    for number in range(2 * RENDEZVOUS_WAITING):
        inn.host.receive(OURS, to_wire(Offer(bytes([number]) * 32, Password.URI)))
    inn.host.receive("covey/1/pair/43/a", b"for nobody")
    inn.turn()
    assert len(inn.wire.said) == RENDEZVOUS_BURST  # the rest waits, and each turn takes what time allows
    inn.turn()
    assert len(inn.wire.said) == RENDEZVOUS_BURST
    inn.wait(2 * RENDEZVOUS_MESSAGE_US)
    inn.turn()
    assert len(inn.wire.said) == RENDEZVOUS_BURST + 2
    counters = inn.ann.store.counters.values()
    assert counters["pairing_dropped_limit"] == RENDEZVOUS_WAITING
    assert counters["pairing_dropped_not_for_us"] == 1
    assert "pairing_dropped_invite" not in counters


@pytest.mark.slow
def test_a_joiner_gets_through_a_crowd(inn: Inn) -> None:
    """Ten strangers say something new each second; what the joiner says again and again is heard among it."""
    draw = random.Random("crowd")
    for _ in range(INVITE_US // 2_000_000 - 1):
        for _ in range(20):
            inn.host.receive(OURS, to_wire(Offer(draw.randbytes(32), Password.CODE)))
        inn.round()
        if inn.row().joiner is not None:
            break
    assert inn.row().joiner == inn.ben.key
    assert inn.row().ended is None


def test_wrong_tries_are_reported(inn: Inn) -> None:
    inn.joiner = inn.new_joiner("stranger", (Password.CODE, b"42-abandon-able-river"))
    for _ in range(3):
        inn.round()
    assert inn.reported == [("warning", "pairing 42: 1 wrong codes")]
    assert inn.row().ended is None
    inn.joiner = inn.new_joiner("ben")
    assert inn.admitted().inviter == inn.ann.identity.keys


def test_the_secrets_of_a_code_are_not_shown(inn: Inn) -> None:
    shown = repr(replace(inn.row(), label="x"))
    assert CODE not in shown
    assert repr(inn.invite.secret) not in shown
