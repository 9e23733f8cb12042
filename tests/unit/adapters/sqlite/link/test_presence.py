"""Presence on real files: signs of life, and an outbox that the database itself adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import DeviceKey, Incarnation
from covey.core.link.queued import MessageClass
from covey.core.wire.sequences import SequenceSet
from covey.limits.units import MIB
from tests.examples import examples
from tests.fleet import Device, carry, found

BEN, CAT = DeviceKey(b"b" * 32), DeviceKey(b"c" * 32)
MINUTE_US = 60_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)))
    yield opened
    opened.close()


def test_a_sign_of_life_is_noted_once_a_minute(store: SqliteStore) -> None:
    noted = []
    for now_us in (MINUTE_US, 2 * MINUTE_US, 2 * MINUTE_US + 1, 5, 3 * MINUTE_US):  # 5: the clock was set back
        with store.transaction():
            store.presence.seen(BEN, now_us)
        noted.append(store.presence.last_seen()[BEN])
    assert noted == [MINUTE_US, MINUTE_US, 2 * MINUTE_US + 1, 5, 3 * MINUTE_US]
    assert store.presence.last_seen().keys() == {BEN}


def test_a_sign_of_life_within_the_minute_writes_nothing(store: SqliteStore) -> None:
    with store.transaction():
        store.presence.seen(BEN, MINUTE_US)
    before = store.connection.total_changes
    with store.transaction():
        store.presence.seen(BEN, MINUTE_US + 1)
    assert store.connection.total_changes == before


@pytest.mark.slow
@examples(60)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(
                st.just("queue"), st.sampled_from([BEN, CAT]), st.sampled_from(MessageClass), st.integers(1, 300)
            ),
            st.tuples(st.just("free"), st.sampled_from([BEN, CAT]), st.integers(1, 20), st.integers(0, 5)),
            st.tuples(st.just("withdraw"), st.sampled_from([BEN, CAT]), st.integers(1, 20), st.just(0)),
            st.tuples(st.just("room"), st.sampled_from([BEN, CAT]), st.just(MIB - 500), st.just(0)),
        ),
        max_size=40,
    )
)
def test_the_classes_add_up_whatever_happens(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    store = SqliteStore(
        tmp_path_factory.mktemp("classes") / "state.sqlite", Incarnation(b"incarnat"), StorageKey(bytes(32)), MIB
    )
    for verb, recipient, one, two in steps:
        with store.transaction():
            if verb == "queue":
                seq, link_seq = store.outbox.allocate(recipient)
                store.outbox.queue(recipient, seq, link_seq, one, bytes(two), 5)
            elif verb == "free":
                store.outbox.free(recipient, SequenceSet(one).add(one + two + 1, one + two + 1))
            elif verb == "withdraw":
                store.outbox.withdraw(recipient, one, "too_large", 5)
            else:
                store.outbox.make_room(recipient, one)
    counted = dict.fromkeys(MessageClass, 0)
    for recipient in store.outbox.recipients():
        for _, kind, size, _ in store.outbox.waiting(recipient, 1000):
            counted[MessageClass(kind)] += size
    assert store.outbox.bytes_by_class() == counted
    assert sum(counted.values()) == store.outbox.totals()[1]
    store.close()


def _received(device: Device) -> set[bytes]:
    return set(device.store.presence.last_seen())


def test_presence_records_seen_devices(tmp_path: Path) -> None:
    make: Callable[[str], Device] = lambda name: Device(name, tmp_path)  # noqa: E731
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    carry(ann, ben)
    assert (_received(ann), _received(ben)) == ({ben.key}, {ann.key})
    first = ann.store.presence.last_seen()[ben.key]
    for device in (ann, ben):
        device.compares_on_contact_only()
        device.wait(120)
    ann.blob(group_id, b"hello")
    [outgoing] = ann.sends()
    ben.receive(outgoing.envelope)
    after = ben.store.presence.last_seen()[ann.key]
    assert after == ben.now.wall_us
    ben.wait(120)
    ben.receive(outgoing.envelope)  # the relay has kept it: that is no sign of life
    assert ben.store.presence.last_seen()[ann.key] == after
    [acknowledgement] = ben.sends()
    ann.wait(120)
    ann.receive(acknowledgement.envelope)
    received = ann.store.presence.last_seen()[ben.key]
    assert received == ann.now.wall_us > first
    ann.wait(120)
    ann.receive(acknowledgement.envelope)
    assert ann.store.presence.last_seen()[ben.key] == received
