"""Plausible mistakes, as data: each replaces a method of the production code and must be caught by some seed."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import pytest

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.file.high_water import HighWater
from covey.adapters.sqlite.link.incarnations import Incarnations
from covey.adapters.sqlite.link.outbox import Outbox
from covey.adapters.sqlite.link.received import Received
from covey.adapters.sqlite.membership.pairing import Invites
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.app.telemetry import collector as collector_module
from covey.app.telemetry.collector import Collector
from covey.core.crypto import Secret
from covey.core.group import policy as policy_module
from covey.core.group import resolver as resolver_module
from covey.core.group import revocation as revocation_module
from covey.core.group import trust as trust_module
from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.messages import Bundle, GroupSend
from covey.core.group.policy import Action, Vote
from covey.core.group.resolver import Step
from covey.core.group.revocation import Revoke
from covey.core.ids import DeviceKey, Incarnation, NoisePublic, Place
from covey.core.link import queued as lanes_module
from covey.core.link import sealer as sealer_module
from covey.core.link.incarnations import IncarnationSpan
from covey.core.link.link_keys import LinkKey, SendingLinks
from covey.core.link.queued import Lane
from covey.core.link.receiver import Arrival, ReceiveLink
from covey.core.link.sealer import Outgoing, Sealer
from covey.core.link.send_queue import SendQueue
from covey.core.link.send_window import InFlight, SendLink
from covey.core.link.sender import Sender
from covey.core.link.windows import Windows
from covey.core.membership import membership as membership_module
from covey.core.membership import voting as voting_module
from covey.core.membership.actions import GroupActions
from covey.core.membership.addresses import Addresses
from covey.core.membership.gathering import Gathering
from covey.core.membership.joining import Joining
from covey.core.membership.membership import Membership, Spreading
from covey.core.node import Node
from covey.core.now import Now
from covey.core.pairing.pending import OpenInvite
from covey.core.receiving import receiver as receiver_module
from covey.core.receiving.acknowledgements import Acknowledgements
from covey.core.vault.key_file import KeyFile
from covey.core.vault.landing import LandingPlan
from covey.core.wire.envelope import seal
from covey.core.wire.message import Loss, Message, MessageType, read_message
from covey.core.wire.sequences import SequenceSet
from covey.ports import Delivered
from tests.proof import begins
from tests.sim.broker import Link
from tests.sim.ledger import ViolationError


@dataclass(frozen=True, slots=True)
class Mutant:
    """A name, and what it replaces: (owner, attribute) to the replacement."""

    name: str
    replaced: dict[tuple[object, str], Any]
    first_seed: int = 0
    """Where to begin to look for one that few seeds notice."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make the mistake for a while."""
        with ExitStack() as stack:
            for (owner, attribute), replacement in self.replaced.items():
                stack.enter_context(patch.object(owner, attribute, replacement))
            yield

    def must_show(self, run: Callable[[int], object], seeds: int) -> None:
        """Check that one of so many worlds notices the mistake, and is whole without it."""
        begins()
        for seed in range(self.first_seed, self.first_seed + seeds):
            with self.applied():
                noticed = _violation(run, seed)
            if noticed is None:
                continue
            defect = re.search("AttributeError|TypeError", f"{noticed.__cause__!r} {noticed}")
            assert not defect, "the mutant no longer fits the code that it replaces"
            if _violation(run, seed) is None:  # some worlds fail without any mistake, too
                return
        pytest.fail(f"{seeds} seeds did not notice: {self.name}")


def _violation(run: Callable[[int], object], seed: int) -> ViolationError | None:
    try:
        run(seed)
    except ViolationError as error:
        return error
    return None


def _close_on_puback(node: Node, recipient: DeviceKey, place: Place) -> None:
    records: Any = node._records
    received = SequenceSet().add(place)
    with records.transaction():
        records.outbox.free(recipient, received)
    node.state.windows.acknowledged(recipient, received, Now(0, 0))


def _start_over(runtime: Runtime) -> Node:
    """Replace the node as if nothing were in flight."""
    windows = runtime.node.state.windows
    windows.clear()
    node = _replace_node(runtime)
    if windows.is_connected:
        windows.connected(Now(0, 0))
    return node


_replace_node = Runtime._replace_node


def _go_on_without_a_word(high_water: Any, run: Any, _number: Any) -> None:
    with patch.object(high_water._losses, "note_runs", _nothing):
        _lose(high_water, run, None)


_lose = HighWater._lose


def _take_up_what_grew(sender: Sender) -> None:
    for recipient in sender._records.outbox.recipients():
        sender._windows.queue_grew(recipient)


def _acknowledge_before_commit(runtime: Runtime, events: list[Any], now: Any) -> None:
    delivered = [event for event in events if isinstance(event, Delivered)]
    if delivered:
        with runtime._store.transaction():
            for event in delivered:
                runtime.node.receive_envelope(event.payload, now)
            runtime.node.make_acknowledgements_due(now)
            runtime._release(now)
    for event in delivered:
        runtime._relays.acknowledge(event)
    for event in events:
        runtime._take_relay_news(event, now)


def _take_as_landed(link: ReceiveLink, link_seq: int, *, lands_later: bool = False) -> None:
    link.received = link.received.add(link_seq)


def _sequences_in_ram() -> Callable[[Outbox, DeviceKey], tuple[int, int]]:
    """Count in the process, which a restart makes begin again."""
    counters: dict[tuple[int, bytes], int] = defaultdict(int)

    def allocate(outbox: Outbox, recipient: DeviceKey) -> tuple[int, int]:
        _allocate(outbox, recipient)
        me = id(outbox)
        counters[me, b""] += 1
        counters[me, recipient] += 1
        return counters[me, b""] + 100, counters[me, recipient] + 100

    return allocate


_allocate = Outbox.allocate


def _acknowledge_before_landing(collector: Collector, node: Any, now: Any) -> None:
    store: Any = collector._store
    plan = store.landing.plan() or collector._plan(now)
    if plan is not None:
        messages = store.landing.until(plan.last_id)
        with store.transaction():
            store.landing.finish(plan, store.landing.manifest_floor())
        for message in messages:
            node.landing.landed(message.author, message.incarnation, {message.link_seq}, now)
        collector._write(plan, messages, now)


def _rotate_after_landing(collector: Collector, node: Any, now: Any) -> Any:
    keys = collector._vault.keys
    prepare = keys.prepare
    with patch.object(keys, "prepare", _nothing):
        _land(collector, node, now)
    return prepare(node.groups.joined(), now)


_land = Collector._land


def _plan_in_ram(collector: Collector, now: Any) -> LandingPlan | None:
    waiting = collector._store.landing.waiting(1_000_000, 1_000)
    if waiting is None:
        return None
    manifest = collector._vault.manifest
    number = manifest.last_number + 1 if manifest else 1
    return LandingPlan(number, collector._store.incarnations.present(), waiting[0], now.wall_us, collector._rng(24))


def _same_nonce(message: bytes, address: NoisePublic, _ephemeral_secret: bytes, _nonce: bytes) -> bytes:
    return seal(message, address, bytes(range(32)), bytes(24))


def _keys_of_an_incarnation() -> Callable[[SendingLinks, DeviceKey, Incarnation], LinkKey]:
    """Draw, in each life of a device, the keys of the one before: their counters begin anew."""
    drawn: WeakKeyDictionary[SendingLinks, int] = WeakKeyDictionary()

    def draw(links: SendingLinks, _recipient: DeviceKey, _incarnation: Incarnation) -> LinkKey:
        drawn[links] = drawn.get(links, 0) + 1
        content = hashlib.blake2b(links._author + bytes([drawn[links]]), digest_size=48).digest()
        return LinkKey(links._author, content[:16], Secret(content[16:]))

    return draw


def _use_at_once(
    links: SendingLinks, recipient: DeviceKey, link: LinkKey, address: NoisePublic, place: Place, now_us: int
) -> None:
    _begin(links, recipient, link, address, place, now_us)
    links.acknowledged(recipient, SequenceSet().add(place))


_begin = SendingLinks.begin


def _by_link_for_ever(
    sealer: Sealer, recipient: DeviceKey, entry: InFlight, address: NoisePublic, now: Any
) -> Outgoing:
    return sealer.by_link(recipient, entry.message, address, now, entry)


def _present_span_only(incarnations: Incarnations, recipient: DeviceKey) -> list[IncarnationSpan]:
    return _spans(incarnations, recipient)[-1:]


_spans = Incarnations.spans


def _by_number_alone(
    _acknowledgements: Acknowledgements,
    _author: DeviceKey,
    _span: IncarnationSpan,
    received: SequenceSet,
    _imprints: Any,
    **_named: bool,
) -> tuple[SequenceSet, list[Place]]:
    return received, []


def _first_relay(relays: Relays, topic: str, now_us: int) -> list[str]:
    return _routing(relays, topic, now_us)[:1]


_routing = Relays._routing


def _believed(acknowledgements: Acknowledgements, message: Any, now: Any, *, hears: bool) -> Any:
    del hears
    return _acknowledge(acknowledgements, message, now, hears=True)


_acknowledge = Acknowledgements.acknowledge


def _resume_anywhere(link: ReceiveLink, resumed: Any) -> None:
    link.received = link.received.including(resumed)


def _what_is_held(joining: Joining, invite: OpenInvite, newcomer: Member, now_us: int) -> list[GroupSend]:
    trust, joiner = joining._groups.trust(invite.group_id), newcomer.keys.signing_public
    if trust.current is None or trust.current.member(joiner) is None:
        return _let_in(joining, invite, newcomer, now_us)
    body = Bundle(tuple(manifest.raw for manifest in trust.held())).to_wire()
    return [GroupSend(joiner, MessageType.GROUP_MANIFEST, invite.group_id, body)]


_let_in = Joining.let_in


def _eldest_attacker(counting: Any, stuck: Sequence[Step]) -> Step:
    """Let prevail, of all that wait, whom nobody wants out, known or not."""
    attacking = 0
    for step in stuck:
        attacking |= counting._against[step.bit]
    removing = [step for step in stuck if step.bit & attacking]
    return min(removing, key=lambda step: (len(counting._wishes.get(step.issuer, ())), step.version, step.hash))


def _one_window(windows: Windows, recipient: DeviceKey) -> None:
    links = windows._by_lane[Lane.BULK].links
    links.setdefault((recipient, Lane.BULK), SendLink(recipient)).queue_grew()
    windows._roused(windows._of(recipient))


def _control_or_not(outbox: Outbox, recipient: DeviceKey, after: Place, limit: int, size: int, **_lane: Any) -> Any:
    return _queued(outbox, recipient, after, limit, size)


_queued = Outbox.queued


def _in_any_epoch(state: Any, epoch: int, group_id: Any, action: Action, target: DeviceKey, votes: list[Vote]) -> Any:
    """Count votes to keep somebody out whenever they were cast."""
    since = policy_module.target_since(state, epoch, action, target)
    ageless = [replace(vote, since=since) if action is Action.KEEP_OUT and since else vote for vote in votes]
    return _voted_for(state, epoch, group_id, action, target, ageless)


_voted_for = policy_module.voted_for


def _whoever_is_a_member(revoke: Revoke, manifest: GroupManifest, own: DeviceKey) -> None:
    """Obey a Revoke of whoever is a member now, whatever it is of."""
    _check_revoke(replace(revoke, version=manifest.version), manifest, own)


_check_revoke = revocation_module.check_revoke


def _left_to_its_issuer(membership: Membership, message: Message, now_us: int) -> list[GroupSend]:
    """Obey a Revoke, and leave it to its issuer to tell the others."""
    _receive_revoke(membership, message, now_us)
    return []


_receive_revoke = Membership.receive_revoke


def _secret_for_all(spreading: Spreading, _before: Any, manifest: Any, news: Any, audience: Any) -> list[GroupSend]:
    """Give the secret of the new epoch to whoever hears of it, the removed among them."""
    bundle = Bundle(spreading._bundled(news), spreading._secret_of(manifest))
    return [spreading._send(each, manifest.group_id, bundle.to_wire()) for each in sorted(audience)]


def _withdrawn_without_a_word(
    queue: SendQueue, recipient: DeviceKey, place: Place, now: Now, code: str = "too_large", **_notify: bool
) -> None:
    queue._records.outbox.withdraw(recipient, place, code, now.wall_us, None)


def _whoever_destroys(revoke: Revoke, manifest: GroupManifest, own: DeviceKey) -> None:
    """Obey a Revoke of whoever is a member no more."""
    if manifest.member(revoke.issuer) is not None:
        _check_revoke(revoke, manifest, own)


def _member_or_not(membership: Membership, message: Message) -> None:
    """Hear a Revoke of anybody."""
    if message.type is not MessageType.REVOKE:
        _check_member(membership, message)


_check_member = receiver_module._check_member

_OF_A_FORMER_MEMBER, _OF_A_LOSS, _OF_A_LOSS_AND_RIVALS, _OF_A_LOSS_AND_A_COPY = 4, 18, 421, 2_917


def _nothing(*_arguments: object, **_named: object) -> None:
    """Do nothing."""


def _only_due(gathering: Gathering, now: Now) -> bool:
    deadline = gathering.next_deadline()
    return deadline is not None and deadline <= now.monotonic_us


MUTANTS = (
    Mutant("close on PUBACK", {(Node, "relayed"): _close_on_puback}),
    Mutant("no timed resend", {(SendLink, "handle_deadline"): _nothing, (SendLink, "next_deadline"): _nothing}),
    Mutant("acknowledge before the commit", {(Runtime, "_take"): _acknowledge_before_commit}),
    Mutant("acknowledge before the landing", {(ReceiveLink, "take"): _take_as_landed}),
    Mutant("no dedup", {(ReceiveLink, "classify"): lambda _link, _link_seq, **_: Arrival.NEW}),
    Mutant("sequences in RAM", {(Outbox, "allocate"): _sequences_in_ram()}),
    Mutant("what another process takes out of a queue is sent for ever", {(Sender, "refresh"): _take_up_what_grew}, 70),
    Mutant(
        "never subscribe again", dict.fromkeys([(Link, "_renew_later"), (Link, "renew_subscription")], _nothing), 34
    ),
    Mutant("start over when the disk is full", {(Runtime, "_replace_node"): _start_over}, 44),
    Mutant("finish before the manifest is put", {(Collector, "_land"): _acknowledge_before_landing}, 3),
    Mutant(
        "a collector without its database does not ask its vault",
        {(collector_module, "recall"): _nothing},
        _OF_A_LOSS_AND_A_COPY,
    ),
    Mutant("the plan is not committed", {(Collector, "_plan"): _plan_in_ram}, 3),
    Mutant(
        "signatures are not verified",
        {(receiver_module, "read_message"): lambda raw, **_verify: read_message(raw, verify=False)},
        75,
    ),
    Mutant("a loss that nobody is told of", {(SendQueue, "_report_losses"): _nothing}, 3),
    Mutant("strangers may speak", {(receiver_module, "authorise"): _nothing}),
    Mutant("one nonce for all", {(sealer_module, "seal"): _same_nonce}),
    Mutant(
        "a link's key survives a crash, its counter does not", {(SendingLinks, "draw"): _keys_of_an_incarnation()}, 5
    ),
    Mutant(
        "a link is used before its recipient has the key, and for what is repeated",
        {(SendingLinks, "begin"): _use_at_once, (Sealer, "queued"): _by_link_for_ever},
    ),
    Mutant("no encryption", {(sealer_module, "seal"): lambda message, *_keys: message}),
    Mutant("a restored device goes on as before", {(Incarnations, "renew"): _nothing}, 47),
    Mutant("commits that a disk has lost go unnoticed", {(HighWater, "is_behind"): lambda *_: False}, 25),
    Mutant("what went with lost commits is not told", {(HighWater, "_lose"): _go_on_without_a_word}, 175),
    Mutant("an acknowledgement of another life is ignored", {(Incarnations, "replace"): lambda *_: False}, 15),
    Mutant("an acknowledgement frees by number alone", {(Acknowledgements, "_compared"): _by_number_alone}, 15),
    Mutant("what another life has numbered is not sent again", {(SendQueue, "requeue"): _nothing}, 15),
    Mutant("an earlier life's messages are forgotten", {(Incarnations, "spans"): _present_span_only}, 15),
    Mutant("only the preferred relay is tried", {(Relays, "_routing"): _first_relay}, 27),
    Mutant("an answer goes by the preferred relay only", {(Relays, "note_received"): _nothing}, 6),
    Mutant("a claim of losses is believed whatever it says", {(Loss, "last"): property(lambda _loss: 0)}, 20),
    Mutant("who is a member is sent what is held", {(Joining, "let_in"): _what_is_held}, _OF_A_LOSS_AND_RIVALS),
    Mutant(
        "control messages wait behind the others",
        {
            (Windows, "queue_grew"): _one_window,
            (Outbox, "queued"): _control_or_not,
            (lanes_module, "_WINDOWS"): dict.fromkeys(Lane, 8),  # no world fills a whole one; 8 alone is no mistake
        },
        _OF_A_LOSS,
    ),
    Mutant("acknowledge for ever", {(ReceiveLink, "answered"): _nothing}),
    Mutant("a vault key outlives its epoch", {(KeyFile, "is_outdated"): lambda *_: False}, 25),
    Mutant("a vault key is rotated after it was used", {(Collector, "_land"): _rotate_after_landing}, 33),
    Mutant("a removed device is heard", {(Addresses, "hears"): lambda *_: True}, _OF_A_FORMER_MEMBER),
    Mutant("a removed device shows a rollback", {(Acknowledgements, "acknowledge"): _believed}, _OF_A_FORMER_MEMBER),
    Mutant("manifests and secrets for whoever asks", {(receiver_module, "_check_member"): _nothing}, 9),
    Mutant("rivals without a bound", {(trust_module, "RIVALS_OF_ONE"): 1_000}, 54),
    Mutant(
        "a removed device lets one in that removes its remover",
        {(resolver_module._Counting, "_prevailing"): _eldest_attacker},
        _OF_A_FORMER_MEMBER,
    ),
    Mutant("who waits to be let in with others is not kept", {(Invites, "keep_request"): _nothing}, 31),
    Mutant("who waits to be let in with others is forgotten by a restart", {(Gathering, "has_work"): _only_due}, 405),
    Mutant("a resumption scatters what came", {(ReceiveLink, "resume"): _resume_anywhere}, 20),
    Mutant("a resumption excuses a loss", {(Received, "set_resumed"): _nothing}, 30),
    Mutant(
        "a vote to keep out counts in any epoch",
        {(policy_module, "voted_for"): _in_any_epoch, (voting_module, "voted_for"): _in_any_epoch},
        347,
    ),
    Mutant("votes that cross decide nothing", {(GroupActions, "decide"): _nothing}, 7_660_025),
    Mutant(
        "what was meant before a ban destroys", {(membership_module, "check_revoke"): _whoever_is_a_member}, 40_003_999
    ),
    Mutant("a destruction is told by its issuer alone", {(Membership, "receive_revoke"): _left_to_its_issuer}, 9),
    Mutant("who is banned gets the next secret", {(Spreading, "of_change"): _secret_for_all}, 48),
    Mutant("what waits in a group outlives it", {(SendQueue, "withdraw_of_group"): _nothing}, 178),
    Mutant(
        "a destruction that crosses the ban of its issuer ends the group",
        {(membership_module, "check_revoke"): _whoever_destroys, (receiver_module, "_check_member"): _member_or_not},
        9,
    ),
    Mutant("what no relay takes is sent for ever", {(Node, "withdraw"): _nothing}, 10),
    Mutant("what no relay takes is lost without a word", {(SendQueue, "withdraw"): _withdrawn_without_a_word}, 10),
    Mutant("memory follows no commit", {(Database, "after_commit"): _nothing}),
)
"""Three mistakes no world of a thousand shows any more, and unit tests stand for them: that a queue forgets before the
delete commits (`core/test_node.py`), that nobody asks for whom something waits (`core/membership/test_notices.py`), and
that a request to join goes as seldom as all else (`core/membership/test_expiry.py`)."""
