"""A command beside an agent of another version, which says less in its answers, or more, than the command knows."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from covey.app.checks.documents import BytesByClass, OperatorsStatus, OutboxStatus, RelayStatus, Status
from covey.app.documents import to_json
from covey.app.relays.documents import Outbox
from covey.client import Client
from covey.errors import AgentVersionError
from tests.command import covey

_STATUS = Status(
    device="0123abcd",
    label="gate",
    agent="running",
    relay=RelayStatus("mqtt://a", "up", 5),
    relays=(RelayStatus("mqtt://a", "up", 5),),
    clock_synchronised=True,
    outbox=OutboxStatus(0, 0, 100, BytesByClass(0, 0, 0, 0, 0), None),
    queues=(),
    members=(),
    groups=(),
    boards=(),
    sensors=(),
    operators=OperatorsStatus(1, ()),
    salvage=None,
    pending_joins=0,
    waiting_invitations=0,
    noise_key_seconds=None,
    landing_bytes=0,
    counters={},
    troubles=(),
)


@contextmanager
def _answering(folder: Path, answers: dict[str, Any]) -> Iterator[Path]:
    """Serve a body for each path on a socket, as an agent would."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(answers[self.path.partition("?")[0]]).encode() + b"\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    path = folder / "api.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield path
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody without a device of their own, who knows an agent's socket."""
    monkeypatch.delenv("COVEY_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COVEY_API_SOCKET", str(tmp_path / "api.sock"))
    monkeypatch.setattr("covey.adapters.state_path.SYSTEM_STATE", tmp_path / "nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return tmp_path


_LACKING = {
    "a number": {name: value for name, value in to_json(_STATUS).items() if name != "landing_bytes"},
    "a part of a part": {**to_json(_STATUS), "outbox": {"messages": 0}},
    "a list": {**to_json(_STATUS), "boards": None},
    "a number of another kind": {**to_json(_STATUS), "pending_joins": "none"},
    "everything": {},
    "the document": [],
}


@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["top", "--once", "--interval", "0.1"]])
@pytest.mark.parametrize("answer", _LACKING.values(), ids=_LACKING)
def test_a_status_that_lacks_something_says_what_to_do(guest: Path, words: list[str], answer: Any) -> None:
    with _answering(guest, {"/v1/status": answer}):
        ended = covey(*words)
    assert ended.code == 1
    assert ended.stdout == ""
    assert ended.stderr.count("error: ") == 1
    assert "another version" in ended.stderr
    assert "hint: restart the agent" in ended.stderr


@pytest.mark.parametrize("answer", [{}, {"messages": 1, "bytes": 1, "shown": [{"recipient": "0123abcd"}]}])
def test_an_outbox_that_lacks_something_says_what_to_do(guest: Path, answer: Any) -> None:
    with _answering(guest, {"/v1/outbox": answer}):
        ended = covey("message", "ls")
    assert (ended.code, ended.stdout) == (1, "")
    assert "hint: restart the agent" in ended.stderr


def test_unknown_fields_of_a_newer_agent_are_ignored(guest: Path) -> None:
    blob = {"id": 1, "author": "ab", "name": "ab", "group_id": "cd", "sent_at_us": 1, "received_at_us": 2, "body": ""}
    answers = {
        "/v1/status": {**to_json(_STATUS), "weather": "fine"},
        "/v1/outbox": {**to_json(Outbox(0, 0, ())), "weather": "fine"},
        "/v1/inbox": {**blob, "weather": "fine"},
    }
    with _answering(guest, answers) as path:
        assert covey("status").code == 0
        assert covey("message", "ls").code == 0
        assert [each.id for each in Client(path).inbox()] == [1]


def test_programs_get_the_same_error(guest: Path) -> None:
    answers = {"/v1/status": [], "/v1/outbox": "", "/v1/inbox": {"id": 1}}
    with _answering(guest, answers) as path:
        client = Client(path)
        with pytest.raises(AgentVersionError):
            client.status()
        with pytest.raises(AgentVersionError):
            client.outbox(1)
        with pytest.raises(AgentVersionError):
            list(client.inbox())
