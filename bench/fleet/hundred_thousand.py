"""128 groups with 102,000 devices: an order for all, a bad release, and a laptop that dies after the second wave.

127 groups of the fleet and that of the operator's own devices are as many as one device can be in. Each device is the
product's core over a database of its own, woken when something comes for it; between two messages only the pages of its
database are kept that differ from those of its group. Two processes have half of the groups each, as two brokers would;
what devices would tell each other is not carried. Laptop and phone are whole state folders. Some devices sleep all the
time. What is installed is recorded in place of a program; trials, acknowledgements and results are real.

One of some devices is woken by every message. The others are woken by an order, before the laptop dies, and by the wave
that they are in, and then take all that waits for them, in one commit, as a device does that was away.
"""

from __future__ import annotations

import itertools
import os
import time
import zlib
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from covey.app.device.device import Device as Opened
from covey.app.orders.commands import give_command
from covey.app.orders.fleet import Scope, administered, shared_groups
from covey.app.orders.plans import find_plan, reported
from covey.app.orders.release_reports import Release, release
from covey.app.orders.releases import PlannedPart, begin, go_on, plan_release, read_waves, resume
from covey.core.actions.definition import ActionDefinition
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import DeviceKey, GroupId
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.core.presence.status import PeerPresence, State
from covey.core.wire.topics import inbox_topic
from covey.limits.group import MAXIMUM_MANIFEST_BYTES
from covey.limits.history import ANNOUNCE_PAUSE_US
from tests.fleet import Device, identity
from tests.operated_fleet import OperatedFleet
from tests.sealed import sealed
from tests.sim.released import Pump, become_member

_GROUPS, _DEVICES = 127, 800
_ASLEEP_EVERY = 200
"""One of so many devices sleeps."""
_BAD_EVERY = 10
"""One of so many devices cannot bear the bad release."""
_WAVES = "1,100,1%,10%,100%"
_STOP_PERCENT, _PATIENCE_US = 5, 1_000_000
"""Every device that is awake answers before the next wave is due, so a second of patience finds the silent ones."""
_PROMPT_EVERY = 20
"""One of so many devices is woken by every message."""
_BROKERS = 2
_TOGETHER = 200
"""Devices of one broker that messages are given to at a time."""
_STAY_AWAKE = 600
"""Devices of one broker that stay awake, as more may come for them soon: each needs memory."""
_AHEAD = 2
"""Deliveries that a broker has at a time: the next one waits for it."""
_DIES_AFTER = 2
_TURN_US = 250_000
"""Between two turns of a device that has something to do."""
_PAGE = 1_024
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class _Group:
    """What a broker's process is told of a group; `members` are the names of its devices, by the number of each."""

    manifests: tuple[bytes, ...]
    secret: bytes
    operations: tuple[bytes, ...]
    members: tuple[str, ...]


@dataclass(slots=True)
class _Kept:
    """A device between two messages: the pages that differ, compressed; and what runs on it."""

    pages: bytes
    version: str
    kept: str
    versions: list[str]


class _Device(Pump):
    """Has an action beside its installer."""

    def __init__(self, site: _Site, name: str, folder: Path) -> None:
        self.site = site
        super().__init__(name, folder, _pins)

    def action(self, name: str) -> ActionDefinition:
        """Return one of both."""
        return ActionDefinition(name, name, ("/bin/hello",), {}) if name == "hello" else super().action(name)

    defined = action

    def take(self, envelopes: Iterable[bytes]) -> None:
        """Take in what has come, in one commit, and do all of it that needs no answer."""
        with self.store.transaction():
            for each in envelopes:
                self.node.receive_envelope(each, self.now)
        goes_on = True
        while goes_on:
            changes = self.store.changes
            self.node.handle_deadline(self.now)
            self.maintain()
            due_us = self.actions.turn(self.node, self.now)
            is_soon = due_us is not None and due_us <= self.now.monotonic_us + _TURN_US
            goes_on = is_soon or changes != self.store.changes
            self.now = Now(self.now.monotonic_us + _TURN_US, self.now.wall_us + _TURN_US)
        self.node.make_acknowledgements_due(self.now)
        self.maintain()

    def is_busy(self, operators: frozenset[DeviceKey]) -> bool:
        """Say whether something is under way here, or waits for an operator's device that lives.

        A command that has not begun by now is of a paused release.
        """
        is_under_way = self.store.commands.begun() or self.store.installations.all()
        return bool(is_under_way) or not operators.isdisjoint(self.store.outbox.recipients())


@dataclass(slots=True)
class _Site:
    """A group in its broker's process."""

    group: GroupManifest
    secret: bytes
    words: dict[str, Operation]
    template: bytes
    folder: TemporaryDirectory[str]
    kept: dict[str, _Kept] = field(default_factory=dict)


_sites: dict[GroupId, _Site] = {}
_busy: dict[str, _Device] = {}
"""Devices with something on trial, or that wait for an answer."""
_resting: dict[str, _Device] = {}
"""Other devices that are awake, the one that was woken last at the end."""
_pins = Pins(frozenset())


def _begin_broker(operators: frozenset[DeviceKey]) -> None:
    """Begin a broker's process."""
    global _pins  # noqa: PLW0603 - of this process, once
    _pins = Pins(operators)
    patch("covey.core.group.manifest.REMEMBERED_MANIFEST_BYTES", MAXIMUM_MANIFEST_BYTES).start()


def _add_group(shared: _Group) -> None:
    """Make the state that the devices of a group have in common."""
    manifests = [read_manifest(each) for each in shared.manifests]
    operations = [read_operation(each, verify=False) for each in shared.operations]
    last = manifests[-1]
    with TemporaryDirectory(dir=_place()) as folder:
        device = Device("template", Path(folder))
        with device.store.transaction():
            for each in manifests:
                device.store.groups.save_manifest(each.group_id, each.hash, each.version, each.raw, 0)
            device.store.groups.save_secret(last.group_id, last.epoch_id, shared.secret, 0)
            for operation in operations:
                device.store.operations.add(operation, last.version, 0)
        device.stop()
        template = device.path.read_bytes()
    by_author = {each.author: each for each in operations}
    words = {name: by_author[identity(name).signing_public] for name in shared.members}
    _sites[last.group_id] = _Site(last, shared.secret, words, template, TemporaryDirectory(dir=_place()))


def _place() -> Path | None:
    return _MEMORY if _MEMORY.is_dir() else None


def _deliver(
    group_id: GroupId, post: dict[str, list[bytes]], offered: dict[str, str], operators: frozenset[DeviceKey]
) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Wake devices with what has come for them; return what they send to others, by topic, and who stays awake."""
    site, sent, busy = _sites[group_id], list[tuple[str, bytes]](), list[str]()
    for name, envelopes in post.items():
        device = _busy.pop(name, None) or _resting.pop(name, None) or _woken(site, name)
        device.offered = offered.get(name, "")
        device.take(envelopes)
        sent += [(each.topic, each.envelope) for each in device.sends()]
        if device.is_busy(operators):
            _busy[name] = device
            busy.append(name)
        else:
            _resting[name] = device
    for name in [*itertools.islice(_resting, max(0, len(_resting) - _STAY_AWAKE))]:
        _sleep(_resting.pop(name))
    return sent, busy


def _versions(version: str) -> int:
    """Return on how many devices a version ever was."""
    awake = (each.versions for each in (*_busy.values(), *_resting.values()))
    asleep = (each.versions for site in _sites.values() for each in site.kept.values())
    return sum(version in each for each in (*awake, *asleep))


def _woken(site: _Site, name: str) -> _Device:
    folder, before = Path(site.folder.name), site.kept.pop(name, None)
    path = folder / name
    if before is None:
        path.write_bytes(site.template)
        become_member(path, name, site.group, site.secret, site.words[name])
    else:
        path.write_bytes(_with_pages(site.template, zlib.decompress(before.pages)))
    device = _Device(site, name, folder)
    device.now = Now(device.now.monotonic_us, time.time_ns() // 1_000)
    if before is not None:
        device.version, device.kept, device.versions = before.version, before.kept, before.versions
    return device


def _sleep(device: _Device) -> None:
    device.stop()
    pages = zlib.compress(_differing(device.site.template, device.path.read_bytes()), 1)
    device.site.kept[device.name] = _Kept(pages, device.version, device.kept, device.versions)
    for end in ("", "-wal", "-shm"):
        device.path.with_name(f"{device.name}{end}").unlink(missing_ok=True)


def _differing(template: bytes, content: bytes) -> bytes:
    """Return the pages of a file that a template has otherwise, each after its number."""
    found = [len(content).to_bytes(8)]
    for at in range(0, len(content), _PAGE):
        page = content[at : at + _PAGE]
        if page != template[at : at + _PAGE]:
            found += [at.to_bytes(8), page]
    return b"".join(found)


def _with_pages(template: bytes, pages: bytes) -> bytes:
    size = int.from_bytes(pages[:8])
    content = bytearray(template[:size].ljust(size, b"\0"))
    for place in range(8, len(pages), 8 + _PAGE):
        at = int.from_bytes(pages[place : place + 8])
        content[at : at + _PAGE] = pages[place + 8 : place + 8 + _PAGE]
    return bytes(content)


_Post = dict[GroupId, dict[str, list[bytes]]]
_Sent = tuple[list[tuple[str, bytes]], list[str]]


@dataclass(slots=True)
class _Broker:
    """A process, what waits for its devices, and which of them are awake."""

    process: ProcessPoolExecutor
    answers: _Post = field(default_factory=dict)
    """For devices that it has just woken."""
    new: _Post = field(default_factory=dict)
    """For devices that it wakes."""
    waiting: _Post = field(default_factory=dict)
    """For devices that it does not wake."""
    woken: set[str] = field(default_factory=set)
    """Devices that it has just woken."""
    busy: set[str] = field(default_factory=set)
    """Devices that still wait for an answer."""

    def take(self, group_id: GroupId, name: str, envelope: bytes, *, wakes: bool) -> None:
        """Have an envelope wait for a device."""
        of_group = self.waiting.setdefault(group_id, {})
        if name in self.woken:
            of_group = self.answers.setdefault(group_id, {})
        elif wakes or name in self.new.get(group_id, {}):
            earlier = of_group.pop(name, [])
            of_group = self.new.setdefault(group_id, {})
            of_group.setdefault(name, []).extend(earlier)
        of_group.setdefault(name, []).append(envelope)

    def next_post(self) -> tuple[GroupId, dict[str, list[bytes]]] | None:
        """Return what is to be delivered next, in one group: to those that are awake first."""
        for post in (self.answers, self.new):
            for group_id, of_group in post.items():
                names = [*itertools.islice(of_group, _TOGETHER)]
                found = {name: of_group.pop(name) for name in names}
                self.woken.update(names)
                if not of_group:
                    del post[group_id]
                return group_id, found
        return None


class _Network:
    """The operator's devices that live, and two brokers with the others."""

    def __init__(self, fleet: OperatedFleet, stack: ExitStack) -> None:
        self.own = [stack.enter_context(fleet.open(each)) for each in (fleet.laptop, fleet.phone) if each is not None]
        self._brokers = [
            _Broker(stack.enter_context(ProcessPoolExecutor(1, initializer=_begin_broker, initargs=(self._living(),))))
            for _ in range(_BROKERS)
        ]
        self._of_group = {each: number % _BROKERS for number, each in enumerate(fleet.groups)}
        self._devices: dict[str, tuple[GroupId, str]] = {}
        self.awake: set[DeviceKey] = set()
        self._prompt: set[str] = set()
        self.offered: dict[str, str] = {}
        self.names: dict[DeviceKey, str] = {}
        laptop, number = self.own[0], 0
        added = []
        asleep: list[DeviceKey] = []
        for place, group_id in enumerate(fleet.groups):
            names = tuple(f"{place} {each}" for each in range(len(fleet.devices[group_id])))
            for name, key in zip(names, fleet.devices[group_id], strict=True):
                number += 1
                self.names[key] = name
                if number % _PROMPT_EVERY == 0:
                    self._prompt.add(name)
                if number % _ASLEEP_EVERY:
                    self.awake.add(key)
                    self._devices[inbox_topic(key)] = group_id, name
                else:
                    asleep.append(key)
            added.append(self._process(group_id).submit(_add_group, _shared_by(laptop, group_id, names)))
        for each in added:
            each.result()
        for own in self.own:  # which have heard of that
            now_us = own.now().wall_us
            with own.store.transaction():
                for key in asleep:
                    own.store.presence.note(key, PeerPresence(1, State.GONE, 60, (), now_us, now_us))

    def run(self, woken: Container[str] | None = None) -> None:
        """Carry what the operator's devices and the awake ones have for each other, until nobody has anything.

        `woken` are the names of the devices that are woken by what waits for them; None: all are.
        """
        under_way: dict[Future[_Sent], tuple[int, frozenset[str]]] = {}
        for broker in self._brokers:
            broker.woken.clear()
            for group_id, post in broker.waiting.items():
                for name in [each for each in post if woken is None or each in woken]:
                    broker.new.setdefault(group_id, {})[name] = post.pop(name)
        while True:
            self._collect_all(woken)
            if not under_way and not any(each.new or each.answers for each in self._brokers):
                time.sleep(2 * ANNOUNCE_PAUSE_US / 1e6)  # then what was held back until an answer came goes
                self._collect_all(woken)
            for number, broker in enumerate(self._brokers):
                while sum(each == number for each, _ in under_way.values()) < _AHEAD and (found := broker.next_post()):
                    group_id, post = found
                    offered = {name: self.offered[name] for name in post if name in self.offered}
                    future = broker.process.submit(_deliver, group_id, post, offered, self._living())
                    under_way[future] = number, frozenset(post)
            if not under_way:
                break
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for each in done:
                number, names = under_way.pop(each)
                sent, busy = each.result()
                self._brokers[number].busy.difference_update(names.difference(busy))
                self._brokers[number].busy.update(busy)
                self._receive(sent)
        assert not any(each.busy for each in self._brokers), "each device that waits for an answer gets one"

    def _process(self, group_id: GroupId) -> ProcessPoolExecutor:
        return self._brokers[self._of_group[group_id]].process

    def _living(self) -> frozenset[DeviceKey]:
        return frozenset(each.node.identity.signing_public for each in self.own)

    def _collect_all(self, woken: Container[str] | None) -> None:
        while self._collect(woken):
            continue

    def _collect(self, woken: Container[str] | None) -> int:
        """Take what the operator's devices have, and carry what is for one of them; return how much that was."""
        between = list[tuple[str, bytes]]()
        for device in self.own:
            for topic, envelope in _sent(device):
                if topic in self._devices:
                    group_id, name = self._devices[topic]
                    broker = self._brokers[self._of_group[group_id]]
                    broker.take(group_id, name, envelope, wakes=woken is None or name in woken or name in self._prompt)
                else:
                    between.append((topic, envelope))
        return self._receive(between)

    def _receive(self, envelopes: Sequence[tuple[str, bytes]]) -> int:
        count = 0
        for device in self.own:
            topic = inbox_topic(device.node.identity.signing_public)
            here = [envelope for other, envelope in envelopes if other == topic]
            if here:
                count += len(here)
                with device.store.transaction():
                    for each in here:
                        device.node.receive_envelope(each, device.now())
        return count

    def count(self, version: str) -> int:
        """Return on how many devices a version ever was."""
        return sum(each.process.submit(_versions, version).result() for each in self._brokers)

    def offer(self, version: str, bad: str = "") -> None:
        """Have a file be a version; on some devices one that they cannot bear."""
        for number, name in enumerate(self.names.values()):
            self.offered[name] = bad if bad and number % _BAD_EVERY == 0 else version


def _shared_by(laptop: Opened, group_id: GroupId, names: tuple[str, ...]) -> _Group:
    groups, operations = laptop.store.groups, laptop.store.operations
    secret = groups.secret(group_id, laptop.node.groups.group(group_id).epoch_id)
    assert secret is not None
    words = tuple(each.raw for each in operations.of_kind(group_id, OperationKind.OBEYING))
    return _Group(tuple(groups.manifests_from(group_id, 1)), secret, words, names)


def _sent(device: Opened) -> Iterator[tuple[str, bytes]]:
    now = device.now()
    device.node.make_acknowledgements_due(now)
    if device.node.has_work(now):
        with device.store.transaction():
            device.node.maintain(now)
    for outgoing in device.node.envelopes_to_send(now):
        device.node.sent(outgoing, now)
        yield outgoing.topic, outgoing.envelope


def main() -> None:
    """Measure and print."""
    began = time.perf_counter()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        fleet = OperatedFleet(Path(folder), _GROUPS, _DEVICES)
        network = _Network(fleet, stack)
        count = len(network.names)
        load = os.getloadavg()[0]
        print(f"{count:,} devices in {_GROUPS} groups, {len(network.awake):,} awake; load of the machine {load:.1f}")
        _print("made", began)
        _order(network)
        bad = _release(network, "good 2", "bad 2")
        reached = network.count("good 2") + network.count("bad 2")
        share = 100 * reached / count
        print(
            f"  it reached {reached} devices, {share:.3f} % of the fleet, and is {bad.state}; {len(bad.failed)} failed"
        )
        assert bad.state == "stopped"
        good = _release(network, "good 3", dies=True)
        installed = network.count("good 3")
        print(f"  installed on {installed:,} of {len(network.awake):,} awake devices")
        _print("all of it", began)
        assert (good.state, installed) == ("finished", len(network.awake)), "the phone brings it to all that are awake"
        assert network.count("good 2") + network.count("bad 2") == reached, "nobody obeys the stopped one later"


def _order(network: _Network) -> None:
    began, laptop = time.perf_counter(), network.own[0]
    given = give_command(laptop, Scope(administered(laptop), fleet=True), "hello", {}, "all", None)
    network.run()
    plan = find_plan(laptop, shared_groups(laptop), given.order.id)
    assert plan is not None, "it was given"
    count = reported(laptop, plan)
    print(f"an order for the fleet: {count:,} of {len(network.awake):,} awake devices have reported it done")
    _print("  until the last one", began)
    assert count == len(network.awake), "every awake device obeys once"


def _release(network: _Network, version: str, bad: str = "", *, dies: bool = False) -> Release:
    """Release a version in waves until it has finished or stopped; the laptop may die after the second."""
    began, own = time.perf_counter(), network.own[0]
    network.offer(version, bad)
    scope = Scope(administered(own), fleet=True)
    waves = read_waves(_WAVES)
    plans = plan_release(own, scope.groups, "all", waves, _STOP_PERCENT, _PATIENCE_US, 0, 0)
    found = begin(own, scope, "pump", [PlannedPart(group, plan, sealed(own, group)) for group, plan in plans], "all")
    print(f"release of {bad or version}")
    while True:
        network.run({network.names[DeviceKey(bytes.fromhex(each.device))] for each in found.devices})
        time.sleep(_PATIENCE_US / 1e6)
        found = release(own, administered(own), found.id)
        _print(f"  {found.state}: wave {found.waves_given}, given to {len(found.devices):,} devices", began)
        state = found.state
        if state == "finished":
            return found
        if dies and found.waves_given == _DIES_AFTER and len(network.own) > 1:
            network.run()  # else the phone would have to give each device what the laptop held back until it answered
            network.own.remove(own)
            own = network.own[0]
            _print("  the laptop dies", began)
            found = resume(own, administered(own), found.id, None, accept=False)
        else:
            found = go_on(own, administered(own), found.id)
        if state == "stopped":
            network.run(())
            return found


def _print(what: str, began: float) -> None:
    print(f"{what:<60}{time.perf_counter() - began:>9.1f} s", flush=True)


if __name__ == "__main__":
    main()
