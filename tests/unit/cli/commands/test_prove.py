"""`covey prove` and `covey verify`: from a real vault to a stranger who has the file and a key."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from covey.core.ids import key_text
from covey.core.telemetry.batch import ClockKind, ClockReading, Value
from tests.collected_fleet import CollectedFleet
from tests.command import Ended, covey
from tests.outside.receipt import verify
from tests.spark.fleet import BOOTED_US

pytestmark = [pytest.mark.slow, pytest.mark.processes]

_SALT = bytes(range(16))


class _Site:
    """A collector whose device `field-00000` has signed readings for receipts, and whose `field-00001` has not."""

    def __init__(self, folder: Path) -> None:
        self.fleet = CollectedFleet(folder, 2, rounds=1)
        self.folder = folder
        self.author = self.fleet.authors[0]
        self.key = key_text("sign", self.author.identity.signing_public)
        self.fleet.collector.identity = self.fleet.folder.identity()
        self.measured: list[tuple[str, Value]] = [("ph", 7.25), ("open", True), ("note", "full"), ("raw", b"\1\2")]
        self.at_us = self.fleet.now_us - 5_000_000
        self.land(self.measured, self.at_us)

    def land(self, values: list[tuple[str, Value]], at_us: int) -> None:
        """Land a message of readings that were all taken at one time."""
        clock = ClockReading(self.author.boot_id, BOOTED_US, at_us, ClockKind.SYNCHRONISED)
        readings = [(name, "", BOOTED_US, value) for name, value in values]
        message = self.author.telemetry(readings, clock, salt=_SALT)
        self.fleet.collector.land(message, received_at_us=at_us + 1_000)

    def prove(self, *words: str) -> Ended:
        """Run `covey prove` with these words; the receipt goes to the file `receipt`."""
        return covey("prove", *words, str(self.receipt), "--state", str(self.fleet.hub.state))

    @property
    def receipt(self) -> Path:
        """Where receipts go."""
        return self.folder / "receipt"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> _Site:
    return _Site(tmp_path_factory.mktemp("site"))


def _time(at_us: int, timespec: str = "microseconds") -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).isoformat(timespec=timespec)


def _printed(ended: Ended) -> dict[str, object]:
    assert ended.code == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def test_each_kind_of_value_is_proven_to_a_stranger_without_a_state(
    site: _Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in site.measured:
        written = _printed(site.prove("field-00000", name, _time(site.at_us), "--json"))
        assert written.pop("file") == str(site.receipt)
        monkeypatch.setenv("COVEY_STATE", str(tmp_path / "nothing"))
        assert _printed(covey("verify", str(site.receipt), site.key, "--json")) == written
        monkeypatch.undo()
        shown = next(written[each] for each in ("value", "flag", "text", "data") if written[each] is not None)
        assert shown == (value.hex() if isinstance(value, bytes) else value)
        assert (written["name"], written["time"], written["label"]) == (name, _time(site.at_us), "field-00000")
        assert written["bytes"] == site.receipt.stat().st_size <= 2048
        found = verify(site.receipt.read_bytes(), site.author.identity.signing_public)
        assert (found.name, found.value, found.time) == (name, value, site.at_us)


def test_a_reading_is_found_by_what_vault_readings_prints(site: _Site) -> None:
    printed = covey("vault", "readings", "--series", "ph", "--json", "--state", str(site.fleet.hub.state)).stdout
    row = json.loads(printed.splitlines()[0])
    for who in (row["author"], row["author"][:9], row["label"], site.key):
        for when in (row["time"], row["time"][:19], row["time"].replace("+00:00", "Z"), row["time"].replace("T", " ")):
            assert _printed(site.prove(who, row["name"], when, "--json"))["value"] == row["value"]


def test_people_read_what_a_receipt_proves(site: _Site) -> None:
    ended = site.prove("field-00000", "ph", _time(site.at_us))
    size = site.receipt.stat().st_size
    assert ended.stdout.startswith(f"wrote a receipt of {size} bytes to {site.receipt}\n  reading   ph  7.25\n")
    assert "(field-00000)" in ended.stdout
    verified = covey("verify", str(site.receipt), site.author.author)
    assert verified.stdout.splitlines()[0] == "valid: the device with this key signed this reading"
    assert verified.stdout.splitlines()[1:] == ended.stdout.splitlines()[1:]


def test_a_wrong_key_and_a_changed_file_are_refused_with_a_hint(site: _Site, tmp_path: Path) -> None:
    site.prove("field-00000", "ph", _time(site.at_us))
    other = site.fleet.authors[1].author
    changed = bytearray(site.receipt.read_bytes())
    changed[-200] ^= 1
    (tmp_path / "changed").write_bytes(changed)
    (tmp_path / "long").write_bytes(bytes(1_000_000))
    (tmp_path / "empty").write_bytes(b"")
    for file, key in (
        (site.receipt, other),
        (tmp_path / "changed", site.key),
        (tmp_path / "long", site.key),
        (tmp_path / "empty", site.key),
    ):
        ended = covey("verify", str(file), key)
        assert (ended.code, ended.stdout) == (1, "")
        assert ended.stderr.startswith("error: the receipt is not valid: ")
        assert "hint: compare the key" in ended.stderr
    assert covey("verify", str(site.receipt), "covey-sign-abc").code == 2
    assert covey("verify", str(tmp_path / "missing"), site.key).code == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("field-00000", "ph", "yesterday"), 2, "yesterday is not a time"),
        (("field-00000", "ph", "2026-02-30T00:00:00"), 2, "is not a time"),
        (("field-00000", "nothing", "2026-11-30T00:00:00"), 1, "no stored reading matches"),
        (("nobody", "ph", "2026-11-30T00:00:00"), 1, "no device matches 'nobody'"),
        (("field", "ph", "2026-11-30T00:00:00"), 1, "no device matches 'field'"),
    ],
)
def test_what_cannot_be_found_is_explained(site: _Site, words: tuple[str, ...], code: int, said: str) -> None:
    ended = site.prove(*words)
    assert (ended.code, ended.stdout) == (code, "")
    assert said in ended.stderr
    assert "hint: " in ended.stderr


def test_a_reading_that_was_not_signed_for_receipts_has_none(site: _Site) -> None:
    ended = site.prove("field-00001", "air:temperature", _time(site.fleet.now_us - 1_000_000))
    assert ended.code == 1
    assert "did not sign this reading for receipts" in ended.stderr
    assert "telemetry.receipts true" in ended.stderr


def test_of_several_readings_the_time_decides(site: _Site) -> None:
    second_us = site.at_us // 1_000_000 * 1_000_000 - 60_000_000
    site.land([("flow", 1)], second_us + 100_000)
    site.land([("flow", 2)], second_us + 200_000)
    ended = site.prove("field-00000", "flow", _time(second_us, "seconds"))
    assert ended.code == 1
    assert f"2 readings match, the first two at {_time(second_us + 100_000)}" in ended.stderr
    assert _printed(site.prove("field-00000", "flow", _time(second_us)[:19] + ".2", "--json"))["value"] == 2


def test_a_reading_of_a_removed_device_can_still_be_proven(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.fleet.hub.ok("group", "ban", "field-00000", "--yes")
    for who in (site.author.author, site.author.author[:8], "field-00000"):
        written = _printed(site.prove(who, "ph", _time(site.at_us), "--json"))
        assert (written["value"], written["label"]) == (7.25, "field-00000")
        assert _printed(covey("verify", str(site.receipt), site.key, "--json"))["value"] == 7.25


def test_a_manifest_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    fleet = CollectedFleet(tmp_path, 30, rounds=1)
    fleet.collector.identity = fleet.folder.identity()
    author = fleet.authors[3]
    clock = ClockReading(author.boot_id, BOOTED_US, fleet.now_us, ClockKind.SYNCHRONISED)
    fleet.collector.land(author.telemetry([("ph", "", BOOTED_US, 7)], clock, salt=_SALT), received_at_us=fleet.now_us)
    receipt, state = tmp_path / "receipt", str(fleet.hub.state)
    ended = covey("prove", "field-00003", "ph", _time(fleet.now_us), str(receipt), "--state", state)
    assert ended.code == 0
    assert "group     not in the receipt" in ended.stdout
    assert receipt.stat().st_size < 500
