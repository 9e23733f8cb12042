"""DS18B20 and its like on a 1-wire bus, by MicroPython's own `ds18x20` and `onewire`.

Ports for the RP2040 and the ESP32 bring both; elsewhere `mpremote mip install ds18x20`.
"""

_NEVER_MEASURED = 850_000  # what the chip says between its power and its first measurement: 85 degrees


class Ds18b20:
    """`{"pin": 22, "name": "water"}`: all on the pin, each with its number in its name, as `water/28ff641e8416035c`.

    A single one has it too: else its name would be another one's at a start at which that one alone answers.
    """

    NAME = "water"

    def __init__(self, pin, name=NAME):
        from ds18x20 import DS18X20
        from machine import Pin
        from onewire import OneWire

        self._chips = DS18X20(OneWire(Pin(pin)))
        found = self._chips.scan()
        if not found:
            raise ValueError("none on pin %s" % pin)
        self._names = [(rom, name + "/" + _hex(rom)) for rom in sorted(map(bytes, found))]
        self._last = {}
        self.prepare()

    def prepare(self):
        """Have all of them measure, which takes 750 ms."""
        self._chips.convert_temp()

    def read(self):
        """Yield what they measured; one that does not answer leaves out itself and those behind it."""
        for rom, name in self._names:
            value = round(10_000 * self._chips.read_temp(rom))
            if value == _NEVER_MEASURED and abs(self._last.get(rom, 0) - value) > 50_000:
                raise ValueError(name + " has not measured")
            self._last[rom] = value
            yield name, "Cel", 4, value


def _hex(rom):
    return "".join(["%02x" % byte for byte in rom])


SENSORS = {"ds18b20": Ds18b20}
