"""Sensors that every host has: load, memory, disks, network, temperatures, as the kernel's files say.

They are read here and not by psutil, which takes 0.8 MiB of an agent's memory for them (proc(5), sysfs).

Names follow RFC 8428 section 4.5.1, units are primary units of RFC 8428 section 12.1 and RFC 8798; shares are ratios
from 0 to 1 ("/"), which the registry prefers to "%". Counters (bytes read, received ...) count since boot.

Values have the precision that means something: shares to a thousandth, room to a megabyte, uptime to a second. Digits
beyond that are noise, and cost more to send than all others.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.sensors.hwmon import temperatures_of
from covey.adapters.sensors.system_folders import SystemFolder
from covey.core.telemetry.names import segment
from covey.errors import SensorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Sample = tuple[str, str, float]
"""Name, unit, value."""

MAXIMUM_SAMPLES = 64  # a batch's worth of series should be the boards', not the host's
MAXIMUM_INTERFACES = 8
MAXIMUM_TEMPERATURES = 16  # a server has one for each core; a Pi one or two

_PROCESSES = Path("/proc")
_NETWORK = Path("/sys/class/net")
_BLOCK_DEVICES = Path("/sys/block")
_SECTOR_BYTES = 512  # in the kernel's statistics, whatever the disk has
_MONITORS = Path("/sys/class/hwmon")


class HostSensors:
    """Samples this machine. Never raises: a sensor that fails is left out, and `failures` says why."""

    def __init__(self, disk: Path) -> None:
        """Prepare to sample; `disk` is any path on the disk whose room is watched."""
        self._disk = disk
        self._processor_ticks = (0, 0)  # busy and all, at the sample before
        self._failures: dict[str, str] = {}
        self._sensors = {
            "uptime": self._uptime,
            "load": self._load,
            "cpu": self._processor,
            "memory": self._memory,
            "swap": self._swap,
            "disk": self._disk_room,
            "disk/io": self._disk_traffic,
            "net": self._network,
            "temperature": self._temperatures,
        }

    @property
    def failures(self) -> Mapping[str, str]:
        """Sensors that failed at the last sample, each with its reason. One that recovers leaves the mapping."""
        return self._failures

    def sample(self) -> list[Sample]:
        """Read all sensors once; at most MAXIMUM_SAMPLES, with finite values."""
        samples: list[Sample] = []
        for sensor, read in self._sensors.items():
            try:
                samples += [sample for sample in read() if math.isfinite(sample[2])]
            except Exception as error:  # noqa: BLE001 - drivers fail in their own ways; the agent must not
                self._failures[sensor] = f"{type(error).__name__}: {error}"
            else:
                self._failures.pop(sensor, None)
        return samples[:MAXIMUM_SAMPLES]

    def _uptime(self) -> Iterator[Sample]:
        yield "uptime", "s", round(time.clock_gettime(time.CLOCK_BOOTTIME))

    def _load(self) -> Iterator[Sample]:
        for minutes, value in zip((1, 5, 15), os.getloadavg(), strict=True):
            yield f"load/{minutes}m", "count", round(value, 2)  # as the kernel shows it

    def _processor(self) -> Iterator[Sample]:
        """Yield the cores' busy share since the last sample; the first sample has none."""
        with (_PROCESSES / "stat").open() as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]  # guests are within user and nice
        everything = sum(ticks)
        busy = everything - sum(ticks[3:5])  # idle, and waiting for disks
        (busy_before, everything_before), self._processor_ticks = self._processor_ticks, (busy, everything)
        if 0 < everything_before < everything:
            share = (busy - busy_before) / (everything - everything_before)
            yield "cpu/use", "/", _share(min(max(share, 0.0), 1.0))

    def _memory(self) -> Iterator[Sample]:
        memory = _memory_bytes()
        total, available = memory["MemTotal"], memory["MemAvailable"]
        yield "memory/use", "/", _share((total - available) / total)
        yield "memory/available", "B", _room(available)

    def _swap(self) -> Iterator[Sample]:
        memory = _memory_bytes()
        if total := memory["SwapTotal"]:
            yield "swap/use", "/", _share((total - memory["SwapFree"]) / total)

    def _disk_room(self) -> Iterator[Sample]:
        """Yield the disk room as `df` does: root's reserve counts neither as used nor as free."""
        disk = os.statvfs(self._disk)
        used, free = disk.f_blocks - disk.f_bfree, disk.f_bavail
        yield "disk/use", "/", _share(used / (used + free))
        yield "disk/free", "B", _room(free * disk.f_frsize)

    def _disk_traffic(self) -> Iterator[Sample]:
        """Yield the traffic of real disks: partitions, loops and mappings would count it twice."""
        disks = [device for device in _BLOCK_DEVICES.iterdir() if (device / "device").exists()]
        if not disks:
            return
        words = [(device / "stat").read_text().split() for device in disks]
        yield "disk/read", "B", sum(int(each[2]) for each in words) * _SECTOR_BYTES
        yield "disk/written", "B", sum(int(each[6]) for each in words) * _SECTOR_BYTES

    def _network(self) -> Iterator[Sample]:
        """Yield the traffic of real interfaces: no bridges, tunnels or containers."""
        devices = sorted(each for each in _NETWORK.iterdir() if (each / "device").exists())
        for device in devices[:MAXIMUM_INTERFACES]:
            counters = device / "statistics"
            yield f"net/{segment(device.name)}/received", "B", int((counters / "rx_bytes").read_text())
            yield f"net/{segment(device.name)}/sent", "B", int((counters / "tx_bytes").read_text())

    def _temperatures(self) -> Iterator[Sample]:
        """Yield the kernel's hardware sensors, each under its chip's address, like `hwmon`."""
        try:
            measured = SystemFolder("chip", str(_MONITORS), (), temperatures_of).read()
        except SensorError:  # a machine without a thermometer lacks nothing
            return
        for each in list(measured.readings)[:MAXIMUM_TEMPERATURES]:
            yield f"temperature/{each.name}", each.unit, float(each.value)


def _share(value: float) -> float:
    return round(value, 3)


def _room(size: int) -> int:
    """Return bytes, to a megabyte; what is less than ten of them as it is."""
    return round(size, -6) if size >= 10_000_000 else size


def _memory_bytes() -> dict[str, int]:
    """Read /proc/meminfo, which counts in KiB."""
    lines = (line.partition(":") for line in (_PROCESSES / "meminfo").read_text().splitlines())
    return {name: int(words.split()[0]) * 1024 for name, _, words in lines}
