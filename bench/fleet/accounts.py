"""Devices of a benchmark that are members of a group as if they had joined it long ago: state, keys, broker account.

`fanout_members.py` runs them. The group lies in a folder beside them: manifests, secret, and that every one of them
obeys commands, where they are to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import await_ready, feed, start
from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import Device, open_device
from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import Obeying
from covey.core.ids import GroupId, inbox_name, key_text


@dataclass(frozen=True, slots=True)
class Account:
    """A device, its account's password, and the folder in which its group lies."""

    folder: StateFolder
    keys: DeviceKeys
    password: str
    place: Path


def make_accounts(folder: Path, broker: Broker, count: int, group: str = "group") -> list[Account]:
    """Make devices that know the broker, and are to be in one group."""
    states = [StateFolder.at(folder / f"{group}-member-{number}") for number in range(count)]
    keys = [state.create({"relay.url": broker.url}).keys for state in states]
    passwords = broker.add_devices(inbox_name(each.signing_public) for each in keys)
    for state, password in zip(states, passwords, strict=True):
        state.write_relay_password(password, state.identity())
    places = [folder / group] * count
    return [Account(*each) for each in zip(states, keys, passwords, places, strict=True)]


def let_in(operator: Path, group_id: GroupId, accounts: Sequence[Account], *, obeying: bool = False) -> None:
    """Let all into a group of an operator's device with one manifest, and lay down what they would have been sent.

    `obeying`: all have said that they obey commands, and everybody knows.
    """
    place = accounts[0].place
    with open_device(StateFolder.at(operator)) as device:
        membership = device.node.membership

        def with_all(draft: GroupManifest) -> GroupManifest:
            for each in accounts:
                draft = draft.adding(Member(each.keys))
            return draft

        with device.store.transaction():
            membership.change(group_id, lambda draft, _: with_all(draft), device.now().wall_us)
        secret = membership.groups.secret(group_id)
        assert secret is not None
        place.mkdir()
        for number, raw in enumerate(device.store.groups.manifests_from(group_id, 1)):
            (place / f"{number}.manifest").write_bytes(raw)
        (place / "secret").write_bytes(secret)
        if obeying:
            _obey(device, group_id, accounts)
        pins = key_text("sign", device.node.identity.signing_public)
    for each in accounts:
        each.folder.configuration.change({"operations.operators": (pins,)})


def _obey(device: Device, group_id: GroupId, accounts: Sequence[Account]) -> None:
    """Write, in the name of each, that it obeys."""
    group, now_us = device.node.groups.group(group_id), device.now().wall_us
    last: Operation | None = None
    with device.store.transaction():
        for number, each in enumerate(accounts):
            with open_device(each.folder) as member:
                log = Log(each.keys.signing_public, member.store.incarnations.present())
            parents, height = ((last.id,), last.height + 1) if last else ((), 1)
            place = group_id, log, 1, None, parents, height, group.hash, now_us
            last = sign_operation(Operation(*place, int(Obeying.kind), Obeying().to_wire()), each.folder.identity())
            device.store.operations.add(last, group.version, now_us)
            (each.place / f"{number:04}.operation").write_bytes(last.raw)


@contextmanager
def running(accounts: Sequence[Account], processes: int, module: str, *words: str) -> Iterator[None]:
    """Run devices, shared among a few processes, all of them connected."""
    started = [start(module, *words) for _ in range(processes)]
    try:
        for number, process in enumerate(started):
            for each in accounts[number::processes]:
                feed(process, f"{each.folder.path} {inbox_name(each.keys.signing_public)} {each.password} {each.place}")
            feed(process, "")
        for process in started:
            await_ready(process)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
