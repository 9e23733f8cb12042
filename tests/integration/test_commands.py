"""An operator has a device do something, through a real broker: once, whatever happens to the device meanwhile."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.device import open_device
from covey.app.operations.history_writing import write
from covey.core.actions.records import CommandRecord
from covey.core.history.orders import CommandOrder
from covey.core.ids import OperationId
from covey.core.orders.selector import EVERYBODY
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
        self._kim_state = StateFolder.at(self.kim.state)
        self._shed_state = StateFolder.at(self.shed.state)
        self.lines = self.shed.state / "lines"
        folder = self.shed.state / "operations.d"
        folder.mkdir(mode=0o700)
        for name, idempotent in (("note", "false"), ("note-again", "true")):
            self._define(folder / f"{name}.toml", idempotent)
        self.shed.ok("config", "set", "operations.operators", self.kim.json("key", "show")["signing_key"])
        self.shed.ok(
            "config", "set", "operations.commands", "note,note-again,gone,restart-agent,read-now,support-bundle"
        )
        self.kim.ok("group", "create")
        self.kim.start("run", "--no-sensors")
        self.kim.invite(self.shed)
        self.shed.start("run", "--no-sensors")
        wait_until(self.obeys, "the device obeys")

    def _define(self, path: Path, idempotent: str) -> None:
        path.write_text(_NOTE.format(file=self.lines, idempotent=idempotent))
        path.chmod(0o600)

    def obeys(self) -> bool:
        """Say whether the operator knows that the device obeys."""
        return "obeying" in self.kim.ok("history", "log", "--json")

    def order(self, action: str, arguments: Mapping[str, str] | None = None) -> OperationId:
        """Have everybody do something, once."""
        with open_device(self._kim_state) as device:
            order = CommandOrder(EVERYBODY, action, arguments or {}, secrets.token_bytes(16))
            return write(device, device.pick_group(None), order).id

    def written(self) -> list[str]:
        """Return what the program has written, a line each time that it ran."""
        return self.lines.read_text().splitlines() if self.lines.exists() else []

    def becomes(self, order: OperationId) -> CommandRecord:
        """Return what has become of an order, once that is reported."""
        found: list[CommandRecord] = []

        def is_final() -> bool:
            with open_device(self._shed_state) as device:
                record = device.store.commands.record(order)
                reported = device.store.commands.next_unreported() is None
            found.extend([record] if record and record.result and reported else [])
            return bool(found)

        wait_until(is_final, "it is reported")
        return found[0]

    def code(self, order: OperationId) -> str:
        """Return the code of what became of an order."""
        result = self.becomes(order).result
        assert result is not None
        return result.code or f"exit {result.exit}"


@pytest.fixture
def fleet(new_gateway: Callable[[str], Gateway]) -> Fleet:
    return Fleet(new_gateway)


def test_what_an_operator_orders_is_done_once(fleet: Fleet) -> None:
    words = "a $(reboot) `x` ; | > b"
    assert fleet.code(fleet.order("note", {"line": words, "seconds": "0"})) == "exit 0"
    assert fleet.written() == [words]
    assert fleet.code(fleet.order("note", {"line": "a", "seconds": "1; reboot"})) == "action_arguments"
    assert fleet.code(fleet.order("gone")) == "action_not_defined"
    assert fleet.code(fleet.order("reboot")) == "action_not_allowed"
    assert fleet.code(fleet.order("support-bundle")) == "exit 0"
    assert fleet.code(fleet.order("restart-agent")) == "exit 0"
    assert fleet.written() == [words]


@pytest.mark.parametrize(("action", "code", "times"), [("note", "action_went_down", 1), ("note-again", "exit 0", 2)])
def test_an_agent_that_is_killed_repeats_only_what_may_be(fleet: Fleet, action: str, code: str, times: int) -> None:
    order = fleet.order(action, {"line": "a", "seconds": "5"})
    wait_until(fleet.written, "it has begun")
    fleet.shed.end(signal.SIGKILL)
    fleet.shed.start("run", "--no-sensors")
    assert fleet.code(order) == code
    assert fleet.written() == ["a"] * times
