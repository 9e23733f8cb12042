"""Pulses on a pin: a meter's contact or light, a rain gauge, an anemometer."""

import time

_WRAPS = 0x3FFFFFFF  # a small number on every port: an interrupt can make no larger one


class Pulses:
    """`{"pin": 14, "name": "water", "unit": "m3", "scale": 3, "factor": 10, "bounce_ms": 50}`: what has run through.

    A pulse is `factor` times the last of `scale` decimal places: here ten litres. It counts from 0 at each start, which
    the boot of each reading shows, and nothing in a deep sleep. A contact that bounces counts once in `bounce_ms`.
    """

    def __init__(self, pin, name, unit="", scale=0, factor=1, bounce_ms=50, falling=True):
        from machine import Pin

        self._name, self._unit, self._scale, self._factor = name, unit, scale, factor
        self._bounce_ms, self._last_ms = bounce_ms, time.ticks_ms() - bounce_ms
        self.kept = self._seen = self._pulses = 0
        self._pin = Pin(pin, Pin.IN, Pin.PULL_UP if falling else Pin.PULL_DOWN)
        self._pin.irq(self._count, Pin.IRQ_FALLING if falling else Pin.IRQ_RISING)

    def _count(self, _):
        now = time.ticks_ms()
        if time.ticks_diff(now, self._last_ms) >= self._bounce_ms:
            self._pulses = self._pulses + 1 & _WRAPS
            self._last_ms = now

    def read(self):
        """Return the sum since the start."""
        pulses = self._pulses
        self.kept += pulses - self._seen & _WRAPS
        self._seen = pulses
        return [(self._name, self._unit, self._scale, self.kept * self._factor)]


SENSORS = {"pulses": Pulses}
