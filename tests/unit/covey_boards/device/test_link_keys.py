"""A board's link keys: begun, used, ended, and never a reading less for it. The collector sees to their rules, too."""

from __future__ import annotations

import pytest

from covey.limits import link_key as limits
from covey_boards.device.identity import Identity
from covey_boards.device.link_keys import LinkKeys
from covey_boards.device.outbox import Entry
from covey_boards.shared import cbor, messages
from covey_boards.shared import tweetnacl as nacl
from hil.on_board import firmware_simulation as simulation
from hil.on_board.firmware_simulation import LINKED, SEALED

QUICK = {"interval_us": 500_000, "batch_us": 1_000_000}
AFTER = limits.LINK_AFTER_ENVELOPES
_KEY_US = 3_600_000_000
"""How long a board uses a key: an hour."""
_TAG, _KEY = b"t" * 8, b"k" * 32


@pytest.fixture(autouse=True)
def _random_source() -> object:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


class World(simulation.World):
    """A board that soon has much to say."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, **QUICK)

    @property
    def versions(self) -> list[int]:
        return list(self.collector.versions)

    def until_linked(self, more: int = 0, seconds: float = 60) -> None:
        """Let so many link envelopes more than now arrive."""
        wanted = self.versions.count(LINKED) + 1 + more
        self.run(seconds, lambda: self.versions.count(LINKED) >= wanted)
        assert self.versions.count(LINKED) >= wanted

    def send(self, kind: int, number: int, body: bytes) -> None:
        """Send a message down from the collector."""
        board, author = self.collector.board, self.collector.identity
        numbers = (b"collects", number, number, 0)
        raw = messages.write_message(author, kind, board.signing_public, simulation.GROUP, *numbers, body)
        envelope = messages.seal(raw, board.noise_public, bytes([number]) * 32, bytes(24))
        self.gateway.link.send(messages.to_line(messages.DELIVER, envelope))

    def all_is_there(self) -> bool:
        self.settle()
        return bool(self.collector.values() == list(range(1, self.sensor.count + 1)))


@pytest.fixture
def linked() -> World:
    """Give a world whose board uses a link key."""
    world = World(31)
    world.until_linked(more=2)
    return world


def test_a_key_is_given_after_the_eighth_envelope_and_used_when_it_is_acknowledged(linked: World) -> None:
    assert linked.versions[: AFTER + 2] == [SEALED] * (AFTER + 1) + [LINKED]
    [taken] = linked.collector.links.values()
    assert [number for number in taken if taken[number][0] == messages.LINK] == [AFTER + 1]
    linked.until_linked(more=5)
    assert set(linked.versions[AFTER + 1 :]) == {LINKED}
    assert linked.all_is_there()


def test_no_key_is_used_before_the_acknowledgement() -> None:
    world = World(32)
    acknowledge = world.collector.acknowledgement
    world.collector.acknowledgement = lambda incarnation: None if world.collector.keys else acknowledge(incarnation)
    world.run(60)
    assert world.collector.keys
    assert set(world.versions) == {SEALED}
    world.collector.acknowledgement = acknowledge
    world.until_linked(seconds=400)
    assert world.all_is_there()


def test_an_unheard_board_gets_no_link_key() -> None:
    world = World(33)
    world.gateway.away = True
    world.run(30)
    assert len(world.board.outbox.entries) > AFTER
    assert all(entry.is_telemetry for entry in world.board.outbox.entries)


def test_a_repeated_message_is_sealed_and_a_new_key_follows(linked: World) -> None:
    linked.gateway.deaf = True
    linked.run(1.5)
    linked.gateway.deaf = False
    before = len(linked.versions)
    linked.run(40)
    later = linked.versions[before:]
    assert SEALED in later
    assert later[0] == LINKED
    linked.until_linked()
    assert len(linked.collector.keys) == 2
    assert linked.all_is_there()


@pytest.mark.slow
def test_a_collector_that_lost_its_keys_is_reached_all_the_same(linked: World) -> None:
    linked.collector.keys.clear()
    linked.run(60)
    assert linked.collector.unreadable
    assert linked.collector.keys, "the new key"
    linked.until_linked()
    assert linked.all_is_there()


def test_a_gateway_that_restarts_with_an_envelope_under_way_gets_it_sealed(linked: World) -> None:
    linked.run(0.1)
    linked.absent = True
    linked.run(5, lambda: linked.board._carries)
    linked.absent = False
    linked.gateway = simulation.Gateway(linked.rng, linked.collector)
    before = len(linked.versions)
    linked.run(2)
    assert linked.versions[before] == SEALED
    assert linked.all_is_there()


def test_a_start_draws_another_key(linked: World) -> None:
    linked.boot()
    before = len(linked.versions)
    linked.run(5)
    assert set(linked.versions[before:]) == {SEALED}
    linked.until_linked()
    assert len(linked.collector.keys) == 2
    assert all(key not in content for key in linked.collector.keys.values() for content in linked.files.held.values())


def test_keys_change_with_time_and_nothing_is_sealed_meanwhile(linked: World) -> None:
    linked.now_us += _KEY_US * 7 // 8
    before = len(linked.versions)
    linked.run(10)
    later = linked.versions[before:]
    assert later.count(SEALED) == 1, "the LINK"
    assert len(linked.collector.keys) == 2
    assert linked.all_is_there()


def test_a_key_ends_with_its_time(linked: World) -> None:
    linked.now_us += _KEY_US
    before = len(linked.versions)
    linked.run(4)
    assert linked.versions[before] == SEALED
    linked.until_linked()
    assert linked.all_is_there()


@pytest.mark.slow
def test_keys_change_with_volume() -> None:
    links, entry = LinkKeys(), Entry(1, b"", False)
    links.begin(_TAG, _KEY, entry, 0)
    assert links.seal(b"", 0) is None
    links.heard([entry])
    assert links.seal(b"", 0) is None
    links.heard([])
    for counter in range(1, limits.LINK_KEY_ENVELOPES + 1):
        envelope = links.seal(b"m", 1)
        assert cbor.decode(envelope, 200)[1:3] == [_TAG, counter]
        assert links.wanted == (counter > limits.LINK_KEY_ENVELOPES * 7 // 8)
    assert links.seal(b"m", 1) is None


def test_acknowledgements_go_by_link_until_they_are_asked_for_again(linked: World) -> None:
    linked.send(messages.BLOB, 1, b"{}")
    linked.run(3)
    assert len(linked.collector.acknowledgements) == 1
    assert SEALED not in linked.versions[AFTER + 1 :]
    linked.send(messages.BLOB, 1, b"{}")
    before = len(linked.versions)
    linked.run(3)
    assert len(linked.collector.acknowledgements) == 2
    assert linked.versions[before:][-1] == SEALED
    linked.until_linked()
    assert linked.all_is_there()


def test_another_noise_key_of_the_collector_ends_the_key(linked: World) -> None:
    was = linked.collector.identity
    renewed = Identity(b"\x07" * 32, b"\x0b" * 32)
    linked.send(messages.COLLECTOR_KEY, 1, renewed.noise_public)
    linked.run(5, lambda: linked.board._collector[2] == renewed.noise_public)
    assert linked.board._collector[2] != was.noise_public
    linked.collector.identity = renewed
    before = len(linked.versions)
    linked.run(5)
    assert linked.versions[before] == SEALED
    linked.until_linked()
    assert len(linked.collector.keys) == 2
    assert linked.all_is_there()
