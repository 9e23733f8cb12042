"""A board's firmware on ports with an event loop: opens the line, and turns `core` as time and bytes come.

`covey.json` beside it says what is not as usual:

    {"interval_seconds": 10, "batch_seconds": 60, "report_seconds": 300, "samples": null,
     "batch_bytes": 1024, "outbox_bytes": 8192, "link_keys": true, "mtu": 256, "watchdog": true, "prompt_seconds": 1.5,
     "uart": {"id": 1, "baud": 115200, "tx": 4, "rx": 5},
     "sensors": [["temperature", {}], ["analog", {"pin": 26, "name": "soil", "unit": "%"}]]}

Batches and outbox take a share of the heap where no number is given, and link keys are used where it has room. After `samples`, sampling ends. Without "uart" the
line is the USB port that the prompt is on, too. Byte 0x03 then no longer interrupts: for the prompt restart the board
and write 0x03 five times in its first second and a half, as `covey mcu flash` does.
"""

import gc
import json
import sys
import time

import core
import sensors
from micropython import const
from storage import Files

SETTINGS_FILE = "covey.json"
SENSORS = [["counter", {}], ["memory", {}]]
_BATCH_BYTES_MIN = const(320)
_OUTBOX_BYTES_MIN = const(1_200)
_WORKING_BYTES = const(4_000)  # what signing and sealing take beside
_LINK_KEYS_FREE = const(24_000)
_WAIT_MS = const(10)
_WATCHDOG_MS = const(8_000)  # the longest that an RP2040 takes; no computation of ours takes half of it


def interrupt_on(byte):
    """Make a byte interrupt the program, or none (-1): frames may hold any."""
    try:
        import micropython

        micropython.kbd_intr(byte)
    except (AttributeError, ImportError):
        pass  # this port's line is not its prompt


class Console:
    """The line on standard input and output: USB, or a process's pipes."""

    def __init__(self, mtu):
        import select

        interrupt_on(-1)
        self._buffer = bytearray(mtu)
        self._poll = select.poll()
        self._poll.register(sys.stdin, select.POLLIN)

    def read(self, wait_ms):
        """Return what has arrived, after `wait_ms` at most.

        Raises:
            EOFError: there is nobody any more.
        """
        size = 0
        while size < len(self._buffer) and self._poll.poll(0 if size else wait_ms):
            byte = sys.stdin.buffer.read(1)
            if not byte:
                raise EOFError
            self._buffer[size] = byte[0]
            size += 1
        return bytes(self._buffer[:size])

    def write(self, raw):
        """Write all of it."""
        sys.stdout.buffer.write(raw)


class Clock:
    """Microseconds since the start, out of a counter that wraps."""

    def __init__(self):
        self._now = 0
        self._ticks = time.ticks_us()

    def now_us(self):
        """Return them; to be called every few minutes at least."""
        ticks = time.ticks_us()
        self._now += time.ticks_diff(ticks, self._ticks)
        self._ticks = ticks
        return self._now


def read_settings():
    """Return what `covey.json` says, or nothing where there is none or it is none."""
    try:
        with open(SETTINGS_FILE) as file:
            settings = json.load(file)
        return settings if isinstance(settings, dict) else {}
    except (OSError, ValueError):
        return {}


def wants_prompt(line, clock, seconds):
    """Say whether somebody asks for the prompt by 0x03, five times in a row."""
    asked = b""
    while clock.now_us() < 1_000_000 * seconds:
        asked = (asked + line.read(_WAIT_MS))[-64:]
        if b"\x03\x03\x03\x03\x03" in asked:
            interrupt_on(3)
            return True
    return False


def run(board, line, clock, watchdog=None, seconds=None):
    """Serve the line for good, until a restart is asked for, or for so many seconds."""
    while not board.restart_wanted and (seconds is None or clock.now_us() < 1_000_000 * seconds):
        try:
            raw = line.read(_WAIT_MS)
            if raw:
                board.feed(raw, clock.now_us())
            out = board.tick(clock.now_us())
            if out:
                line.write(out)
        except MemoryError:
            board.out_of_memory()
        if watchdog is not None:
            watchdog.feed()


def load_identity(files):
    """Return the board's identity; what draws and reads it is let go of, as the heap is small."""
    import identity

    del sys.modules["identity"]
    return identity.load_identity(files)


def _watchdog():
    try:
        from machine import WDT

        return WDT(timeout=_WATCHDOG_MS)
    except (ImportError, ValueError):
        return None  # this port has none, or none for so long


def main(seconds=None):
    """Start the firmware; it ends only if the prompt is asked for, or after so many seconds."""
    settings = read_settings()
    gc.collect()
    free = gc.mem_free()
    gc.threshold(free // 16)  # before the heap is full: what stays then lies together
    limits = core.Settings(
        interval_us=int(1_000_000 * settings.get("interval_seconds", 10)),
        batch_us=int(1_000_000 * settings.get("batch_seconds", 60)),
        report_us=int(1_000_000 * settings.get("report_seconds", 300)),
        batch_bytes=settings.get("batch_bytes", max(_BATCH_BYTES_MIN, free // 40)),
        outbox_bytes=settings.get("outbox_bytes", max(_OUTBOX_BYTES_MIN, (free - _WORKING_BYTES) // 5)),
        mtu=settings.get("mtu", 256),
        samples=settings.get("samples"),
        link_keys=settings.get("link_keys", free >= _LINK_KEYS_FREE),
    )
    clock = Clock()
    uart = settings.get("uart")
    if uart:
        from uart import Uart

        line = Uart(limits.mtu, **uart)
    else:
        line = Console(limits.mtu)
        if wants_prompt(line, clock, settings.get("prompt_seconds", 1.5)):
            return
    files = Files()
    opened, failed = sensors.open_sensors(settings.get("sensors", SENSORS))
    board = core.Core(load_identity(files), files, opened, limits)
    board.counters["sensor_errors"] += failed
    watchdog = _watchdog() if seconds is None and settings.get("watchdog", True) else None
    run(board, line, clock, watchdog, seconds)
    if seconds is None:
        import machine

        (machine.reset if hasattr(machine, "reset") else sys.exit)()
