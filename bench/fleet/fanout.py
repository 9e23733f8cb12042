"""One order to a group of 1,000 members through one broker, against paho that asks as many and hears from each.

Every member is a whole device on this machine: state folder, database, account, connection and loop of its own. What
is counted is from the start of `covey setting set` to what the operator's own database holds of the answers: each
member has then verified the order, stored it, done it and told so, all of it signed, sealed and durable at both ends.
The peer's members answer a few bytes with a few bytes, and keep nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.fleet.accounts import Account, let_in, make_accounts, running
from bench.raw_client import answers_to, connected
from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device
from covey.core.ids import GroupId
from covey.core.settings.states import KeptReport, SettingReport
from covey.core.wire.topics import inbox_topic
from demo.device import Device as DemoDevice

_MEMBERS = 1_000
_PROCESSES = 4
_PATIENCE_S = 600.0
_LOOK_S = 0.1
_KEY = "app.interval"


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as place, Broker(Path(place) / "broker") as broker:
        folder = Path(place)
        operator = DemoDevice(folder, "operator")
        operator.set_up(broker)
        accounts = make_accounts(folder, broker, _MEMBERS - 1)
        operator.ok("config", "set", "operations.operators", operator.json("key", "show")["signing_key"])
        let_in(operator.state, GroupId(bytes.fromhex(operator.json("group", "create")["group_id"])), accounts)
        operator.start("run", "--no-sensors")
        try:
            with running(accounts, _PROCESSES, "bench.fleet.fanout_members", "settings"):
                seconds = list(_answers(operator))
        finally:
            operator.end()
        with running(accounts, _PROCESSES, "bench.fleet.fanout_peer", str(broker.port)):
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


def _asked(operator: DemoDevice, broker: Broker, accounts: list[Account]) -> list[float]:
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
