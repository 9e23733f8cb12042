"""A person's first minutes: two fresh machines, three commands on the hub, one on the gateway, a reading in a table.

The machines are two network namespaces with a cable between them where root may make such, else two homes of one
machine. Everything is real: mosquitto, TLS by an authority that nobody knew, the pairing by code, agents, the vault,
and DuckDB, which is given what `covey vault readings` prints. `test_two_machines.py` has it with the Debian package.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from broker_conf.mosquitto.broker import environment_with_mosquitto, free_port
from covey.adapters.state_folder import StateFolder
from demo.device import COVEY, Device
from tests.integration.cable import cable
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_FIRST_READING_S = 300
"""Five minutes, for a person; nobody types here."""


class Machine(Device):
    """A machine on which nothing of Covey's has run; it counts what a person types there."""

    def __init__(self, folder: Path, name: str, prefix: Sequence[str]) -> None:
        super().__init__(folder, name)
        self.program = [*prefix, *COVEY]
        self.typed: list[str] = []
        self._going_on: list[subprocess.Popen[bytes]] = []

    def begins(self, *words: str) -> None:
        """Type a command that goes on."""
        self.typed.append(" ".join(words))
        with self.log.open("ab") as log:
            self._going_on.append(
                subprocess.Popen([*self.program, *self._words(words)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def answers(self, *words: str) -> Any:
        """Type a command that prints a document; None as long as it fails."""
        shown = self.prints(*words)
        return json.loads(shown) if shown else None

    def prints(self, *words: str) -> str:
        """Type a command that prints something; nothing as long as it fails."""
        done = subprocess.run([*self.program, *self._words(words)], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    def end_first(self) -> None:
        """End what was begun first."""
        first = self._going_on.pop(0)
        first.terminate()
        first.wait(60)

    def end_all(self) -> None:
        """Switch it off."""
        for each in reversed(self._going_on):
            each.terminate()
        for each in self._going_on:
            each.wait(60)


@pytest.fixture
def prefixes() -> Iterator[tuple[list[str], list[str]]]:
    """What a command is preceded by on either end of a cable."""
    with cable() as ends:
        first, second = ([] if ends is None else ["ip", "netns", "exec", end] for end in ends or ("", ""))
        yield first, second


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Sequence[str]], Machine]]:
    """Make machines that have mosquitto; readings do not wait for their batch, so that nobody else does."""
    for name, value in environment_with_mosquitto().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COVEY_TELEMETRY_BATCH_SECONDS", "1")
    monkeypatch.setenv("COVEY_SENSORS_INTERVAL_SECONDS", "1")
    made: list[Machine] = []

    def make(name: str, prefix: Sequence[str]) -> Machine:
        made.append(Machine(tmp_path, name, prefix))
        return made[-1]

    yield make
    for each in made:
        each.end_all()


def _values(hub: Machine, label: str) -> list[Any]:
    fleet = hub.answers("fleet", "--json") or {"devices": []}
    return [value for each in fleet["devices"] if each["label"] == label for value in each["values"]]


def _in_a_table(hub: Machine, label: str) -> int:
    """Return how many of a device's readings stand in DuckDB's table, as it takes what the hub prints."""
    file = hub.log.with_name("readings.ndjson")
    file.write_text(hub.prints("vault", "readings", "--json"))
    if not file.stat().st_size:
        return 0
    counted = (
        "SELECT count(DISTINCT (author, incarnation, seq, index)), count(*) FROM read_json($file) WHERE label = $label"
    )
    found = duckdb.connect().execute(counted, {"file": str(file), "label": label}).fetchone()
    assert found is not None
    assert found[0] == found[1], "each once"
    return int(found[0])


def test_a_reading_of_a_second_machine_reaches_the_table(
    prefixes: tuple[list[str], list[str]],
    machine: Callable[[str, Sequence[str]], Machine],
) -> None:
    began = time.monotonic()
    hub, gateway = machine("barn", prefixes[0]), machine("greenhouse", prefixes[1])
    hub.begins("relay", "serve", "--label", "barn", "--port", str(free_port()))
    wait_until(lambda: "serving the relay" in hub.log.read_text(), "the relay is served")
    hub.begins("collect", "--new-group")
    wait_until(lambda: "relay: connected" in hub.log.read_text(), "the hub collects")
    invitation = hub.answers("invite", "--yes", "--no-wait", "--json")
    hub.typed.append("invite")
    assert "@" in invitation["join"]
    assert " " not in invitation["join"]
    gateway.begins("join", invitation["join"], "--label", "greenhouse", "--run")
    wait_until(lambda: _values(hub, "greenhouse"), "the fleet's view shows a reading")
    wait_until(lambda: _in_a_table(hub, "greenhouse"), "a reading stands in a table")
    seconds = time.monotonic() - began
    print(f"{len(hub.typed)} commands and {len(gateway.typed)}, {seconds:.1f} s")
    assert (len(hub.typed), len(gateway.typed)) == (3, 1)
    assert "warning" not in gateway.log.read_text(), "nothing is amiss"
    assert seconds < _FIRST_READING_S
    secret = "".join(path.read_text() for path in (hub.log, gateway.log))
    assert _relay_password(gateway) not in secret


def _relay_password(machine: Machine) -> str:
    folder = StateFolder.at(machine.state)
    return folder.relay_password(folder.configuration.config(), folder.identity())
