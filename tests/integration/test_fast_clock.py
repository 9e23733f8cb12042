"""The clock of benchmarks: programs that have it in their environment wait by it, and read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from bench.clock import Clock, compiles
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.skipif(not compiles(), reason="needs a C compiler")

_DAY_S = 86_400.0
_WAITS = """
import asyncio, json, queue, select, socket, subprocess, threading, time
DAY = 86_400.0
silent, _ = socket.socketpair()
poll, epoll = select.poll(), select.epoll()
poll.register(silent, select.POLLIN)
epoll.register(silent, select.EPOLLIN)
held = threading.Lock()
held.acquire()
condition = threading.Condition()

def fails(error, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except error:
        return
    raise AssertionError

def receive():
    silent.settimeout(DAY)
    fails(TimeoutError, silent.recv, 1)

def wait():
    with condition:
        condition.wait(DAY)

waits = {
    "sleep": lambda: time.sleep(DAY),
    "lock": lambda: held.acquire(timeout=DAY),
    "condition": wait,
    "queue": lambda: fails(queue.Empty, queue.Queue().get, timeout=DAY),
    "select": lambda: select.select([silent], [], [], DAY),
    "poll": lambda: poll.poll(DAY * 1_000),
    "epoll": lambda: epoll.poll(DAY),
    "socket": receive,
    "asyncio": lambda: asyncio.run(asyncio.sleep(DAY)),
    "a program": lambda: subprocess.run(["sleep", str(DAY)], check=True),
}
took = {}
for name, wait in waits.items():
    began, wall = time.monotonic(), time.time()
    wait()
    took[name] = time.monotonic() - began, time.time() - wall
print(json.dumps(took))
"""
_REPORTS = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


def test_each_wait_lasts_as_long_as_the_clock_says(tmp_path: Path) -> None:
    clock = Clock(tmp_path, speed=500_000.0)
    done = subprocess.run(
        [sys.executable, "-c", _WAITS],
        env={**os.environ, **clock.environment},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert not done.returncode, done.stderr
    for name, took in json.loads(done.stdout).items():
        assert min(took) >= _DAY_S, f"{name}: {took}"


def test_a_wait_that_has_begun_follows_a_change_of_the_speed(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    wait = "import threading; print(flush=True); threading.Event().wait(86_400); print('over')"
    with subprocess.Popen(
        [sys.executable, "-c", wait],
        env={**os.environ, **clock.environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        clock.run(500_000.0)
        said, _ = program.communicate(timeout=GUARD_S)
        assert said == "over\n"


def test_setting_the_wall_clock_leaves_monotonic_time_alone(tmp_path: Path) -> None:
    clock = Clock(tmp_path, wall=1_000_000_000.0)
    with subprocess.Popen(
        [sys.executable, "-c", _REPORTS],
        env={**os.environ, **clock.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:

        def reported() -> tuple[float, float]:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write("\n")
            program.stdin.flush()
            wall, monotonic = program.stdout.readline().split()
            return float(wall), float(monotonic)

        wall, monotonic = reported()
        assert 1_000_000_000.0 <= wall <= clock.wall()
        clock.set(2_000_000_000.0)
        later_wall, later_monotonic = reported()
        assert 2_000_000_000.0 <= later_wall <= clock.wall()
        assert monotonic <= later_monotonic <= clock.monotonic() < monotonic + _DAY_S
        assert program.stdin is not None
        program.stdin.close()


def test_the_clock_here_shows_what_programs_see(tmp_path: Path) -> None:
    clock = Clock(tmp_path, wall=0.0, speed=1_000.0)
    before = clock.monotonic(), clock.wall()
    ask = "import time; print(time.monotonic(), time.time())"
    environment = {**os.environ, **clock.environment}
    said = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    after = clock.monotonic(), clock.wall()
    for first, seen, last in zip(before, map(float, said.stdout.split()), after, strict=True):
        assert first <= seen <= last


def test_a_wait_that_has_begun_ends_when_the_clock_jumps_over_its_end(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    wait = "import time; began = time.time(); print(flush=True); time.sleep(86_400); print(time.time() - began)"
    with subprocess.Popen(
        [sys.executable, "-c", wait],
        env={**os.environ, **clock.environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()

        def is_over() -> bool:
            clock.jump(_DAY_S)  # again: the program may not have begun to wait when the first one came
            with suppress(subprocess.TimeoutExpired):
                program.wait(0.05)
            return program.poll() is not None

        wait_until(is_over, "the wait is over")
        assert float(program.stdout.read()) >= _DAY_S


def test_the_kernel_says_what_the_clock_says_of_its_time_service(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    ask = "from covey.adapters.c_library import clock_is_synchronised; print(clock_is_synchronised())"
    for synchronised in (True, False):
        clock.synchronise(synchronised)
        said = subprocess.check_output(
            [sys.executable, "-c", ask], env={**os.environ, **clock.environment}, text=True, timeout=GUARD_S
        )
        assert said == f"{synchronised}\n"


def test_a_wait_takes_a_least_real_time(tmp_path: Path) -> None:
    clock = Clock(tmp_path, speed=1_000.0, least_s=0.02)
    wait = "import time; began = time.monotonic(); time.sleep(1.0); print(time.monotonic() - began)"
    said = subprocess.check_output(
        [sys.executable, "-c", wait], env={**os.environ, **clock.environment}, text=True, timeout=GUARD_S
    )
    assert float(said) >= 20.0
