"""Who is out of a group answers what others of it still owe it: the news of its removal, and what comes with that."""

from __future__ import annotations

import pytest

from covey.core.group.manifest import Mode
from covey.core.group.messages import GroupSend, pull_to_wire
from covey.core.history.bodies import Note
from covey.core.ids import GroupId, Place
from covey.core.pairing.uri import GroupUri
from covey.core.wire.message import MessageType, read_message
from tests.fleet import Device, Make, admit, carry, found


def _later(device: Device, microseconds: int) -> None:
    device.wait(microseconds / 1e6)
    device.maintain()


def _remove(remover: Device, target: Device, group_id: GroupId) -> None:
    with remover.store.transaction():
        remover.node.actions.change(group_id, lambda draft, epoch: draft.removing(target.key, epoch), remover.now)


def _waiting(device: Device, recipient: Device) -> list[MessageType]:
    rows = device.store.outbox.queued(recipient.key, Place(0), 100, 10_000_000)
    return [read_message(raw, verify=False).type for _, raw in rows]


def _quieten(*devices: Device, turns: int = 8) -> None:
    for _ in range(turns):
        for device in devices:
            _later(device, 60_000_000)
        carry(*devices)


def _remove_amid_a_conflict(
    group_id: GroupId, ann: Device, ben: Device, cid: Device, mal: Device
) -> tuple[Device, Device]:
    """Let two remove each other while a third removes mal; return whom of the two it takes to be in, and out."""
    _remove(ann, ben, group_id)
    _remove(ben, ann, group_id)
    _remove(cid, mal, group_id)
    for issuer in (ann, ben, cid):
        for outgoing in issuer.sends():
            if outgoing.recipient == mal.key:
                mal.receive(outgoing.envelope)
    [believed] = mal.node.groups.removed_from()
    wrong, right = (ann, ben) if believed.member(ann.key) else (ben, ann)
    assert believed.member(right.key) is None
    return wrong, right


@pytest.mark.slow
def test_a_device_removed_during_a_conflict_answers_devices_that_it_believes_removed(make: Make) -> None:
    """How the conflict ended nobody tells it: of two that removed each other it believes in the wrong one."""
    ann, ben, cid, mal = make("ann"), make("ben"), make("cid"), make("mal")
    group_id = found(ann, ben, cid, mal)
    carry(ann, ben, cid, mal)
    for device in (ann, ben):
        device.blob(group_id, b"never comes")
        device.sends()
    wrong, right = _remove_amid_a_conflict(group_id, ann, ben, cid, mal)
    _remove(cid, wrong, group_id)
    carry(cid, right)
    assert {member.keys.signing_public for member in right.node.groups.group(group_id).members} == {cid.key, right.key}
    assert _waiting(right, mal) == [MessageType.GROUP_MANIFEST, MessageType.LOSS]
    _quieten(ann, ben, cid, mal)
    assert _waiting(right, mal) == []


def test_a_former_member_answers_devices_that_it_believes_removed_without_a_notice(make: Make) -> None:
    """Each was removed by another at once, and ben does not know it; word of a loss makes its author no visitor."""
    ann, ben, cid, mal = make("ann"), make("ben"), make("cid"), make("mal")
    group_id = found(ann, ben, cid, mal)
    carry(ann, ben, cid, mal)
    _remove(cid, mal, group_id)
    _remove(ann, ben, group_id)
    for issuer in (cid, ann):
        for outgoing in issuer.sends():
            if outgoing.recipient == mal.key:
                mal.receive(outgoing.envelope)
    assert mal.node.groups.address(ben.key) is None
    ben.blob(group_id, b"too large for any relay")
    [(place, _)] = ben.store.outbox.queued(mal.key, Place(0), 100, 10_000_000)
    with ben.store.transaction():
        ben.node.withdraw(mal.key, place, ben.now)
    assert _waiting(ben, mal) == [MessageType.LOSS]
    carry(ben, mal)
    assert _waiting(ben, mal) == []


@pytest.mark.parametrize("shares_another", [False, True])
def test_a_teller_removed_meanwhile_is_answered(make: Make, *, shares_another: bool) -> None:
    """The first acknowledgement is lost; by what the sleeper holds, who told it is a stranger to the group by then."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    if shares_another:
        found(ben, mal)
    carry(ann, ben, mal)
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.banning(ben.key, epoch), ann.now)
    carry(ann, ben)
    _remove(ann, mal, group_id)
    ann.sends()
    with ann.store.transaction():
        ann.node.actions.unban(group_id, ben.key, ann.now)
    carry(ann, ben)
    assert ben.node.groups.group(group_id).member(ben.key) is not None
    for _ in range(40):  # ann is gone
        for device in (ben, mal):
            _later(device, 60_000_000)
        for sender, receiver in ((mal, ben), (ben, mal)):
            for outgoing in sender.sends():
                if outgoing.recipient == receiver.key:
                    receiver.receive(outgoing.envelope)
        if all(group.group_id != group_id for group in mal.node.groups.joined()):
            break
    mal.wait(1)
    mal.sends()  # which is lost
    _later(mal, 1_200_000_000)  # and its own patience with that address is over
    _quieten(ben, mal)
    assert all(group.group_id != group_id for group in mal.node.groups.joined())
    assert _waiting(ben, mal) == []


def test_a_late_repeated_departure_is_answered(make: Make) -> None:
    """Its notice went home, the acknowledgement did not, and nobody owes it anything any more."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    carry(ann, ben, mal)
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    for outgoing in mal.sends():
        if outgoing.recipient == ben.key:
            ben.receive(outgoing.envelope)
    ben.wait(1)
    ben.sends()  # which is lost
    _later(ben, 1_200_000_000)
    assert ben.node.groups.address(mal.key) is None
    _quieten(ben, mal)
    assert _waiting(mal, ben) == []


def test_a_request_for_manifests_does_not_wait_for_who_is_out(make: Make) -> None:
    """Whoever is out itself by what it holds takes none of its former members."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    carry(ann, ben, cid)
    with ben.store.transaction():
        ask = GroupSend(ann.key, MessageType.GROUP_PULL, group_id, pull_to_wire(1))
        ben.node.actions.queue_sends([ask], ben.now)
    assert _waiting(ben, ann) == [MessageType.GROUP_PULL]
    _remove(ben, ann, group_id)
    assert MessageType.GROUP_PULL not in _waiting(ben, ann)


def test_a_device_that_left_is_owed_no_loss_record(make: Make) -> None:
    """It forgets the group as soon as all know that it has left: then it can answer nobody."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    carry(ann, ben, mal)
    ben.blob(group_id, b"never comes")
    ben.sends()
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    for outgoing in mal.sends():
        {ann.key: ann, ben.key: ben}[outgoing.recipient].receive(outgoing.envelope)
    for device in (ann, ben):
        device.wait(1)
        for outgoing in device.sends():
            if outgoing.recipient == mal.key and outgoing.entry is None:
                mal.receive(outgoing.envelope)  # the acknowledgement comes, the rest is lost on its way
    _later(mal, 600_000_000)
    assert mal.store.groups.manifests() == []
    _quieten(ann, ben, mal)
    assert _waiting(ben, mal) == []


@pytest.mark.slow
def test_a_member_of_one_group_learns_of_its_removal_from_another(make: Make) -> None:
    """Of the one group, which both are out of, mal knows no address to tell it at."""
    ann, ben, cid, dan, mal = (make(name) for name in ("ann", "ben", "cid", "dan", "mal"))
    group_id, other = found(ann, ben, cid, mal), found(dan, ann, ben, mal)
    carry(ann, ben, cid, dan, mal)
    _, right = _remove_amid_a_conflict(group_id, ann, ben, cid, mal)
    _remove(dan, right, other)
    carry(dan, mal)
    _later(mal, 1_200_000_000)
    assert mal.node.groups.address(right.key) is None
    assert any(group.group_id == other for group in right.node.groups.joined())
    _quieten(right, mal, turns=60)  # dan is gone
    assert all(group.group_id != other for group in right.node.groups.joined())


@pytest.mark.slow
def test_an_author_in_an_outdated_group_is_answered_as_a_visitor(make: Make) -> None:
    """It lets itself into a public group of who is out of another one together with it."""
    ann, ben, cid, mal = make("ann"), make("ben"), make("cid"), make("mal")
    group_id = found(ann, ben, cid, mal)
    carry(ann, ben, cid, mal)
    _, right = _remove_amid_a_conflict(group_id, ann, ben, cid, mal)
    _later(mal, 1_200_000_000)
    assert mal.node.groups.hears(right.key)
    with mal.store.transaction():
        public = mal.node.membership.create("mal", (), mal.now.wall_us, Mode.PUBLIC).group_id
    with right.store.transaction():
        uri = GroupUri(public, (mal.identity.keys,), "")
        right.node.actions.request_visit(uri, right.name, right.now)
    _quieten(right, mal)
    assert right.node.groups.group(public).member(right.key) is not None


def test_a_request_to_join_outlives_that_its_inviter_leaves_another_group(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    carry(ann, ben, mal)
    with mal.store.transaction():
        further = mal.node.membership.create("mal", (), mal.now.wall_us).group_id
        invite = mal.node.joining.invite(further, (), "mqtt://fleet", mal.now.wall_us)
    with ben.store.transaction():
        ben.node.actions.request_join(invite, "ben", ben.now)
    ben.sends()  # and it is lost
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    for outgoing in mal.sends():
        if outgoing.recipient == ben.key:
            ben.receive(outgoing.envelope)
    assert ben.node.groups.shares_nothing_with(mal.key)
    _quieten(ben, mal)
    assert ben.node.groups.group(further).member(ben.key) is not None


@pytest.mark.slow
def test_messages_for_members_end_once_they_know_of_the_departure(make: Make) -> None:
    """It said something just before; its notice came first, and nobody takes the rest. All of the group is erased."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    carry(ann, ben, mal)
    mal.blob(group_id, b"too late")
    mal.sends()  # and it is lost
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    _quieten(ann, ben, mal, turns=25)
    assert (_waiting(mal, ann), _waiting(mal, ben)) == ([], [])
    assert mal.store.groups.manifests() == []
    assert mal.store.departures.addresses() == []


@pytest.mark.slow
def test_messages_for_members_end_although_another_group_is_shared(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    carry(ann, ben, mal)
    with mal.store.transaction():
        mal.node.history.write(group_id, Note("text/plain", b"too late"), mal.now)
    mal.sends()  # and it is lost
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    other = found(ann, mal)
    _quieten(ann, ben, mal, turns=25)
    assert mal.node.groups.group(other).member(ann.key) is not None
    assert (_waiting(mal, ann), _waiting(mal, ben)) == ([], [])
    assert [group_id for group_id, _, _ in mal.store.groups.manifests()] == [other]


@pytest.mark.slow
def test_a_device_that_is_behind_asks_listed_members_even_with_messages_waiting(make: Make) -> None:
    """The other was removed by a life that is gone: it takes nothing of what waits, and alone knows of that."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id, other = found(ann, ben, cid), found(ann, cid)
    carry(ann, ben, cid)
    _remove(ben, cid, group_id)
    for outgoing in ben.sends():
        if outgoing.recipient == cid.key:
            cid.receive(outgoing.envelope)
    assert [group.group_id for group in cid.node.groups.joined()] == [other]
    with ann.store.transaction():
        vote = GroupSend(cid.key, MessageType.GROUP_VOTE, group_id, b"only a member takes it")
        ann.node.actions.queue_sends([vote], ann.now)
    _quieten(ann, cid, turns=40)  # ben is gone
    assert ann.node.groups.group(group_id).member(cid.key) is None
    assert _waiting(ann, cid) == []


def test_each_departure_notice_is_answered(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    carry(ann, ben, mal)
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    for outgoing in mal.sends():
        if outgoing.recipient == ann.key:
            ann.receive(outgoing.envelope)
    _quieten(ann, ben, turns=20)
    assert ben.node.groups.group(group_id).member(mal.key) is None
    _quieten(ann, ben, mal, turns=25)
    assert _waiting(mal, ben) == []
    assert mal.store.groups.manifests() == []


@pytest.mark.slow
def test_a_departure_from_a_lost_group_is_answered_in_a_shared_one(make: Make) -> None:
    """Nobody else is left who could know of the leaving: its secrets and its words waited there for a month."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    pair, club = found(ann, ben), found(cid, ann, ben)
    carry(ann, ben, cid)
    ben.return_to(None)
    admit(cid, ben, club, ann)
    with ann.store.transaction():
        ann.node.history.write(pair, Note("text/plain", b"said to nobody"), ann.now)
        ann.node.actions.leave(pair, ann.now)
    _quieten(ann, ben, cid, turns=25)
    assert ann.store.groups.manifests_from(pair, 1) == []
    assert not ann.store.operations.heads(pair)
    assert _waiting(ann, ben) == []
    assert ben.store.groups.manifests_from(pair, 1) == []
    assert ben.store.quarantine.entries() == [], "there is nothing that a person could do about it"


@pytest.mark.slow
def test_a_joiner_hears_of_departures_meanwhile(make: Make) -> None:
    """What comes before the answer goes again: nobody else may be left who could tell of it."""
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    pair, _ = found(ann), found(cid, ann, ben)
    with ann.store.transaction():
        invite = ann.node.joining.invite(pair, (), "mqtt://fleet", ann.now.wall_us)
    with ben.store.transaction():
        ben.node.actions.request_join(invite, "ben", ben.now)
    for outgoing in ben.sends():
        ann.receive(outgoing.envelope)
    with ann.store.transaction():
        ann.node.actions.leave(pair, ann.now)
    answers = [each for each in ann.sends() if each.recipient == ben.key]
    for outgoing in answers[::-1]:  # the last thing said comes first
        ben.receive(outgoing.envelope)
    _quieten(ann, ben, cid)
    assert [member.keys.signing_public for member in ben.node.groups.group(pair).members] == [ben.key]


def test_a_group_is_erased_by_who_has_left_though_others_have_gone_on_from_that(make: Make) -> None:
    """Somebody was let in meanwhile; who brings both together tells the one that has left as well."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, mal)
    admit(ann, ben, group_id)  # mal does not hear of it
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    for outgoing in mal.sends():
        ann.receive(outgoing.envelope)
    with ann.store.transaction():
        ann.node.actions.leave(group_id, ann.now)
    for outgoing in ann.sends():
        if outgoing.recipient == mal.key:
            mal.receive(outgoing.envelope)
    [known] = mal.node.groups.removed_from()
    assert known.issuer == ann.key, "and it follows the leaving of mal"
    _quieten(ann, ben, mal, turns=25)
    assert mal.store.groups.manifests() == []
    assert mal.store.database.run("SELECT count(*) FROM epoch_secret") == [(0,)]


def test_two_that_leave_at_once_are_both_known_to_have_left(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, ben, cid)
    carry(ann, ben, cid)
    for each in (ben, cid):
        with each.store.transaction():
            each.node.actions.leave(group_id, each.now)
    carry(ben, cid)  # ann is away
    for each in (ben, cid):
        each.wait(600)
        each.maintain()
    carry(ann, ben, cid)
    assert [member.keys.signing_public for member in ann.node.groups.group(group_id).members] == [ann.key]


def test_a_readmitted_and_removed_device_has_not_left(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    carry(ann, ben, mal)
    with mal.store.transaction():
        mal.node.actions.leave(group_id, mal.now)
    carry(ann, ben, mal)
    assert mal.node.groups.left()
    admit(ann, mal, group_id, ben)
    _remove(ann, mal, group_id)
    carry(ann, ben, mal)
    assert [group.group_id for group in mal.node.groups.removed_from()] == [group_id]
    assert mal.node.groups.left() == []
