"""`covey.app.telemetry.sensor_roles`: sampling goes on, or stops within bounds, whatever becomes of the outbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.telemetry.publisher import Publisher, telemetry_group
from covey.app.telemetry.sensor_roles import Sensors
from covey.core.ids import Place
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.series_rules import SeriesWatch
from covey.core.wire.message import MessageType, read_message
from covey.errors import DiskFullError
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS
from tests.fleet import Device, found

SECOND = 1_000_000


class Site:
    """A device with sensors; `now` moves by the second."""

    def __init__(self, folder: Path, *, outbox_bytes: int = 10_000_000, per_sample: int = 100) -> None:
        self.ann, self.gate = Device("ann", folder, outbox_bytes=outbox_bytes), Device("gate", folder, collects=True)
        self.group_id = found(self.ann, self.gate)
        self.said: list[str] = []
        self.samples = self._looks = 0
        self._per_sample = per_sample
        self.watch = SeriesWatch()
        self.publisher = Publisher(self, self.ann.store, telemetry_group(None), 5 * SECOND, 200, self.watch)
        self.sensors = Sensors(self._sample, self.publisher, SECOND, lambda _level, line: self.said.append(line))

    def _sample(self) -> list[tuple[str, str, float]]:
        self.samples += 1
        return [(f"sensor{number}", "Cel", self.samples * 1.7) for number in range(self._per_sample)]

    def monotonic_us(self) -> int:
        """Be the clock."""
        self._looks += 1
        return self.ann.now.monotonic_us + 20 * self._looks  # time passes while a sample is taken

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
            self.sensors.turn(self.ann.node, self.ann.now)


def test_samples_become_batches(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run(10)
    assert site.samples == 10
    assert site.ann.store.outbox.totals()[0] >= 1
    site.sensors.stop(site.ann.node, site.ann.now)
    assert site.publisher.waiting == 0
    assert site.ann.store.counters.values()["published_readings"] == 1_000


def test_readings_of_a_sample_have_one_time(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run(10)
    site.sensors.stop(site.ann.node, site.ann.now)
    queued = site.ann.store.outbox.queued(site.gate.key, Place(0), 1_000, 10_000_000)
    messages = [read_message(raw) for _, raw in queued]
    batches = [read_telemetry(each.body)[1] for each in messages if each.type is MessageType.TELEMETRY]
    assert sum(batch.count for batch in batches) == 1_000
    assert len({time for batch in batches for time in batch.times_us()}) == 10


@pytest.mark.slow
def test_a_full_outbox_stops_sampling_within_bounds(tmp_path: Path) -> None:
    site = Site(tmp_path, outbox_bytes=1_500, per_sample=1_000)
    site.ann.blob(site.group_id, bytes(1_000))
    site.run(60)
    assert site.publisher.waiting <= MAXIMUM_BATCH_READINGS + 1_000
    assert len(site.said) == 1
    assert "readings are waiting" in site.said[0]


@pytest.mark.slow
def test_a_full_disk_does_not_make_the_sensors_hurry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, per_sample=1_000)

    def refuse() -> None:
        raise DiskFullError("no room")

    monkeypatch.setattr(site.ann.store, "transaction", refuse)
    failures = 0
    for _ in range(40):
        site.ann.wait(0.25)
        try:
            site.sensors.turn(site.ann.node, site.ann.now)
        except DiskFullError:
            failures += 1
    assert failures
    assert site.samples <= 11


def test_a_demanded_sample_is_taken_and_sent_at_once(tmp_path: Path) -> None:
    site = Site(tmp_path, per_sample=1)
    site.sensors.interval_us = 60 * SECOND
    site.run(1)
    site.sensors.read_now()
    site.run(1)
    assert (site.samples, site.publisher.waiting) == (2, 0)
    site.run(5)
    assert site.samples == 2
