"""`AlertWatch`: what was committed is sent by the next watch; one that is down holds up no other, damage nobody."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from covey.adapters.alert_file import AlertFile
from covey.app.device.device import find_state
from covey.app.fleet.alert_watch import AlertWatch, list_alerts
from covey.core.alerts import AlertBook, AlertMessage
from tests.command import Here
from tests.waiting import wait_until

_MESSAGE = AlertMessage("65f-1", "silent", ended=False, title="t", text="x", at_us=10)


@pytest.fixture
def hub(tmp_path: Path) -> Here:
    """A device whose alerts go to a program, which keeps them."""
    hub, program = Here(tmp_path, "hub"), tmp_path / "page-me"
    program.write_text(f"#!/bin/sh\ncat >> {tmp_path}/told && echo >> {tmp_path}/told\n")
    program.chmod(stat.S_IRWXU)
    hub.ok("config", "set", "alerts.program", str(program))
    hub.ok("group", "create", "--capability", "collector")
    return hub


def _delivered(hub: Here) -> list[str]:
    path = hub.state.parent / "told"
    return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []


def _commit(hub: Here, *targets: str) -> None:
    """Leave what a watch leaves that is killed after the commit and before it sends."""
    book = AlertBook(number=1)
    book.enqueue(_MESSAGE, targets)
    AlertFile(hub.state / "alerts.json").write(book)


def _look(hub: Here) -> list[str]:
    """Look once, in a watch of its own, until nothing is left for the program; return what it said."""
    said: list[str] = []
    watch = AlertWatch(find_state(str(hub.state)), log=said.append)
    try:
        watch.look()
        wait_until(lambda: _waiting(hub)["program"] == 0, "the program has taken everything")
    finally:
        watch.close()
    return said


def _waiting(hub: Here) -> dict[str, int]:
    return {each.name: each.waiting for each in list_alerts(find_state(str(hub.state))).targets}


@pytest.mark.processes
def test_an_alert_committed_before_a_kill_is_sent_once(hub: Here) -> None:
    _commit(hub, "program")
    _look(hub)
    assert _delivered(hub) == ["65f-1"]
    _look(hub)
    assert _delivered(hub) == ["65f-1"]


@pytest.mark.processes
def test_a_target_that_is_down_holds_up_no_other(hub: Here) -> None:
    hub.ok("config", "set", "alerts.webhook", "http://127.0.0.1:1/")
    _commit(hub, "webhook", "program")
    _look(hub)
    assert _delivered(hub) == ["65f-1"]
    assert _waiting(hub) == {"webhook": 1, "program": 0}


def test_a_damaged_file_is_set_aside_and_the_watch_goes_on(hub: Here) -> None:
    path = hub.state / "alerts.json"
    path.write_bytes(b'{"version": 1, "epi')
    (line,) = _look_damaged(hub)
    assert "alerts.json was damaged and is kept as alerts.json.damaged" in line
    assert (hub.state / "alerts.json.damaged").read_bytes() == b'{"version": 1, "epi'
    assert AlertFile(path).read().number == 0
    assert _look(hub) == []


def _look_damaged(hub: Here) -> list[str]:
    said: list[str] = []
    watch = AlertWatch(find_state(str(hub.state)), log=said.append)
    watch.look()
    watch.close()
    return said
