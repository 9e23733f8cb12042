"""OTLP at a real web server: what comes is what OpenTelemetry's own messages hold, whatever devices are called."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from covey.adapters.doors.otlp import OtlpDoor
from covey.config.doors import Otlp
from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading
from covey.core.telemetry.drops import Drop
from covey.errors import DoorError
from tests.receiver import Post, Receiver, receiver

_KEY, _OTHER = DeviceKey(bytes(range(32))), DeviceKey(bytes(range(1, 33)))
_NOW_US = 1_800_000_000_000_000
_HOSTILE = 'a"b\\c\n\x00☃{{ x }}'


@pytest.fixture
def web() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def _message(author: DeviceKey, *readings: DoorReading) -> DoorMessage:
    return DoorMessage("m", author, "5c" * 32, _NOW_US, ClockKind.SYNCHRONISED, readings)


def _send(web: Receiver, folder: Path, *messages: DoorMessage, url: str = "") -> Counter[Drop]:
    door = OtlpDoor(Otlp(url=url or web.url), "door metrics", folder)
    try:
        return door.send(DoorBatch("b-1", "metrics", _NOW_US, 300_000_000, messages, {_KEY: _HOSTILE}))
    finally:
        door.close()


def _request(post: Post) -> Any:
    """Return what OpenTelemetry's own package reads, which would write the very same bytes: it knows each field."""
    assert post.headers["content-type"] == "application/x-protobuf"
    body = gzip.decompress(post.body)
    request = ExportMetricsServiceRequest.FromString(body)
    assert request.SerializeToString() == body
    return request


def _attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found.attributes}


def test_a_device_is_a_resource_and_a_series_a_gauge(web: Receiver, tmp_path: Path) -> None:
    readings = (
        DoorReading("air:t", "Cel", _NOW_US - 2_000_000, 21.25),
        DoorReading("air:t", "Cel", _NOW_US - 1_000_000, 21.5),
        DoorReading("pump", "", _NOW_US, True),
        DoorReading("pulses", "", _NOW_US, 2**60),
        DoorReading("state", "", _NOW_US, "open"),
        DoorReading("photo", "", _NOW_US, b"x"),
    )
    assert _send(web, tmp_path, _message(_KEY, *readings), _message(_OTHER, readings[0])) == {Drop.VALUE: 2}
    (post,) = web.posts
    assert post.headers["idempotency-key"] == "b-1"
    first, second = _request(post).resource_metrics
    about = _attributes(first.resource)
    assert about["covey.device.key"] == about["service.instance.id"] == _KEY.hex()
    assert (about["service.name"], about["covey.group"]) == ("covey", "5c" * 32)
    assert _attributes(second.resource)["covey.device.key"] == _OTHER.hex()
    (scope,) = first.scope_metrics
    assert _attributes(scope.scope) == {"covey.clock": "synchronised", "covey.backlog": False}
    air, pump, pulses = scope.metrics
    assert (air.name, air.unit) == ("air:t", "Cel")
    assert [(each.time_unix_nano, each.as_double) for each in air.gauge.data_points] == [
        ((_NOW_US - 2_000_000) * 1_000, 21.25),
        ((_NOW_US - 1_000_000) * 1_000, 21.5),
    ]
    assert pump.gauge.data_points[0].as_int == 1
    assert pulses.gauge.data_points[0].as_int == 2**60


def test_backlog_is_marked_beside_the_series_which_stays_one(web: Receiver, tmp_path: Path) -> None:
    readings = (DoorReading("t", "", _NOW_US - 3_600_000_000, 1.0), DoorReading("t", "", _NOW_US, 2.0))
    _send(web, tmp_path, _message(_KEY, *readings))
    (resource,) = _request(web.posts[0]).resource_metrics
    late, live = resource.scope_metrics
    assert [_attributes(each.scope)["covey.backlog"] for each in (late, live)] == [True, False]
    points = [each.metrics[0].gauge.data_points[0] for each in (late, live)]
    assert [each.as_double for each in points] == [1.0, 2.0]
    assert not any(each.attributes for each in points)


def test_hostile_names_stay_values_and_times_that_nobody_takes_are_counted(web: Receiver, tmp_path: Path) -> None:
    readings = (
        DoorReading(_HOSTILE, _HOSTILE, _NOW_US, 1.0),
        DoorReading("early", "", -1, 1.0),
        DoorReading("late", "", 2**62, 1.0),
        DoorReading("huge", "", _NOW_US, 2**70),
    )
    assert _send(web, tmp_path, _message(_KEY, *readings)) == {Drop.TIME: 2}
    (resource,) = _request(web.posts[0]).resource_metrics
    assert _attributes(resource.resource)["covey.device.label"].isprintable()
    hostile, huge = resource.scope_metrics[0].metrics
    assert hostile.name.isprintable()
    assert huge.gauge.data_points[0].as_double == 2.0**70


def test_nothing_is_posted_where_nothing_is_a_number(web: Receiver, tmp_path: Path) -> None:
    assert _send(web, tmp_path, _message(_KEY, DoorReading("state", "", _NOW_US, "open"))) == {Drop.VALUE: 1}
    assert web.posts == []


def test_readings_that_the_receiver_rejects_are_counted(web: Receiver, tmp_path: Path) -> None:
    message = _message(_KEY, DoorReading("t", "", _NOW_US, 1.0))
    some, negative = ExportMetricsServiceResponse(), ExportMetricsServiceResponse()
    some.partial_success.rejected_data_points = 700
    some.partial_success.error_message = "too old"
    negative.partial_success.rejected_data_points = -7
    for said, rejected in (
        (some.SerializeToString(), 700),
        (negative.SerializeToString(), 0),
        (ExportMetricsServiceResponse().SerializeToString(), 0),
        (some.SerializeToString()[:-3], 0),
        (b'{"partialSuccess":{}}', 0),
        (b"\xff" * 40, 0),
        (b"\x0a\x7f", 0),
    ):
        web.says = said
        assert _send(web, tmp_path, message) == ({Drop.REFUSED: rejected} if rejected else {})


def test_an_address_without_a_path_is_the_specification_s(web: Receiver, tmp_path: Path) -> None:
    message = _message(_KEY, DoorReading("t", "", _NOW_US, 1.0))
    bare = web.url.removesuffix("/in")
    for url in (bare, f"{bare}/", f"{bare}/otlp/v1/metrics"):
        _send(web, tmp_path, message, url=url)
    assert [each.path for each in web.posts] == ["/v1/metrics", "/v1/metrics", "/otlp/v1/metrics"]
    web.answers = [400]
    with pytest.raises(DoorError) as caught:
        _send(web, tmp_path, message)
    assert caught.value.refused
