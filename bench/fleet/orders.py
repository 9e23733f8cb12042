"""Orders: from `covey order run` to its result, through a local broker, against a request and its response by paho.

Both have a program run at the other end. Ours is signed, sealed, stored at both ends before anything is done, done once
whatever happens in between, and its result is acknowledged; the peer's is none of that.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.fleet.raw_request import PROGRAM
from bench.processes import await_ready, feed, start
from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device
from covey.app.orders.command_reports import reported
from covey.app.orders.commands import give_command
from covey.app.orders.fleet import Scope
from demo.device import Device

_TIMES = 20
_PATIENCE_S = 120.0
_LOOK_S = 0.002

_ACTION = f"""
summary = "say hello"
argv = [{", ".join(f'"{word}"' for word in PROGRAM)}]
"""


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        with _pair(Path(folder), broker) as operator:
            whole = [
                _seconds(lambda: operator.ok("order", "run", "hello", "--for", "label:shed", "--wait"))
                for _ in _rounds()
            ]
            inner = list(_inner(operator))
        started = [_seconds(lambda: operator.ok("order", "list")) for _ in _rounds()]
        bare = _bare(broker)
    print(f"seconds, p50 of {_TIMES} (least to most)")
    _print("covey order run --wait, the command from its start to its end", whole)
    _print("  of which a command that only lists orders takes", started)
    _print("from the order's being written to its result's being stored", inner)
    _print("raw paho, request to response, connected already", bare)
    print(f"  ratio of the last two {median(inner) / median(bare):>46.1f}")


def _rounds() -> range:
    return range(_TIMES)


def _print(what: str, seconds: list[float]) -> None:
    print(f"{what:<60} {median(seconds):>9.4f}  ({min(seconds):.4f} to {max(seconds):.4f})")


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@contextmanager
def _pair(folder: Path, broker: Broker) -> Iterator[Device]:
    """Give an operator's device beside one that obeys it; the agents of both run."""
    operator, shed = (Device(folder, name) for name in ("operator", "shed"))
    try:
        for each in (operator, shed):
            each.set_up(broker)
            each.ok("config", "set", "operations.operators", operator.json("key", "show")["signing_key"])
        actions = shed.state / "operations.d"
        actions.mkdir(mode=0o700)
        (actions / "hello.toml").write_text(_ACTION)
        shed.ok("config", "set", "operations.commands", "hello")
        operator.ok("group", "create")
        operator.start("run", "--no-sensors")
        shed.ok("join", "-", feed=operator.ok("invite", "--no-wait"))
        shed.start("run", "--no-sensors")
        _wait_until(lambda: "obeying" in operator.ok("history", "log", "--json"))
        yield operator
    finally:
        for each in (operator, shed):
            each.end()


def _wait_until(condition: Callable[[], bool], look_s: float = 0.1) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("a device does not obey")
        time.sleep(look_s)


def _inner(operator: Device) -> Iterator[float]:
    """Yield what the same takes in a process that runs already: what the agents and the broker need."""
    with open_device(StateFolder.at(operator.state)) as device:
        manifest = device.pick_group(None)
        for _ in _rounds():
            device.node.refresh()
            begin = time.perf_counter()
            order = give_command(device, Scope((manifest,)), "hello", {}, "label:shed", None).order.id
            _wait_until(lambda order=order: reported(device, manifest, order) > 0, _LOOK_S)  # type: ignore[misc]
            yield time.perf_counter() - begin


def _bare(broker: Broker) -> list[float]:
    names = ["a" * 32, "b" * 32]
    passwords = [broker.add_device(name) for name in names]
    responder = start("bench.fleet.raw_request", "respond", str(broker.port), names[1])
    try:
        feed(responder, passwords[1])
        await_ready(responder)
        words = ("request", str(broker.port), names[0], names[1], str(_TIMES))
        done = subprocess.run(
            [sys.executable, "-m", "bench.fleet.raw_request", *words],
            input=f"{passwords[0]}\n",
            capture_output=True,
            text=True,
            check=True,
            timeout=_PATIENCE_S,
        )
        return [float(line) for line in done.stdout.splitlines()]
    finally:
        responder.kill()
        responder.wait()


if __name__ == "__main__":
    main()
