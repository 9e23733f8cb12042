"""What the observer says of each packet and message, written here by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from covey.adapters.mqtt.watched_relay import (
    MAXIMUM_PACKET_BYTES,
    RECEIVE_MAXIMUM,
    ClientConnected,
    ClientLeft,
    ClientPublished,
    ClientSubscribed,
)
from covey.app.conformance.checks import MEMBER, RequirementResults, RequirementVerdict
from covey.app.conformance.observer import SESSION_S, Observer
from covey.core import crypto
from covey.core.ids import GroupId, Incarnation, LinkSeq, inbox_name
from covey.core.presence.status import Presence, State
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.wire import cbor, envelope
from covey.core.wire.message import NO_GROUP, Loss, LossReason, MessageType, write_message
from covey.core.wire.note import write_note
from covey.core.wire.topics import inbox_topic
from tests.fleet import identity

DEVICE, PEER, STRANGER = identity("device"), identity("peer"), identity("stranger")
NAME, INBOX = inbox_name(DEVICE.signing_public), inbox_topic(PEER.signing_public)
GROUP = GroupId(bytes([7]) * 32)
INCARNATION = Incarnation(bytes(8))


class _Seen:
    """An observer, and a device that says what a test writes."""

    def __init__(self) -> None:
        self.results = RequirementResults(MEMBER)
        self.observer = Observer(self.results, GROUP)
        self.observer.reads_for(PEER)
        self.observer.take(ClientConnected(5, NAME, NAME, False, SESSION_S))
        self._chance = count(1)

    def message(self, kind: int, body: bytes, link_seq: int, **other: Any) -> bytes:
        """Return a message of the device's."""
        fields: dict[str, Any] = {
            "identity": DEVICE,
            "recipient": PEER.signing_public,
            "group_id": GROUP,
            "seq": link_seq,
        } | other
        return write_message(
            *(
                fields["identity"],
                MessageType(kind),
                fields["recipient"],
                fields["group_id"],
                INCARNATION,
                fields["seq"],
            ),
            *(LinkSeq(link_seq), 0, body),
        )

    def seal(self, message: bytes, chance: int | None = None) -> bytes:
        """Return a message's envelope; one chance gives one ephemeral key."""
        drawn = (next(self._chance) if chance is None else 1_000 + chance).to_bytes(32)
        return envelope.seal(message, PEER.noise_public, drawn, drawn[:24])

    def publish(self, payload: bytes, topic: str = INBOX, **other: Any) -> None:
        """Publish something as the device."""
        fields: dict[str, Any] = {
            "qos": 1,
            "retain": False,
            "repeated": False,
            "revealing": (),
            "packet_bytes": 200,
            "unanswered": 1,
        }
        self.observer.take(ClientPublished(NAME, topic, payload, **(fields | other)))

    def say(self, kind: int, body: bytes, link_seq: int, **other: Any) -> None:
        """Publish a message."""
        self.publish(self.seal(self.message(kind, body, link_seq, **other)))

    def verdict(self, check: str) -> tuple[RequirementVerdict, str]:
        """Return what became of a check."""
        return next((each.verdict, each.sentence) for each in self.results.all() if each.check.name == check)

    def failed(self) -> dict[str, str]:
        """Return the checks that failed, with their sentences."""
        return {each.check.name: each.sentence for each in self.results.all() if each.verdict.value == "fail"}


@pytest.fixture
def seen() -> _Seen:
    """A device that has connected as it must."""
    return _Seen()


def _batch() -> bytes:
    builder = BatchBuilder()
    builder.add("t", "Cel", 1_000_000, 21.5)
    return builder.body(ClockReading(bytes(8), 1_000_000, 1_790_000_000_000_000, ClockKind.SYNCHRONISED))


def _telemetry(number: int) -> bytes:
    return numbered(number, _batch())


def test_a_device_that_does_everything_right_fails_nothing(seen: _Seen) -> None:
    seen.observer.take(ClientSubscribed(NAME, inbox_topic(DEVICE.signing_public), 1, False))
    seen.say(MessageType.TELEMETRY, _telemetry(1), 1)
    seen.say(MessageType.LINK, cbor.encode([bytes(8), bytes(32)]), 2, group_id=NO_GROUP)
    raw = seen.message(MessageType.TELEMETRY, _telemetry(2), 3)
    seen.publish(seen.seal(raw))
    seen.publish(seen.seal(raw))
    seen.publish(envelope.seal_by_link(raw, bytes(32), bytes(8), 1))
    note = write_note(MessageType.PRESENCE, NO_GROUP, Presence(2, State.HERE, 60, (1,)).to_wire())
    seen.publish(envelope.seal_by_link(note, bytes(32), bytes(8), 2), qos=0)  # it may get lost
    assert seen.failed() == {}
    assert (seen.observer.missing(), seen.observer.missing_batches()) == ("", "")
    passed = {each.check.name for each in seen.results.all() if each.verdict is RequirementVerdict.PASSED}
    assert passed >= {"mqtt", "client-id", "session", "subscription", "publishing", "envelopes", "fresh-keys"}
    assert passed >= {"messages", "addressed", "telemetry", "sends-link"}


def test_reports_of_groups_alone_are_sealed_for_the_signing_key(seen: _Seen) -> None:
    drawn = [next(seen._chance).to_bytes(32) for _ in range(2)]
    key = crypto.sealing_key(PEER.signing_public)
    report = seen.message(MessageType.HEADS, cbor.encode([False, []]), 0, seq=0, group_id=NO_GROUP)
    seen.publish(envelope.seal(report, key, drawn[0], drawn[0][:24]))
    assert seen.failed() == {}
    telemetry = seen.message(MessageType.TELEMETRY, _telemetry(1), 1)
    seen.publish(envelope.seal(telemetry, key, drawn[1], drawn[1][:24]))
    assert "only a HEADS is sealed for a signing key" in seen.failed()["messages"]


@pytest.mark.parametrize(
    ("event", "check", "sentence"),
    [
        (ClientConnected(4, "", "", True, 0), "mqtt", "it speaks version 4 of MQTT's protocol, not 5"),
        (ClientConnected(5, "sensor-1", NAME, False, SESSION_S), "client-id", "client id 'sensor-1'"),
        (ClientConnected(5, NAME.upper(), NAME.upper(), False, SESSION_S), "client-id", "both must name its inbox"),
        (ClientConnected(5, NAME, NAME, True, SESSION_S), "session", "it asked for Clean Start 1"),
        (ClientConnected(5, NAME, NAME, False, 60), "session", "it asked for a Session Expiry of 60 s"),
        (ClientSubscribed(NAME, "covey/1/in/#", 1, False), "subscription", "it subscribed to 'covey/1/in/#'"),
        (ClientSubscribed(NAME, f"covey/1/in/{NAME}", 0, False), "subscription", "with QoS 0"),
        (ClientSubscribed(NAME, f"covey/1/in/{NAME}", 1, True), "subscription", "it asked for retained messages"),
        (ClientLeft(NAME, "MQTT 5 has no property 99"), "mqtt", "it broke MQTT 5: MQTT 5 has no property 99"),
    ],
)
def test_the_observer_judges_subscriptions(seen: _Seen, event: Any, check: str, sentence: str) -> None:
    seen.observer.take(event)
    assert sentence in seen.failed().get(check, "")


def test_the_connection_on_which_a_device_pairs_by_a_code_is_judged(seen: _Seen) -> None:
    connections, subscribed = seen.observer.connections, seen.observer.subscribed
    seen.observer.take(ClientConnected(5, "enrol", "enrol", False, 0))
    seen.observer.take(ClientSubscribed("enrol", "covey/1/pair/42/b", 1, False))
    assert seen.failed() == {}
    assert (seen.observer.connections, seen.observer.subscribed) == (connections, subscribed)
    seen.observer.take(ClientSubscribed("enrol", "covey/1/in/enrol", 1, False))
    assert "which is not its own inbox" in seen.failed()["subscription"]


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (ClientConnected(5, NAME, "enrol", False, 0), "not `enrol`"),
        (ClientConnected(5, "enrol", "enrol", False, SESSION_S), "Clean Start 0 and a Session Expiry of 0"),
        (ClientConnected(5, "enrol", "enrol", True, 0), "Clean Start 0 and a Session Expiry of 0"),
    ],
)
def test_an_enrolment_connection_that_asks_for_something_else_is_named(seen: _Seen, event: Any, sentence: str) -> None:
    seen.observer.take(event)
    assert sentence in seen.failed()["code"]


@pytest.mark.parametrize(
    ("how", "check", "sentence"),
    [
        ({"qos": 0}, "publishing", "it published with QoS 0"),
        ({"retain": True}, "publishing", "it published a retained message"),
        ({"revealing": ("content type",)}, "publishing", "a property that the relay can read: content type"),
        ({"revealing": ("message expiry",)}, "publishing", "a property that the relay can read: message expiry"),
        ({"topic": "sensors/shed"}, "publishing", "it published to 'sensors/shed', which is no inbox"),
        ({"packet_bytes": MAXIMUM_PACKET_BYTES + 1}, "packet-size", f"a packet of {MAXIMUM_PACKET_BYTES + 1} bytes"),
        ({"unanswered": RECEIVE_MAXIMUM + 1}, "receive-maximum", f"it left {RECEIVE_MAXIMUM + 1} publishes unanswered"),
    ],
)
def test_the_observer_judges_publishing(seen: _Seen, how: dict[str, Any], check: str, sentence: str) -> None:
    seen.publish(seen.seal(seen.message(MessageType.TELEMETRY, _telemetry(1), 1)), **how)
    assert sentence in seen.failed().get(check, "")


def _unpadded(seen: _Seen) -> bytes:
    raw = seen.message(MessageType.TELEMETRY, _telemetry(1), 1) + b"\x80"
    nonce, ephemeral = bytes(24), bytes([9]) * 32
    box = crypto.box_seal(raw, nonce, PEER.noise_public, ephemeral)
    return cbor.encode([envelope.SEALED, crypto.scalar_base(ephemeral), nonce, box])


@pytest.mark.parametrize(
    ("write", "check", "sentence"),
    [
        (_unpadded, "envelopes", "refused (malformed): envelope padding"),
        (lambda _: b"readings", "envelopes", "refused (malformed)"),
        (lambda _: envelope.seal_by_link(b"x", bytes(32), bytes(8), 1), "envelopes", "a key that no LINK message"),
        (lambda seen: seen.seal(b"no message"), "messages", "refused (malformed)"),
        (
            lambda seen: seen.seal(seen.message(MessageType.TELEMETRY, _telemetry(1), 1).replace(b"Cel", b"Fah")),
            "messages",
            "does not verify under its author's key",
        ),
        (lambda seen: seen.seal(seen.message(MessageType.TELEMETRY, b"\x80", 1)), "telemetry", "does not decode"),
        (
            lambda seen: seen.seal(seen.message(MessageType.TELEMETRY, _telemetry(1), 1, identity=STRANGER)),
            "addressed",
            "another author than the user name",
        ),
        (
            lambda seen: seen.seal(
                seen.message(MessageType.TELEMETRY, _telemetry(1), 1, recipient=STRANGER.signing_public)
            ),
            "addressed",
            "another recipient than the device whose inbox",
        ),
        (
            lambda seen: seen.seal(seen.message(MessageType.TELEMETRY, _telemetry(1), 1, group_id=NO_GROUP)),
            "addressed",
            "its TELEMETRY names another group",
        ),
        (
            lambda seen: seen.seal(seen.message(MessageType.LINK, cbor.encode([bytes(8), bytes(32)]), 1)),
            "addressed",
            "its LINK names a group",
        ),
        (lambda seen: seen.seal(seen.message(MessageType.ACK, b"\x80", 0)), "messages", "the body of its ACK"),
    ],
)
def test_each_envelope_is_judged(seen: _Seen, write: Callable[[_Seen], bytes], check: str, sentence: str) -> None:
    seen.publish(write(seen))
    assert sentence in seen.failed().get(check, ""), seen.failed()


def test_one_ephemeral_key_for_two_envelopes_is_named(seen: _Seen) -> None:
    raw = seen.message(MessageType.TELEMETRY, _telemetry(1), 1)
    seen.publish(seen.seal(raw, chance=1))
    seen.publish(seen.seal(raw, chance=1), repeated=True)  # MQTT itself repeats a publish
    assert seen.failed() == {}
    seen.publish(seen.seal(raw, chance=1))
    assert seen.failed() == {"fresh-keys": "it used one ephemeral key for two envelopes"}


def test_two_messages_under_one_number_are_named(seen: _Seen) -> None:
    seen.say(MessageType.TELEMETRY, _telemetry(1), 1)
    seen.say(MessageType.TELEMETRY, _telemetry(2), 1)
    assert "two different messages as link-seq 1" in seen.failed()["one-message"]


def test_one_batch_under_two_numbers_is_named(seen: _Seen) -> None:
    seen.say(MessageType.TELEMETRY, _telemetry(1), 1)
    seen.say(MessageType.TELEMETRY, _telemetry(1), 2)
    assert "batch 1 came under link-seq 1 and again under 2" in seen.failed()["batch-numbers"]


def test_a_gap_is_missing_until_a_loss_names_it(seen: _Seen) -> None:
    seen.say(MessageType.TELEMETRY, _telemetry(1), 1)
    seen.say(MessageType.TELEMETRY, _telemetry(3), 3)
    assert "link-seq 2" in seen.observer.missing()
    assert "batch 2" in seen.observer.missing_batches()
    loss = Loss(LossReason.OUTBOX_FULL, ((2, 2),), ((2, 2),))
    seen.say(MessageType.LOSS, loss.to_wire(), 4, group_id=NO_GROUP)
    assert (seen.observer.missing(), seen.observer.missing_batches()) == ("", "")
    assert seen.failed() == {}


def test_the_observer_names_messages_resent_after_their_acknowledgement(seen: _Seen, monkeypatch: Any) -> None:
    raw = seen.message(MessageType.TELEMETRY, _telemetry(1), 1)
    now = [time.monotonic() + 1]
    monkeypatch.setattr("covey.app.conformance.observer.time.monotonic", lambda: now[0])
    seen.publish(seen.seal(raw))
    seen.observer.delivered()
    now[0] += 60
    seen.observer.settle()  # it has not taken what was delivered: the acknowledgement may be that
    seen.publish(seen.seal(raw))
    assert seen.failed() == {}
    seen.observer.owed = 0
    seen.observer.answering_since = now[0] + 1  # it may have been lost until then
    now[0] += 60
    seen.observer.settle()
    seen.publish(seen.seal(raw))
    assert seen.failed() == {}
    now[0] += 60
    seen.observer.settle()
    seen.publish(seen.seal(raw))
    assert "again 60 s after its acknowledgement" in seen.failed()["stops"]
