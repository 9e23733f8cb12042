"""MicroPython's `time` out of the CMSDK timer 0 of MPS2, 25 MHz: its port to QEMU has none."""

# ruff: noqa: F821

from micropython import const

_PERIOD = const(0x1FFFFFFF)  # 2^29 microseconds, as a small integer holds them
_state = bytearray(8)  # the counter when it was last looked at, and microseconds


@micropython.viper
def _start():
    timer = ptr32(1 << 30)
    timer[0] = 0
    timer[2] = -1
    timer[1] = -1
    timer[0] = 1


@micropython.viper
def _microseconds(state: ptr32) -> int:
    """Add what has passed, at most 85 seconds: whole microseconds only, the rest is left for the next time."""
    passed = (state[0] - ptr32(1 << 30)[1]) // 25
    state[0] -= 25 * passed
    state[1] = (state[1] + passed) & 0x1FFFFFFF
    return state[1]


def ticks_us():
    return _microseconds(_state)


def ticks_ms():
    """Not to be mixed with what wraps elsewhere: `ticks_diff` is for microseconds alone."""
    return _microseconds(_state) // 1000


def ticks_diff(later, earlier):
    difference = (later - earlier) & _PERIOD
    return difference - _PERIOD - 1 if difference > _PERIOD >> 1 else difference


def sleep_us(n):
    start = ticks_us()
    while ticks_diff(ticks_us(), start) < n:
        pass


def sleep_ms(n):
    sleep_us(1000 * n)


_start()
_state[:4] = b"\xff\xff\xff\xff"
