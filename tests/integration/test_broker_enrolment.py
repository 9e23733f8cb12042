"""What the account `enrol` may do on the real broker: meet at the rendezvous topics, and nothing else."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from covey.adapters.broker.mosquitto_passwords import ENROLMENT_ACCOUNT, write_account
from tests.integration.mqtt_client import Client
from tests.integration.relay_client import RelayClient
from tests.waiting import take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from broker_conf.mosquitto import Broker

pytestmark = pytest.mark.broker

GRANTED = "Success"
REFUSED = "Not authorized"
NOBODY = "No matching subscribers"

OURS, THEIRS = "covey/1/pair/7/a", "covey/1/pair/7/b"


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., Client]]:
    """Connect clients that are closed at the end."""
    made: list[Client] = []

    def make(username: str, password: str, client_id: str = "") -> Client:
        made.append(Client(broker, client_id, username, password))
        assert made[-1].accepted.value == 0
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def joiner(broker: Broker, connect: Callable[..., Client]) -> Client:
    """Somebody who has the shared password, and nothing else."""
    return connect(ENROLMENT_ACCOUNT, broker.enrolment_password)


@pytest.fixture
def inviter(broker: Broker, connect: Callable[..., Client]) -> Client:
    """Somebody with a device's account."""
    username = secrets.token_hex(16)
    return connect(username, broker.add_device(username))


def test_inviter_and_joiner_meet(inviter: Client, joiner: Client) -> None:
    inviter.subscribe(OURS)
    joiner.subscribe(THEIRS)
    assert joiner.publish(OURS, b"hello") == GRANTED
    assert inviter.next_message() == (OURS, b"hello")
    assert inviter.publish(THEIRS, b"welcome") == GRANTED
    assert joiner.next_message() == (THEIRS, b"welcome")


def test_enrol_writes_to_no_inbox(joiner: Client, new_relay_client: Callable[..., RelayClient]) -> None:
    victim = new_relay_client().up()
    for topic in (victim.inbox, "covey/1/in/enrol", "covey/1/in/x"):
        assert joiner.publish(topic, b"from nobody") == REFUSED
    victim.send(victim, b"sentinel")
    assert victim.receive() == b"sentinel"


def test_enrol_reads_no_inbox(joiner: Client, inviter: Client, new_relay_client: Callable[..., RelayClient]) -> None:
    victim = new_relay_client().up()
    for topic in (victim.inbox, "covey/1/in/enrol", "covey/1/in/+", "covey/#", "#", "+/+/+/+", "$SYS/#"):
        joiner.subscribe(topic)
    victim.send(victim, b"secret")
    assert victim.receive() == b"secret"
    inviter.publish("covey/1/in/enrol", b"to the account itself")
    # The broker delivers in order: what the joiner sees before this is all that it got.
    assert inviter.publish(THEIRS, b"sentinel") == GRANTED
    assert joiner.next_message() == (THEIRS, b"sentinel")


@pytest.mark.parametrize(
    "topic",
    ["covey/1/pair", "covey/1/pair/7", "covey/1/pair/7/a/b", "covey/2/pair/7/a", "covey/1/other", "$SYS/x", "enrol"],
)
def test_nothing_beside_the_rendezvous_topics_is_written(joiner: Client, inviter: Client, topic: str) -> None:
    for client in (joiner, inviter):
        assert client.publish(topic, b"x") == REFUSED


def test_enrol_takes_no_device_over(
    broker: Broker, connect: Callable[..., Client], new_relay_client: Callable[..., RelayClient]
) -> None:
    victim = new_relay_client().up()
    thief = connect(ENROLMENT_ACCOUNT, broker.enrolment_password, client_id=victim.username)
    victim.send(victim, b"still mine")
    assert victim.receive() == b"still mine"
    assert thief.messages.empty()


def test_one_enrolment_connection_at_a_time(broker: Broker, joiner: Client, connect: Callable[..., Client]) -> None:
    second = connect(ENROLMENT_ACCOUNT, broker.enrolment_password, client_id="another")
    take(joiner.disconnects)
    assert second.publish(OURS, b"hello") == NOBODY


def test_another_shared_password(tmp_path: Path, broker: Broker, connect: Callable[..., Client]) -> None:
    write_account(tmp_path / "broker" / "passwords", ENROLMENT_ACCOUNT, "fern otter")
    broker.add_device(secrets.token_hex(16))  # reloads
    refused = Client(broker, "", ENROLMENT_ACCOUNT, broker.enrolment_password)
    assert refused.accepted.is_failure
    refused.close()
    connect(ENROLMENT_ACCOUNT, "fern otter")
