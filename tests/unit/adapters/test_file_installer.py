"""`covey.adapters.file_installer`: old or new, whole, wherever it is cut off; and back."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from covey.adapters import file_installer
from covey.adapters.file_installer import FileInstaller
from covey.errors import LocalError

pytestmark = pytest.mark.processes

_OLD, _NEW = b"old" * 1_000, b"new" * 2_000


class CutError(Exception):
    """The power went."""


@contextmanager
def _cut_at(line: int) -> Iterator[list[int]]:
    """End what the installer does before the line of it that comes as number `line`; give what is left of it."""
    left = [line]

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename != file_installer.__file__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise CutError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type] # a tracer of its own for each frame
    try:
        yield left
    except CutError:
        pass
    finally:
        sys.settrace(before)


class Site:
    """A folder with the target in it, and a hook that notes what it finds there."""

    def __init__(self, folder: Path) -> None:
        self.target = folder / "model.bin"
        self.broken, self.log = folder / "broken", folder / "log"
        script = folder / "hook"
        script.write_text(f'#!/bin/sh\nhead -c 3 "$1" >> {self.log}; echo >> {self.log}; test ! -e {self.broken}\n')
        script.chmod(0o700)
        self.installer = FileInstaller(self.target, [str(script)], [str(script)])

    def hold(self, content: bytes | None) -> None:
        if content is not None:
            self.target.write_bytes(content)
            self.target.chmod(0o640)

    def install(self) -> None:
        self.installer.install(io.BytesIO(_NEW))

    def content(self) -> bytes | None:
        return self.target.read_bytes() if self.target.exists() else None

    def leftovers(self) -> list[str]:
        return [each.name for each in self.target.parent.iterdir() if each.name.startswith(".")]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("old", [_OLD, None])
def test_a_file_is_installed_and_confirmed_or_taken_back(site: Site, old: bytes | None) -> None:
    site.hold(old)
    before = site.installer.version()
    site.install()
    mode = stat.S_IMODE(site.target.stat().st_mode)
    assert (site.content(), mode) == (_NEW, 0o640 if old else 0o644)
    assert site.installer.version() != before
    site.installer.roll_back()
    assert (site.content(), site.installer.version(), site.leftovers()) == (old, before, [])
    site.install()
    assert site.installer.confirm() == 0
    assert (site.content(), site.leftovers()) == (_NEW, [])
    assert site.installer.roll_back() == 0
    assert site.content() == _NEW, "what is confirmed is not taken back"


def test_a_failing_hook_fails_the_step_and_a_failing_check_keeps_the_old(site: Site) -> None:
    site.hold(_OLD)
    site.broken.touch()
    with pytest.raises(LocalError, match="exited with code 1"):
        site.install()
    assert site.installer.confirm() == 1
    with pytest.raises(LocalError, match="exited with code 1"):
        site.installer.roll_back()
    assert site.content() == _OLD
    site.broken.unlink()
    assert site.installer.roll_back() == 0
    assert (site.content(), site.leftovers()) == (_OLD, [])
    assert site.log.read_text().split() == ["new", "new", "old", "old"], "the hook ran once more"
    with pytest.raises(LocalError, match="cannot be started"):
        FileInstaller(site.target, (), ["/nowhere"]).confirm()


@pytest.mark.parametrize("old", [_OLD, None])
@pytest.mark.parametrize("step", ["install", "confirm", "rollback"])
def test_an_interrupted_installation_leaves_the_old_or_the_new_file_whole(
    tmp_path: Path, old: bytes | None, step: str
) -> None:
    line, cut = 0, True
    while cut:
        line += 1
        folder = tmp_path / str(line)
        folder.mkdir()
        site = Site(folder)
        site.hold(old)
        steps: dict[str, Callable[[], object]] = {
            "install": site.install,
            "confirm": site.installer.confirm,
            "rollback": site.installer.roll_back,
        }
        if step != "install":
            site.install()
        with _cut_at(line) as left:
            steps[step]()
        cut = left[0] <= 0
        assert site.content() in {old, _NEW}
        if step == "confirm":
            site.installer.confirm()
        else:
            site.installer.roll_back()
        installed = step == "confirm"
        assert (site.content(), site.leftovers()) == (_NEW if installed else old, [])
    assert line > 5
