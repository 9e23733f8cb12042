"""Sensors built into MicroPython's boards; see `sensors`."""

import sys


class Temperature:
    """The processor's own temperature: an RP2040's or RP2350's through its ADC, an ESP32's through `esp32`."""

    NAME = "board:temperature"

    def __init__(self, name=NAME):
        self._name = name
        if sys.platform == "rp2":
            from machine import ADC

            adc = ADC(ADC.CORE_TEMP)
            self._hundredths = lambda: _rp2_hundredths(adc.read_u16())
        else:
            from esp32 import mcu_temperature

            self._hundredths = lambda: 100 * mcu_temperature()

    def read(self):
        """Return hundredths of a degree."""
        return [(self._name, "Cel", 2, self._hundredths())]


def _rp2_hundredths(raw):
    """Return hundredths of a degree Celsius: 27 degrees at 0.706 V, 1.721 mV less for each more (RP2040 datasheet)."""
    microvolts = raw * 3_300_000 // 65_535
    return 2_700 - (microvolts - 706_000) * 100 // 1_721


class Analog:
    """A pin of the ADC, times a factor."""

    def __init__(self, pin, name, unit="V", scale=4, at_full=33_000):
        from machine import ADC, Pin

        self._adc = ADC(Pin(pin))
        self._name, self._unit, self._scale, self._at_full = name, unit, scale, at_full

    def read(self):
        """Return `at_full` at full scale, in `scale` decimal places."""
        return [(self._name, self._unit, self._scale, self._adc.read_u16() * self._at_full // 65_535)]


SENSORS = {"temperature": Temperature, "analog": Analog}
