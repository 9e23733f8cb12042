"""A card that takes no writes any more: what can be read is shown, and whatever would write says so in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import warm_covey
from tests.integration.gateway import Gateway
from tests.small_disk import anywhere, mounted_disk

NOBODY = 65_534

_READS: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("group", "show"),
    ("history",),
    ("message", "list"),
    ("check", "database"),
    ("metrics",),
    ("key", "show"),
    ("fleet",),
    ("setting", "list"),
    ("release", "list"),
    ("alert", "list"),
    ("config", "list"),
    ("file", "list"),
    ("request", "list"),
)
_NEED_A_VAULT = (("vault", "status"), ("vault", "readings"), ("vault", "verify"))
_WRITES = (
    (("run",), ""),
    (("publish", "-"), '{"n": "temperature", "v": 1}'),
    (("history", "post", "hello"), ""),
    (("group", "create"), ""),
    (("config", "set", "label", "other"), ""),
    (("file", "put", "/etc/hostname"), ""),
)


def commands_on_a_read_only_disk(folder: Path) -> None:
    """Call what reads and what writes."""
    with mounted_disk(folder):
        alone = Gateway(folder, "alone")
        alone.ok("group", "create", "--capability", "collector")
        alone.ok("publish", "-", feed='{"n": "temperature", "v": 1}')
        _remount(folder, "ro")
        for read in _READS:
            alone.ok(*read)
        assert "the disk that holds the state is read-only" in alone.json("status")["troubles"]
        for words, feed in _WRITES:
            said = alone.fails(*words, code=1, feed=feed)
            assert "hint: the disk is read-only" in said, (words, said)
        seen = alone.covey("check", "--offline")
        assert "Traceback" not in seen.stderr
        assert "is read-only" in seen.stdout
        _remount(folder, "rw")
        alone.ok("publish", "-", feed='{"n": "temperature", "v": 2}')
        assert alone.queued() == 2


def _remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def test_commands_on_a_read_only_disk(tmp_path: Path) -> None:
    anywhere(commands_on_a_read_only_disk, tmp_path)


# -- as a user that may not write --------------------------------------------------------------------------------------

_EXPLAINED = ("hint: the disk is read-only", "hint: this user may not access it", "hint: run the command")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    found = Path(tempfile.mkdtemp(prefix="covey-disk-"))
    found.chmod(0o755)
    yield found
    for state in found.glob("alone"):
        state.chmod(0o700)
    shutil.rmtree(found, ignore_errors=True)


def _may_be_nobody() -> bool:
    """Whether this is root, and not of a namespace of a single user."""
    [_, _, users] = Path("/proc/self/uid_map").read_text().split()[:3]
    return os.geteuid() == 0 and int(users) > NOBODY


def _said(device: Gateway, *words: str, feed: str = "") -> tuple[int, str, str]:
    """Run a command as nobody, or, where only root could do that, as this user, who may write no more than nobody."""
    user = NOBODY if _may_be_nobody() else None
    done = warm_covey.run([words[0], "--state", str(device.state), *words[1:]], feed, user=user)
    assert "Traceback" not in done.stdout + done.stderr, (words, done.stdout, done.stderr)
    assert done.stderr.count("error: ") <= 1, (words, done.stderr)
    return done.returncode, done.stdout, done.stderr


def _with_a_vault(folder: Path) -> Gateway:
    device = Gateway(folder, "alone")
    device.ok("group", "create", "--capability", "collector")
    device.ok("vault", "init")
    device.ok("publish", "-", feed='{"n": "temperature", "v": 1}')
    return device


def _given_to_nobody(device: Gateway) -> None:
    if _may_be_nobody():
        for path in (device.state, *device.state.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def commands_of_another_user_on_a_read_only_disk(folder: Path) -> None:
    """Call what reads and what writes, as a user for whom the disk is read-only, not as root."""
    with mounted_disk(folder):
        folder.chmod(0o755)
        device = _with_a_vault(folder)
        _given_to_nobody(device)
        _remount(folder, "ro")
        for read in (*_READS, *_NEED_A_VAULT):
            code, _, stderr = _said(device, *read)
            assert code == 0, (read, stderr)
        for words, feed in _WRITES:
            code, _, stderr = _said(device, *words, feed=feed)
            assert (code, "hint: the disk is read-only" in stderr) == (1, True), (words, code, stderr)
        _, stdout, _ = _said(device, "check", "--offline")
        assert "is read-only" in stdout
        _remount(folder, "rw")


def test_commands_of_another_user_on_a_read_only_disk(folder: Path) -> None:
    anywhere(commands_of_another_user_on_a_read_only_disk, folder)


def _take_away_the_folder(device: Gateway) -> None:
    device.state.chmod(0o700 if _may_be_nobody() else 0)


def _take_away_the_database(device: Gateway) -> None:
    """As commands with `sudo` did that made the state's files belong to root."""
    _given_to_nobody(device)
    for path in device.state.glob("state.sqlite*"):
        if _may_be_nobody():
            os.chown(path, 0, 0)
        else:
            path.chmod(0)


def _take_away_writing(device: Gateway) -> None:
    _given_to_nobody(device)
    for path in device.state.rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    device.state.chmod(0o500)


@pytest.mark.parametrize("take", [_take_away_the_folder, _take_away_the_database, _take_away_writing])
def test_what_a_user_may_not_access_is_no_damage(folder: Path, take: Callable[[Gateway], None]) -> None:
    device = _with_a_vault(folder)
    take(device)
    for words, feed in (*((each, "") for each in (*_READS, *_NEED_A_VAULT)), *_WRITES):
        code, _, stderr = _said(device, *words, feed=feed)
        assert code in {0, 1, 78}, (words, code, stderr)
        if code:
            assert any(each in stderr for each in _EXPLAINED), (words, stderr)
        assert "repair" not in stderr, (words, stderr)
    _, stdout, _ = _said(device, "check", "--offline")
    assert "repair" not in stdout, stdout
    assert any(each.removeprefix("hint: ") in stdout for each in _EXPLAINED), stdout
