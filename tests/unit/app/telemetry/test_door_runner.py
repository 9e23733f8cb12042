"""A door at work: at least once with an id that stays, whatever the receiver, the vault and the power do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.doors.kinds import open_door
from covey.adapters.objects.folder import DirectoryStore
from covey.adapters.sqlite.door_file import DoorFile
from covey.app.telemetry import door_runner, landed_batches
from covey.app.telemetry.door_runner import DoorRunner, Survey
from covey.app.telemetry.landed_batches import LandedBatches
from covey.config.doors import read_doors
from covey.core.telemetry.doors import DoorBatch, KnownDevice
from covey.core.telemetry.drops import Drop
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import VaultReader
from covey.errors import StorageError
from tests.receiver import Receiver, receiver
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector, Given

_HOSTILE = 'a"b\\c\n<x>&\x00☃'


class _Site:
    """A vault, a receiver, and a door between them, which may be killed between any two turns."""

    def __init__(self, folder: Path, web: Receiver) -> None:
        self.folder, self.web = folder, web
        self.collector = Collector(folder / "vault")
        self.author = Author(self.collector, 1)
        self.lines: list[str] = []
        self.label = "orchard"
        self.start = "all"
        self.is_away = False
        self.runner = self.restart()

    def restart(self) -> DoorRunner:
        (entry,) = read_doors([("x", {"name": "cloud", "kind": "webhook", "url": self.web.url, "start": self.start})])
        file = DoorFile(self.folder / "doors.sqlite")
        self.runner = DoorRunner(
            entry, open_door(entry, self.folder), file, self._look, self.lines.append, lambda: NOW_US
        )
        return self.runner

    def _look(self) -> Survey:
        if self.is_away:
            raise StorageError("the vault's disk is gone")
        reader = VaultReader(DirectoryStore(self.collector.vault), KeyRing((self.collector.key,)))
        devices = {self.author.identity.signing_public: KnownDevice(self.label, is_there=True)}
        return Survey(LandedBatches(reader), (self.collector.node.hex(),), devices)

    def land(self, count: int = 1) -> None:
        self.collector.land(*(self.author.measure(2) for _ in range(count)))

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.runner.turn()

    def seqs(self) -> list[int]:
        """Return the numbers of the messages that came, each once."""
        return [int(each["id"].rpartition("-")[2]) for each in self.web.messages()]

    @property
    def file(self) -> DoorFile:
        return self.runner.file


@pytest.fixture
def site(tmp_path: Path) -> Iterator[_Site]:
    with receiver() as web:
        found = _Site(tmp_path, web)
        yield found
        found.runner.close()


def test_a_batch_says_who_measured_what_when(site: _Site) -> None:
    site.label = _HOSTILE
    readings: list[Given] = [
        (_HOSTILE, "Cel", BOOTED_US - 1_000_000, 21.5),
        ("raw", "", BOOTED_US - 900_000_000, b"\x00\xff"),
    ]
    site.collector.land(site.author.telemetry([*readings, ("on", "", BOOTED_US, True)]))
    site.turns(2)
    (post,) = site.web.posts
    (message,) = post.document["messages"]
    assert (message["device"], message["label"], message["clock"]) == (site.author.author, _HOSTILE, "synchronised")
    found = {each["name"]: each for each in message["readings"]}
    assert found[_HOSTILE] == {"name": _HOSTILE, "unit": "Cel", "at_us": NOW_US - 1_000_000, "value": 21.5}
    assert found["raw"] == {
        "name": "raw",
        "unit": "",
        "at_us": NOW_US - 900_000_000,
        "data": "AP8=",
        "backlog": True,
    }
    assert found["on"]["value"] is True
    state = site.file.state("cloud")
    assert state is not None
    assert (state.messages, state.readings, state.behind, state.gaps) == (1, 3, 0, 0)


def test_a_new_door_begins_with_what_lands_from_then_on(site: _Site) -> None:
    site.land(3)
    site.start = "new"
    site.restart()
    site.turns(2)
    site.land()
    site.turns(2)
    assert site.seqs() == [4]


def test_a_batch_sent_before_a_kill_comes_with_the_same_id(site: _Site) -> None:
    site.land(3)
    site.web.answers = [0]  # taken, and the answer is lost
    site.turns(1)
    site.land(2)  # would make the batch another one, were it not planned
    site.restart()
    site.turns(3)
    ids = [post.headers["idempotency-key"] for post in site.web.posts]
    assert len(ids) == 3
    assert ids[0] == ids[1] != ids[2]
    assert [post.headers["webhook-id"] for post in site.web.posts] == ids
    assert site.web.posts[0].document["messages"] == site.web.posts[1].document["messages"]
    assert site.seqs() == [1, 2, 3, 4, 5]


def test_a_receiver_that_is_down_is_waited_for_longer_and_longer(site: _Site) -> None:
    site.land()
    site.web.answers = [503, 500, 404, 401]
    waits = [site.runner.turn() for _ in range(2)]
    site.land()
    site.land()  # what lands meanwhile is counted, though nobody has asked for it yet
    waits += [site.runner.turn() for _ in range(2)]
    assert waits == [2, 4, 8, 16]
    state = site.file.state("cloud")
    assert state is not None
    assert (state.attempts, state.error, state.failing_since_us) == (
        4,
        "127.0.0.1 answered with HTTP status 401",
        NOW_US,
    )
    assert state.behind == 3
    site.turns(3)
    state = site.file.state("cloud")
    assert state is not None
    assert (state.attempts, state.error, state.messages, state.behind) == (0, "", 3, 0)
    assert site.lines[-1] == "cloud: sending again"


def test_a_receiver_says_how_long_it_wants_to_be_left_alone(site: _Site) -> None:
    site.land()
    site.web.answers, site.web.headers = [429, 429, 429], {"Retry-After": "77"}
    assert site.runner.turn() == 77
    site.web.headers = {"Retry-After": "99999"}
    assert site.runner.turn() == 300
    site.web.headers = {"Retry-After": "-1 hostile"}
    assert site.runner.turn() == 8


def test_a_permanently_refused_message_is_skipped_alone(site: _Site) -> None:
    site.land(7)
    poison = site.author.telemetry([("poison", "", BOOTED_US, 1)])
    site.collector.land(site.author.measure(1), poison, site.author.measure(1))
    site.land(3)
    site.web.poison = b"poison"
    site.turns(40)
    assert [each for each in site.seqs() if each != 9] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13]
    (noted,) = site.file.gaps("cloud")
    assert (noted.gap.first, noted.gap.last) == (2, 2)
    assert noted.gap.reason == "a message: 127.0.0.1 answered with HTTP status 400"
    taken = [each for each in site.web.posts if b"poison" not in each.body]
    assert len({each.headers["idempotency-key"] for each in taken}) == len(taken)


def test_missing_segments_are_awaited_and_then_recorded(site: _Site, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [site.collector.land(site.author.measure(1)) for _ in range(6)]
    for entry in entries[1:4]:
        site.collector.segment_path(entry).unlink()
    site.turns(4)
    assert site.seqs() == [1]
    assert site.file.gaps("cloud") == []
    monkeypatch.setattr(door_runner, "DOOR_PATIENCE_US", 0)
    site.turns(4)
    assert site.seqs() == [1, 5, 6]
    (noted,) = site.file.gaps("cloud")
    assert (noted.gap.first, noted.gap.last, noted.gap.reason) == (2, 4, "missing")
    assert any("waiting for segments 2-2" in each for each in site.lines)


def test_a_planned_batch_that_is_gone_is_left_behind_too(site: _Site, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = site.collector.land(site.author.measure(1))
    site.land()
    monkeypatch.setattr(landed_batches, "DOOR_BATCH_MESSAGES", 1)
    site.web.answers = [503]
    site.turns(1)
    site.collector.segment_path(entry).unlink()
    site.restart()
    monkeypatch.setattr(door_runner, "DOOR_PATIENCE_US", 0)
    site.turns(4)
    assert site.file.plan("cloud") is None
    assert site.seqs() == [1, 2]  # the first one came, and nobody said so
    assert [each.gap.reason for each in site.file.gaps("cloud")] == ["missing"]


def test_an_unreachable_vault_stops_no_door_permanently(site: _Site) -> None:
    site.land()
    site.is_away = True
    site.turns(2)
    state = site.file.state("cloud")
    assert state is None
    site.is_away = False
    site.turns(1)
    assert site.seqs() == [1]


def test_a_later_look_at_a_late_batch_marks_it(site: _Site) -> None:
    site.land()
    site.web.answers = [503]
    site.turns(1)
    site.runner.wall_us = lambda: NOW_US + 3_600_000_000
    site.turns(1)
    first, second = (json.loads(post.body)["messages"][0]["readings"] for post in site.web.posts)
    assert [("backlog" in one, "backlog" in other) for one, other in zip(first, second, strict=True)] == [
        (False, True),
        (False, True),
    ]


def test_a_door_counts_skipped_readings_by_reason(site: _Site, monkeypatch: pytest.MonkeyPatch) -> None:
    send = site.runner.door.send

    def leaving_out(batch: DoorBatch) -> dict[Drop, int]:
        send(batch)
        return {Drop.SERIES: 1, Drop.CUT: 2}

    monkeypatch.setattr(site.runner.door, "send", leaving_out)
    site.land(3)
    site.turns(2)
    assert site.file.dropped("cloud") == {"cut": 2, "series": 1}
    state = site.file.state("cloud")
    assert state is not None
    assert (state.readings, state.gaps) == (5, 1)
    assert site.file.gaps("cloud")[0].gap.reason == "1 reading of more series than allowed"
