"""What holds for all tests: the order of files, the quick suite, how far Hypothesis looks, and where files lie.

`--quick` is the suite for the loop of edit and test: units, vectors, the rules of the source, a slice of the property
tests and of the simulation. 1. It leaves out the folders of processes and of Spark, and what is marked `slow`,
`processes`, `broker` or `spark`. 2. A test of it that starts a process fails, in the whole suite as well; but for the
simulation, which there shares its worlds among processes. 3. Hypothesis and the simulation look at fewer examples.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Collection, Generator, Iterable
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

_FOLDERS = ("spark", "sim", "integration")
"""Of these, and of the rest, files are run by turns from first to last: some compute, some wait, and so both go on."""

_OPEN_FILES, _LEFT_OPEN_MAX = Path("/proc/self/fd"), 256
"""What a test leaves open goes when its garbage is collected, which may be long after."""

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 4 << 30
"""What the suite needs of it, several times over: containers often have 64 MB there."""

_OWN_SPARK = (
    "test_by_itself.py",
    "test_harness.py",
    "test_java.py",
    "test_object_store.py",
    "test_store_cluster.py",
    "test_two_workers.py",
    "test_unserved.py",
)
"""Files of `tests/spark` that start Spark themselves."""

_NOT_QUICK_FOLDERS = ("spark", "integration")
_NOT_QUICK_MARKS = ("slow", "processes", "broker", "spark")
_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn", "os.system"}

T = TypeVar("T")

settings.register_profile(
    "same", derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("same"), max_examples=5)
settings.register_profile("search", settings.get_profile("same"), derandomize=False, max_examples=5_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--quick", action="store_true", help="no processes, no Spark, few examples: seconds")


def pytest_configure(config: pytest.Config) -> None:
    """Say where files lie, and how far to look: at the same examples; with `HYPOTHESIS_PROFILE=search`, at new ones."""
    quick = config.getoption("--quick")
    if "TMPDIR" not in os.environ and _is_roomy(_MEMORY):
        os.environ["TMPDIR"], tempfile.tempdir = str(_MEMORY), None
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick" if quick else "same"))
    exempt = () if quick else (*_NOT_QUICK_FOLDERS, "sim")
    sys.addaudithook(partial(_refuse_processes, exempt))


def _is_roomy(folder: Path) -> bool:
    """Say whether a folder has room for the suite's files, and lets programs among them run."""
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free >= _MEMORY_BYTES_MIN


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Hand out whole files, but those together that share what is costly to make."""
    return _Together(config, log) if config.getvalue("dist") == "loadfile" else None


class _Together(LoadFileScheduling):
    """Files, one by one, but two folders whole.

    `tests/spark`, apart from files with Spark processes of their own: they share one session, and a JVM for each
    process costs 30 s. `tests/meta`: its files share the syntax trees of all sources.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file.startswith("tests/meta/"):
            return "tests/meta"
        shares = file.startswith("tests/spark/") and file.removeprefix("tests/spark/") not in _OWN_SPARK
        return "tests/spark" if shares else file


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, of the quick suite, folders that are not even worth importing."""
    left_out = config.getoption("--quick") and collection_path.parent == Path(__file__).parent
    return True if left_out and collection_path.name in _NOT_QUICK_FOLDERS else None


def pytest_collection_finish() -> None:
    """Take what is imported out of the garbage collector's sight: a collection passes half a million objects less."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let it see them again: extension modules look for what leaks at the end."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the files of all folders; of the quick suite, leave out what is marked."""
    if config.getoption("--quick"):
        quick: list[pytest.Item] = []
        long: list[pytest.Item] = []
        for item in items:
            (quick if _is_quick(item) else long).append(item)
        config.hook.pytest_deselected(items=long)
        items[:] = quick
    folders: dict[str, dict[Path, list[pytest.Item]]] = {}
    for item in items:
        folder = next((name for name in _FOLDERS if _is_below(item, [name])), "")
        folders.setdefault(folder, {}).setdefault(item.path, []).append(item)
    items[:] = chain.from_iterable(_mixed([list(files.values()) for files in folders.values()]))


def _mixed(lists: Iterable[list[T]]) -> list[T]:
    """Return the elements of all lists, those of each spread evenly from first to last."""
    placed = [((place + 0.5) / len(each), element) for each in lists for place, element in enumerate(each)]
    return [element for _, element in sorted(placed, key=itemgetter(0))]


def _is_quick(item: pytest.Item) -> bool:
    return not any(map(item.get_closest_marker, _NOT_QUICK_MARKS))


def _is_below(item: pytest.Item, folders: Iterable[str]) -> bool:
    return any(item.path.is_relative_to(Path(__file__).parent / folder) for folder in folders)


@pytest.fixture(autouse=True)
def _leaves_few_files_open() -> Generator[None]:
    """Have no test leave many files open: from 1,024 on, no MQTT client after it would hear a thing."""
    before = sum(1 for _ in _OPEN_FILES.iterdir())
    yield
    left = sum(1 for _ in _OPEN_FILES.iterdir()) - before
    assert left <= _LEFT_OPEN_MAX, f"{left} files are still open: close what the test has opened"


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
