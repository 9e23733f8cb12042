"""`./dev` starts the builder that is named, and runs few failed tests once more, alone, naming those that then pass."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.integration.debian_root import need
from tests.waiting import GUARD_S

pytestmark = pytest.mark.processes

_ROOT = Path(__file__).parents[2]
_TESTS = '''
import os, pathlib, pytest

def _ran(name):
    """Note that a test runs; return how often it has."""
    with open("runs", "a") as file:
        file.write(name + "\\n")
    return pathlib.Path("runs").read_text().split().count(name)

@pytest.mark.parametrize("number", range({unsteady}))
def test_unsteady(number):
    assert _ran(f"{name}-unsteady-{{number}}") > 1

def test_steady():
    _ran("{name}-steady")

{more}
'''
_BROKEN = "def test_broken():\n    _ran('broken')\n    assert False\n"
_CRASHES = "def test_crashes():\n    os._exit(3)\n"


class _Tree:
    """A folder with `dev` and a few tests, whose runs are counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copy2(_ROOT / "dev", folder / "dev")
        project = b'[tool.pytest.ini_options]\naddopts = "-q -p no:hypothesispytest -p no:anyio -p no:schemathesis"\n'
        (folder / "pyproject.toml").write_bytes(project)
        python = folder / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        extras = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        stamp = f"{','.join(extras)} {hashlib.sha256(project).hexdigest()}  -\n"
        (folder / ".venv" / "covey-stamp").write_text(stamp)  # nothing to install

    def add(self, name: str, unsteady: int, more: str = "") -> None:
        """Add tests that fail at their first run, one that passes, and more."""
        (self._folder / name).mkdir(parents=True)
        content = _TESTS.format(name=name, unsteady=unsteady, more=more)
        (self._folder / name / "test_it.py").write_text(content)

    def run_parts(self, *parts: str) -> subprocess.CompletedProcess[str]:
        """Run these parts beside each other, as `./dev test` runs the parts of the whole suite."""
        script = 'source ./dev help >/dev/null; side_by_side 2 < <(printf "%s\\n" "$@") || second_chance'
        return self.run("bash", "-c", script, "-", *parts)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder."""
        return subprocess.run(
            words,
            cwd=self._folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )

    def runs(self) -> dict[str, int]:
        """Return how often each test ran."""
        names = (self._folder / "runs").read_text().split()
        return {name: names.count(name) for name in sorted(names)}


@pytest.fixture
def tree(tmp_path: Path) -> _Tree:
    return _Tree(tmp_path)


def _unsteady(name: str, number: int) -> str:
    test = f"{name}/test_it.py::test_unsteady[{number}]"
    return f"unsteady: {test} failed beside others and passed alone; mend it"


def test_failed_tests_of_all_parts_run_once_more_and_are_named_if_they_pass(tree: _Tree) -> None:
    tree.add("one", 2)
    tree.add("two", 3)
    done = tree.run_parts("one --numprocesses 2 --dist worksteal", "two")
    assert done.returncode == 0, done.stdout
    expected = [_unsteady("one", 0), _unsteady("one", 1), *(_unsteady("two", number) for number in range(3))]
    assert done.stdout.splitlines()[-5:] == expected
    runs = tree.runs()
    assert (runs.pop("one-steady"), runs.pop("two-steady")) == (1, 1)
    assert (len(runs), set(runs.values())) == (5, {2})


def test_a_test_that_fails_alone_as_well_fails_the_run(tree: _Tree) -> None:
    folder = "tests/unit/core"
    tree.add(folder, 1, _BROKEN)
    done = tree.run("./dev", "test", "--second-chance", folder)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == _unsteady(folder, 0)
    assert done.stdout.count("unsteady: ") == 1
    assert tree.runs() == {"broken": 2, f"{folder}-steady": 1, f"{folder}-unsteady-0": 2}


@pytest.mark.parametrize(("unsteady", "more"), [(3, ""), (1, _CRASHES)], ids=["many", "crash"])
def test_neither_many_failed_tests_nor_a_crash_get_a_second_chance(tree: _Tree, unsteady: int, more: str) -> None:
    tree.add("one", 3)
    tree.add("two", unsteady, more)
    done = tree.run_parts("one", "two")
    assert done.returncode == 1
    assert "unsteady: " not in done.stdout
    assert set(tree.runs().values()) == {1}


@pytest.mark.parametrize(
    ("command", "module", "tool"),
    [("deb", "deb", "dpkg-deb"), ("image", "deb.image", "apt-get"), ("release", "deb.release", "apt-get")],
)
def test_dev_runs_the_builder_that_is_named_with_its_options(
    tree: _Tree, tmp_path: Path, command: str, module: str, tool: str
) -> None:
    need(None if shutil.which(tool) else f"no {tool} here")
    python = tmp_path / ".venv" / "bin" / "python"
    builds = f'#!/bin/sh\ncase "$*" in "-m deb"*) echo "$@";; *) exec {sys.executable} "$@";; esac\n'
    python.write_text(builds)
    done = tree.run("./dev", command, "--output", "here")
    assert (done.returncode, done.stdout) == (0, f"-m {module} --output here\n"), done.stderr
