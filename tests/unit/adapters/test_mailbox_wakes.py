"""Waking a device: where the mailbox's owner allows it, without a word of what waits, and with an end to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from covey.adapters.mailbox_wakes import WakeCaller
from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import Hook, WakeHook
from covey.errors import ConfigurationError
from tests.dripping_server import dripping_server
from tests.waiting import wait_until

_DEVICE, _NAME = DeviceKey(bytes(range(32))), "00010203 shed"


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[str]]]:
    """A server on this machine, and what it was posted: path and body."""
    posted: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            posted.append(f"{self.path} {body.decode()}")
            self.send_response(302 if self.path.endswith("moved") else 204)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", posted
    server.shutdown()
    server.server_close()


def test_a_webhook_is_called_only_below_what_the_owner_allows(webhook: tuple[str, list[str]]) -> None:
    address, posted = webhook
    said: list[tuple[str, str]] = []
    caller = WakeCaller([f"{address}wake/"], (), lambda level, line: said.append((level, line)))
    climbing = (
        "%2e%2e/other",
        ".%2E/other",
        "%252e%252e/other",
        "%2e%2e%2fother",
        "a/%5c..%5cother",
        "./../other",
        "a\\b",
    )
    for target in (f"{address}wake/{each}" for each in climbing):
        caller.wake(_DEVICE, _NAME, WakeHook(Hook.WEBHOOK, target))
    for target in (f"{address}other", "https://elsewhere.example/wake/", f"{address}wake/../other", "", "wake/"):
        caller.wake(_DEVICE, _NAME, WakeHook(Hook.WEBHOOK, target))
    caller.wake(_DEVICE, _NAME, WakeHook(Hook.PROGRAM, "/bin/sh"))
    caller.wake(_DEVICE, _NAME, WakeHook(Hook.WEBHOOK, f"{address}wake/moved"))
    caller.wake(_DEVICE, _NAME, WakeHook(Hook.WEBHOOK, f"{address}wake/me?x=1"))
    wait_until(lambda: len(posted) == 2)
    assert posted == ["/wake/moved ", "/wake/me?x=1 "], "no content, and no redirection is followed"
    assert said == [("warning", "device 00010203 shed was not woken: 127.0.0.1 answers 302")]


@pytest.mark.slow
@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\nX-Drips: "])
def test_a_webhook_that_answers_byte_by_byte_holds_up_no_other_wake(
    webhook: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch, begins: bytes
) -> None:
    address, posted = webhook
    said: list[str] = []
    monkeypatch.setattr("covey.adapters.mailbox_wakes._SECONDS", 0.2)
    with dripping_server(begins) as port:
        caller = WakeCaller([f"http://127.0.0.1:{port}/", address], (), lambda _level, line: said.append(line))
        caller.wake(_DEVICE, _NAME, WakeHook(Hook.WEBHOOK, f"http://127.0.0.1:{port}/wake"))
        caller.wake(_DEVICE, _NAME, WakeHook(Hook.WEBHOOK, f"{address}wake"))
        wait_until(lambda: bool(posted))
    (line,) = said
    assert line.startswith("device 00010203 shed was not woken: 127.0.0.1 cannot be reached: ")


@pytest.mark.processes
def test_a_wake_program_receives_only_the_key_and_its_failure_is_reported(tmp_path: Path) -> None:
    called, said = tmp_path / "called", list[str]()
    program = tmp_path / "wake"
    program.write_text(f'#!/bin/sh\necho "$@" > {called}\nexit 3\n')
    program.chmod(0o700)
    caller = WakeCaller((), (str(program), "now"), lambda _level, line: said.append(line))
    caller.wake(_DEVICE, _NAME, WakeHook(Hook.PROGRAM, "program"))
    wait_until(lambda: bool(said))
    assert called.read_text().split() == ["now", _DEVICE.hex()]
    assert said == [f"device 00010203 shed was not woken: {program} ended with 3"]


@pytest.mark.parametrize(
    ("webhooks", "program"),
    [
        (("ftp://a/",), ()),
        (("https://a.example",), ()),
        (("http://a.example/",), ()),
        (("https://a:b@c/",), ()),
        ((), ("wake",)),
    ],
)
def test_invalid_wake_hooks_are_refused_at_the_start(webhooks: tuple[str, ...], program: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError):
        WakeCaller(webhooks, program, lambda *_: None)
