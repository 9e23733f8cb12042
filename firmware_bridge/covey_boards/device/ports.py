"""A board's firmware on ports with an event loop: opens the line, and turns `core` as time and bytes come.

`covey.json` in the same folder has what differs from the defaults (`opening.py` checks it):

    {"interval_seconds": 10, "batch_seconds": 60, "report_seconds": 300, "samples": null,
     "batch_bytes": 1024, "outbox_bytes": 8192, "link_keys": true, "mtu": 256, "watchdog": true, "prompt_seconds": 1.5,
     "uart": {"id": 1, "baud": 115200, "tx": 4, "rx": 5},
     "udp": {"host": "192.168.1.2", "port": 7425, "wifi": {"ssid": "shed", "key": "..."}},
     "sleep": "deep", "wake": {"pin": 4, "level": 0}, "rest_seconds": 30,
     "sensors": [["temperature", {}], ["analog", {"pin": 26, "name": "soil", "unit": "%"}]],
     "series": ["soil alarm < 20 hysteresis 2"]}

Without numbers, batches and outbox get a share of the heap; link keys are used if it has room. After `samples`,
sampling ends. Without "uart" and "udp" the line is the USB port of the prompt. Byte 0x03 then no longer interrupts: for
the prompt restart the board and write 0x03 five times in its first second and a half, as `covey mcu flash` does.
"""

import gc
import sys
import time

from micropython import const
from storage import Files

_WAIT_MS = const(10)
_ALARMS_FREE = const(21_200)  # before `core` is loaded: 17 KB are taken once the board runs, and signing takes 4
# Each before those that import it, so that what loading leaves behind lies between no two of them.
_MODULES = ("cbor", "framing", "link_machine", "tweetnacl", "messages", "batch", "outbox", "reporting", "sampling", "core")


class Console:
    """The line on standard input and output: USB, or a process's pipes."""

    def __init__(self, mtu):
        import select

        self.interrupt_on(-1)
        self._buffer = bytearray(mtu)
        self._poll = select.poll()
        self._poll.register(sys.stdin, select.POLLIN)

    def interrupt_on(self, byte):
        """Make a byte interrupt the program, or none (-1): frames may hold any."""
        try:
            import micropython

            micropython.kbd_intr(byte)
        except (AttributeError, ImportError):
            pass  # this port's line is not its prompt

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


def run(board, line, clock, watchdog=None, seconds=None):
    """Serve the line until a restart is requested, or for so many seconds.

    Raises:
        EOFError: the line is closed.
    """
    out = b""
    while not board.restart_wanted and (seconds is None or clock.now_us() < 1_000_000 * seconds):
        try:
            raw = line.read(0 if out else _WAIT_MS)  # there may be more to write
            if raw:
                board.feed(raw, clock.now_us())
            out = board.tick(clock.now_us())
            if out:
                line.write(out)
        except MemoryError:
            board.out_of_memory()
        except EOFError:
            raise
        except Exception as error:  # nothing ends the firmware in silence
            board.failed(error)
        if watchdog is not None:
            watchdog.feed()
        if board.sleeping is not None:
            board.sleeping.sleep(clock, watchdog)


def _once(name, *fields):
    """Call `start` of a module that is needed once, then unload it, as the heap is small."""
    try:
        return __import__(name).start(*fields)
    finally:
        sys.modules.pop(name, None)
        gc.collect()


def _serve(line, clock, watchdog, seconds, name, *fields):
    """Run a board of a module; return what its restart waits for, or why it fails. What it held goes with this frame."""
    try:
        for each in _MODULES if name == "starting" else _MODULES[:5]:
            if each == "core" and " alarm" in str(fields[1].get("series")) and gc.mem_free() >= _ALARMS_FREE:
                __import__("alarms")  # where it leaves no hole; without the room, `starting` says so
            __import__(each)  # below what only the start needs, and one by one: the heap is to stay whole
            gc.collect()
        board = _once(name, *fields)
        run(board, line, clock, watchdog, seconds)
        return board.restart_wanted
    except EOFError:
        raise
    except Exception as error:
        return "the start: %s (%s)" % (type(error).__name__, error)


def _room(files):
    """Return what the previous start has made room for, as `attending` takes it: once, whatever the result."""
    try:
        wanted = files.read("room.cbor")
        if wanted:
            files.write("room.cbor", b"")
            return None, wanted
    except OSError:
        pass  # then nothing is taken, and the board measures
    return None


def main(seconds=None):
    """Start the firmware; it ends only if the prompt is asked for, or after so many seconds."""
    files, clock = Files(), Clock()
    line, watchdog, settings, wrong = _once("opening", files, Console, clock)
    if line is None:
        return
    on, rest_seconds = (line, clock, watchdog), settings.get("rest_seconds")
    reason = _room(files) or _serve(*on, seconds, "starting", files, settings, wrong, clock)
    gc.collect()
    if isinstance(reason, tuple):  # an order or a firmware needs the heap
        reason = _serve(*on, None, "attending", files, clock.now_us(), *reason)
    if isinstance(reason, str):
        _serve(*on, None, "failing", reason, clock.now_us(), rest_seconds)
    if seconds is None:
        import machine

        (machine.reset if hasattr(machine, "reset") else sys.exit)()
