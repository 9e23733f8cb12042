"""A file from one agent to another through a broker on this machine, against paho that streams the same bytes.

Ours is sealed and signed part by part, each chunk is verified and on the disk before the next one counts, and asked for
portion by portion; the peer publishes messages of the same size at QoS 1 to a subscriber that appends to a file.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.processes import await_ready, feed, go, start
from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.app.content.content import fetch_file
from covey.app.content.file_offers import GroupFile, pick_offer
from covey.app.content.offering import put_file
from covey.app.device.device import Device as OpenDevice
from covey.app.device.device import open_device
from covey.core.group.manifest import GroupManifest
from covey.errors import LocalError
from covey.limits.content import CHUNK_BYTES
from demo.device import Device

_SIZE = 30_000_000
_ROUNDS = 5
_PATIENCE_S = 300.0


def main() -> None:
    """Measure and print."""
    ours, peers, sealed, memory = [], [], [], 0
    with TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker, _pair(Path(folder), broker) as pair:
        for number in range(_ROUNDS):
            original = Path(folder) / f"file-{number}"
            original.write_bytes(random.Random(number).randbytes(_SIZE))
            sealing, fetching, more = _ours(*pair, original)
            sealed.append(sealing)
            ours.append(fetching)
            memory = max(memory, more)
            peers.append(_peer(broker, number, Path(folder)))
    ratios = [peer / own for own, peer in zip(ours, peers, strict=True)]
    print(f"a file of {_SIZE / 1e6:.1f} MB, median of {_ROUNDS}")
    print(f"seconds to seal and offer it                              {median(sealed):>10.2f}")
    print(f"MB/s from asking for it to its being here, verified       {_SIZE / 1e6 / median(ours):>10.1f}")
    print(f"MB/s, raw paho                                            {_SIZE / 1e6 / median(peers):>10.1f}")
    print(f"  ratio, median of {_ROUNDS}                                      {median(ratios):>10.2f}")
    print(f"MiB of anonymous memory more than idle, the larger agent  {memory / 2**20:>10.1f}")


@contextmanager
def _pair(folder: Path, broker: Broker) -> Iterator[tuple[Device, Device]]:
    devices = Device(folder, "hub"), Device(folder, "shed")
    try:
        for each in devices:
            each.set_up(broker)
        devices[0].ok("group", "create")
        devices[0].start("run", "--no-sensors")
        devices[1].ok("join", "-", feed=devices[0].ok("invite", "--no-wait"))
        devices[1].start("run", "--no-sensors")
        yield devices
    finally:
        for each in devices:
            each.end()


def _ours(hub: Device, shed: Device, original: Path) -> tuple[float, float, int]:
    """Return the seconds to seal, the seconds to fetch, and the bytes of memory that the agents took beyond idle."""
    with open_device(StateFolder.at(hub.state)) as device:
        begin = time.perf_counter()
        put_file(device, device.pick_group(None), original, None, lambda _: None)
        sealing = time.perf_counter() - begin
    with open_device(StateFolder.at(shed.state)) as device:
        manifest = device.pick_group(None)
        offer = offered(device, manifest, original.name)
        idle, most = [_anonymous(each) for each in (hub, shed)], 0

        def look(_come: int) -> None:
            nonlocal most
            now = [_anonymous(each) for each in (hub, shed)]
            most = max(most, *(later - earlier for later, earlier in zip(now, idle, strict=True)))

        begin = time.perf_counter()
        fetch_file(device, manifest, offer, _PATIENCE_S, look)
        return sealing, time.perf_counter() - begin, most


def _anonymous(device: Device) -> int:
    """Return the bytes of an agent's memory that no file stands behind."""
    for line in Path(f"/proc/{device.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel tells nothing of a process's memory")


def _peer(broker: Broker, number: int, folder: Path) -> float:
    names = [f"{number:02}{role}{'0' * 29}" for role in "ab"]
    passwords = [broker.add_device(name) for name in names]
    count, topic = -(-_SIZE // CHUNK_BYTES), f"covey/1/in/{names[1]}"
    words = ("subscribe", str(broker.port), names[1], topic, str(count), str(folder / f"peer-{number}"), "0")
    subscriber = start("bench.messages.raw_paho", *words)
    feed(subscriber, passwords[1])
    await_ready(subscriber)
    publisher = start(
        "bench.messages.raw_paho", "publish", str(broker.port), names[0], topic, str(count), str(CHUNK_BYTES)
    )
    feed(publisher, passwords[0])
    return go([publisher, subscriber], ready=1)


def offered(device: OpenDevice, manifest: GroupManifest, name: str) -> GroupFile:
    """Wait until a file is offered at a device, and return it."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        device.node.refresh()
        try:
            return pick_offer(device, manifest, name)
        except LocalError:
            time.sleep(0.05)
    raise TimeoutError("the file is not offered at the other device")


if __name__ == "__main__":
    main()
