"""Sensors that every host has: load, memory, disks, network, temperatures. Read through psutil.

Names follow RFC 8428 section 4.5.1, units are primary units of RFC 8428 section 12.1 and RFC 8798; shares are ratios
from 0 to 1 ("/"), which the registry prefers to "%". Counters (bytes read, received ...) count since boot.
"""

from __future__ import annotations

import math
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

_NETWORK = Path("/sys/class/net")
_MONITORS = Path("/sys/class/hwmon")


class HostSensors:
    """Samples this machine. Never raises: a sensor that fails is left out, and `failures` says why."""

    def __init__(self, disk: Path) -> None:
        """Prepare to sample; `disk` is any path on the disk whose room is watched."""
        self._disk = disk
        self._processor_s = (0.0, 0.0)  # busy and all, at the sample before
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
        yield "uptime", "s", time.clock_gettime(time.CLOCK_BOOTTIME)

    def _load(self) -> Iterator[Sample]:
        import psutil

        for minutes, value in zip((1, 5, 15), psutil.getloadavg(), strict=True):
            yield f"load/{minutes}m", "count", value

    def _processor(self) -> Iterator[Sample]:
        """Give the share of time that the cores were busy since the sample before; the first sample has none."""
        import psutil

        times = psutil.cpu_times()._asdict()
        everything = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)  # within user, nice
        busy = everything - times["idle"] - times.get("iowait", 0.0)
        (busy_before, everything_before), self._processor_s = self._processor_s, (busy, everything)
        if 0.0 < everything_before < everything:
            share = (busy - busy_before) / (everything - everything_before)
            yield "cpu/use", "/", min(max(share, 0.0), 1.0)

    def _memory(self) -> Iterator[Sample]:
        import psutil

        memory = psutil.virtual_memory()
        yield "memory/use", "/", (memory.total - memory.available) / memory.total
        yield "memory/available", "B", memory.available

    def _swap(self) -> Iterator[Sample]:
        import psutil

        swap = psutil.swap_memory()
        if swap.total:
            yield "swap/use", "/", swap.used / swap.total

    def _disk_room(self) -> Iterator[Sample]:
        import psutil

        usage = psutil.disk_usage(str(self._disk))
        yield "disk/use", "/", usage.percent / 100
        yield "disk/free", "B", usage.free

    def _disk_traffic(self) -> Iterator[Sample]:
        import psutil

        counters = psutil.disk_io_counters()
        if counters is not None:
            yield "disk/read", "B", counters.read_bytes
            yield "disk/written", "B", counters.write_bytes

    def _network(self) -> Iterator[Sample]:
        """Give the traffic of interfaces that are devices: no bridges, tunnels or containers."""
        import psutil

        counters = psutil.net_io_counters(pernic=True)
        devices = [name for name in sorted(counters) if (_NETWORK / name / "device").exists()]
        for name in devices[:MAXIMUM_INTERFACES]:
            yield f"net/{segment(name)}/received", "B", counters[name].bytes_recv
            yield f"net/{segment(name)}/sent", "B", counters[name].bytes_sent

    def _temperatures(self) -> Iterator[Sample]:
        """Give what the kernel's hardware monitors say, each under where its chip is: `hwmon` names it."""
        try:
            measured = SystemFolder("chip", str(_MONITORS), (), temperatures_of).read()
        except SensorError:  # a machine without a thermometer lacks nothing
            return
        for each in list(measured.readings)[:MAXIMUM_TEMPERATURES]:
            yield f"temperature/{each.name}", each.unit, float(each.value)
