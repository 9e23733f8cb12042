"""The steps of every role, in the order in which a test takes them.

All that relay and peers do here is allowed: relays lose, repeat and forget, and a peer may be of any build. Only the
forgeries are not, and these a device must survive.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from covey.adapters.mqtt.watched_relay import RECEIVE_MAXIMUM
from covey.app.conformance.session import StepError
from covey.core.ids import LinkSeq
from covey.core.wire import cbor
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import MessageType
from covey.core.wire.sequences import SequenceSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.app.conformance.session import DeviceTest
    from covey.core.wire.message import Message

QUIET_S = 2.0
"""How long nothing may come that must not come."""
_HOLD_S = 6.0
"""How long the relay leaves publishes unanswered, to see whether the device keeps to its Receive Maximum."""
_ODD_KEY, _EVEN_KEY = 60_001, 60_002
"""Extension keys that no build knows."""
_UNKNOWN_TYPE = 0xEE
_UNKNOWN_FORM = 9


def _send_telemetry(test: DeviceTest) -> None:
    enough = test.until(lambda: len(test.seen.batches) >= 2)
    if not enough:
        count = len(test.seen.batches)
        test.findings.fails(
            "telemetry", f"it sent {count} batches within {test.wait_s:.0f} s; have it measure every second"
        )


def _lose_acknowledgements(test: DeviceTest) -> None:
    """Lose what the peers say until a message came again; then answer, and see that it stops."""
    with test.unanswered("resends") as seen:
        came = len(seen.times)
        came_twice = test.until(lambda: len(seen.times) > came)
        wait = f"it did not send link-seq {seen.message.link_seq} again within {test.wait_s:.0f} s without an answer"
        test.findings.holds("resends", seen=came_twice and not test.findings.failed("one-message"), failed=wait)
    settled = test.until(lambda: any(each.settled for each in test.seen.sequenced.values()))
    test.pass_time(QUIET_S)
    if settled:
        test.findings.passes("stops", "nothing came again after its acknowledgement")


def _forge_acknowledgements(test: DeviceTest) -> None:
    """Acknowledge falsely what the device waits for, in three ways; it must send it again each time."""
    peer, own, other = test.peer.identity, test.peer.key, test.stranger

    def strangers(message: Message, received: SequenceSet) -> bytes:
        named = {message.link_seq: message.raw}
        return other.acknowledgement(test.device().signing_public, message.incarnation, received, named)

    def forged(message: Message, received: SequenceSet) -> bytes:
        named = {message.link_seq: message.raw}
        device = test.device().signing_public
        return other.acknowledgement(device, message.incarnation, received, named, author=peer, signer=other.identity)

    def unnamed(message: Message, received: SequenceSet) -> bytes:
        device = test.device().signing_public
        return other.acknowledgement(device, message.incarnation, received, {}, author=peer)

    for check, make, what in (
        ("stranger-ack", strangers, "an acknowledgement by a device that is not its recipient"),
        ("forged-ack", forged, "an acknowledgement with a forged signature"),
        ("imprint-ack", unnamed, "an acknowledgement that covers it without its imprint"),
    ):
        with test.unanswered(check) as seen:
            message = seen.message
            received = SequenceSet(message.link_seq)
            other.send(test.device(), make(message, received))
            test.until(lambda: not test.seen.owed)
            test.pass_time(QUIET_S / 2)  # a copy that crossed with the acknowledgement says nothing
            came = len(seen.times)
            came_twice = test.until(lambda seen=seen, came=came: len(seen.times) > came)  # type: ignore[misc]
            test.findings.holds(
                check, seen=came_twice, failed=f"it freed link-seq {message.link_seq} on {what}: it never came again"
            )
        assert message.recipient == own


def _leave_unanswered(test: DeviceTest) -> None:
    """Leave publishes without PUBACK for a while, so that the window of the device fills."""
    test.seen.held_publishes = 0
    test.relay.holds_answers = True
    test.until(lambda: test.seen.held_publishes > RECEIVE_MAXIMUM, _HOLD_S)
    test.relay.holds_answers = False
    most = test.seen.held_publishes
    if most and not test.findings.failed("receive-maximum"):
        test.findings.passes("receive-maximum", f"at most {most} publishes were unanswered")


def _add_companion(test: DeviceTest) -> None:
    """Let another member in: the next manifest, and whose messages the device has to take from then on."""
    test.add_member(test.companion.member("conformance companion"))
    found = test.say_link()
    failed = "it did not acknowledge a message of the member that the newest manifest lets in"
    if not test.findings.holds("manifests", seen=found is not None, failed=failed):
        raise StepError


def _say_twice(test: DeviceTest) -> None:
    test.say_link()
    after = time.monotonic()
    test.companion.deliver(test.device().signing_public, test.envelope)
    came_twice = test.acknowledged(test.companion.last, after)
    failed = "it did not acknowledge a message again that was delivered twice"
    test.findings.holds("duplicates", seen=came_twice is not None, failed=failed)


def _say_by_link(test: DeviceTest) -> None:
    tag, key = test.link_key
    found = test.say_link(link=(tag, key, 1))
    failed = "it did not acknowledge a message in a link envelope, under a key that it had acknowledged"
    test.findings.holds("takes-link", seen=found is not None, failed=failed)


def _say_extended(test: DeviceTest) -> None:
    found = test.say_link(extensions={_ODD_KEY: "ignore me"})
    if found is None:
        test.findings.fails("odd-key", "it did not acknowledge a message with an unknown odd extension key")
    else:
        refused = test.companion.last in found.unsupported
        failed = "it called a message unsupported for an odd extension key, which it may ignore"
        test.findings.holds("odd-key", seen=not refused, failed=failed)
    found = test.say_link(extensions={_EVEN_KEY: "understand me"})
    if found is None:
        test.findings.fails("even-key", "it did not acknowledge a message with an unknown even extension key")
    else:
        named = test.companion.last in found.unsupported
        failed = "it took a message with an unknown even extension key as if it had understood it"
        test.findings.holds("even-key", seen=named, failed=failed)


def _say_unknown_type(test: DeviceTest) -> None:
    companion, device = test.companion, test.device()
    companion.last = LinkSeq(companion.last + 1)
    message = companion.write(_UNKNOWN_TYPE, device.signing_public, b"\x80", companion.last, group_id=test.group_id)
    for time_ in ("", " when it came again"):
        after = time.monotonic()
        companion.send(device, message)
        found = test.acknowledged(companion.last, after)
        if found is None:
            test.findings.fails("unknown-type", f"it did not acknowledge a message of an unknown type{time_}")
            return
        named = companion.last in found.unsupported
        failed = f"its acknowledgement does not name a message of an unknown type as unsupported{time_}"
        test.findings.holds("unknown-type", seen=named, failed=failed)


def _say_forged(test: DeviceTest) -> None:
    """Say the next number falsely, then truly: the device must hold the true one."""
    companion, stranger, device = test.companion, test.stranger, test.device()
    key = device.signing_public
    body = cbor.encode([secrets.token_bytes(16), secrets.token_bytes(32)])
    link = int(MessageType.LINK)
    for check, recipient, signer, what in (
        ("wrong-recipient", stranger.key, None, "that names another recipient"),
        ("forged-message", key, stranger.identity, "that another key signed"),
    ):
        number = LinkSeq(companion.last + 1)
        companion.send(device, companion.write(link, recipient, body, number, signer=signer))
        test.pass_time(QUIET_S / 2)
        found = test.say_link()
        wrong = _has_acknowledged_other(test, number)
        failed = f"it took a message {what}: it holds that one under its number"
        test.findings.holds(check, seen=found is not None and not wrong, failed=failed)


def _has_acknowledged_other(test: DeviceTest, number: LinkSeq) -> bool:
    newest = test.seen.last_acknowledgement(test.companion.key)
    found = None if newest is None else newest.acknowledgement
    named = {} if found is None or found.imprints is None else found.imprints
    return named.get(number, imprint_of(test.said)) != imprint_of(test.said)


def _send_garbage(test: DeviceTest) -> None:
    device, companion = test.device(), test.companion
    form = cbor.encode([_UNKNOWN_FORM, secrets.token_bytes(16), secrets.token_bytes(80)])
    cut = test.envelope[: len(test.envelope) // 2]
    for payload in (b"", b"no envelope", secrets.token_bytes(300), form, cut):
        companion.deliver(device.signing_public, payload)
    connections = test.seen.connections
    taken = test.until(lambda: not test.seen.owed)
    found = test.say_link()
    wrong = (
        "it did not go on after bytes that are no envelope"
        if found is None
        else "it lost its connection over bytes that are no envelope"
        if test.seen.connections > connections
        else "it left bytes that are no envelope without PUBACK, so that the relay delivers them again and again"
    )
    right = found is not None and taken and test.seen.connections == connections
    test.findings.holds("garbage", seen=right, failed=wrong)


def _write_as_stranger(test: DeviceTest) -> None:
    stranger, device = test.stranger, test.device()
    body = cbor.encode([secrets.token_bytes(16), secrets.token_bytes(32)])
    stranger.send(device, stranger.write(MessageType.LINK, device.signing_public, body, LinkSeq(1)))
    test.pass_time(QUIET_S)
    if test.say_link() is not None and not test.findings.failed("non-member"):
        test.findings.passes("non-member", "it answered no stranger")


def restart_relay(test: DeviceTest) -> None:
    """Restart the relay, and wait until the device is back.

    Raises:
        StepError: it is not back in time.
    """
    seen = test.seen
    connections, subscribed = seen.connections, seen.subscribed
    test.relay.restart()
    back = test.until(lambda: seen.connections > connections and seen.subscribed > subscribed)
    if not test.findings.holds(
        "relay-restart",
        seen=back,
        failed=f"it did not connect and subscribe again within {test.wait_s:.0f} s after the relay restarted",
    ):
        raise StepError


def _restart_and_speak(test: DeviceTest) -> None:
    restart_relay(test)
    if test.say_link() is None:
        test.findings.fails("relay-restart", "it acknowledged nothing more after the relay had restarted")


def _restart_relay(test: DeviceTest) -> None:
    published = len(test.seen.batches)
    restart_relay(test)
    if not test.until(lambda: len(test.seen.batches) > published):
        test.findings.fails("relay-restart", "it sent nothing more after the relay had restarted")


def _kill(test: DeviceTest) -> None:
    """Kill the device while a batch waits for its acknowledgement; it must come again, with the same bytes."""
    with test.unanswered("killed") as seen:
        test.pass_time(QUIET_S / 2)  # so that the relay has answered: a device that trusts its PUBACK has forgotten
        connections = test.seen.connections
        test.restart_program()
        if not test.connects_after(connections):
            test.findings.not_seen("killed", "it was not started again")
            raise StepError
        came_twice = test.until(lambda: seen.times[-1] > test.seen.connected_at)
        number = seen.message.link_seq
        test.findings.holds(
            "killed", seen=came_twice, failed=f"link-seq {number} was not acknowledged, and is gone after SIGKILL"
        )
    if test.findings.failed("one-message"):
        test.findings.fails("killed", "it sent another message under a number that it had used before SIGKILL")


def _rotate_key(test: DeviceTest) -> None:
    old = test.peer.identity.noise_public
    test.peer.rotate()
    new, device = test.peer.identity.noise_public, test.device().signing_public
    test.until(lambda: not test.peer.waits_for(device))
    after = time.monotonic()

    def sealed() -> set[bytes | None]:
        mine = [each for each in test.seen.received if each.message.recipient == test.peer.key]
        return {each.sealed_for for each in mine}

    changed = test.until(lambda: new in sealed())
    test.findings.holds(
        "key-rotation", seen=changed, failed="it did not seal for the peer's new noise key after the manifest"
    )
    test.pass_time(QUIET_S)
    if changed and any(
        each.sealed_for == old and each.at > after + QUIET_S and each.message.recipient == test.peer.key
        for each in test.seen.received
    ):
        test.findings.fails("key-rotation", "it still seals for the peer's old noise key")


def _count(test: DeviceTest) -> None:
    """Wait until the device's numbers are whole: all that it counted has come, or a LOSS names it."""
    test.until(lambda: not test.seen.missing() and not test.seen.missing_batches(), 2 * test.wait_s)
    test.findings.holds("sequences", seen=not test.seen.missing(), failed=test.seen.missing())
    test.findings.holds("batch-numbers", seen=not test.seen.missing_batches(), failed=test.seen.missing_batches())
    test.findings.passes("one-message", "no number stood for two messages")
    if any(each.message.type is MessageType.PRESENCE for each in test.seen.received):
        test.findings.passes("presence", "it sent PRESENCE")


Step = tuple["Callable[[DeviceTest], None]", str]

DELIVERING: tuple[Step, ...] = (
    (_send_telemetry, "waiting for telemetry"),
    (_lose_acknowledgements, "losing acknowledgements"),
    (_forge_acknowledgements, "forging acknowledgements"),
    (_leave_unanswered, "leaving publishes without PUBACK"),
)
RECEIVING: tuple[Step, ...] = (
    (_add_companion, "adding another member"),
    (_say_twice, "delivering a message twice"),
    (_say_by_link, "using a link key"),
    (_say_extended, "using unknown extension keys"),
    (_say_unknown_type, "sending a message of an unknown type"),
    (_say_forged, "forging messages"),
    (_send_garbage, "delivering garbage"),
    (_write_as_stranger, "writing as a stranger"),
)
RESTARTS: tuple[Step, ...] = (
    (_restart_relay, "restarting the relay, which forgets everything"),
    (_kill, "killing the device while a batch waits"),
)
RELAY_RESTART: tuple[Step, ...] = ((_restart_and_speak, "restarting the relay, which forgets everything"),)
LAST: tuple[Step, ...] = (
    (_rotate_key, "replacing the peer's noise key"),
    (_count, "counting what came"),
)
