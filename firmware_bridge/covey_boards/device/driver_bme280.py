"""BME280 and BMP280: temperature, pressure and, on the first, humidity."""

import struct

try:
    from .driver_i2c import bus
except ImportError:
    from driver_i2c import bus

_BMP280 = 0x58
_BME280 = 0x60
_ONCE = b"\x25"  # temperature and pressure, no oversampling, then asleep: 8 ms, 1 Pa of noise


class Bme280:
    """`{"name": "air", "address": 118}`, and the bus's pins. Some boards have the chip at address 119.

    What the chip counts becomes units by its own factors, in whole numbers, as its datasheet lays down (section 4.2.3
    and appendix 8.1 of BST-BME280-DS002).
    """

    NAME = "air"

    def __init__(self, name=NAME, address=0x76, **pins):
        self._name, self._address, self._bus = name, address, bus(**pins)
        [kind] = self._read(0xD0, 1)
        if kind not in (_BMP280, _BME280):
            raise ValueError("chip %d" % kind)
        self._factors = struct.unpack("<HhhHhhhhhhhh", self._read(0x88, 24))
        self._damp = self._humid_factors() if kind == _BME280 else None
        self.prepare()

    def prepare(self):
        """Begin to measure."""
        if self._damp:
            self._bus.writeto_mem(self._address, 0xF2, b"\x01")
        self._bus.writeto_mem(self._address, 0xF4, _ONCE)

    def read(self):
        """Return what was measured: hundredths of a degree and of a per cent, tenths of a pascal."""
        raw = self._read(0xF7, 8)
        fine = self._fine(raw[3] << 12 | raw[4] << 4 | raw[5] >> 4)
        readings = [(self._name + "/temperature", "Cel", 2, (fine * 5 + 128) >> 8)]
        pressure = self._pressure(raw[0] << 12 | raw[1] << 4 | raw[2] >> 4, fine)
        readings.append((self._name + "/pressure", "Pa", 1, pressure * 10 >> 8))
        if self._damp:
            readings.append((self._name + "/humidity", "%RH", 2, self._humidity(raw[6] << 8 | raw[7], fine)))
        return readings

    def _read(self, register, size):
        return self._bus.readfrom_mem(self._address, register, size)

    def _humid_factors(self):
        [first] = self._read(0xA1, 1)
        second, third, high4, low, high5, sixth = struct.unpack("<hBbBbb", self._read(0xE1, 7))
        return first, second, third, high4 << 4 | low & 15, high5 << 4 | low >> 4, sixth

    def _fine(self, count):
        """Return the temperature in steps of 1/5120 of a degree."""
        if count == 0x80000:
            raise ValueError("it has not measured")
        first, second, third = self._factors[:3]
        off = (count >> 4) - first
        return (((count >> 3) - (first << 1)) * second >> 11) + ((off * off >> 12) * third >> 14)

    def _pressure(self, count, fine):
        """Return 1/256 of a pascal."""
        p1, p2, p3, p4, p5, p6, p7, p8, p9 = self._factors[3:]
        warm = fine - 128_000
        offset = warm * warm * p6 + (warm * p5 << 17) + (p4 << 35)
        slope = (warm * warm * p3 >> 8) + (warm * p2 << 12)
        slope = ((1 << 47) + slope) * p1 >> 33
        pressure = (((1_048_576 - count) << 31) - offset) * 3_125 // slope
        return (pressure + (p9 * (pressure >> 13) * (pressure >> 13) >> 25) + (p8 * pressure >> 19) >> 8) + (p7 << 4)

    def _humidity(self, count, fine):
        """Return hundredths of a per cent."""
        h1, h2, h3, h4, h5, h6 = self._damp
        warm = fine - 76_800
        line = ((count << 14) - (h4 << 20) - h5 * warm + 16_384) >> 15
        bend = ((warm * h6 >> 10) * ((warm * h3 >> 11) + 32_768) >> 10) + 2_097_152
        steps = line * (bend * h2 + 8_192 >> 14)
        steps -= ((steps >> 15) * (steps >> 15) >> 7) * h1 >> 4
        return (min(419_430_400, max(0, steps)) >> 12) * 100 >> 10


SENSORS = {"bme280": Bme280}
