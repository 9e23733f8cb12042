"""INA219: voltage, current and power of the load behind its shunt."""

try:
    from .driver_i2c import bus
except ImportError:
    from driver_i2c import bus


class Ina219:
    """`{"name": "supply", "address": 64, "shunt_milliohms": 100}`, and the bus's pins.

    The chip's own calibration is not used: it would give what is reckoned here, with fewer digits.
    """

    NAME = "supply"

    def __init__(self, name=NAME, address=0x40, shunt_milliohms=100, **pins):
        self._name, self._address, self._bus = name, address, bus(**pins)
        self._shunt_milliohms = shunt_milliohms
        self._register(0)

    def read(self):
        """Return them: steps of 4 mV and, at 100 milliohms, of 0.1 mA."""
        steps = self._register(1)
        microamperes = 10_000 * (steps - 65_536 if steps & 0x8000 else steps) // self._shunt_milliohms
        millivolts = 4 * (self._register(2) >> 3)
        return [
            (self._name + "/voltage", "V", 3, millivolts),
            (self._name + "/current", "A", 6, microamperes),
            (self._name + "/power", "W", 6, millivolts * microamperes // 1_000),
        ]

    def _register(self, number):
        raw = self._bus.readfrom_mem(self._address, number, 2)
        return raw[0] << 8 | raw[1]


SENSORS = {"ina219": Ina219}
