"""`covey.app.telemetry.attached_sensors`: readings of configured sensors enter a batch exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.telemetry.attached_sensors import AttachedSensors
from covey.app.telemetry.publisher import Outflow, Publisher, telemetry_group
from covey.core.telemetry.drops import Drop
from covey.core.telemetry.reading import Reading
from covey.core.telemetry.series_rules import SeriesWatch
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS
from tests.fleet import Device, found

SECOND = 1_000_000


class Fed:
    """A feed whose readings and state the test sets."""

    def __init__(self, name: str, clock: Site) -> None:
        self.name = name
        self.said = "starting"
        self.waiting: list[Reading] = []
        self.hurries = False
        self.position: bytes | None = None
        self.taken = self.committed = 0
        self.events: list[str] = []
        self.drops: dict[Drop, int] = {}
        self._clock = clock

    def measure(self, count: int) -> None:
        now_us = self._clock.monotonic_us()
        self.waiting += [Reading(f"{self.name}/temperature", "Cel", now_us, float(n)) for n in range(count)]

    def start(self) -> None:
        self.events.append("started")

    def take(self, most: int) -> list[Reading]:
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        self.taken += len(taken)
        return taken

    def commit(self) -> None:
        self.committed = self.taken

    def urgent(self) -> bool:
        return self.hurries

    def state(self) -> str:
        return self.said

    def dropped(self) -> dict[Drop, int]:
        return dict(self.drops)

    def stop(self) -> None:
        self.events.append("stopped")

    def join(self, seconds: float) -> None:
        assert seconds > 0
        self.events.append("joined")


class Site:
    """A device with two sensors, and the clock of both."""

    def __init__(self, folder: Path, *, outbox_bytes: int = 10_000_000) -> None:
        self.ann, self.gate = Device("ann", folder, outbox_bytes=outbox_bytes), Device("gate", folder, collects=True)
        self.group_id = found(self.ann, self.gate)
        self.lines: list[tuple[str, str]] = []
        self.publisher = Publisher(self, self.ann.store, telemetry_group(None), 5 * SECOND, 200, SeriesWatch())
        self.boiler, self.shed = Fed("boiler", self), Fed("shed", self)
        self.role = self.new_role()

    def new_role(self, *feeds: Fed) -> AttachedSensors:
        report = lambda level, line: self.lines.append((level, line))  # noqa: E731
        return AttachedSensors(
            feeds or (self.boiler, self.shed), Outflow(self.publisher, report), self.ann.store, report
        )

    def monotonic_us(self) -> int:
        """Be the clock."""
        return self.ann.now.monotonic_us

    def wall_us(self) -> int:
        """Be the clock."""
        return self.ann.now.wall_us

    def synchronised(self) -> bool:
        """Be the clock."""
        return True

    def boot_id(self) -> bytes:
        """Be the clock."""
        return bytes(8)

    def run(self, seconds: int) -> None:
        """Let the role turn once a second."""
        for _ in range(seconds):
            self.ann.wait(1)
            self.role.turn(self.ann.node, self.ann.now)

    def published(self) -> int:
        return self.ann.store.counters.values().get("published_readings", 0)

    def noted(self) -> dict[str, str]:
        return {name: state for name, (state, _) in self.ann.store.conditions.values().items() if state}


def test_each_reading_is_queued_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run(1)
    site.boiler.measure(3)
    site.shed.measure(2)
    site.run(10)
    assert site.published() == 5
    site.boiler.measure(1)
    site.role.stop(site.ann.node, site.ann.now)
    assert site.published() == 6
    assert site.boiler.events == ["started", "stopped", "joined"]


def test_a_feed_knows_what_is_committed_and_may_hurry(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run(1)
    site.boiler.measure(3)
    site.run(1)
    assert (site.published(), site.boiler.taken, site.boiler.committed) == (0, 3, 0)
    site.run(10)
    assert (site.published(), site.boiler.committed) == (3, 3)
    site.shed.hurries = True
    site.boiler.measure(2)
    site.run(1)
    assert (site.published(), site.boiler.committed) == (5, 5)


@pytest.mark.slow
def test_a_full_outbox_has_the_sensors_wait(tmp_path: Path) -> None:
    site = Site(tmp_path, outbox_bytes=1_500)
    site.ann.blob(site.group_id, bytes(1_000))
    site.boiler.measure(50_000)
    site.run(60)
    assert site.publisher.waiting <= MAXIMUM_BATCH_READINGS + 2_048
    assert site.publisher.waiting + len(site.boiler.waiting) == 50_000
    assert [line for _, line in site.lines if "readings are waiting" in line] != []


def test_a_sensors_state_is_reported_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.shed.said = "up"
    site.run(1)
    assert site.noted() == {"sensor boiler": "starting", "sensor shed": "up"}
    for turn in range(60):
        site.boiler.said = f"it fails for the {turn}th time"
        site.run(1)
    assert len([line for level, line in site.lines if "boiler" in line and level == "warning"]) == 1
    assert ("info", "sensor shed: measures") in site.lines
    site.boiler.said = "up"
    site.run(60)
    assert site.noted()["sensor boiler"] == "up"
    assert site.lines[-1] == ("info", "sensor boiler: measures")


def test_a_reading_that_no_table_could_hold_is_left_out_and_told(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.boiler.waiting = [Reading("boiler/power", "W", site.monotonic_us(), float("inf"))]
    site.boiler.said = "up"
    site.shed.measure(1)
    site.run(1)
    assert "a reading is refused" in site.noted()["sensor boiler"]
    site.run(10)
    assert site.published() == 1
    assert site.noted()["sensor boiler"] == "up"


def test_a_sensor_that_is_no_longer_configured_is_forgotten(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run(1)
    site.role = site.new_role(site.shed)
    site.run(1)
    assert set(site.noted()) == {"sensor shed"}


def test_a_sensors_position_is_committed_with_its_readings(tmp_path: Path) -> None:
    site = Site(tmp_path)
    positions = site.ann.store.sensor_positions
    with site.ann.store.transaction():
        positions.set("gone", b"x")
    site.run(1)
    assert positions.names() == []
    site.boiler.measure(2)
    site.boiler.position = b"first"
    site.run(1)
    assert (positions.get("boiler"), site.published()) == (b"", 0)
    site.run(10)
    assert (positions.get("boiler"), site.published(), site.boiler.committed) == (b"first", 2, 2)


def test_a_reading_that_the_outbox_refuses_moves_no_position(tmp_path: Path) -> None:
    site = Site(tmp_path, outbox_bytes=1_500)
    site.ann.blob(site.group_id, bytes(1_000))
    site.run(1)
    site.boiler.measure(5_000)
    site.boiler.position = b"first"
    site.run(10)
    assert [line for _, line in site.lines if "readings are waiting" in line]
    assert (site.ann.store.sensor_positions.get("boiler"), site.boiler.committed) == (b"", 0)


def test_a_position_that_no_reading_waits_for_is_committed_by_itself_and_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.boiler.position = b""
    site.run(1)
    assert site.ann.store.sensor_positions.names() == ["boiler"]
    writes = site.ann.store.database.connection.total_changes
    site.role.turn(site.ann.node, site.ann.now)
    assert site.ann.store.database.connection.total_changes == writes


def test_drops_are_counted_once_by_reason_and_outlive_the_agent(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.boiler.drops = {Drop.RATE: 3}
    site.run(1)
    site.boiler.drops = {Drop.RATE: 4, Drop.TIME: 1}
    site.boiler.waiting.append(Reading("boiler/text", "", None, "x" * 5_000))  # no table could hold it
    site.run(7)
    counted = {"sensor-dropped boiler rate": 4, "sensor-dropped boiler time": 1, "sensor-dropped boiler refused": 1}
    assert {name: n for name, n in site.ann.store.counters.values().items() if name in counted} == counted
    site.boiler.drops = {Drop.RATE: 2}  # it begins anew
    site.role = site.new_role()
    site.run(1)
    assert site.ann.store.counters.values()["sensor-dropped boiler rate"] == 6


def test_when_a_sensor_was_committed_last_is_noted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run(6)
    assert "sensor-read boiler" not in site.noted()
    site.boiler.measure(1)
    site.run(7)
    assert "sensor-read boiler" in site.noted()
    assert "sensor-read shed" not in site.noted()
