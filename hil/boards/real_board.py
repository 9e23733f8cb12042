"""The firmware on a real board, with the same face as `emulated_board`: what it hears and says passes through a
`SerialLine`, so that a real board sees the same faults.

No such board hangs on the machine that this was written on: what is not shared with the emulated ones has never run.
A program that has the line cannot be stopped from outside except by restarting the board, which `kill` does; RAM is
gone then, as it should be.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from covey_boards.serial_link import catch_prompt
from hil.boards.drivers import BAUD
from hil.boards.serial_line import RealPort, SerialLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hil.boards.drivers import SerialBoard

_START = "import ports; ports.main()"


class RealBoard:
    """A board of `boards.toml`, with the line that it hangs on.

    Args:
        folder: the gateway's end of the line is `port` in it.
        board: the driver.
        modules: the firmware by file name.
        settings: of its `covey.json`; the prompt can be asked for in its first second and a half.
        permille, seed: of the line's damage. Its time is that of the real line.
    """

    def __init__(
        self,
        folder: Path,
        board: SerialBoard,
        *,
        modules: Mapping[str, bytes],
        settings: Mapping[str, object],
        permille: int = 0,
        seed: int = 1,
    ) -> None:
        self._driver = board
        self.alive = False
        self.said = ""  # an exception would be noise on the line
        with tempfile.TemporaryDirectory(prefix="covey-hil-") as name:
            files = {**modules, "covey.json": json.dumps(dict(settings)).encode()}
            for path, data in files.items():
                (Path(name) / path).write_bytes(data)
            board.copy(Path(name))
        board.mpremote(
            "exec", "import os\nfor n in ('identity.key', 'collector.cbor'):\n  n in os.listdir() and os.remove(n)"
        )
        self.line = SerialLine(folder / "port", permille=permille, seed=seed)

    @property
    def port(self) -> Path:
        """What the gateway opens."""
        return self.line.port

    @property
    def state(self) -> str:
        """Say what is known of the firmware, for whoever waits in vain."""
        return "was started" if self.alive else "is off"

    def file(self, name: str) -> bytes:
        """Return a file of its flash; its firmware stops."""
        self.kill()
        hexadecimal = self._driver.mpremote(
            "exec", f"import binascii; print(binascii.hexlify(open({name!r}, 'rb').read()).decode())"
        )
        return bytes.fromhex(hexadecimal.strip())

    def start(self) -> None:
        """Start the firmware, and let the line have the port."""
        self._driver.mpremote("soft-reset", "exec", "--no-follow", _START)
        self.line.attach(RealPort(self._driver.port))
        self.alive = True

    def kill(self) -> None:
        """Take the port from the line and restart the board, as far as its prompt."""
        self.line.attach(None)
        catch_prompt(self._driver.port, BAUD)
        self.alive = False

    def close(self) -> None:
        """Stop, and take the line away."""
        self.kill()
        self.line.close()
