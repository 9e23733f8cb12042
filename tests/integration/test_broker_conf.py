"""What the committed mosquitto configuration must refuse, tried with a client that has no manners."""

from __future__ import annotations

import queue
import secrets
import stat
from typing import TYPE_CHECKING

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from agent.errors import ConfigurationError, TransientError, UsageError
from agent.ports import Delivered, Released
from broker_conf.mosquitto import Broker
from broker_conf.mosquitto.__main__ import main
from broker_conf.mosquitto.broker import substitute
from tests.integration.conftest import DEADLINE_S, Device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from paho.mqtt.reasoncodes import ReasonCode

pytestmark = pytest.mark.broker


class Client:
    """A plain MQTT 5 client that does whatever it is told."""

    def __init__(self, broker: Broker, client_id: str, username: str | None, password: str | None) -> None:
        self.inbox = f"covey/1/in/{username}"
        self.connects: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.disconnects: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.subscribes: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.publishes: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.messages: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self.paho = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5, reconnect_on_failure=False
        )
        self.paho.username_pw_set(username, password)
        self.paho.on_connect = lambda _c, _d, _flags, reason, _p: self.connects.put(reason)
        self.paho.on_disconnect = lambda _c, _d, _flags, reason, _p: self.disconnects.put(reason)
        self.paho.on_subscribe = lambda _c, _d, _mid, reasons, _p: self.subscribes.put(reasons[0])
        self.paho.on_publish = lambda _c, _d, _mid, reason, _p: self.publishes.put(reason)
        self.paho.on_message = lambda _c, _d, message: self.messages.put((message.topic, bytes(message.payload)))
        self.paho.connect("127.0.0.1", broker.port, clean_start=True)
        self.paho.loop_start()
        self.accepted = self.connects.get(timeout=DEADLINE_S)

    def close(self) -> None:
        """Leave."""
        self.paho.disconnect()
        self.paho.loop_stop()


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., Client]]:
    """Connect clients that are closed at the end."""
    made: list[Client] = []

    def make(client_id: str = "", username: str | None = None, password: str | None = None) -> Client:
        made.append(Client(broker, client_id, username, password))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def stranger(broker: Broker, connect: Callable[..., Client]) -> Client:
    """Someone with a credential of their own and bad intentions."""
    username = secrets.token_hex(32)
    client = connect("", username, broker.add_device(username))
    assert client.accepted.value == 0
    return client


@pytest.mark.parametrize("client_id", ["", "anyone"])
def test_nobody_without_a_credential(
    connect: Callable[..., Client], new_device: Callable[..., Device], client_id: str
) -> None:
    device = new_device()
    assert connect(client_id).accepted.is_failure
    assert connect(client_id, device.username).accepted.is_failure
    assert connect(client_id, device.username, "wrong").accepted.is_failure
    assert connect(client_id, secrets.token_hex(32), device.password).accepted.is_failure


def test_only_the_owner_reads_an_inbox(stranger: Client, new_device: Callable[..., Device]) -> None:
    victim = new_device().up()
    topics = [victim.inbox, "covey/1/in/+", "covey/#", "#", "$SYS/#", f"$share/all/{victim.inbox}"]
    for topic in topics:
        stranger.paho.subscribe(topic, qos=1)
        stranger.subscribes.get(timeout=DEADLINE_S)
    victim.send(victim, b"secret")
    assert victim.receive() == b"secret"
    # The broker delivers in order: what the stranger sees before its own message is all that it got.
    stranger.paho.publish(stranger.inbox, b"sentinel", qos=1)
    assert stranger.messages.get(timeout=DEADLINE_S) == (stranger.inbox, b"sentinel")


@pytest.mark.parametrize("topic", ["covey/1/in", "covey/1/in/a/b", "covey/1/out/a", "$SYS/broker/uptime", "other"])
def test_nothing_but_inboxes_is_written(stranger: Client, topic: str) -> None:
    stranger.paho.publish(topic, b"x", qos=1)
    assert str(stranger.publishes.get(timeout=DEADLINE_S)) == "Not authorized"


def test_a_retained_message_is_refused(stranger: Client, new_device: Callable[..., Device]) -> None:
    stranger.paho.publish(new_device().inbox, b"again and again", qos=1, retain=True)
    assert str(stranger.disconnects.get(timeout=DEADLINE_S)) == "Retain not supported"


def test_an_oversize_message_is_refused(stranger: Client, new_device: Callable[..., Device]) -> None:
    recipient = new_device().up()
    stranger.paho.publish(recipient.inbox, bytes(1_201_024), qos=1)
    stranger.disconnects.get(timeout=DEADLINE_S)
    recipient.send(recipient, bytes(1_200_000))
    assert len(recipient.receive()) == 1_200_000


def test_another_s_client_id_takes_nothing_over(
    broker: Broker, connect: Callable[..., Client], new_device: Callable[..., Device]
) -> None:
    victim, sender = new_device().up(), new_device().up()
    victim.relay.stop()
    sender.send(victim, b"queued while away")
    assert sender.wait_for(Released).reason_code == 0
    username = secrets.token_hex(32)
    thief = connect(victim.username, username, broker.add_device(username))
    assert thief.accepted.value == 0
    victim.relay = victim.another_relay(broker.url)
    assert victim.start().receive() == b"queued while away"
    assert thief.disconnects.empty()


def test_queues_more_than_the_default_thousand_in_order(broker: Broker, new_device: Callable[..., Device]) -> None:
    sender, recipient = new_device(window=1000).up(), new_device().up()
    recipient.relay.stop()
    count = 3000
    for number in range(count):
        while not isinstance(sender.relay.publish(recipient.inbox, number.to_bytes(4, "big")), int):
            sender.wait_for(Released)
    sender.wait_for(Released, lambda released: released.handle == count)
    broker.restart()
    recipient.relay = recipient.another_relay(broker.url)
    recipient.start()
    assert [int.from_bytes(recipient.receive(), "big") for _ in range(count)] == list(range(count))


def test_a_kill_and_a_forgotten_queue_lose_what_was_queued(broker: Broker, new_device: Callable[..., Device]) -> None:
    device = new_device().up()
    device.relay.stop()
    sender = new_device().up()
    sender.send(device, b"lost")
    sender.wait_for(Released)
    broker.kill()
    broker.forget_queue()
    broker.start()
    device.relay = device.another_relay(broker.url)
    device.up()
    device.send(device, b"next")
    assert device.wait_for(Delivered).payload == b"next"


def test_add_device_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broker: Broker, new_device: Callable[..., Device]
) -> None:
    file, name = tmp_path / "passwords", secrets.token_hex(32)
    assert main(["add-device", name, "--passwords", str(file)]) == 0
    first = capsys.readouterr().out.strip()
    assert main(["add-device", secrets.token_hex(32), "--passwords", str(file)]) == 0
    file.chmod(0o640)
    assert main(["add-device", name, "--passwords", str(file)]) == 0
    second = capsys.readouterr().out.split()[-1]
    assert first != second
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert len(file.read_text().splitlines()) == 2
    assert first not in file.read_text()
    assert second not in file.read_text()
    with Broker(tmp_path / "other", settings={"password_file": str(file)}) as other:
        for password, accepted in ((second, True), (first, False)):
            client = Client(other, "", name, password)
            assert client.accepted.is_failure is not accepted
            client.close()


@pytest.mark.parametrize("name", ["", "AB" * 32, "ab" * 31, "ab" * 32 + "\n", "a:" * 32])
def test_a_name_that_is_no_key(tmp_path: Path, name: str, broker: Broker) -> None:
    with pytest.raises(UsageError):
        broker.add_device(name)
    assert main(["add-device", name, "--passwords", str(tmp_path / "passwords")]) == 2
    assert not (tmp_path / "passwords").exists()


def test_options_are_replaced_where_they_stand() -> None:
    text = "# listener 1\nlistener 8883\ncertfile a\nuse_username_as_clientid true\n"
    changed = substitute(text, {"listener": "1 127.0.0.1", "certfile": None})
    assert changed == "# listener 1\nlistener 1 127.0.0.1\nuse_username_as_clientid true\n"
    with pytest.raises(ConfigurationError, match="persistance"):
        substitute(text, {"persistance": "true"})


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = Broker(tmp_path / "broken", settings={"acl_file": "/nowhere"})
    with pytest.raises(TransientError, match="/nowhere"):
        broken.start()
    assert broken.pid is None


def test_a_device_without_its_line_is_shut_out_at_once(tmp_path: Path, broker: Broker, stranger: Client) -> None:
    passwords = tmp_path / "broker" / "passwords"
    kept = [line for line in passwords.read_text().splitlines() if not stranger.inbox.endswith(line[:64])]
    passwords.write_text("\n".join([*kept, ""]))
    broker.add_device(secrets.token_hex(32))  # reloads
    stranger.disconnects.get(timeout=DEADLINE_S)
