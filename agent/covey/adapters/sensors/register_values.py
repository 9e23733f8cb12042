"""Modbus registers: group requests, and interpret the answers.

1. What stands side by side in one table of one device is asked for together, as much as one answer holds. Nothing that
   nobody named is read: many devices refuse a request that touches what they have not.
2. A number is its registers in the order that its entry says, big-endian within (Modbus Application Protocol 1.1b3,
   section 4.2). A float that is no number means that the device has none, and is left out.
3. A scale multiplies decimals: 2305 x 0.1 is 230.5. A 32-bit float is the shortest decimal that means it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.config.sensors import Modbus, Register

MAXIMUM_REGISTERS = 125
"""Registers in one answer (Modbus Application Protocol 1.1b3, sections 6.3 and 6.4)."""

MAXIMUM_BITS = 2_000
"""Coils or discrete inputs in one answer (sections 6.1 and 6.2)."""

_FORMATS = {
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "uint64": ">Q",
    "float32": ">f",
    "float64": ">d",
}
_LONGEST_FLOAT32 = 9
"""Significant digits that tell any two 32-bit floats apart (IEEE 754)."""


@dataclass(frozen=True, slots=True)
class ModbusRequest:
    """What is asked of a device at once, `count` places of a table from `first`, in which registers stand.

    `unit_id` is the device's unit identifier.
    """

    unit_id: int
    table: str
    first: int
    count: int
    registers: tuple[Register, ...]

    def alone(self) -> list[ModbusRequest]:
        """Return a request for each of its registers."""
        return [ModbusRequest(self.unit_id, self.table, each.address, each.size, (each,)) for each in self.registers]


def requests_for(options: Modbus) -> list[ModbusRequest]:
    """Return what to ask for, so that each register comes in one answer."""
    found: list[ModbusRequest] = []
    unit_of = {each.name: options.unit_id if each.unit_id < 0 else each.unit_id for each in options.registers}
    for each in sorted(options.registers, key=lambda each: (unit_of[each.name], each.table, each.address)):
        last = found[-1] if found else None
        most = MAXIMUM_BITS if each.bits else MAXIMUM_REGISTERS
        if last and (last.unit_id, last.table) == (unit_of[each.name], each.table):
            count = max(last.first + last.count, each.address + each.size) - last.first
            if each.address <= last.first + last.count and count <= most:
                found[-1] = ModbusRequest(last.unit_id, last.table, last.first, count, (*last.registers, each))
                continue
        found.append(ModbusRequest(unit_of[each.name], each.table, each.address, each.size, (each,)))
    return found


def values(request: ModbusRequest, answer: Sequence[int], order: str) -> Iterable[tuple[Register, float | bool | None]]:
    """Yield each register's value out of the places that were asked for; `order` is for those that say none."""
    for each in request.registers:
        at = each.address - request.first
        yield each, _value(each, answer[at : at + each.size], each.order or order)


def _value(register: Register, places: Sequence[int], order: str) -> float | bool | None:
    if register.bits:
        return bool(places[0])
    words = list(places) if order in {"ABCD", "BADC"} else list(reversed(places))
    raw = struct.pack(f"{'<' if order in {'BADC', 'DCBA'} else '>'}{len(words)}H", *words)
    if register.meaning == "bool":
        return bool(int.from_bytes(raw, "big") >> register.bit & 1)
    number: float
    (number,) = struct.unpack(_FORMATS[register.meaning], raw)
    if isinstance(number, float) and not math.isfinite(number):
        return None
    if register.meaning == "float32":
        number = _shortest(number)
    if register.scale == 1:
        return number
    return float(Decimal(repr(number)) * Decimal(repr(register.scale)))


def _shortest(number: float) -> float:
    raw = struct.pack(">f", number)
    for digits in range(6, _LONGEST_FLOAT32):
        shorter = float(f"{number:.{digits}g}")
        if struct.pack(">f", shorter) == raw:
            return shorter
    return number
