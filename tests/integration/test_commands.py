"""An operator has a device do something, through a real broker: once, whatever happens to the device meanwhile."""

from __future__ import annotations

import signal
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_NOTE = """
summary = "write a line, then wait"
argv = ["/bin/sh", "-c", 'echo "$1" >> "$0"; echo wrote; exec /bin/sleep "$2"', "{file}", "{{line}}", "{{seconds}}"]
idempotent = {idempotent}
[arguments.line]
text = 40
characters = "abcdefghijklmnopqrstuvwxyz $();`|>"
[arguments.seconds]
integer = [0, 600]
"""


class Fleet:
    """An operator's device, and one whose owner has pinned it and lets it have some things done; both run."""

    def __init__(self, new_gateway: Callable[[str], Gateway]) -> None:
        self.kim, self.shed = new_gateway("kim"), new_gateway("shed")
        self.lines = self.shed.state / "lines"
        folder = self.shed.state / "operations.d"
        folder.mkdir(mode=0o700)
        for name, idempotent in (("note", "false"), ("note-again", "true")):
            self._define(folder / f"{name}.toml", idempotent)
        for each in (self.kim, self.shed):
            each.ok("config", "set", "operations.operators", self.kim.json("key", "show")["signing_key"])
        allowed = "note,note-again,gone,set-wifi,show-wifi,restart-agent,read-now,support-bundle"
        self.shed.ok("config", "set", "operations.commands", allowed)
        self.kim.ok("group", "create")
        self.kim.start("run", "--no-sensors")
        self.kim.invite(self.shed)
        self.shed.start("run", "--no-sensors")
        wait_until(lambda: "obeying" in self.kim.ok("history", "log", "--json"), "the device obeys")

    def _define(self, path: Path, idempotent: str) -> None:
        path.write_text(_NOTE.format(file=self.lines, idempotent=idempotent))
        path.chmod(0o600)

    def define(self, name: str, text: str) -> None:
        """Have the device's owner define a further action."""
        path = self.shed.state / "operations.d" / f"{name}.toml"
        path.write_text(text)
        path.chmod(0o600)

    def order(self, action: str, **arguments: str) -> str:
        """Have the device do something, once; return the order's id."""
        words = [word for name, value in arguments.items() for word in ("--arg", f"{name}={value}")]
        given = self.kim.json("order", "run", action, "--for", "label:shed", *words)
        assert given["devices"] == 1
        return str(given["id"])

    def written(self) -> list[str]:
        """Return what the program has written, a line each time that it ran."""
        return self.lines.read_text().splitlines() if self.lines.exists() else []

    def result(self, order: str) -> dict[str, Any]:
        """Return what the operator is told, once that has come."""
        found: list[dict[str, Any]] = []

        def has_come() -> bool:
            found[:] = self.kim.json("order", "show", order)["devices"]
            return [each["outcome"] in {"waiting", "asleep"} for each in found] == [False]

        wait_until(has_come, "the result comes")
        return found[0]

    def code(self, order: str) -> str:
        """Return the code of what became of an order."""
        result = self.result(order)
        return str(result["code"] or f"exit {result['exit']}")

    def output(self, order: str) -> bytes:
        """Return what its program wrote."""
        self.result(order)
        return b64decode(self.kim.json("order", "show", order, "--output", "shed")["output"])


@pytest.fixture
def fleet(new_gateway: Callable[[str], Gateway]) -> Fleet:
    return Fleet(new_gateway)


_SECRET = "hunter2 is no password"
_WIFI = """
summary = "set a network's key"
argv = [
    "/bin/sh", "-c", 'read -r line; echo "$line" >"$0"; echo "got $line for $1"; sleep 2', "{file}", "{{ssid}}"
]
input = "{{key}}\\n"
[arguments.ssid]
text = 32
characters = "abcdefghijklmnopqrstuvwxyz"
[arguments.key]
text = 63
characters = "abcdefghijklmnopqrstuvwxyz0123456789 "
"""


def _files_with(text: str, *places: Path) -> list[Path]:
    """Return the files that have a text, within folders."""
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


def _command_lines() -> list[bytes]:
    """Return what every process of this machine was started with, as every user can read it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            found.append(path.read_bytes())
    return found


def test_a_secret_reaches_the_program_and_nothing_else(fleet: Fleet) -> None:
    known = fleet.shed.state.parent / "key"
    fleet.define("set-wifi", _WIFI.format(file=known))
    fleet.define("show-wifi", _WIFI.format(file=known).replace("input =", "#").replace("{ssid}", "{ssid} {key}"))
    words = ("--for", "label:shed", "--arg", "ssid=barn", "--secret", "key")
    given = fleet.kim.json("order", "run", "set-wifi", *words, feed=f"{_SECRET}\n")["id"]
    wait_until(known.exists, "the program runs")
    lines = _command_lines()
    assert fleet.code(given) == "exit 0"
    assert known.read_text() == f"{_SECRET}\n"
    assert fleet.output(given) == b"got *** for barn\n"
    refused = fleet.kim.json("order", "run", "show-wifi", *words, feed=_SECRET)["id"]
    assert fleet.code(refused) == "action_not_secret"
    shown = [
        each.ok(*command, *how)
        for each in (fleet.kim, fleet.shed)
        for command in (("history", "log"), ("history", "show", given), ("order",), ("order", "show", given))
        for how in ((), ("--json",))
    ]
    fleet.kim.end()
    fleet.shed.end()
    for each in (fleet.kim, fleet.shed):
        assert _files_with("label", each.state), "it would be found"
        assert _files_with(_SECRET, each.state, each.log) == []
    assert _files_with(_SECRET, known.parent) == [known]
    assert not any(_SECRET in each for each in shown)
    assert not any(_SECRET.encode() in each for each in lines)


def test_an_order_of_an_operator_runs_once(fleet: Fleet) -> None:
    words = "a $(reboot) `x` ; | > b"
    order = fleet.order("note", line=words, seconds="0")
    assert (fleet.code(order), fleet.output(order), fleet.written()) == ("exit 0", b"wrote\n", [words])
    assert fleet.code(fleet.order("note", line="a", seconds="1; reboot")) == "action_arguments"
    assert fleet.code(fleet.order("gone")) == "action_not_defined"
    assert fleet.code(fleet.order("reboot")) == "action_not_allowed"
    assert fleet.code(fleet.order("read-now")) == "action_not_started", "it was started without sensors"
    assert fleet.output(fleet.order("support-bundle"))[:2] == b"\x1f\x8b"
    assert fleet.code(fleet.order("restart-agent")) == "exit 0"
    assert fleet.written() == [words]


@pytest.mark.parametrize(("action", "code", "times"), [("note", "action_went_down", 1), ("note-again", "exit 0", 2)])
def test_an_agent_that_is_killed_repeats_only_what_may_be(fleet: Fleet, action: str, code: str, times: int) -> None:
    order = fleet.order(action, line="a", seconds="3")
    wait_until(fleet.written, "it has begun")
    fleet.shed.end(signal.SIGKILL)
    fleet.shed.start("run", "--no-sensors")
    assert (fleet.code(order), fleet.written()) == (code, ["a"] * times)


def test_an_action_repeated_after_a_kill_reads_its_secret_again(fleet: Fleet) -> None:
    known = fleet.shed.state.parent / "key"
    fleet.define("set-wifi", "idempotent = true\n" + _WIFI.format(file=known).replace(">", ">>", 1))
    words = ("--for", "label:shed", "--arg", "ssid=barn", "--secret", "key")
    given = fleet.kim.json("order", "run", "set-wifi", *words, feed=f"{_SECRET}\n")["id"]
    wait_until(lambda: known.exists() and known.read_text().endswith("\n"), "it has read it")
    fleet.shed.end(signal.SIGKILL)
    assert _files_with(_SECRET, fleet.shed.state) == []
    fleet.shed.start("run", "--no-sensors")
    assert fleet.code(given) == "exit 0"
    assert known.read_text() == f"{_SECRET}\n" * 2
