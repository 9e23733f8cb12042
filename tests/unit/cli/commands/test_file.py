"""Who ends what takes its time with files by Ctrl-C reads what stays of it, and that is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.cli.main import INTERRUPTED
from covey.cli.output.progress_line import ProgressLine
from tests.command import Here


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A device with two files."""
    found = Here(tmp_path, "hub")
    found.ok("group", "create")
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode() * 1_000)
        found.ok("file", "put", str(tmp_path / name))
    return found


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ctrl-C comes where this has been shown so often as it has entries; it is empty then."""
    left = list[str]()

    def show(_line: ProgressLine, text: str, *, last: bool = False) -> None:
        if not left:
            raise KeyboardInterrupt
        assert left.pop(0) in text

    monkeypatch.setattr(ProgressLine, "show", show)
    return left


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person at a terminal is shown of how far it is."""
    texts = list[str]()
    monkeypatch.setattr(ProgressLine, "show", lambda _line, text, *, last=False: texts.append(text))  # noqa: ARG005
    return texts


def test_a_verification_that_is_ended_says_what_is_whole(here: Here, interrupted: list[str]) -> None:
    interrupted.append("two")  # the newest one first
    ended = here.covey("file", "verify")
    assert ended.code == INTERRUPTED
    assert ended.stderr.startswith("interrupted: 1 of 2 files intact; the others were not checked")


def test_an_export_that_is_ended_leaves_nothing_on_the_stick(
    here: Here, interrupted: list[str], tmp_path: Path
) -> None:
    stick = tmp_path / "stick"
    stick.mkdir()
    ended = here.covey("file", "export", "one", str(stick))
    assert (ended.code, ended.stderr) == (INTERRUPTED, f"interrupted: nothing was written to {stick}\n")
    assert not [*stick.iterdir()]
    interrupted += ["one"]
    here.ok("file", "export", "one", str(stick))


@pytest.mark.slow
def test_an_import_that_is_ended_takes_nothing(here: Here, interrupted: list[str], tmp_path: Path) -> None:
    interrupted += ["one"]
    here.ok("file", "export", "one", str(tmp_path / "sealed"))
    here.ok("file", "delete", "one", "--yes")
    ended = here.covey("file", "import", str(tmp_path / "sealed"))
    assert (ended.code, ended.stderr) == (INTERRUPTED, "interrupted: nothing was imported; run the command again\n")
    assert [each["state"] for each in here.json("file", "list") if each["name"] == "one"] == ["offered"]


@pytest.mark.slow
def test_each_step_that_takes_its_time_is_shown(here: Here, shown: list[str], tmp_path: Path) -> None:
    (tmp_path / "three").write_bytes(b"one" * 1_001)
    here.ok("file", "put", str(tmp_path / "three"), "--base", "one")
    assert "0 %  encrypted 0 B  three" in shown[0]
    assert "making a patch from 'one'" in shown
    shown.clear()
    here.ok("file", "get", "three", "-o", str(tmp_path / "got"))
    assert shown[-1] == "writing 2.9 KiB  three"
    shown.clear()
    here.ok("file", "verify")
    assert [each.split()[-1] for each in shown[-2:]] == ["two", "one"]


def test_a_patch_that_is_ended_leaves_the_whole_offered(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("covey.app.content.patches.make_patch", interrupt)
    (tmp_path / "three").write_bytes(b"one" * 1_001)
    ended = here.covey("file", "put", str(tmp_path / "three"), "--base", "one")
    assert ended.code == INTERRUPTED
    assert "interrupted: 'three' is offered as " in ended.stderr
    assert "three" in [each["name"] for each in here.json("file", "list")]


@pytest.fixture
def full(here: Here, tmp_path: Path) -> Here:
    """Of a quota of 1 MB, three files of 300 kB, of which one is pinned; the oldest one was used last."""
    here.ok("config", "set", "content.maximum_mb", "1")
    for number, pin in enumerate(("--no-pin", "--pin", "--no-pin")):
        (tmp_path / f"large {number}").write_bytes(bytes([number]) * 300_000)
        here.ok("file", "put", str(tmp_path / f"large {number}"), pin)
    here.ok("file", "get", "large 0", "-o", str(tmp_path / "used"))
    return here


def _whole(here: Here) -> set[str]:
    return {each["name"] for each in here.json("file", "list") if each["state"] == "here"} - {"one", "two"}


@pytest.mark.slow
def test_the_least_recently_used_unpinned_file_makes_room(full: Here, tmp_path: Path) -> None:
    (tmp_path / "newer").write_bytes(bytes(200_000))
    full.ok("file", "put", str(tmp_path / "newer"), "--no-pin")
    assert _whole(full) == {"large 0", "large 1", "newer"}
    (tmp_path / "newest").write_bytes(bytes(500_000))
    full.ok("file", "put", str(tmp_path / "newest"))
    assert _whole(full) == {"large 1", "newest"}


@pytest.mark.slow
def test_a_refused_file_evicts_no_other(full: Here, tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(bytes(800_000))
    assert "content.maximum_mb" in full.fails("file", "put", str(tmp_path / "huge"), code=1)
    assert _whole(full) == {"large 0", "large 1", "large 2"}
    (tmp_path / "fits").write_bytes(bytes(600_000))
    full.ok("file", "put", str(tmp_path / "fits"))
    assert _whole(full) == {"large 1", "fits"}
