"""Readings per second and bytes on a serial line of 115,200 baud: the boards' firmware, beside lines of JSON.

Ours counts until the collector's own acknowledgement of the last reading is at the board: signed, sealed, carried,
opened, verified. The peer prints a line of JSON for each reading, which nobody can verify and anybody can read; a line
that noise has hit is lost. Both run on the same MicroPython, with the same ten sensors, over the same kind of line.

What this shows is the line. The processor is this machine's: what a Cortex-M0 spends on it, `crypto_instructions` says.

Beside it, what an envelope costs that board, sealed and by a link key, apart from the signature of what is in it.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.readings import SENSORS
from hil.boards import runtimes
from hil.boards.drivers import open_driver
from hil.boards.emulated_board import EmulatedBoard
from hil.boards.firmware_files import sources
from hil.boards.live_gateway import LiveGateway

BAUD = 115_200
_SAMPLES = 450
_ROUNDS = 3
_SECONDS_MAX = 120.0
_OURS_HEAP_KIB = 2_048
"""All readings wait in RAM for the line, so that nothing but the line and the computing is measured."""

_WALK = """
import time


class Walk:
    def __init__(self):
        self.state, self.values = 1, [2000 + 100 * n for n in range(%d)]

    def read(self):
        taken = []
        for n in range(len(self.values)):
            self.state = self.state * 25173 + 13849 & 0xffff
            self.values[n] += (self.state >> 8) %% 11 - 5
            taken.append(("sensor/%%d" %% n, "Cel", 2, self.values[n]))
        return taken


SENSORS = {"walk": Walk}
"""
_PEER = """
import sys, time
from my_sensors import Walk


def main():
    walk = Walk()
    for _ in range(%d):
        for name, unit, scale, value in walk.read():
            fields = name, unit, time.ticks_ms(), value // 100, value %% 100
            text = '{"n":"%%s","u":"%%s","t":%%d,"v":%%d.%%02d}\\n' %% fields
            sys.stdout.buffer.write(text.encode())
    sys.stdin.buffer.read(1)
"""
_ENVELOPES = """
import sys, time
sys.path.append(".")
import link_keys
import messages
from identity import Identity

identity = Identity(bytes(range(32)), bytes(range(1, 33)))
key, tag, nonce, body = bytes(range(2, 34)), bytes(8), bytes(24), bytes(300)


def write():
    return messages.write_message(identity, messages.TELEMETRY, key, key, bytes(8), 1, 1, 1, body)


def milliseconds(function):
    times = []
    for _ in range(15):
        start = time.ticks_us()
        function()
        times.append(time.ticks_diff(time.ticks_us(), start))
    return sorted(times)[7] / 1000


message = write()
print(
    milliseconds(write),
    milliseconds(lambda: messages.seal(message, identity.noise_public, key, nonce)),
    milliseconds(lambda: link_keys.seal_by_link(message, tag, key, 1)),
)
"""


def main() -> int:
    """Print both rates, the bytes, and their ratios."""
    sensors = {"my_sensors.py": (_WALK % SENSORS).encode()}
    try:
        with TemporaryDirectory() as folder:
            results = [
                (*_ours(Path(folder) / f"ours-{number}", sensors), *_peer(Path(folder) / f"peer-{number}", sensors))
                for number in range(_ROUNDS)
            ]
        signing, sealed, linked = (float(number) for number in open_driver("unix32").run(_ENVELOPES, sources()).split())
    except runtimes.MissingError as error:
        print(f"error: {error}\nhint: python -m hil.boards.runtimes unix32 shows what is missing", file=sys.stderr)
        return 2
    our_rate, our_bytes, peer_rate, peer_bytes = (median(column) for column in zip(*results, strict=True))
    print(f"readings/s at {BAUD} baud, signed, sealed, acknowledged end to end {our_rate:>10,.0f}")
    print(f"readings/s at {BAUD} baud, JSON, one a line, nobody answers        {peer_rate:>10,.0f}")
    print(f"  ratio, median of {_ROUNDS} {our_rate / peer_rate:>52.1f}")
    print(f"bytes on the line per reading, both directions                  {our_bytes:>12.2f}")
    print(f"  the same as JSON                                              {peer_bytes:>12.2f}")
    print(f"  ratio                                                         {our_bytes / peer_bytes:>12.3f}")
    print(f"ms for a message of 300 bytes: its sealed envelope              {sealed:>12.3f}")
    print(f"  its link envelope                                             {linked:>12.3f}")
    print(f"  ratio                                                         {linked / sealed:>12.3f}")
    print(f"  its signature, which both have                                {signing:>12.3f}")
    return 0


def _ours(folder: Path, sensors: dict[str, bytes]) -> tuple[float, float]:
    settings = {
        "interval_seconds": 0.001,
        "batch_seconds": 1,
        "batch_bytes": 2_560,
        "outbox_bytes": 1 << 20,
        "samples": _SAMPLES,
        "sensors": [["walk", {}]],
    }
    board = EmulatedBoard(folder, settings=settings, modules=sources() | sensors, heap_kib=_OURS_HEAP_KIB, baud=BAUD)
    board.start()
    gateway = LiveGateway(board)
    try:
        gateway.serve(lambda: gateway.identities)
        start, before = time.monotonic(), sum(board.line.transferred)
        gateway.serve(lambda: gateway.collector.readings >= _SAMPLES * SENSORS)
        seconds = time.monotonic() - start
        return _SAMPLES * SENSORS / seconds, (sum(board.line.transferred) - before) / (_SAMPLES * SENSORS)
    finally:
        gateway.stop()
        board.close()


def _peer(folder: Path, sensors: dict[str, bytes]) -> tuple[float, float]:
    modules = {"ports.py": (_PEER % _SAMPLES).encode(), **sensors}
    board = EmulatedBoard(folder, modules=modules, heap_kib=_OURS_HEAP_KIB, baud=BAUD)
    port = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    board.start()
    text = b""
    try:
        start = time.monotonic()
        while text.count(b"\n") < _SAMPLES * SENSORS:
            if not select.select([port], [], [], _SECONDS_MAX)[0]:
                raise TimeoutError("the peer says nothing")
            text += os.read(port, 65_536)
        values = [json.loads(line)["v"] for line in text.splitlines()]
        seconds = time.monotonic() - start
        return len(values) / seconds, sum(board.line.transferred) / len(values)
    finally:
        os.close(port)
        board.close()


if __name__ == "__main__":
    sys.exit(main())
