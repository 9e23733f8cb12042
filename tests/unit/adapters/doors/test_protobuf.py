"""Protobuf's encoding as Google's own package reads and writes it; `test_otlp.py` has whole messages."""

from __future__ import annotations

import contextlib

import pytest
from google.protobuf.wrappers_pb2 import BoolValue, DoubleValue, StringValue, UInt64Value
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from covey.adapters.doors import protobuf


def test_fields_are_what_the_package_writes() -> None:
    for text in ("a", "x" * 127, "x" * 128, "☃" * 10_000):
        assert protobuf.text(1, text) == StringValue(value=text).SerializeToString()
    for value in (1.5, -0.1, float("inf"), 5e-324):
        assert protobuf.double(1, value) == DoubleValue(value=value).SerializeToString()
    assert protobuf.boolean(1, True) == BoolValue(value=True).SerializeToString()
    assert protobuf.boolean(2, False) == b"\x10\x00"
    assert protobuf.fixed(6, -1) == b"\x31" + b"\xff" * 8
    assert protobuf.octets(16, b"a") == b"\x82\x01\x01a"


def test_a_field_is_found_among_others() -> None:
    for number in (0, 1, 127, 128, 2**63, 2**64 - 1):
        message = protobuf.double(7, 1.0) + protobuf.text(3, "x") + UInt64Value(value=number).SerializeToString()
        assert protobuf.read(message, 1) == (number or None)
    assert protobuf.read(b"\x25\x01\x02\x03\x04" + protobuf.text(2, "x"), 2) == b"x"


def test_a_strangers_bytes_are_a_value_or_an_error() -> None:
    whole = ExportMetricsServiceResponse()
    whole.partial_success.rejected_data_points = 300
    raw = whole.SerializeToString()
    for end in range(1, len(raw)):
        with pytest.raises(ValueError, match=r"field|number"):
            protobuf.read(raw[:end], 9)
    for place in range(len(raw)):
        for octet in range(256):
            with contextlib.suppress(ValueError):
                protobuf.read(raw[:place] + bytes([octet]) + raw[place + 1 :], 1)
    for bad in (b"\x0b", b"\x0e\x00", b"\x08" + b"\x80" * 11, b"\x0a" + b"\xff" * 9 + b"\x7f"):
        with pytest.raises(ValueError, match=r"field|number"):
            protobuf.read(bad, 9)
