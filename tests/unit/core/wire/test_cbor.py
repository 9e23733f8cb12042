"""`covey.core.wire.cbor`: strict deterministic CBOR and the readers of shapes."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError, RemoteError
from covey.limits.message import MAXIMUM_CBOR_DEPTH, MAXIMUM_CBOR_ITEMS, MAXIMUM_COUNTER
from tests.vectors import from_json, octets, vectors

_BOUND = 1_000_000


@pytest.mark.parametrize("vector", vectors("cbor"))
def test_vectors(vector: dict[str, Any]) -> None:  # accepts: 003.84
    raw = octets(vector, "bytes")
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            cbor.decode(raw, _BOUND)
        assert caught.value.code == vector["code"]
        return
    value = cbor.decode(raw, _BOUND)
    assert cbor.encode(value) == raw
    if "value" in vector:
        expected = from_json(vector["value"])
        assert value == expected
        assert type(value) is type(expected)


def test_the_length_is_checked_before_anything_is_parsed() -> None:  # accepts: 002.37
    assert cbor.decode(b"\x42ab", 3) == b"ab"
    with pytest.raises(LimitError):
        cbor.decode(b"\xff\xff\xff\xff", 3)


def test_a_caller_may_bound_the_items() -> None:
    assert cbor.decode(b"\x82\x01\x02", _BOUND, 3) == [1, 2]
    with pytest.raises(LimitError):
        cbor.decode(b"\x82\x01\x02", _BOUND, 2)
    with pytest.raises(LimitError):
        cbor.decode(b"\xa1\x01\x82\x01\x02", _BOUND, 4)


def test_bounds_are_those_of_the_limits() -> None:
    assert (MAXIMUM_CBOR_DEPTH, MAXIMUM_CBOR_ITEMS) == (8, 65_536)  # as the vectors have them


_REFUSED_FIELDS: list[tuple[cbor.Read[Any], object, type[RemoteError]]] = [
    (cbor.uint(), -1, MalformedError),
    (cbor.uint(), MAXIMUM_COUNTER + 1, MalformedError),
    (cbor.uint(5), 6, MalformedError),
    (cbor.uint(), True, MalformedError),
    (cbor.uint(), "1", MalformedError),
    (cbor.integer, False, MalformedError),
    (cbor.integer, None, MalformedError),
    (cbor.boolean, 1, MalformedError),
    (cbor.octets(2), b"abc", MalformedError),
    (cbor.octets(2), "ab", MalformedError),
    (cbor.octets_to(2), b"abc", LimitError),
    (cbor.octets_to(2), [1], MalformedError),
    (cbor.text(2), "abc", LimitError),
    (cbor.text(3), "\u00fc\u00fc", LimitError),
    (cbor.text(3), b"abc", MalformedError),
    (cbor.many(cbor.uint(), 2), [1, 2, 3], LimitError),
    (cbor.many(cbor.uint(), 2), [1, -2], MalformedError),
    (cbor.many(cbor.uint(), 2), (1, 2), MalformedError),
    (cbor.optional(cbor.uint()), -1, MalformedError),
]


@pytest.mark.parametrize(("read", "value", "error"), _REFUSED_FIELDS)
def test_a_reader_refuses(read: cbor.Read[Any], value: object, error: type[RemoteError]) -> None:
    with pytest.raises(error):
        read(value)
    with pytest.raises(error, match=r"thing: field 1: "):
        cbor.record([0, value], "thing", cbor.uint(), read)


def test_readers_accept() -> None:
    fields = cbor.record(
        [MAXIMUM_COUNTER, -5, True, b"ab", b"", "\u00fc", [1, 2], None, 7],
        "thing",
        cbor.uint(),
        cbor.integer,
        cbor.boolean,
        cbor.octets(2),
        cbor.octets_to(2),
        cbor.text(2),
        cbor.many(cbor.uint(), 2),
        cbor.optional(cbor.uint()),
        cbor.optional(cbor.uint()),
    )
    assert fields == [MAXIMUM_COUNTER, -5, True, b"ab", b"", "\u00fc", (1, 2), None, 7]


@pytest.mark.parametrize("value", [[1], [1, 2, 3], {0: 1, 1: 2}, b"12", None])
def test_a_record_has_exactly_its_fields(value: object) -> None:
    with pytest.raises(MalformedError, match="thing: not an array of 2"):
        cbor.record(value, "thing", cbor.uint(), cbor.uint())
