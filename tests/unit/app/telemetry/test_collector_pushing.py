"""`Collector.push`: a device lands its own telemetry, and its recipient's link goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.errors import StorageError
from covey.limits.link import MAXIMUM_SEQUENCE_GAP
from tests.fleet import carry
from tests.two_collectors import CHECK_S, World


class _CrashError(BaseException):
    """The process is gone."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.slow
def test_pushed_messages_leave_the_queue(world: World) -> None:
    world.publish(b"1", b"2", b"3")
    assert world.push(world.ann) == 3
    assert world.ann.store.outbox.totals()[0] == 0
    assert world.bodies(world.ann) == [b"1", b"2", b"3"]
    world.publish(b"4", b"5")
    world.pass_time(30 * CHECK_S, world.first, world.second)
    assert world.ann.store.outbox.totals()[0] == 0
    assert world.bodies(world.first) == [b"4", b"5"]
    assert world.bodies(world.ann, world.first) == [b"1", b"2", b"3", b"4", b"5"]
    assert world.losses() == 0
    links = dict(world.first.store.received.links(world.ann.key))
    assert links[world.ann.store.incarnations.present()].ranges == (), "a resumption has closed the gap"


def test_more_than_a_receiver_would_skip_can_be_pushed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.link.receiver.MAXIMUM_SEQUENCE_GAP", 10)
    assert MAXIMUM_SEQUENCE_GAP > 10
    world.publish(*(b"%d" % number for number in range(30)))
    assert world.push(world.ann) == 30
    world.publish(b"after")
    world.pass_time(30 * CHECK_S, world.first)
    assert world.bodies(world.first) == [b"after"]
    assert world.ann.store.outbox.totals()[0] == 0


def test_only_telemetry_is_pushed(world: World) -> None:
    world.publish(b"1")
    world.ann.blob(world.group_id, b"for everybody")
    before = world.ann.store.outbox.totals()[0]
    assert world.push(world.ann) == 1
    assert world.ann.store.outbox.totals()[0] == before - 1
    assert world.push(world.ann) == 0
    world.pass_time(CHECK_S, world.first, world.second, world.bob)
    assert world.first.inbox() == [b"for everybody"]


def test_a_reading_that_had_arrived_before_is_in_the_tables_once(world: World) -> None:
    world.publish(b"1", b"2")
    for outgoing in world.ann.sends():  # they arrive, and the acknowledgement is lost
        if outgoing.recipient == world.first.key:
            world.first.receive(outgoing.envelope)
    world.turn(world.first)
    world.publish(b"3")
    assert world.push(world.ann) == 3
    assert world.bodies(world.first) == [b"1", b"2"]
    assert world.bodies(world.ann) == [b"1", b"2", b"3"]
    assert world.bodies(world.ann, world.first) == [b"1", b"2", b"3"]


def test_a_vault_that_refuses_leaves_everything_queued(world: World) -> None:
    world.publish(b"1", b"2")
    world.objects.refuses = (".hxman",)
    with pytest.raises(StorageError):
        world.push(world.ann)
    assert world.ann.store.outbox.totals()[0] == 2
    world.pass_time(CHECK_S, world.first)
    world.objects.refuses = ()
    world.pass_time(10 * CHECK_S, world.first)
    assert world.ann.store.outbox.totals()[0] == 0, "the relay's way is open all the time"
    world.push(world.ann)
    assert world.bodies(world.ann, world.first) == [b"1", b"2"]


def test_a_large_queue_goes_in_several_segments(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.app.telemetry.collector.SEGMENT_BYTES", 3_000)
    bodies = [bytes([65 + number]) * 800 for number in range(10)]
    world.publish(*bodies)
    assert world.push(world.ann) == 10
    assert world.bodies(world.ann) == bodies
    assert world.ann.store.outbox.totals()[0] == 0


def test_a_redirected_message_is_pushed_as_it_was_signed(world: World) -> None:
    world.publish(b"1")
    world.remove(world.first, world.ann)
    world.pass_time(3 * CHECK_S)
    assert world.push(world.ann) == 1
    [message] = world.landed(world.ann)
    assert message.recipient == world.first.key


def test_a_collector_pushes_beside_its_own_landing(world: World) -> None:
    """Two processes of one device: what lands through one is found by the other."""
    target = world.second.node.groups.collector_of(world.group_id)
    assert target is not None
    pusher, other = (
        (world.second, world.first)
        if target.keys.signing_public == world.first.key
        else (
            world.first,
            world.second,
        )
    )
    with world.ann.store.transaction():
        world.ann.store.presence.set_silent_collector(other.key, 1)
    world.publish(b"from ann 1")
    world.pass_time(CHECK_S, pusher)
    pusher.batch(world.group_id, b"of its own")
    pushed = world.push(pusher)
    with world.ann.store.transaction():
        world.ann.store.presence.set_silent_collector(other.key, 1)
    world.publish(b"from ann 2")
    world.pass_time(10 * CHECK_S, pusher, other)
    assert world.ann.store.outbox.totals()[0] == 0
    assert pushed in {0, 1}
    everything = world.bodies(world.first, world.second)
    assert everything == [b"from ann 1", b"from ann 2", b"of its own"]


@pytest.mark.slow
def test_a_crash_after_any_step_loses_and_doubles_nothing(world: World) -> None:
    bodies: list[bytes] = []
    for step in range(8):
        more = [b"%d %d" % (step, number) for number in range(2)]
        bodies += more
        world.publish(*more)
        _crash_at(world, step)
        world.ann.restart()
        queued = world.ann.store.outbox.totals()[0]
        assert set(bodies) <= set(world.bodies(world.ann)) or queued >= 2, "it is somewhere, always"
        world.push(world.ann)
        assert world.ann.store.outbox.totals()[0] == 0
        assert world.bodies(world.ann) == sorted(bodies)
        assert len(world.landed(world.ann)) == len(bodies), "nothing is landed twice"
    carry(world.ann, world.first)


def _crash_at(world: World, step: int) -> None:
    """Push, and end the process after the given commit or put."""
    ended = 0

    def counted() -> None:
        nonlocal ended
        ended += 1
        if ended > step:
            raise _CrashError

    transaction, put = world.ann.store.transaction, world.objects.put

    @contextmanager
    def crashing() -> Iterator[None]:
        with transaction():
            yield
        counted()

    def crashing_put(key: str, content: bytes) -> None:
        put(key, content)
        counted()

    patched: list[tuple[object, str, Callable[..., object]]] = [
        (world.ann.store, "transaction", crashing),
        (world.objects, "put", crashing_put),
    ]
    for owner, name, replacement in patched:
        setattr(owner, name, replacement)
    try:
        world.push(world.ann)
    except _CrashError:
        pass
    finally:
        del world.ann.store.transaction
        del world.objects.put
