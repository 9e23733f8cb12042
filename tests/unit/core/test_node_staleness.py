"""What a member does that has not heard of a change yet, and when it has (source document 001)."""

from __future__ import annotations

from itertools import pairwise

from covey.core.wire.envelope import read_envelope
from covey.core.wire.message import read_message
from tests.fleet import Make, admit, carry, found


def test_membership_starts_when_the_update_arrives(make: Make) -> None:  # accepts: 001.08, 001.10
    ann, ben, dan = make("ann"), make("ben"), make("dan")
    group_id = found(ann, ben)
    admit(ann, dan, group_id)  # ben is away
    assert dan.node.groups.group(group_id).member(ben.key)
    ben.blob(group_id, b"not for the new one")
    assert {outgoing.recipient for outgoing in ben.sends()} == {ann.key}
    dan.blob(group_id, b"from the new one")
    for outgoing in dan.sends():
        if outgoing.recipient == ben.key:
            ben.receive(outgoing.envelope)
    assert ben.inbox() == []
    assert ben.store.counters.values()["dropped_not_a_member"] == 1
    for device in (ann, ben, dan):
        device.wait(300)
    carry(ann, ben, dan)
    for device in (ann, ben, dan):
        device.wait(300)
    carry(ann, ben, dan)
    assert ben.node.groups.group(group_id).member(dan.key)
    assert ben.inbox() == [b"from the new one"]
    ben.blob(group_id, b"for both")
    carry(ann, ben, dan)
    assert dan.inbox() == [b"for both"]


def test_a_stale_member_does_not_filter_who_was_removed_until_it_hears(make: Make) -> None:  # accepts: 001.11, 001.12
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(cem.key, epoch), ann.now)
    news = [outgoing.envelope for outgoing in ann.sends() if outgoing.recipient == ben.key]
    cem.blob(group_id, b"one")
    cem.blob(group_id, b"two")
    first, second = [outgoing.envelope for outgoing in cem.sends() if outgoing.recipient == ben.key]
    ben.receive(first)
    for envelope in news:
        ben.receive(envelope)
    ben.receive(second)
    assert ben.inbox() == [b"one"]
    assert ben.store.counters.values()["dropped_not_a_member"] == 1


def test_the_devices_sequence_has_gaps_that_mean_nothing(make: Make) -> None:  # accepts: 001.13, 001.15
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    for number in range(3):
        ann.blob(group_id, b"%d" % number)
    messages = [
        read_message(read_envelope(outgoing.envelope).open(ben.identity.noise_secret))
        for outgoing in ann.sends()
        if outgoing.recipient == ben.key
    ]
    assert [later.seq - earlier.seq for earlier, later in pairwise(messages)] == [2, 2]
    assert [later.link_seq - earlier.link_seq for earlier, later in pairwise(messages)] == [1, 1]
    ann.wait(300)
    carry(ann, ben, cem)
    assert ben.inbox() == [b"0", b"1", b"2"]
    assert "lost_messages" not in ben.store.counters.values()


def test_object_names_are_visible_to_peers_only(make: Make) -> None:  # accepts: 001.14
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    ann.blob(group_id, b"object-17: hello")
    [outgoing] = ann.sends()
    assert b"object-17" not in outgoing.envelope
    assert outgoing.topic == f"covey/1/in/{ben.key[:16].hex()}"
    ben.receive(outgoing.envelope)
    assert ben.inbox() == [b"object-17: hello"]
