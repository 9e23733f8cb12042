"""A running Home Assistant; `./dev prove` installs it in a Python environment of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.house_broker import HouseBroker
from tests.proof import begins

_ROOT = Path(__file__).parents[1]
PYTHON = _ROOT / ".cache/home-assistant/bin/python"
_PROGRAM = _ROOT / "tests/outside/house/home_assistant.py"


class RealHome:
    """Home Assistant on this machine, at a house's broker."""

    def __init__(self, folder: Path, port: int, broker: HouseBroker) -> None:
        self.folder, self._port, self._broker = folder, port, broker
        self.url = f"http://127.0.0.1:{port}"
        self.token = ""
        self._process: subprocess.Popen[str] | None = None
        self._connection: ClientConnection | None = None
        self._asked = 0
        folder.mkdir()

    def start(self) -> None:
        """Start it, and wait until it runs."""
        begins()
        about_broker = self._broker.url, self._broker.password
        arguments: list[str | Path] = [PYTHON, _PROGRAM, self.folder, str(self._port), *about_broker]
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        self.token = self._process.stdout.readline().strip()
        assert self.token, (self.folder / "log").read_text()[-4_000:]
        self._asked = 0
        self._connection = connect(f"ws://127.0.0.1:{self._port}/api/websocket", max_size=None)
        self._connection.recv()
        self._connection.send(json.dumps({"type": "auth", "access_token": self.token}))
        assert json.loads(self._connection.recv())["type"] == "auth_ok"

    def ask(self, command: str, **arguments: Any) -> Any:
        """Send a command of the WebSocket API, and return its result."""
        assert self._connection is not None
        self._asked += 1
        self._connection.send(json.dumps({"id": self._asked, "type": command, **arguments}))
        answer = json.loads(self._connection.recv())
        assert answer["success"], answer
        return answer["result"]

    def entity_id(self, unique_id: str) -> str:
        """Return what an entity is called; an empty text: it does not know it."""
        found = {each["unique_id"]: each["entity_id"] for each in self.ask("config/entity_registry/list")}
        return str(found.get(unique_id, ""))

    def kill(self) -> None:
        """Kill it."""
        if self._connection is not None:
            self._connection.socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
