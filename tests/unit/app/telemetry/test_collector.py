"""`covey.app.telemetry.collector`: segments, and the crash after each step."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from covey.app.telemetry.collector import Collector
from covey.app.telemetry.node_keys import NodeKeys
from covey.core.now import Now
from covey.core.vault import documents
from covey.core.wire.message import read_message
from covey.errors import StorageError
from covey.limits.vault import SEGMENT_BYTES, SEGMENT_US
from tests.fleet import Device, carry
from tests.vault_keys import MemoryKeyFile
from tests.vault_site import KEY, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_sender_is_acknowledged_after_the_landing(site: Site) -> None:
    site.send(b"one", b"two")
    deadline = site.turn()
    assert deadline == site.gate.now.monotonic_us + SEGMENT_US
    carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 2
    assert site.turn(SEGMENT_US / 1e6) is None
    assert site.landed() == [b"one", b"two"]
    carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0
    assert site.gate.store.counters.values()["landed_messages"] == 2
    assert site.turn(10) is None
    assert len(site.objects.puts) == 2


def test_the_device_signature_is_in_the_vault(site: Site) -> None:
    site.send(b"one")
    site.land()
    assert site.landed() == [b"one"]  # `read_message` verifies


def test_a_segment_closes_by_size(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.app.telemetry.collector.SEGMENT_BYTES", 3_000)
    site.send(*(bytes([number]) * 800 for number in range(7)))
    assert site.turn() == site.gate.now.monotonic_us
    assert site.turn() == site.gate.now.monotonic_us + SEGMENT_US
    assert site.turn(SEGMENT_US / 1e6) is None
    manifest = site.manifest()
    assert manifest is not None
    assert [entry.records for entry in manifest.segments] == [3, 3, 2]  # the last one is the group manifest


def test_messages_left_after_a_landing_have_a_deadline(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.app.telemetry.collector.SEGMENT_BYTES", 3_000)
    site.send(*(bytes([number]) * 800 for number in range(4)))
    assert site.turn() == site.gate.now.monotonic_us + SEGMENT_US
    assert len(site.landed()) == 3


@pytest.mark.parametrize("refused", [".hxseg", ".hxman"])
@pytest.mark.parametrize("lies", [False, True])
def test_a_vault_that_refuses_delays_and_doubles_nothing(site: Site, refused: str, lies: bool) -> None:
    site.objects.refuses, site.objects.lies = (refused,), lies
    site.send(b"one")
    site.land()
    site.turn(10)
    site.turn(10)
    carry(site.ann, site.gate)
    seen_there = lies  # the store says no, and has it none the less
    assert site.ann.store.outbox.totals()[0] == (0 if seen_there else 1)
    assert len(site.said) == (2 if seen_there else 1)
    site.objects.refuses = ()
    site.send(b"two")
    site.turn(10)
    site.turn(10)
    assert site.landed() == [b"one", b"two"]
    assert site.said[-1] == "the vault accepts data again"
    carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0


@pytest.mark.parametrize(
    ("owner", "step"),
    [("store", 1), ("objects", 1), ("objects", 2), ("store", 2)],
    ids=["plan", "segment", "manifest", "finish"],
)
def test_a_crash_after_any_step_repeats_from_there(
    site: Site, owner: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.send(b"one")
    site.turn()
    with monkeypatch.context() as patched:
        if owner == "store":
            patched.setattr(site.gate.store, "transaction", _crashing(site.gate.store.transaction, step))
        else:
            put = site.objects.put
            crashing = _crashing(nullcontext, step)
            patched.setattr(site.objects, "put", lambda *object_: _within(crashing, lambda: put(*object_)))
        with pytest.raises(KeyboardInterrupt):
            site.turn(10)
    before = dict(site.objects.content)
    site.start()
    site.send(b"two")
    site.land()
    site.land()
    assert site.landed() == [b"one", b"two"]
    assert all(site.objects.content[key] == content for key, content in before.items() if key.endswith(".hxseg"))
    site.ann.wait(400)
    carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0


def test_a_listed_segment_that_is_not_there_is_put_again(site: Site) -> None:
    """A disk was mounted over the vault's folder between the two puts: the segment lies below it."""
    site.objects.refuses, site.objects.lies = (".hxman",), True
    site.send(b"one")
    site.land()
    (segment,) = [key for key in site.objects.content if key.endswith(".hxseg")]
    del site.objects.content[segment]
    site.objects.refuses = ()
    site.turn(10)
    assert site.landed() == [b"one"]
    carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0


def _crashing(
    context: Callable[[], AbstractContextManager[None]], step: int
) -> Callable[[], AbstractContextManager[None]]:
    """Return a context that ends well so many times, and the last time in a crash."""
    ended: list[int] = []

    @contextmanager
    def crashing() -> Iterator[None]:
        with context():
            yield
        ended.append(1)
        if len(ended) == step:
            raise KeyboardInterrupt

    return crashing


def _within(context: Callable[[], AbstractContextManager[None]], work: Callable[[], None]) -> None:
    with context():
        work()


def test_a_segment_is_never_older_than_what_it_holds(site: Site) -> None:
    site.send(b"one")
    arrived_us = site.gate.now.wall_us
    site.gate.now = Now(site.gate.now.monotonic_us, arrived_us - 3_600_000_000)  # somebody sets the clock back
    site.send(b"two")
    site.land()
    manifest = site.manifest()
    assert manifest is not None
    (entry,) = manifest.segments
    content = site.objects.content[documents.entry_key(KEY.vault_id, manifest.node_id, entry)]
    arrivals = [each.received_at_us for each in documents.open_segment(KEY, manifest.node_id, entry, content)]
    assert entry.created_at_us == max(arrivals) > arrivals[1] > site.gate.now.wall_us - 60_000_000


def test_a_vault_without_the_manifest_of_its_collector_is_another_folder(site: Site) -> None:
    site.send(b"one")
    site.land()
    site.objects.content = {}
    with pytest.raises(StorageError, match="lost"):
        site.start()


def test_an_agent_that_ends_lands_what_it_has(site: Site) -> None:
    site.send(b"one")
    site.collector.stop(site.gate.node, site.gate.now)
    assert site.landed() == [b"one"]
    site.collector.stop(site.gate.node, site.gate.now)
    assert len(site.objects.puts) == 2


def test_a_segment_is_smaller_than_what_a_reader_holds() -> None:
    assert SEGMENT_BYTES < 32 * 1024 * 1024


# accepts: 004.12, 004.13, 004.14
def test_two_collectors_with_one_identity_do_not_write_over_each_other(site: Site, tmp_path: Path) -> None:
    site.send(b"one")
    site.land()
    twin = tmp_path / "twin"
    twin.mkdir()
    shutil.copytree(tmp_path, twin, dirs_exist_ok=True, ignore=shutil.ignore_patterns("twin"))
    copy = Device("collector", twin, collects=True)
    keys = NodeKeys(copy.identity, MemoryKeyFile(KEY), copy.store, site.objects, copy.rng)
    rival = Collector(copy.identity, keys, copy.store, site.objects, copy.rng, SEGMENT_US, lambda *_line: None)
    site.send(b"two")
    with copy.store.transaction():
        for message in site.gate.store.landing.until(1_000):
            copy.store.landing.land(read_message(message.message), copy.now.wall_us)
    site.land()
    listed = site.manifest()
    for _ in range(3):
        copy.wait(10)
        rival.turn(copy.node, copy.now)
    assert site.manifest() == listed
    assert site.landed() == [b"one", b"two"]
