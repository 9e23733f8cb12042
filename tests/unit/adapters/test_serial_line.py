"""A line of bytes: a pseudo terminal, and a port that is not there."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from covey.adapters.serial_line import SerialLine
from covey.errors import ConfigurationError
from tests.waiting import wait_until


def test_bytes_go_both_ways_unchanged() -> None:
    every_byte = bytes(range(256))
    with closing(SerialLine()) as line:
        other = os.open(line.name, os.O_RDWR | os.O_NOCTTY)
        line.write(every_byte)
        came = b""
        while len(came) < len(every_byte):
            came += os.read(other, 256)
        assert came == every_byte
        os.write(other, every_byte)
        received = bytearray()

        def all_came() -> bool:
            received.extend(line.read())
            return len(received) == len(every_byte)

        wait_until(all_came)
        assert received == every_byte
        os.close(other)
        assert line.read() == b""  # and does not fail while nobody has the other end open


def test_a_port_that_is_not_there_is_an_error_with_a_hint() -> None:
    with pytest.raises(ConfigurationError, match="cannot open /no/such/port") as raised:
        SerialLine("/no/such/port")
    assert raised.value.hint == "--line takes the serial port that leads to the gateway"
