"""Readings as gauges to whatever takes OTLP/HTTP: an OpenTelemetry collector, or a store that has its receiver.

As JSON, which the specification has beside Protobuf: no package is needed, and Debian has none that is recent enough.
https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from covey.adapters.doors.http_post import HttpPost
from covey.core.ids import printable

if TYPE_CHECKING:
    from covey.config.doors import Otlp
    from covey.core.doors import DoorBatch, DoorReading, KnownDevice
    from covey.core.ids import DeviceKey

_PATH = "/v1/metrics"
_LATEST_US = (2**63 - 1) // 1_000
"""What a time of OTLP holds, and every store behind it."""

_Points = dict[tuple[str, str], list[dict[str, str | float]]]


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

    def send(self, batch: DoorBatch) -> int:
        """Post a batch; return how many readings have a time that nobody takes, or were rejected.

        Raises:
            DoorError: it was not taken.
            ConfigurationError: the token's file is missing, or open to others.
        """
        resources, left_out = _resources(batch)
        if not resources:
            return left_out
        body = json.dumps({"resourceMetrics": resources}, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", "Idempotency-Key": batch.id}
        return left_out + _rejected(self._post.post(gzip.compress(body, 6, mtime=0), headers))

    def idle(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Close the connection."""
        self._post.close()


def _resources(batch: DoorBatch) -> tuple[list[dict[str, Any]], int]:
    """Return what the readings are by device, by what their times are worth, by name; and how many have no time."""
    found: dict[tuple[DeviceKey, str], dict[tuple[str, bool], _Points]] = {}
    left_out = 0
    for message in batch.messages:
        for reading in message.readings:
            if isinstance(reading.value, str | bytes):
                continue
            if not 0 <= reading.at_us <= _LATEST_US:
                left_out += 1
                continue
            scopes = found.setdefault((message.author, message.group), {})
            points = scopes.setdefault((message.clock.name.lower(), batch.is_backlog(message, reading)), {})
            points.setdefault((reading.name, reading.unit), []).append(_point(reading))
    resources = [
        {
            "resource": {"attributes": _attributes(_about(batch, author, group))},
            "scopeMetrics": [_scope(clock, points, backlog=late) for (clock, late), points in scopes.items()],
        }
        for (author, group), scopes in found.items()
    ]
    return resources, left_out


def _about(batch: DoorBatch, author: DeviceKey, group: str) -> dict[str, str]:
    key, label = author.hex(), printable(batch.labels.get(author, ""))
    return {
        "service.name": "covey",
        "service.instance.id": key,
        "covey.device.key": key,
        "covey.device.label": label,
        "covey.group": group,
    }


def _scope(clock: str, points: _Points, *, backlog: bool) -> dict[str, Any]:
    """Return gauges of one device; backlog is marked beside them, as an attribute would make other series of them."""
    return {
        "scope": {"name": "covey", "attributes": _attributes({"covey.clock": clock, "covey.backlog": backlog})},
        "metrics": [
            {"name": printable(name), "unit": printable(unit), "gauge": {"dataPoints": each}}
            for (name, unit), each in points.items()
        ],
    }


def _point(reading: DoorReading) -> dict[str, str | float]:
    value = reading.value
    assert isinstance(value, int | float)
    whole = isinstance(value, int) and abs(value) < 2**63
    kind: dict[str, str | float] = {"asInt": str(int(value))} if whole else {"asDouble": float(value)}
    return {"timeUnixNano": str(reading.at_us * 1_000), **kind}


def _attributes(about: Mapping[str, str | bool]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"boolValue": value} if isinstance(value, bool) else {"stringValue": value}}
        for key, value in about.items()
    ]


def _rejected(answer: bytes) -> int:
    """Return how many points the receiver says that it has rejected, of what it has taken."""
    try:
        return max(0, int(json.loads(answer)["partialSuccess"]["rejectedDataPoints"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
