"""The local API as a program of another language sees it: HTTP on a socket, a real agent behind it."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import shutil
import signal
import socket
import socketserver
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from covey.client import Client
from demo.device import COVEY
from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.broker


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=GUARD_S)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(str(self._socket_path))


class _Client:
    """One gateway's API."""

    def __init__(self, gateway: Gateway) -> None:
        self.path = gateway.state / "api.sock"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Return status and JSON."""
        connection = _Connection(self.path)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        kind = answer.headers.get_content_type()
        if kind == "application/x-ndjson":
            return answer.status, [json.loads(line) for line in content.splitlines() if line]
        return answer.status, json.loads(content) if kind == "application/json" else content.decode()

    def ok(self, *words: Any, **headers: Any) -> Any:
        """Return the JSON of what must succeed."""
        status, value = self.ask(*words, **headers)
        assert status == 200, value
        return value


def _run(gateway: Gateway, command: str = "run") -> _Client:
    gateway.ok("config", "set", "api.socket", "api.sock")
    gateway.start(command, "--no-sensors")
    wait_until(lambda: gateway.json("status")["relay"]["state"] == "up", "the agent runs")
    client = _Client(gateway)
    wait_until(client.path.is_socket, "its API listens")
    return client


@pytest.fixture
def pair(new_gateway: Callable[[str], Gateway]) -> tuple[_Client, _Client, Gateway, Gateway]:
    """Two agents in one group, the first a collector."""
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create", "--capability", "collector")
    first = _run(one, "collect")
    one.invite(two)
    return first, _run(two), one, two


def test_send_and_receive(pair: tuple[_Client, _Client, Gateway, Gateway]) -> None:
    first, second, _, two = pair
    assert second.ok("POST", "/v1/send", b"\x00one") == {"bytes": 4, "recipients": 1}
    (blob,) = _follow(first, 1)
    assert base64.b64decode(blob["body"]) == b"\x00one"
    assert blob["author"] == two.author
    assert first.ok("GET", "/v1/inbox") == [blob]  # it comes again until it is forgotten
    assert first.ok("GET", f"/v1/inbox?after={blob['id']}") == []
    assert first.ok("DELETE", f"/v1/inbox/{blob['id']}") == {}
    assert first.ok("GET", "/v1/inbox") == []
    assert first.ok("DELETE", f"/v1/inbox/{blob['id']}") == {}


def _follow(client: _Client, count: int, then: Callable[[], object] = lambda: None) -> list[Any]:
    """Return the next blobs of a stream that is open before `then` is done."""
    connection = _Connection(client.path)
    connection.request("GET", "/v1/inbox?follow=60")
    then()
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    found: list[Any] = []
    while len(found) < count:
        line = answer.readline()
        assert line, "the stream ended"
        if line.strip():
            found.append(json.loads(line))
    connection.close()
    return found


def test_a_stream_brings_what_is_to_come(pair: tuple[_Client, _Client, Gateway, Gateway]) -> None:
    first, second, _, _ = pair
    found = _follow(first, 20, lambda: [second.ok("POST", "/v1/send", str(number).encode()) for number in range(20)])
    assert [base64.b64decode(each["body"]).decode() for each in found] == [str(number) for number in range(20)]


def test_clients_at_the_same_time_share_the_loop_and_none_is_lost_or_doubled(
    pair: tuple[_Client, _Client, Gateway, Gateway],
) -> None:
    first, second, _, _ = pair
    bodies = [f"{client}-{number}".encode() for client in range(8) for number in range(10)]

    def send(body: bytes) -> int:
        status, _ = second.ask("POST", "/v1/send?to=nobody" if body.endswith(b"-3") else "/v1/send", body)
        return status

    with ThreadPoolExecutor(8) as clients:
        answers = dict(zip(bodies, clients.map(send, bodies), strict=True))
    refused = {body for body in bodies if body.endswith(b"-3")}
    assert {body for body, status in answers.items() if status == 400} == refused
    assert {body for body, status in answers.items() if status == 200} == set(bodies) - refused
    found = _follow(first, len(bodies) - len(refused))
    assert sorted(base64.b64decode(each["body"]) for each in found) == sorted(set(bodies) - refused)


def test_publish_in_every_format(pair: tuple[_Client, _Client, Gateway, Gateway]) -> None:
    first, second, _, two = pair
    lines = b'{"n":"t","u":"Cel","v":1}\n\n[{"n":"a","v":1},{"n":"b","v":2}]\n'
    assert second.ok("POST", "/v1/publish", lines) == {"queued_readings": 3}
    pack = json.dumps([{"n": "t", "v": 2}]).encode()
    assert second.ok("POST", "/v1/publish", pack, Content_Type="application/senml+json") == {"queued_readings": 1}
    cbor = bytes.fromhex("81a2006174 02fb3ff8000000000000".replace(" ", ""))  # [{0: "t", 2: 1.5}]
    assert second.ok("POST", "/v1/publish", cbor, Content_Type="application/senml+cbor") == {"queued_readings": 1}
    wait_until(lambda: first.ok("GET", "/v1/status")["counters"].get("landed_messages", 0) >= 3, "all has landed")
    wait_until(lambda: two.queued() == 0, "all is acknowledged")
    assert "covey_published_readings_total 5\n" in second.ok("GET", "/v1/metrics")


def test_a_request_that_is_tried_again_queues_nothing_more(pair: tuple[_Client, _Client, Gateway, Gateway]) -> None:
    here, _, _, _ = pair
    key = {"Idempotency-Key": "9f1c"}
    reading = b'{"n":"urn:dev:shed:t","u":"Cel","v":21.5}'
    first = here.ok("POST", "/v1/publish", reading, **key)
    assert here.ok("POST", "/v1/publish", reading, **key) == first == {"queued_readings": 1}
    status, refusal = here.ask("POST", "/v1/send", b"something else", **key)
    assert (status, refusal["error"]) == (409, "idempotency")
    sent = here.ok("POST", "/v1/send", b"photo", **{"Idempotency-Key": "9f1d"})
    assert here.ok("POST", "/v1/send", b"photo", **{"Idempotency-Key": "9f1d"}) == sent


def test_status_is_that_of_the_command(pair: tuple[_Client, _Client, Gateway, Gateway]) -> None:
    first, _, one, _ = pair
    reported, shown = first.ok("GET", "/v1/status"), one.json("status")
    assert {*reported} == {*shown}
    assert (reported["device"], reported["agent"], reported["groups"]) == (shown["device"], "running", shown["groups"])


@pytest.fixture
def alone(new_gateway: Callable[[str], Gateway]) -> Iterator[tuple[_Client, Gateway]]:
    """One agent in no group."""
    gateway = new_gateway("alone")
    yield _run(gateway), gateway
    assert gateway.end() == 0
    assert "Traceback" not in gateway.log.read_text()


def test_mistakes_have_a_code_and_change_nothing(alone: tuple[_Client, Gateway]) -> None:
    client, gateway = alone
    for method, path, body, status, code in [
        ("GET", "/", b"", 404, "http"),
        ("GET", "/v1/send", b"", 405, "http"),
        ("GET", "/v1/status?verbose=1", b"", 400, "usage"),
        ("GET", "/v1/inbox?after=-1", b"", 400, "usage"),
        ("GET", "/v1/inbox?follow=99999999", b"", 400, "usage"),
        ("DELETE", "/v1/inbox/x", b"", 404, "http"),
        ("GET", "/v1/status", b"body", 413, "http"),
        ("POST", "/v1/send", bytes(900_001), 413, "http"),
        ("POST", "/v1/send", b"x", 400, "local"),
        ("POST", "/v1/send?group=beef", b"x", 400, "local"),
        ("POST", "/v1/publish", b"nonsense", 400, "reading"),
    ]:
        reported = client.ask(method, path, body)
        assert (reported[0], reported[1]["error"]) == (status, code), (method, path, reported)
    gateway.ok("group", "create", "--capability", "collector")
    answer = client.ask("POST", "/v1/publish", b'{"n":"t","v":1}\nnonsense\n')
    assert answer[0] == 400
    assert "line 2" in answer[1]["message"]
    assert "published_readings" not in gateway.counters()  # all or nothing


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\xff" * 100,
        b"GET /v1/status HTTP/9.9\r\n\r\n",
        b"GET " + b"x" * 100_000,
        b"POST /v1/send HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/send HTTP/1.1\r\nContent-Length: 5\r\n\r\nx",
        b"POST /v1/send HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"BREW /v1/status HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET /v1/inbox?follow=9 HTTP/1.1\r\n\r\n",
    ],
)
def test_whatever_a_client_says_the_agent_goes_on(alone: tuple[_Client, Gateway], raw: bytes) -> None:
    client, _ = alone
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.connect(str(client.path))
        visitor.sendall(raw)
        visitor.shutdown(socket.SHUT_WR)
    assert client.ok("GET", "/v1/status")["agent"] == "running"


def test_too_many_clients_do_not_shut_out_others_permanently(alone: tuple[_Client, Gateway]) -> None:
    client, _ = alone
    silent = []
    for _ in range(40):
        visitor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        visitor.connect(str(client.path))
        silent.append(visitor)
    for visitor in silent:
        visitor.close()

    def answers() -> bool:
        try:
            return client.ask("GET", "/v1/status")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    wait_until(answers, "there is room again")


def test_the_socket(alone: tuple[_Client, Gateway]) -> None:
    client, gateway = alone
    assert client.path.stat().st_mode & 0o777 == 0o660
    gateway.kill()
    assert client.path.is_socket()  # a power cut leaves it behind
    gateway.start("run", "--no-sensors")

    def answers() -> bool:
        try:
            return bool(client.ok("GET", "/v1/status"))
        except OSError:
            return False

    wait_until(answers, "the next agent takes it over")
    assert gateway.end() == 0
    assert not client.path.exists()
    gateway.start("run", "--no-sensors")
    wait_until(answers, "and so does the one after")


def test_a_socket_that_cannot_be_there(new_gateway: Callable[[str], Gateway]) -> None:
    gateway = new_gateway("one")
    for path, complaint in [
        ("/nowhere/at/all/api.sock", "cannot listen"),
        ("x" * 200, "too long"),
        ("identity.key", "cannot listen"),
    ]:
        gateway.ok("config", "set", "api.socket", path)
        message = gateway.fails("run", code=78)
        assert complaint in message
        assert "covey config set api.socket" in message
    assert gateway.json("status")["device"]  # the key file that was named by mistake is as it was


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
def test_curl(alone: tuple[_Client, Gateway]) -> None:
    client, _ = alone
    done = subprocess.run(
        ["curl", "--silent", "--fail", "--unix-socket", client.path, "http://covey/v1/status"],
        capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["agent"] == "running"


def test_history_and_events(pair: tuple[_Client, _Client, Gateway, Gateway]) -> None:  # accepts: 000.21, 003.24
    first, _, one, two = pair
    agent = Client(first.path)
    events = agent.events("0", types=["operation", "group_changed", "group_removed"])
    joined = next(events)
    assert (joined.type, [each["label"] for each in joined.data["added"]]) == ("group_changed", ["two"])
    one.ok("history", "post", "of one")
    assert next(events).data["text"] == "of one"
    wait_until(lambda: "of one" in two.ok("history"), "what is written next follows it")
    two.ok("history", "post", "of two")
    written = next(events)
    assert (written.type, written.data["text"], written.data["author"]) == ("operation", "of two", two.author)
    assert [each["text"] for each in agent.history()] == ["of one", "of two"]
    assert [each["text"] for each in agent.history(author="two", type="note")] == ["of two"]
    assert first.ask("GET", "/v1/events?after=nothing")[0] == 400
    assert first.ask("GET", "/v1/history?after=nothing")[0] == 400
    assert agent.history_page(limit=1)["next"] is not None

    one.end()  # the agent begins anew: the stream goes on where it was
    one.ok("history", "post", "while nobody answers")
    _run(one, "collect")
    assert next(events).data["text"] == "while nobody answers"
    assert [each.data["text"] for each in agent.events(written.id, types=["operation"], follow_s=0)] == [
        "while nobody answers"
    ]

    removed = Client(two.state / "api.sock").events(types=["group_removed"])
    one.ok("group", "remove", "two", "--yes")
    gone = next(events)
    assert (gone.type, gone.data["removed"][0]["label"], gone.data["epoch"]) == ("group_changed", "two", 2)
    assert next(removed).type == "group_removed"


def test_the_api_sends_and_receives_ephemeral_messages(
    pair: tuple[_Client, _Client, Gateway, Gateway],
) -> None:  # accepts: 003.67
    first, second, one, two = pair
    connection = _Connection(first.path)
    connection.request("GET", "/v1/events?types=ephemeral")
    stream = connection.getresponse()
    assert stream.readline().startswith(b"id: ")
    assert stream.readline() == b"\n"
    assert second.ok("POST", "/v1/ephemeral", b"typing") == {"bytes": 6, "recipients": 1}
    assert "1 member" in two.ok("message", "send", "--ephemeral", "--text", "still typing")
    received: list[Any] = []
    while len(received) < 2:
        name, _, value = stream.readline().partition(b": ")
        received += [json.loads(value)] if name == b"data" else []
    connection.close()
    assert [(each["label"], each["author"], each["text"]) for each in received] == [
        ("two", two.author, "typing"),
        ("two", two.author, "still typing"),
    ]
    assert first.ok("GET", "/v1/inbox") == []
    assert "typing" not in one.ok("history")
    status, refused = second.ask("POST", "/v1/ephemeral", bytes(1_025))
    assert (status, refused["error"]) == (413, "http")
    answers = [second.ask("POST", "/v1/ephemeral", b"spam") for _ in range(40)]
    assert (503, "transient") in {(status, answer.get("error")) for status, answer in answers}


def test_no_event_is_lost_while_a_program_starts_to_follow(tmp_path: Path) -> None:
    """An agent whose device is told something between its saying where the stream is and its end."""
    begun = b"id: 7\n\n"
    meanwhile = b'id: 8\nevent: operation\ndata: {"text": "meanwhile"}\n\n'
    asked: list[str] = []

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Last-Event-ID", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(meanwhile if asked[-1] == "7" else begun + meanwhile)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
            """Say nothing."""

    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "api.sock"), Agent) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        event = next(Client(tmp_path / "api.sock").events())
        server.shutdown()
    assert (event.id, event.data, asked) == ("8", {"text": "meanwhile"}, ["", "7"])


def test_following_a_history_shows_what_comes(pair: tuple[_Client, _Client, Gateway, Gateway]) -> None:
    _, _, one, two = pair
    two.ok("history", "post", "before")
    wait_until(lambda: "before" in one.ok("history"), "it has come")
    words = [*COVEY, "history", "--state", str(one.state), "log", "--follow", "--json", "--author", "two"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert json.loads(following.stdout.readline())["text"] == "before"
        one.ok("history", "post", "of somebody else")
        two.ok("history", "post", "after")
        assert json.loads(following.stdout.readline())["text"] == "after"
        following.send_signal(signal.SIGINT)
        assert following.wait(GUARD_S) == 130
        assert following.stderr.read() == b""


def test_telegraf_and_its_like_write_lines(new_gateway: Callable[[str], Gateway]) -> None:
    """As InfluxDB's clients do: gzip, org and bucket, nothing in the answer, the same lines again after a time-out."""
    collector, gateway = new_gateway("collector"), new_gateway("gateway")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    collector.invite(gateway)
    gateway.ok("config", "set", "api.socket", "api.sock")
    gateway.start("run", "--no-sensors")
    client = _Client(gateway)
    wait_until(client.path.exists, "the agent listens")
    path = "/api/v2/write?org=home&bucket=shed&precision=s"
    lines = gzip.compress(b'weather,room=shed t=21.5,door="open" 1790000000\nweather,room=shed t=22 1790000060\n')
    headers = {"Content_Encoding": "gzip", "Content_Type": "text/plain; charset=utf-8", "Authorization": "Token x"}
    assert client.ask("POST", path, lines, **headers) == (204, "")
    assert client.ask("POST", path, lines, **headers) == (204, "")
    status, refused = client.ask("POST", path, b"weather t=1 1790000120\nno line\nweather t=2 1790000180\n")
    assert (status, refused["error"]) == (400, "reading")
    assert refused["message"].startswith("1 line refused, 2 readings of the others queued: 'no line'")
    assert client.ask("POST", path, b"no gzip", Content_Encoding="gzip")[0] == 400
    assert client.ask("POST", path, lines[:-3], Content_Encoding="gzip")[0] == 400
    assert client.ask("POST", path, lines, Content_Encoding="br")[0] == 415
    bomb = gzip.compress(bytes(8 * 1024 * 1024))
    assert client.ask("POST", path, bomb, Content_Encoding="gzip")[0] == 413
    assert client.ask("POST", "/api/v2/write?precision=h", b"m v=1")[0] == 400
    for _try in range(2):  # without a time nothing but the key tells that it is the same
        assert client.ask("POST", "/api/v2/write", b"m v=1", Idempotency_Key="k1") == (204, "")
    assert client.ask("POST", "/api/v2/write", b"m v=2", Idempotency_Key="k1")[0] == 409
    wait_until(lambda: gateway.counters().get("published_readings") == 6, "each reading is queued once")
    wait_until(lambda: not gateway.queued(), "the collector has them")
    assert "22" in collector.ok("fleet", "gateway")
    published = _write_with_influxdata_own_client(client.path)
    wait_until(lambda: gateway.counters().get("published_readings") == 6 + len(published), "the client's are queued")
    wait_until(lambda: not gateway.queued(), "the collector has them")
    found = {(name, at_us, value): times for (name, _, at_us, value), times in landed(collector).items()}
    assert {each: found.get(each) for each in published} == dict.fromkeys(published, 1)


def _write_with_influxdata_own_client(path: Path) -> list[tuple[str, int, float | bool | str]]:
    """Write what needs quotes and escapes, one at a time and in batches; return (name, time, value) for each field."""
    from influxdb_client.client.exceptions import InfluxDBError
    from influxdb_client.client.influxdb_client import InfluxDBClient
    from influxdb_client.client.write.point import Point
    from influxdb_client.client.write_api import SYNCHRONOUS, WriteOptions
    from influxdb_client.domain.write_precision import WritePrecision
    from influxdb_client.rest import ApiException

    refused: list[InfluxDBError] = []
    with _bridged(path) as url, InfluxDBClient(url, token="any", org="any", enable_gzip=True) as influx:
        influx.write_api(SYNCHRONOUS).write(
            "any",
            record=[
                Point("heat pump")
                .tag("room", "plant, 2=b")
                .field("flow", 7)
                .field("ok", True)
                .time(1_790_000_001_000_000_000),
                Point("heat pump").field("says", 'a "word", \\ and more').time(1_790_000_002, WritePrecision.S),
                {"measurement": "tank", "fields": {"level": -1.5e-3}, "time": "2026-09-21T14:13:23Z"},
            ],
        )
        with influx.write_api(
            WriteOptions(batch_size=3, flush_interval=100),
            error_callback=lambda _conf, _data, error: refused.append(error),
        ) as batches:
            for number in range(10):
                point = Point("tank").field("level", float(number)).time(1_790_000_100 + number, WritePrecision.S)
                batches.write("any", record=point, write_precision=WritePrecision.S)
        assert not refused
        with pytest.raises(ApiException, match="1 line refused"):
            influx.write_api(SYNCHRONOUS).write("any", record="no line")
    at_us = 1_790_000_000_000_000
    return [
        ("heat_x20_pump/room:plant_x2C20_2_x3D_b/flow", at_us + 1_000_000, 7.0),
        ("heat_x20_pump/room:plant_x2C20_2_x3D_b/ok", at_us + 1_000_000, True),
        ("heat_x20_pump/says", at_us + 2_000_000, 'a "word", \\ and more'),
        ("tank/level", at_us + 3_000_000, -1.5e-3),
        *(("tank/level", at_us + (100 + number) * 1_000_000, float(number)) for number in range(10)),
    ]


@contextmanager
def _bridged(path: Path) -> Iterator[str]:
    """Lead a port of this machine to a socket of the file system, as the client speaks to none; yield its address."""

    class Bridge(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as there:
                there.connect(str(path))
                answers = Thread(target=_copy, args=(there, self.request))
                answers.start()
                _copy(self.request, there)
                answers.join(GUARD_S)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Bridge) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(65_536):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
