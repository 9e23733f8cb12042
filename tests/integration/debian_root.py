"""A Debian of its own for a test: a folder with copies of packages that this machine has, to be entered with chroot.

It holds the essential packages and what the named ones depend on, so that a dependency which a package forgot to name
is missing there. Nothing is downloaded and nothing mounted: root with CAP_CHOWN, CAP_MKNOD and CAP_SYS_CHROOT, which a
plain container has, is enough.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.waiting import GUARD_S

_DPKG = Path("var/lib/dpkg")
_LEFT_OUT = (
    "usr/share/doc/",
    "usr/share/man/",
    "usr/share/locale/",
    "usr/share/zoneinfo/",
    "usr/share/lintian/",
    "usr/share/i18n/",
    "usr/lib/x86_64-linux-gnu/gconv/",
    "usr/lib/udev/",
    "usr/share/info/",
)
"""Large, and nothing that a test asks for."""

_CHOICES = ("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/ld.so.cache", "etc/nsswitch.conf")
"""What maintainer scripts of the base system wrote, and dpkg does not list."""

Paragraph = dict[str, str]


def missing_for_root(packages: Iterable[str]) -> str | None:
    """Return why no root with these packages can be made here, or None where one can."""
    if not Path("/", _DPKG, "status").exists():
        return "this is no Debian"
    if os.geteuid() != 0:
        return "chroot needs root"
    if absent := sorted(set(packages) - set(_installed())):
        return f"apt-get install {' '.join(absent)}"
    return None


def need(missing: str | None) -> None:
    """Go on where nothing is missing. In CI everything has to be there."""
    if missing is not None and "CI" in os.environ:
        pytest.fail(missing)
    if missing is not None:
        pytest.skip(missing)


class DebianRoot:
    """The folder, and how to work in it."""

    def __init__(self, path: Path, packages: Iterable[str]) -> None:
        """Copy the packages and all that they depend on."""
        self.path = path
        path.mkdir(mode=0o755)
        installed = _installed()
        chosen = _closure(installed, packages)
        listed = subprocess.run(
            ["dpkg-query", "--listfiles", *(_full_name(installed[name]) for name in chosen)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        shown = {line.lstrip("/") for line in listed.splitlines() if line.startswith("/") and line != "/."}
        shown = {name for name in shown if not name.startswith(_LEFT_OUT)}
        links = {str(path.relative_to("/")) for path in Path("/etc/alternatives").iterdir()}
        self._copy({_physical(name) for name in shown | links | {*_CHOICES} if Path("/", name).exists()})
        self._describe(installed, chosen)
        for device, numbers in {"null": (1, 3), "urandom": (1, 9)}.items():
            os.mknod(path / "dev" / device, 0o020666, os.makedev(*numbers))
            (path / "dev" / device).chmod(0o666)

    def copied(self, path: Path) -> DebianRoot:
        """Return the same in another folder, with all that was done in it."""
        subprocess.run(["cp", "--archive", str(self.path), str(path)], check=True)
        copy = object.__new__(DebianRoot)
        copy.path = path
        return copy

    def _copy(self, names: set[str]) -> None:
        # Folders first: /bin is a link into one of them.
        ordered = sorted(names, key=lambda name: (Path("/", name).is_symlink() or not Path("/", name).is_dir(), name))
        pack = ["tar", "--create", "--directory=/", "--no-recursion", "--null", "--files-from=-", "--file=-"]
        with subprocess.Popen(pack, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as packing:
            assert packing.stdin is not None
            assert packing.stdout is not None
            unpack = subprocess.Popen(["tar", "--extract", f"--directory={self.path}"], stdin=packing.stdout)
            packing.stdin.write(b"\0".join(name.encode() for name in ordered))
            packing.stdin.close()
            assert unpack.wait(timeout=GUARD_S) == 0
        assert packing.returncode in {0, 1}, "1 says that a folder changed meanwhile, as /tmp does"

    def _describe(self, installed: dict[str, Paragraph], chosen: set[str]) -> None:
        """Tell dpkg what is here."""
        database = self.path / _DPKG
        for folder in ("info", "updates", "triggers"):
            (database / folder).mkdir(parents=True, exist_ok=True)
        (database / "available").touch()
        texts = ["\n".join(f"{key}: {value}" for key, value in installed[name].items()) for name in sorted(chosen)]
        (database / "status").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
        for name in chosen:
            for suffix in ("list", "md5sums", "conffiles"):
                file = Path("/", _DPKG, "info", f"{_full_name(installed[name])}.{suffix}")
                if file.exists():
                    (database / "info" / file.name).write_bytes(file.read_bytes())

    def run(self, *words: str, feed: str = "", code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a program in it, which must end with this code, if one is given."""
        return self._done(["chroot", str(self.path), *words], feed, code)

    def dpkg(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the machine's dpkg on it; maintainer scripts run inside."""
        return self._done(["dpkg", f"--root={self.path}", *words], "", code)

    def _done(self, words: list[str], feed: str, code: int | None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        done = subprocess.run(
            words, input=feed, capture_output=True, text=True, timeout=GUARD_S, check=False, env=environment
        )
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done


def _physical(name: str) -> str:
    """Return the name without links on its way: what dpkg calls /lib/x lies in /usr/lib/x."""
    path = Path("/", name)
    return str(path.parent.resolve() / path.name).lstrip("/")


def _installed() -> dict[str, Paragraph]:
    """Return the machine's installed packages: name to fields. Of two architectures the first wins."""
    found: dict[str, Paragraph] = {}
    for text in Path("/", _DPKG, "status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): ?((?:.*(?:\n[ \t].*)*))", text, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            found.setdefault(fields["Package"], fields)
    return found


def _full_name(package: Paragraph) -> str:
    same = package.get("Multi-Arch") == "same"
    return f"{package['Package']}:{package['Architecture']}" if same else package["Package"]


def _closure(installed: dict[str, Paragraph], wanted: Iterable[str]) -> set[str]:
    """Return the wanted and the essential packages, with the first installed alternative of each dependency."""
    providers: dict[str, str] = {}
    for name, fields in installed.items():
        for provided in _names(fields.get("Provides", "")):
            providers.setdefault(provided[0], name)
    open_ones = [*wanted, *(name for name, fields in installed.items() if fields.get("Essential") == "yes")]
    chosen: set[str] = set()
    while open_ones:
        name = open_ones.pop()
        if name in chosen:
            continue
        chosen.add(name)
        for field in ("Pre-Depends", "Depends"):
            for choices in _names(installed[name].get(field, "")):
                here = [one if one in installed else providers.get(one) for one in choices]
                open_ones += [one for one in here if one is not None][:1]
    return chosen


def _names(relations: str) -> list[list[str]]:
    """Return each relation's alternatives, without versions and architectures."""
    return [
        [choice.split()[0].partition(":")[0] for choice in relation.split("|")]
        for relation in relations.split(",")
        if relation.strip()
    ]
