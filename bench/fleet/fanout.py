"""One order to a group of 1,000 members through one broker, against paho that asks as many and hears from each.

Every member is a whole device on this machine: state folder, database, account, connection and loop of its own. What
is counted is from the start of `covey setting set` to what the operator's own database holds of the answers: each
member has then verified the order, stored it, done it and told so, all of it signed, sealed and durable at both ends.
The peer's members answer a few bytes with a few bytes, and keep nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.processes import await_ready, feed, start
from bench.raw_client import answers_to, connected
from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device
from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import inbox_name, key_text
from covey.core.settings.states import KeptReport, SettingReport
from covey.core.wire.topics import inbox_topic
from demo.device import Device as DemoDevice

_MEMBERS = 1_000
_PROCESSES = 4
_PATIENCE_S = 600.0
_LOOK_S = 0.1
_KEY = "app.interval"


@dataclass(frozen=True, slots=True)
class _Account:
    folder: StateFolder
    keys: DeviceKeys
    password: str


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as place, Broker(Path(place) / "broker") as broker:
        folder = Path(place)
        operator = DemoDevice(folder, "operator")
        operator.set_up(broker)
        accounts = _accounts(folder, broker)
        operator.ok("config", "set", "operations.operators", operator.json("key", "show")["signing_key"])
        operator.ok("group", "create")
        _let_in(operator, accounts, folder / "group")
        operator.start("run", "--no-sensors")
        try:
            with _members(accounts, "bench.fleet.fanout_members", str(folder)):
                seconds = list(_answers(operator))
        finally:
            operator.end()
        with _members(accounts, "bench.fleet.fanout_peer", str(broker.port)):
            peer = _asked(operator, broker, accounts)
    print(f"seconds until so many of {len(accounts)} members have answered one order")
    print(f"{'':<46}{'half':>9}{'99 of 100':>11}{'all':>9}")
    for what, each in (
        ("covey setting set, until its reports are kept", seconds),
        ("raw paho, already connected", peer),
    ):
        print(f"{what:<46}{_share(each, 0.5):>9.2f}{_share(each, 0.99):>11.2f}{each[-1]:>9.2f}")
    print(f"  ratio of the last {seconds[-1] / peer[-1]:.1f}")


def _print(what: str, seconds: list[float]) -> None:
    print(f"{what:<46}{_share(seconds, 0.5):>9.2f}{_share(seconds, 0.99):>11.2f}{seconds[-1]:>9.2f}")


def _share(seconds: list[float], share: float) -> float:
    return seconds[int(share * (len(seconds) - 1))]


def _accounts(folder: Path, broker: Broker) -> list[_Account]:
    states = [StateFolder.at(folder / f"member-{number}") for number in range(_MEMBERS - 1)]
    keys = [state.create({"relay.url": broker.url}).keys for state in states]
    passwords = broker.add_devices(inbox_name(each.signing_public) for each in keys)
    for state, password in zip(states, passwords, strict=True):
        state.write_relay_password(password, state.identity())
    return [_Account(*each) for each in zip(states, keys, passwords, strict=True)]


def _let_in(operator: DemoDevice, accounts: list[_Account], place: Path) -> None:
    """Let all in with one manifest, and lay down for them what they would have been sent."""
    with open_device(StateFolder.at(operator.state)) as device:
        membership, group_id = device.node.membership, device.pick_group(None).group_id

        def with_all(draft: GroupManifest) -> GroupManifest:
            for each in accounts:
                draft = draft.adding(Member(each.keys))
            return draft

        with device.store.transaction():
            membership.change(group_id, lambda draft, _: with_all(draft), device.now().wall_us)
        secret = membership.groups.secret(group_id)
        assert secret is not None
        place.mkdir()
        for number, (_, _, raw) in enumerate(device.store.groups.manifests()):
            (place / f"{number}.manifest").write_bytes(raw)
        (place / "secret").write_bytes(secret)
        pins = key_text("sign", device.node.identity.signing_public)
    for each in accounts:
        each.folder.configuration.change({"operations.operators": (pins,)})


@contextmanager
def _members(accounts: list[_Account], module: str, *words: str) -> Iterator[None]:
    """Run the members, shared among a few processes, all of them connected."""
    processes = [start(module, *words) for _ in range(_PROCESSES)]
    try:
        for place, process in enumerate(processes):
            for each in accounts[place::_PROCESSES]:
                feed(process, f"{each.folder.path} {inbox_name(each.keys.signing_public)} {each.password}")
            feed(process, "")
        for process in processes:
            await_ready(process)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _answers(operator: DemoDevice) -> Iterator[float]:
    """Give the order; yield when each of its reports was seen to be there."""
    with open_device(StateFolder.at(operator.state)) as device:
        group = device.pick_group(None)
        silent = {member.keys.signing_public for member in group.members} - {device.node.identity.signing_public}
        begin = time.perf_counter()
        operator.ok("setting", "set", _KEY, "60", "--for", "all")
        while silent:
            if time.perf_counter() > begin + _PATIENCE_S:
                raise TimeoutError(f"{len(silent)} of {_MEMBERS - 1} members have not answered")
            answered = {key for key in silent if _has_set(device.store.setting_reports.of(group.group_id, key))}
            silent -= answered
            yield from [time.perf_counter() - begin] * len(answered)
            time.sleep(_LOOK_S)


def _has_set(report: KeptReport | None) -> bool:
    return report is not None and any(each.key == _KEY for each in SettingReport.from_wire(report.body).settings)


def _asked(operator: DemoDevice, broker: Broker, accounts: list[_Account]) -> list[float]:
    """Ask each by paho, over a connection of its own; return when each answer was there."""
    state = StateFolder.at(operator.state)
    came: list[float] = []
    password = state.relay_password(state.configuration.config(), state.identity())
    client = connected(broker.port, operator.account, password, lambda *_: came.append(time.perf_counter()))
    properties = answers_to(operator.account)
    begin = time.perf_counter()
    for each in accounts:
        client.publish(inbox_topic(each.keys.signing_public), b"hello", qos=1, properties=properties)
    while len(came) < len(accounts):
        time.sleep(_LOOK_S)
    client.disconnect()
    client.loop_stop()
    return [each - begin for each in came]


if __name__ == "__main__":
    main()
