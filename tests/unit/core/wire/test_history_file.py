"""`covey.core.wire.history_file`: what was written is read, and nothing else is, whatever is done to the bytes."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covey.core.wire.history_file import HistoryFileWriter, Part, PartKind, read_parts
from covey.errors import MalformedError, NotForUsError, RemoteError
from tests.examples import examples
from tests.vectors import vectors
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID

_PARTS = [
    Part(GROUP_ID, PartKind.MANIFESTS, (b"one", b"two")),
    Part(GROUP_ID, PartKind.OPERATIONS, (b"three",)),
    Part(GROUP_ID, PartKind.OPERATIONS, (), last=True),
]


def _items() -> list[bytes]:
    writer = HistoryFileWriter(b"k" * 32, b"e" * 32, b"n" * 24)
    recipients = [(each.signing_public, each.noise_public) for each in (ALICE, BOB)]
    return [writer.header(recipients), *(writer.part(each) for each in _PARTS)]


def _read(raw: bytes) -> list[Part]:
    return list(read_parts(io.BytesIO(raw).read, BOB.signing_public, BOB.noise))


def test_each_recipient_reads_it_and_nobody_else_does() -> None:
    raw = b"".join(_items())
    assert _read(raw) == _PARTS
    assert list(read_parts(io.BytesIO(raw).read, ALICE.signing_public, ALICE.noise)) == _PARTS
    with pytest.raises(NotForUsError):
        list(read_parts(io.BytesIO(raw).read, CAROL.signing_public, CAROL.noise))
    with pytest.raises(NotForUsError):
        list(read_parts(io.BytesIO(raw).read, BOB.signing_public, CAROL.noise))


@pytest.mark.parametrize("vector", vectors("history_files", "cases"))
def test_vectors(vector: dict[str, Any]) -> None:
    reader = next(each for each in (ALICE, BOB, CAROL) if each.signing_public.hex() == vector["reader"])
    read: list[str] = []
    code = None
    try:
        for part in read_parts(io.BytesIO(bytes.fromhex(vector["bytes"])).read, reader.signing_public, reader.noise):
            read += [raw.hex() for raw in part.documents]
    except RemoteError as error:
        code = error.code
    assert (read, code) == (vector["reads"], vector["code"])


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 3), (0, 1, 2), (0, 3), (1, 2, 3), (0, 1, 1, 2, 3), ()])
def test_no_part_can_be_moved_left_out_or_repeated(order: tuple[int, ...]) -> None:
    items = _items()
    with pytest.raises(MalformedError):
        _read(b"".join(items[place] for place in order))


@examples(200)
@given(st.integers(0, 10**6), st.integers(0, 7))
@example(0, 0)
def test_a_flipped_bit_is_found(place: int, bit: int) -> None:
    raw = bytearray(b"".join(_items()))
    raw[place % len(raw)] ^= 1 << bit
    with contextlib.suppress(RemoteError):
        assert _read(bytes(raw)) == _PARTS, "it was in what is for somebody else"


@given(st.binary(max_size=400))
def test_any_bytes_give_a_complaint(raw: bytes) -> None:
    with pytest.raises(RemoteError):
        _read(raw)
