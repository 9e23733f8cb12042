"""SCD40, SCD41: carbon dioxide, temperature and humidity, new every five seconds."""

import time

try:
    from .driver_i2c import bus, climate, words
except ImportError:
    from driver_i2c import bus, climate, words

_START = b"\x21\xb1"
_IS_READY = b"\xe4\xb8"
_READ = b"\xec\x05"


class Scd4x:
    """`{"name": "air", "address": 98}`, and the bus's pins."""

    NAME = "air"

    def __init__(self, name=NAME, address=0x62, **pins):
        self._name, self._address, self._bus = name, address, bus(**pins)
        try:
            self._bus.writeto(address, _START)
        except OSError:  # it measures already, and takes no such command: it was not restarted with the board
            self._ask(_IS_READY, 3)  # or is not there

    def read(self):
        """Return what was measured, or nothing where that was read already."""
        [ready] = self._ask(_IS_READY, 3)
        if not ready & 0x7FF:
            return []
        carbon_dioxide, temperature, humidity = self._ask(_READ, 9)
        return [(self._name + "/co2", "ppm", 0, carbon_dioxide)] + climate(self._name, temperature, humidity)

    def _ask(self, command, size):
        self._bus.writeto(self._address, command)
        time.sleep_ms(1)
        return words(self._bus.readfrom(self._address, size))


SENSORS = {"scd4x": Scd4x}
