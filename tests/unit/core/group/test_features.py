"""`covey.core.group.features`: what devices announce, and what that says of an order's targets."""

from __future__ import annotations

import cbor2

from covey.core.group.features import Feature, feature_words, lacks, own_announcement
from covey.core.group.manifest import Member
from tests.fleet import Make, found, identity


def _member(extensions: bytes) -> Member:
    return Member(identity("ann").keys, extensions=extensions)


def test_founders_and_joiners_announce_their_features(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for device in (ann, ben):
        members = device.node.groups.group(group_id).members
        assert [member.features for member in members] == [frozenset(Feature)] * 2
        assert [member.known_rules for member in members] == [1, 1]


def test_a_device_lacks_what_it_does_not_announce_among_others() -> None:
    sensor = _member(cbor2.dumps({1: [int(Feature.HISTORY)]}))
    assert lacks(sensor, Feature.COMMANDS)
    assert not lacks(sensor, Feature.HISTORY)
    assert not lacks(_member(b""), Feature.COMMANDS), "one that announces nothing may support everything"
    assert not lacks(_member(own_announcement()), Feature.COMMANDS)


def test_features_of_newer_devices_are_shown_by_number() -> None:
    assert feature_words(_member(cbor2.dumps({1: [1, 77]}))) == ["history", "77"]
