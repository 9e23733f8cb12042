"""Files by the local API: a program puts one, another one gets it, and what stands against it is told."""

from __future__ import annotations

import io
import random
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from covey.client import Client
from covey.errors import CoveyError, LocalError
from covey.limits.content import MAXIMUM_CONTENT_BYTES
from tests.integration.gateway import Gateway
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.broker

_SIZE = 3_000_000


def _run(gateway: Gateway) -> Client:
    gateway.ok("config", "set", "api.socket", "api.sock")
    gateway.start("run", "--no-sensors")
    wait_until((gateway.state / "api.sock").is_socket, "its API listens")
    return Client(gateway.state / "api.sock")


@pytest.fixture
def pair(new_gateway: Callable[[str], Gateway]) -> tuple[Gateway, Gateway]:
    """Two devices of one group."""
    hub, shed = new_gateway("hub"), new_gateway("shed")
    hub.ok("group", "create")
    hub.start("run", "--no-sensors")
    hub.invite(shed)
    hub.kill()
    return hub, shed


# accepts: 003.69, 003.71, 003.75
def test_one_program_puts_a_file_and_another_one_reads_it(pair: tuple[Gateway, Gateway], tmp_path: Path) -> None:
    """As a program does it."""
    hub, shed = (_run(each) for each in pair)
    content = random.Random(5).randbytes(_SIZE)
    path = tmp_path / "model v2.bin"
    path.write_bytes(content)
    put = hub.content.put(path)
    assert (put["name"], put["size"], put["state"], put["pinned"]) == (path.name, _SIZE, "here", True)
    wait_until(lambda: bool(shed.content.ls()), "it is offered there")
    assert shed.content.ls()[0]["state"] == "offered"
    with pytest.raises(LocalError, match="has not arrived yet"):
        next(shed.content.get(path.name, wait_s=0))
    states = [*shed.content.fetch(path.name, pin=True)]
    assert states[-1]["state"] == "here"
    assert states[-1]["fetched"] == _SIZE + 16
    assert [each["fetched"] for each in states] == sorted(each["fetched"] for each in states)
    parts = [*shed.content.get(path.name)]
    assert b"".join(parts) == content
    assert max(map(len, parts)) <= 65_536
    wait_until(lambda: bool(hub.content.show(put["id"])["held_by"]), "the author hears of it")
    assert shed.content.waiting() == []
    assert shed.content.show(put["hash"][:8])["file"]["pinned"]
    shed.content.pin(path.name, pinned=False)
    assert not shed.content.ls()[0]["pinned"]
    with pytest.raises(LocalError, match="no other device is known"):
        shed.content.delete(path.name)
    shed.content.delete(path.name, force=True)
    assert shed.content.ls()[0]["state"] == "offered"
    assert not list(pair[1].state.glob("state.content/*"))


def test_bytes_and_open_files_need_a_name_and_leave_nothing_behind(pair: tuple[Gateway, Gateway]) -> None:
    hub = _run(pair[0])
    assert hub.content.put(b"", "nothing")["size"] == 0
    assert b"".join(hub.content.get("nothing")) == b""
    opened = io.BytesIO(b"header and body")
    opened.seek(11)
    hub.content.put(opened, "body")
    assert b"".join(hub.content.get("body")) == b"body"
    for name in ("../x", "a/b", "..", None):
        with pytest.raises(CoveyError):
            hub.content.put(b"x", name)
    with pytest.raises(LocalError, match="no file matches"):
        hub.content.show("a/b?c")
    with pytest.raises(CoveyError):
        hub.content.put(io.BytesIO(bytes(MAXIMUM_CONTENT_BYTES + 1)), "huge")
    assert len(hub.content.ls()) == 2
    assert not list(pair[0].state.glob("state.content/.*"))


def test_a_put_that_breaks_off_offers_nothing_and_lets_the_next_one_begin(pair: tuple[Gateway, Gateway]) -> None:
    hub = _run(pair[0])
    with ExitStack() as visitors:

        def is_busy() -> bool:
            """Begin one more, as one that comes while another is put is refused."""
            visitor = visitors.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            visitor.settimeout(GUARD_S)
            visitor.connect(str(pair[0].state / "api.sock"))
            visitor.sendall(
                b"POST /v1/content?name=half HTTP/1.1\r\nHost: covey\r\nContent-Length: 1000000\r\n\r\nhalf"
            )
            try:
                hub.content.put(b"whole", "whole")
            except CoveyError as error:
                return error.code == "transient"
            return False

        wait_until(is_busy, "one file is put at a time")

    def is_put() -> bool:
        try:
            hub.content.put(b"whole", "last")
        except CoveyError:
            return False
        return True

    wait_until(is_put, "the next one has its turn")
    assert "half" not in {each["name"] for each in hub.content.ls()}
    assert not list(pair[0].state.glob("state.content/.*"))
