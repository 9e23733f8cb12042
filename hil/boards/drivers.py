"""How to speak to each kind of board: give it files and a program, get what it prints."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from covey_boards.serial_link import catch_prompt
from hil.boards import runtimes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BOARDS = Path(__file__).parents[1] / "boards.toml"
RUN_SECONDS_MAX = 600.0  # ends what hangs: beside others' work a program only takes longer
# Where MicroPython 1.9.2 for the micro:bit looks for a script behind its firmware, and how much room there is.
MICROBIT_SCRIPT_ADDRESS = 0x3E000
MICROBIT_SCRIPT_BYTES_MAX = 8 * 1024
BAUD = 115_200
_END = "-- end of program --"


class BoardError(Exception):
    """The program raised, crashed or did not end; the text is what the board printed."""


class Driver(Protocol):
    """A board that runs programs."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def architecture(self) -> str:
        """What `mpy-cross -march=` must be told, or "" where no native code can be loaded."""
        ...

    @property
    def heap_limit(self) -> bool:
        """Whether `heap_kib` is a hard bound."""
        ...

    def run(self, program: str, files: Mapping[str, bytes] | None = None, *, heap_kib: int = 1024) -> str:
        """Run a program beside `files` and return what it prints.

        Raises:
            BoardError: it raised, crashed or did not end.
        """
        ...


@contextmanager
def _folder(files: Mapping[str, bytes], program: str) -> Iterator[tuple[Path, Path]]:
    """Give a folder with the files, and beside it the program."""
    with tempfile.TemporaryDirectory(prefix="covey-hil-") as name:
        folder = Path(name) / "files"
        folder.mkdir()
        for path, data in files.items():
            (folder / path).write_bytes(data)
        main = Path(name) / "main.py"
        main.write_text(program)
        yield folder, main


def _output(command: list[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the emulators that runtimes.py installs
            command, cwd=cwd, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BoardError(f"no end after {RUN_SECONDS_MAX} s") from error
    if done.returncode:
        raise BoardError((done.stdout + done.stderr)[-2000:])
    return done.stdout


@dataclass(frozen=True, slots=True)
class UnixPort:
    """MicroPython's unix port, native or under qemu-arm. Native code lies outside its heap."""

    name: str
    tool: runtimes.Tool
    architecture: str
    heap_limit: bool = True

    def run(self, program: str, files: Mapping[str, bytes] | None = None, *, heap_kib: int = 1024) -> str:
        """Run a program in a process of its own."""
        with _folder(files or {}, program) as (folder, main):
            return _output([*self.tool.command, "-X", f"heapsize={heap_kib}k", str(main)], cwd=folder)

    @contextmanager
    def start(self, program: str, files: Mapping[str, bytes]) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program whose standard input and output are its serial line."""
        with _folder(files, program) as (folder, main):
            command = [*self.tool.command, str(main)]
            with subprocess.Popen(  # noqa: S603 - the emulator that runtimes.py installs
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as process:
                assert process.stdin is not None
                try:
                    yield process
                finally:
                    process.kill()
                    with suppress(BrokenPipeError):  # what was still to be written; closing again does nothing
                        process.stdin.close()


@dataclass(frozen=True, slots=True)
class Wasm:
    """MicroPython for WebAssembly under node. What `heap_kib` says is not a limit there."""

    tool: runtimes.Tool
    name: str = "wasm"
    architecture: str = ""
    heap_limit: bool = False

    def run(self, program: str, files: Mapping[str, bytes] | None = None, *, heap_kib: int = 1024) -> str:  # noqa: ARG002
        """Run a program in a node process of its own."""
        with _folder(files or {}, program) as (folder, main):
            return _output([*self.tool.command, str(folder), str(main)])


@dataclass(frozen=True, slots=True)
class Microbit:
    """The micro:bit's firmware in QEMU: one script in flash, no files, 9.5 KB of heap whatever is asked for."""

    tool: runtimes.Tool
    name: str = "microbit"
    architecture: str = ""
    heap_limit: bool = True

    def run(self, program: str, files: Mapping[str, bytes] | None = None, *, heap_kib: int = 0) -> str:  # noqa: ARG002
        """Boot with a script, and return what it printed when it is done."""
        if files:
            raise ValueError("no file system: paste what the program needs into it")
        script = f"{program}\nprint({_END!r})\n".encode()
        if len(script) > MICROBIT_SCRIPT_BYTES_MAX - 4:
            raise ValueError(f"{len(script)} bytes do not fit into the script's flash")
        image = b"MP" + len(script).to_bytes(2, "little") + script
        with tempfile.NamedTemporaryFile(suffix=".bin") as flash:
            flash.write(image.ljust((len(image) + 3) & ~3, b"\xff"))
            flash.flush()
            loader = f"loader,file={flash.name},addr={MICROBIT_SCRIPT_ADDRESS:#x}"
            return self._until_end([*self.tool.command, "-serial", "stdio", "-device", loader])

    @staticmethod
    def _until_end(command: list[str]) -> str:
        """Collect output until the script is over; the machine itself never ends."""
        printed: list[str] = []
        # coreutils' timeout ends a machine that prints nothing more, at which its output ends too.
        command = ["timeout", str(int(RUN_SECONDS_MAX)), *command]
        with subprocess.Popen(  # noqa: S603 - the emulator that runtimes.py installs
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace"
        ) as machine:
            assert machine.stdout is not None
            for raw in machine.stdout:
                line = raw.lstrip("\0")  # the line is noisy when the machine starts
                if line.strip() == _END:
                    machine.terminate()
                    return "".join(printed)
                printed.append(line)
                if line.startswith(">>>") or 'Type "help()"' in line:  # the REPL comes after an exception
                    machine.terminate()
        raise BoardError("".join(printed)[-2000:] or "nothing printed")


@dataclass(frozen=True, slots=True)
class SerialBoard:
    """A real board that `boards.toml` names, through mpremote."""

    name: str
    port: str
    architecture: str
    heap_limit: bool = True

    def run(self, program: str, files: Mapping[str, bytes] | None = None, *, heap_kib: int = 0) -> str:  # noqa: ARG002
        """Copy the files to the board, and run the program from memory after a soft reset."""
        with _folder(files or {}, program) as (folder, main):
            self.copy(folder)
            return self.mpremote("soft-reset", "run", str(main))

    def copy(self, folder: Path) -> None:
        """Copy what lies in a folder to the board's flash, after stopping a firmware that may run there."""
        self.stop()
        if paths := [str(path) for path in sorted(folder.iterdir())]:
            self.mpremote("fs", "cp", *paths, ":")

    def stop(self) -> None:
        """Have a firmware that may run there give its prompt."""
        catch_prompt(self.port, BAUD)

    def mpremote(self, *words: str) -> str:
        """Have `mpremote` do something with the board, and return what it prints.

        Raises:
            BoardError: it failed, or is not installed.
        """
        return _output([sys.executable, "-m", "mpremote", "connect", self.port, *words])


def _attached_boards() -> list[SerialBoard]:
    """Return the boards of `boards.toml` that are plugged in; ports that match none stay closed."""
    try:
        from serial.tools import list_ports
    except ImportError:
        return []
    known = tomllib.loads(BOARDS.read_text()).get("board", [])
    return [
        SerialBoard(entry["name"], port.device, entry["architecture"])
        for port in list_ports.comports()
        for entry in known
        if (port.vid, port.pid, port.serial_number) == (entry["vid"], entry["pid"], entry["serial"])
    ]


def open_driver(name: str) -> Driver:
    """Return the driver of an emulated board or of a port.

    Raises:
        runtimes.MissingError: it cannot be had here, or the port is not in `boards.toml`.
    """
    if name.startswith("/dev/"):
        for board in _attached_boards():
            if board.port == str(Path(name).resolve()) or board.port == name:
                return board
        raise runtimes.MissingError(f"{name} is not a board that {BOARDS.name} names")
    tool = runtimes.RUNTIMES[name]()
    if name == "unix32":
        return UnixPort(name, tool, "x86")
    if name == "armhf":
        # Not what the machine could run but what an RP2040 runs: the same artefact.
        return UnixPort(name, tool, "armv6m")
    return Wasm(tool) if name == "wasm" else Microbit(tool)


def device_names(option: str) -> list[str]:
    """Return what `--device` stands for: `auto` is a known board if one is plugged in, else every emulated one."""
    if option != "auto":
        return [option]
    return [board.port for board in _attached_boards()] or list(runtimes.RUNTIMES)
