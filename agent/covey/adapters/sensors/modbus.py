"""Read Modbus devices over TCP or serial RTU with pymodbus.

1. Adjacent registers of one table of one device are requested together, as many as one answer holds. Registers that the
   configuration does not name are never requested: many devices refuse a request that touches an undefined register.
2. If a device refuses to answer for adjacent registers together, each is read separately from then on.
3. A number is its registers in the order that its entry says, big-endian within (Modbus Application Protocol 1.1b3,
   section 4.2). A float that is not a number means that the device has no value, and is left out.
4. A scale multiplies decimals: 2305 x 0.1 is 230.5. A 32-bit float becomes the shortest decimal that means it.
5. A device that does not answer, or refuses, costs only its own readings. It is reported, and asked last the next time;
   no read takes longer than the limits say.
6. Without a connection nothing is measured: the sensor fails, and is opened again.
"""

from __future__ import annotations

import inspect
import logging
import math
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from covey.core.telemetry.drops import Drop
from covey.core.telemetry.reading import Reading
from covey.errors import MissingPackageError, SensorError
from covey.limits.sensors import SENSOR_LOOK_SECONDS
from covey.ports import Measurement

if TYPE_CHECKING:
    from covey.config.sensors import Modbus, Register
    from covey.ports import Clock, SensorOpening

_PORT = 502
_READS = {
    "holding": "read_holding_registers",
    "input": "read_input_registers",
    "coil": "read_coils",
    "discrete": "read_discrete_inputs",
}
_REFUSALS = {
    1: "it does not know this table",
    2: "it has nothing there: is the address counted from 0?",
    3: "it refuses the number of registers",
    4: "it failed",
    6: "it is busy",
    10: "its gateway has no way to it",
    11: "its gateway gets no answer from it",
}
"""Modbus Application Protocol 1.1b3, section 7."""

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


class _SilentError(Exception):
    """A device does not answer."""


class _RefusedError(Exception):
    """A device refuses what it was asked for."""


def from_entry(opening: SensorOpening) -> ModbusSensor:
    """Open the sensor of an entry."""
    return open_modbus(opening.options, opening.clock)


def open_modbus(options: Modbus, clock: Clock) -> ModbusSensor:
    """Return the sensor; the line is opened when it is read.

    Raises:
        MissingPackageError: pymodbus, or what it needs for a serial port, is not installed.
    """
    try:
        client = _client(options)
    except (ImportError, RuntimeError) as error:  # it raises the latter where pyserial is missing
        raise MissingPackageError("a sensor of kind modbus", "pymodbus", debian="python3-pymodbus") from error
    return ModbusSensor(options, client, clock)


class ModbusSensor:
    """Implements `ports.Sensor`."""

    def __init__(self, options: Modbus, client: Any, clock: Clock) -> None:
        """Prepare to ask by a client of pymodbus."""
        self._options = options
        self._client = client
        self._clock = clock
        self._requests = requests_for(options)
        self._silent: set[int] = set()

    def read(self) -> Measurement:
        """Ask each device once for all that is wanted of it.

        Raises:
            SensorError: there is no line.
        """
        until = time.monotonic() + SENSOR_LOOK_SECONDS
        readings: list[Reading] = []
        failures: dict[int, str] = {}
        silent: set[int] = set()
        for request in sorted(self._requests, key=lambda each: each.unit_id in self._silent):
            device = request.unit_id
            if device in silent:
                continue
            if time.monotonic() > until:
                failures.setdefault(device, "not asked: too many others do not answer")
                continue
            try:
                readings += self._readings(request)
            except _SilentError as error:
                silent.add(device)
                failures[device] = f"does not answer{error}"
            except _RefusedError as error:
                failures.setdefault(device, str(error))
        self._silent = silent
        wanted = sum(len(each.registers) for each in self._requests)
        return Measurement(
            readings,
            "; ".join(f"device {device}: {why}" for device, why in failures.items()),
            dropped={Drop.UNREAD: wanted - len(readings)} if failures else {},
        )

    def close(self) -> None:
        """Let the line go."""
        self._client.close()

    def _readings(self, request: ModbusRequest) -> list[Reading]:
        try:
            places = self._asked(request)
        except _RefusedError:
            if len(request.registers) == 1:
                raise
            at = self._requests.index(request)
            self._requests[at : at + 1] = alone = request.alone()
            return self._each_alone(alone)
        now_us = self._clock.monotonic_us()
        return [
            Reading(register.name, register.unit, now_us, value)
            for register, value in values(request, places, self._options.order)
            if value is not None
        ]

    def _each_alone(self, requests: list[ModbusRequest]) -> list[Reading]:
        found: list[Reading] = []
        refused: _RefusedError | None = None
        for each in requests:
            try:
                found += self._readings(each)
            except _RefusedError as error:
                refused = refused or error
        if refused and not found:
            raise refused
        return found

    def _asked(self, request: ModbusRequest) -> Sequence[int]:
        from pymodbus.exceptions import ModbusException

        if not self._client.connect():
            raise SensorError(f"{self._options.url} cannot be reached", hint=_line_hint(self._options.url))
        ask = getattr(self._client, _READS[request.table])
        try:
            answer = ask(request.first, count=request.count, **{_device_word(ask): request.unit_id})
        except ModbusException as error:
            self._client.close()
            raise _SilentError from error
        if isinstance(answer, Exception):  # pymodbus before 3.7 returns it
            self._client.close()
            raise _SilentError
        if answer.isError():
            code = getattr(answer, "exception_code", 0)
            where = f"{request.table} {request.first}"
            raise _RefusedError(
                f"{request.registers[0].name} ({where}): {_REFUSALS.get(code, f'refused, code {code}')}"
            )
        places: Sequence[int] = answer.bits if request.registers[0].bits else answer.registers
        if len(places) < request.count:
            raise _RefusedError(
                f"{request.registers[0].name}: the device answered with {len(places)} of {request.count} values"
            )
        return places


def _client(options: Modbus) -> Any:
    """Return a pymodbus client without a log, which a device could fill."""
    from pymodbus.client import ModbusSerialClient, ModbusTcpClient

    logging.getLogger("pymodbus").setLevel(logging.CRITICAL + 1)
    address = urlsplit(options.url)
    timeout_s: Any = options.timeout_seconds  # 3.0, which Debian 12 has, takes the whole ones of them
    if address.scheme == "tcp":
        return ModbusTcpClient(address.hostname or "", port=address.port or _PORT, timeout=timeout_s, retries=1)
    return ModbusSerialClient(
        address.path,
        baudrate=options.baud_rate,
        parity=options.parity[0].upper(),
        stopbits=options.stop_bits,
        timeout=timeout_s,
        retries=1,
    )


def _device_word(ask: Any) -> str:
    """Return pymodbus's name for the device argument: `slave` before 3.10."""
    return "device_id" if "device_id" in inspect.signature(ask).parameters else "slave"


def _line_hint(url: str) -> str:
    if url.startswith("tcp"):
        return "check that the device is on, speaks Modbus TCP and accepts another connection"
    return "check that the adapter is plugged in and the agent's user is in the group dialout"
