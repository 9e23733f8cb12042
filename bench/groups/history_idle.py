"""What a history costs an agent while nothing happens: memory, and bytes that it has written to the disk.

Two agents that hear each other until they have nothing to say; then one of them ends, as its rounds are news, and the
other one is looked at. The peer is the same pair without a history. What is written is the kernel's `write_bytes` of
the process (proc(5)): what it has had written to storage.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from covey.app.device.device import find_state, open_device
from covey.core.history.bodies import Note
from demo.device import Device
from demo.fleet import Fleet

_OPERATIONS = 10_000
_QUIET_S = 75.0
"""Without a byte written, more than a round of heads after a start takes: then the two are in step."""
_SETTLES_S = 600.0
_PARTS_S = 30.0
_LOOKS_S = 120.0
_EVERY_S = 5.0
_PORTION = 100
_NOTE = Note("text/plain", b"pump 3 rattles again; oiled it, and ordered a bearing")


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), agents=1)
        try:
            fleet.set_up(batch_seconds=3_600, interval_seconds=3_600)
            [agent] = fleet.agents
            without = _idle(fleet, agent)
            _write(agent)
            with_it = _idle(fleet, agent)
        finally:
            fleet.close()
    print(f"an agent while nothing happens, {_LOOKS_S:.0f} s         MiB   bytes written")
    for name, (memory, written) in (("without a history", without), (f"of {_OPERATIONS:,} operations", with_it)):
        print(f"  {name:<36} {memory:>10.2f} {written:>15,}")
    print(f"  the history costs {with_it[0] - without[0]:+.2f} MiB and {with_it[1] - without[1]:+,} bytes")


def _idle(fleet: Fleet, agent: Device) -> tuple[float, int]:
    """Return the median of the memory in MiB, and the bytes that were written meanwhile."""
    agent.start("run", "--no-sensors")
    _settle(agent.pid)
    agent.end()
    agent.start("run", "--no-sensors")  # a process that has taken in nothing
    _settle(agent.pid)
    fleet.collector.end()
    time.sleep(_PARTS_S)
    before, memory = _written(agent.pid), []
    end = time.monotonic() + _LOOKS_S
    while time.monotonic() < end:
        time.sleep(_EVERY_S)
        memory.append(_memory_mib(agent.pid))
    written = _written(agent.pid) - before
    agent.end()
    fleet.start_collector()
    return median(memory), written


def _settle(pid: int) -> None:
    """Wait until an agent has written nothing for a while."""
    last, since = _written(pid), time.monotonic()
    end = since + _SETTLES_S
    while time.monotonic() < since + _QUIET_S:
        if time.monotonic() > end:
            raise TimeoutError("an agent goes on writing")
        time.sleep(1)
        if (now := _written(pid)) != last:
            last, since = now, time.monotonic()


def _write(agent: Device) -> None:
    with open_device(find_state(str(agent.state))) as device:
        group_id = device.pick_group(None).group_id
        for _ in range(_OPERATIONS // _PORTION):
            with device.store.transaction():
                for _ in range(_PORTION):
                    device.node.history.write(group_id, _NOTE, device.now())


def _written(pid: int) -> int:
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["write_bytes"])


def _memory_mib(pid: int) -> float:
    fields = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in fields if line.startswith("Rss:")) / 1024


if __name__ == "__main__":
    main()
