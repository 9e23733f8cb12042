"""A board's sleep in its port's terms: `machine.lightsleep`, `deepsleep`, the clock that continues, its memory, pins.

Loaded if `covey.json` has "sleep".
"""

import machine
import time

FILE = "sleep.cbor"


class Power:
    """What a port has of it.

    Args:
        files: for what the clock's memory does not take.
    """

    def __init__(self, files):
        self._files = files
        clock = machine.RTC() if hasattr(machine, "RTC") else None
        self._clock = clock if hasattr(clock, "memory") else None

    def now_us(self):
        """Return microseconds of the clock that continues in any sleep."""
        return time.time_ns() // 1000 if hasattr(time, "time_ns") else int(time.time()) * 1_000_000

    def keep(self, state):
        """Put a state into the clock's memory; return whether there is one that takes it."""
        if self._clock is None:
            return False
        try:
            self._clock.memory(state)
            return bytes(self._clock.memory()) == state
        except (ValueError, OSError):  # too long
            self._clock.memory(b"")
            return False

    def write(self, state):
        """Put a state onto flash; return whether that took it."""
        try:
            self._files.write(FILE, state)
        except OSError:
            return False
        return True

    def take(self):
        """Return the state that was kept, once; None where there is none."""
        state = bytes(self._clock.memory()) if self._clock is not None else b""
        if state:
            self._clock.memory(b"")
        written = self._files.read(FILE)
        if written:
            self._files.write(FILE, b"")
        return state or written or None

    def light(self, milliseconds):
        """Sleep, then continue."""
        machine.lightsleep(milliseconds)

    def deep(self, milliseconds):
        """Sleep, then restart."""
        machine.deepsleep(milliseconds)


def wake_on(pin, level=0):
    """Have a pin's level wake the board."""
    found = machine.Pin(pin, machine.Pin.IN)
    try:
        import esp32

        esp32.wake_on_ext0(found, esp32.WAKEUP_ANY_HIGH if level else esp32.WAKEUP_ALL_LOW)
    except ImportError:
        edge = machine.Pin.IRQ_RISING if level else machine.Pin.IRQ_FALLING
        try:
            found.irq(lambda _: None, edge, wake=machine.SLEEP | machine.DEEPSLEEP)
        except (AttributeError, TypeError):
            found.irq(lambda _: None, edge)


def start(files, settings, board, clock):
    """Give a board its sleep; return what is wrong with it, as lines for people."""
    from sleeping import begin

    wrong = []
    if settings.get("wake"):
        try:
            wake_on(**settings["wake"])
        except Exception as error:  # no such pin: it sleeps all the same
            wrong = ["wake: %s (%s)" % (type(error).__name__, error)]
    begin(board, Power(files), settings["sleep"] == "deep", clock)
    return wrong
