"""The steps of a gateway: a board on its line, whose envelopes it carries up and down.

The other member of the group is that board. It writes its own messages for the peer, its collector, and so shows that
the gateway forwards what it can neither read nor forge.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from covey.app.conformance.collector_steps import write_batch
from covey.app.conformance.sensor_steps import QUIET_S, ConformanceStep
from covey.app.conformance.session import StepError
from covey.core import crypto
from covey.core.actions.results import CommandState, OrderResult
from covey.core.group.manifest import BOARD, Member
from covey.core.history.orders import ONCE_BYTES, CommandOrder
from covey.core.ids import INCARNATION_BYTES, Incarnation, LinkSeq
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.routing.forwarding import Forward
from covey.core.wire import cbor
from covey.core.wire.envelope import SealedEnvelope, read_envelope, seal_by_link
from covey.core.wire.message import Acknowledgement, MessageType, read_message
from covey.errors import RemoteError
from covey_boards.shared.line_orders import OPERATORS, ORDER, RESULT, SLEEP
from covey_boards.shared.messages import CARRY, DELIVER, ENROL, IDENTIFY, TIME

if TYPE_CHECKING:
    from covey.app.conformance.peers import Companion
    from covey.app.conformance.session import DeviceTest
    from covey.core.history.operation import Operation
    from covey.core.ids import DeviceKey

_BOARD_DOMAIN, _RESULT_DOMAIN = b"covey/1 board", b"covey/1 board result"
_SOFTWARE = "conformance 1"
_NO_COLLECTOR = bytes(32)
_CLOCK_US = 60_000_000
"""How far the gateway's clock may be off the test's, which usually is the same."""
_KEPT = 4
"""Messages of one author that wait for a board."""
_SLEEP_MS = 600_000


# -- what the board says and hears -------------------------------------------------------------------------------------


def _identify(test: DeviceTest, collector: bytes, signer: crypto.Identity | None = None) -> int:
    own = test.other.identity
    proof = crypto.sign(_BOARD_DOMAIN, own.noise_public, signer or own)
    return test.line.say(IDENTIFY, own.signing_public, own.noise_public, proof, collector, _SOFTWARE)


def _next_batch(test: DeviceTest) -> tuple[LinkSeq, bytes]:
    """Return the board's next message for its collector, and its number."""
    number = test.other.last = LinkSeq(test.other.last + 1)
    body = write_batch(number)
    return number, test.other.write(MessageType.TELEMETRY, test.peer.key, body, number, group_id=test.group_id)


def _carry(test: DeviceTest, envelope: bytes, recipient: DeviceKey | None = None) -> bool:
    """Have the gateway carry an envelope; return whether it acknowledged that on the line."""
    number = test.line.say(CARRY, recipient or test.peer.key, envelope)
    return test.until(lambda: test.line.was_taken(number))


def _forwards(test: DeviceTest, recipient: DeviceKey) -> list[Forward]:
    """Return what the gateway has forwarded to a device, in the group of all three."""
    found: list[Forward] = []
    for each in test.seen.received:
        if each.message.type is MessageType.FORWARD and each.message.recipient == recipient:
            try:
                found.append(Forward.from_wire(each.message.body))
            except RemoteError as error:
                test.findings.fails("carries", f"the body of its FORWARD was refused ({error.code}): {error}")
            if not each.message.link_seq:
                test.findings.fails("carries", "its FORWARD to the collector has no link-seq, so that it may be lost")
    return found


def _was_forwarded(test: DeviceTest, envelope: bytes) -> bool:
    wanted = Forward(test.peer.key, envelope)
    return test.until(lambda: wanted in _forwards(test, test.peer.key))


def _delivered(test: DeviceTest, after: float) -> list[bytes]:
    """Return the messages that came down to the board after a moment, opened."""
    found: list[bytes] = []
    for (raw,) in test.line.after(after, DELIVER):
        assert isinstance(raw, bytes)
        try:
            envelope = read_envelope(raw)
            if isinstance(envelope, SealedEnvelope):
                found.append(envelope.open(test.other.identity.noise.current.secret.reveal()))
        except RemoteError as error:
            test.findings.fails("delivers", f"it handed down an envelope that was refused ({error.code}): {error}")
    return found


def _send_down(test: DeviceTest, author: Companion, envelope: bytes) -> None:
    """Have a device send the gateway an envelope for the board."""
    device = test.device()
    body = cbor.encode([test.other.key, envelope])
    author.send(device, author.write(MessageType.FORWARD, device.signing_public, body, LinkSeq(0)))


def _blob(test: DeviceTest, author: Companion, size: int) -> tuple[bytes, bytes]:
    """Return a message for the board, and its envelope."""
    body = secrets.token_bytes(size)
    message = author.write(MessageType.BLOB, test.other.key, body, LinkSeq(1), group_id=test.group_id)
    return message, author.sealed(message, test.other.identity.keys)


# -- the steps ---------------------------------------------------------------------------------------------------------


def _meet(test: DeviceTest) -> None:
    up = test.until(lambda: test.line.ups > 0)
    failed = "the line did not come up: it did not answer HELLO with one that names the board's boot id"
    if not test.findings.holds("line", seen=up, failed=failed):
        raise StepError
    number = _identify(test, _NO_COLLECTOR, test.stranger.identity)
    taken = test.until(lambda: test.line.was_taken(number))
    test.pass_time(QUIET_S)
    believed = bool(test.line.after(0.0, TIME))
    failed = "it answered an IDENTIFY whose proof another key signed" if believed else "it did not acknowledge IDENTIFY"
    test.findings.holds("proof", seen=taken and not believed, failed=failed)
    after = time.monotonic()
    _identify(test, _NO_COLLECTOR)
    if not test.until(lambda: bool(test.line.after(after, TIME))):
        test.findings.fails("time", "it did not answer IDENTIFY with TIME")
        raise StepError
    wall_us = test.line.after(after, TIME)[0][0]
    assert isinstance(wall_us, int)
    off_us = abs(wall_us - time.time_ns() // 1_000)
    failed = f"it told the board a time that is {off_us // 1_000_000} s off"
    test.findings.holds("time", seen=off_us < _CLOCK_US, failed=failed)


def _enrol(test: DeviceTest) -> None:
    after = time.monotonic()
    test.add_member(Member(test.other.identity.keys, "conformance board", capabilities=(BOARD,)))
    if not test.until(lambda: bool(test.line.after(after, ENROL))):
        test.findings.fails("enrols", "it did not tell a board that its group had let in who its collector is")
        raise StepError
    kinds = [fields[0] for at, fields in test.line.received if at > after and fields[0] in {OPERATORS, ENROL}]
    operators = test.line.after(after, OPERATORS)
    keys = test.peer.identity.keys
    wrong = (
        "its ENROL names another group or collector than the manifest"
        if test.line.after(after, ENROL)[0] != [test.group_id, keys.signing_public, keys.noise_public]
        else "it told the board no operators before its ENROL"
        if kinds[0] != OPERATORS
        else "its OPERATORS are not those of the invite"
        if operators[0] != [1, [test.peer.key]]
        else ""
    )
    test.findings.holds("enrols", seen=not wrong, failed=wrong)
    _identify(test, test.peer.key)


def _carry_up(test: DeviceTest) -> None:
    after, findings = time.monotonic(), test.findings
    number, message = _next_batch(test)
    envelope = test.other.sealed(message, test.peer.identity.keys)
    taken = _carry(test, envelope)
    forwarded = taken and _was_forwarded(test, envelope)
    failed = (
        "it did not forward a board's envelope, as it was, in a FORWARD to the collector"
        if taken
        else "it did not acknowledge CARRY on the line"
    )
    if not findings.holds("carries", seen=forwarded, failed=failed):
        raise StepError
    acknowledged = test.until(lambda: _is_acknowledged(test, number, after))
    failed = "it did not hand down the collector's acknowledgement, which a FORWARD had brought"
    findings.holds("delivers", seen=acknowledged, failed=failed)
    repeated = test.other.sealed(message, test.peer.identity.keys)
    forwarded = _carry(test, repeated) and _was_forwarded(test, repeated)
    failed = "it did not forward a message that the board sent again, in another envelope"
    findings.holds("repeats", seen=forwarded, failed=failed)


def _is_acknowledged(test: DeviceTest, number: LinkSeq, after: float) -> bool:
    for raw in _delivered(test, after):
        message = read_message(raw)
        if message.type is MessageType.ACK and message.author == test.peer.key:
            return number in Acknowledgement.from_wire(message.body).received
    return False


def _carry_to_outsider(test: DeviceTest) -> None:
    _, message = _next_batch(test)
    test.other.last = LinkSeq(test.other.last - 1)  # nobody will have heard of it
    envelope = test.stranger.sealed(message, test.stranger.identity.keys)
    taken = _carry(test, envelope, test.stranger.key)
    test.pass_time(QUIET_S)
    forwarded = [
        each for key in (test.peer.key, test.companion.key, test.stranger.key) for each in _forwards(test, key)
    ]
    wrong = (
        "it did not acknowledge on the line what it must refuse: the board repeats it for ever"
        if not taken
        else "it forwarded an envelope for a device outside of the board's group"
        if any(each.envelope == envelope for each in forwarded)
        else ""
    )
    test.findings.holds("outsiders", seen=not wrong, failed=wrong)


def _carry_down(test: DeviceTest) -> None:
    """Have a member and a stranger send what fits, and what is too long."""
    after = time.monotonic()
    long, strange = _blob(test, test.companion, test.line.message_bytes), _blob(test, test.stranger, 40)
    fits = _blob(test, test.companion, 40)
    _send_down(test, test.stranger, strange[1])
    _send_down(test, test.companion, long[1])
    _send_down(test, test.companion, fits[1])
    came = test.until(lambda: fits[0] in _delivered(test, after))
    test.pass_time(QUIET_S)
    delivered = _delivered(test, after)
    test.findings.holds("delivers", seen=came, failed="it did not hand down an envelope that a member had sent")
    failed = (
        f"it handed down an envelope of {len(long[1])} bytes; the board takes messages of {test.line.message_bytes}"
    )
    bounded = long[0] not in delivered and not test.line.is_exceeded
    test.findings.holds("board-bounds", seen=bounded, failed=failed)
    failed = "it handed down an envelope by a device that is not in the board's group"
    test.findings.holds("strangers", seen=strange[0] not in delivered, failed=failed)
    _judge_line(test)


def _judge_line(test: DeviceTest) -> None:
    test.findings.holds("line-bounds", seen=not test.line.wrong, failed=test.line.wrong)


def _repeat_frames(test: DeviceTest) -> None:
    """Have the board miss what comes until a frame came again."""
    test.line.deaf = True
    after, known = time.monotonic(), len(test.line.frames)
    message, envelope = _blob(test, test.companion, 40)
    _send_down(test, test.companion, envelope)

    def came_twice() -> bool:
        frames = test.line.frames[known:]
        return len(frames) > len(set(frames))

    repeated = test.until(came_twice)
    test.line.deaf = False
    came = repeated and test.until(lambda: message in _delivered(test, after))
    failed = "it did not send a frame again that the board had not acknowledged"
    test.findings.holds("line-repeats", seen=came, failed=failed)


def _write_noise(test: DeviceTest) -> None:
    for noise in (b"rst:0x1 (POWERON_RESET),boot:0x13\r\n", bytes(3), secrets.token_bytes(200), b"\0\x05half of a"):
        test.line.write_noise(noise)
    _, message = _next_batch(test)
    envelope = test.other.sealed(message, test.peer.identity.keys)
    came = _carry(test, envelope) and _was_forwarded(test, envelope)
    failed = "it forwarded nothing more after bytes on the line that were no frame"
    test.findings.holds("line-noise", seen=came, failed=failed)


def _sleep(test: DeviceTest) -> None:
    number = test.line.say(SLEEP, _SLEEP_MS)
    test.until(lambda: test.line.was_taken(number))
    after = time.monotonic()
    sent = [_blob(test, test.companion, 40) for _ in range(_KEPT + 2)]
    for _, envelope in sent:
        _send_down(test, test.companion, envelope)
    test.until(lambda: not test.seen.owed)
    test.pass_time(QUIET_S)
    asleep = [each for each in _delivered(test, after) if each in [message for message, _ in sent]]
    test.line.say(SLEEP, 0)
    newest = [message for message, _ in sent[-_KEPT:]]

    def woken() -> list[bytes]:
        return [each for each in _delivered(test, after) if each in [message for message, _ in sent]]

    test.until(lambda: newest[-1] in woken())
    wrong = (
        "it handed something down to a board that slept"
        if asleep
        else f"of {len(sent)} that came while the board slept, it did not hand down the newest {_KEPT}, in order"
        if woken() != newest
        else ""
    )
    test.findings.holds("sleepers", seen=not wrong, failed=wrong)


def _order(test: DeviceTest) -> None:
    selector = Selector(SelectorKind.DEVICES, devices=(test.other.key,))
    order = CommandOrder(selector, "conformance-check", {}, secrets.token_bytes(ONCE_BYTES))
    after, written = time.monotonic(), list["Operation"]()
    test.peer.do(lambda node, now: written.append(node.history.write(test.group_id, order, now)))
    came = test.until(lambda: any(fields[0] == [written[0].raw] for fields in test.line.after(after, ORDER)))
    failed = "it did not hand down the order of an operator that it obeys, as it stands in the history"
    if not test.findings.holds("orders", seen=came, failed=failed):
        raise StepError
    now_us = time.time_ns() // 1_000
    result = OrderResult(
        *(written[0].id, CommandState.REFUSED, now_us, now_us), code="action_not_allowed", why="a conformance test"
    ).to_wire()
    test.line.say(RESULT, result, crypto.sign(_RESULT_DOMAIN, result, test.other.identity))
    reported = test.until(lambda: _is_reported(test, result, after))
    failed = "it did not pass on the result that the board had signed to the operator"
    test.findings.holds("order-results", seen=reported, failed=failed)


def _is_reported(test: DeviceTest, result: bytes, after: float) -> bool:
    for each in test.seen.received:
        is_it = each.message.type is MessageType.ORDER_RESULT and each.message.recipient == test.peer.key
        if is_it and each.at > after:
            try:
                found = OrderResult.from_wire(each.message.body)
            except RemoteError as error:
                test.findings.fails("order-results", f"its ORDER_RESULT was refused ({error.code}): {error}")
                return False
            return found.board == test.other.key and found.signature is not None and result in each.message.body
    return False


def _restart_board(test: DeviceTest) -> None:
    """Restart the board twice: each time its link keys, and the counters under them, begin once more."""
    for _ in range(2):
        ups, after = test.line.ups, time.monotonic()
        test.line.restart()
        test.other.incarnation = Incarnation(secrets.token_bytes(INCARNATION_BYTES))
        test.other.last = LinkSeq(0)
        up = test.until(lambda ups=ups: test.line.ups > ups)  # type: ignore[misc]
        _identify(test, test.peer.key)
        up = up and test.until(lambda after=after: bool(test.line.after(after, TIME)))  # type: ignore[misc]
        failed = "it did not begin a new session of the line with a board that had restarted"
        if not test.findings.holds("line", seen=up, failed=failed):
            raise StepError
        tag, key = secrets.token_bytes(8), secrets.token_bytes(32)
        number = test.other.last = LinkSeq(1)
        announced = test.other.write(MessageType.LINK, test.peer.key, cbor.encode([tag, key]), number)
        _carry(test, test.other.sealed(announced, test.peer.identity.keys))
        _, message = _next_batch(test)
        envelope = seal_by_link(message, key, tag, 1)
        came = _carry(test, envelope) and _was_forwarded(test, envelope)
        failed = "it did not forward a link envelope with counter 1, which a board's new link key begins with"
        test.findings.holds("repeats", seen=came, failed=failed)
    _judge_line(test)


def _kill(test: DeviceTest) -> None:
    """Kill the gateway as soon as it has acknowledged an envelope, while no relay takes it."""
    test.relay.is_away = True
    test.relay.restart()
    _, message = _next_batch(test)
    envelope = test.other.sealed(message, test.peer.identity.keys)
    taken = _carry(test, envelope)
    connections, ups = test.seen.connections, test.line.ups
    test.restart_program()
    test.relay.is_away = False
    if not taken:
        test.findings.not_seen("commits", "it acknowledged no envelope while it had no relay")
    if not test.connects_after(connections) or not test.until(lambda: test.line.ups > ups):
        test.findings.not_seen("commits", "it was not started again")
        raise StepError
    _identify(test, test.peer.key)
    if taken:
        failed = "it had acknowledged an envelope on the line, and lost it by SIGKILL: no relay had taken it yet"
        test.findings.holds("commits", seen=_was_forwarded(test, envelope), failed=failed)


CARRYING: tuple[ConformanceStep, ...] = (
    ConformanceStep(_meet, "meeting the gateway on its line", ("line", "proof", "time"), ("manifests",)),
    ConformanceStep(_enrol, "letting the board into the group", ("enrols",), ("line",)),
    ConformanceStep(_carry_up, "carrying a board's envelopes", ("carries", "repeats", "delivers"), ("enrols",)),
    ConformanceStep(_carry_to_outsider, "carrying to a stranger", ("outsiders",), ("enrols",)),
    ConformanceStep(
        _carry_down,
        "sending envelopes for the board",
        ("delivers", "board-bounds", "strangers", "line-bounds"),
        ("enrols",),
    ),
    ConformanceStep(_repeat_frames, "losing frames of the line", ("line-repeats",), ("enrols",)),
    ConformanceStep(_write_noise, "writing noise on the line", ("line-noise",), ("enrols",)),
    ConformanceStep(_sleep, "letting the board sleep", ("sleepers",), ("enrols",)),
    ConformanceStep(_order, "ordering something of the board", ("orders", "order-results"), ("enrols",)),
    ConformanceStep(_restart_board, "restarting the board", ("line", "repeats", "line-bounds"), ("enrols",)),
)
RESTARTS: tuple[ConformanceStep, ...] = (
    ConformanceStep(_kill, "killing the gateway after an acknowledgement on the line", ("commits",), ("enrols",)),
)
