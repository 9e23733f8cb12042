"""What the expressions over bytes accept is what the strict reader accepts, with the same result."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covey.core.crypto import Identity
from covey.core.ids import Incarnation, LinkSeq
from covey.core.telemetry import decoding
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.telemetry.decoding import KnownLayouts, read_telemetry
from covey.core.vault import segments
from covey.core.vault.entries import SegmentEntry
from covey.core.wire import cbor, envelope, message, shapes
from covey.core.wire.deflate import inflate
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from covey.errors import RemoteError
from covey.limits.message import MAXIMUM_COUNTER, MAXIMUM_SEQUENCE

IDENTITY = Identity.from_seeds(bytes(32), bytes(range(32)))
NEVER = re.compile(rb"(?!)")
numbers = st.sampled_from([0, 1, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, MAXIMUM_COUNTER])
sequences = numbers.filter(lambda number: number <= MAXIMUM_SEQUENCE)
rows = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 2**59 - 1),
        st.floats(-1e9, 1e9) | st.integers(-99, 99).map(float) | st.booleans() | st.text("xyz", max_size=30),
    ),
    max_size=30,
)
harm = st.lists(st.tuples(st.sampled_from(["set", "cut", "add"]), st.integers(0, 600), st.integers(0, 255)), max_size=2)


def _harmed(raw: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    content = bytearray(raw)
    for how, anywhere, value in changes:
        place = anywhere % (len(content) + 1)
        if how == "add":
            content.insert(place, value)
        elif place < len(content):
            if how == "set":
                content[place] = value
            else:
                del content[place]
    return bytes(content)


def _reported(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except RemoteError as error:
        return type(error)


def _body(given_rows: list[tuple[str, int, Any]], number: int, wall_us: int) -> bytes:
    builder = BatchBuilder()
    for name, time, value in given_rows:
        builder.add(name, "", time, value)
    return numbered(number, builder.body(ClockReading(bytes(8), number, wall_us, ClockKind.SYNCHRONISED)))


def _strictly(body: bytes) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_HEAD", NEVER)
        patch.setattr(decoding, "octets_at", lambda _raw, _begin: None)
        return _reported(read_telemetry, body)


@given(st.binary(max_size=12))
@example(b"\x18\x17")
@example(b"\x1b" + b"\xff" * 8)
@example(b"\x3b\x7f" + b"\xff" * 7)
def test_a_head_is_a_whole_integer_to_both_readers(raw: bytes) -> None:
    found = shapes.shape(shapes.INTEGER).fullmatch(raw)
    reported = _reported(cbor.decode, raw, 12)
    if found is None:
        assert type(reported) is not int
    else:
        assert shapes.integer(raw) == reported


@given(st.integers(0, 70_000))
def test_a_head_is_the_length_of_a_byte_string(length: int) -> None:
    raw = cbor.encode(bytes(length))
    found = shapes.shape(shapes.OCTETS).match(raw)
    assert found is not None
    assert shapes.length(found[0]) == length == len(raw) - found.end()


@given(st.binary(max_size=4), st.integers(0, 70_000), st.binary(max_size=2), harm)
def test_the_place_of_a_byte_string_is_where_the_strict_reader_finds_it(
    before: bytes, length: int, after: bytes, changes: list[tuple[str, int, int]]
) -> None:
    raw = _harmed(cbor.encode(bytes(length)), changes)
    found = shapes.octets_at(before + raw + after, len(before))
    if found is None:
        assert changes
        return
    first, end = found
    assert cbor.decode((before + raw + after)[len(before) : end], 80_000) == (before + raw + after)[first:end]


@given(st.sampled_from(MessageType), sequences, sequences, numbers, st.binary(max_size=300), harm)
def test_a_message_is_read_alike(
    kind: MessageType, seq: int, link_seq: LinkSeq, sent_at: int, body: bytes, changes: list[tuple[str, int, int]]
) -> None:
    key = IDENTITY.signing_public
    raw = _harmed(
        write_message(IDENTITY, kind, key, NO_GROUP, Incarnation(bytes(8)), seq, link_seq, sent_at, body), changes
    )
    quick = message._read_quickly(raw)
    if quick is not None:
        assert quick == message._read_strictly(raw)
    elif not changes:
        pytest.fail("an honest message was left to the strict reader")


@given(numbers, st.lists(st.tuples(numbers, st.integers(0, 300)), max_size=5), harm)
def test_a_plain_segment_is_read_alike(
    created_at: int, records: list[tuple[int, int]], changes: list[tuple[str, int, int]]
) -> None:
    entry = SegmentEntry(7, Incarnation(bytes(8)), bytes(32), 0, 0, len(records))
    raw = _harmed(cbor.encode([1, created_at, [[received, bytes(size)] for received, size in records]]), changes)
    quick = segments._read_quickly(entry, raw)
    if quick is not None:
        strict = segments._read_strictly(entry, raw)
        assert quick == strict
        places = [(each.number, each.index) for each in quick.parts[0].records]
        assert places == [(each.number, each.index) for each in strict.parts[0].records]
    elif not changes:
        pytest.fail("an honest segment was left to the strict reader")


@given(st.booleans(), numbers, st.binary(max_size=300), harm)
def test_an_envelope_is_read_alike(
    linked: bool, counter: int, content: bytes, changes: list[tuple[str, int, int]]
) -> None:
    fields = [2, bytes(envelope.TAG_BYTES), counter, content] if linked else [1, bytes(32), bytes(24), content]
    raw = _harmed(cbor.encode(fields), changes)
    quick = envelope._read_quickly(raw)
    if quick is not None:
        assert quick == envelope._read_strictly(raw)
        assert quick.ciphertext == envelope._read_strictly(raw).ciphertext
    elif not changes:
        pytest.fail("an honest envelope was left to the strict reader")


@given(rows, numbers, numbers, harm)
def test_a_batch_is_read_alike(
    given_rows: list[tuple[str, int, Any]], number: int, wall_us: int, changes: list[tuple[str, int, int]]
) -> None:
    body = _body(given_rows, number, wall_us)
    harmed = _harmed(body, changes)
    known = KnownLayouts()
    _reported(read_telemetry, body, known)
    quick = _reported(read_telemetry, harmed, known)
    assert quick == _strictly(harmed)


@given(rows, harm)
def test_columns_are_read_alike(given_rows: list[tuple[str, int, Any]], changes: list[tuple[str, int, int]]) -> None:
    """The same for columns as they are: the harm reaches what deflate would have hidden."""
    clock = ClockReading(bytes(8), 1, 2, ClockKind.SYNCHRONISED)
    names, packed = _names_and_columns(given_rows)
    known = KnownLayouts()
    _reported(read_telemetry, _raw_body(clock, names, packed), known)
    harmed = _raw_body(clock, names, _harmed(packed, changes))
    quick = _reported(read_telemetry, harmed, known)
    assert quick == _strictly(harmed)


def _names_and_columns(given_rows: list[tuple[str, int, Any]]) -> tuple[bytes, bytes]:
    _, (*_, names, inflated, packed) = cbor.decode(_body(given_rows, 1, 2), 1_000_000)
    return names, inflate(packed, inflated, "columns") if inflated else packed


def _raw_body(clock: ClockReading, names: bytes, columns: bytes) -> bytes:
    fields = [1, clock.boot_id, int(clock.kind), clock.monotonic_us, clock.wall_us, names, 0, columns]
    return numbered(1, cbor.encode(fields))


@given(st.sampled_from([b"\x80", b"\x81\x61x", b"\x81\x41x", b"\x82\x61x\x61x", b"", b"\x80\x80"]))
def test_texts_that_are_left_out_are_missed(texts: bytes) -> None:
    """Lengths of numbers agree here whatever becomes of the texts."""
    given_rows = [("a", 1, 2.0), ("b", 2, "x")]
    clock = ClockReading(bytes(8), 1, 2, ClockKind.SYNCHRONISED)
    valid = b"\x81\x61x"
    names, packed = _names_and_columns(given_rows)
    assert packed.endswith(valid)
    known = KnownLayouts()
    _reported(read_telemetry, _raw_body(clock, names, packed), known)
    changed = _raw_body(clock, names, packed.removesuffix(valid) + texts)
    reported = _reported(read_telemetry, changed, known)
    assert reported == _strictly(changed)
    assert isinstance(reported, tuple) == (texts == valid)
