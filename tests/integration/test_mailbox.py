"""A mailbox between devices that are never there together, through a real broker, and every mistake on it."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.mailbox_wakes import WakeCaller
from covey.client import Client as Covey
from covey.client_async import AsyncClient
from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import Hook, WakeHook
from tests.integration.certificates import make_certificate
from tests.integration.gateway import Gateway
from tests.integration.mqtt_client import Client
from tests.waiting import take, wait_until

pytestmark = pytest.mark.broker

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker whose rules also let a mailbox wake devices, as the documentation says."""
    documented = re.findall(r"`(pattern \w+ covey/1/wake/\S+)`", (_ROOT / "docs/how-to/messages.md").read_text())
    rules = tmp_path / "acl"
    rules.write_text("\n".join([(_ROOT / "broker_conf/mosquitto/acl").read_text(), *documented, ""]))
    with Broker(tmp_path / "broker", settings={"acl_file": str(rules)}) as running:
        yield running


@pytest.fixture
def fleet(new_gateway: Callable[[str], Gateway]) -> list[Gateway]:
    """A mailbox, a laptop and a gateway of one group; the agents of the former two run."""
    post, laptop, shed = devices = [new_gateway(name) for name in ("post", "laptop", "shed")]
    post.ok("group", "create", "--capability", "mailbox")
    post.ok("config", "set", "mailbox.serve", "true")
    post.start("run", "--no-sensors")
    for each in (laptop, shed):
        post.invite(each)
        each.start("run", "--no-sensors")
    wait_until(lambda: all(len(each.json("group", "show")["members"]) == 3 for each in devices), "all know all")
    wait_until(lambda: not any(each.queued() for each in devices), "nothing waits")
    return devices


def _take(device: Gateway, taken: list[str]) -> list[str]:
    """Take what is in a device's inbox to what was taken before."""
    lines = device.ok("message", "receive", "--all", "--json").splitlines()
    taken += [base64.b64decode(json.loads(line)["body"]).decode() for line in lines]
    return taken


def _kept(post: Gateway) -> int:
    blobs: int = post.json("mailbox", "status")["blobs"]
    return blobs


# accepts: 002.03, 002.04, 002.05, 002.06, 002.07, 002.08, 002.09, 002.12, 002.39, 002.40, 002.41
def test_a_laptop_hands_over_is_destroyed_and_the_broker_is_wiped(fleet: list[Gateway], broker: Broker) -> None:
    """Delivered once, in order, long after."""
    post, laptop, shed = fleet
    shed.kill()
    laptop.kill()
    texts = [f"word {number}" for number in range(30)]
    for text in texts:
        laptop.ok("message", "send", "--text", text, "--to", shed.author)
    handed = laptop.json("mailbox", "hand-over", "--wait", "300")
    assert handed == {"handed_over": [shed.author[:8]], "open": []}
    [queue] = [each for each in laptop.json("status")["queues"] if each["recipient"] == shed.author[:8]]
    assert (queue["queued"], queue["kept_by"]) == (30, [post.author[:8]]), "a mailbox's word frees nothing"
    assert "also stored at the mailbox" in laptop.ok("status")
    shutil.rmtree(laptop.state)
    broker.kill()
    broker.forget_queue()
    broker.start()
    assert _kept(post) >= 30
    shed.start("run", "--no-sensors")
    taken: list[str] = []
    wait_until(lambda: len(_take(shed, taken)) >= 30, "what was kept has come")
    assert taken == texts
    wait_until(lambda: _kept(post) == 0, "it is deleted after that")
    assert _take(shed, taken) == texts, "once"


def test_a_message_is_sent_and_handed_over_in_one_step(fleet: list[Gateway]) -> None:  # accepts: 002.05, 002.06
    """By a program through the agent's socket, and by a command that is online for its own time alone."""
    post, laptop, shed = fleet
    shed.kill()
    laptop.kill()
    laptop.ok("config", "set", "api.socket", "api.sock")
    laptop.start("run", "--no-sensors")
    covey = Covey(laptop.state / "api.sock")
    wait_until(covey.answers, "its agent answers")
    covey.send(b"word 0", to="shed")
    assert covey.hand_over("shed") == {"handed_over": [shed.author[:8]], "open": []}

    async def beside() -> dict[str, Any]:
        asked = AsyncClient(laptop.state / "api.sock")
        await asked.send(b"word 1", to="shed", expires_s=3_600)
        return await asked.hand_over()

    assert asyncio.run(beside())["handed_over"] == [shed.author[:8]]
    assert "handed over: messages for" in laptop.ok(
        "message", "send", "--text", "word 2", "--to", "shed", "--hand-over"
    )
    laptop.kill()
    sent = laptop.json("message", "send", "--text", "word 3", "--to", "shed", "--hand-over")
    assert sent == {"bytes": 6, "recipients": 1, "handed_over": [shed.author[:8]], "open": []}
    shutil.rmtree(laptop.state)
    shed.start("run", "--no-sensors")
    taken: list[str] = []
    wait_until(lambda: len(_take(shed, taken)) >= 4, "what was kept has come")
    assert taken == [f"word {number}" for number in range(4)]
    shed.kill()
    post.kill()
    said = shed.fails("message", "send", "--text", "nobody is there", "--hand-over", "--wait", "0.1", code=124)
    assert "no mailbox has answered yet for" in said


def test_a_silent_members_messages_go_through_its_mailbox(fleet: list[Gateway]) -> None:
    post, laptop, shed = fleet
    wait_until(lambda: not any(each.queued() for each in fleet), "nothing else waits")
    shed.kill()
    laptop.ok("message", "send", "--text", "once", "--to", shed.author)
    wait_until(lambda: _kept(post) == 1, "three retries in vain", idle_s=120.0)
    wait_until(lambda: any(each["kept_by"] for each in laptop.json("status")["queues"]), "the laptop has heard of it")
    shed.start("run", "--no-sensors")
    taken: list[str] = []
    wait_until(lambda: _take(shed, taken) == ["once"], "it has come")
    wait_until(lambda: _kept(post) == 0 and not laptop.queued(), "and waits nowhere")
    assert _take(shed, taken) == ["once"]
    assert not any(each["kept_by"] for each in laptop.json("status")["queues"])


def test_a_mailbox_is_seen_checked_and_emptied(fleet: list[Gateway]) -> None:
    post, laptop, shed = fleet
    shed.kill()
    laptop.ok("message", "send", "--text", "kept", "--to", shed.author)
    assert "handed over: messages for" in laptop.ok("mailbox", "hand-over")
    assert "1 envelope" in post.ok("mailbox", "status")
    assert post.json("status")["mailbox"]["blobs"] == 1
    assert "covey_mailbox_blobs 1" in post.ok("metrics")
    checks = {
        each["check"]: each["level"]
        for each in json.loads(post.covey("check", "--offline", "--json").stdout)["findings"]
    }
    assert checks["mailbox"] == "ok"
    assert "no messages stored for" in post.fails("mailbox", "delete", "nobody", code=1)
    assert "cannot be undone" in post.fails("mailbox", "delete", "shed", code=2)
    assert "deleted 1 envelope" in post.ok("mailbox", "delete", "shed", "--yes")
    assert post.json("mailbox", "delete", shed.author[:8], "--yes") == {"deleted": 0}
    assert _kept(post) == 0
    shed.start("run", "--no-sensors")
    taken: list[str] = []
    wait_until(lambda: _take(shed, taken) == ["kept"], "its sender has it still")


def test_mistakes_are_reported(new_gateway: Callable[[str], Gateway]) -> None:
    lone, other = new_gateway("lone"), new_gateway("other")
    lone.fails("mailbox", "hand-over", code=1)
    lone.ok("group", "create")
    assert "not a mailbox in any group" in lone.ok("mailbox", "status")
    lone.start("run", "--no-sensors")
    lone.invite(other)
    wait_until(lambda: len(lone.json("group", "show")["members"]) == 2, "both are in it")
    other.kill()
    lone.ok("message", "send", "--text", "nobody keeps it", "--to", other.author)
    assert "--capability mailbox" in lone.fails("mailbox", "hand-over", code=1)
    lone.ok("config", "set", "mailbox.serve", "true")
    checks = json.loads(lone.covey("check", "--offline", "--json").stdout)["findings"]
    [found] = [each for each in checks if each["check"] == "mailbox"]
    assert (found["level"], "capability mailbox" in found["hint"]) == ("warning", True)
    lone.ok("config", "set", "mailbox.wake", "ftp://nowhere")
    assert "the agent cannot start with this: mailbox.wake" in lone.covey("check", "--offline").stdout
    lone.kill()
    assert "mailbox.wake" in lone.fails("run", "--no-sensors", code=78)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[tuple[str, Path, SimpleQueue[str]]]:
    """An HTTPS server: its address, its certificate, and what it is asked, whole."""
    certificate, key = make_certificate(tmp_path / "webhook", -1, 1)
    asked: SimpleQueue[str] = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.put(f"{self.requestline}\n{self.headers}{body}")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}/", certificate, asked
    server.shutdown()
    server.server_close()


# accepts: 002.15
def test_a_sleeper_is_woken_in_three_ways_that_learn_no_content(
    fleet: list[Gateway], broker: Broker, webhook: tuple[str, Path, SimpleQueue[str]], tmp_path: Path
) -> None:
    """By the mailbox's owner's program, which gets the device's key alone, by a webhook, and by a topic."""
    post, laptop, shed = fleet
    address, certificate, asked = webhook
    unsure: SimpleQueue[str] = SimpleQueue()
    caller = WakeCaller([address], (), lambda _level, line: unsure.put(line))
    caller.wake(DeviceKey(bytes(32)), "shed", WakeHook(Hook.WEBHOOK, address))
    assert take(unsure) == "device shed was not woken: 127.0.0.1 cannot be reached: SSLCertVerificationError"
    called = tmp_path / "called"
    program = tmp_path / "wake"
    program.write_text(f'#!/bin/sh\necho "$#" "$@" >> {called}\n')
    program.chmod(0o700)
    post.ok("config", "set", "mailbox.wake_program", str(program))
    post.ok("config", "set", "mailbox.wake_webhooks", address)
    post.ok("config", "set", "mailbox.wake_topics", "true")
    shed.ok("config", "set", "mailbox.wake", f"program,mqtt,{address}my-shed")
    for each in (post, shed):
        each.kill()
        each.start("run", "--no-sensors")
    wait_until(lambda: post.json("mailbox", "status")["hooks"] == 3, "the hooks are known")
    shed.kill()
    post.kill()
    post.start("run", "--no-sensors", environment={"SSL_CERT_FILE": str(certificate)})
    listener = Client(broker, "listener", shed.account, shed.relay_password)
    assert not listener.subscribe(f"covey/1/wake/{shed.account}").is_failure
    laptop.ok("message", "send", "--text", "secret", "--to", shed.author)
    laptop.ok("mailbox", "hand-over")
    wait_until(lambda: called.exists() and called.read_text().endswith("\n"), "the program was called")
    assert called.read_text().split() == ["1", shed.author]
    request, _, rest = take(asked, "the webhook is called").partition("\n")
    assert request == "POST /my-shed HTTP/1.1"
    assert {line.partition(":")[0] for line in rest.splitlines()} <= {"Host", "Accept-Encoding", "Content-Length", ""}
    assert listener.next_message() == (f"covey/1/wake/{shed.account}", b"")
    listener.close()
