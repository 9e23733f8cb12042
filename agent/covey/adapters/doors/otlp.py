"""Readings as gauges to whatever takes OTLP/HTTP: an OpenTelemetry collector, or a store that has its receiver.

As Protobuf, which every receiver takes; its JSON some do not. The messages are those of
https://github.com/open-telemetry/opentelemetry-proto/blob/v1.3.2/opentelemetry/proto/metrics/v1/metrics.proto, and how
they go is https://opentelemetry.io/docs/specs/otlp/#otlphttp.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from covey.adapters.doors import protobuf
from covey.adapters.doors.http_post import HttpPost
from covey.core.ids import printable
from covey.core.telemetry.drops import Drop

if TYPE_CHECKING:
    from covey.adapters.doors.kinds import DoorOpening
    from covey.config.doors import Otlp
    from covey.core.ids import DeviceKey
    from covey.core.telemetry.doors import DoorBatch, DoorReading, KnownDevice

_PATH = "/v1/metrics"
_LATEST_US = (2**63 - 1) // 1_000
"""What a time of OTLP holds, and every store behind it."""

_Points = dict[tuple[str, str], list[bytes]]


def from_entry(opening: DoorOpening) -> OtlpDoor:
    """Open the door of an entry."""
    return OtlpDoor(opening.options, opening.where, opening.folder)


class OtlpDoor:
    """Posts each batch as metrics."""

    def __init__(self, options: Otlp, where: str, folder: Path) -> None:
        """Check what is configured; without a path the specification's is meant.

        Raises:
            ConfigurationError: as `HttpPost`.
        """
        bare = not urlsplit(options.url).path.strip("/")
        url = options.url.rstrip("/") + _PATH if bare else options.url
        self._post = HttpPost(url, where, folder, options.token_file, options.ca_file)

    def note_devices(self, _devices: Mapping[DeviceKey, KnownDevice]) -> None:
        """Each batch says what its devices are called."""

    def send(self, batch: DoorBatch) -> Counter[Drop]:
        """Post a batch; return how many readings have no number, a time that nobody takes, or were rejected.

        Raises:
            DoorError: it was not taken.
            ConfigurationError: the token's file is missing, or open to others.
        """
        resources, dropped = _resources(batch)
        if not resources:
            return dropped
        body = b"".join(protobuf.octets(1, each) for each in resources)
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", "Idempotency-Key": batch.id}
        dropped[Drop.REFUSED] += _rejected(self._post.post(gzip.compress(body, 6, mtime=0), headers))
        return +dropped

    def idle(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Close the connection."""
        self._post.close()


def _resources(batch: DoorBatch) -> tuple[list[bytes], Counter[Drop]]:
    """Return readings by device, clock and name, and the dropped ones by reason."""
    found: dict[tuple[DeviceKey, str], dict[tuple[str, bool], _Points]] = {}
    dropped = Counter[Drop]()
    for message in batch.messages:
        for reading in message.readings:
            if isinstance(reading.value, str | bytes):
                dropped[Drop.VALUE] += 1
                continue
            if not 0 <= reading.at_us <= _LATEST_US:
                dropped[Drop.TIME] += 1
                continue
            scopes = found.setdefault((message.author, message.group), {})
            points = scopes.setdefault((message.clock.name.lower(), batch.is_backlog(message, reading)), {})
            points.setdefault((reading.name, reading.unit), []).append(_point(reading))
    resources = [
        protobuf.octets(1, _attributes(1, _about(batch, author, group)))
        + b"".join(protobuf.octets(2, _scope(clock, points, backlog=late)) for (clock, late), points in scopes.items())
        for (author, group), scopes in found.items()
    ]
    return resources, dropped


def _about(batch: DoorBatch, author: DeviceKey, group: str) -> dict[str, str]:
    key, label = author.hex(), printable(batch.labels.get(author, ""))
    return {
        "service.name": "covey",
        "service.instance.id": key,
        "covey.device.key": key,
        "covey.device.label": label,
        "covey.group": group,
    }


def _scope(clock: str, points: _Points, *, backlog: bool) -> bytes:
    """Return gauges of one device; `backlog` is an attribute of the scope, because one of the point would make another
    series."""
    scope = protobuf.text(1, "covey") + _attributes(3, {"covey.clock": clock, "covey.backlog": backlog})
    return protobuf.octets(1, scope) + b"".join(
        protobuf.octets(2, _gauge(printable(name), printable(unit), each)) for (name, unit), each in points.items()
    )


def _gauge(name: str, unit: str, points: list[bytes]) -> bytes:
    named = protobuf.text(1, name) + (protobuf.text(3, unit) if unit else b"")
    return named + protobuf.octets(5, b"".join(protobuf.octets(1, each) for each in points))


def _point(reading: DoorReading) -> bytes:
    value = reading.value
    assert isinstance(value, int | float)
    whole = isinstance(value, int) and abs(value) < 2**63
    at = protobuf.fixed(3, reading.at_us * 1_000)
    return at + (protobuf.fixed(6, int(value)) if whole else protobuf.double(4, float(value)))


def _attributes(number: int, about: Mapping[str, str | bool]) -> bytes:
    return b"".join(
        protobuf.octets(number, protobuf.text(1, key) + protobuf.octets(2, _value(value)))
        for key, value in about.items()
    )


def _value(value: str | bool) -> bytes:
    return protobuf.boolean(2, value) if isinstance(value, bool) else protobuf.text(1, value)


def _rejected(answer: bytes) -> int:
    """Return how many points the receiver rejected from an accepted request."""
    try:
        partial = protobuf.read(answer, 1)
        rejected = protobuf.read(partial, 1) if isinstance(partial, bytes) else None
    except ValueError:
        return 0
    return rejected if isinstance(rejected, int) and rejected < 2**63 else 0
