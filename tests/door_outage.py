"""A device that is offline for five hours, the doors' file, and what each hour of it comes to.

The door may be killed at each step: before or after a commit, before or after a question to Home Assistant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.doors.home_assistant_history import HomeAssistantHistory, _Connected
from covey.adapters.doors.kinds import Door
from covey.adapters.objects.folder import DirectoryStore
from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.door_file import DoorFile
from covey.app.telemetry.door_history import HistoryRunner
from covey.app.telemetry.door_runner import DoorRunner, Survey
from covey.app.telemetry.landed_batches import LandedBatches
from covey.config.doors import DoorEntry
from covey.core.telemetry.batch import ClockKind, Kind
from covey.core.telemetry.door_discovery import NUMBER, EntitySeries
from covey.core.telemetry.door_hours import HOUR_US
from covey.core.telemetry.doors import KnownDevice
from covey.core.telemetry.summaries import Summary, SummarySeries, SummaryWindow, summary_body
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import VaultReader
from covey.core.wire.message import MessageType
from tests.spark.fleet import Author, Collector

HOURS = 5
_MINUTE_US = 60_000_000
_STEP = 10
"""Minutes between two readings."""


class KilledError(BaseException):
    """The power went."""


class Outage:
    """A vault, a device in it, a door to Home Assistant, and the import of its late readings."""

    def __init__(self, folder: Path, seed: int, entry: DoorEntry, now_us: int) -> None:
        self.folder, self._entry, self.now_us = folder, entry, now_us
        self.door_name = entry.name
        folder.mkdir(exist_ok=True)
        self.collector = Collector(folder / "vault", 1)
        self.author = Author(self.collector, seed)
        self.last_hour = now_us // HOUR_US - 2
        self.first_hour = self.last_hour - HOURS + 1
        self.values = dict[int, list[float]]()
        """What was measured, by hour."""
        self.lines: list[str] = []
        self._wall_us = now_us

    @property
    def unique_id(self) -> str:
        """That of the device's only entity."""
        return EntitySeries(self.author.identity.signing_public, "air", "Cel", NUMBER).unique_id

    def open(self, door: Door, history: HomeAssistantHistory) -> tuple[DoorRunner, HistoryRunner]:
        """Open the door, as its process does when it starts."""
        file, beside = (DoorFile(self.folder / "doors.sqlite") for _ in range(2))
        runner = DoorRunner(self._entry, door, file, self._look, self.lines.append, self._now, keeps_hours=True)
        return runner, HistoryRunner(self._entry.name, history, beside, self.lines.append, self._now)

    def _now(self) -> int:
        return self._wall_us

    def _look(self) -> Survey:
        reader = VaultReader(DirectoryStore(self.collector.vault), KeyRing((self.collector.key,)))
        devices = {self.author.identity.signing_public: KnownDevice("orchard", is_there=True)}
        return Survey(LandedBatches(reader), (self.collector.node.hex(),), devices)

    def begins(self) -> None:
        """Say that it is the hour before the outage."""
        self._wall_us = (self.first_hour - 1) * HOUR_US

    def stays_online(self, minutes: int) -> None:
        """Land what is measured in the first minutes of the hour in which the outage begins."""
        start_us = self.first_hour * HOUR_US
        self._wall_us = start_us + minutes * _MINUTE_US
        for minute in range(0, minutes, _STEP):
            self._land(self._message(start_us, minute, minute + _STEP), start_us + minute * _MINUTE_US)

    def returns(self, minutes: int) -> None:
        """Land what was measured since: readings, one hour thinned to a summary, and some messages twice."""
        self._wall_us = self.now_us
        start_us = self.first_hour * HOUR_US
        end = HOURS * 60
        late = [self._message(start_us, minute, minute + 30) for minute in range(minutes, end - 60, 30)]
        late.append(self._thinned(start_us + (end - 60) * _MINUTE_US))
        for message in (*late, *late[:3]):
            self._land(message, self.now_us)

    def measures_more(self) -> None:
        """Land one more late reading of the first hour."""
        self._land(self._message(self.first_hour * HOUR_US, 25, 26), self.now_us)

    def _message(self, start_us: int, first: int, end: int) -> bytes:
        given = [
            ("air", "Cel", start_us + minute * _MINUTE_US, self._value(minute)) for minute in range(first, end, _STEP)
        ]
        for _, _, at_us, value in given:
            self.values.setdefault(at_us // HOUR_US, []).append(value)
        return self.author.telemetry(list(given), self.author.clock(ClockKind.ASSERTED, start_us))

    def _thinned(self, begin_us: int) -> bytes:
        values = [self._value(minute) for minute in range(0, 60, _STEP)]
        self.values[begin_us // HOUR_US] = values
        tenths = [round(each * 10) for each in values]
        times = begin_us, begin_us + 50 * _MINUTE_US
        window = SummaryWindow(*times, len(values), sum(tenths), min(tenths), max(tenths), tenths[0], tenths[-1])
        series = SummarySeries("air", "Cel", Kind.DECIMAL, 1, (window,))
        summary = Summary(self.author.clock(ClockKind.ASSERTED, begin_us), HOUR_US, (series,))
        return self.author.sign(MessageType.SUMMARY, summary_body(((900, 905),), summary.to_wire()), begin_us)

    def _value(self, minute: int) -> float:
        return 20.0 + minute * 7 % 31 / 10

    def _land(self, message: bytes, at_us: int) -> None:
        self.collector.land(message, received_at_us=at_us)

    def expected(self) -> dict[int, dict[str, float]]:
        """Return the row that each hour is to have."""
        return {
            hour: {"mean": sum(values) / len(values), "min": min(values), "max": max(values)}
            for hour, values in self.values.items()
        }


def work(runners: tuple[DoorRunner, HistoryRunner], turns: int = 6) -> None:
    """Let a door do what is to do."""
    for _ in range(turns):
        for runner in runners:
            runner.turn()


class Steps:
    """Counts the steps of a door, and kills it at one of them; 0: at none."""

    def __init__(self) -> None:
        self.taken, self.killed_at = 0, 0

    def step(self) -> None:
        """Take one."""
        self.taken += 1
        if self.taken == self.killed_at:
            raise KilledError

    @contextmanager
    def watched(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Count commits and questions, before and after each."""
        run, ask = Database.run, _Connected.ask

        def watched_run(database: Database, statement: str, parameters: Any = ()) -> list[Any]:
            if statement != "COMMIT":
                return run(database, statement, parameters)
            self.step()
            found = run(database, statement, parameters)
            self.step()
            return found

        def watched_ask(connected: Any, command: Any) -> Any:
            self.step()
            found = ask(connected, command)
            self.step()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Database, "run", watched_run)
            patch.setattr(_Connected, "ask", watched_ask)
            yield


def survives(
    outage: Outage, door: Door, history: HomeAssistantHistory, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> bool:
    """Live through an outage with a kill at one step, then start again; return whether there was such a step."""
    steps = Steps()
    steps.killed_at = killed_at
    outage.begins()
    work(outage.open(door, history), 1)
    outage.stays_online(30)
    with steps.watched(monkeypatch), suppress(KilledError):
        runners = outage.open(door, history)
        work(runners)
        outage.returns(30)
        work(runners)
    if steps.taken < killed_at:
        return False
    if outage.now_us != outage._now():  # killed while it was still there: the outage comes now
        work(outage.open(door, history))
        outage.returns(30)
    work(outage.open(door, history))
    return True
