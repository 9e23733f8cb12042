"""The second implementation of a device, in JavaScript and from the protocol's document alone: tests/outside/device."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.integration.second import SECOND, Second, node
from tests.waiting import wait_until

_OWN = re.compile(r"""node:[a-z_]+|\./[a-z0-9]+\.js""")


@pytest.mark.processes
def test_it_passes_every_vector_of_its_roles() -> None:
    done = subprocess.run([node(), SECOND / "vectors.js"], capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr + done.stdout
    passed, of = re.findall(r"(\d+) of (\d+) vectors passed", done.stdout)[0]
    assert passed == of
    assert int(passed) > 2_000


def test_it_shares_no_code_and_needs_no_package() -> None:
    required = [
        name
        for source in sorted(SECOND.glob("*.js"))
        for name in re.findall(r"""require\(['"]([^'"]*)['"]\)""", source.read_text(encoding="utf-8"))
    ]
    assert len(required) > 20
    assert not [name for name in required if not _OWN.fullmatch(name)]


@pytest.mark.broker
def test_it_delivers_each_reading_once_whenever_it_is_killed(
    new_gateway: Callable[[str], Gateway], second: Second
) -> None:
    collector, gateway = new_gateway("collector"), new_gateway("gateway")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    collector.invite(gateway)
    gateway.start("run", "--no-sensors")
    invite = collector.ok("invite", "--no-wait").strip()
    second.start("--invite", invite, "--count", "200", "--every", "10")
    for reached in (1, 60, 130):
        wait_until(lambda reached=reached: _highest(collector) >= reached, f"reading {reached} lands")
        second.end()
        second.start("--count", "200", "--every", "10")
    wait_until(lambda: _highest(collector) == 200, "the last reading lands")
    second.end(signal.SIGTERM)
    readings = landed(collector).items()
    counted = [value for (name, _, _, value), times in readings if name == "count" for _ in range(times)]
    assert sorted(counted) == list(range(1, 201))
    assert second.key in gateway.ok("group", "show", "--json")


@pytest.mark.broker
def test_it_obeys_a_command_once_and_a_setting_and_its_group_hears_of_both(
    new_gateway: Callable[[str], Gateway], second: Second
) -> None:
    kim, gateway = new_gateway("kim"), new_gateway("gateway")
    operator = kim.json("key", "show")["signing_key"]
    kim.ok("config", "set", "operations.operators", operator)
    kim.ok("group", "create")
    kim.start("run", "--no-sensors")
    kim.invite(gateway)
    gateway.start("run", "--no-sensors")
    note = second.state / "note.sh"
    note.write_text(f'echo "$1" >> {second.state}/lines; echo wrote "$1"')
    words = ("--operator", operator, "--action", f"note=/bin/sh {note}", "--label", "shed")
    second.start("--invite", kim.ok("invite", "--no-wait").strip(), *words)
    wait_until(lambda: "obeying" in kim.ok("history", "log", "--json"), "the device obeys")

    order = kim.json("order", "run", "note", "--for", "label:shed", "--arg", "line=hello")
    wait_until(lambda: "1 done" in kim.ok("order", "show", order["id"]), "its result comes")
    assert kim.ok("order", "show", order["id"], "--output", "shed") == "wrote hello\n"
    second.end()
    second.start(*words)
    kim.ok("setting", "set", "app.pump.speed", "7", "--for", "label:shed")
    wait_until(lambda: "applied" in kim.ok("setting", "diff", "app.pump.speed", "--all", "--json"), "its report comes")
    assert (second.state / "lines").read_text() == "hello\n"
    assert gateway.ok("history", "log", "--json").count("obeying") == 1


@pytest.mark.broker
def test_it_follows_who_is_in_its_group_until_it_is_removed_itself(
    new_gateway: Callable[[str], Gateway], second: Second
) -> None:
    kim, gateway = new_gateway("kim"), new_gateway("gateway")
    kim.ok("group", "create", "--capability", "collector")
    kim.start("collect", "--no-sensors")
    kim.invite(gateway)
    gateway.start("run", "--no-sensors")
    second.start("--invite", kim.ok("invite", "--no-wait").strip(), "--count", "100000", "--every", "200")
    wait_until(lambda: _highest(kim) > 0, "a reading lands")
    gateway.ok("history", "post", "before")
    wait_until(lambda: second.said("operations"), "the note comes")
    kim.ok("group", "remove", "gateway", "--yes")
    wait_until(lambda: len(second.said("members")[-1]["members"]) == 2, "the device knows of the removal")
    reached = len(second.said("acknowledged"))
    wait_until(lambda: len(second.said("acknowledged")) > reached + 1, "readings land in the new epoch")
    kim.ok("group", "remove", second.key[:8], "--yes")
    wait_until(lambda: second.said("removed"), "the device knows of its own removal")


def _highest(collector: Gateway) -> int:
    return max((value for name, _, _, value in landed(collector) if name == "count"), default=0)
