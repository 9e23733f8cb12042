"""One command for a fleet of 1,000 devices in ten groups, through one broker: until the last result is there.

Every device is a whole one on this machine: state folder, database, account, connection and loop of its own, and it
runs a real program, below its guard. What is counted is from the start of `covey order run --fleet` to what the
operator's own database holds of the results; all of it is signed, sealed and durable at both ends. A peer that answers
a few bytes with a few bytes is in `./dev bench fanout`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.fleet.accounts import Account, let_in, make_accounts, running
from bench.fleet.raw_request import PROGRAM
from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device
from covey.app.orders.command_reports import reported
from covey.app.orders.fleet import shared_groups
from covey.app.orders.plans import KnownPlan, plans
from covey.core.ids import GroupId
from demo.device import Device as DemoDevice

_GROUPS, _DEVICES = 10, 100
_ROUNDS = 5
_PROCESSES = 4
_PATIENCE_S = 600.0
_LOOK_S = 0.1
_ACTION = f"""
summary = "say hello"
argv = [{", ".join(f'"{word}"' for word in PROGRAM)}]
"""


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as place, Broker(Path(place) / "broker") as broker:
        folder = Path(place)
        operator = DemoDevice(folder, "operator")
        operator.set_up(broker)
        operator.ok("config", "set", "operations.operators", operator.json("key", "show")["signing_key"])
        operator.ok("own", "create")
        accounts: list[Account] = []
        for number in range(_GROUPS):
            group_id = GroupId(bytes.fromhex(operator.json("group", "create")["group_id"]))
            joined = make_accounts(folder, broker, _DEVICES, f"group-{number}")
            let_in(operator.state, group_id, joined, obeying=True)
            accounts += joined
        for each in accounts:
            _allow(each)
        operator.start("run", "--no-sensors")
        try:
            with running(accounts, _PROCESSES, "bench.fleet.fanout_members", "commands"):
                rounds = [_seconds(operator) for _ in range(_ROUNDS)]
        finally:
            operator.end()
    count = _GROUPS * _DEVICES
    print(
        f"seconds from covey order run --fleet to the results of {count} devices in {_GROUPS} groups, {_ROUNDS} rounds"
    )
    print(f"{'':<12}{'p50':>9}{'least':>9}{'most':>9}")
    shown = (
        ("the first", 0),
        ("half", count // 2 - 1),
        ("99 of 100", count * 99 // 100 - 1),
        ("the last", count - 1),
    )
    for what, number in shown:
        times = [seconds[number] for seconds in rounds]
        print(f"{what:<12}{median(times):>9.2f}{min(times):>9.2f}{max(times):>9.2f}")


def _allow(account: Account) -> None:
    """Let operators run the one action on a device."""
    folder = account.folder.actions
    folder.mkdir(mode=0o700)
    (folder / "hello.toml").write_text(_ACTION)
    account.folder.configuration.change({"operations.commands": ("hello",)})


def _seconds(operator: DemoDevice) -> list[float]:
    """Give the order; return when each of its results was seen to be there."""
    begin = time.perf_counter()
    name = operator.json("order", "run", "hello", "--fleet", "--for", "all")["id"]
    found: list[float] = []
    with open_device(StateFolder.at(operator.state)) as device:
        plan = _plan(plans(device, shared_groups(device)).values(), name)
        while len(found) < _GROUPS * _DEVICES:
            if time.perf_counter() > begin + _PATIENCE_S:
                raise TimeoutError(f"{len(found)} of {_GROUPS * _DEVICES} devices have answered")
            count = sum(reported(device, group, operation.id.hex()) for group, operation in plan.orders)
            found += [time.perf_counter() - begin] * (count - len(found))
            time.sleep(_LOOK_S)
    return found


def _plan(known: Iterable[KnownPlan], name: str) -> KnownPlan:
    return next(each for each in known if each.name == name)


if __name__ == "__main__":
    main()
