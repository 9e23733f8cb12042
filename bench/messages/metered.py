"""What a metered link carries a day: Covey by its settings, next to a bridge of mosquitto and to paho, by one counter.

Each device lives in a network namespace of its own, and a line (`bench.network`) is its only way to the relay's. The
kernel's counters of that line say what it has cost: everything of IP, in both directions, with TLS 1.3 and without.
Covey's devices, the bridge and paho carry the same series of this host, sampled every ten seconds. The bridge is
mosquitto's with QoS 1, a session that lasts and a keep-alive of a minute; paho publishes at QoS 1.

The programs' clock (`bench.clock`) is faster than real time: twice where connections stay open, and more where none
does and before a measurement. A collector that has not stored a batch after five seconds of that clock gets it again,
so a busy machine shows more than a day would cost. Devices that stay connected are measured for ten minutes, after more
than an hour in which they agree on link keys and compare groups more often; those with a budget or windows for a day of
UTC, and others than Covey for ten minutes. The line may have a delay, loss and a rate, in terms of that clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.clock import Clock, compiles
from bench.messages.link_meter import certificate
from bench.network import RELAY_ADDRESS, Count, Line, Namespace, RelayNamespace, Shape, refusal
from bench.processes import await_ready, feed
from broker_conf.mosquitto.broker import Broker, find_mosquitto
from demo.device import Device

_SETTLE_S, _MEASURE_S = 3_900.0, 600.0
"""Of devices that stay connected: until groups are compared only once an hour, and two batches of five minutes."""
_WINDOWS_S = 86_400.0
_OTHERS_S = 600.0
_BEFORE_MIDNIGHT_S = 900.0
"""For the set-up at the pace of real time."""
_SETTLING, _CONNECTED, _RESTING, _ACTIVE = 60.0, 2.0, 250.0, 2.0
"""Seconds of the clock per second: before the measurement, where connections stay open, where none does, and while a
line carries something that mostly carries nothing."""
_QUIET_S = 3.0
"""Real time after such a line's last packet: a device that rests hangs up after six quiet seconds."""
_LOOK_S = 0.002
_NICE = -10
"""Of the programs: on a busy machine, what takes a moment takes seconds by a fast clock, and is tried again."""
_DAY_S = 86_400
_EVERY_S = 10
_FIRST_PORT = 1_883
_SHORT_S = {"_SETTLE_S": 60.0, "_MEASURE_S": 120.0, "_WINDOWS_S": 3_600.0, "_OTHERS_S": 30.0}
"""With `--short`: too little for what happens once an hour, and for windows."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """A device of Covey's: its options, and whether it has the host's sensors."""

    options: Mapping[str, str] = field(default_factory=dict)
    sensors: bool = True


_STAY = {
    "Covey, batches of 1 min (defaults)": _Setting(),
    "Covey, batches of 5 min": _Setting({"telemetry.batch_seconds": "300"}),
    "Covey, idle, defaults": _Setting(sensors=False),
}
_REST = {
    "Covey, idle, a budget of 20 kB a day": _Setting({"link.budget": "20 kB/day"}, sensors=False),
    "Covey, idle, one connection a day": _Setting({"link.connect": "at 02:00"}, sensors=False),
}


@dataclass(frozen=True, slots=True)
class _Other:
    """Another system: seconds between samples (0: idle) and of a batch (0: none), and whether a bridge carries it."""

    every_s: int = _EVERY_S
    batch_s: int = 0
    bridge: bool = False


_OTHERS = {
    "mosquitto bridge, a JSON for each reading": _Other(bridge=True),
    "mosquitto bridge, idle": _Other(0, bridge=True),
    "paho, a JSON for each reading": _Other(),
    "paho, zlib JSON of 1 min": _Other(batch_s=60),
    "paho, zlib JSON of 5 min": _Other(batch_s=300),
    "paho, idle": _Other(0),
}


@dataclass(frozen=True, slots=True)
class _Row:
    """What one line has carried."""

    setting: str
    tls: bool
    seconds: float
    bytes: int
    packets: int
    readings: int

    @property
    def bytes_a_day(self) -> float:
        """What a day costs at this pace."""
        return self.bytes * _DAY_S / self.seconds


class _Stage:
    """A relay's namespace, the lines that lead to it, and the clock of all programs there."""

    def __init__(self, place: Path, shape: Shape, *, tls: bool, wall: float | None = None) -> None:
        place.mkdir(parents=True)
        self.place, self.tls = place, tls
        self.clock = Clock(place, wall=wall)
        self.relay = RelayNamespace()
        self.chain, self.key = certificate(place / "certificate", RELAY_ADDRESS)
        self.lines: dict[str, Line] = {}
        self._shape = shape.faster(_CONNECTED)

    def lay(self, name: str) -> Line:
        """Lay a line for a device."""
        self.lines[name] = Line(self.relay, len(self.lines), self._shape)
        return self.lines[name]

    def live(self, seconds: float, speed: float) -> None:
        """Let time pass; what is faster than where connections stay open, is so only while the lines carry nothing."""
        until = self.clock.monotonic() + seconds
        before, slow_until = 0, 0.0
        quiet_s = _QUIET_S if speed == _RESTING else 0.0
        while self.clock.monotonic() < until:
            now = sum(line.count().packets for line in self.lines.values())
            if now != before:
                before, slow_until = now, time.monotonic() + quiet_s
            wanted = _ACTIVE if speed > _CONNECTED and time.monotonic() < slow_until else speed
            if self.clock.speed != wanted:
                self.clock.run(wanted)
            time.sleep(_LOOK_S)

    def measure(self, seconds: float, speed: float, readings: Callable[[str], int]) -> list[_Row]:
        """Let time pass; return what each line has carried meanwhile."""
        names = list(self.lines)
        before: dict[str, tuple[Count, int]] = {name: (self.lines[name].count(), readings(name)) for name in names}
        began = self.clock.monotonic()
        self.live(seconds, speed)
        took = self.clock.monotonic() - began
        spent = {name: self.lines[name].count().since(before[name][0]) for name in names}
        self.clock.run(1.0)
        return [
            _Row(name, self.tls, took, spent[name].size, spent[name].packets, readings(name) - before[name][1])
            for name in names
        ]

    def close(self) -> None:
        """Take the lines away."""
        for line in self.lines.values():
            line.close()
        self.relay.close()


def _covey(stage: _Stage, settings: Mapping[str, _Setting], begin: float, seconds: float) -> list[_Row]:
    """Measure devices of Covey's for so many seconds, from a time of the wall clock on."""
    rest = settings is _REST
    pair = (stage.chain, stage.key) if stage.tls else None
    environment = stage.clock.environment
    devices: dict[str, Device] = {}
    with ExitStack() as stack:
        stack.callback(stage.close)
        with stage.relay.entered():
            broker = Broker(stage.place / "broker", certificate=pair, address=RELAY_ADDRESS, environment=environment)
            stack.enter_context(broker)
            collector = Device(stage.place, "collector", environment)
            stack.callback(collector.end)
            collector.set_up()
            _connect(collector, broker, stage)
            collector.ok("config", "set", "vault.location", str(stage.place / "vault"))
            collector.ok("group", "create", "--capability", "collector")
            collector.start("collect", "--no-sensors")
        for name, setting in settings.items():
            devices[name] = device = Device(stage.place, f"device-{len(devices)}", environment)
            stack.callback(device.end)
            device.set_up()
            with stage.lay(name).device.entered():
                _connect(device, broker, stage)
                device.ok("join", "-", feed=collector.ok("invite", "--no-wait"))
                for option, value in setting.options.items():
                    device.ok("config", "set", option, value)
                device.start("run", *([] if setting.sensors else ["--no-sensors"]))

        stage.live(begin - stage.clock.wall(), _RESTING if rest else _SETTLING)
        return stage.measure(seconds, _RESTING if rest else _CONNECTED, lambda name: devices[name].ledger().published)


def _connect(device: Device, broker: Broker, stage: _Stage) -> None:
    words = ["--ca-file", str(stage.chain)] if stage.tls else []
    password = broker.add_device(device.account)
    device.ok("relay", "set", broker.url, *words, "--password-file", "-", feed=password)


def _others(stage: _Stage, seconds: float) -> list[_Row]:
    """Measure the others, each with a broker of its own at the relay's place."""
    counters: dict[str, subprocess.Popen[str]] = {}

    def arrived(name: str) -> int:
        feed(counters[name], "")
        said = counters[name].stdout
        assert said is not None
        return int(said.readline())

    with ExitStack() as stack:
        stack.callback(stage.close)
        for number, (name, other) in enumerate(_OTHERS.items()):
            folder = stage.place / str(number)
            folder.mkdir()
            port = _FIRST_PORT + number
            tls = [f"certfile {stage.chain}", f"keyfile {stage.key}", "tls_version tlsv1.3"] if stage.tls else []
            hub = [f"listener {port} {RELAY_ADDRESS}", *tls, f"listener {port + 100} 127.0.0.1"]
            counting = ["count", str(port + 100)]
            stack.enter_context(_mosquitto(stage, stage.relay, folder / "hub", hub, port))
            counters[name] = stack.enter_context(_program(stage, stage.relay, counting))
            device = stage.lay(name).device
            to = [RELAY_ADDRESS, str(port), str(stage.chain) if stage.tls else "-"]
            if other.bridge:
                edge = [f"listener {_FIRST_PORT} 127.0.0.1", *_bridge(stage, port)]
                stack.enter_context(_mosquitto(stage, device, folder / "edge", edge, _FIRST_PORT))
                to = ["127.0.0.1", str(_FIRST_PORT), "-"]
            words = ["publish", *to, str(other.every_s), str(other.batch_s)]
            stack.enter_context(_program(stage, device, words))
        stage.live(60.0, _CONNECTED)
        return stage.measure(seconds, _CONNECTED, arrived)


def _bridge(stage: _Stage, port: int) -> list[str]:
    return [
        "connection hub",
        f"address {RELAY_ADDRESS}:{port}",
        *([f"bridge_cafile {stage.chain}", "bridge_tls_version tlsv1.3"] if stage.tls else []),
        "bridge_protocol_version mqttv311",
        "cleansession false",
        "notifications false",
        "keepalive_interval 60",
        "restart_timeout 1",
        "topic # out 1",
    ]


@contextmanager
def _mosquitto(stage: _Stage, where: Namespace, folder: Path, lines: Sequence[str], port: int) -> Iterator[None]:
    folder.mkdir()
    file = folder / "mosquitto.conf"
    general = ["user root", "allow_anonymous true", "set_tcp_nodelay true", f"persistence_location {folder}/"]
    file.write_text("\n".join([*lines[:1], *general, *lines[1:], ""]))
    command, environment = find_mosquitto()
    with where.entered(), (folder / "log").open("wb") as log:
        words = [str(command), "-c", str(file)]
        process = subprocess.Popen(words, env={**environment, **stage.clock.environment}, stdout=log, stderr=log)
        while (
            f"listen socket on port {port}" not in (folder / "log").read_text()
            or "running" not in (folder / "log").read_text()
        ):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(_LOOK_S)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _program(stage: _Stage, where: Namespace, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with where.entered():
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.messages.metered_peer", *words],
            env={**find_mosquitto()[1], **stage.clock.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    await_ready(process)
    try:
        yield process
    finally:
        process.communicate()


def _measure(place: Path, shape: Shape, kinds: Sequence[bool]) -> list[_Row]:
    midnight = ((time.time() + _BEFORE_MIDNIGHT_S) // _DAY_S + 1) * _DAY_S  # the certificate is valid from now on

    def stay(tls: bool) -> list[_Row]:
        stage = _Stage(place / f"stay-{tls}", shape, tls=tls)
        return _covey(stage, _STAY, stage.clock.wall() + _SETTLE_S, _MEASURE_S)

    def rest(tls: bool) -> list[_Row]:
        stage = _Stage(place / f"rest-{tls}", shape, tls=tls, wall=midnight - _BEFORE_MIDNIGHT_S)
        return _covey(stage, _REST, midnight, _WINDOWS_S)

    def others(tls: bool) -> list[_Row]:
        return _others(_Stage(place / f"others-{tls}", shape, tls=tls), _OTHERS_S)

    with ThreadPoolExecutor() as threads:
        begun = [threads.submit(kind, tls) for kind in (stay, rest, others) for tls in kinds]
        rows = [row for each in begun for row in each.result()]
    order = [*_STAY, *_REST, *_OTHERS]
    return sorted(rows, key=lambda row: (order.index(row.setting), row.tls))


def main(*, short: bool = False, as_json: bool = False, shape: Shape | None = None) -> int:
    """Print the table."""
    if not compiles() or (refused := refusal()):
        print(f"error: {'no C compiler' if not compiles() else refused}", file=sys.stderr)
        print("hint: this needs a C compiler, root, and a kernel with network namespaces and veth", file=sys.stderr)
        return 2
    if short:
        globals().update(_SHORT_S)
    shape = shape or Shape()
    os.nice(_NICE - os.nice(0))
    began = time.monotonic()
    with TemporaryDirectory(dir="/var/tmp") as folder:  # on a disk: /tmp may be memory
        rows = _measure(Path(folder), shape, (True,) if short else (False, True))
    if as_json:
        print(
            json.dumps(
                {"line": asdict(shape), "rows": [asdict(row) | {"bytes_a_day": row.bytes_a_day} for row in rows]}
            )
        )
        return 0
    if shape:
        print(f"line: {shape.delay_ms:g} ms each way, {shape.loss_percent:g} % lost, {shape.rate_kbit_s:g} kbit/s")
    print(
        f"all bytes of IP, both directions, by the kernel's counters; took {(time.monotonic() - began) / 60:.1f} min\n"
    )
    print("| Device | kB a day | Packets a day | Bytes per reading |")
    print("|---|--:|--:|--:|")
    for row in rows:
        name = f"{row.setting}, {'TLS' if row.tls else 'no TLS'}"
        each = f"{row.bytes / row.readings:,.1f}" if row.readings else ""
        print(f"| {name} | {row.bytes_a_day / 1_000:,.1f} | {row.packets * _DAY_S / row.seconds:,.0f} | {each} |")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.messages.metered", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a minute: only with TLS, and no meaningful figures a day")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS", help="milliseconds each way")
    parser.add_argument("--loss", type=float, default=0.0, metavar="PERCENT", help="lost packets, of a hundred")
    parser.add_argument("--rate", type=float, default=0.0, metavar="KBIT", help="kbit/s each way")
    options = parser.parse_args()
    sys.exit(main(short=options.short, as_json=options.json, shape=Shape(options.delay, options.loss, options.rate)))
