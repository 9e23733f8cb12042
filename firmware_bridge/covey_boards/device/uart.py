"""The line on two pins, if it is not USB."""

import time

from machine import UART, Pin


class Uart:
    """The line on two pins."""

    def __init__(self, mtu, id, baud=115_200, **pins):
        pins = {name: Pin(number) for name, number in pins.items()}
        self._uart = UART(id, baud, rxbuf=2 * mtu, **pins)

    def read(self, wait_ms):
        """Return what has arrived, after `wait_ms` at most."""
        if not self._uart.any():
            time.sleep_ms(wait_ms)
        return self._uart.read() or b""

    def write(self, raw):
        """Write all of it; a UART takes what its buffer has room for."""
        raw = memoryview(raw)
        while len(raw):
            raw = raw[self._uart.write(raw) or 0 :]
