"""The line's frames in datagrams: docs/protocol/boards.md, section 18, "Over UDP". Bytes in, bytes out; no socket, no
clock.

1. A datagram is a stream's name, its number in that stream, and whole frames. One whose number is not above the last
   one's is dropped: nothing overtakes on a line, and nothing arrives twice.
2. A stream of another name is believed if it begins with a HELLO, so a sender that has not seen a stream cannot write
   to it.
"""

HEAD_BYTES = 8
DATAGRAM_BYTES_MAX = 1_200  # goes through any network in one piece
_HELLO = b"\x00\x02\x01"  # how the frame of a HELLO begins


class Datagrams:
    """One end.

    Args:
        stream: 4 random bytes, new with every start.
    """

    def __init__(self, stream):
        self._stream = stream
        self._sent = self._received = 0
        self._peer = None
        self.dropped = 0

    def wrapped(self, frames):
        """Return the datagram that carries frames."""
        self._sent += 1
        return self._stream + self._sent.to_bytes(4, "little") + frames

    def frames_of(self, raw):
        """Return the frames of a datagram; b"" of what is dropped."""
        number = int.from_bytes(raw[4:8], "little")
        if raw[:4] != self._peer and begins(raw):
            self._peer, self._received = bytes(raw[:4]), 0
        if raw[:4] != self._peer or number <= self._received:
            self.dropped += 1
            return b""
        self._received = number
        return raw[HEAD_BYTES:]


def begins(raw):
    """Say whether a datagram may begin a stream."""
    return raw[8:11] == _HELLO and len(raw) <= DATAGRAM_BYTES_MAX
