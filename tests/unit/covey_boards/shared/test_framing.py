"""Frames: any body, any split, any noise."""

from __future__ import annotations

from itertools import pairwise
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from covey_boards.shared import framing

BODIES = st.lists(st.binary(max_size=600), max_size=5)


def split(raw: bytes, cuts: list[int]) -> list[bytes]:
    """Cut bytes at positions taken modulo their length."""
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    return [raw[a:b] for a, b in pairwise(places)]


@given(st.binary(max_size=2000))
def test_cobs_gives_back_what_it_took_and_has_no_zero(body: bytes) -> None:
    frame = framing.encode(body)
    encoded = frame[1:-1]
    assert frame == b"\0" + encoded + b"\0"
    assert 0 not in encoded
    assert framing.cobs_decode(encoded) == body + crc32(body).to_bytes(4, "little")
    assert len(frame) <= len(body) + framing._OVERHEAD + (len(body) + 4) // 254


@given(st.binary(max_size=40), st.binary(max_size=600))
def test_header_and_payload_make_one_body(header: bytes, payload: bytes) -> None:
    assert framing.encode(header, payload) == framing.encode(header + payload)


@given(st.integers(min_value=48, max_value=5000))
def test_the_longest_body_fits_its_frame(size: int) -> None:
    assert len(framing.encode(b"\xff" * framing.body_size_max(size))) <= size


@given(BODIES, st.lists(st.integers(min_value=0), max_size=8))
def test_frames_arrive_however_they_are_split(bodies: list[bytes], cuts: list[int]) -> None:
    decoder = framing.Decoder(1000)
    raw = b"".join(map(framing.encode, bodies))
    assert [body for piece in split(raw, cuts) for body in decoder.receive_bytes(piece)] == bodies


@given(st.binary(max_size=400), st.binary(max_size=200), st.lists(st.integers(min_value=0), max_size=4))
def test_noise_costs_no_frame_behind_it(noise: bytes, body: bytes, cuts: list[int]) -> None:
    decoder = framing.Decoder(256)
    got = [found for piece in split(noise + framing.encode(body), cuts) for found in decoder.receive_bytes(piece)]
    assert got[-1] == body


@given(st.binary(max_size=300), st.data())
def test_a_frame_cut_by_a_reset_does_not_take_the_next_one_with_it(body: bytes, data: st.DataObject) -> None:
    first, second = framing.encode(body), framing.encode(b"next")
    cut = data.draw(st.integers(min_value=0, max_value=len(first) - 1))
    assert framing.Decoder(512).receive_bytes(first[:cut] + second)[-1] == b"next"


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_flipped_bit_is_never_a_frame(body: bytes, data: st.DataObject) -> None:
    frame = bytearray(framing.encode(body))
    bit = data.draw(st.integers(min_value=8, max_value=8 * len(frame) - 9))
    frame[bit >> 3] ^= 1 << (bit & 7)
    assert body not in framing.Decoder(256).receive_bytes(bytes(frame))


def test_buffered_bytes_are_bounded() -> None:
    decoder = framing.Decoder(64)
    for _ in range(100):
        assert decoder.receive_bytes(b"\xff" * 63) == []
    assert decoder.receive_bytes(framing.encode(b"after")) == [b"after"]
    assert decoder.too_long == 1


def test_counters_tell_damage_from_silence() -> None:
    decoder = framing.Decoder(64)
    frame = framing.encode(b"body")
    decoder.receive_bytes(b"\0\0\0" + frame[:-2] + b"\x01\0" + frame)
    assert (decoder.frames, decoder.damaged, decoder.too_long) == (1, 1, 0)
