"""A board's sensors. A sensor is an object whose `read()` yields any number of (name, unit, scale, value).

`scale` is the number of decimal places of an integer value: 2,153 with scale 2 is 21.53. None sends the float
unchanged; most boards have floats of 32 bits, which hold seven digits. Units are SenML's (RFC 8428): Cel, %RH, V, Pa.

A sensor of your own: put a file `my_sensors.py` on the board with

    SENSORS = {"scd41": Scd41}

and name it in `covey.json` under "sensors" with its class's arguments. Its `read()` must take less than a tenth of a
second, because the line waits meanwhile. A sensor that needs time starts measuring in `prepare()`, which is called a
second before `read()`. A chip's driver is a file of its own, `driver_KIND.py`.
"""

import gc


class Counter:
    """Counts its own readings: a gap in it is a gap on the way."""

    def __init__(self, name="board:counter"):
        self._name = name
        self.kept = 0  # through a deep sleep

    def read(self):
        """Return the next number."""
        self.kept += 1
        return [(self._name, "", 0, self.kept)]


class Memory:
    """Free bytes of the heap."""

    def __init__(self, name="board:memory"):
        self._name = name

    def read(self):
        """Return them after a collection."""
        gc.collect()
        return [(self._name, "B", 0, gc.mem_free())]


SENSORS = {"counter": Counter, "memory": Memory}
