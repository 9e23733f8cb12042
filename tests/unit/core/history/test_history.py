"""What members write reaches the others, whoever was away, and whatever else is in the messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.events import EnvelopeDropped, HistoryForked, HistoryGrew
from covey.core.group.manifest import BOARD, Member, Mode
from covey.core.history.bodies import GroupProfile, Note
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.ids import GroupId, Incarnation, ManifestHash, OperationId, Place
from covey.core.link.queued import Lane
from covey.core.wire.message import MessageType
from covey.errors import LocalError, UnknownGroupError
from covey.limits.history import (
    BUNDLE_OPERATIONS,
    FORKS_OF_ONE,
    LOGS_OF_ONE,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_PARENTS,
    OWN_PAST_US,
)
from tests.fleet import Device, Make, admit, carry, found, identity, settled
from tests.unit.core.history.conduct import (
    bundle_of,
    forge,
    history_waiting,
    maintain,
    meet,
    read_notes,
    relabel,
    remove,
    send_as_it_is,
    write_note,
)


def test_a_note_reaches_every_member_and_its_author_sees_it(  # accepts: 003.02, 003.21, 003.23, 003.24
    make: Make,
) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    write_note(ann, group_id, "pump 3 rattles")
    carry(ann, ben, cem)
    assert read_notes(ann, group_id) == read_notes(ben, group_id) == read_notes(cem, group_id) == ["pump 3 rattles"]
    assert HistoryGrew(group_id, ann.key, 1) in ben.events()


@pytest.mark.slow
def test_an_author_in_a_losing_branch_continues_writing(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    carry(ann, ben, cem)
    remove(ann, ben, group_id)
    for label in ("pump", "pump 3"):
        relabel(ben, ben, label, group_id)
        carry(ben, cem)
    for text in ("it rattles", "it leaks"):
        write_note(cem, group_id, text)
    carry(ann, cem)
    group = cem.node.groups.group(group_id)
    assert group.raw
    assert group.version < max(each.version for each in cem.node.groups.trust(group_id).heads())
    write_note(cem, group_id, "it runs")
    carry(ann, cem)
    maintain(ann, cem)
    assert read_notes(ann, group_id) == ["it rattles", "it leaks", "it runs"]
    last = write_note(ann, group_id, "it stops")
    held = [ann.store.operations.held(group_id, each) for each in last.parents]
    assert [each.log.author for each in held if each is not None] == [ann.key], "not what names a later version"
    carry(ann, cem)
    maintain(ann, cem)
    assert read_notes(cem, group_id) == read_notes(ann, group_id)
    assert len(read_notes(cem, group_id)) == 4


def test_a_board_is_sent_nothing_of_a_history(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    board = Member(identity("board").keys, capabilities=(BOARD,))
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft.adding(board), ann.now)
    write_note(ann, group_id, "pump 3 rattles")
    assert history_waiting(ann, ben)
    key = board.keys.signing_public
    assert ann.store.outbox.queued(key, Place(0), 100, 2**40, lane=Lane.HISTORY) == []
    assert key not in {each.recipient for each in ann.sends()}


def test_notes_that_knew_nothing_of_each_other_stand_in_one_order_everywhere(make: Make) -> None:  # accepts: 003.22
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    write_note(ann, group_id, "one")
    carry(ann, ben, cem)
    for device in (ann, ben, cem):
        write_note(device, group_id, f"{device.name} at once")
    carry(ann, ben, cem)
    assert read_notes(ann, group_id) == read_notes(ben, group_id) == read_notes(cem, group_id)
    assert len(ann.store.operations.heads(group_id)) == 3
    last = write_note(ben, group_id, "after all")
    carry(ann, ben, cem)
    assert ann.store.operations.heads(group_id) == [last.id]
    assert read_notes(cem, group_id)[-1] == "after all"


@pytest.mark.slow
@pytest.mark.parametrize("heads", [MAXIMUM_PARENTS + 1, MAXIMUM_PARENTS + 3])
def test_more_heads_than_an_operation_may_follow_are_merged_first(make: Make, heads: int) -> None:  # accepts: 003.30
    devices = [make(f"device {number}") for number in range(heads)]
    group_id = GroupId(settled(*devices))
    for device in devices:
        write_note(device, group_id, device.name)
    carry(*devices)
    last = write_note(devices[0], group_id, "last")
    carry(*devices)
    assert len(last.parents) <= MAXIMUM_PARENTS
    assert {tuple(each.store.operations.heads(group_id)) for each in devices} == {(last.id,)}


def test_nobody_is_silenced_by_many_heads_that_are_lower_than_what_it_has_written(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(4):
        write_note(ann, group_id, f"note {number}")
    heads = [forge(ben, group_id, 1, "a head", life=number) for number in range(LOGS_OF_ONE)]
    heads += [forge(ben, group_id, 1, "a rival", life=number) for number in range(LOGS_OF_ONE)]
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(*heads))
    last = write_note(ann, group_id, "all this")
    assert ann.store.operations.heads(group_id) == [last.id]


def test_operations_of_a_later_version_are_followed_under_that_version(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    remove(ann, ben, group_id)
    for label in ("still", "here"):
        relabel(ben, ben, label, group_id)
    carry(ben, cem)
    unaware = write_note(cem, group_id, "about ben's last version")
    carry(cem, ben)
    with ann.store.transaction():
        manifests = tuple(cem.store.groups.manifests_from(group_id, 1))
        ann.node.history_import.take_manifests(group_id, manifests, ann.now)
        ann.node.history.take(group_id, [stored.raw for stored in cem.store.operations.in_order(group_id)], ann.now)
    held = ann.store.operations.held(group_id, unaware.id)
    assert held is not None
    assert held.manifest_version > ann.node.groups.group(group_id).version, "ben's versions count for nothing"
    assert unaware.id not in write_note(ann, group_id, "after the removal").parents
    relabel(ann, ann, "hub", group_id)
    last = write_note(ann, group_id, "all of it")
    assert ann.store.operations.heads(group_id) == [last.id], "the next version comes after those"


@pytest.mark.slow
def test_an_absent_member_costs_one_row(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for number in range(3 * BUNDLE_OPERATIONS):
        write_note(ann, group_id, f"note {number}")
    assert len(history_waiting(ann, ben)) == 1
    for _ in range(5):
        carry(ann, ben)
        maintain(ann, ben)
    assert len(read_notes(ben, group_id)) == 3 * BUNDLE_OPERATIONS
    assert read_notes(ben, group_id) == read_notes(ann, group_id)


def test_owed_operations_survive_a_restart(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    write_note(ann, group_id, "first")
    write_note(ann, group_id, "second")
    ann.restart()
    carry(ann, ben)
    assert read_notes(ben, group_id) == ["first"]
    maintain(ann, ben)
    assert read_notes(ben, group_id) == ["first", "second"]
    maintain(ann, ben)
    assert not ann.node.history.exchange.has_work(ann.now), "nothing is owed, and nothing is looked for"


def test_a_rule_breaking_operation_drops_nothing_else(make: Make) -> None:  # accepts: 003.26, 003.32
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    good = forge(ben, group_id, 1, "good")
    bad = forge(ben, group_id, 2, "bad", good, height=7)
    after = forge(ben, group_id, 3, "after it", bad)
    mine = forge(ben, group_id, 1, "another log", life=8)
    unknown = forge(ben, group_id, 2, "unknown kind", mine, life=8, kind=200)
    later = forge(ben, group_id, 3, "after the unknown kind", unknown, life=8)
    body = OperationBundle((*(each.raw for each in (good, bad, after, mine, unknown, later)), b"\x00")).to_wire()
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, body)
    assert sorted(read_notes(ann, group_id)) == ["after the unknown kind", "another log", "good"]
    assert ann.store.operations.raw(group_id, unknown.id) == unknown.raw
    dropped = [event.code for event in ann.events() if isinstance(event, EnvelopeDropped)]
    assert dropped == ["malformed"] * 2
    assert ann.store.quarantine.entries() == []


def describe(device: Device, group_id: GroupId, title: str) -> None:
    """Say what a group is called."""
    with device.store.transaction():
        device.node.history.write(group_id, GroupProfile(title), device.now)


def _rivals(author: Device, group_id: GroupId) -> list[Operation]:
    rivals = [forge(author, group_id, 1, f"rival {number}") for number in range(FORKS_OF_ONE + 1)]
    return sorted(rivals, key=lambda each: each.id)


def test_a_fork_is_kept_as_a_proof_and_no_third_rival_is(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = _rivals(ben, group_id)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(*rivals))
    assert len(read_notes(ann, group_id)) == FORKS_OF_ONE
    send_as_it_is(ben, cem, group_id, MessageType.OPERATIONS, bundle_of(rivals[-1]))
    answer = write_note(cem, group_id, "to that")  # whoever follows the third one makes it wanted
    carry(cem, ann, ben)
    assert answer.id in ann.store.operations.heads(group_id)
    assert len(read_notes(ann, group_id)) == FORKS_OF_ONE + 2


def test_of_rivals_the_lowest_are_kept_in_whatever_order_they_come(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = _rivals(ben, group_id)
    for device, order in ((ann, rivals), (cem, rivals[::-1])):
        for each in order:
            send_as_it_is(ben, device, group_id, MessageType.OPERATIONS, bundle_of(each))
        assert sorted(device.store.operations.heads(group_id)) == [each.id for each in rivals[:FORKS_OF_ONE]]


def test_an_operation_that_builds_on_a_third_rival_makes_the_device_request_it(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    rivals = _rivals(ben, group_id)
    own = forge(ben, group_id, 2, "its author's own word for it", rivals[-1])
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(*rivals[:-1]))
    send_as_it_is(ben, cem, group_id, MessageType.OPERATIONS, bundle_of(rivals[-1], own))
    answer = write_note(cem, group_id, "to that")
    send_as_it_is(cem, ann, group_id, MessageType.OPERATIONS, bundle_of(rivals[-1], own, answer))
    assert len(read_notes(ann, group_id)) == FORKS_OF_ONE + 3


def test_the_history_of_a_group_goes_with_it(make: Make) -> None:  # accepts: 003.51
    ann = make("ann")
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us).group_id
    write_note(ann, group_id, "alone")
    with ann.store.transaction():
        ann.node.actions.leave(group_id, ann.now)
    assert ann.store.operations.in_order(group_id) == []
    with pytest.raises(UnknownGroupError):
        write_note(ann, group_id, "once more")


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


def test_a_description_is_an_admins_where_there_are_admins(make: Make) -> None:  # accepts: 003.60
    ann, ben = make("ann"), make("ben")
    with ann.store.transaction():
        created = ann.node.membership.create("ann", (), ann.now.wall_us, Mode.ADMIN_INVITES)
    group_id = created.group_id
    admit(ann, ben, group_id)
    profile = GroupProfile("mine")
    with pytest.raises(LocalError, match="by a member that is not an admin"), ben.store.transaction():
        ben.node.history.write(group_id, profile, ben.now)
    forged = forge(ben, group_id, 1, "")
    forged = sign_operation(replace(forged, kind=int(profile.kind), body=profile.to_wire()), ben.identity)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(forged))
    assert [event.code for event in ann.events() if isinstance(event, EnvelopeDropped)] == ["not_allowed"]
    assert ann.node.history.profile(group_id).title == ""


def test_an_operation_too_large_is_refused_unwritten(make: Make) -> None:  # accepts: 003.27, 003.60
    ann = make("ann")
    with ann.store.transaction():
        group_id = ann.node.membership.create("ann", (), ann.now.wall_us).group_id
    with pytest.raises(LocalError, match="at most 65536 bytes"):
        write_note(ann, group_id, "x" * MAXIMUM_OPERATION_BODY_BYTES)
    assert ann.store.operations.heads(group_id) == []


def test_an_operation_of_another_group_or_manifest_is_refused(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id, other = found(ann, ben), found(ben, ann)
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(forge(ben, other, 1, "of the other group")))
    nowhere = Operation(
        group_id, Log(ben.key, Incarnation(bytes(8))), 1, None, (), 1, ManifestHash(bytes(32)), 0, 1, b"\x80"
    )
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(sign_operation(nowhere, ben.identity)))
    assert ann.store.operations.in_order(group_id) == []
    assert ann.store.operations.in_order(other) == [], "nor into the other group's history"
    assert ann.store.operations.held(group_id, OperationId(bytes(32))) is None


def test_a_fork_is_reported_when_it_comes_and_not_again(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    one, other = forge(ben, group_id, 1, "one"), forge(ben, group_id, 1, "other")
    send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(one))
    assert not [each for each in ann.events() if isinstance(each, HistoryForked)]
    for _ in range(2):
        send_as_it_is(ben, ann, group_id, MessageType.OPERATIONS, bundle_of(one, other))
    assert [each for each in ann.events() if isinstance(each, HistoryForked)] == [HistoryForked(group_id, ben.key)]
    assert ann.store.operations.forks(group_id) == {ben.key: 1}


@pytest.mark.parametrize("payload", [1_800, 3_000, 10_240, 65_000])
def test_an_operation_that_no_relay_carries_is_refused(make: Make, payload: int) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    write_note(ann, group_id, "before")
    carry(ann, ben)
    ann.node.state.carriage.maximum_payload = payload
    with pytest.raises(LocalError, match=r"no relay of this device accepts \d+ bytes \(at most (\d+)\)") as refused:
        write_note(ann, group_id, "n" * min(payload, MAXIMUM_OPERATION_BODY_BYTES - 100))
    most = int(str(refused.value).split("at most ")[1].split(")")[0])
    longest = "n" * (most - len(Note("text/plain", b"").to_wire()) - 4)  # a byte string says its own length
    write_note(ann, group_id, longest)
    write_note(ann, group_id, "after")
    for outgoing in ann.sends():
        assert len(outgoing.envelope) <= payload
        ben.receive(outgoing.envelope)
    carry(ann, ben)  # its acknowledgement
    maintain(ann, ben)
    assert read_notes(ben, group_id) == ["before", longest, "after"]


@pytest.mark.slow
@pytest.mark.parametrize("sends_all", [True, False])
def test_a_readmitted_author_writes_after_what_it_wrote_before(make: Make, sends_all: bool) -> None:
    """Its new description is below the old one, which holds otherwise: of rivals the higher one does."""
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    for title in ("draft", "old"):
        describe(ben, group_id, title)
    meet(ann, ben, cem, seconds=900)
    remove(ann, ben, group_id)
    carry(ann, ben, cem)
    admit(ann, ben, group_id)
    with pytest.raises(LocalError, match="its own earlier entries have not arrived yet"):
        describe(ben, group_id, "new")
    if sends_all:
        meet(ann, ben, cem, seconds=900)
    else:  # perhaps nobody has any of it
        ben.store.outbox.grow_older(OWN_PAST_US)
    describe(ben, group_id, "new")
    meet(ann, ben, cem, seconds=900)
    assert {each.node.history.profile(group_id).title for each in (ann, ben, cem)} == {"new" if sends_all else "old"}


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
def test_a_readmitted_author_begins_another_log(make: Make, times: int) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    texts = ["first"]
    write_note(ben, group_id, "first")
    carry(ann, ben, cem)
    for time in range(times):
        remove(ann, ben, group_id)
        carry(ann, ben, cem)
        admit(ann, ben, group_id)
        ben.store.outbox.grow_older(OWN_PAST_US)
        texts += [f"back {time}", f"still here {time}"]
        write_note(ben, group_id, texts[-2])  # before anything of the history has come
        write_note(ben, group_id, texts[-1])
        carry(ann, ben, cem)
        maintain(ann, ben, cem)
    meet(ann, ben, cem, seconds=900)
    assert all(each.store.operations.forks(group_id) == {} for each in (ann, ben, cem))
    assert sorted(read_notes(ann, group_id)) == sorted(texts)
    assert sorted(read_notes(ben, group_id)) == sorted(texts), "its own past comes from the others"
