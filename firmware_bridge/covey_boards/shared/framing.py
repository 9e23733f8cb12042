"""Frames on a serial line: `00 COBS(header, payload, crc32) 00`. Bytes in, bodies out; no port, no clock.

1. A frame is between two zeros, and contains none: Consistent Overhead Byte Stuffing (Cheshire and Baker, 1999). The
   zero in front ends what a reset in mid-frame left behind, so the next frame is not lost with it.
2. The last four bytes of a body are the CRC-32 of the rest (ISO 3309, as in zlib), little-endian.
3. Any bytes may arrive: banners, halves, noise. Anything but a frame is counted and dropped, and never more than
   `size_max` bytes are held.

`link_machine` decides what the bodies mean.
"""

try:
    from binascii import crc32
except ImportError:  # the micro:bit has no binascii

    def crc32(data, crc=0):
        """Return zlib's CRC-32, bit by bit; `crc` is that of what stands before."""
        crc ^= 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
        return crc ^ 0xFFFFFFFF


try:
    from micropython import const
except ImportError:
    const = int

# Two zeros, the CRC and COBS's first byte; each further 254 bytes cost one more.
_OVERHEAD = const(7)

_CRC_OF_WHOLE = const(0x2144DF1C)  # of anything that ends with its own CRC


def cobs_decode(data):
    """Return what `cobs_encode` was given, or None where it cannot have been that."""
    out = bytearray()
    i = 0
    while i < len(data):
        code = data[i]
        if code == 0 or i + code > len(data):
            return None
        out += data[i + 1 : i + code]
        i += code
        if code < 255 and i < len(data):
            out.append(0)
    return bytes(out)


def encode(header, payload=b""):
    """Return the frame of a body. The heap needs two pieces for it, and small ones that go at once."""
    frame = bytearray(b"\0\0")
    place, count = 1, 1  # where the number of the run under way stands, and that number
    for part in (header, payload, crc32(payload, crc32(header)).to_bytes(4, "little")):
        start, end = 0, -1
        while end < len(part):
            zero = part.find(b"\0", start)
            end = min(len(part) if zero < 0 else zero, start + 255 - count)
            frame += part[start:end]
            count += end - start
            start = end
            if count == 255 or end == zero:
                start += count < 255  # the zero itself
                frame[place] = count
                place, count = len(frame), 1
                frame.append(0)
                end = -1
    frame[place] = count
    frame.append(0)
    return bytes(frame)


def body_size_max(size):
    """Return the longest body whose frame certainly fits into `size` bytes."""
    return size - _OVERHEAD - size // 254


class Decoder:
    """Find frames in a stream; `size_max` bounds the bytes between two zeros.

    Counts: `damaged` (stuffing or CRC wrong), `too_long`, `frames`.
    """

    def __init__(self, size_max):
        self.size_max = size_max
        self.frames = self.damaged = self.too_long = 0
        self._held = bytearray()
        self._skipping = False

    def receive_bytes(self, raw):
        """Take bytes, and return the bodies that they complete."""
        bodies = []
        pieces = bytes(raw).split(b"\0")
        for i in range(len(pieces)):
            self._hold(pieces[i])
            if i < len(pieces) - 1:
                body = self._finish()
                if body is not None:
                    bodies.append(body)
        return bodies

    def _hold(self, piece):
        if self._skipping or len(self._held) + len(piece) > self.size_max:
            self._skipping = True
            self._held = bytearray()
        else:
            self._held += piece

    def _finish(self):
        """Return the body that ends here, if valid, and start again."""
        held, skipped = self._held, self._skipping
        self._held, self._skipping = bytearray(), False
        if skipped:
            self.too_long += 1
            return None
        if not held:
            return None
        body = cobs_decode(held)
        if body is None or len(body) < 4 or crc32(body) != _CRC_OF_WHOLE:
            self.damaged += 1
            return None
        self.frames += 1
        return body[:-4]
