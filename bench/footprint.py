"""The agent's footprint: command start, import time, idle memory, and memory with a long queue.

RSS and PSS are the kernel's (`/proc/PID/smaps_rollup`), the median of several looks at a running `covey run`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from demo.device import Device
from demo.fleet import Fleet

_QUEUED = 200_000
_LOOKS = 10


def main() -> None:
    """Print the figures, each beside its peer."""
    start = [_seconds([sys.executable, "-m", "covey.cli.main", "--help"]) for _ in range(7)]
    bare = [_seconds([sys.executable, "-c", "pass"]) for _ in range(7)]
    print(f"covey --help, ms (bare interpreter {1000 * median(bare):.0f})              {1000 * median(start):>8.0f}")
    paho = [_seconds([sys.executable, "-c", "import paho.mqtt.client"]) for _ in range(5)]
    agent = [
        _seconds([sys.executable, "-c", "import covey.cli.cmd_run, covey.app.runtime, covey.adapters.mqtt.relay"])
        for _ in range(5)
    ]
    print(f"import of the agent, ms (paho-mqtt alone {1000 * median(paho):.0f})       {1000 * median(agent):>8.0f}")
    with TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), agents=1)
        try:
            fleet.set_up(batch_seconds=60, interval_seconds=10)
            fleet.collector.end()
            idle_rss, idle_pss = _memory_of(fleet.agents[0])
            peer_rss, peer_pss = _memory_of_paho(fleet)
            print(f"idle agent, MiB RSS / PSS                            {idle_rss:>8.1f} / {idle_pss:.1f}")
            print(f"  a paho client that only subscribes                 {peer_rss:>8.1f} / {peer_pss:.1f}")
            _queue_many(fleet.agents[0])
            full_rss, full_pss = _memory_of(fleet.agents[0])
            print(f"agent with {_QUEUED:,} queued messages, MiB RSS / PSS    {full_rss:>8.1f} / {full_pss:.1f}")
            print(f"  more than empty, RSS                               {full_rss - idle_rss:>8.1f}")
        finally:
            fleet.close()


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
    name = "f" * 64
    password = fleet.broker.add_device(name)
    words = ["subscribe", str(fleet.broker.port), name, f"covey/1/in/{name}", "1", str(fleet.folder / "nothing"), "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.raw_paho", *words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
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
    """Return (RSS, PSS) in MiB: the median of looks from three seconds after the start."""
    time.sleep(3)
    looks = []
    for _ in range(_LOOKS):
        looks.append(_memory(pid))
        time.sleep(0.2)
    return median(rss for rss, _ in looks), median(pss for _, pss in looks)


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
