"""Ninety days without a connection in 64 MiB: virtual time, the real store, thirteen series every ten seconds.

Prints what the device keeps, of what widths, whether every minute of every series still has a value, whether counts and
sums are exact, and what thinning costs its publisher: `python -m bench.messages.thinning [DAYS [MEBIBYTES]]`.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from covey.core.ids import Place
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.summaries import read_summary
from covey.core.wire.message import MessageType, read_message
from covey.limits.units import MIB
from tests.fleet import Device, found

_SERIES = tuple(f"station/sensor-{number}" for number in range(13))
_EVERY_US = 10_000_000
_BATCH_READINGS = 91
_MINUTE_US = 60_000_000
_START_US = 1_790_000_400_000_000


def main() -> None:
    """Print the numbers."""
    days = float(sys.argv[1]) if len(sys.argv) > 1 else 90.0
    size = float(sys.argv[2]) if len(sys.argv) > 2 else 64.0
    with TemporaryDirectory(dir="/var/tmp") as folder:
        _run(Path(folder), days, int(size * MIB))


def _run(folder: Path, days: float, outbox_bytes: int) -> None:
    ann = Device("ann", folder, outbox_bytes=outbox_bytes)
    collector = Device("collector", folder, collects=True)
    group_id = found(ann, collector)
    chance = random.Random(90)
    values = [chance.randrange(10_000, 40_000) for _ in _SERIES]
    counts: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    builder, raw, published, longest, spent = BatchBuilder(), 0, 0, 0.0, 0.0
    samples = int(days * 86_400_000_000) // _EVERY_US
    for sample in range(samples):
        at = (sample + 1) * _EVERY_US + chance.randrange(2_000)
        minute = (_START_US + at) // _MINUTE_US
        for place, name in enumerate(_SERIES):
            values[place] += chance.randrange(-300, 301)
            builder.add(name, "Cel", at, values[place] / 1000)
            counts[place, minute] += 1
            sums[place, minute] += values[place]
        if builder.count >= _BATCH_READINGS or sample + 1 == samples:
            body = builder.body(ClockReading(bytes(8), at, _START_US + at, ClockKind.SYNCHRONISED))
            builder.clear()
            began = time.perf_counter()
            ann.batch(group_id, body)
            took = time.perf_counter() - began
            spent, longest = spent + took, max(longest, took)
            raw, published = raw + len(body), published + 1
    print(
        f"{days:g} days, {len(_SERIES)} series every 10 s: {published:,} batches, {raw / MIB:,.1f} MiB without headers"
    )
    messages, kept = ann.store.outbox.totals()
    print(
        f"kept: {messages:,} messages, {kept / MIB:,.1f} of {outbox_bytes / MIB:g} MiB; "
        f"publishing took {spent:,.0f} s, at most {longest * 1000:,.0f} ms"
    )
    _check(ann, collector, counts, sums, published)


def _check(
    ann: Device,
    collector: Device,
    counts: Counter[tuple[int, int]],
    sums: Counter[tuple[int, int]],
    published: int,
) -> None:
    widths: Counter[int] = Counter()
    found_counts: Counter[tuple[int, int]] = Counter()
    found_sums: Counter[tuple[int, int]] = Counter()
    numbers: Counter[int] = Counter()
    after = Place(0)
    while rows := ann.store.outbox.queued(collector.key, after, 256, MIB):
        after = rows[-1][0]
        for _, raw in rows:
            message = read_message(raw, verify=False)
            if message.type is MessageType.TELEMETRY:
                number, batch = read_telemetry(message.body)
                numbers[number] += 1
                widths[0] += batch.count
                for name, _, time_us, value in batch.readings():
                    key = _SERIES.index(name), time_us // _MINUTE_US
                    found_counts[key] += 1
                    found_sums[key] += round(float(value) * 1000)
            elif message.type is MessageType.SUMMARY:
                spans, summary = read_summary(message.body)
                for first, last in spans:
                    numbers.update(range(first, last + 1))
                widths[summary.window_us] += summary.readings
                offset = summary.clock.wall_us - summary.clock.monotonic_us
                for each in summary.series:
                    for window in each.windows:
                        key = _SERIES.index(each.name), (window.first_us + offset) // _MINUTE_US
                        found_counts[key] += window.readings
                        found_sums[key] += window.total * 1000 // 10**each.scale
    for width_us, readings in sorted(widths.items()):
        name = f"in windows of {width_us // 1_000_000:,} s" if width_us else "as they were"
        print(f"  readings {name:<24} {readings:>14,}")
    whole = sum(found_counts.values()) == sum(counts[key] for key in counts if key in found_counts)
    print(f"minutes of a series with a value: {len(found_counts):,} of {len(counts):,}")
    print(f"counts and sums by the minute are exact: {found_counts == counts and found_sums == sums}")
    print(f"each batch number accounted for once: {numbers == Counter(range(1, published + 1))}; none lost: {whole}")


if __name__ == "__main__":
    main()
