"""Looking into the newest part of a vault: each device's last values, and what it admits to have lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.app.telemetry.newest_readings import LastValue, NewestOfDevice, NewestReadings
from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import Alarm, ClockKind, ClockReading
from covey.core.vault.erasing import ErasureDue
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import VaultReader
from covey.core.wire.message import MessageType, read_message
from covey.limits.vault import MAXIMUM_SHOWN_CHARACTERS, MAXIMUM_SHOWN_SERIES
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector

_MINUTE_US = 60_000_000


def _look(newest: NewestReadings, collector: Collector, since_us: int = 0, enough_before_us: int = 0) -> None:
    reader = VaultReader(DirectoryStore(collector.vault), KeyRing((collector.key,)))
    list(newest.look(reader, [collector.node.hex()], since_us, lambda at_us: at_us < enough_before_us))


def _of(newest: NewestReadings, author: Author) -> NewestOfDevice:
    return newest.devices[DeviceKey(author.identity.signing_public)]


def _values(newest: NewestReadings, author: Author) -> dict[str, object]:
    return {each.name: each.value for each in _of(newest, author).values.values()}


def test_the_reading_with_the_latest_time_counts_whenever_it_came(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    new = author.telemetry([("t", "Cel", BOOTED_US - 10, 21.5), ("on", "", BOOTED_US - 10, True)])
    late = author.telemetry([("t", "Cel", BOOTED_US - 900, 3.0), ("door", "", BOOTED_US - 900, "open")])
    collector.land(new, received_at_us=NOW_US)
    collector.land(late, received_at_us=NOW_US + _MINUTE_US)
    newest = NewestReadings()
    _look(newest, collector)
    assert _values(newest, author) == {"t": 21.5, "on": True, "door": "open"}
    found = _of(newest, author)
    assert found.received_at_us == NOW_US + _MINUTE_US
    assert found.values["t", "Cel"].at_us == NOW_US - 10
    assert found.values["t", "Cel"].clock is ClockKind.SYNCHRONISED


def test_a_second_look_reads_what_is_new_and_the_first_no_further_than_needed(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    early, author = Author(collector, 1), Author(collector, 2)
    collector.land(early.measure(3), received_at_us=NOW_US)
    second = collector.land(author.telemetry([("n", "", BOOTED_US - 5, 1)]), received_at_us=NOW_US + _MINUTE_US)
    newest = NewestReadings()
    _look(newest, collector, enough_before_us=NOW_US + 1)
    assert newest.devices.keys() == {author.identity.signing_public}
    collector.segment_path(second).unlink()  # what was read once is not read again
    collector.land(author.telemetry([("n", "", BOOTED_US - 1, 2)]), received_at_us=NOW_US + 2 * _MINUTE_US)
    _look(newest, collector)
    assert _values(newest, author) == {"n": 2.0}
    assert newest.unreadable == 0


def test_readings_that_are_erased_from_the_vault_are_forgotten(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    gone, left = Author(collector, 1), Author(collector, 2)
    for author, value in ((gone, 1), (left, 2)):
        collector.land(author.telemetry([("n", "", BOOTED_US - 5, value)]), received_at_us=NOW_US)
    newest = NewestReadings()
    _look(newest, collector)
    assert len(newest.devices) == 2
    collector.erase(ErasureDue(gone.identity.signing_public, NOW_US + 1))
    for _ in range(2):
        _look(newest, collector)
    assert newest.devices.keys() == {left.identity.signing_public}
    assert _values(newest, left) == {"n": 2.0}


def test_losses_are_counted_once_and_by_their_reason(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    author.seq = 20
    record = author.loss(3, 7)
    collector.land(record, author.loss(9, 9))
    collector.land(record)
    newest = NewestReadings()
    _look(newest, collector)
    assert _of(newest, author).lost() == {"outbox_full": 6}


def test_a_sender_of_unreadable_readings_is_named(tmp_path: Path) -> None:
    """The collector keeps and acknowledges them, as it opens none; whoever looks at the fleet is told."""
    collector = Collector(tmp_path / "vault")
    broken, other = Author(collector, 1), Author(collector, 2)
    good = read_message(other.measure(3)).body
    for body in (b"\xff", good[:-1], good + b"\0"):
        collector.land(broken.sign(MessageType.TELEMETRY, body), other.measure(1))
    newest = NewestReadings()
    _look(newest, collector)
    assert newest.unreadable_of == {broken.identity.signing_public: 3}
    assert newest.unreadable == 0
    assert len(_values(newest, other)) == 1


def test_unreadable_messages_are_counted_by_device_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.app.telemetry.newest_readings.MAXIMUM_UNREADABLE_DEVICES", 2)
    collector = Collector(tmp_path / "vault")
    authors = [Author(collector, seed) for seed in range(4)]
    for _ in range(2):
        collector.land(*(author.sign(MessageType.TELEMETRY, b"\xff") for author in authors))
    newest = NewestReadings()
    _look(newest, collector)
    assert [*newest.unreadable_of.values()] == [2, 2]
    assert newest.unreadable == 0, "no object of the vault is damaged"


def test_a_hostile_members_readings_are_bounded_and_hide_nobody(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    hostile, other = Author(collector, 1), Author(collector, 2)
    flood = hostile.telemetry([(f"s{n}", "", BOOTED_US - 1, n) for n in range(MAXIMUM_SHOWN_SERIES + 9)])
    text = hostile.telemetry([("s0", "", BOOTED_US, "x" * 4_000)])
    collector.land(flood, text, b"no message at all", other.telemetry([("t", "", BOOTED_US - 1, 7)]))
    newest = NewestReadings()
    _look(newest, collector)
    assert len(_of(newest, hostile).values) == MAXIMUM_SHOWN_SERIES
    assert _of(newest, hostile).left_out == 9
    assert all(len(str(each)) <= MAXIMUM_SHOWN_CHARACTERS for each in _values(newest, hostile).values())
    assert _values(newest, other) == {"t": 7.0}
    assert newest.unreadable == 1


def test_times_of_an_unset_clock_are_marked(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    clock = ClockReading(author.boot_id, BOOTED_US, 5_000_000, ClockKind.UNSYNCHRONISED)
    collector.land(author.telemetry([("t", "", BOOTED_US, 1)], clock))
    newest = NewestReadings()
    _look(newest, collector)
    assert _of(newest, author).values["t", ""].clock is ClockKind.UNSYNCHRONISED


def test_a_bad_manifest_is_reported_and_earlier_readings_stay(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    collector.land(author.telemetry([("n", "", BOOTED_US - 1, 2)]))
    newest = NewestReadings()
    _look(newest, collector)
    collector.manifest_path.write_bytes(b"damaged")
    _look(newest, collector)
    assert list(newest.not_followed) == [collector.node.hex()]
    assert _values(newest, author) == {"n": 2.0}
    collector.land(author.telemetry([("n", "", BOOTED_US - 1, 2)]))
    _look(newest, collector)
    assert not newest.not_followed


def test_messages_this_device_landed_are_not_verified_again(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    signed = author.telemetry([("n", "", BOOTED_US - 1, 2)])
    forged = signed.replace(signed[3:67], bytes(64), 1)
    collector.land(forged)
    other, here = NewestReadings(), NewestReadings()
    _look(other, collector)
    assert (len(other.devices), other.unreadable) == (0, 1)
    reader = VaultReader(DirectoryStore(collector.vault), KeyRing((collector.key,)))
    list(here.look(reader, [collector.node.hex()], 0, lambda _at_us: False, own_node=collector.node.hex()))
    assert _values(here, author) == {"n": 2.0}


def test_a_large_fleets_older_messages_are_passed_over_and_no_loss_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.app.telemetry.newest_readings.MAXIMUM_LOOK_MESSAGES", 3)
    collector = Collector(tmp_path / "vault")
    authors = [Author(collector, seed) for seed in range(1, 6)]

    def says(author: Author, age: int) -> bytes:
        return author.telemetry([(f"at {age}", "", BOOTED_US - age, age), ("t", "", BOOTED_US - age, age)])

    authors[0].seq = 20
    collector.land(*(says(each, 9) for each in authors), authors[0].loss(3, 7), received_at_us=NOW_US)
    collector.land(*(says(each, age) for age in (3, 2, 1) for each in authors[:4]), received_at_us=NOW_US + _MINUTE_US)
    newest = NewestReadings()
    _look(newest, collector)
    assert [_values(newest, each)["t"] for each in authors] == [1, 1, 1, 1, 9]
    assert [len(_values(newest, each)) for each in authors] == [2] * 5, "nothing older of whom it had met"
    assert _of(newest, authors[0]).lost() == {"outbox_full": 5}
    collector.land(says(authors[0], 0), received_at_us=NOW_US + 2 * _MINUTE_US)
    _look(newest, collector)
    assert _values(newest, authors[0])["t"] == 0


def test_the_newest_alarm_of_a_series_stays_next_to_its_newest_value(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    newest = NewestReadings()
    for at_us, value, alarm in ((60, 9.0, Alarm.RAISED), (50, 8.0, None), (90, 7.0, Alarm.ENDED), (70, 9.5, None)):
        collector.land(author.telemetry([("t", "Cel", BOOTED_US - at_us, value)], alarm=alarm), received_at_us=NOW_US)
        _look(newest, collector)
    assert _of(newest, author).values["t", "Cel"] == LastValue(
        "t", "Cel", 8.0, NOW_US - 50, ClockKind.SYNCHRONISED, Alarm.RAISED, NOW_US - 60
    )
