"""SHT30, SHT31, SHT35: temperature and humidity."""

try:
    from .driver_i2c import bus, climate, words
except ImportError:
    from driver_i2c import bus, climate, words

_MEASURE = b"\x24\x00"  # once, with high repeatability, without stretching the clock: 15 ms


class Sht3x:
    """`{"name": "air", "address": 68}`, and the bus's pins."""

    NAME = "air"

    def __init__(self, name=NAME, address=0x44, **pins):
        self._name, self._address, self._bus = name, address, bus(**pins)
        self.prepare()

    def prepare(self):
        """Begin to measure."""
        self._bus.writeto(self._address, _MEASURE)

    def read(self):
        """Return what was measured."""
        return climate(self._name, *words(self._bus.readfrom(self._address, 6)))


SENSORS = {"sht3x": Sht3x}
