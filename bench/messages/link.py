"""What a device's connection and storage cost: bytes a day, and bytes per reading, all headers included.

Real agents, one collector and one mosquitto, in real time. Each device has a meter in front of the broker
(`link_meter.py`): TLS 1.3, TCP and IP are counted, both directions, acknowledgements of every layer included. All
devices are measured at the same time, after an hour in which they agree on link keys and compare their groups often.
What each agent writes to storage is the kernel's count (`adapters/process_writes.py`), where the folder lies on a disk.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.messages.link_meter import HEADER_BYTES, Meter, Traffic, certificate, settle
from broker_conf.mosquitto.broker import Broker
from covey.adapters.process_writes import ProcessWrites
from covey.limits.relay import KEEPALIVE_S
from demo.device import Device

_SETTLE_S = 3_900.0
"""Until groups are compared once an hour, and link keys are in use."""
_MEASURE_S = 3_600.0
"""What happens once an hour is in it once, about."""
_DAY_S = 86_400
_PING_BYTES = 2 * (HEADER_BYTES + 22 + 2) + HEADER_BYTES
"""Of a ping and its answer, each two bytes in a TLS record, and of the segment that acknowledges the answer."""

_LEVEL = """
[[sensor]]
name = "tide"
kind = "exec"
command = ["/bin/sh", "-c", "while sleep 60; do echo '{\\"n\\":\\"level\\",\\"u\\":\\"m\\",\\"v\\":2.5}'; done"]
"""


@dataclass(frozen=True, slots=True)
class _Setting:
    """A device to measure."""

    words: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    sensors: str = ""


_SETTINGS = {
    "idle, defaults": _Setting(("--no-sensors",)),
    "host sensors every 10 s, batches of 1 min (defaults)": _Setting(),
    "host sensors every 10 s, batches of 5 min": _Setting(options={"telemetry.batch_seconds": "300"}),
    "host sensors every 60 s, batches of 1 h": _Setting(
        options={"telemetry.batch_seconds": "3600", "sensors.interval_seconds": "60"}
    ),
    "one sensor every 60 s, each reading at once": _Setting(
        options={"telemetry.batch_seconds": "0.1", "sensors.enabled": "false"}, sensors=_LEVEL
    ),
}


def main() -> None:
    """Print the table."""
    with TemporaryDirectory(dir="/var/tmp") as folder:  # on a disk: /tmp may be memory
        place = Path(folder)
        chain, key = certificate(place / "tls")
        with Broker(place / "broker") as broker:
            collector = Device(place, "collector")
            collector.set_up(broker)
            collector.ok("config", "set", "vault.location", str(place / "vault"))
            collector.ok("group", "create", "--capability", "collector")
            collector.start("collect", "--no-sensors")
            devices: dict[str, tuple[Device, Meter]] = {}
            try:
                for number, name in enumerate(_SETTINGS):
                    device, meter = Device(place, f"device-{number}"), Meter(broker.port, chain, key)
                    devices[name] = device, meter
                    _start(device, meter, broker, chain, collector, _SETTINGS[name])
                _measure(devices, collector)
            finally:
                for device, meter in devices.values():
                    device.end()
                    meter.close()
                collector.end()


def _start(device: Device, meter: Meter, broker: Broker, chain: Path, collector: Device, setting: _Setting) -> None:
    device.set_up()
    password = broker.add_device(device.account)
    words = ["--ca-file", str(chain), "--password-file", "-"]
    device.ok("relay", "set", meter.url, *words, feed=password)
    for option, value in setting.options.items():
        device.ok("config", "set", option, value)
    if setting.sensors:
        configuration = device.state / "config.toml"
        configuration.write_text(configuration.read_text() + setting.sensors)
    device.ok("join", "-", feed=collector.ok("invite", "--no-wait"))
    device.start("run", *setting.words)


def _measure(devices: Mapping[str, tuple[Device, Meter]], collector: Device) -> None:
    settle(_SETTLE_S)
    before = {name: (meter.traffic(), device.ledger().published) for name, (device, meter) in devices.items()}
    processes = {name: device.pid for name, (device, _) in devices.items()} | {"the collector of all": collector.pid}
    writes = {name: ProcessWrites(Path(f"/proc/{process}/io")) for name, process in processes.items()}
    for written in writes.values():
        written.note(written.unnoted() or 0)
    measured_s = settle(_MEASURE_S)
    print(f"bytes between device and relay, both directions, measured for {measured_s / 60:,.0f} min\n")
    print("| Device | kB a day | Readings | Bytes per reading |\n|---|---|---|---|")  # as docs/how-to/metered.md has it
    found: dict[str, Traffic] = {}
    for name, (device, meter) in devices.items():
        traffic_before, readings_before = before[name]
        found[name] = traffic = meter.traffic().since(traffic_before)
        readings = device.ledger().published - readings_before
        each = f"{traffic.total / readings:,.1f}" if readings else ""
        print(f"| {name} | {_a_day(traffic.total, measured_s)} | {readings:,} | {each} |")
    print("\n| Device | MB written to storage a day |\n|---|---|")  # as docs/how-to/upkeep.md has it
    for name, written in writes.items():
        print(f"| {name} | {(written.unnoted() or 0) * _DAY_S / measured_s / 1e6:,.1f} |")
    pings = _DAY_S // KEEPALIVE_S
    floor = f"{pings:,} pings of {_PING_BYTES} B, {pings * _PING_BYTES / 1_000:,.0f} kB a day"
    print(f"\nfloor of an idle connection: {floor}")
    print("\nthe split, kB a day (number of MQTT packets in the time measured)")
    kinds = ("publish up", "publish down", "puback", "ping", "subscribe", "connect")
    print(f"{'setting':<54} {'TCP/IP':>7} {'TLS':>7} " + " ".join(f"{kind:>14}" for kind in kinds))
    for name, traffic in found.items():
        cells = (f"{_a_day(traffic.packets[kind], measured_s)} ({traffic.counts[kind]})" for kind in kinds)
        headers, tls = (_a_day(size, measured_s) for size in (traffic.headers, traffic.tls))
        print(f"{name:<54} {headers:>7} {tls:>7} " + " ".join(f"{cell:>14}" for cell in cells))


def _a_day(size: int, measured_s: float) -> str:
    return f"{size * _DAY_S / measured_s / 1_000:,.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.messages.link", description=__doc__)
    parser.add_argument("--settle", type=float, default=_SETTLE_S, help="seconds before the measurement")
    parser.add_argument("--measure", type=float, default=_MEASURE_S, help="seconds of the measurement")
    options = parser.parse_args()
    _SETTLE_S, _MEASURE_S = options.settle, options.measure
    main()
