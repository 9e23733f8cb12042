"""`covey mcu` and the agent's bridge: the commands in processes of their own, a board on a pseudo-terminal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covey.core.ids import device_name, fingerprint
from covey_boards.shared import messages
from tests.board import BoardOnLine
from tests.integration.gateway import Gateway
from tests.pty_board import PtyBoard
from tests.waiting import GUARD_S, IDLE_S, wait_until


@pytest.fixture
def board(tmp_path: Path) -> Iterator[PtyBoard]:
    with PtyBoard(BoardOnLine("board"), tmp_path / "ttyACM0") as made:
        yield made


@pytest.fixture
def gateway(tmp_path: Path, board: PtyBoard) -> Iterator[Gateway]:
    """A device with a port and a group in which it collects; its relay is never there."""
    made = Gateway(tmp_path, "gate")
    made.ok("relay", "set", "mqtt://127.0.0.1:9")
    made.ok("config", "set", "bridge.ports", str(board.port))
    made.ok("group", "create", "--capability", "collector")
    yield made
    made.end()


def _known(gateway: Gateway) -> bool:
    return any(board["up"] for board in gateway.json("mcu", "stats"))


def test_scan_lists_what_is_configured_and_leaves_the_rest_alone(gateway: Gateway, board: PtyBoard) -> None:
    [row] = [row for row in gateway.json("mcu", "scan") if row["configured"]]
    assert row["port"] == str(board.port)
    assert not row["missing"]
    assert "configured" in gateway.ok("mcu", "scan")
    board.unplug()
    [row] = [row for row in gateway.json("mcu", "scan") if row["configured"]]
    assert row["missing"]
    board.plug()
    assert "does not open it" in gateway.fails("mcu", "flash", "/dev/tty", code=2)


def test_enrolment_without_an_agent(gateway: Gateway, board: PtyBoard) -> None:
    shown = fingerprint(board.board.key)
    assert shown in gateway.fails("mcu", "enrol", code=2)  # nobody is there to compare it
    assert shown in gateway.fails("mcu", "enrol", "--fingerprint", fingerprint(bytes(32)), code=1)
    assert len(gateway.json("group", "show")["members"]) == 1
    enrolled = gateway.json("mcu", "enrol", "--fingerprint", shown.lower(), "--label", "bench")
    assert (enrolled["enrolled"], enrolled["label"]) == (True, "bench")
    members = gateway.json("group", "show")["members"]
    assert {each["label"]: each["capabilities"] for each in members} == {"bench": ["board"], "gate": ["collector"]}
    assert board.board.collector is not None
    assert board.board.collector.signing_public.hex() == gateway.author
    [known] = gateway.json("mcu", "stats")
    assert (known["up"], known["board"]) == (False, device_name(board.board.key))  # this process has gone
    assert gateway.json("mcu", "enrol", "--yes")["enrolled"]  # again: nothing to do
    assert len(gateway.json("group", "show")["members"]) == 2
    assert gateway.json("mcu", "enrol", "--yes", "--label", "shed")["label"] == "shed"
    assert {each["label"] for each in gateway.json("group", "show")["members"]} == {"shed", "gate"}
    assert shown in gateway.fails("mcu", "enrol", "--fingerprint", fingerprint(bytes(32)), "--label", "roof", code=1)


def test_a_group_without_a_collector_takes_no_board(tmp_path: Path, board: PtyBoard) -> None:
    gateway = Gateway(tmp_path, "gate")
    gateway.ok("config", "set", "bridge.ports", str(board.port))
    gateway.ok("group", "create")
    assert "no collector" in gateway.fails("mcu", "enrol", "--yes", code=1)


def test_the_agent_carries_for_a_board_and_survives_kills(gateway: Gateway, board: PtyBoard) -> None:
    gateway.start("collect", "--no-sensors")
    wait_until(lambda: _known(gateway), "the agent knows the board")
    assert gateway.json("mcu", "enrol", "--yes")["enrolled"]
    for number in range(3):
        board.do(lambda each: each.measure())
        gateway.kill()
        gateway.start("collect", "--no-sensors")
        if number == 1:
            board.unplug()
            board.do(lambda each: each.boot())
            board.plug()
            board.do(lambda each: [each.carry(*entry) for entry in each.ring])
    board.do(lambda each: [each.carry(*entry) for entry in each.ring])  # as its firmware does again and again
    wait_until(lambda: board.board.acknowledged_up_to == 3, "the vault has everything")
    assert board.board.ring == []
    assert gateway.counters()["landed_messages"] == 3


def test_messages_to_a_collectors_own_board_need_no_relay(gateway: Gateway, board: PtyBoard) -> None:
    gateway.start("collect", "--no-sensors")
    wait_until(lambda: _known(gateway), "the agent knows the board")
    assert gateway.json("mcu", "enrol", "--yes", "--label", "bench")["enrolled"]
    board.do(lambda each: each.measure())
    wait_until(lambda: board.board.acknowledged_up_to == 1, "the way to the board is known")
    gateway.ok("message", "send", "--to", "bench", "--text", "interval 5", "--wait", str(IDLE_S))
    assert board.board.blobs == [b"interval 5"]
    board.unplug()
    for number in range(9):
        gateway.ok("message", "send", "--to", "bench", "--text", str(number))
    board.plug()
    wait_until(lambda: not gateway.queued(), "the board has acknowledged everything")
    assert board.board.blobs[1:] == [b"%d" % number for number in range(9)]


def test_check_and_fleet_report_a_board_with_copied_flash(gateway: Gateway, board: PtyBoard, tmp_path: Path) -> None:
    with PtyBoard(BoardOnLine("board"), tmp_path / "ttyACM1") as copy:
        gateway.ok("config", "set", "bridge.ports", f"{board.port},{copy.port}")
        gateway.start("collect", "--no-sensors")
        wait_until(lambda: sum(each["up"] for each in gateway.json("mcu", "stats")) == 2, "the agent knows both")
        checked = [
            each
            for each in json.loads(gateway.covey("check", "--json").stdout)["findings"]
            if each["check"] == "boards"
        ]
        said = f"it has the identity of the board on {tmp_path}"
        assert [said in each["line"] for each in checked] == [True, True]
        assert all("mpremote rm :identity.key" in each["hint"] for each in checked)
        troubles = [each["what"] for each in gateway.json("fleet")["troubles"]]
        assert sum(said in each for each in troubles) == 2, "as the page shows it"


def test_a_board_that_fails_its_first_start_is_reported_to_a_person(gateway: Gateway, board: PtyBoard) -> None:
    trouble = "the start: OSError ([Errno 28] ENOSPC)"
    said = f"the board on {board.port} reports: {trouble}"

    def fails(each: BoardOnLine) -> None:
        each.identify = lambda: each.say(messages.TROUBLE, trouble)  # type: ignore[method-assign]

    board.do(fails)
    assert f"error: {said}" in gateway.fails("mcu", "enrol", "--yes", code=1), "who enrols it hears it first"
    gateway.start("collect", "--no-sensors")
    wait_until(lambda: said in gateway.covey("check").stdout, "covey check says so")
    assert said in gateway.json("status")["troubles"]
    assert f"this device: {said}" in [each["what"] for each in gateway.json("fleet")["troubles"]]
    assert str(board.port) in gateway.ok("status")
    [known] = gateway.json("mcu", "stats")
    assert (known["board"], known["up"], known["trouble"]) == ("", False, trouble)
    assert trouble in gateway.ok("mcu", "stats", str(board.port))

    def starts(each: BoardOnLine) -> None:
        del each.identify
        each.boot()

    board.do(starts)
    wait_until(lambda: _known(gateway), "the flash has room again")
    assert [each["trouble"] for each in gateway.json("mcu", "stats")] == [""]
    assert said not in gateway.covey("check").stdout


def test_a_person_restarts_a_board_with_and_without_an_agent(gateway: Gateway, board: PtyBoard) -> None:
    gateway.ok("mcu", "reset")
    assert board.board.boots == 2
    gateway.start("run", "--no-sensors")
    wait_until(lambda: _known(gateway), "the agent knows the board")
    gateway.ok("mcu", "reset", str(board.port))
    assert board.board.boots == 3
    assert "the agent is using this port" in gateway.fails("mcu", "flash", code=1)


def test_monitor_shows_what_changes(gateway: Gateway, board: PtyBoard) -> None:
    def seen() -> list[Any]:
        lines = gateway.log.read_text().splitlines(keepends=True) if gateway.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    gateway.start("mcu", "monitor", "--json")
    wait_until(lambda: any(each["up"] for each in seen()), "it says that the board is there")
    assert seen()[-1]["fingerprint"] == fingerprint(board.board.key)
    gateway.end(signal.SIGINT)
    gateway.log.unlink()
    gateway.start("mcu", "monitor")
    wait_until(lambda: gateway.log.exists() and "in no group" in gateway.log.read_text(), "it says so to a person")
    gateway.end(signal.SIGINT)
    gateway.ok("mcu", "monitor", "--seconds", "0.1")


def test_an_agent_without_ports_loads_nothing_of_boards() -> None:
    code = (
        "import sys; from types import SimpleNamespace as Some\n"
        "from covey.app.boards import bridge_role; from covey.cli.commands import collect, run\n"
        "assert bridge_role.board_roles(Some(config=Some(bridge=Some(ports=(), udp_listen='')))) == []\n"
        "print([name for name in sys.modules if name.startswith(('serial', 'covey_boards'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=GUARD_S, check=True)
    assert done.stdout == "[]\n"


def test_mistakes(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, "gate")
    assert "the agent has seen no board" in gateway.fails("mcu", "stats", code=1)
    assert gateway.json("mcu", "stats") == []
    (tmp_path / "notes.txt").write_text("no firmware")
    assert "'covey mcu pack' makes it" in gateway.fails("mcu", "sign", str(tmp_path / "notes.txt"), code=1)
    assert "bridge.ports" in gateway.fails("config", "set", "bridge.ports", ",".join(["/dev/x"] * 17), code=78)
