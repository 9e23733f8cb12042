"""MicroPython's `machine` for MPS2 beside what its port to QEMU has: CMSDK's UARTs and watchdog by their registers."""

# ruff: noqa: A002, ARG002, F403, F405 - names and arguments are MicroPython's

from micropython import const
from umachine import *

_WATCHDOG = 0x40008000
_STARVED = const(16)  # times as long: it counts the host's seconds, of which other processes may take most


class Pin:
    """A pin that is wired already."""

    def __init__(self, number, *arguments):
        pass


@micropython.viper
def _read(uart: ptr32, out: ptr8, size: int) -> int:
    """Return how many bytes have come: the last one, when some thousand looks have found no other behind it."""
    n = 0
    looks = 0
    while n < size and looks < 4000:
        if uart[1] & 2:
            out[n] = uart[0]
            n += 1
            looks = 0
        else:
            looks += 1
    return n


@micropython.viper
def _write(uart: ptr32, data: ptr8, size: int):
    for i in range(size):
        while uart[1] & 1:
            pass
        uart[0] = data[i]


class UART:
    """One of five, polled. What has not been read waits in the line: QEMU gives the next byte when one was taken."""

    def __init__(self, id, baud, rxbuf=256, **pins):
        self._at = 0x40004000 + 0x1000 * id
        self._buffer = bytearray(rxbuf)
        mem32[self._at + 16] = 25_000_000 // baud
        mem32[self._at + 8] = 3

    def any(self):
        return mem32[self._at + 4] >> 1 & 1

    def read(self):
        n = _read(self._at, self._buffer, len(self._buffer))
        return bytes(memoryview(self._buffer)[:n]) if n else None

    def write(self, raw):
        _write(self._at, raw, len(raw))
        return len(raw)


class WDT:
    """The watchdog: whoever does not feed it gets an interrupt that cannot be masked, in which this machine stays."""

    def __init__(self, timeout):
        self._ticks = 25_000 * _STARVED * timeout
        mem32[_WATCHDOG + 0xC00] = 0x1ACCE551
        self.feed()
        mem32[_WATCHDOG + 8] = 3

    def feed(self):
        mem32[_WATCHDOG] = self._ticks
