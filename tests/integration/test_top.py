"""`covey top` and `covey fleet --watch` on a terminal of their own, read from the screen as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, Incarnation, NoisePublic
from covey.ports import AttachedBoard
from tests.integration.gateway import Gateway
from tests.waiting import Patience, wait_until
from tests.warm_covey import COVEY

_COLUMNS, _LINES = 120, 40


class _Terminal:
    """A command on a pseudo-terminal, and the screen that it has drawn."""

    def __init__(self, *words: str, kind: str = "xterm") -> None:
        self._screen = pyte.Screen(_COLUMNS, _LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._master, slave = pty.openpty()
        self.resize(_COLUMNS, _LINES)
        self.process = subprocess.Popen(
            [*COVEY, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": kind, "LINES": "", "COLUMNS": ""},
        )
        os.close(slave)

    def resize(self, columns: int, lines: int) -> None:
        """Be another size."""
        self._screen.resize(lines, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def text(self) -> str:
        """Return what the screen shows by now."""
        while select.select([self._master], [], [], 0.02)[0]:
            try:
                self._stream.feed(os.read(self._master, 65_536))
            except OSError:  # the command has ended
                break
        return "\n".join(line.rstrip() for line in self._screen.display)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def ended(self) -> int:
        """Return the exit code, reading on so that the command can write."""
        patience = Patience()
        while self.process.poll() is None:
            assert patience.left, self.text()
            self.text()
        return self.process.returncode

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def new_terminal() -> Iterator[Callable[..., _Terminal]]:
    """Make terminals; they are closed at the end."""
    made: list[_Terminal] = []

    def make(*words: str, **options: str) -> _Terminal:
        made.append(_Terminal(*words, **options))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()


@pytest.mark.broker
def test_a_live_view(new_gateway: Callable[[str], Gateway], new_terminal: Callable[..., _Terminal]) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create", "--capability", "collector")
    one.start("collect", "--no-sensors")
    one.invite(two)
    two.start("run", "--no-sensors")
    wait_until(lambda: two.json("status")["relay"]["state"] == "up", "the relay is up")
    terminal = new_terminal("top", "--state", str(two.state), "--interval", "0.3")
    wait_until(lambda: " ago " in terminal.text(), "the last line of a picture is drawn")
    text = terminal.text()
    assert "health   well" in text
    assert f"device   {two.json('status')['device']} two" in text
    assert ": up, for " in text
    assert "losses   none" in text
    assert [line.split()[:2] for line in text.splitlines() if " ago " in line] == [[one.author[:8], "one"]]

    two.ok("publish", feed='{"n":"t","v":1}\n' * 500)
    wait_until(lambda: _rate(terminal.text(), "readings published") > 0, "the rate is shown")
    wait_until(lambda: _rate(terminal.text(), "readings published") == 0, "it falls again")

    one.end()
    two.ok("message", "send", "--text", "waits")
    wait_until(lambda: "outbox   1 message, " in (text := terminal.text()) and " (data " in text, "what waits is shown")
    two.end()
    wait_until(lambda: "health   the agent is not running" in terminal.text(), "the end of the agent is shown")

    terminal.resize(40, 5)
    terminal.process.send_signal(signal.SIGWINCH)  # the kernel's part, where the terminal is the controlling one
    wait_until(lambda: terminal.text().count("\n") == 4 and "device   " in terminal.text(), "a small window is used")
    terminal.type(b"q")
    assert terminal.ended() == 0


def _rate(text: str, name: str) -> float:
    _, found, rest = text.partition(f"{name} ")
    return float(rest.partition("/s")[0]) if found else -1


def test_the_fleet_is_redrawn(tmp_path: Path, new_terminal: Callable[..., _Terminal]) -> None:
    alone = Gateway(tmp_path, "alone")
    terminal = new_terminal("fleet", "--watch", "--interval", "0.2", "--state", str(alone.state))
    wait_until(lambda: "this device is in no group" in terminal.text(), "there is nobody")
    alone.ok("group", "create")
    wait_until(lambda: "no other device yet (add one: covey invite)" in terminal.text(), "the group is seen")
    assert "this device is in no group" not in terminal.text()
    terminal.type(b"q")
    assert terminal.ended() == 0


def test_boards_and_losses(tmp_path: Path, new_terminal: Callable[..., _Terminal]) -> None:
    alone = Gateway(tmp_path, "alone")
    store = SqliteStore(alone.state / "state.sqlite", Incarnation(bytes(8)), StorageKey(bytes(32)))
    keys = DeviceKeys(DeviceKey(b"s" * 32), NoisePublic(b"n" * 32))
    with store.transaction():
        store.boards.note(AttachedBoard("/dev/ttyACM0", keys, "covey 1", False, True, time.time_ns() // 1000, {}))
        store.counters.count("dropped_signature", 3)
        store.counters.count("published_readings", 5)
    store.close()
    terminal = new_terminal("top", "--state", str(alone.state))
    wait_until(lambda: ", not enrolled  covey 1" in terminal.text(), "the board is shown")
    assert "losses   dropped_signature 3" in terminal.text()
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130


def test_one_picture(tmp_path: Path, new_terminal: Callable[..., _Terminal]) -> None:
    alone = Gateway(tmp_path, "alone")
    printed = alone.ok("top", "--interval", "0.1")  # no terminal
    assert printed.startswith("device   ")
    assert "rates    readings published 0.0/s" in printed
    assert alone.ok("top", "--once", "--interval", "0.1").count("device   ") == 1
    assert "between 0.1 and 3600" in alone.fails("top", "--interval", "0", code=2)
    terminal = new_terminal("top", "--state", str(alone.state), kind="no-such-terminal")
    assert terminal.ended() == 2
    assert "check TERM" in terminal.text()
