"""`covey.adapters.programs`: what a program gets, what it may take, and that nothing of it is left."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters import program_guard
from covey.adapters.programs import ChildPrograms
from covey.core.actions.definition import Invocation, ProgramBounds
from covey.core.actions.results import NOT_STARTED
from covey.errors import ActionError
from covey.limits.actions import MAXIMUM_ACTION_INPUT_BYTES
from covey.limits.units import KIB, MIB
from covey.ports import ProgramEnd, RunningProgram
from tests.waiting import wait_until

pytestmark = pytest.mark.processes

_BOUNDS = ProgramBounds(time_us=60_000_000, memory_bytes=1_024 * MIB)
_START_US = 1_000_000


def _start(*argv: str, bounds: ProgramBounds = _BOUNDS) -> RunningProgram:
    program = shutil.which(argv[0])
    assert program is not None
    return ChildPrograms().start(Invocation("test", {}, (program, *argv[1:]), bounds), _START_US)


def _start_path(program: Path) -> RunningProgram:
    return ChildPrograms().start(Invocation("test", {}, (str(program),), _BOUNDS), _START_US)


def _ended(running: RunningProgram, now_us: int = _START_US) -> ProgramEnd:
    found: list[ProgramEnd] = []

    def ends() -> bool:
        end = running.look(now_us)
        found.extend([end] if end else [])
        return bool(found)

    wait_until(ends)
    return found[0]


def _run(*argv: str, bounds: ProgramBounds = _BOUNDS) -> ProgramEnd:
    return _ended(_start(*argv, bounds=bounds))


def _python(code: str, *argv: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *argv)


def test_arguments_come_as_they_are_and_the_exit_code_goes_back() -> None:
    code = "import sys; print(sys.argv[1:]); print('oh', file=sys.stderr); sys.exit(3)"
    end = _run(*_python(code, "$(id); *", "a b"))
    assert end.code == 3
    assert b"['$(id); *', 'a b']" in end.output
    assert b"oh" in end.output


def test_a_program_gets_nothing_of_the_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COVEY_SECRET_OF_THE_TEST", "x")
    kept = os.open(tmp_path / "held", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(kept, True)
    try:
        code = (
            "import os,sys; print(sorted(os.environ), sorted(os.listdir('/proc/self/fd')), os.getcwd(),"
            "os.getsid(0) == os.getpid(), sys.stdin.read() == '')"
        )
        output = _run(*_python(code)).output.decode()
    finally:
        os.close(kept)
    assert "SECRET" not in output
    assert "['0', '1', '2', '3'] / True True" in output  # 3 is the folder that it lists


def _reads(content: bytes, *argv: str) -> RunningProgram:
    return ChildPrograms().start(Invocation("test", {}, argv, _BOUNDS, stdin=content), _START_US)


@pytest.mark.parametrize("content", [b"hunter2\n", b"k" * MAXIMUM_ACTION_INPUT_BYTES], ids=["a line", "the most"])
def test_a_program_reads_its_input_to_the_end(content: bytes) -> None:
    code = "import os,sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); print(sorted(os.listdir('/proc/self/fd')))"
    end = _ended(_reads(content, *_python(code)))
    assert end.output == content + b"['0', '1', '2', '3']\n"


def test_nobody_waits_for_a_program_that_does_not_read() -> None:
    end = _ended(_reads(b"k" * MAXIMUM_ACTION_INPUT_BYTES, *_python("print('done')")))
    assert (end.code, end.output) == (0, b"done\n")


def test_the_programs_input_is_on_no_command_line() -> None:
    running = _reads(b"hunter2\n", *_python("import sys, time; sys.stdin.read(); print('read'); time.sleep(600)"))
    try:
        wait_until(lambda: any(b"time.sleep(600)" in each for each in _lines()), "the program runs")
        assert not any(b"hunter2" in each for each in _lines())
    finally:
        running.stop()


def _lines() -> Iterator[bytes]:
    """Yield the command lines and environments of this process's descendants, one of which may end meanwhile."""
    for path in _processes():
        with suppress(OSError):
            yield path.read_bytes()


def _processes() -> Iterator[Path]:
    """Yield where the command lines and environments of this process's descendants stand."""
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += map(int, task.read_text().split())
        if pid != os.getpid():
            yield from (Path(f"/proc/{pid}/cmdline"), Path(f"/proc/{pid}/environ"))


_FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setsid()
    time.sleep(600)
open(sys.argv[1] + ".new", "w").write(f"{os.getpid()} {child}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
"""A program with a child in a session of its own, both deaf to SIGTERM."""


def _family(marker: Path) -> list[int]:
    wait_until(marker.exists)
    return [int(pid) for pid in marker.read_text().split()]


def test_at_its_time_it_ends_with_all_its_children(tmp_path: Path) -> None:
    marker = tmp_path / "pids"
    running = _start(*_python(_FAMILY + "time.sleep(600)", str(marker)))
    family = _family(marker)
    assert running.look(_START_US + _BOUNDS.time_us - 1) is None
    end = _ended(running, _START_US + _BOUNDS.time_us)
    assert end.timed_out
    assert (end.code or 0) < 0
    assert not any(map(_is_running, family))


def test_a_programs_children_end_with_it(tmp_path: Path) -> None:
    marker = tmp_path / "pids"
    end = _run(*_python(_FAMILY + "sys.exit(5)", str(marker)))
    assert (end.code, end.timed_out) == (5, False)
    assert not any(map(_is_running, _family(marker)))


def test_when_it_is_stopped_all_of_it_has_ended(tmp_path: Path) -> None:
    marker = tmp_path / "pids"
    running = _start(*_python(_FAMILY + "time.sleep(600)", str(marker)))
    family = _family(marker)
    assert (running.stop().code or 0) < 0
    assert not any(map(_is_running, family))


def test_it_ends_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    marker = tmp_path / "pids"
    agent = subprocess.Popen([sys.executable, "-c", _AGENT, sys.executable, _FAMILY + "time.sleep(600)", str(marker)])
    family = _family(marker)
    agent.kill()
    agent.wait()
    for pid in family:
        wait_until(lambda pid=pid: not _is_running(pid))


_AGENT = """
import sys, time
from covey.adapters.programs import ChildPrograms
from covey.core.actions.definition import Invocation, ProgramBounds
argv = (sys.argv[1], "-c", *sys.argv[2:])
running = ChildPrograms().start(Invocation("test", {}, argv, ProgramBounds()), 0)
time.sleep(600)
"""


def _is_running(pid: int) -> bool:
    """Say whether a process runs; one that is dead and that nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_of_its_output_the_beginning_is_kept() -> None:
    bounds = ProgramBounds(_BOUNDS.time_us, _BOUNDS.memory_bytes, output_bytes=KIB)
    end = _run(*_python("print('a' * 1_000 + 'b' * 500_000)"), bounds=bounds)
    assert (end.code, end.cut) == (0, True)
    assert end.output == b"a" * 1_000 + b"b" * 24


def test_endless_output_is_bounded() -> None:
    running = _start(*_python("while True: print('a' * 10_000)"))
    for _ in range(20):
        assert running.look(_START_US) is None
    end = running.stop()
    assert (end.code or 0) < 0
    assert len(end.output) <= _BOUNDS.output_bytes


def test_memory_has_its_bound() -> None:
    bounds = ProgramBounds(_BOUNDS.time_us, 256 * MIB)
    end = _run(*_python("bytearray(400 * 2**20)"), bounds=bounds)
    assert end.code != 0
    assert b"MemoryError" in end.output


def test_a_program_that_cannot_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ActionError) as caught:
        _start_path(tmp_path / "none")
    assert caught.value.code == NOT_STARTED
    broken = tmp_path / "broken"
    broken.write_text("#!/nowhere\n")
    broken.chmod(0o755)
    end = _ended(_start_path(broken))
    assert end.code == 126
    assert b"cannot be started" in end.output


def test_a_file_has_its_bound(tmp_path: Path) -> None:
    bounds = replace(_BOUNDS, file_bytes=256 * KIB)
    end = _ended(_start("sh", "-c", f"yes > {tmp_path}/endless", bounds=bounds))
    assert end.code != 0
    assert (tmp_path / "endless").stat().st_size == 256 * KIB


def test_a_guard_imports_little(tmp_path: Path) -> None:
    """It is started for each program: every module costs milliseconds on a small machine."""
    guard = tmp_path / "guard.py"
    said = "print(sorted(sys.modules), file=sys.stderr, flush=True)\n    os._exit(code & 255)"
    guard.write_text(Path(program_guard.__file__).read_text().replace("os._exit(code & 255)", said))
    words = [sys.executable, "-I", "-S", str(guard), str(os.getpid()), "-1", "60", "-1", "64", "/bin/true"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stderr))
    assert {"os", "resource", "_signal", "_ctypes"} <= loaded
    assert not loaded & {"collections", "contextlib", "ctypes", "enum", "functools", "re", "signal", "types"}


def test_processes_have_their_bound() -> None:
    """As root there is none, so then it is shown as a user of its own."""
    user: dict[str, Any] = {"user": 61_234} if os.geteuid() == 0 else {}
    code = Path(program_guard.__file__).read_text()
    many = "for i in $(seq 200); do sleep 60 & done; echo never"
    limits = (str(os.getpid()), str(512 * MIB), "60", str(MIB), "64")
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    words = [python, "-I", "-S", "-c", code, *limits, "/bin/sh", "-c", many]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/", **user)
    assert done.returncode != 0
    assert "never" not in done.stdout
    assert "fork" in done.stderr + done.stdout
