"""A day of a real device that has a budget, in ten minutes: what its link carries each hour, and what it counts itself.

One agent with the host's 13 series, a collector and mosquitto run by a clock (`bench.clock`) that is fast while the
device rests, and slower while it is connected, so that a busy machine does not make connections time out. The device
reaches the broker through a meter (`link_meter.py`) that counts TLS 1.3, TCP and IP by the kernel's account of each
connection, and never asks the device. The power fails at noon. The day is one of UTC, from midnight to midnight.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.clock import Clock, compiles
from bench.messages.link_meter import Meter, Traffic, certificate
from broker_conf.mosquitto.broker import Broker
from covey.core.link.budget import link_budget
from demo.device import Device

_BUDGET = "200 kB/day"
_HOURS = 24
_FAST, _CONNECTED = 250.0, 4.0
"""Seconds of the clock per second: while the device rests, and while it is connected or connects."""
_LOOK_S = 0.002
_HOUR_S = 3_600
_SET_UP_S = 900.0
"""Before midnight, for the set-up at the pace of real time; it may take longer on a busy machine."""
_SETTINGS = {"link.budget": _BUDGET, "sensors.interval_seconds": "60", "telemetry.batch_seconds": "1800"}


@dataclass(frozen=True, slots=True)
class _Hour:
    """What one hour has brought."""

    traffic: Traffic
    connections: int
    readings: int
    waiting: int


def main() -> int:
    """Print the table; 1 if the budget was exceeded."""
    if not compiles():
        print("needs a C compiler")
        return 0
    with TemporaryDirectory(dir="/var/tmp") as folder:  # on a disk: /tmp may be memory
        place = Path(folder)
        midnight = ((time.time() + _SET_UP_S) // 86_400 + 1) * 86_400  # the certificate is valid from now on
        clock = Clock(place, wall=midnight - _SET_UP_S)
        chain, key = certificate(place / "tls")
        with Broker(place / "broker", environment=clock.environment) as broker:
            collector = Device(place, "collector", clock.environment)
            device = Device(place, "device", clock.environment)
            meter = Meter(broker.port, chain, key)
            try:
                _start(device, meter, broker, chain, collector)
                _live(clock, meter, max(midnight, clock.wall()))
                return _day(clock, meter, device, midnight)
            finally:
                clock.run(1.0)
                device.end()
                collector.end()
                meter.close()


def _start(device: Device, meter: Meter, broker: Broker, chain: Path, collector: Device) -> None:
    collector.set_up(broker)
    collector.ok("config", "set", "vault.location", str(collector.state.with_name("vault")))
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    device.set_up()
    words = ["--ca-file", str(chain), "--password-file", "-"]
    device.ok("relay", "set", meter.url, *words, feed=broker.add_device(device.account))
    device.ok("join", "-", feed=collector.ok("invite", "--no-wait"))
    for option, value in _SETTINGS.items():
        device.ok("config", "set", option, value)
    device.start("run")


def _day(clock: Clock, meter: Meter, device: Device, midnight: float) -> int:
    began, before = time.monotonic(), meter.traffic()
    first, readings, connections = before, device.ledger().published, meter.accepted
    hours: list[_Hour] = []
    for hour in range(1, _HOURS + 1):
        last = midnight + hour * _HOUR_S
        _live(clock, meter, last - 60 if hour == _HOURS else last)  # the day's own count is lost at midnight
        now, ledger = meter.traffic(), device.ledger()
        hours.append(
            _Hour(now.since(before), meter.accepted - connections, ledger.published - readings, ledger.queued_messages)
        )
        before, readings, connections = now, ledger.published, meter.accepted
        if hour == _HOURS // 2:
            clock.run(1.0)
            device.kill()
            device.start("run")
    clock.run(1.0)
    took_s, own = time.monotonic() - began, device.json("link")["today"]
    budget = link_budget(_BUDGET)
    assert budget is not None
    spent = before.since(first)
    print(f"{_HOURS} hours in {took_s / 60:.1f} min; budget: {_BUDGET}; a power cut after {_HOURS // 2} hours\n")
    print("| Hour | Bytes | TLS | TCP/IP | Connections | Readings | Messages that wait |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for number, each in enumerate(hours):
        sizes = f"{each.traffic.total:,} | {each.traffic.tls:,} | {each.traffic.headers:,}"
        print(f"| {number} | {sizes} | {each.connections} | {each.readings:,} | {each.waiting} |")
    produced = sum(each.readings for each in hours)
    print(f"\nin all {spent.total:,} bytes by the kernel's count, {spent.total / budget.bytes:.0%} of the budget")
    print(f"the device itself has counted {sum(own.values()):,}: {own}")
    print(f"{produced:,} readings, {spent.total / max(1, produced):.1f} bytes for each")
    return int(spent.total > budget.bytes)


def _live(clock: Clock, meter: Meter, until: float) -> None:
    """Let time pass until the wall clock says so."""
    while clock.wall() < until:
        wanted = _CONNECTED if meter.connections else _FAST
        if clock.speed != wanted:
            clock.run(wanted)
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main()
