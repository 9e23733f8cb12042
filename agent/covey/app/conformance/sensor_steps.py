"""The steps of every role, in the order in which a test takes them.

All that relay and peers do here is allowed: relays lose, repeat and forget, and a peer may be of any build. Only the
forgeries are not, and these a device must survive.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, NamedTuple

from covey.adapters.mqtt.watched_relay import RECEIVE_MAXIMUM
from covey.app.conformance.session import StepError
from covey.core.ids import LinkSeq
from covey.core.wire import cbor
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import MessageType
from covey.core.wire.sequences import SequenceSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covey.app.conformance.observer import SeenMessage
    from covey.app.conformance.session import DeviceTest
    from covey.core.crypto import Identity
    from covey.core.wire.message import Message


class ConformanceStep(NamedTuple):
    """A part of a test that decides some checks."""

    run: Callable[[DeviceTest], None]
    about: str
    checks: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Checks whose steps have to come before, as they prepare this one."""


QUIET_S = 2.0
"""How long nothing may come that must not come."""
_CROSSING_S = 0.5
"""How long a copy says nothing, as it may have crossed with acknowledgements: a device that has measured a quick answer
repeats after `RETRY_US_MIN`, a second, and then ever later."""
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
    """Leave a message without a true acknowledgement: it must come again, whatever false ones the device receives.

    All three forgeries come at once, since a device takes long to repeat itself. If it does not, one more message
    without any forgery and one for each of them show why.
    """
    forgeries = {check: forgery for check, forgery in _FORGERIES.items() if test.wants(check)}
    with test.unanswered("resends") as seen:
        repeated = _is_repeated(test, seen, forgeries)
    if repeated or not forgeries:
        _judge_resends(test, seen, repeated=repeated)
        for check in forgeries:
            test.findings.passes(check)
    else:
        _find_what_frees(test, forgeries)
    settled = test.until(lambda: any(each.settled for each in test.seen.sequenced.values()))
    test.pass_time(QUIET_S)
    if settled:
        test.findings.passes("stops", "nothing came again after its acknowledgement")


def _find_what_frees(test: DeviceTest, forgeries: Mapping[str, _Forgery]) -> None:
    with test.unanswered("resends") as seen:
        repeated = _is_repeated(test, seen, {})
    _judge_resends(test, seen, repeated=repeated)
    for check, forgery in forgeries.items():
        if not repeated:
            test.findings.not_seen(check, "it sends nothing again even without a false acknowledgement")
            continue
        with test.unanswered(check) as seen:
            kept = _is_repeated(test, seen, {check: forgery})
            number = seen.message.link_seq
            failed = f"it freed link-seq {number} on {forgery.what}: it never came again"
            test.findings.holds(check, seen=kept, failed=failed)


def _is_repeated(test: DeviceTest, seen: SeenMessage, forgeries: Mapping[str, _Forgery]) -> bool:
    """Acknowledge a message falsely, and say whether the device still sends it again."""
    if forgeries:
        for forgery in forgeries.values():
            test.stranger.send(test.device(), forgery.write(test, seen.message))
        test.until(lambda: not test.seen.owed)
        test.pass_time(_CROSSING_S)
    came = len(seen.times)
    return test.until(lambda: len(seen.times) > came)


def _judge_resends(test: DeviceTest, seen: SeenMessage, *, repeated: bool) -> None:
    number = seen.message.link_seq
    failed = f"it did not send link-seq {number} again within {test.wait_s:.0f} s without an answer"
    test.findings.holds("resends", seen=repeated and not test.findings.failed("one-message"), failed=failed)


class _Forgery(NamedTuple):
    """A false acknowledgement, and how a sentence names it."""

    what: str
    write: Callable[[DeviceTest, Message], bytes]


def _by_stranger(test: DeviceTest, message: Message) -> bytes:
    return _acknowledge(test, message, {message.link_seq: message.raw})


def _wrongly_signed(test: DeviceTest, message: Message) -> bytes:
    signer = test.stranger.identity
    return _acknowledge(test, message, {message.link_seq: message.raw}, author=test.peer.identity, signer=signer)


def _without_imprint(test: DeviceTest, message: Message) -> bytes:
    return _acknowledge(test, message, {}, author=test.peer.identity)


def _acknowledge(test: DeviceTest, message: Message, named: dict[LinkSeq, bytes], **by: Identity) -> bytes:
    device, received = test.device().signing_public, SequenceSet(message.link_seq)
    return test.stranger.acknowledgement(device, message.incarnation, received, named, **by)


_FORGERIES = {
    "stranger-ack": _Forgery("an acknowledgement by a device that is not its recipient", _by_stranger),
    "forged-ack": _Forgery("an acknowledgement with a forged signature", _wrongly_signed),
    "imprint-ack": _Forgery("an acknowledgement that covers it without its imprint", _without_imprint),
}


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
    body = cbor.encode([secrets.token_bytes(8), secrets.token_bytes(32)])
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
    newest = test.seen.last_acknowledgement(test.companion.key, incarnation=test.companion.incarnation)
    found = None if newest is None else newest.acknowledgement
    named = {} if found is None or found.imprints is None else found.imprints
    return named.get(number, imprint_of(test.said)) != imprint_of(test.said)


def _send_garbage(test: DeviceTest) -> None:
    device, companion = test.device(), test.companion
    form = cbor.encode([_UNKNOWN_FORM, secrets.token_bytes(8), secrets.token_bytes(80)])
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
    body = cbor.encode([secrets.token_bytes(8), secrets.token_bytes(32)])
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


DELIVERING: tuple[ConformanceStep, ...] = (
    ConformanceStep(
        _send_telemetry,
        "waiting for telemetry",
        ("telemetry", "envelopes", "fresh-keys", "messages", "addressed", "sends-link"),
    ),
    ConformanceStep(
        _lose_acknowledgements,
        "losing and forging acknowledgements",
        ("resends", "stops", *_FORGERIES),
    ),
    ConformanceStep(_leave_unanswered, "leaving publishes without PUBACK", ("receive-maximum",)),
)
RECEIVING: tuple[ConformanceStep, ...] = (
    ConformanceStep(_add_companion, "adding another member", ("manifests", "acknowledges", "puback")),
    ConformanceStep(_say_twice, "delivering a message twice", ("duplicates",), ("manifests",)),
    ConformanceStep(_say_by_link, "using a link key", ("takes-link",), ("manifests",)),
    ConformanceStep(_say_extended, "using unknown extension keys", ("odd-key", "even-key"), ("manifests",)),
    ConformanceStep(_say_unknown_type, "sending a message of an unknown type", ("unknown-type",), ("manifests",)),
    ConformanceStep(_say_forged, "forging messages", ("wrong-recipient", "forged-message"), ("manifests",)),
    ConformanceStep(_send_garbage, "delivering garbage", ("garbage",), ("manifests",)),
    ConformanceStep(_write_as_stranger, "writing as a stranger", ("non-member",), ("manifests",)),
)
RESTARTS: tuple[ConformanceStep, ...] = (
    ConformanceStep(_restart_relay, "restarting the relay, which forgets everything", ("relay-restart",)),
    ConformanceStep(_kill, "killing the device while a batch waits", ("killed",)),
)
RELAY_RESTART: tuple[ConformanceStep, ...] = (
    ConformanceStep(
        _restart_and_speak, "restarting the relay, which forgets everything", ("relay-restart",), ("manifests",)
    ),
)
LAST: tuple[ConformanceStep, ...] = (
    ConformanceStep(_rotate_key, "replacing the peer's noise key", ("key-rotation",)),
    ConformanceStep(_count, "counting what came", ("sequences", "batch-numbers", "one-message", "presence")),
)
