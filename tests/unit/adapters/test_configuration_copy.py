"""`covey.adapters.configuration_copy`: what a disk has damaged is restored, a person's change is not touched."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.configuration_copy import damaged_file
from covey.adapters.configuration_files import ConfigurationFiles
from covey.adapters.keys.key_file import copy_of
from covey.errors import ConfigurationError
from tests.command import Here
from tests.examples import Share, shares

_TEXT = "[telemetry]\nbatch_seconds = 42.0\n"


@pytest.fixture
def files(tmp_path: Path) -> ConfigurationFiles:
    (tmp_path / "identity.key").touch()
    found = ConfigurationFiles(tmp_path / "config.toml", tmp_path / "ordered.json")
    found.create({"telemetry.batch_seconds": 42.0})
    return found


def _damage(path: Path, content: bytes) -> None:
    """Change a file as a disk does: without a new modification time."""
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("share", shares(6, plain=1))
def test_every_flipped_bit_is_restored(
    files: ConfigurationFiles, capsys: pytest.CaptureFixture[str], share: Share
) -> None:
    whole = files.path.read_bytes()
    for place in share.of(range(len(whole))):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        _damage(files.path, bytes(damaged))
        assert files.restored().telemetry.batch_seconds == 42.0
        assert files.path.read_bytes() == whole
        assert damaged_file(files.path).read_bytes() == damaged
        assert "was damaged: restored from its copy" in capsys.readouterr().err


def _edit(path: Path, content: bytes) -> None:
    """Change a file as a person does, some time later."""
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


@pytest.mark.parametrize("content", [b"", b"[telem", bytes(40), b"\xff\xfe"])
def test_what_is_cut_off_or_was_never_written_is_restored(files: ConfigurationFiles, content: bytes) -> None:
    _damage(files.path, content)
    assert files.restored().telemetry.batch_seconds == 42.0


@pytest.mark.parametrize("content", [bytes(40), _TEXT.encode() + bytes(3), b"\xff\xfe"])
def test_what_no_editor_writes_is_restored_whenever_it_was_written(files: ConfigurationFiles, content: bytes) -> None:
    _edit(files.path, content)
    assert files.restored().telemetry.batch_seconds == 42.0


def test_a_missing_file_is_restored(files: ConfigurationFiles) -> None:
    files.path.unlink()
    assert files.restored().telemetry.batch_seconds == 42.0
    assert not damaged_file(files.path).exists()


def test_a_persons_mistake_is_theirs_to_mend(files: ConfigurationFiles) -> None:
    _edit(files.path, b"[telemetry\n")
    with pytest.raises(ConfigurationError):
        files.restored()
    assert files.path.read_text() == "[telemetry\n"
    _edit(files.path, b"")
    assert files.restored().telemetry.batch_seconds == 60.0, "an empty file is the defaults"


def test_a_persons_change_is_kept_and_restored_from_the_next_start_on(files: ConfigurationFiles) -> None:
    _edit(files.path, _TEXT.replace("42", "43").encode())
    assert files.restored().telemetry.batch_seconds == 43.0
    files.change({"telemetry.batch_readings": 7})
    _damage(files.path, b"[telem")
    config = files.restored().telemetry
    assert (config.batch_seconds, config.batch_readings) == (43.0, 7)


@pytest.mark.slow
def test_a_damaged_copy_restores_nothing_and_is_replaced(files: ConfigurationFiles) -> None:
    whole, rng = copy_of(files.path).read_bytes(), random.Random(5)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        copy_of(files.path).write_bytes(damaged[: rng.choice((len(whole), rng.randrange(len(whole))))])
        assert files.restored().telemetry.batch_seconds == 42.0
        assert copy_of(files.path).read_bytes() == whole
    assert not damaged_file(files.path).exists()


def test_a_file_that_is_replaced_while_it_is_read_is_no_damaged_one(
    files: ConfigurationFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = files.path.with_name("new")
    new.write_text(_TEXT.replace("42.0", "43.0"))
    whole_open = Path.open

    def replaced_before(path: Path, *how: Any, **rest: Any) -> Any:
        if path == files.path and new.exists():
            new.replace(path)
        return whole_open(path, *how, **rest)

    monkeypatch.setattr(Path, "open", replaced_before)
    assert files.restored().telemetry.batch_seconds == 43.0
    assert not damaged_file(files.path).exists()


def test_a_copy_is_written_only_when_the_file_changes(files: ConfigurationFiles) -> None:
    before = copy_of(files.path).stat()
    for _ in range(3):
        files.restored()
    assert copy_of(files.path).stat() == before
    assert before.st_mode & 0o777 == 0o600


def test_no_copy_is_kept_of_a_file_elsewhere(tmp_path: Path) -> None:
    state, other = tmp_path / "state", tmp_path / "other.toml"
    state.mkdir()
    other.write_text(_TEXT)
    ConfigurationFiles(other, state / "ordered.json").restored()
    assert not copy_of(other).exists()


@pytest.mark.processes
def test_an_agent_gets_past_a_damaged_configuration_and_check_says_so(tmp_path: Path) -> None:
    ann = Here(tmp_path, "ann")
    path = ann.state / "config.toml"
    _damage(path, b"[telem")
    assert ann.covey("status").code == 78
    ended = ann.covey("run")
    assert f"{path} was damaged: restored from its copy" in ended.stderr
    assert "no relay is set" in ended.stderr
    assert "ann" in ann.ok("status")
    checked = ann.covey("check").stdout
    assert "config.toml was damaged, and restored from its copy" in checked
