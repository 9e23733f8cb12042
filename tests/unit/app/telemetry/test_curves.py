"""Curves of a device's series: bounds and last value of each interval, from the vault alone."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.objects.folder import DirectoryStore
from covey.app.telemetry.curves import Curve, Interval, Window, curves
from covey.core.ids import DeviceKey
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.summaries import Summariser, summary_body
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import VaultReader
from covey.core.wire.message import MessageType, read_message
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector, Given

_MINUTE_US = 60_000_000


def _curves(
    collector: Collector, author: Author, minutes: int, series: str | None = None
) -> dict[tuple[str, str], Curve]:
    window = Window(NOW_US - minutes * _MINUTE_US, NOW_US, minutes)
    reader = VaultReader(DirectoryStore(collector.vault), KeyRing((collector.key,)))
    return curves(reader, [collector.node.hex()], DeviceKey(author.identity.signing_public), window, series=series)


def test_an_interval_has_its_bounds_and_its_last_value(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author, other = Author(collector, 1), Author(collector, 2)
    early = [("t", "Cel", BOOTED_US - 90_000_000, 9.0), ("t", "Cel", BOOTED_US - 80_000_000, 4.0)]
    now = [("t", "Cel", BOOTED_US - 3, 5), ("t", "Cel", BOOTED_US - 2, -8.5), ("t", "Cel", BOOTED_US - 1, 6.25)]
    message = author.telemetry([*now, ("on", "", BOOTED_US - 1, True), ("door", "", BOOTED_US - 1, "open")])
    collector.land(author.telemetry([*early]), other.measure(3), received_at_us=NOW_US)
    collector.land(message, message, received_at_us=NOW_US + 1)
    last = Interval(NOW_US - 1, 6.25, -8.5, 6.25)
    first, on = Interval(NOW_US - 80_000_000, 4.0, 4.0, 9.0), Interval(NOW_US - 1, 1.0, 1.0, 1.0)
    assert _curves(collector, author, 3) == {("t", "Cel"): {1: first, 2: last}, ("on", ""): {2: on}}
    assert _curves(collector, author, 1, "t") == {("t", "Cel"): {0: last}}
    assert _curves(collector, author, 1, "u") == {}


def test_segments_that_were_closed_before_the_window_are_not_read(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    author = Author(collector, 1)
    before = collector.land(author.measure(3), received_at_us=NOW_US - 10 * _MINUTE_US)
    collector.segment_path(before).unlink()
    collector.land(author.telemetry([("t", "", BOOTED_US - 1, 7)]), received_at_us=NOW_US)
    assert _curves(collector, author, 5) == {("t", ""): {4: Interval(NOW_US - 1, 7.0, 7.0, 7.0)}}


def test_a_summary_draws_the_line_of_its_readings(tmp_path: Path) -> None:
    at = BOOTED_US - 90_000_000
    readings: list[Given] = [("t", "Cel", at + place, value) for place, value in enumerate((5, -8.5, 7, 6.25))]
    readings += [("on", "", at, True), ("why", "", at, "text")]
    drawn = []
    for folder in ("raw", "thinned"):
        collector = Collector(tmp_path / folder)
        author = Author(collector, 1)
        message = author.telemetry(readings)
        if folder == "thinned":
            summariser = Summariser(_MINUTE_US)
            summariser.add_batch(read_telemetry(read_message(message).body)[1])
            body = summary_body([(1, 1)], summariser.summary().to_wire())
            message = author.sign(MessageType.SUMMARY, body)
        collector.land(message, received_at_us=NOW_US)
        drawn.append(_curves(collector, author, 3))
    assert drawn[0]["t", "Cel"] == {1: Interval(NOW_US - 90_000_000 + 3, 6.25, -8.5, 7.0)}
    marked = [
        {name: {place: each._replace(thinned=True) for place, each in curve.items()} for name, curve in curves.items()}
        for curves in drawn
    ]
    assert drawn[1] == marked[0] == marked[1]
