"""Devices on a Modbus line, by the server of pymodbus: on TCP, or RTU on a serial line of two pseudo-terminals."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pymodbus.server import ModbusSerialServer, ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from broker_conf.mosquitto.broker import free_port

Server = ModbusTcpServer | ModbusSerialServer


def meter(number: int = 1) -> SimDevice:
    """Return a meter, as three-phase ones are: floats, scaled integers, a counter, flags, a relay."""
    floats = SimData(52, values=[1250.5, 21.3, float("nan")], datatype=DataType.FLOAT32)
    holding = [
        SimData(0, values=[2305, 65_336], datatype=DataType.REGISTERS),
        SimData(10, values=[0x0001, 0x86A0], datatype=DataType.REGISTERS),
        SimData(12, values=2**60 + 1, datatype=DataType.UINT64),
        SimData(20, values=0b1000, datatype=DataType.REGISTERS),
        floats,
    ]
    relays = [SimData(3, values=[True, False, *[False] * 11], datatype=DataType.BITS)]
    return SimDevice(id=number, simdata=(relays, relays, holding, holding))


@contextmanager
def modbus_tcp(*devices: SimDevice, port: int = 0) -> Iterator[str]:
    """Run devices behind one address, and give its URL."""
    port = port or free_port()
    address, only = ("127.0.0.1", port), _only(devices, 6)
    with _served(lambda: ModbusTcpServer(list(devices), address=address, trace_packet=only)):
        yield f"tcp://127.0.0.1:{port}"


@contextmanager
def modbus_rtu(*devices: SimDevice) -> Iterator[str]:
    """Run devices on a serial line, and give the URL of its other end; who is not there says nothing."""
    ends = [os.openpty(), os.openpty()]
    for _, port in ends:
        tty.setraw(port)
    stop = threading.Event()
    pump = threading.Thread(target=_carry, args=(ends[0][0], ends[1][0], stop), daemon=True)
    pump.start()
    theirs, ours = (os.ttyname(port) for _, port in ends)
    try:
        only = _only(devices, 0)
        with _served(lambda: ModbusSerialServer(list(devices), port=theirs, baudrate=9600, trace_packet=only)):
            yield f"rtu://{ours}"
    finally:
        stop.set()
        pump.join()
        for pair in ends:
            for each in pair:
                os.close(each)


def _only(devices: tuple[SimDevice, ...], at: int) -> Callable[[bool, bytes], bytes]:
    """Have nobody answer for a device that is not there, as the server would; its number is `at` so many bytes."""
    there = {each.id for each in devices}
    return lambda sends, packet: b"" if sends and packet[at] not in there else packet


def _carry(one: int, other: int, stop: threading.Event) -> None:
    while not stop.is_set():
        for end in select.select([one, other], [], [], 0.05)[0]:
            os.write(other if end == one else one, os.read(end, 4096))


@contextmanager
def _served(make: Callable[[], Server]) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def begin() -> Server:
        server = make()
        await server.serve_forever(background=True)
        return server

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.shutdown(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
