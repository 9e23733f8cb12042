"""A card that takes no writes any more: what can be read is shown, and whatever would write says so in one sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.gateway import Gateway
from tests.small_disk import anywhere, mounted_disk

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
