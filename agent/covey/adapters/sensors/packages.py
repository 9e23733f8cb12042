"""The packages that are installed on this machine, as dpkg or opkg keeps them.

Both keep one text of paragraphs (Debian Policy, 5.1). Of each installed package its name is taken, with the
architecture where it is not the machine's first one, and its version. Only a changed file is read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

_FILES = (Path("/var/lib/dpkg/status"), Path("/usr/lib/opkg/status"), Path("/var/lib/opkg/status"))
_FIELDS = ("Package", "Status", "Version", "Architecture")


class InstalledPackages:
    """Looks at the first of some files that is there."""

    def __init__(self, files: Iterable[Path] = _FILES) -> None:
        self._files = tuple(files)
        self._seen: tuple[Path, int, int, int] | None = None

    def changed(self) -> dict[str, str] | None:
        """Return names and versions, None where nothing has changed since the last look, or nothing can be read."""
        for path in self._files:
            try:
                found = path.stat()
                seen = path, found.st_ino, found.st_mtime_ns, found.st_size
                if seen == self._seen:
                    return None
                with path.open(encoding="utf-8", errors="replace") as lines:
                    packages = installed(lines)
            except OSError:
                continue
            self._seen = seen
            return packages or None
        return None


def installed(lines: Iterable[str]) -> dict[str, str]:
    """Return the installed packages that a status file lists: name and version.

    Where a machine has packages of several architectures, those of all but the most frequent one are NAME:ARCHITECTURE.
    """
    found = [each for each in _paragraphs(lines) if each.get("Status", "").split()[-1:] == ["installed"]]
    found = [each for each in found if each.get("Package") and each.get("Version")]
    frequent = Counter(each.get("Architecture", "all") for each in found if each.get("Architecture") != "all")
    native = {"all", *(name for name, _ in frequent.most_common(1))}
    packages = {}
    for each in found:
        architecture = each.get("Architecture", "all")
        name = each["Package"] if architecture in native else f"{each['Package']}:{architecture}"
        packages[name] = each["Version"]
    return packages


def _paragraphs(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    for line in lines:
        if line.strip():
            name, colon, value = line.partition(":")
            if colon and name in _FIELDS:
                fields[name] = value.strip()
        elif fields:
            yield fields
            fields = {}
    if fields:
        yield fields
