"""One collector and many devices: thousands that share a process and a connection, one broker, one vault.

    python -m bench.messages.collector [--devices N] [--every S] [--seconds S] [--readings N] [--warm N]
                                       [--kill-every S] [--backlog N]

Each device says a message every so many seconds, signed, and sealed for the collector, and keeps it until the collector
has acknowledged it. Groups have 999 devices and the collector. A message counts from when it is due, so that a device
that is late itself makes no figure better. What landed is counted in the vault at the end.

CPU is of the collector's process, and of a raw paho subscriber that appends as many bytes a message to a file: the
broker feeds it as fast as it takes them, afterwards in the same run. Where the machine has no core for each of
collector, broker and devices, CPU for a message is the figure that means something, and the rates follow from it.

A collector answers a device under a link key of its own from the ninth time on, and gives that key with a sealed
message: so a fleet costs most in its first minutes. With `--warm 9` this lies before what is measured, as in all but
the first of many hours.

With `--kill-every`, collector and broker are killed in turn and started again at once; latencies are then told without
what was made from 10 s before a kill to 30 s after it.

With `--backlog`, each device has so many messages from before, and they come back one after the other within a minute:
latencies are then told of what they make once they are back, and the backlog by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.messages.collector_devices import Orders, Outcome
from bench.messages.collector_speakers import speaker_member
from bench.processes import await_ready, feed, start
from broker_conf.mosquitto.broker import Broker
from covey.adapters.keys.vault_key_file import read_vault_keys
from covey.adapters.objects.folder import DirectoryStore
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device
from covey.app.groups.groups import create_group
from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import EpochId, NodeId
from covey.core.vault.documents import open_segment
from covey.core.vault.keys import KeyRing
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.reading import Floor, Trouble, VaultReader
from covey.core.wire.message import MessageType, read_message
from demo.device import Device

_DEVICES, _A_GROUP = 2_000, 999
_EVERY_S, _SECONDS, _READINGS = 4.0, 30.0, 100
_DRAINS_S = 300.0
_PROCESSES = 2
_PAHO = 20_000
_BEFORE_KILL_S, _AFTER_KILL_S = 10.0, 30.0
_LOOK_S = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Load:
    """How much is said: each device a message every so many seconds, for so long."""

    devices: int
    every_s: float
    seconds: float
    readings: int
    warm: int = 0
    kill_every_s: float | None = None
    backlog: int = 0


class _Used:
    """CPU and memory of a process that may restart, sampled from time to time."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.highest_mib = 0.0
        self.before_s = 0.0
        self._pid = 0

    def look(self, pid: int) -> None:
        """Add what a process has used since the last look."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        used_s = (int(fields[11]) + int(fields[12])) / _TICKS
        self.cpu_s += used_s - (self.before_s if pid == self._pid else 0.0)
        self._pid, self.before_s = pid, used_s
        self.highest_mib = max(self.highest_mib, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20)

    def begin(self, pid: int) -> None:
        """Count from now on."""
        self.look(pid)
        self.cpu_s = 0.0


class _Site:
    """A broker, a collector with its groups, and the processes that speak for the devices."""

    def __init__(self, folder: Path, load: Load) -> None:
        self._folder, self._load = folder, load
        acl = folder / "acl"
        self._names = [f"{number:02}e{'0' * 29}" for number in range(_PROCESSES)]
        committed = (Path(__file__).parents[2] / "broker_conf" / "mosquitto" / "acl").read_text()
        acl.write_text(committed + "".join(f"\nuser {name}\ntopic readwrite covey/1/in/#\n" for name in self._names))
        self.broker = Broker(folder / "broker", settings={"acl_file": str(acl)})
        self.broker.start()
        self.collector = Device(folder, "collector")
        self.collector.set_up(self.broker)
        self.collector.ok("vault", "init")
        self._group_ids = list(self._make_groups())
        self.start_collector()
        self._processes: list[subprocess.Popen[str]] = []

    def start_collector(self) -> None:
        """Start the collector; it measures nothing itself."""
        self.collector.start("collect", "--no-sensors")

    def _make_groups(self) -> Iterator[str]:
        state = StateFolder.at(self.collector.state)
        with open_device(state) as device:
            for first in range(0, self._load.devices, _A_GROUP):
                group = create_group(device, ("collector",), "admin-invites")
                members = [speaker_member(place) for place in range(first, min(first + _A_GROUP, self._load.devices))]
                with device.store.transaction():
                    device.node.actions.change(group.group_id, partial(_adding, members), device.now())
                    for member in members:
                        device.store.outbox.forget(member.keys.signing_public)
                yield group.group_id.hex()

    def start_devices(self) -> None:
        """Start the speakers; return when the collector has a link key of each."""
        share = -(-self._load.devices // _PROCESSES)
        for number, name in enumerate(self._names):
            first = number * share
            orders = Orders(
                port=self.broker.port,
                username=name,
                password=self.broker.add_device(name),
                collector=self.collector.author,
                collector_noise=self.collector.noise_public,
                group_ids=self._group_ids,
                first=first,
                count=min(share, self._load.devices - first),
                a_group=_A_GROUP,
                readings=self._load.readings,
                a_second=self._load.devices / self._load.every_s / _PROCESSES,
                seconds=self._load.seconds,
                drains_s=_DRAINS_S,
                warm=self._load.warm,
                backlog=self._load.backlog,
                file=str(self._folder / f"times-{number}"),
            )
            process = start("bench.messages.collector_devices")
            feed(process, json.dumps(asdict(orders)))
            self._processes.append(process)
        for process in self._processes:
            await_ready(process)

    def run(self, used: _Used, broker_used: _Used) -> tuple[list[Outcome], list[float]]:
        """Let the speakers send; return the results, and the times of kills."""
        kills: list[float] = []
        used.begin(self.collector.pid)
        broker_used.begin(self.broker.pid or 0)
        for process in self._processes:
            feed(process, "")
        ended = threading.Event()
        looks = threading.Thread(target=self._look, args=(used, broker_used, ended))
        looks.start()
        began_s = time.monotonic()
        while self._load.kill_every_s and time.monotonic() - began_s < self._load.seconds - self._load.kill_every_s:
            time.sleep(self._load.kill_every_s)
            kills.append(time.monotonic())
            if len(kills) % 2:
                self.collector.kill()
                self.start_collector()
            else:
                self.broker.kill()
                self.broker.start()
        outcomes = []
        for process in self._processes:
            assert process.stdout is not None
            outcomes.append(Outcome(**json.loads(process.stdout.readline())))
            process.wait()
        ended.set()
        looks.join()
        return outcomes, kills

    def _look(self, used: _Used, broker_used: _Used, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_S):
            try:
                used.look(self.collector.pid)
            except AssertionError:
                continue  # it is being started
            broker_used.look(self.broker.pid or 0)

    def times(self) -> Iterator[tuple[float, float]]:
        """Yield when each acknowledged message was made, and when it was acknowledged."""
        for number in range(_PROCESSES):
            found = array("d", (self._folder / f"times-{number}").read_bytes())
            yield from zip(found[::2], found[1::2], strict=True)

    def landed(self) -> Counter[tuple[bytes, int]]:
        """Count how often each (author, seq) of telemetry lies in the vault, once the collector has ended."""
        self.collector.end()
        reader = VaultReader(
            DirectoryStore(self.collector.state / "vault"),
            KeyRing(read_vault_keys(self.collector.state / "vault.key").keys),
        )
        found: Counter[tuple[bytes, int]] = Counter()
        for node in reader.nodes():
            manifest = reader.manifest(node, Floor())
            assert not isinstance(manifest, Trouble)
            entries = reader.entries(node, manifest, 1, manifest.last_number)
            assert not isinstance(entries, Trouble)
            for entry in entries:
                content = reader.segment(node, entry)
                assert content is not None
                for record in open_segment(reader.key_for(node, content), NodeId(bytes.fromhex(node)), entry, content):
                    if record_kind(record.message) is not RecordKind.MESSAGE:
                        continue
                    message = read_message(record.message, verify=False)
                    if message.type is MessageType.TELEMETRY:
                        found[message.author, message.seq] += 1
        return found

    def paho(self, size: int) -> tuple[float, float]:
        """Return (CPU seconds for a message, highest MiB) of a raw paho subscriber on the same broker."""
        names = [f"{number}f{'0' * 30}" for number in range(2)]
        passwords = self.broker.add_devices(names)
        topic, port = f"covey/1/in/{names[1]}", str(self.broker.port)
        words = [port, names[1], topic, str(_PAHO), str(self._folder / "sink"), "0"]
        subscriber = start("bench.messages.raw_paho", "subscribe", *words)
        feed(subscriber, passwords[1])
        await_ready(subscriber)
        used = _Used()
        used.begin(subscriber.pid)
        before_s = used.before_s
        publisher = start("bench.messages.raw_paho", "publish", port, names[0], topic, str(_PAHO), str(size))
        feed(publisher, passwords[0])
        await_ready(publisher)
        feed(publisher, "")
        publisher.wait()
        _, status, spent = os.wait4(subscriber.pid, 0)
        subscriber.returncode = os.waitstatus_to_exitcode(status)
        return (spent.ru_utime + spent.ru_stime - before_s) / _PAHO, spent.ru_maxrss / 1024

    def close(self) -> None:
        """End every process."""
        for process in self._processes:
            process.kill()
            process.wait()
        self.collector.end()
        self.broker.stop()


def _adding(members: list[Member], draft: GroupManifest, _: EpochId) -> GroupManifest:
    for member in members:
        draft = draft.adding(member)
    return draft


def main() -> None:
    """Measure what a look of half a minute shows."""
    measure(Load(_DEVICES, _EVERY_S, _SECONDS, _READINGS))


def measure(load: Load) -> None:
    """Run and print."""
    with TemporaryDirectory() as folder:
        site = _Site(Path(folder), load)
        try:
            site.start_devices()
            used, broker_used = _Used(), _Used()
            outcomes, kills = site.run(used, broker_used)
            waits = sorted(
                acknowledged_s - made_s
                for made_s, acknowledged_s in site.times()
                if not any(kill - _BEFORE_KILL_S <= made_s <= kill + _AFTER_KILL_S for kill in kills)
            )
            landed = site.landed()
            paho_s, paho_mib = site.paho(outcomes[0].envelope_bytes)
        finally:
            site.close()
    _print(load, outcomes, waits, landed, len(kills))
    said = sum(each.said for each in outcomes)
    ours_s, its_s = used.cpu_s / said, broker_used.cpu_s / said
    print(f"CPU for a message, us: collector                 {1e6 * ours_s:>10.0f}")
    print(f"  broker                                         {1e6 * its_s:>10.0f}")
    print(f"  a raw paho subscriber that writes to a file    {1e6 * paho_s:>10.0f}")
    print(f"messages/s of one core: collector                {1 / ours_s:>10,.0f}")
    print(f"  raw paho subscriber                            {1 / paho_s:>10,.0f}")
    print(f"  ratio                                          {paho_s / ours_s:>10.2f}")
    print(f"highest MiB RSS: collector                       {used.highest_mib:>10.0f}")
    print(f"  raw paho subscriber                            {paho_mib:>10.0f}")


def _print(
    load: Load, outcomes: list[Outcome], waits: list[float], landed: Counter[tuple[bytes, int]], kills: int
) -> None:
    counted = ((it.said, it.acknowledged, it.warmed) for it in outcomes)
    said, acknowledged, warmed = (sum(column) for column in zip(*counted, strict=True))
    groups = -(-load.devices // _A_GROUP)
    print(f"{load.devices:,} devices in {groups} groups, a message of {load.readings} readings each {load.every_s:g} s")
    if load.backlog:
        print(f"backlog: messages of each device                 {load.backlog:>10,}")
        print(f"  acknowledged after, s                          {max(it.drained_s for it in outcomes):>10.1f}")
    print(f"seconds / kills of collector and broker          {load.seconds:>10g} / {kills}")
    print(f"messages/s that were due                         {load.devices / load.every_s:>10,.0f}")
    due = int(load.devices / load.every_s * load.seconds) + load.backlog * load.devices
    print(f"messages: due                                    {due:>10,}")
    print(f"  said / acknowledged                            {said:>10,} / {acknowledged:,}")
    print(f"  in the vault                                   {len(landed) - warmed:>10,}")
    print(f"  lost: said, and not there                      {said + warmed - len(landed):>10,}")
    print(f"  doubled: there more than once                  {sum(each > 1 for each in landed.values()):>10,}")
    print(f"  envelopes repeated                             {sum(each.repeated for each in outcomes):>10,}")
    print(f"until acknowledged, s: p50                       {waits[len(waits) // 2]:>10.2f}")
    print(f"  p99                                            {waits[len(waits) * 99 // 100]:>10.2f}")
    print(f"  longest                                        {waits[-1]:>10.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.messages.collector", description=__doc__)
    parser.add_argument("--devices", type=int, default=_DEVICES)
    parser.add_argument("--every", type=float, default=_EVERY_S, help="seconds between two messages of a device")
    parser.add_argument("--seconds", type=float, default=_SECONDS)
    parser.add_argument("--readings", type=int, default=_READINGS)
    parser.add_argument("--warm", type=int, default=0, help="messages that each device says before it counts")
    parser.add_argument("--kill-every", type=float, default=None, help="seconds between two kills")
    parser.add_argument("--backlog", type=int, default=0, help="messages of each device from before")
    options = parser.parse_args()
    measure(
        Load(
            devices=options.devices,
            every_s=options.every,
            seconds=options.seconds,
            readings=options.readings,
            warm=options.warm,
            kill_every_s=options.kill_every,
            backlog=options.backlog,
        )
    )
