"""`covey.adapters.mqtt.buffered_socket`: the same bytes as without it, in fewer calls, and none of them left behind."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from covey.adapters.mqtt.buffered_socket import BufferedSocket

Pair = tuple[BufferedSocket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    buffered = BufferedSocket(ours, 5.0)
    yield buffered, theirs
    buffered.close()
    theirs.close()


def _all_of(theirs: socket.socket) -> bytes:
    """Return what came until the other side has closed."""
    return b"".join(iter(lambda: theirs.recv(65_536), b""))


def test_one_read_serves_several_requests(pair: Pair) -> None:
    buffered, theirs = pair
    theirs.sendall(b"\x30\x05hello\x30")
    assert not buffered.holds
    assert [buffered.recv(1), buffered.recv(1), buffered.recv(3)] == [b"\x30", b"\x05", b"hel"]
    with selectors.DefaultSelector() as selector:
        selector.register(buffered, selectors.EVENT_READ)
        assert buffered.holds
        assert not selector.select(0)
    assert buffered.recv(100) == b"lo\x30"
    assert not buffered.holds
    with pytest.raises(BlockingIOError):
        buffered.recv(1)
    theirs.close()
    assert buffered.recv(1) == b""


def test_whole_packets_are_taken_and_parts_of_one_are_left(pair: Pair) -> None:
    buffered, theirs = pair
    assert buffered.take_packet() is None
    long = bytes(range(200))
    theirs.sendall(b"\x40\x02\x00\x07" + b"\x30\xc8\x01" + long + b"\xd0\x00" + b"\x30\x05hell")
    assert buffered.recv(1) == b"\x40"
    buffered.recv(3)
    assert buffered.take_packet() == (0x30, long)
    assert buffered.take_packet() == (0xD0, b"")
    assert buffered.take_packet() is None
    assert buffered.recv(100) == b"\x30\x05hell"


@pytest.mark.parametrize("began", [b"\x30", b"\x30\x85", b"\x30\xff\xff\xff\xff\x01", b"\x30\x80\x80\x80\x80"])
def test_a_length_that_is_not_whole_is_left(pair: Pair, began: bytes) -> None:
    buffered, theirs = pair
    theirs.sendall(b"." + began)
    assert buffered.recv(1) == b"."
    assert buffered.take_packet() is None
    assert buffered.recv(100) == began


def test_packets_go_together_once_they_are_flushed(pair: Pair) -> None:
    buffered, theirs = pair
    assert [buffered.send(b"one"), buffered.send(bytearray(b"two"))] == [3, 3]
    assert buffered.waits
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    buffered.flush()
    assert not buffered.waits
    assert theirs.recv(100) == b"onetwo"


def test_of_what_a_full_socket_does_not_take_a_bounded_part_waits_and_all_of_it_arrives(pair: Pair) -> None:
    buffered, theirs = pair
    sent, packet = b"", bytes(range(250)) * 100
    with suppress(BlockingIOError):
        while len(sent) < 100_000_000:
            buffered.send(packet)
            sent += packet
    assert buffered.waits
    theirs.setblocking(False)
    came = b""
    while len(came) < len(sent):
        came += theirs.recv(1_000_000)
        buffered.flush()
    assert came == sent


def test_closing_writes_what_is_buffered(pair: Pair) -> None:
    buffered, theirs = pair
    buffered.send(b"farewell")
    buffered.close()
    assert _all_of(theirs) == b"farewell"
    assert buffered.fileno() == -1


def test_closing_works_after_the_peer_has_gone(pair: Pair) -> None:
    buffered, theirs = pair
    theirs.close()
    buffered.send(b"to nobody")
    with pytest.raises(OSError):  # noqa: PT011 - which of them is the system's
        buffered.flush()
    buffered.close()
    assert not buffered.waits
