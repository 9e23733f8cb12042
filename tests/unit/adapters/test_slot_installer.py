"""`covey.adapters.slot_installer` with the rules of trials: old or new, whole, wherever it is killed or the power goes.

Each line of it after which another thing lies on the disk is a moment. That is kept twice: as a killed process leaves
it, and as a power cut does, which empties every file that was not synchronised. From each the device goes on: what
starts the agent is the script that is shipped, and what is done next the rules say (`core/actions/installing.py`).
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import pytest

from covey.adapters import files, slot_installer
from covey.adapters.slot_installer import SlotInstaller
from covey.adapters.sqlite.store import SqliteStore
from covey.app import shipped_files
from covey.core.actions import results
from covey.core.actions.commands import Moment
from covey.core.actions.definition import INSTALLER_ARGUMENTS, ActionDefinition, Ends
from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.actions.installing import Installed, InstallerStep, Installing, StepBegun
from covey.core.actions.results import CommandState, End
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId
from covey.errors import CoveyError
from covey.limits.actions import SLOT_FREE_BYTES
from tests.examples import Share, shares
from tests.fleet import open_store
from tests.meta.source_tree import ROOT
from tests.staging import Staged

pytestmark = [pytest.mark.processes, pytest.mark.slow]

_OLD, _NEW = "covey 1.0", "covey 2.0"
_OPERATION = OperationId(b"o" * 32)
_BEGUN = Installation(
    *(_OPERATION, GroupId(bytes(32)), DeviceKey(bytes([7]) * 32), "pump", "f" * 64),
    *(InstallationPhase.INSTALLING, b"1", 0),
    before=_OLD,
)
_TURNS = 60


class AgentEndedError(Exception):
    """The agent was ended, and the installer with it."""


def _wheel(folder: Path, version: str) -> Path:
    """Make a version of Covey that says which it is; its modules are those of the tree."""
    path, about = folder / f"covey-{version}-py3-none-any.whl", f"covey-{version}.dist-info"
    content = {
        f"covey-{version}.data/scripts/covey": f"#!/bin/sh\necho covey {version}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: covey\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
        archive.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in (*content, f"{about}/RECORD")))
    return path


def _zipped(content: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, each in content.items():
            archive.writestr(name, each)
    return written.getvalue()


@dataclass(frozen=True, slots=True)
class Left:
    """What lies on the disk at a moment of a phase; `durable`: which files, by their inodes, the power leaves whole."""

    phase: InstallationPhase
    line: str
    folder: Path
    lost: frozenset[str]


class Moments:
    """Keeps what lies in a folder at each line of the installer that runs."""

    def __init__(self, slots: Path, kept: Path) -> None:
        self._slots, self._kept = slots, kept
        self._durable = self._inodes()
        self._seen: set[object] = set()
        self.phase = InstallationPhase.INSTALLING
        self.left: list[Left] = []

    def _inodes(self) -> set[int]:
        return {each.lstat().st_ino for each in self._slots.rglob("*")}

    def keep(self, line: str) -> None:
        found = {str(each.relative_to(self._slots)): each.lstat() for each in self._slots.rglob("*")}
        lost = {name for name, of in found.items() if stat.S_ISREG(of.st_mode) and of.st_ino not in self._durable}
        seen = frozenset((name, of.st_ino, of.st_size, of.st_mtime_ns) for name, of in found.items())
        here = (self.phase, seen, frozenset(lost))
        if here not in self._seen:
            self._seen.add(here)
            folder = self._kept / str(len(self.left))
            shutil.copytree(self._slots, folder, symlinks=True)
            self.left.append(Left(self.phase, line, folder, frozenset(lost)))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep what is there before each line of the installer, and note what is synchronised."""
        places = {slot_installer.__file__, files.__file__}
        fsync, sync = os.fsync, os.sync

        def trace(frame: FrameType, event: str, _: object) -> object:
            if frame.f_code.co_filename not in places:
                return None
            if event == "line":
                self.keep(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
            return trace

        def one(descriptor: int) -> None:
            fsync(descriptor)
            self._durable.add(os.fstat(descriptor).st_ino)

        def all_of_it() -> None:
            self._durable |= self._inodes()

        before = sys.gettrace()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "fsync", one)
            patched.setattr(os, "sync", all_of_it)
            sys.settrace(trace)  # type: ignore[arg-type] # a tracer of its own for each frame
            try:
                yield
            finally:
                sys.settrace(before)
        assert (os.fsync, os.sync) == (fsync, sync)


class Device:
    """One with slots, through all of its agents: each runs from the slot that `launch` has started."""

    def __init__(self, slots: Path, package: bytes, store: SqliteStore, *, is_connected: bool) -> None:
        self._slots, self._package, self._is_connected, self._store = slots, package, is_connected, store
        self._definition = ActionDefinition(
            "pump", "pump", ("/covey",), INSTALLER_ARGUMENTS, ends=Ends.AGENT, trial_us=60_000_000
        )
        self._now_us = 0
        self.said = ""
        self.moments: Moments | None = None

    def defined(self, name: str) -> ActionDefinition:
        assert name == "pump"
        return self._definition

    action = defined

    def _moment(self) -> Moment:
        return Moment(self._now_us, True, b"1", monotonic_us=self._now_us)

    def install(self, phase: InstallationPhase = InstallationPhase.FETCHING) -> End:
        """Install the package, from a phase on that was stored when the last agent ended; return what is reported."""
        with self._store.transaction():
            self._store.installations.put(replace(_BEGUN, phase=phase))
        self._begin()
        for _ in range(_TURNS):
            self._now_us += 10_000_000
            try:
                ended = self._turn()
            except AgentEndedError:
                self._begin()
                continue
            if ended is not None:
                return ended.end
        raise AssertionError(self._store.installations.all())

    def _begin(self) -> None:
        """Start an agent, as its service manager does."""
        done = subprocess.run([self._slots / "launch"], capture_output=True, text=True, check=True)
        self.said = done.stdout.strip()
        self._installing = Installing(self._store.installations, self, Staged())
        with self._store.transaction():
            self._installing.recover(self._moment())

    def _turn(self) -> Installed | None:
        with self._store.transaction():
            found = self._installing.next_step(self._moment())
        under_way = self._store.installations.all()
        if isinstance(found, StepBegun):
            end = End(CommandState.DONE, exit=0) if found.step is InstallerStep.FETCH else self._program(found.step)
            with self._store.transaction():
                found = self._installing.ended(found, end, self._moment())
        elif under_way and under_way[0].phase is InstallationPhase.TRIAL and self._is_connected:
            with self._store.transaction():
                self._installing.acknowledged(_OPERATION)
        return found

    def _program(self, step: InstallerStep) -> End:
        [each] = self._store.installations.all()
        try:
            if self.moments is None or each.phase is InstallationPhase.ENDING:
                return self._run(step)
            self.moments.phase = each.phase
            with self.moments.watched():
                return self._run(step)
        except CoveyError as error:
            return End(CommandState.DONE, exit=1, output=f"error: {error}\n".encode())
        finally:
            if self.moments is not None and step is InstallerStep.INSTALL:
                self.moments.phase = InstallationPhase.TRIAL
                self.moments.keep("on trial")

    def _run(self, step: InstallerStep) -> End:
        def end_agent() -> None:
            raise AgentEndedError

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "prefix", str((self._slots / "current").resolve()))
            installer = SlotInstaller(self._slots, end_agent)
            words: dict[InstallerStep, Callable[[], int]] = {
                InstallerStep.INSTALL: lambda: installer.install(io.BytesIO(self._package)),
                InstallerStep.CONFIRM: installer.confirm,
                InstallerStep.ROLL_BACK: installer.roll_back,
            }
            if step is InstallerStep.VERSION:
                return End(CommandState.DONE, exit=0, output=f"{self.said}\n".encode())
            return End(CommandState.DONE, exit=words[step]())


def _digests(slot: Path) -> dict[str, str]:
    """Return what lies in a slot; caches of compiled modules apart."""
    found = [each for each in slot.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    return {str(each.relative_to(slot)): hashlib.sha256(each.read_bytes()).hexdigest() for each in found}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bytes]:
    """Slots of which the first one runs the old version, the same once more, and the new version."""
    folder = tmp_path_factory.mktemp("slots")
    slots, wheels = folder / "slots", folder / "wheels"
    slots.mkdir()
    wheels.mkdir()
    venv.create(slots / "a", with_pip=False)
    [packages] = (slots / "a").glob("lib/python*/site-packages")
    ours = [each for each in sys.path if each.endswith("site-packages")]
    (packages / "further.pth").write_text("".join(f"{each}\n" for each in (*ours, ROOT / "agent")))
    words = ("-I", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--ignore-installed")
    old = _wheel(wheels, "1.0")
    subprocess.run([slots / "a" / "bin" / "python", *words, old], check=True)
    (slots / "current").symlink_to("a")
    (slots / "launch").write_text(shipped_files.read("systemd/launch"))
    (slots / "launch").chmod(0o755)
    shutil.copytree(slots, folder / "first", symlinks=True)
    return slots, folder / "first", _wheel(wheels, "2.0").read_bytes()


def _restore(slots: Path, folder: Path, lost: frozenset[str] = frozenset()) -> None:
    shutil.rmtree(slots)
    shutil.copytree(folder, slots, symlinks=True)
    for name in lost:
        (slots / name).write_bytes(b"")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(open_store(tmp_path_factory.mktemp("store") / "state", Incarnation(bytes(8)))) as store:
        yield store


@pytest.mark.parametrize("share", shares(3, plain=1))
@pytest.mark.parametrize("is_connected", [True, False])
def test_after_a_kill_or_power_cut_the_old_or_the_new_version_runs_and_is_named(
    site: tuple[Path, Path, bytes], store: SqliteStore, tmp_path: Path, is_connected: bool, share: Share
) -> None:
    slots, first, package = site
    _restore(slots, first)
    device = Device(slots, package, store, is_connected=is_connected)
    device.moments = moments = Moments(slots, tmp_path / "kept")
    end = device.install()
    assert (end.code, device.said) == (("", _NEW) if is_connected else (results.ROLLED_BACK, _OLD)), end
    whole = {_OLD: _digests(slots / "a"), _NEW: _digests(slots / "b")}
    last = InstallationPhase.CONFIRMING if is_connected else InstallationPhase.ROLLING_BACK
    assert {each.phase for each in moments.left} == {InstallationPhase.INSTALLING, InstallationPhase.TRIAL, last}
    assert len(moments.left) > 15, "there are that many moments to be killed in"
    outcomes = set()
    for left, lost in ((each, lost) for each in share.of(moments.left) for lost in {frozenset[str](), each.lost}):
        where = f"{'power' if lost else 'killed'} in {left.phase.name} at {left.line}"
        _restore(slots, left.folder, lost)
        device = Device(slots, package, store, is_connected=is_connected)
        end = device.install(left.phase)
        assert _digests(slots / str((slots / "current").readlink())) == whole[device.said], where
        stays = end.state is CommandState.DONE
        built = {"b"} if stays else set()
        assert {each.name for each in slots.iterdir()} == {"a", "current", "launch"} | built, where
        assert device.said == (_NEW if stays else _OLD), (where, end)
        assert end.why.startswith(f"on {_NEW}" if stays else f"rolled back to {_OLD}: "), (where, end)
        assert is_connected or not stays, where
        assert stays or left.phase is not InstallationPhase.CONFIRMING, (where, "a member has acknowledged it")
        outcomes.add(device.said)
    assert outcomes == ({_OLD, _NEW} if is_connected else {_OLD})


def test_a_failed_installation_leaves_nothing_on_the_disk(
    site: tuple[Path, Path, bytes], store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots, first, package = site
    for content, free, said in (
        (package[:-40], SLOT_FREE_BYTES, "the release is neither a wheel nor a zip of wheels"),
        (
            _zipped({"covey-2.0-py3-none-any.whl": b"no"}),
            SLOT_FREE_BYTES,
            "the release cannot be installed",
        ),
        (package, 1 << 60, "no room for a slot of"),
    ):
        monkeypatch.setattr(slot_installer, "SLOT_FREE_BYTES", free)
        _restore(slots, first)
        device = Device(slots, content, store, is_connected=True)
        end = device.install()
        assert (end.code, device.said) == (results.ROLLED_BACK, _OLD)
        assert said in end.why, end.why
        assert {each.name for each in slots.iterdir()} == {"a", "current", "launch"}, said


@pytest.mark.parametrize("copied", [0, 3])
def test_a_disk_that_fills_while_a_slot_is_built_leaves_nothing_of_it_and_is_named(
    site: tuple[Path, Path, bytes], store: SqliteStore, monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    slots, first, package = site
    _restore(slots, first)
    left, copy = iter(range(copied)), shutil.copyfile

    def until_full(source: str, target: str, *, follow_symlinks: bool = True) -> str:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        return copy(source, target, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(shutil, "copyfile", until_full)
    whole, device = _digests(slots / "a"), Device(slots, package, store, is_connected=True)
    end = device.install()
    assert (end.code, device.said, _digests(slots / "a")) == (results.ROLLED_BACK, _OLD, whole)
    assert end.why.endswith("no room left"), end.why
    assert {each.name for each in slots.iterdir()} == {"a", "current", "launch"}
