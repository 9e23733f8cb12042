"""`agent.core.wire`: strict deterministic CBOR and the readers of shapes."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core import wire
from agent.core.limits import MAXIMUM_CBOR_DEPTH, MAXIMUM_CBOR_ITEMS, MAXIMUM_COUNTER
from agent.errors import LimitError, MalformedError, RemoteError
from tests.vectors import from_json, octets, vectors

_BOUND = 1_000_000


@pytest.mark.parametrize("vector", vectors("cbor"))
def test_vectors(vector: dict[str, Any]) -> None:  # accepts: 003.84
    raw = octets(vector, "cbor")
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            wire.decode(raw, _BOUND)
        assert caught.value.code == vector["code"]
        return
    value = wire.decode(raw, _BOUND)
    assert wire.encode(value) == raw
    if "value" in vector:
        expected = from_json(vector["value"])
        assert value == expected
        assert type(value) is type(expected)


def test_the_length_is_checked_before_anything_is_parsed() -> None:  # accepts: 002.37
    assert wire.decode(b"\x42ab", 3) == b"ab"
    with pytest.raises(LimitError):
        wire.decode(b"\xff\xff\xff\xff", 3)


def test_a_caller_may_bound_the_items() -> None:
    assert wire.decode(b"\x82\x01\x02", _BOUND, 3) == [1, 2]
    with pytest.raises(LimitError):
        wire.decode(b"\x82\x01\x02", _BOUND, 2)
    with pytest.raises(LimitError):
        wire.decode(b"\xa1\x01\x82\x01\x02", _BOUND, 4)


def test_bounds_are_those_of_the_limits() -> None:
    assert (MAXIMUM_CBOR_DEPTH, MAXIMUM_CBOR_ITEMS) == (8, 65_536)  # as the vectors have them


_REFUSED_FIELDS: list[tuple[wire.Read[Any], object, type[RemoteError]]] = [
    (wire.uint(), -1, MalformedError),
    (wire.uint(), MAXIMUM_COUNTER + 1, MalformedError),
    (wire.uint(5), 6, MalformedError),
    (wire.uint(), True, MalformedError),
    (wire.uint(), "1", MalformedError),
    (wire.integer, False, MalformedError),
    (wire.integer, None, MalformedError),
    (wire.boolean, 1, MalformedError),
    (wire.octets(2), b"abc", MalformedError),
    (wire.octets(2), "ab", MalformedError),
    (wire.octets_to(2), b"abc", LimitError),
    (wire.octets_to(2), [1], MalformedError),
    (wire.text(2), "abc", LimitError),
    (wire.text(3), "\u00fc\u00fc", LimitError),
    (wire.text(3), b"abc", MalformedError),
    (wire.many(wire.uint(), 2), [1, 2, 3], LimitError),
    (wire.many(wire.uint(), 2), [1, -2], MalformedError),
    (wire.many(wire.uint(), 2), (1, 2), MalformedError),
    (wire.optional(wire.uint()), -1, MalformedError),
]


@pytest.mark.parametrize(("read", "value", "error"), _REFUSED_FIELDS)
def test_a_reader_refuses(read: wire.Read[Any], value: object, error: type[RemoteError]) -> None:
    with pytest.raises(error):
        read(value)
    with pytest.raises(error, match=r"thing: field 1: "):
        wire.record([0, value], "thing", wire.uint(), read)


def test_readers_accept() -> None:
    fields = wire.record(
        [MAXIMUM_COUNTER, -5, True, b"ab", b"", "\u00fc", [1, 2], None, 7],
        "thing",
        wire.uint(),
        wire.integer,
        wire.boolean,
        wire.octets(2),
        wire.octets_to(2),
        wire.text(2),
        wire.many(wire.uint(), 2),
        wire.optional(wire.uint()),
        wire.optional(wire.uint()),
    )
    assert fields == [MAXIMUM_COUNTER, -5, True, b"ab", b"", "\u00fc", (1, 2), None, 7]


@pytest.mark.parametrize("value", [[1], [1, 2, 3], {0: 1, 1: 2}, b"12", None])
def test_a_record_has_exactly_its_fields(value: object) -> None:
    with pytest.raises(MalformedError, match="thing: not an array of 2"):
        wire.record(value, "thing", wire.uint(), wire.uint())
