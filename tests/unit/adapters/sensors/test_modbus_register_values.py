"""`covey.adapters.sensors.modbus`: what is asked for together, and what bits mean."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.sensors.modbus import MAXIMUM_REGISTERS, requests_for, values
from covey.config.sensors import Modbus, Register

_URL = "tcp://127.0.0.1"


def _value(register: Register, *places: int, order: str = "ABCD") -> object:
    (request,) = requests_for(Modbus(_URL, registers=(register,)))
    ((_, found),) = values(request, places, order)
    return found


def test_adjacent_registers_are_read_together() -> None:
    registers = (
        Register("c", 4, type="float32"),
        Register("a", 0, type="uint32"),
        Register("b", 2, type="float32"),
        Register("apart", 7),
        Register("other table", 6, table="input"),
        Register("other device", 6, unit_id=2),
    )
    asked = [
        (each.unit_id, each.table, each.first, each.count) for each in requests_for(Modbus(_URL, registers=registers))
    ]
    assert asked == [(1, "holding", 0, 6), (1, "holding", 7, 1), (1, "input", 6, 1), (2, "holding", 6, 1)]


def test_no_request_is_longer_than_an_answer() -> None:
    registers = tuple(Register(f"r{each}", each) for each in range(256))
    requests = requests_for(Modbus(_URL, registers=registers))
    assert [each.count for each in requests] == [MAXIMUM_REGISTERS, MAXIMUM_REGISTERS, 6]
    assert [each.name for request in requests for each in request.registers] == [each.name for each in registers]


@pytest.mark.parametrize(
    ("order", "places"),
    [("ABCD", (0x1122, 0x3344)), ("CDAB", (0x3344, 0x1122)), ("BADC", (0x2211, 0x4433)), ("DCBA", (0x4433, 0x2211))],
)
def test_orders_of_bytes(order: str, places: tuple[int, int]) -> None:
    assert _value(Register("a", 0, type="uint32"), *places, order=order) == 0x11223344
    assert _value(Register("a", 0, type="uint32", order=order), *places) == 0x11223344


def test_one_register_has_two_orders() -> None:
    assert [_value(Register("a", 0, order=each), 0x1122) for each in ("ABCD", "CDAB")] == [0x1122, 0x1122]
    assert [_value(Register("a", 0, order=each), 0x1122) for each in ("BADC", "DCBA")] == [0x2211, 0x2211]


def test_scales_are_decimals_and_whole_numbers_stay_whole() -> None:
    assert _value(Register("a", 0, scale=0.1), 2305) == 230.5
    assert _value(Register("a", 0, type="int16", scale=0.01), 65_336) == -2.0
    whole = _value(Register("a", 0, type="uint64"), 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF)
    assert (whole, type(whole)) == (2**64 - 1, int)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_of_32_bits_is_a_decimal_that_means_it(number: float) -> None:
    places = struct.unpack(">2H", struct.pack(">f", number))
    found = _value(Register("a", 0, type="float32"), *places)
    assert isinstance(found, float)
    assert struct.pack(">f", found) == struct.pack(">f", number)
    assert _digits(found) <= _digits(number)


def _digits(number: float) -> int:
    return len(Decimal(repr(number)).normalize().as_tuple().digits)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_float_that_is_no_number_is_left_out(number: float) -> None:
    assert _value(Register("a", 0, type="float32"), *struct.unpack(">2H", struct.pack(">f", number))) is None
