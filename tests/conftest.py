"""Rules for all tests: the quick suite, how many examples Hypothesis tries, and where files lie.

`--quick` is the suite for the loop of edit and test: units, vectors, the rules of the source, a slice of the property
tests and of the simulation.

1. It leaves out the folders of processes and of Spark, and tests marked `slow`, `processes`, `broker` or `spark`.
2. A test of it that starts a process fails, in the whole suite as well. The simulation may: the whole suite shares its
   worlds among processes.
3. A test that uses a tenth of a second of the processor is slow. A quick one that does so is listed at the end, and
   fails if it uses four times as much, as it does not even on a busy machine. Tests that wait are listed as well: for
   how long depends on what else the machine does, so no test fails for it.
4. Hypothesis and the simulation try fewer examples.

`./dev prove` runs the tests of the tests, which `tests/proof.py` describes. `./dev test` leaves them out. With
`--eighth N` it runs an eighth of them: CI takes the next eighth for each commit.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import Collection, Generator, Iterable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import proof

_OPEN_FILES, _LEFT_OPEN_MAX = Path("/proc/self/fd"), 256
"""What a test leaves open goes when its garbage is collected, which may be long after."""

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 4 << 30
"""What the suite needs of it, several times over: containers often have 64 MB there."""

_NOT_QUICK_FOLDERS = ("spark", "integration")
_NOT_QUICK_MARKS = ("slow", "processes", "broker", "spark", "proof")
_SLOW_CPU_S, _QUICK_CPU_S = 0.1, 0.4
"""Processor time from which a test is slow, and from which it may not be quick: a busy machine takes twice as long."""

_QUICK_WAIT_S = 1.0
_GARBAGE = 20_000
"""Objects between two collections: looking more often, through a test's few objects, took 8 % of the time of units."""

_SHARES_WORK = ("meta", "rules", "sim")
"""Whichever test comes first there does what all need (parse the sources), or as much as the number of seeds says."""

_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn", "os.system"}

settings.register_profile(
    "same", derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("same"), max_examples=5)
settings.register_profile("search", settings.get_profile("same"), derandomize=False, max_examples=5_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--quick", action="store_true", help="no processes, no Spark, few examples: seconds")
    parser.addoption("--eighth", type=int, metavar="N", help="of all tests, those of the eighth N, by their names")


def pytest_configure(config: pytest.Config) -> None:
    """Say where files lie, and how far to look: at the same examples; with `HYPOTHESIS_PROFILE=search`, at new ones."""
    quick = config.getoption("--quick")
    if "TMPDIR" not in os.environ and _is_roomy(_MEMORY):
        os.environ["TMPDIR"], tempfile.tempdir = str(_MEMORY), None
    os.environ["LANGUAGE"] = "C"  # else argparse, which pytest has loaded, looks for a translation of each heading
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick" if quick else "same"))
    exempt = () if quick else (*_NOT_QUICK_FOLDERS, "sim")
    sys.addaudithook(partial(_refuse_processes, exempt))


def _is_roomy(folder: Path) -> bool:
    """Say whether a folder has room for the suite's files, and lets programs among them run."""
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free >= _MEMORY_BYTES_MIN


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, of the quick suite, folders that are not even worth importing."""
    left_out = config.getoption("--quick") and collection_path.parent == Path(__file__).parent
    return True if left_out and collection_path.name in _NOT_QUICK_FOLDERS else None


def pytest_collection_finish() -> None:
    """Take what is imported out of the garbage collector's sight: a collection passes half a million objects less."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    atexit.register(gc.unfreeze)  # extension modules look for what leaks at the end, after pytest's last collections


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the quick suite what is marked, and of an eighth what is not in it."""
    eighth = config.getoption("--eighth")

    def wanted(item: pytest.Item) -> bool:
        if config.getoption("--quick") and not _is_quick(item):
            return False
        return eighth is None or zlib.crc32(item.nodeid.encode()) % 8 == eighth % 8

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = filter(wanted, items)


def _is_quick(item: pytest.Item) -> bool:
    return not any(map(item.get_closest_marker, _NOT_QUICK_MARKS))


def _is_below(item: pytest.Item, folders: Iterable[str]) -> bool:
    return any(item.path.is_relative_to(Path(__file__).parent / folder) for folder in folders)


def _files_open() -> int:
    return len(os.listdir(_OPEN_FILES))  # noqa: PTH208 - ten times as quick, and each test asks twice


@pytest.fixture(autouse=True)
def _keeps_the_rules(request: pytest.FixtureRequest) -> Generator[None]:
    """Check each test, and judge it without what fixtures of wider scope do.

    One fixture for all rules: ten thousand tests need one, and each costs a second of the quick suite.
    """
    files_before = _files_open()
    quick = _Stopwatch(request.node) if request.config.getoption("--quick") else None
    mark = request.node.get_closest_marker("proof")
    with proof.expected(request.node.nodeid, marked=mark is not None and "more" not in mark.kwargs):
        yield
    if quick is not None:
        quick.judge()
    _leaves_few_files_open(files_before)


def _leaves_few_files_open(before: int) -> None:
    """Have no test leave many files open: from 1,024 on, no MQTT client after it would hear a thing."""
    after = _files_open()
    if after > _LEFT_OPEN_MAX:
        gc.collect()  # what only garbage holds open is closed
        after = _files_open()
    assert after - before <= _LEFT_OPEN_MAX, f"{after - before} files are still open: close what the test has opened"


_waited: list[tuple[float, str]] = []
_computed: list[tuple[float, str]] = []


class _Stopwatch:
    """Fails a quick test that computes for long; notes one that computes for longer than it should, or waits."""

    def __init__(self, test: pytest.Item) -> None:
        self._test = test
        self._queued_s, self._computed_s, self._now_s = _queued_s(), time.process_time(), time.monotonic()

    def judge(self) -> None:
        """Judge it at the end of its test."""
        computed_s = time.process_time() - self._computed_s
        passed_s = time.monotonic() - self._now_s
        if passed_s - computed_s > _QUICK_WAIT_S:  # or others had the processors
            waited_s = passed_s - computed_s - (_queued_s() - self._queued_s)
            if waited_s > _QUICK_WAIT_S:
                _waited.append((waited_s, self._test.nodeid))
        if computed_s < _SLOW_CPU_S or _is_below(self._test, _SHARES_WORK):
            return
        _computed.append((computed_s, self._test.nodeid))
        assert computed_s < _QUICK_CPU_S, (
            f"{computed_s:.2f} s of processor time: mark the test `slow`, or make it cheaper"
        )


def _queued_s() -> float:
    """Return how long this thread has been ready to run while others had the processors."""
    return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the quick tests that took long."""
    for computed_s, test in sorted(_computed, reverse=True)[:10]:
        terminalreporter.write_line(f"computed for {computed_s:.2f} s, mark it `slow`: {test}")
    for waited_s, test in sorted(_waited, reverse=True)[:10]:
        terminalreporter.write_line(f"waited for {waited_s:.1f} s: {test}")


_running: list[pytest.Item] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note which test runs."""
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.clear()


def _refuse_processes(exempt: Collection[str], event: str, _arguments: object) -> None:
    if event in _STARTS and _running and _is_quick(_running[0]) and not _is_below(_running[0], exempt):
        raise AssertionError(f"{_running[0].nodeid} starts a process: mark it `processes`")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in a shell's background, where Ctrl-C is ignored, and so it would be by every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
