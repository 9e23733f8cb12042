"""Extreme numbers in everything that a member may say: refused or taken, never more than a `RemoteError`'s worth."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covey.core.ids import Incarnation, LinkSeq
from covey.core.wire import cbor
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from tests.fleet import Device, found

extremes = st.sampled_from(
    [0, 1, 2, 3, 10_000, 10_001, 2**31, 2**32, 2**40 - 2, 2**40 - 1, 2**40, 2**53, 2**62, 2**63 - 2, 2**63 - 1]
)
ranges = st.lists(st.tuples(extremes, extremes).map(sorted), max_size=4)
budgets = st.tuples(extremes, st.integers(0, 2))
known = st.sampled_from([b"incarnat", b"earlier!", b"ann now!", b"ann then"])
keys = st.binary(min_size=32, max_size=32)
anything = st.recursive(
    st.one_of(extremes, known, keys, st.none(), st.booleans(), st.text(max_size=4)),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)
BODIES: dict[MessageType, st.SearchStrategy[Any]] = {
    MessageType.ACK: st.tuples(known, st.tuples(extremes, ranges)),
    MessageType.RESUME: ranges,
    MessageType.LOSS: st.one_of(
        st.tuples(st.integers(0, 5), ranges, ranges), st.tuples(st.integers(0, 5), ranges, ranges, known)
    ),
    MessageType.PRESENCE: st.one_of(
        st.tuples(extremes, st.integers(0, 3), extremes, st.lists(extremes, max_size=3)),
        st.tuples(
            *(extremes, st.just(3), st.integers(1, 691_200), st.just([])),
            st.fixed_dictionaries({1: st.one_of(anything, st.tuples(extremes, extremes, extremes, budgets))}),
        ),
    ),
    MessageType.GROUP_PULL: st.tuples(extremes),
    MessageType.GROUP_INVITE: st.tuples(keys, keys, extremes),
    MessageType.LINK: st.tuples(st.binary(min_size=16, max_size=16), keys),
    MessageType.TELEMETRY: st.tuples(extremes, anything),
}


class _World:
    """Ann was restored once; ben says what he likes."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.ben = Device("ann", folder, collects=True), Device("ben", folder)
        self.group_id = found(self.ann, self.ben)
        for incarnation in (b"ann then", b"ann now!"):
            self.ann.blob(self.group_id, b"waits")
            with self.ann.store.transaction():
                self.ann.store.incarnations.renew(Incarnation(incarnation))
        self.ann.blob(self.group_id, b"waits")

    def say(self, kind: MessageType, body: bytes, seq: int, link_seq: int, sent_at: int) -> None:
        group = self.group_id if kind in _OF_GROUPS else NO_GROUP
        message = write_message(
            self.ben.identity,
            kind,
            self.ann.key,
            group,
            Incarnation(b"incarnat"),
            seq,
            LinkSeq(link_seq),
            sent_at,
            body,
        )
        self.ann.receive(seal(message, self.ann.identity.noise_public, self.ben.rng(32), self.ben.rng(24)))


_OF_GROUPS = {MessageType.GROUP_PULL, MessageType.GROUP_INVITE, MessageType.TELEMETRY, MessageType.BLOB}


@pytest.fixture(scope="module")
def world() -> Iterator[_World]:
    with tempfile.TemporaryDirectory() as folder:
        yield _World(Path(folder))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data(), st.sampled_from(MessageType), extremes, extremes, extremes)
def test_no_number_ends_an_agent(
    world: _World, data: st.DataObject, kind: MessageType, seq: int, link_seq: int, sent_at: int
) -> None:
    body = data.draw(st.one_of(BODIES.get(kind, anything), anything))
    if kind in {MessageType.ACK, MessageType.RESUME, MessageType.PRESENCE}:
        seq = link_seq = 0
    world.say(kind, cbor.encode(body), seq, link_seq, sent_at)
    if world.ann.node.has_work(world.ann.now):
        with world.ann.store.transaction():
            world.ann.node.maintain(world.ann.now)
    world.ann.wait(1)
    world.ann.sends()
    world.ann.events()
