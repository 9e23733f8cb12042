"""Commands and programs of somebody who may not read the state: through the socket, whose group lets them in."""

from __future__ import annotations

import grp
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from covey.cli.commands import status as cmd_status
from covey.cli.main import main
from covey.client import Client
from covey.errors import AgentUnreachableError, LocalError, ReadingError
from tests import warm_covey
from tests.integration.gateway import Gateway
from tests.waiting import GUARD_S, wait_until
from tests.warm_covey import COVEY

pytestmark = pytest.mark.broker

NOBODY = 65_534


class Guest:
    """Somebody without a device of their own, who knows a socket. As root, too: not the machine's device."""

    def __init__(self, home: Path, path: Path) -> None:
        self.path = path
        self.client = Client(path)
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("COVEY_")}
        self._environment |= {"HOME": str(home), "XDG_STATE_HOME": str(home), "COVEY_API_SOCKET": str(path)}
        self._environment["COVEY_STATE"] = str(home / "covey")  # where nobody has a device; else root has the machine's

    def covey(self, *words: str, feed: str = "") -> subprocess.CompletedProcess[str]:
        """Run one command without naming a state."""
        return warm_covey.run(words, feed, self._environment)

    def ok(self, *words: str, feed: str = "") -> str:
        """Run one command that must succeed; return what it printed."""
        done = self.covey(*words, feed=feed)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command that reads from a pipe."""
        return subprocess.Popen(
            [*COVEY, *words],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def _served(gateway: Gateway, command: str) -> Guest:
    gateway.ok("config", "set", "api.socket", "api.sock")
    gateway.start(command, "--no-sensors")
    path = gateway.state / "api.sock"
    wait_until(Client(path).answers, "the API listens")
    home = gateway.state.parent / f"home-{gateway.name}"
    home.mkdir()
    return Guest(home, path)


@pytest.fixture
def guests(new_gateway: Callable[[str], Gateway]) -> tuple[Guest, Guest, Gateway, Gateway]:
    """Guests of two agents in one group, the first a collector."""
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create", "--capability", "collector")
    first = _served(one, "collect")
    one.invite(two)
    return first, _served(two, "run"), one, two


def test_commands_go_through_the_agent(guests: tuple[Guest, Guest, Gateway, Gateway]) -> None:
    first, second, one, two = guests
    status = json.loads(second.ok("status", "--json"))
    assert (status["label"], status["agent"]) == ("two", "running")
    assert "device   " in second.ok("status")

    assert second.ok("message", "send", "--text", "hello", "--wait", "300") == "queued 5 bytes for 1 member\n"
    assert json.loads(first.ok("message", "receive", "--wait", "300", "--json"))["author"] == two.author
    assert first.covey("message", "receive").returncode == 1  # forgotten
    for text in ("a", "b", "c"):
        second.ok("message", "send", "--text", text, "--wait", "300")
    assert first.ok("message", "receive", "--all") == "abc"

    lines = '{"n":"t","u":"Cel","v":1}\n{"n":"t","u":"Cel","t":1800000000,"v":2}\n'
    assert json.loads(second.ok("publish", "--wait", "300", "--json", feed=lines)) == {"queued_readings": 2}
    refused = second.covey("publish", feed=lines + "nonsense\n")
    assert refused.returncode == 1
    assert "line 3" in refused.stderr
    assert "2 readings before it are queued" in refused.stderr
    assert two.counters()["published_readings"] == 4

    assert "covey_published_readings_total 4\n" in second.ok("metrics")
    textfile = two.state.parent / "covey.prom"
    second.ok("metrics", "--textfile", str(textfile))
    assert "# TYPE covey_published_readings_total counter\n" in textfile.read_text()

    one.end()
    second.ok("message", "send", "--text", "when you are back")
    waiting = json.loads(second.ok("message", "ls", "--json"))
    assert waiting["shown"][0]["class"] == "data"
    assert second.client.outbox(0)["messages"] >= waiting["messages"] >= 1, "and what it wants to tell others of itself"
    assert re.search(
        r"^[0-9a-f]{8} one +\d+ +data .*\d messages?, \d+ bytes$", second.ok("message", "ls"), re.MULTILINE | re.DOTALL
    )
    one.start("collect", "--no-sensors")
    wait_until(first.client.answers, "the API listens again")

    wait_until(lambda: one.counters().get("landed_messages", 0) >= 2, "telemetry has landed")
    members = json.loads(first.ok("status", "--json"))["members"]
    assert [each["label"] for each in members] == ["two"]
    assert members[0]["last_seen_seconds"] < 120


def test_a_slow_source_keeps_its_times(guests: tuple[Guest, Guest, Gateway, Gateway]) -> None:
    """A reading without a time waits here, and is still timed by the agent's own clock."""
    _, second, _, two = guests
    publishing = second.begin("publish")
    assert publishing.stdin is not None
    publishing.stdin.write(b'{"n":"t","v":1}\n')
    publishing.stdin.flush()
    output, errors = publishing.communicate(b'{"n":"t","v":2}\n', timeout=GUARD_S)
    assert (output, errors) == (b"queued 2 readings\n", b"")
    assert two.counters()["published_messages"] == 1  # one clock, so one batch


def test_the_agent_counts_a_time_that_the_command_cannot_believe(guests: tuple[Guest, Guest, Gateway, Gateway]) -> None:
    _, second, _, two = guests
    queued = second.covey(
        "publish", feed='{"n":"t","v":1,"t":1764435600000}\n{"n":"t","v":2,"t":"2025-11-29T17:00:00"}\n'
    )
    assert (queued.returncode, queued.stdout) == (0, "queued 2 readings\n")
    assert "warning: no usable time, so the time of arrival: 2 readings\n" in queued.stderr
    assert two.counters()["published_times_replaced"] == 2


def test_the_agent_refuses_as_the_command_would(guests: tuple[Guest, Guest, Gateway, Gateway]) -> None:
    _, second, _, two = guests
    words = ("message", "send", "--text", "x", "--group", "beef")
    asked = second.covey(*words)
    two.end()
    assert (asked.returncode, asked.stderr) == (1, two.fails(*words, code=1))


def test_without_an_agent_the_state_itself(guests: tuple[Guest, Guest, Gateway, Gateway]) -> None:
    _, second, _, two = guests
    two.end()
    assert two.json("status")["agent"] == "not running"
    assert two.ok("message", "send", "--text", "waits") == "queued 5 bytes for 1 member\n"
    asked = second.covey("status")
    assert asked.returncode == 78
    assert "there is no device" in asked.stderr
    two.start("run", "--no-sensors")
    two.kill()  # its socket is left behind
    assert two.json("status")["agent"] == "not running"


def test_a_program(guests: tuple[Guest, Guest, Gateway, Gateway]) -> None:
    first, second, one, two = guests
    client = second.client
    assert client.publish([{"n": "t", "v": 1}, {"n": "door", "vb": True}]) == 2
    assert client.publish([{"n": "t", "v": number} for number in range(10)], batch=2) == 10
    assert client.publish([]) == 0
    assert client.publish([{"n": "t", "v": 1, "t": -5}, {"n": "t", "v": 1}]) == 2  # both of this device's clock
    wait_until(lambda: two.queued() == 0, "all is acknowledged")
    assert client.status()["counters"]["published_messages"] == 7
    assert client.metrics().endswith("# EOF\n")

    found = []
    with closing(first.client.inbox(follow_s=60)) as inbox:
        assert client.send(b"\x00\xff") == 1
        found.append(next(inbox))
        assert client.send(b"more") == 1
        found.append(next(inbox))
    assert [blob.body for blob in found] == [b"\x00\xff", b"more"]
    assert found[0].author == two.author
    assert [blob.id for blob in first.client.inbox(after=found[0].id)] == [found[1].id]
    for blob in found:
        first.client.delete(blob.id)
    assert list(first.client.inbox()) == []

    with pytest.raises(ReadingError, match="line 1"):
        client.publish(b"nonsense")
    with pytest.raises(LocalError, match="no group's id begins with") as refused:
        client.send(b"x", group="beef")
    assert refused.value.hint.startswith("--group with one of")
    one.end()
    with pytest.raises(AgentUnreachableError, match="no agent answers"):
        first.client.status()
    assert not first.client.answers()


def test_the_client_refuses_a_socket_that_is_no_agent(tmp_path: Path) -> None:
    path = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer(content: bytes) -> None:
            visitor, _ = server.accept()
            with visitor:
                visitor.recv(65_536)
                visitor.sendall(content)

        for content in (
            b"",
            b"SSH-2.0\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
            b"HTTP/1.1 404 No\r\n\r\n",
        ):
            thread = threading.Thread(target=answer, args=(content,))
            thread.start()
            with pytest.raises(AgentUnreachableError):
                Client(path).status()
            thread.join()


# -- whose the socket is ----------------------------------------------------------------------------------------------


def _visit(path: Path, groups: list[int]) -> bool:
    """Say whether a stranger in these groups can open a socket."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups(groups)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as visitor:
                code = 0 if visitor.connect_ex(str(path)) == 0 else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, 1}
    return code == 0


@pytest.fixture
def run_folder() -> Iterator[Path]:
    """A folder that everybody may enter, as /run/covey would be."""
    folder = Path(tempfile.mkdtemp(prefix="covey-run-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_the_group_may_and_nobody_else(new_gateway: Callable[[str], Gateway], run_folder: Path) -> None:
    gateway = new_gateway("one")
    path = run_folder / "api.sock"
    group = next(each for each in grp.getgrall() if each.gr_gid in {*os.getgroups(), os.getegid()} or os.geteuid() == 0)
    gateway.ok("config", "set", "api.socket", str(path))
    gateway.ok("config", "set", "api.group", group.gr_name)
    gateway.start("run", "--no-sensors")
    wait_until(lambda: path.is_socket() and path.stat().st_mode & 0o777 == 0o660, "the API listens")
    assert path.stat().st_gid == group.gr_gid
    if os.geteuid() == 0:  # only root can be somebody else
        assert _visit(path, [group.gr_gid])
        assert not _visit(path, [])
        assert not _visit(path, [group.gr_gid + 1])
    found = {each["check"]: each for each in gateway.json("check", "--offline")["findings"]}
    assert found["api"]["level"] == "ok"
    run_folder.chmod(0o700)
    if group.gr_gid != run_folder.stat().st_gid:
        found = {each["check"]: each for each in gateway.json("check", "--offline")["findings"]}
        assert found["api"]["level"] == "warning"
        assert f"cannot get through {run_folder}" in found["api"]["line"]


def test_a_group_that_cannot_be(new_gateway: Callable[[str], Gateway]) -> None:
    gateway = new_gateway("one")
    gateway.ok("config", "set", "api.socket", "api.sock")
    gateway.ok("config", "set", "api.group", "no-such-group")
    message = gateway.fails("run", code=78)
    assert "this machine has no group no-such-group" in message
    assert "sudo groupadd no-such-group" in message
    found: Any = json.loads(gateway.covey("check", "--offline", "--json").stdout)["findings"]
    assert [each["hint"] for each in found if each["check"] == "api"] == [message.partition("hint: ")[2].strip()]


def test_a_socket_in_use(new_gateway: Callable[[str], Gateway], run_folder: Path) -> None:
    one, two = new_gateway("one"), new_gateway("two")
    path = run_folder / "api.sock"
    for gateway in (one, two):
        gateway.ok("config", "set", "api.socket", str(path))
    one.start("run", "--no-sensors")
    wait_until(Client(path).answers, "the API listens")
    message = two.fails("run", code=78)
    assert "another program answers on" in message
    assert "covey config set api.socket" in message
    assert Client(path).status()["label"] == "one"
    assert two.json("status")["label"] == "two"  # a command on the second state never asks the first one's agent


def _refusal_to_a_stranger(words: list[str]) -> tuple[int, str]:
    """Run a command as somebody else; return its exit code and stderr. All it needs is loaded: they may not read it."""
    assert callable(cmd_status.run)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(writer, 2)
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - pytest has replaced it
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            code = main(words)
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as reported:
        message = reported.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), message


def test_a_state_of_another_user(run_folder: Path) -> None:
    gateway = Gateway(run_folder, "one")
    words = ["status", "--state", str(gateway.state)]
    if os.geteuid() == 0:
        code, message = _refusal_to_a_stranger(words)
    else:
        gateway.state.chmod(0)
        done = gateway.covey("status")
        code, message = done.returncode, done.stderr
    assert code == 78
    assert message.startswith(f"error: {gateway.state} belongs to another user\nhint: run the command with sudo")


def test_a_socket_of_others(new_gateway: Callable[[str], Gateway], run_folder: Path, monkeypatch: Any) -> None:
    gateway = new_gateway("one")
    path = run_folder / "api.sock"
    gateway.ok("config", "set", "api.socket", str(path))
    gateway.start("run", "--no-sensors")
    wait_until(Client(path).answers, "the API listens")
    monkeypatch.setenv("COVEY_API_SOCKET", str(path))
    monkeypatch.setenv("XDG_STATE_HOME", str(run_folder))
    if os.geteuid() == 0:
        code, message = _refusal_to_a_stranger(["status"])
    else:
        path.chmod(0)
        done = Guest(run_folder, path).covey("status")
        code, message = done.returncode, done.stderr
    assert code == 1
    assert message.startswith(f"error: this user may not open {path}\nhint: add the user to the socket's group")
