"""The machine's own clocks, asked for real."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from covey.adapters.clock import SystemClock


def test_monotonic_time_is_time_since_boot_and_moves_on() -> None:
    clock = SystemClock()
    before = clock.monotonic_us()
    uptime_us = float(Path("/proc/uptime").read_text().split()[0]) * 1e6
    assert before - 20_000 <= uptime_us <= clock.monotonic_us() + 20_000


def test_wall_time_is_unix_microseconds() -> None:
    before = time.time_ns() // 1000
    assert before <= SystemClock().wall_us() <= time.time_ns() // 1000


def test_a_clock_that_was_never_set_counts_on_from_a_time_that_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    earliest_us = 1_800_000_000_000_000
    clock = SystemClock(earliest_us)
    monkeypatch.setattr(clock, "synchronised", lambda: False)
    monkeypatch.setattr("covey.adapters.clock.time.time_ns", lambda: 12_000_000_000)
    first = clock.wall_us()
    assert earliest_us <= first <= clock.wall_us() < earliest_us + 60_000_000
    monkeypatch.setattr(clock, "synchronised", lambda: True)
    assert clock.wall_us() == 12_000_000, "a time service knows better"


def test_boot_id_is_of_the_boot_not_of_the_object() -> None:
    uuid = Path("/proc/sys/kernel/random/boot_id").read_text()
    assert SystemClock().boot_id() == SystemClock().boot_id() == bytes.fromhex(uuid.replace("-", "")[:16])


@pytest.mark.processes
def test_synchronised_agrees_with_others_that_ask_the_kernel() -> None:
    libc, unknown, unsynchronised = ctypes.CDLL(None), -1, 5  # what ntp_gettime(3) returns
    state = libc.ntp_gettime(ctypes.create_string_buffer(128))
    expected = Path("/run/systemd/timesync/synchronized").exists() if state == unknown else state != unsynchronised
    opinions = [expected]
    if shutil.which("timedatectl"):
        words = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
        shown = subprocess.run(words, capture_output=True, text=True, check=False)
        opinions += [shown.stdout.strip() == "yes"] * (shown.returncode == 0)  # it needs systemd's bus
    assert opinions == [SystemClock().synchronised()] * len(opinions)


def test_synchronised_answers_each_time() -> None:
    clock = SystemClock()
    assert isinstance(clock.synchronised(), bool)
    assert clock.synchronised() is clock.synchronised()


@pytest.mark.processes
def test_the_kernels_answer_costs_no_ctypes_and_nothing_unasked() -> None:
    program = (
        "import sys; from covey.adapters.clock import SystemClock; c = SystemClock(); "
        "c.monotonic_us(), c.wall_us(), c.boot_id(); assert 'covey.adapters.c_library' not in sys.modules; "
        "c.synchronised(); assert 'ctypes' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
