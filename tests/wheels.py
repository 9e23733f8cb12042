"""`./dev wheels`: which extras install on which machine without a compiler. Asks the package index.

1. An extra is well where pip finds a wheel of each package that it brings, for the machine, its Python, its C library.
   Of each the newest is taken that whoever named it first allows; nothing is resolved any further.
2. What no wheel is found for is named: it has to be compiled there, or comes from elsewhere (Debian; piwheels, which is
   not asked).
3. What comes as source and has nothing to compile (`PURE`) counts as a wheel.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_TREE = Path(__file__).parents[1]

PURE = {"pyspark": ["py4j==0.10.9.9"], "hkdf": []}
"""Distributions that come as source and are Python and Java alone, with what they ask for."""

_ABSENT = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True)
class Target:
    """A machine, and Debian's Python and C library there."""

    machine: str
    python: str
    glibc: int

    def platforms(self) -> list[str]:
        """Return the tags of wheels that run there."""
        older = ["manylinux1", "manylinux2010"] if self.machine == "x86_64" else []
        tags = [f"manylinux_2_{minor}" for minor in range(self.glibc, 16, -1)] + ["manylinux2014", *older, "linux"]
        return [f"{tag}_{self.machine}" for tag in tags]

    def has(self, requirement: Requirement, extras: Iterable[str] = ()) -> bool:
        """Say whether a requirement is one of this machine's, where some extras of its package are asked for."""
        environment = {"platform_machine": self.machine, "python_version": self.python, "sys_platform": "linux"}
        environment["python_full_version"] = f"{self.python}.2"
        marker = requirement.marker
        return marker is None or any(marker.evaluate(environment | {"extra": extra}) for extra in ["", *extras])


TARGETS = [
    Target(machine, python, glibc)
    for machine in ("x86_64", "aarch64", "armv7l")
    for python, glibc in (("3.11", 36), ("3.13", 41))
]
"""Debian 12 and 13; Raspberry Pi OS of 64 bits is aarch64, that of 32 bits armv7l."""


def requirements() -> dict[str, list[Requirement]]:
    """Return what the agent itself asks for, as the extra of no name, and what each extra does."""
    project = tomllib.loads((_TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [Requirement(line) for line in lines] for extra, lines in asked.items()}


@dataclass(slots=True)
class Index:
    """What the index has for one machine: of each package what it brings; `absent` are those without a wheel."""

    target: Target
    absent: set[str] = field(default_factory=set)
    _brings: dict[str, set[str]] = field(default_factory=dict)

    def look(self, asked: Iterable[Requirement]) -> None:
        """Find all of these, and all that they bring.

        Raises:
            RuntimeError: pip failed otherwise than by finding no wheel.
        """
        level = {_name(each): each for each in asked if self.target.has(each)}
        while level:
            found = self._found(level)
            following: dict[str, Requirement] = {}
            for name, each in level.items():
                lines = PURE.get(name) or found.get(name, [])
                brought = [one for one in map(Requirement, lines) if self.target.has(one, each.extras)]
                self._brings[name] = {_name(one) for one in brought}
                following |= {_name(one): one for one in brought}
            level = {name: one for name, one in following.items() if name not in self._brings}

    def without_wheel(self, asked: Iterable[Requirement]) -> set[str]:
        """Return the packages, of these or of what they bring, that no wheel was found for."""
        open_ones, seen = [_name(each) for each in asked if self.target.has(each)], set[str]()
        while open_ones:
            name = open_ones.pop()
            if name not in seen:
                seen.add(name)
                open_ones += self._brings[name]
        return seen & self.absent

    def _found(self, level: dict[str, Requirement]) -> dict[str, list[str]]:
        """Ask for some packages; return what each asks for, and note which have no wheel."""
        wanted = {name: f"{each.name}{each.specifier}" for name, each in level.items() if name not in PURE}
        while wanted:
            with TemporaryDirectory() as folder:
                report = Path(folder, "report.json")
                done = subprocess.run(
                    [*self._pip(folder), f"--report={report}", *wanted.values()],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode == 0:
                    installs = [each["metadata"] for each in json.loads(report.read_text())["install"]]
                    return {canonicalize_name(each["name"]): each.get("requires_dist", []) for each in installs}
            absent = _ABSENT.search(done.stderr)
            if absent is None:
                raise RuntimeError(done.stderr)
            self.absent.add(canonicalize_name(absent[1]))
            del wanted[canonicalize_name(absent[1])]
        return {}

    def _pip(self, folder: str) -> list[str]:
        words = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--no-deps"]
        words += ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.target.python}"]
        return [*words, *(f"--platform={tag}" for tag in self.target.platforms()), f"--target={folder}"]


def _name(requirement: Requirement) -> str:
    return canonicalize_name(requirement.name)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="./dev wheels", description="Which extras need a compiler where.")
    parser.add_argument("--machine", action="append", choices=sorted({each.machine for each in TARGETS}))
    options = parser.parse_args()
    asked = requirements()
    targets = [each for each in TARGETS if not options.machine or each.machine in options.machine]
    columns = []
    for target in targets:
        print(f"asking for {target.machine}, Python {target.python} …", file=sys.stderr)
        index = Index(target)
        index.look(each for lines in asked.values() for each in lines)
        columns.append([", ".join(sorted(index.without_wheel(lines))) or "-" for lines in asked.values()])
    print("| no wheel for | " + " | ".join(f"{each.machine}, Python {each.python}" for each in targets) + " |")
    print("|---|" + "---|" * len(targets))
    for extra, *cells in zip(asked, *columns, strict=True):
        print(f"| {extra or 'the agent itself'} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
