"""The MQTT adapter against a real broker that is killed, frozen, restricted and impersonated."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from bench.messages import link_meter
from bench.messages.link_meter import Meter
from broker_conf.mosquitto import Broker
from broker_conf.mosquitto.broker import free_port
from covey.adapters.mqtt.lean_paho import paho
from covey.adapters.mqtt.relay import MqttRelay
from covey.adapters.mqtt.settings import CertifiedTime
from covey.errors import ConfigurationError
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayUp, Released
from tests.integration.relay_client import RelayClient
from tests.waiting import Patience, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

NO_SUBSCRIBER = 0x10


def test_carries_bytes_and_tells_the_reason(new_relay_client: Callable[..., RelayClient]) -> None:
    sender, recipient, absent = new_relay_client().up(), new_relay_client().up(), new_relay_client()
    handle = sender.send(recipient, bytes(range(256)))
    assert sender.wait_for(Released) == Released("test", handle, 0)
    delivered = recipient.wait_for(Delivered)
    assert delivered.payload == bytes(range(256))
    assert delivered.topic == recipient.inbox
    handle = sender.send(absent, b"nobody has ever subscribed")
    assert sender.wait_for(Released) == Released("test", handle, NO_SUBSCRIBER)


def test_keeps_order_and_its_window(new_relay_client: Callable[..., RelayClient]) -> None:
    sender, recipient = new_relay_client(window=20).up(), new_relay_client(window=7).up()
    count, sent, released, window_full = 2000, 0, 0, 0
    while released < count:
        while sent < count:
            handle = sender.relay.publish(recipient.inbox, sent.to_bytes(4, "big"))
            if handle is PublishRefusal.WINDOW_FULL:
                window_full += 1
                break
            sent += 1
            assert handle == sent
        assert sender.wait_for(Released).handle == released + 1
        released += 1
    assert window_full > 0
    assert [int.from_bytes(recipient.receive(), "big") for _ in range(count)] == list(range(count))


def test_respects_the_server_s_window_and_packet_size(tmp_path: Path) -> None:
    limits = {"max_inflight_messages": "3", "max_packet_size": "5000"}
    with Broker(tmp_path / "narrow", settings=limits) as broker:
        sender, recipient = RelayClient(broker).up(), RelayClient(broker).up()
        most = sender.maximum_payload
        assert sender.relay.publish(recipient.inbox, bytes(most + 1)) is PublishRefusal.TOO_LARGE
        sender.send(recipient, bytes(most))
        assert sender.wait_for(Released).reason_code == 0
        assert len(recipient.receive()) == most

        os.kill(broker.pid or 0, signal.SIGSTOP)
        taken = [sender.relay.publish(recipient.inbox, b"x") for _ in range(4)]
        os.kill(broker.pid or 0, signal.SIGCONT)
        assert [isinstance(one, int) for one in taken] == [True, True, True, False]
        assert taken[3] is PublishRefusal.WINDOW_FULL
        for _ in range(3):
            sender.wait_for(Released)
        sender.relay.stop()
        recipient.relay.stop()


def test_sends_nothing_of_an_earlier_connection_again(
    broker: Broker, new_relay_client: Callable[..., RelayClient]
) -> None:
    device = new_relay_client().up()
    os.kill(broker.pid or 0, signal.SIGSTOP)
    for _ in range(3):
        device.send(device, b"before")
    broker.kill()
    broker.forget_queue()
    device.wait_for(RelayDown)
    assert device.relay.publish(device.inbox, b"now") is PublishRefusal.OFFLINE
    broker.start()
    assert device.wait_for(RelayUp).session_present is False
    after = device.send(device, b"after")
    assert after == 4
    assert device.wait_for(Released).handle == after
    assert device.receive() == b"after"


def test_an_unacknowledged_delivery_comes_again_and_a_stale_acknowledgement_is_void(
    broker: Broker, new_relay_client: Callable[..., RelayClient]
) -> None:
    device = new_relay_client().up()
    device.send(device, b"first")
    stale = device.wait_for(Delivered)
    for _ in range(2):
        broker.restart()
        repeated = device.wait_for(Delivered)
        assert repeated.payload == b"first"
        assert repeated.token[0] > stale.token[0]
        device.wait_for(RelayUp)
        device.relay.acknowledge(stale)
        stale = repeated
    device.relay.acknowledge(repeated)
    device.send(device, b"second")
    assert device.receive() == b"second"


def test_says_why_it_is_down_and_never_gives_up(tmp_path: Path, broker: Broker, new_relay_client: Any) -> None:
    device = new_relay_client(password="wrong").start()
    for _ in range(2):
        assert device.wait_for(RelayDown).reason == "the server refuses this user name and password"
    device.relay.stop()

    patient = new_relay_client().up()
    broker.kill()
    assert "nothing listens at 127.0.0.1" in patient.wait_for(RelayDown, lambda down: "lost" not in down.reason).reason
    broker.start()
    patient.wait_for(RelayUp)


def test_the_password_is_in_no_text(broker: Broker, new_relay_client: Callable[..., RelayClient]) -> None:
    device = new_relay_client().start()
    up = device.wait_for(RelayUp)
    assert device.password not in f"{device.relay!r} {vars(device.relay)!r} {up!r}"
    assert device.password not in broker.log.read_text()


def test_listens_to_more_for_a_while(broker: Broker, new_relay_client: Callable[..., RelayClient]) -> None:
    device = new_relay_client().up()
    relay, first, second = device.relay, "covey/1/pair/7/a", "covey/1/pair/8/a"

    def reaches(topic: str) -> bool:
        handle = relay.publish(topic, topic.encode())
        released = device.wait_for(Released, lambda released: released.handle == handle)
        if released.reason_code == NO_SUBSCRIBER:
            return False
        delivered = device.wait_for(Delivered)
        relay.acknowledge(delivered)
        return (delivered.topic, delivered.payload) == (topic, topic.encode())

    relay.listen({first})  # the broker answers in order: what is asked now holds for what is published next
    assert [reaches(topic) for topic in (device.inbox, first, second)] == [True, True, False]
    broker.restart()
    device.wait_for(RelayUp)
    assert [reaches(topic) for topic in (device.inbox, first, second)] == [True, True, False]
    relay.listen({second})
    assert [reaches(topic) for topic in (device.inbox, first, second)] == [True, False, True]
    relay.listen(())
    assert [reaches(topic) for topic in (device.inbox, first, second)] == [True, False, False]


def test_ends_what_an_earlier_process_listened_to(new_relay_client: Callable[..., RelayClient]) -> None:
    device, topic = new_relay_client().up(), "covey/1/pair/7/a"
    device.relay.listen({topic})
    device.relay.publish(topic, b"heard")
    assert device.receive() == b"heard"
    device.relay.stop()
    later = new_relay_client(username=device.username, password=device.password, resubscribe_s=0.1).up()

    def reason() -> int:
        handle = later.relay.publish(topic, b"overheard")
        return later.wait_for(Released, lambda released: released.handle == handle).reason_code

    reasons = [reason()]
    patience = Patience()
    while reasons[-1] != NO_SUBSCRIBER:
        assert patience.left
        later.relay.acknowledge(later.wait_for(Delivered))
        reasons.append(reason())
    assert reasons[0] == 0


def test_a_subscription_lost_without_a_word_is_renewed(new_relay_client: Callable[..., RelayClient]) -> None:
    device, sender = new_relay_client(resubscribe_s=0.2).up(), new_relay_client().up()
    connection = device.relay._connection
    assert connection is not None

    def reason() -> int:
        handle = sender.send(device, b"heard")
        return sender.wait_for(Released, lambda released: released.handle == handle).reason_code

    patience = Patience()
    connection._client.unsubscribe(device.inbox)
    while reason() != NO_SUBSCRIBER:  # until the server has none, which the adapter does not know
        assert patience.left
        connection._client.unsubscribe(device.inbox)
    while reason() != 0:
        assert patience.left
    assert device.receive() == b"heard"


def test_more_topics_than_a_server_has_aliases_for(new_relay_client: Callable[..., RelayClient]) -> None:
    sender = new_relay_client().up()
    recipients = [new_relay_client().up() for _ in range(12)]  # mosquitto takes ten aliases
    for turn in (b"first", b"second"):
        for number, recipient in enumerate(recipients):
            sender.send(recipient, turn + bytes([number]))
        for number, recipient in enumerate(recipients):
            assert recipient.receive() == turn + bytes([number])


def test_drops_what_is_too_large_for_it(new_relay_client: Callable[..., RelayClient]) -> None:
    sender, recipient = new_relay_client().up(), new_relay_client(payload_bytes_max=2000).up()
    sender.send(recipient, bytes(2001))  # small enough for the packet size that the recipient announced
    sender.send(recipient, bytes(200_000))  # the broker withholds it
    sender.send(recipient, b"fits")
    assert recipient.receive() == b"fits"
    assert recipient.relay.oversize_dropped == 1
    assert recipient.relay.publish(sender.inbox, bytes(2001)) is PublishRefusal.TOO_LARGE


def test_stop_flushes_acknowledgements_and_keeps_the_session(
    broker: Broker, new_relay_client: Callable[..., RelayClient]
) -> None:
    sender, recipient = new_relay_client().up(), new_relay_client().up()
    sender.send(recipient, b"one")
    recipient.receive()
    recipient.relay.stop()
    assert recipient.relay._thread not in threading.enumerate()
    sender.send(recipient, b"two")
    assert sender.wait_for(Released, lambda released: released.handle == 2).reason_code == 0
    recipient.relay = recipient.another_relay(broker.url)
    assert recipient.start().receive() == b"two"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "did not accept the connection in time"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10, ""),
        (b"\x20\x02\x00\x01", "does not speak MQTT 5"),  # a CONNACK of MQTT 3.1.1: unacceptable protocol version
        (b"\x20\x03\x00\x87\x00", "refuses this user name"),
        (b"\x20\x03\x00\x00\x00\xe0\x02\x8b\x00", "shutting down"),
        (b"\x20\xff\xff\xff\xff\xff", ""),
        (b"\x32\x02\x00\x00", ""),
    ],
)
def test_a_server_that_misbehaves_ends_one_connection_only(answer: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()
        thread = threading.Thread(target=answer_everybody, args=(server, answer, stop))
        thread.start()
        url = f"mqtt://127.0.0.1:{server.getsockname()[1]}"
        down: list[RelayDown] = []
        twice = threading.Event()

        def deliver(event: Any) -> None:
            assert isinstance(event, RelayDown)
            down.append(event)
            if len(down) == 2:
                twice.set()

        relay = MqttRelay(
            "test", url, "user", "password", "inbox", connect_s_max=0.2, retry_s_min=0.01, retry_s_max=0.02
        )
        relay.start(deliver)
        assert twice.wait(10)
        stop.set()
        relay.stop()
        thread.join(10)
        assert reason in down[0].reason
        assert down[0].reason


def answer_everybody(server: socket.socket, answer: bytes, stop: threading.Event) -> None:
    """Accept connections, answer each with the same bytes, and keep it open until the client leaves."""
    server.settimeout(0.05)
    while not stop.is_set():
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        with connection:
            connection.settimeout(2)
            try:
                connection.sendall(answer)
                while connection.recv(1024):
                    pass
            except OSError:
                pass


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1."""
    if not shutil.which("openssl"):
        pytest.skip("needs the openssl command")
    chain, key = tmp_path / "server.crt", tmp_path / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", chain],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return chain, key


def test_tls_is_checked(
    tmp_path: Path, certificate: tuple[Path, Path], new_relay_client: Callable[..., RelayClient]
) -> None:
    chain, _ = certificate
    with Broker(tmp_path / "tls", certificate=certificate) as broker:
        device = new_relay_client()
        password = broker.add_device(device.username)
        device.relay = device.another_relay(broker.url, password=password, ca_file=chain)
        device.up()
        device.send(device, bytes(300_000))  # many TLS records: what is decrypted already must be read too
        assert device.receive() == bytes(300_000)
        device.relay.stop()

        device.relay = device.another_relay(broker.url, password=password)
        assert "is not trusted" in device.start().wait_for(RelayDown).reason
        device.relay.stop()


def test_a_certificate_tells_the_time_and_is_refused_where_it_has_certainly_expired(
    tmp_path: Path, certificate: tuple[Path, Path], new_relay_client: Callable[..., RelayClient]
) -> None:
    chain, _ = certificate
    with Broker(tmp_path / "tls", certificate=certificate) as broker:
        device, certified = new_relay_client(), CertifiedTime()
        password = broker.add_device(device.username)
        device.relay = device.another_relay(broker.url, password=password, ca_file=chain, certified=certified)
        device.up()
        assert abs(certified.begins_s - time.time()) < 86_400
        device.relay.stop()

        in_a_year_s = time.time() + 365 * 86_400
        device.relay = device.another_relay(broker.url, password=password, ca_file=chain, earliest_s=in_a_year_s)
        assert "certificate has expired" in device.start().wait_for(RelayDown).reason
        device.relay.stop()


def test_a_relay_is_used_where_it_is_found_if_its_certificate_is_for_the_url(
    tmp_path: Path, certificate: tuple[Path, Path], new_relay_client: Callable[..., RelayClient]
) -> None:
    chain, _ = certificate
    searches: list[int] = []
    with Broker(tmp_path / "tls", certificate=certificate) as broker:
        device = new_relay_client()
        password = broker.add_device(device.username)
        nowhere, place = free_port(), ("127.0.0.1", int(broker.url.rpartition(":")[2]))

        def find() -> list[tuple[str, int]]:
            searches.append(1)
            return [("127.0.0.1", nowhere), place]

        def relay(host: str) -> MqttRelay:
            url = f"mqtts://{host}:{nowhere}"
            return device.another_relay(url, password=password, ca_file=chain, find=find)

        device.relay = relay("127.0.0.1")
        device.up()
        assert len(searches) == 1
        broker.kill()
        broker.start()
        device.wait_for(RelayUp)
        device.relay.stop()

        device.relay = relay("127.0.0.9")
        device.start()
        assert "127.0.0.9" in device.wait_for(RelayDown, lambda down: "certificate" in down.reason).reason
        device.wait_for(RelayDown, lambda down: "nothing listens" in down.reason)
        device.relay.stop()


@pytest.mark.parametrize(
    "url", ["http://host", "mqtt://", "host:1883", "mqtt://host:port", "mqtt://user:secret@host", "mqtt://host/path"]
)
def test_a_url_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        MqttRelay("test", url, "user", "password", "inbox")
    assert "secret" not in f"{raised.value} {raised.value.hint}"


def test_a_ca_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for file in ("ca.pem", "absent.pem"):
        with pytest.raises(ConfigurationError):
            MqttRelay("test", "mqtts://host", "user", "password", "inbox", ca_file=tmp_path / file)


def test_a_server_that_never_answers_publishes_is_left(
    broker: Broker, new_relay_client: Callable[..., RelayClient]
) -> None:
    device = new_relay_client(keepalive_s=1).up()
    os.kill(broker.pid or 0, signal.SIGSTOP)
    try:
        device.send(device, b"x")
        device.wait_for(RelayDown)
    finally:
        os.kill(broker.pid or 0, signal.SIGCONT)
    device.wait_for(RelayUp)


@pytest.fixture
def meter(broker: Broker, tmp_path: Path) -> Iterator[tuple[Meter, Path]]:
    """Count the packets between a device and the broker; with the file that its certificate is trusted by."""
    chain, key = link_meter.certificate(tmp_path / "tls")
    counting = Meter(broker.port, chain, key)
    yield counting, chain
    counting.close()


def _metered(broker: Broker, meter: tuple[Meter, Path], **options: Any) -> RelayClient:
    device = RelayClient(broker)
    device.relay = device.another_relay(meter[0].url, ca_file=meter[1], **options)
    return device.up()


def test_a_device_that_sends_does_not_ping(
    broker: Broker, meter: tuple[Meter, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(paho, "time_func", lambda: now_s)
    device = _metered(broker, meter, keepalive_s=60)
    for _ in range(5):
        now_s += 50
        device.send(device, b"x")
        device.wait_for(Released)
        device.receive()
    assert meter[0].traffic().counts["ping"] == 0
    now_s += 61
    wait_until(lambda: meter[0].traffic().counts["ping"] == 2, "a silent device has pinged")
    device.relay.stop()
