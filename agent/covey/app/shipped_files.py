"""Files shipped with Covey to read and copy: broker configurations, systemd units and udev rules.

In a checkout `covey/files` holds links to where each of them is kept; a wheel and an sdist hold copies, and the Debian
package a link to /usr/share/covey. So one name reads the same file everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from covey.errors import UsageError


def names() -> list[str]:
    """Return the name of every file, `systemd/covey.service` for one, in order."""
    return sorted(name for name, _ in _files(_root(), ""))


def read(name: str) -> str:
    """Return a file's text.

    Raises:
        UsageError: there is no file of that name.
    """
    for found, file in _files(_root(), ""):
        if found == name:
            return file.read_text(encoding="utf-8")
    raise UsageError(f"no file is called {name}", hint="'covey system-files' lists them")


def _root() -> Path:
    """Return the folder. `importlib.resources` would load compressors too: 0.6 MiB in an agent that obeys."""
    return Path(__file__).parents[1] / "files"


def _files(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):  # a checkout's: it boots brokers for the tests
            yield f"{prefix}{entry.name}", entry
