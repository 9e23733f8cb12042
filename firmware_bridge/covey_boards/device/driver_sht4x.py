"""SHT40, SHT41, SHT45: temperature and humidity."""

try:
    from .driver_i2c import bus, climate, words
except ImportError:
    from driver_i2c import bus, climate, words

_MEASURE = b"\xfd"  # with high precision: 9 ms


class Sht4x:
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
        temperature, humidity = words(self._bus.readfrom(self._address, 6))
        return climate(self._name, temperature, humidity, 119, -6)


SENSORS = {"sht4x": Sht4x}
