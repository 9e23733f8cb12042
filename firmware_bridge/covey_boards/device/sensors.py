"""What a board measures. A sensor is an object whose `read()` gives (name, unit, scale, value), as many as it likes.

`scale` is the number of decimal places of a whole-numbered value: 2,153 with scale 2 is 21.53. None sends the float as
it is; most boards have floats of 32 bits, which hold seven digits. Units are SenML's (RFC 8428): Cel, %RH, V, Pa.

A sensor of your own: put a file `my_sensors.py` on the board with

    SENSORS = {"scd41": Scd41}

name it in `covey.json` under "sensors" with what its class takes, and read nothing there that takes longer than a tenth
of a second: the line waits meanwhile.
"""

import gc

try:
    from covey_boards.shared import messages
except ImportError:
    import messages


class Counter:
    """Counts its own readings: a gap in it is a gap on the way."""

    def __init__(self, name="board:counter"):
        self._name = name
        self._count = 0

    def read(self):
        """Return the next number."""
        self._count += 1
        return [(self._name, "", 0, self._count)]


class Memory:
    """Free bytes of the heap."""

    def __init__(self, name="board:memory"):
        self._name = name

    def read(self):
        """Return them after a collection."""
        gc.collect()
        return [(self._name, "B", 0, gc.mem_free())]


SENSORS = {"counter": Counter, "memory": Memory}


def open_sensors(wanted):
    """Return the sensors of a list of [kind, {argument: value}] that can be opened, and why others cannot, as lines."""
    opened, failed = [], []
    for entry in wanted:
        try:
            name, arguments = entry
            opened.append(_kind(name)(**arguments))
        except MemoryError:
            raise
        except Exception as error:  # no such kind or argument, not on this board, or not connected
            failed.append(messages.trouble(entry, error))
    return opened, failed


def _kind(name):
    """Return a sensor's class. What is not wanted is not loaded: names alone cost a board kilobytes."""
    if name in SENSORS:
        return SENSORS[name]
    try:
        from my_sensors import SENSORS as own
    except ImportError:
        own = {}
    if name in own:
        return own[name]
    from hardware import SENSORS as built_in

    return built_in[name]
