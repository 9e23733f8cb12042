"""What members write reaches the others, whoever was away, and whatever else is in the messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from covey.app.operations.groups import removal
from covey.core.events import EnvelopeDropped, HistoryForked, HistoryGrew
from covey.core.group.manifest import BOARD, Member, Mode
from covey.core.history.bodies import GroupProfile, Note, read_body
from covey.core.history.messages import HistoryPull, OperationBundle, bundle_payload_bytes
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.ids import GroupId, Incarnation, LinkSeq, ManifestHash, OperationId, Place
from covey.core.link.lanes import Lane
from covey.core.wire.message import Message, MessageType, read_message
from covey.errors import LocalError, UnknownGroupError
from covey.limits.history import (
    ANNOUNCE_US,
    BUNDLE_OPERATIONS,
    FORKS_OF_ONE,
    HISTORY_PULL_US,
    LOGS_OF_ONE,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_PARENTS,
    MAXIMUM_WANTED,
)
from tests.fleet import Device, admit, carry, found, identity, settled

Make = Callable[[str], Device]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda name: Device(name, tmp_path)


def _write(device: Device, group_id: GroupId, text: str) -> Operation:
    with device.store.transaction():
        return device.node.history.write(group_id, Note("text/plain", text.encode()), device.now)


def _read(device: Device, group_id: GroupId) -> list[str]:
    """Return what the notes of a group say, in the order that holds everywhere."""
    bodies = [read_body(read_operation(stored.raw)) for stored in device.store.operations.in_order(group_id)]
    return [body.content.decode() for body in bodies if isinstance(body, Note)]


def _send(author: Device, recipient: Device, group_id: GroupId, kind: MessageType, body: bytes) -> None:
    """Send what no honest node would."""
    with author.store.transaction():
        author.node._queue.queue(recipient.key, kind, group_id, body, author.now)
    carry(author, recipient)


def _remove(remover: Device, removed: Device, group_id: GroupId) -> None:
    with remover.store.transaction():
        remover.node.actions.change(group_id, removal(removed.key), remover.now)


def _label(changer: Device, member: Device, label: str, group_id: GroupId) -> None:
    present = changer.node.groups.group(group_id).member(member.key)
    assert present is not None
    with changer.store.transaction():
        changer.node.actions.change(
            group_id, lambda draft, _: draft.changing(replace(present, label=label)), changer.now
        )


def _maintain(*devices: Device) -> None:
    for device in devices:
        device.wait(ANNOUNCE_US / 1_000_000)
        device.maintain()
    carry(*devices)


def _forged(device: Device, group_id: GroupId, number: int, text: str, *parents: Operation, **other: int) -> Operation:
    """Return an operation that a device signs as it likes."""
    height = other.get("height", 1 + max((each.height for each in parents), default=0))
    log = Log(device.key, Incarnation(bytes([other.get("life", 9)] * 8)))
    named = device.node.groups.group(group_id).hash
    ids = tuple(sorted(each.id for each in parents))
    previous = next((each.id for each in parents if (each.log, each.number + 1) == (log, number)), None)
    body = Note("text/plain", text.encode()).to_wire()
    kind = other.get("kind", 1)
    return sign_operation(
        Operation(group_id, log, number, previous, ids, height, named, 0, kind, body), device.identity
    )


def _bundle(*operations: Operation) -> bytes:
    return OperationBundle(tuple(each.raw for each in operations)).to_wire()


def test_a_note_reaches_every_member_and_its_author_sees_it(  # accepts: 003.02, 003.21, 003.23, 003.24
    make: Make,
) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _write(ann, group_id, "pump 3 rattles")
    carry(ann, ben, cem)
    assert _read(ann, group_id) == _read(ben, group_id) == _read(cem, group_id) == ["pump 3 rattles"]
    assert HistoryGrew(group_id, ann.key, 1) in ben.events()


def test_a_board_is_sent_nothing_of_a_history(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    board = Member(identity("board").keys, capabilities=(BOARD,))
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft.adding(board), ann.now)
    _write(ann, group_id, "pump 3 rattles")
    assert _history_waiting(ann, ben)
    key = board.keys.signing_public
    assert ann.store.outbox.queued(key, Place(0), 100, 2**40, lane=Lane.HISTORY) == []
    assert key not in {each.recipient for each in ann.sends()}


def test_notes_that_knew_nothing_of_each_other_stand_in_one_order_everywhere(make: Make) -> None:  # accepts: 003.22
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _write(ann, group_id, "one")
    carry(ann, ben, cem)
    for device in (ann, ben, cem):
        _write(device, group_id, f"{device.name} at once")
    carry(ann, ben, cem)
    assert _read(ann, group_id) == _read(ben, group_id) == _read(cem, group_id)
    assert len(ann.store.operations.heads(group_id)) == 3
    last = _write(ben, group_id, "after all")
    carry(ann, ben, cem)
    assert ann.store.operations.heads(group_id) == [last.id]
    assert _read(cem, group_id)[-1] == "after all"


@pytest.mark.slow
@pytest.mark.parametrize("heads", [MAXIMUM_PARENTS + 1, MAXIMUM_PARENTS + 3])
def test_more_heads_than_an_operation_may_follow_are_merged_first(make: Make, heads: int) -> None:  # accepts: 003.30
    devices = [make(f"device {number}") for number in range(heads)]
    group_id = GroupId(settled(*devices))
    for device in devices:
        _write(device, group_id, device.name)
    carry(*devices)
    last = _write(devices[0], group_id, "last")
    carry(*devices)
    assert len(last.parents) <= MAXIMUM_PARENTS
    assert {tuple(each.store.operations.heads(group_id)) for each in devices} == {(last.id,)}


def test_nobody_is_silenced_by_many_heads_that_are_lower_than_what_it_has_written(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(4):
        _write(ann, group_id, f"note {number}")
    heads = [_forged(ben, group_id, 1, "a head", life=number) for number in range(LOGS_OF_ONE)]
    heads += [_forged(ben, group_id, 1, "a rival", life=number) for number in range(LOGS_OF_ONE)]
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(*heads))
    last = _write(ann, group_id, "all this")
    assert ann.store.operations.heads(group_id) == [last.id]


def _history_waiting(device: Device, member: Device) -> list[tuple[Place, bytes]]:
    return device.store.outbox.queued(member.key, Place(0), 100, 2**40, lane=Lane.HISTORY)


def test_who_learns_of_anothers_removal_asks_it_for_no_more(make: Make) -> None:
    ann, ben, cat, dan = make("ann"), make("ben"), make("cat"), make("dan")
    found(ben, ann)  # they go on meeting in this one
    group_id = GroupId(settled(cat, ann, ben, dan))
    _remove(cat, dan, group_id)
    carry(cat, ben)
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(_write(ben, group_id, "without dan")))
    _remove(cat, ben, group_id)
    cat.wait(60)  # what it sent before is lost
    carry(cat, ann)
    assert ann.node.groups.group(group_id).member(ben.key) is None
    _maintain(ann)
    rows = ann.store.outbox.queued(ben.key, Place(0), 100, 1_000_000)
    assert MessageType.HISTORY_PULL not in {read_message(raw, verify=False).type for _, raw in rows}


def test_what_names_a_later_version_than_the_one_that_holds_is_followed_by_none_before_it(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _remove(ann, ben, group_id)
    for label in ("still", "here"):
        _label(ben, ben, label, group_id)
    carry(ben, cem)
    unaware = _write(cem, group_id, "about ben's last version")
    carry(cem, ben)
    with ann.store.transaction():
        manifests = tuple(cem.store.groups.manifests_from(group_id, 1))
        ann.node.history_import.take_manifests(group_id, manifests, ann.now)
        ann.node.history.take(group_id, [stored.raw for stored in cem.store.operations.in_order(group_id)], ann.now)
    held = ann.store.operations.held(group_id, unaware.id)
    assert held is not None
    assert held.manifest_version > ann.node.groups.group(group_id).version, "ben's versions count for nothing"
    assert unaware.id not in _write(ann, group_id, "after the removal").parents
    _label(ann, ann, "hub", group_id)
    last = _write(ann, group_id, "all of it")
    assert ann.store.operations.heads(group_id) == [last.id], "the next version comes after those"


@pytest.mark.slow
def test_who_is_away_costs_its_author_one_row(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(3 * BUNDLE_OPERATIONS):
        _write(ann, group_id, f"note {number}")
    assert len(_history_waiting(ann, ben)) == 1
    for _ in range(5):
        carry(ann, ben)
        _maintain(ann, ben)
    assert len(_read(ben, group_id)) == 3 * BUNDLE_OPERATIONS
    assert _read(ben, group_id) == _read(ann, group_id)


def test_what_was_written_while_something_waited_is_owed_across_a_restart(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _write(ann, group_id, "first")
    _write(ann, group_id, "second")
    ann.restart()
    carry(ann, ben)
    assert _read(ben, group_id) == ["first"]
    _maintain(ann, ben)
    assert _read(ben, group_id) == ["first", "second"]
    _maintain(ann, ben)
    assert not ann.node.history.exchange.has_work(ann.now), "nothing is owed, and nothing is looked for"


def test_who_lacks_what_an_operation_follows_asks_for_it(make: Make) -> None:  # accepts: 003.28
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _write(ann, group_id, "heard by ben alone")
    carry(ann, ben)
    _write(ben, group_id, "about that")
    carry(ben, cem)
    assert _read(cem, group_id) == ["heard by ben alone", "about that"]


def _meet(*devices: Device, seconds: int = 60) -> None:
    """Let devices hear each other for a while, and do what is due."""
    for _ in range(seconds):
        for device in devices:
            device.wait(1)
            device.maintain()
        carry(*devices)


def test_a_newcomer_learns_everything_from_whomever_it_meets(make: Make) -> None:  # accepts: 003.02, 003.25, 003.81
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben)
    for number in range(3):
        _write(ann, group_id, f"ann {number}")
        _write(ben, group_id, f"ben {number}")
        carry(ann, ben)
    ann.stop()  # for good
    admit(ben, cem, group_id)
    _meet(ben, cem, seconds=90)
    assert _read(cem, group_id) == _read(ben, group_id)
    assert len(_read(cem, group_id)) == 6


def test_what_only_one_knows_whose_author_is_gone_reaches_the_others(make: Make) -> None:  # accepts: 003.01, 003.23
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _write(ann, group_id, "my last words")
    carry(ann, ben)
    ann.stop()
    ben.blob(group_id, b"hello")  # whose acknowledgement shows that cem is behind
    _meet(ben, cem)
    assert _read(cem, group_id) == ["my last words"]
    assert ben.node.heads.said_to(cem.key) == cem.node.heads.said_to(ben.key)
    before = [len(each.sends()) for each in (ben, cem)]
    _meet(ben, cem, seconds=30)
    assert before == [0, 0]


def test_what_breaks_a_rule_takes_nothing_else_along(make: Make) -> None:  # accepts: 003.26, 003.32
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    good = _forged(ben, group_id, 1, "good")
    bad = _forged(ben, group_id, 2, "bad", good, height=7)
    after = _forged(ben, group_id, 3, "after it", bad)
    mine = _forged(ben, group_id, 1, "another log", life=8)
    unknown = _forged(ben, group_id, 2, "unknown kind", mine, life=8, kind=200)
    body = OperationBundle((*(each.raw for each in (good, bad, after, mine, unknown)), b"\x00")).to_wire()
    _send(ben, ann, group_id, MessageType.OPERATIONS, body)
    assert sorted(_read(ann, group_id)) == ["another log", "good"]
    dropped = [event.code for event in ann.events() if isinstance(event, EnvelopeDropped)]
    assert dropped == ["malformed"] * 3
    assert ann.store.quarantine.entries() == []


def test_a_hostile_member_that_promises_more_is_asked_once_in_a_while(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    orphan = _forged(ben, group_id, 2, "of nothing", _forged(ben, group_id, 1, "withheld"))
    asked = 0
    for _ in range(20):
        with ben.store.transaction():
            ben.node._queue.queue(ann.key, MessageType.OPERATIONS, group_id, _bundle(orphan), ben.now)
        for outgoing in ben.sends():
            ann.receive(outgoing.envelope)
        asked += len(ann.store.outbox.control_messages(ben.key))
        carry(ann, ben)
    assert asked == 1
    ann.wait(HISTORY_PULL_US / 1_000_000)
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(orphan))
    assert _read(ann, group_id) == []


def test_who_pretends_to_a_cycle_is_waited_for_in_vain_and_asked_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:  # accepts: 003.32
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    exchange, requests = ben.node.history.exchange, set[LinkSeq]()
    read_pull = exchange.read_pull

    def note_pull(message: Message) -> HistoryPull:
        requests.add(message.link_seq)
        return read_pull(message)

    monkeypatch.setattr(exchange, "read_pull", note_pull)
    withheld = _forged(ben, group_id, 1, "half")
    half = _forged(cem, group_id, 1, "other half", withheld)
    cycle = _forged(ben, group_id, 1, "half", half)  # ids are hashes: it cannot be what the other half follows
    itself = _forged(ben, group_id, 2, "itself", _forged(ben, group_id, 2, "itself", withheld), withheld)
    for _ in range(3):
        _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(cycle, half, itself))
    assert ann.store.operations.in_order(group_id) == []
    assert ann.store.quarantine.entries() == []
    assert [(each.member, each.waiting) for each in ann.store.catching_up.of(group_id)] == [(ben.key, 3)]
    assert len(requests) == 1
    _write(cem, group_id, "meanwhile")
    carry(ann, ben, cem)
    assert _read(ann, group_id) == ["meanwhile"]


def test_a_fork_is_kept_as_a_proof_and_no_third_rival_is(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = [_forged(ben, group_id, 1, f"rival {number}") for number in range(FORKS_OF_ONE + 1)]
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(*rivals))
    assert len(_read(ann, group_id)) == FORKS_OF_ONE
    own = _forged(ben, group_id, 2, "its author's own word for it", rivals[-1])
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(rivals[-1], own))
    assert len(_read(ann, group_id)) == FORKS_OF_ONE
    _send(ben, cem, group_id, MessageType.OPERATIONS, _bundle(rivals[-1]))
    answer = _write(cem, group_id, "to that")  # whoever follows the third one makes it wanted
    carry(cem, ann, ben)
    assert answer.id in ann.store.operations.heads(group_id)
    assert len(_read(ann, group_id)) == FORKS_OF_ONE + 2


def test_a_rival_that_others_follow_is_asked_for_however_lately_its_holder_was_asked(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = [_forged(cem, group_id, 1, f"rival {number}") for number in range(FORKS_OF_ONE + 1)]
    _send(cem, ann, group_id, MessageType.OPERATIONS, _bundle(*rivals[:-1]))
    next_one = _forged(cem, group_id, 2, "its author's own word for it", rivals[-1])
    _send(cem, ben, group_id, MessageType.OPERATIONS, _bundle(rivals[-1], next_one))
    orphan = _forged(ben, group_id, 2, "of nothing", _forged(ben, group_id, 1, "withheld"))
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(orphan))  # ann has asked ben just now
    answer = _write(ben, group_id, "to both")
    assert answer.parents == (next_one.id,), "what it follows may follow the rival in turn"
    carry(ann, ben)
    assert answer.id not in ann.store.operations.heads(group_id)
    _meet(ann, ben, seconds=int(HISTORY_PULL_US / 1_000_000) + 5)
    assert answer.id in ann.store.operations.heads(group_id)


@pytest.mark.slow
def test_of_what_is_wanted_by_its_id_so_much_is_asked_for_as_a_request_holds(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = [_forged(cem, group_id, 1, f"rival {number}") for number in range(MAXIMUM_WANTED + FORKS_OF_ONE + 1)]
    _send(cem, ann, group_id, MessageType.OPERATIONS, _bundle(*rivals[:FORKS_OF_ONE]))
    unknown, answers = rivals[FORKS_OF_ONE:], list[Operation]()
    for number, first in enumerate(range(0, len(unknown), MAXIMUM_PARENTS - 1), 1):
        followed = (*answers[-1:], *unknown[first : first + MAXIMUM_PARENTS - 1])
        answers.append(_forged(ben, group_id, number, "to those", *followed))
    with ben.store.transaction():
        ben.node.history.take(group_id, [each.raw for each in (*unknown, *answers)], ben.now)
    _meet(ann, ben, seconds=int(4 * HISTORY_PULL_US / 1_000_000))
    assert ann.store.operations.held(group_id, answers[-1].id) is not None, "and for the others after that"


@pytest.mark.parametrize("bound", ["operations", "bytes", "relay"])
def test_an_answer_holds_so_much_and_says_how_much_more_there_is(
    make: Make, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    raws = [_write(ann, group_id, f"note {number}").raw for number in range(5)]
    length = sum(map(len, raws[:3]))
    if bound == "operations":
        monkeypatch.setattr("covey.core.history.exchange.BUNDLE_OPERATIONS", 3)
    elif bound == "bytes":
        monkeypatch.setattr("covey.core.history.exchange.BUNDLE_OPERATION_BYTES", length)
    else:
        ann.node.state.carriage.maximum_payload = bundle_payload_bytes(3, length)
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.HISTORY_PULL, group_id, HistoryPull({}).to_wire(), ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    bundles = [OperationBundle.from_wire(read_message(raw, verify=False).body) for _, raw in _history_waiting(ann, ben)]
    assert (list(bundles[-1].operations), bundles[-1].more) == (raws[:3], 2)


def test_what_no_relay_takes_is_not_answered(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    raw = _write(ann, group_id, "more than the relay takes").raw
    waiting = _history_waiting(ann, ben)
    ann.node.state.carriage.maximum_payload = bundle_payload_bytes(1, len(raw)) - 1
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.HISTORY_PULL, group_id, HistoryPull({}).to_wire(), ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    assert _history_waiting(ann, ben) == waiting
    assert ann.store.counters.values()["pulls_too_large"] == 1


def test_a_pull_that_changes_nothing_is_not_answered(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    operation = _write(ann, group_id, "one")
    carry(ann, ben)
    pull = HistoryPull({operation.log: 1}).to_wire()
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.HISTORY_PULL, group_id, pull, ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    assert _history_waiting(ann, ben) == []


@pytest.mark.slow
def test_pulls_fill_no_outbox(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(40):
        _write(ann, group_id, f"{number}" * 8_000)
    carry(ann, ben)
    for _ in range(200):
        with ben.store.transaction():
            ben.node._queue.queue(ann.key, MessageType.HISTORY_PULL, group_id, HistoryPull({}).to_wire(), ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    assert len(_history_waiting(ann, ben)) <= 2


def test_the_history_of_a_group_goes_with_it(make: Make) -> None:  # accepts: 003.51
    ann = make("ann")
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us).group_id
    _write(ann, group_id, "alone")
    with ann.store.transaction():
        ann.node.actions.leave(group_id, ann.now)
    assert ann.store.operations.in_order(group_id) == []
    with pytest.raises(UnknownGroupError):
        _write(ann, group_id, "once more")


@pytest.mark.slow
def test_who_parts_and_meets_again_has_one_history(make: Make) -> None:  # accepts: 003.01, 003.06, 003.30
    devices = ann, ben, cem, dan = [make(name) for name in ("ann", "ben", "cem", "dan")]
    group_id = found(*devices)
    for number in range(3):
        for side in ((ann, ben), (cem, dan)):
            _write(side[number % 2], group_id, f"{side[0].name} {number}")
            _maintain(*side)
    assert _read(ann, group_id) == _read(ben, group_id) != _read(cem, group_id) == _read(dan, group_id)
    _maintain(*devices)
    _maintain(*devices)
    assert {tuple(_read(each, group_id)) for each in devices} == {tuple(_read(ann, group_id))}
    assert len(_read(ann, group_id)) == 6
    joined = _write(dan, group_id, "all of it")
    _maintain(*devices)
    assert len(joined.parents) == 2
    assert {each.node.history.digest(group_id) for each in devices} == {ann.node.history.digest(group_id)}


def test_two_that_differ_on_both_sides_compare_their_logs_once(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _write(ann, group_id, "known")
    _write(ben, group_id, "known, too")
    carry(ann, ben)
    written = [_forged(device, group_id, 1, f"of {device.name}", life=7) for device in (ann, ben)]
    later = [
        _forged(each, group_id, 2, f"more of {each.name}", one, life=7)
        for each, one in zip((ann, ben), written, strict=True)
    ]
    for device, own in ((ann, later[0]), (ben, later[1])):
        with device.store.transaction():
            device.node.history.take(group_id, [*(each.raw for each in written), own.raw], device.now)
    others = HistoryPull(dict(ben.store.operations.logs(group_id))).with_tags(bytes(8))
    _send(ben, ann, group_id, MessageType.HISTORY_PULL, others.to_wire())
    assert sorted(_read(ann, group_id)) == sorted(_read(ben, group_id))
    assert {"more of ann", "more of ben"} <= set(_read(ann, group_id))
    more = _forged(ben, group_id, 3, "most", later[1], life=7)
    with ben.store.transaction():
        ben.node.history.take(group_id, [more.raw], ben.now)
    ann.wait(HISTORY_PULL_US / 1_000_000)
    pull = HistoryPull(dict(ben.store.operations.logs(group_id))).with_tags(bytes(8))
    message = Message(
        MessageType.HISTORY_PULL,
        ben.key,
        ann.key,
        group_id,
        Incarnation(bytes(8)),
        1,
        LinkSeq(1),
        0,
        pull.to_wire(),
        b"",
    )
    with ann.store.transaction():
        [send] = ann.node.history.exchange.ask_back(message, ann.now)
    asked = HistoryPull.from_wire(send.body).among(log for log, _ in ann.store.operations.logs(group_id))
    assert asked == HistoryPull({more.log: 2}, only=True), "of what it lacks alone"
    with ben.store.transaction():
        message = replace(message, body=send.body, author=ann.key, recipient=ben.key)
        assert ben.node.history.exchange.ask_back(message, ben.now) == [], "it has all that was named"
        ben.wait(HISTORY_PULL_US / 1_000_000)
        further = replace(message, body=HistoryPull({more.log: 9}, only=True).with_tags(bytes(8)).to_wire())
        assert ben.node.history.exchange.ask_back(further, ben.now) == [], "nobody asks back who was asked back"
        further = replace(message, body=HistoryPull({more.log: 9}).with_tags(bytes(8)).to_wire())
        assert len(ben.node.history.exchange.ask_back(further, ben.now)) == 1


def test_of_two_descriptions_at_once_the_higher_id_holds_everywhere(make: Make) -> None:  # accepts: 003.62
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    said: dict[OperationId, str] = {}
    for device in (ann, ben):
        with device.store.transaction():
            operation = device.node.history.write(group_id, GroupProfile(f"of {device.name}"), device.now)
        said[operation.id] = f"of {device.name}"
    carry(ann, ben, cem)
    titles = {each.node.history.profile(group_id).title for each in (ann, ben, cem)}
    assert titles == {said[max(said)]}


def test_who_has_left_takes_nothing_and_asks_for_nothing(make: Make) -> None:  # accepts: 003.52
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _write(ann, group_id, "before")
    carry(ann, ben)
    with ben.store.transaction():
        ben.node.actions.leave(group_id, ben.now)
    late = _forged(ann, group_id, 1, "to who has left")
    with ann.store.transaction():
        ann.node._queue.queue(ben.key, MessageType.OPERATIONS, group_id, _bundle(late), ann.now)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    assert "to who has left" not in _read(ben, group_id)
    carry(ann, ben)
    ben.restart()
    ben.wait(90)
    ben.maintain()
    assert ben.sends() == [], "nor does it say anything of the group when it starts"


def test_a_description_is_an_admins_where_there_are_admins(make: Make) -> None:  # accepts: 003.60
    ann, ben = make("ann"), make("ben")
    with ann.store.transaction():
        created = ann.node.membership.create("ann", (), ann.now.wall_us, Mode.ADMIN_INVITES)
    group_id = created.group_id
    admit(ann, ben, group_id)
    profile = GroupProfile("mine")
    with pytest.raises(LocalError, match="by a member that is no admin"), ben.store.transaction():
        ben.node.history.write(group_id, profile, ben.now)
    forged = _forged(ben, group_id, 1, "")
    forged = sign_operation(replace(forged, kind=int(profile.kind), body=profile.to_wire()), ben.identity)
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(forged))
    assert [event.code for event in ann.events() if isinstance(event, EnvelopeDropped)] == ["not_allowed"]
    assert ann.node.history.profile(group_id).title == ""


def test_what_is_too_large_is_refused_before_anything_is_written(make: Make) -> None:  # accepts: 003.27, 003.60
    ann = make("ann")
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us).group_id
    with pytest.raises(LocalError, match="at most 65536 bytes"):
        _write(ann, group_id, "x" * MAXIMUM_OPERATION_BODY_BYTES)
    assert ann.store.operations.heads(group_id) == []


def test_an_operation_of_another_group_or_manifest_is_refused(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id, other = found(ann, ben), found(ben, ann)
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(_forged(ben, other, 1, "of the other group")))
    nowhere = Operation(
        group_id, Log(ben.key, Incarnation(bytes(8))), 1, None, (), 1, ManifestHash(bytes(32)), 0, 1, b"\x80"
    )
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(sign_operation(nowhere, ben.identity)))
    assert ann.store.operations.in_order(group_id) == []
    assert ann.store.operations.in_order(other) == [], "nor into the other group's history"
    assert ann.store.operations.held(group_id, OperationId(bytes(32))) is None


def test_who_learns_of_its_removal_by_what_an_operation_names_asks_for_no_more(make: Make) -> None:
    ann, ben, cat = make("ann"), make("ben"), make("cat")
    found(ben, ann)  # they go on meeting in this one
    group_id = GroupId(settled(cat, ann, ben))
    _remove(cat, ann, group_id)
    carry(cat, ben)
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(_write(ben, group_id, "without ann")))
    cat.wait(60)  # what it sent before is lost
    carry(cat, ann)
    assert ann.node.groups.removed_from()
    _maintain(ann)
    rows = ann.store.outbox.queued(ben.key, Place(0), 100, 1_000_000)
    assert MessageType.HISTORY_PULL not in {read_message(raw, verify=False).type for _, raw in rows}


@pytest.mark.slow
def test_what_is_being_fetched_shows_and_from_whom(make: Make) -> None:  # accepts: 003.57
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    for number in range(2 * BUNDLE_OPERATIONS + 10):
        _write(ann, group_id, f"note {number}")
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)  # the first note
    _maintain(ann)
    seen = set()
    for _ in range(20):
        for sender, recipient in ((ben, ann), (ann, ben)):
            sender.node.make_acknowledgements_due(sender.now)
            for outgoing in sender.sends():
                recipient.receive(outgoing.envelope)
            seen |= {(each.member, each.more) for each in ben.store.catching_up.of(group_id)}
            sender.wait(ANNOUNCE_US / 1_000_000)
            sender.maintain()
    assert seen == {(ann.key, BUNDLE_OPERATIONS + 9), (ann.key, 9)}
    assert ben.store.catching_up.of(group_id) == []
    assert len(_read(ben, group_id)) == 2 * BUNDLE_OPERATIONS + 10


def test_what_waits_for_what_it_rests_on_shows_until_that_is_here(make: Make) -> None:  # accepts: 003.57
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    withheld = _forged(ben, group_id, 1, "withheld")
    orphan = _forged(ben, group_id, 2, "of nothing", withheld)
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(orphan))
    [catch_up] = ann.store.catching_up.of(group_id)
    assert (catch_up.member, catch_up.taken, catch_up.waiting, catch_up.more) == (ben.key, 0, 1, 0)
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(withheld, orphan))
    assert ann.store.catching_up.of(group_id) == []


def test_a_fork_is_reported_when_it_comes_and_not_again(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    one, other = _forged(ben, group_id, 1, "one"), _forged(ben, group_id, 1, "other")
    _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(one))
    assert not [each for each in ann.events() if isinstance(each, HistoryForked)]
    for _ in range(2):
        _send(ben, ann, group_id, MessageType.OPERATIONS, _bundle(one, other))
    assert [each for each in ann.events() if isinstance(each, HistoryForked)] == [HistoryForked(group_id, ben.key)]
    assert ann.store.operations.forks(group_id) == {ben.key: 1}
