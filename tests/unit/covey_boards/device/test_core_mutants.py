"""Mistakes that a suite of tests has to notice: each of `mutants.toml` is made, and its test fails.

A mistake is made in memory: the boards' modules and their tests are loaded anew, the one file as the mistake would have
it, and all is put back. What other tests do not say plainly enough stands here, too.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from typing import NamedTuple

import pytest

from covey_boards.device import link_keys, losses, outbox
from covey_boards.shared import batch, cbor, framing, messages
from covey_boards.shared import tweetnacl as nacl
from covey_boards.shared.link_machine import Link
from hil.on_board import firmware_simulation as simulation
from tests.proof import begins

_FIRMWARE = Path(outbox.__file__).parents[1]
_TESTS = "tests.unit.covey_boards"
_RELOADED = ("covey_boards", "hil", _TESTS)
_QUICK = {"interval_us": 500_000, "batch_us": 4_000_000}
_S = 1_000_000


class Mutant(NamedTuple):
    """One mistake, as `mutants.toml` has it."""

    file: str
    before: str
    after: str
    test: str


MUTANTS = [Mutant(**each) for each in tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]]

_SECONDS = 20.0


@pytest.fixture(autouse=True)
def _random_source() -> Iterator[None]:
    """A world sets a seeded source of random bytes; give the machine's back."""
    before = nacl._urandom
    yield
    nacl.set_randombytes(before)


# What is made of a mistake


@contextmanager
def _ends(seconds: float) -> Iterator[None]:
    """End what takes more seconds of this processor: a mistake may make a loop endless."""

    def end(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _made(mutant: Mutant) -> Iterator[None]:
    """Have the boards' modules loaded anew, with the mistake, and put those of before back."""
    path = _FIRMWARE / mutant.file
    source = path.read_text()
    assert source.count(mutant.before) == 1, f"{mutant.file} has {mutant.before!r} {source.count(mutant.before)} times"
    code = compile(source.replace(mutant.before, mutant.after), str(path), "exec")
    unchanged = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        return code if Path(loader.path) == path else unchanged(loader, name)

    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in sys.modules if each.split(".")[0] in _RELOADED or each.startswith(_TESTS)]:
            patch.delitem(sys.modules, name)
        patch.setattr(SourceFileLoader, "get_code", get_code)
        loaded = set(sys.modules)
        try:
            yield
        finally:
            for name in set(sys.modules) - loaded:
                del sys.modules[name]


def _calls(test: Callable[..., None]) -> Iterator[dict[str, object]]:
    """Return the arguments of each run of a test: its parameters, and what it asks pytest for."""
    columns = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names = mark.args[0].split(", ") if isinstance(mark.args[0], str) else list(mark.args[0])
            rows = [[row] if len(names) == 1 else row for row in mark.args[1]]
            columns.append([dict(zip(names, row, strict=True)) for row in rows])
    for chosen in itertools.product(*columns):
        yield {name: value for row in chosen for name, value in row.items()}


def _run(name: str) -> None:
    """Run a test as it is loaded now; raise what it raises."""
    module_name, _, test_name = name.rpartition(".")
    module = importlib.import_module(f"{_TESTS}.{module_name}")
    test = getattr(module, test_name)
    for arguments in _calls(test):
        with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
            asked = {"monkeypatch": patch, "tmp_path": Path(folder)}
            if "flat" in inspect.signature(test).parameters:
                asked["flat"] = module.flat_loader(patch)
            test(**arguments, **{each: asked[each] for each in inspect.signature(test).parameters if each in asked})


@pytest.mark.proof
@pytest.mark.parametrize("mutant", [pytest.param(each, id=f"{n}-{each.file}") for n, each in enumerate(MUTANTS)])
def test_a_mistake_is_noticed(mutant: Mutant) -> None:
    begins()
    before = nacl._urandom
    with _made(mutant), _ends(_SECONDS):
        try:
            _run(mutant.test)
        except (NameError, SyntaxError) as error:
            pytest.fail(f"the mistake no longer fits the code: {error}")
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever a mistake leads to
            return
        finally:
            nacl.set_randombytes(before)
    pytest.fail(f"{mutant.test} does not notice {mutant.after!r} in the place of {mutant.before!r}")


def test_there_are_many_all_different_and_each_fits_the_code() -> None:
    assert len(set(MUTANTS)) == len(MUTANTS) >= 60
    assert all((_FIRMWARE / each.file).read_text().count(each.before) == 1 for each in MUTANTS)
    assert len({each.file for each in MUTANTS}) >= 12


def test_the_tests_that_notice_mistakes_pass_without_one() -> None:
    """Those of this file do so by themselves; here each is found, and run by the same door."""
    untouched = Mutant("device/outbox.py", '"""What a board has signed', '"""What a board has signed', "")
    with _made(untouched):
        _run("device.test_outbox.test_only_an_acknowledgement_frees")
        _run("shared.test_link_machine_window.test_as_many_go_ahead_as_the_peer_takes")
        _run("device.test_ports.test_a_uart_is_given_what_it_did_not_take_yet")
    assert all(callable(getattr(_module(each.test), each.test.rpartition(".")[2])) for each in MUTANTS)


def _module(name: str) -> object:
    return importlib.import_module(f"{_TESTS}.{name.rpartition('.')[0]}")


# What no other test says as plainly


def test_a_flipped_bit_is_no_frame() -> None:
    frame = framing.encode(b"\1\2\0\3", b"a payload")
    assert framing.Decoder(64).receive_bytes(frame) == [b"\1\2\0\3a payload"]
    for bit in range(8, 8 * (len(frame) - 1)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        decoder = framing.Decoder(64)
        assert not [body for body in decoder.receive_bytes(bytes(flipped)) if len(body) > 2], bit


def test_frames_too_long_are_counted() -> None:
    decoder = framing.Decoder(48)
    assert decoder.receive_bytes(framing.encode(b"\1\2\3\4", bytes(200))) == []
    assert (decoder.too_long, decoder.damaged) == (1, 0)


def test_the_links_queue_ends() -> None:
    link, taken = Link(b"a" * 8), 0
    while taken < 100 and link.send(bytes(1_000)) is not None:
        taken += 1
    assert taken == 8


@pytest.mark.parametrize("number", [-1, -64, -65, 63, 64, -(1 << 31)])
def test_a_number_keeps_its_sign(number: int) -> None:
    collected = batch.Batch()
    for value in (0, number):
        collected.add("a", "", 0, value, 1)
    assert simulation.counters_of(collected.body(1, bytes(8), 0, 2, 2)) == [0, number]


def _after_hearing(change: Callable[[simulation.World], None]) -> simulation.World:
    """Return a world in which the board has heard acknowledgements that `change` has altered."""
    world = simulation.World(9, **_QUICK)
    world.run(1)
    change(world)
    world.run(20)
    assert len(world.board.outbox.entries) >= 3
    return world


def _altered(alter: Callable[[simulation.Collector, bytes], bytes]) -> Callable[[simulation.World], None]:
    def change(world: simulation.World) -> None:
        real = world.collector.acknowledgement
        world.collector.acknowledgement = lambda incarnation: alter(world.collector, real(incarnation))

    return change


def test_an_acknowledgement_for_another_board_frees_nothing() -> None:
    def change(world: simulation.World) -> None:
        real, keys = world.collector.acknowledgement, world.collector.board
        other = simulation.Keys(b"\7" * 32, keys.noise_public)

        def to_another(incarnation: bytes) -> bytes:
            world.collector.board = other
            try:
                return bytes(real(incarnation))
            finally:
                world.collector.board = keys

        world.collector.acknowledgement = to_another

    assert _after_hearing(change).board.counters["refused"] >= 3


def test_an_acknowledgement_of_an_earlier_life_frees_nothing() -> None:
    def change(world: simulation.World) -> None:
        real = world.collector.acknowledgement

        def earlier(incarnation: bytes) -> bytes:
            world.collector.links[b"earlier."] = world.collector.links[incarnation]
            try:
                return bytes(real(b"earlier."))
            finally:
                del world.collector.links[b"earlier."]

        world.collector.acknowledgement = earlier

    _after_hearing(change)


def test_an_acknowledgement_that_nobody_signed_frees_nothing() -> None:
    def unsigned(collector: simulation.Collector, envelope: bytes) -> bytes:
        message = messages.open_sealed(envelope, world_of[0].board.identity.noise_secret)
        signature, signed = cbor.decode(message, 4_096)
        forged = cbor.encode([signature[:-1] + bytes([signature[-1] ^ 1]), signed])
        return bytes(messages.seal(forged, collector.board.noise_public, b"\x09" * 32, b"\x0b" * 24))

    world_of: list[simulation.World] = []

    def change(world: simulation.World) -> None:
        world_of.append(world)
        _altered(unsigned)(world)

    _after_hearing(change)


@pytest.mark.parametrize("spans", [[[3, 2]], [[2, 4]], [[4, 6], [6, 8]], [[5, 5], [3, 3]]])
def test_ranges_that_overlap_are_none(spans: list[list[int]]) -> None:
    with pytest.raises(cbor.WireError):
        messages.read_acknowledgement(cbor.encode([bytes(8), [1, spans]]))


@pytest.mark.parametrize(
    "raw", [b"\x18\x17", b"\x19\x00\xff", b"\x1a\x00\x00\xff\xff", b"\x1b" + bytes(4) + b"\xff" * 4]
)
def test_a_longer_form_of_a_number_is_none(raw: bytes) -> None:
    with pytest.raises(cbor.WireError):
        cbor.decode(raw, 64)


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(cbor.WireError):
        cbor.decode(b"\x01\x02", 64)


def test_a_repeated_board_message_is_sealed() -> None:
    """Section 18: a message that was on the line once counts as sent, and the key ends with it."""
    world = simulation.World(11, interval_us=500_000, batch_us=1_000_000)
    world.run(60, lambda: simulation.LINKED in world.collector.versions)
    assert simulation.LINKED in world.collector.versions
    world.run(1.1)
    world.absent = True
    world.run(10, lambda: world.board._carries)
    world.absent = False
    world.gateway = simulation.Gateway(world.rng, world.collector)
    before = len(world.collector.versions)
    world.run(10, lambda: len(world.collector.versions) > before + 2)
    assert world.collector.versions[before : before + 3] == 3 * [simulation.SEALED]


def test_nothing_goes_again_beside_what_is_under_way() -> None:
    held = outbox.Outbox(10_000, lambda low, _high: low)
    first, second = held.add(b"first"), held.add(b"second")
    for entry in (first, second):
        held.taken(entry, 0)
    late = 10 * outbox._RETRY_US
    assert held.due(late) is first
    first.carried = True
    assert held.due(late) is None


def test_with_the_last_batch_that_is_taken_the_note_goes() -> None:
    files = simulation.Files()
    outages = losses.Outages(files, b"one life")
    outages.note([1, 1, 1, 1], False, False, 2)
    assert files.read(messages.LOSSES_FILE)
    outages.note(None, True, False, 2)
    assert files.read(messages.LOSSES_FILE) == b""


def _in_use() -> link_keys.LinkKeys:
    keys = link_keys.LinkKeys()
    keys.begin(bytes(8), bytes(32), outbox.Entry(1, b"", False), 0)
    keys.heard([])
    return keys


def test_a_key_ends_with_its_hour() -> None:
    keys = _in_use()
    assert keys.seal(b"m", 3_599 * _S) is not None
    assert keys.seal(b"m", 3_600 * _S) is None


def test_no_counter_is_used_twice() -> None:
    keys = _in_use()
    assert [cbor.decode(keys.seal(b"m", 1), 200)[2] for _ in range(3)] == [1, 2, 3]
