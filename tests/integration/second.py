"""The second implementation of a device (tests/outside/device) as a process of the tests."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from broker_conf.mosquitto import Broker
from tests.meta.source_tree import ROOT
from tests.waiting import wait_until

SECOND = ROOT / "tests/outside/device"


def node() -> str:
    """Return the path of Node."""
    program = shutil.which("node")
    if program is None:
        pytest.fail("the second device needs Node 18 or later: apt install nodejs")
    return program


class Second:
    """The device, as a process that is started again and again in one folder."""

    def __init__(self, folder: Path, broker: Broker | None, name: str = "second") -> None:
        """Make its keys, and with a broker an account there."""
        self.state, self.log = folder / name, folder / f"{name}.log"
        self.key = subprocess.check_output([*self._words(), "--key"], text=True).strip()
        self.password = broker.add_device(self.key[:32]) if broker else None
        self._relay = ["--relay", broker.url, "--password", self.password] if broker and self.password else []
        self._process: subprocess.Popen[bytes] | None = None

    def _words(self) -> list[str]:
        return [node(), str(SECOND / "device.js"), "--state", str(self.state)]

    def start(self, *words: str) -> None:
        """Start it; it says what happens, a line each, in its log."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._words(), *self._relay, *words], stdin=subprocess.PIPE, stdout=log, stderr=log
            )

    def do(self, line: str) -> None:
        """Give it a command; it was started with `--commands`."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def invite(self, *capabilities: str) -> str:
        """Return the URI of an invite to its group."""
        before = len(self.said("invite"))
        self.do(" ".join(("invite", *capabilities)))
        wait_until(lambda: len(self.said("invite")) > before, "the second device invites")
        uri: str = self.said("invite")[-1]["uri"]
        return uri

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it."""
        if self._process:
            self._process.send_signal(how)
            self._process.wait(30)
            if self._process.stdin:
                self._process.stdin.close()
            self._process = None

    def said(self, event: str) -> list[dict[str, Any]]:
        """Return what it has said of one kind, over all its runs."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [each for each in events if each["event"] == event]
