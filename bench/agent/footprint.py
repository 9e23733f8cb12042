"""The agent's footprint: command start, import time, idle memory, memory with a long queue, and with page and doors.

RSS and PSS are the kernel's (`/proc/PID/smaps_rollup`), the median of several looks at a running `covey run`. Doors in
are sensors of the agent's, one of each kind that opens something; the page and the doors out are processes of their
own beside it, which share its libraries, so that its PSS may fall.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from demo.device import COVEY, Device
from demo.fleet import Fleet

_AGENT = "covey.cli.main, covey.cli.commands.run, covey.app.loop.runtime, covey.adapters.mqtt.relay"
_QUEUED = 200_000
_LOOKS = 10
_LOOK_S = 0.25
_QUIET_LOOKS = 12
_PATIENCE_S = 120.0
_SENSORS = """
[[sensor]]
name = "program"
kind = "exec"
command = ["/bin/sleep", "3600"]

[[sensor]]
name = "topics"
kind = "mqtt"
url = "{url}"
user_name = "{user}"
password_file = "{password}"
topics = [{{ topic = "tele/+/SENSOR", path = "Temperature" }}]

[[sensor]]
name = "machine"
kind = "hwmon"
"""
_SENDING = """
[[door]]
name = "nowhere"
kind = "webhook"
url = "http://127.0.0.1:9/"
"""


def main(*, short: bool = False) -> None:
    """Print each figure next to its peer; with `short`, only the start and the idle agent."""
    start = [_seconds([sys.executable, "-m", "covey.cli.main", "--help"]) for _ in range(7)]
    bare = [_seconds([sys.executable, "-c", "pass"]) for _ in range(7)]
    print(f"covey --help, ms (bare interpreter {1000 * median(bare):.0f})              {1000 * median(start):>8.0f}")
    paho = [_seconds([sys.executable, "-c", "import paho.mqtt.client"]) for _ in range(5)]
    agent = [_seconds([sys.executable, "-c", f"import {_AGENT}"]) for _ in range(5)]
    print(f"import of the agent, ms (paho-mqtt alone {1000 * median(paho):.0f})       {1000 * median(agent):>8.0f}")
    with TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), agents=1)
        try:
            fleet.set_up(batch_seconds=60, interval_seconds=10)
            fleet.collector.end()
            idle_rss, idle_pss = _memory_of(fleet.agents[0])
            print(f"idle agent, MiB RSS / PSS                            {idle_rss:>8.1f} / {idle_pss:.1f}")
            if short:
                return
            peer_rss, peer_pss = _memory_of_paho(fleet)
            print(f"  a paho client that only subscribes                 {peer_rss:>8.1f} / {peer_pss:.1f}")
            _print_doors_in(fleet, idle_rss)
            _print_page_and_doors_out(fleet)
            _queue_many(fleet.agents[0])
            full_rss, full_pss = _memory_of(fleet.agents[0])
            print(f"agent with {_QUEUED:,} queued messages, MiB RSS / PSS    {full_rss:>8.1f} / {full_pss:.1f}")
            print(f"  more than empty, RSS                               {full_rss - idle_rss:>8.1f}")
        finally:
            fleet.close()


def _print_doors_in(fleet: Fleet, idle_rss: float) -> None:
    """Print what sensors add to the agent: a program, a broker's topics, and the chips of this machine."""
    agent, url = fleet.agents[0], fleet.broker.url
    password = agent.state / "topics.password"
    password.touch(mode=0o600)
    password.write_text(fleet.broker.add_device("e" * 32))
    folder = agent.state / "conf.d"
    folder.mkdir(mode=0o700)
    doors = folder / "sensors.toml"
    doors.write_text(_SENSORS.format(url=url, user="e" * 32, password=password))
    rss, pss = _memory_of(agent)
    print(f"idle agent with doors in (exec, mqtt, hwmon)         {rss:>8.1f} / {pss:.1f}")
    print(f"  more than without, RSS                             {rss - idle_rss:>8.1f}")
    doors.unlink()


def _print_page_and_doors_out(fleet: Fleet) -> None:
    """Print what page and doors out add to a collector, and what they are themselves."""
    hub = fleet.collector
    hub.start("collect", "--no-sensors")
    try:
        alone_rss, alone_pss = _settled_memory(hub.pid)
        (hub.state / "conf.d").mkdir(mode=0o700, exist_ok=True)
        (hub.state / "conf.d" / "doors.toml").write_text(_SENDING)
        commands = {"page": ("dashboard", "--listen", "127.0.0.1:0"), "doors": ("door", "run")}
        beside = {name: _start(hub, words) for name, words in commands.items()}
        try:
            found = {name: _settled_memory(process.pid) for name, process in beside.items()}
            rss, pss = _settled_memory(hub.pid)
        finally:
            for process in beside.values():
                process.kill()
                process.wait()
    finally:
        hub.end()
    print(f"idle collector                                       {alone_rss:>8.1f} / {alone_pss:.1f}")
    print(f"  with page and doors as further processes           {rss:>8.1f} / {pss:.1f}")
    for name, (own_rss, own_pss) in found.items():
        print(f"  the process of the {name:<31} {own_rss:>8.1f} / {own_pss:.1f}")


def _start(device: Device, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
    command = [*COVEY, *words, "--state", str(device.state)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _memory_of(device: Device) -> tuple[float, float]:
    device.start("run")
    try:
        return _settled_memory(device.pid)
    finally:
        device.end()


def _memory_of_paho(fleet: Fleet) -> tuple[float, float]:
    name = "f" * 32
    password = fleet.broker.add_device(name)
    words = ["subscribe", str(fleet.broker.port), name, f"covey/1/in/{name}", "1", str(fleet.folder / "nothing"), "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.messages.raw_paho", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(password + "\n")
    process.stdin.flush()
    try:
        return _settled_memory(process.pid)
    finally:
        process.kill()
        process.wait()


def _settled_memory(pid: int) -> tuple[float, float]:
    """Return (RSS, PSS) in MiB: the median of looks once the process does nothing but wait."""
    _await_quiet(pid)
    looks = []
    for _ in range(_LOOKS):
        looks.append(_memory(pid))
        time.sleep(0.2)
    return median(rss for rss, _ in looks), median(pss for _, pss in looks)


def _await_quiet(pid: int) -> None:
    """Wait until a process has slept through as many looks; on a busy machine one that has to wait is no sleeper."""
    quiet, before, deadline = 0, -1, time.monotonic() + _PATIENCE_S
    while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[10]) + int(fields[11])
        quiet = quiet + 1 if state == "S" and ticks - before <= 1 else 0
        before = ticks


def _memory(pid: int) -> tuple[float, float]:
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        fields[name] = int(value) / 1024
    return fields["Rss:"], fields["Pss:"]


def _queue_many(device: Device) -> None:
    """Fill the outbox with small telemetry messages through the public door."""
    lines = "".join(f'{{"n":"queued","u":"count","v":{number}}}\n' for number in range(_QUEUED))
    device.ok("publish", "--batch", "1", feed=lines)


if __name__ == "__main__":
    main()
