"""Who lacks something asks whoever has it, gets it in parts, and asks nobody in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.group.messages import GroupSend
from covey.core.history.messages import HistoryPull, OperationBundle, bundle_payload_bytes
from covey.core.history.operation import Operation
from covey.core.ids import GroupId, Incarnation, LinkSeq, Place
from covey.core.wire.message import Message, MessageType, read_message
from covey.limits.history import (
    ANNOUNCE_US,
    BUNDLE_OPERATIONS,
    FORKS_OF_ONE,
    HISTORY_PULL_US,
    MAXIMUM_PARENTS,
    MAXIMUM_WANTED,
)
from tests.fleet import Make, admit, carry, found, settled
from tests.unit.core.history.conduct import (
    bundle_of,
    forge,
    history_waiting,
    maintain,
    meet,
    read_notes,
    remove,
    send_as_it_is,
    write_note,
)


def test_a_device_stops_asking_a_member_once_it_learns_of_its_removal(make: Make) -> None:
    ann, ben, cat, dan = make("ann"), make("ben"), make("cat"), make("dan")
    found(ben, ann)  # they go on meeting in this one
    group_id = GroupId(settled(cat, ann, ben, dan))
    remove(cat, dan, group_id)
    carry(cat, ben)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(write_note(ben, group_id, "without dan")))
    remove(cat, ben, group_id)
    cat.wait(60)  # what it sent before is lost
    carry(cat, ann)
    assert ann.node.groups.group(group_id).member(ben.key) is None
    maintain(ann)
    rows = ann.store.outbox.queued(ben.key, Place(0), 100, 1_000_000)
    assert MessageType.HISTORY_PULL not in {read_message(raw, verify=False).type for _, raw in rows}


def test_a_member_asks_for_missing_parents(make: Make) -> None:  # accepts: 003.28
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    write_note(ann, group_id, "heard by ben alone")
    carry(ann, ben)
    write_note(ben, group_id, "about that")
    carry(ben, cem)
    assert read_notes(cem, group_id) == ["heard by ben alone", "about that"]


def test_a_newcomer_learns_everything_from_any_member(make: Make) -> None:  # accepts: 003.02, 003.25, 003.81
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben)
    for number in range(3):
        write_note(ann, group_id, f"ann {number}")
        write_note(ben, group_id, f"ben {number}")
        carry(ann, ben)
    ann.stop()  # for good
    admit(ben, cem, group_id)
    meet(ben, cem, seconds=90)
    assert read_notes(cem, group_id) == read_notes(ben, group_id)
    assert len(read_notes(cem, group_id)) == 6


def test_an_absent_authors_operation_spreads_from_one_holder(make: Make) -> None:  # accepts: 003.01, 003.23
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    write_note(ann, group_id, "my last words")
    carry(ann, ben)
    ann.stop()
    ben.blob(group_id, b"hello")  # whose acknowledgement shows that cem is behind
    meet(ben, cem)
    assert read_notes(cem, group_id) == ["my last words"]
    assert ben.node.heads.said_to(cem.key) == cem.node.heads.said_to(ben.key)
    before = [len(each.sends()) for each in (ben, cem)]
    meet(ben, cem, seconds=30)
    assert before == [0, 0]


def test_a_hostile_member_that_promises_more_is_asked_once_in_a_while(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    orphan = forge(ben, group_id, 2, "of nothing", forge(ben, group_id, 1, "withheld"))
    asked = 0
    for _ in range(20):
        with ben.store.transaction():
            ben.node._queue.queue(ann.key, MessageType.OPERATIONS, group_id, bundle_of(orphan), ben.now)
        for outgoing in ben.sends():
            ann.receive(outgoing.envelope)
        asked += len(ann.store.outbox.control_messages(ben.key))
        carry(ann, ben)
    assert asked == 1
    ann.wait(HISTORY_PULL_US / 1_000_000)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(orphan))
    assert read_notes(ann, group_id) == []


def test_a_pretended_cycle_is_asked_for_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:  # accepts: 003.32
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    exchange, requests = ben.node.history.exchange, set[LinkSeq]()
    answer = exchange.answering.answer

    def note_pull(message: Message, asked: HistoryPull) -> list[GroupSend]:
        requests.add(message.link_seq)
        return answer(message, asked)

    monkeypatch.setattr(exchange.answering, "answer", note_pull)
    withheld = forge(ben, group_id, 1, "half")
    half = forge(cem, group_id, 1, "other half", withheld)
    cycle = forge(ben, group_id, 1, "half", half)  # ids are hashes: it cannot be what the other half follows
    itself = forge(ben, group_id, 2, "itself", forge(ben, group_id, 2, "itself", withheld), withheld)
    for _ in range(3):
        send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(cycle, half, itself))
    assert ann.store.operations.in_order(group_id) == []
    assert ann.store.quarantine.entries() == []
    assert [(each.member, each.waiting) for each in ann.store.catching_up.of(group_id)] == [(ben.key, 3)]
    assert len(requests) == 1
    write_note(cem, group_id, "meanwhile")
    carry(ann, ben, cem)
    assert read_notes(ann, group_id) == ["meanwhile"]


def test_a_rival_that_others_follow_is_asked_for_however_lately_its_holder_was_asked(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = [forge(cem, group_id, 1, f"rival {number}") for number in range(FORKS_OF_ONE + 1)]
    send_as_it_is(cem, ann, group_id, MessageType.OPERATIONS, bundle_of(*rivals[:-1]))
    next_one = forge(cem, group_id, 2, "its author's own word for it", rivals[-1])
    send_as_it_is(cem, ben, group_id, MessageType.OPERATIONS, bundle_of(rivals[-1], next_one))
    orphan = forge(ben, group_id, 2, "of nothing", forge(ben, group_id, 1, "withheld"))
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(orphan))  # ann has asked ben just now
    answer = write_note(ben, group_id, "to both")
    assert answer.parents == (next_one.id,), "what it follows may follow the rival in turn"
    carry(ann, ben)
    assert answer.id not in ann.store.operations.heads(group_id)
    meet(ann, ben, seconds=int(HISTORY_PULL_US / 1_000_000) + 5)
    assert answer.id in ann.store.operations.heads(group_id)


@pytest.mark.slow
def test_of_what_is_wanted_by_its_id_so_much_is_asked_for_as_a_request_holds(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = [forge(cem, group_id, 1, f"rival {number}") for number in range(MAXIMUM_WANTED + FORKS_OF_ONE + 1)]
    send_as_it_is(cem, ann, group_id, MessageType.OPERATIONS, bundle_of(*rivals[:FORKS_OF_ONE]))
    unknown, answers = rivals[FORKS_OF_ONE:], list[Operation]()
    for number, first in enumerate(range(0, len(unknown), MAXIMUM_PARENTS - 1), 1):
        followed = (*answers[-1:], *unknown[first : first + MAXIMUM_PARENTS - 1])
        answers.append(forge(ben, group_id, number, "to those", *followed))
    with ben.store.transaction():
        ben.node.history.take(group_id, [each.raw for each in (*unknown, *answers)], ben.now)
    meet(ann, ben, seconds=int(4 * HISTORY_PULL_US / 1_000_000))
    assert ann.store.operations.held(group_id, answers[-1].id) is not None, "and for the others after that"


@pytest.mark.parametrize("bound", ["operations", "bytes", "relay"])
def test_an_answer_holds_so_much_and_says_how_much_more_there_is(
    make: Make, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    raws = [write_note(ann, group_id, f"note {number}").raw for number in range(5)]
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
    bundles = [OperationBundle.from_wire(read_message(raw, verify=False).body) for _, raw in history_waiting(ann, ben)]
    assert (list(bundles[-1].operations), bundles[-1].more) == (raws[:3], 2)


def test_a_pull_too_large_for_the_relay_is_not_answered(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    raw = write_note(ann, group_id, "more than the relay takes").raw
    waiting = history_waiting(ann, ben)
    ann.node.state.carriage.maximum_payload = bundle_payload_bytes(1, len(raw)) - 1
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.HISTORY_PULL, group_id, HistoryPull({}).to_wire(), ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    assert history_waiting(ann, ben) == waiting
    assert ann.store.counters.values()["pulls_too_large"] == 1


def test_a_pull_that_changes_nothing_is_not_answered(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    operation = write_note(ann, group_id, "one")
    carry(ann, ben)
    pull = HistoryPull({operation.log: 1}).to_wire()
    with ben.store.transaction():
        ben.node._queue.queue(ann.key, MessageType.HISTORY_PULL, group_id, pull, ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    assert history_waiting(ann, ben) == []


@pytest.mark.slow
def test_pulls_fill_no_outbox(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(40):
        write_note(ann, group_id, f"{number}" * 8_000)
    carry(ann, ben)
    for _ in range(200):
        with ben.store.transaction():
            ben.node._queue.queue(ann.key, MessageType.HISTORY_PULL, group_id, HistoryPull({}).to_wire(), ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    assert len(history_waiting(ann, ben)) <= 2


@pytest.mark.slow
def test_separated_members_end_with_one_history(make: Make) -> None:  # accepts: 003.01, 003.06, 003.30
    devices = ann, ben, cem, dan = [make(name) for name in ("ann", "ben", "cem", "dan")]
    group_id = found(*devices)
    for number in range(3):
        for side in ((ann, ben), (cem, dan)):
            write_note(side[number % 2], group_id, f"{side[0].name} {number}")
            maintain(*side)
    assert (
        read_notes(ann, group_id) == read_notes(ben, group_id) != read_notes(cem, group_id) == read_notes(dan, group_id)
    )
    maintain(*devices)
    maintain(*devices)
    assert {tuple(read_notes(each, group_id)) for each in devices} == {tuple(read_notes(ann, group_id))}
    assert len(read_notes(ann, group_id)) == 6
    joined = write_note(dan, group_id, "all of it")
    maintain(*devices)
    assert len(joined.parents) == 2
    assert {each.node.history.digest(group_id) for each in devices} == {ann.node.history.digest(group_id)}


def test_two_that_differ_on_both_sides_compare_their_logs_once(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    write_note(ann, group_id, "known")
    write_note(ben, group_id, "known, too")
    carry(ann, ben)
    written = [forge(device, group_id, 1, f"of {device.name}", life=7) for device in (ann, ben)]
    later = [
        forge(each, group_id, 2, f"more of {each.name}", one, life=7)
        for each, one in zip((ann, ben), written, strict=True)
    ]
    for device, own in ((ann, later[0]), (ben, later[1])):
        with device.store.transaction():
            device.node.history.take(group_id, [*(each.raw for each in written), own.raw], device.now)
    others = HistoryPull(dict(ben.store.operations.logs(group_id))).with_tags(bytes(8))
    send_as_it_is(ben, ann, group_id, MessageType.HISTORY_PULL, others.to_wire())
    assert sorted(read_notes(ann, group_id)) == sorted(read_notes(ben, group_id))
    assert {"more of ann", "more of ben"} <= set(read_notes(ann, group_id))
    more = forge(ben, group_id, 3, "most", later[1], life=7)
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
        [send] = ann.node.history.exchange.asking.ask_back(message, HistoryPull.from_wire(message.body), ann.now)
    asked = HistoryPull.from_wire(send.body).among(log for log, _ in ann.store.operations.logs(group_id))
    assert asked == HistoryPull({more.log: 2}, only=True), "of what it lacks alone"
    with ben.store.transaction():
        message = replace(message, body=send.body, author=ann.key, recipient=ben.key)
        assert ben.node.history.exchange.asking.ask_back(message, HistoryPull.from_wire(message.body), ben.now) == [], (
            "it has all that was named"
        )
        ben.wait(HISTORY_PULL_US / 1_000_000)
        further = replace(message, body=HistoryPull({more.log: 9}, only=True).with_tags(bytes(8)).to_wire())
        assert ben.node.history.exchange.asking.ask_back(further, HistoryPull.from_wire(further.body), ben.now) == [], (
            "nobody asks back who was asked back"
        )
        further = replace(message, body=HistoryPull({more.log: 9}).with_tags(bytes(8)).to_wire())
        assert (
            len(ben.node.history.exchange.asking.ask_back(further, HistoryPull.from_wire(further.body), ben.now)) == 1
        )


def test_a_device_that_left_neither_takes_nor_asks(make: Make) -> None:  # accepts: 003.52
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    write_note(ann, group_id, "before")
    carry(ann, ben)
    with ben.store.transaction():
        ben.node.actions.leave(group_id, ben.now)
    late = forge(ann, group_id, 1, "to who has left")
    with ann.store.transaction():
        ann.node._queue.queue(ben.key, MessageType.OPERATIONS, group_id, bundle_of(late), ann.now)
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)
    assert "to who has left" not in read_notes(ben, group_id)
    carry(ann, ben)
    ben.restart()
    ben.wait(90)
    ben.maintain()
    assert ben.sends() == [], "nor does it say anything of the group when it starts"


def test_a_device_stops_asking_once_an_operation_reveals_its_own_removal(make: Make) -> None:
    ann, ben, cat = make("ann"), make("ben"), make("cat")
    found(ben, ann)  # they go on meeting in this one
    group_id = GroupId(settled(cat, ann, ben))
    remove(cat, ann, group_id)
    carry(cat, ben)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(write_note(ben, group_id, "without ann")))
    cat.wait(60)  # what it sent before is lost
    carry(cat, ann)
    assert ann.node.groups.removed_from()
    maintain(ann)
    rows = ann.store.outbox.queued(ben.key, Place(0), 100, 1_000_000)
    assert MessageType.HISTORY_PULL not in {read_message(raw, verify=False).type for _, raw in rows}


@pytest.mark.slow
def test_a_running_catch_up_shows_its_source(make: Make) -> None:  # accepts: 003.57
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    for number in range(2 * BUNDLE_OPERATIONS + 10):
        write_note(ann, group_id, f"note {number}")
    for outgoing in ann.sends():
        ben.receive(outgoing.envelope)  # the first note
    maintain(ann)
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
    assert len(read_notes(ben, group_id)) == 2 * BUNDLE_OPERATIONS + 10


def test_waiting_operations_show_until_their_parents_arrive(make: Make) -> None:  # accepts: 003.57
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    withheld = forge(ben, group_id, 1, "withheld")
    orphan = forge(ben, group_id, 2, "of nothing", withheld)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(orphan))
    [catch_up] = ann.store.catching_up.of(group_id)
    assert (catch_up.member, catch_up.taken, catch_up.waiting, catch_up.more) == (ben.key, 0, 1, 0)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(withheld, orphan))
    assert ann.store.catching_up.of(group_id) == []


def test_an_operation_that_arrived_is_not_fetched_again(make: Make) -> None:  # accepts: 003.57
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    first = forge(ben, group_id, 1, "one")
    second = forge(ben, group_id, 2, "two", first)
    last = forge(ben, group_id, 3, "three", second)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, OperationBundle((first.raw,), 2).to_wire())
    send_as_it_is(cem, ann, group_id, MessageType.OPERATIONS, bundle_of(second))
    assert [(each.taken, each.more) for each in ann.store.catching_up.of(group_id)] == [(1, 1)]
    send_as_it_is(cem, ann, group_id, MessageType.OPERATIONS, bundle_of(last))
    assert ann.store.catching_up.of(group_id) == []
