"""The steps of a board: the test plays its gateway on the line, and the peer is its collector.

The companion is the gateway that the peer knows: it forwards what the board hands it, and catches what the peer sends
down. What the board writes is judged by the observer, as if it had been published.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from covey.app.conformance.sensor_steps import DELIVERING, QUIET_S, ConformanceStep
from covey.app.conformance.session import StepError
from covey.core import crypto
from covey.core.actions.results import CommandState, OrderResult
from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import BOARD, Member
from covey.core.history.bodies import Note
from covey.core.history.orders import ONCE_BYTES, CommandOrder, SettingOrder
from covey.core.ids import DeviceKey, NoisePublic
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.wire import cbor
from covey.core.wire.message import MessageType
from covey.core.wire.sequences import SequenceSet
from covey.errors import RemoteError
from covey.limits.board import MAXIMUM_SOFTWARE_BYTES
from covey_boards.shared.line_orders import OPERATORS, ORDER, RESULT
from covey_boards.shared.messages import DELIVER, ENROL, IDENTIFY, RESTART, TIME, TROUBLE

if TYPE_CHECKING:
    from covey.app.conformance.session import DeviceTest
    from covey.core.history.operation import Operation
    from covey.core.ids import OperationId

_BOARD_DOMAIN = b"covey/1 board"
_NO_COLLECTOR = bytes(32)
_RETRIES = 3
"""How many times longer the test waits for a board's repetition than for all else: its base retry time is 30 s."""


def _identified(test: DeviceTest, after: float) -> list[list[object]]:
    return test.line.after(after, IDENTIFY)


def _await_identity(test: DeviceTest, after: float, collector: bytes) -> bool:
    return test.until(lambda: any(fields[3] == collector for fields in _identified(test, after)))


def _send_time(test: DeviceTest) -> None:
    test.line.say(TIME, time.time_ns() // 1_000, True)


def _meet(test: DeviceTest) -> None:
    if not test.findings.holds("line", seen=test.until(lambda: test.line.ups > 0), failed="the line did not come up"):
        raise StepError
    test.until(lambda: bool(_identified(test, 0.0)))
    first = [fields for _, fields in test.line.received if fields[0] != TROUBLE][:1]
    if not first or first[0][0] != IDENTIFY:
        test.findings.fails("identifies", "the first message that it sent on the line is not IDENTIFY")
        raise StepError
    _, signing, noise, proof, collector, software = first[0]
    assert isinstance(signing, bytes)
    assert isinstance(noise, bytes)
    assert isinstance(proof, bytes)
    assert isinstance(software, str)
    key = DeviceKey(signing)
    try:
        crypto.verify(_BOARD_DOMAIN, noise, proof, key)
        wrong = ""
    except RemoteError:
        wrong = "the proof in its IDENTIFY does not verify: nothing says that the noise key is its own"
    if len(software.encode()) > MAXIMUM_SOFTWARE_BYTES:
        wrong = f"its IDENTIFY names its software in more than {MAXIMUM_SOFTWARE_BYTES} bytes"
    elif collector != _NO_COLLECTOR:
        wrong = "its IDENTIFY names a collector, though none was told to it: start it with a new state"
    if not test.findings.holds("identifies", seen=not wrong, failed=wrong):
        raise StepError
    test.seen.device = key
    test.add_member(test.companion.member("conformance gateway"))
    keys = DeviceKeys(key, NoisePublic(noise))
    test.add_member(Member(keys, "tested board", capabilities=(BOARD,)))


def _enrol(test: DeviceTest) -> None:
    after, keys = time.monotonic(), test.peer.identity.keys
    _send_time(test)
    test.line.say(OPERATORS, 1, [test.peer.key])
    test.line.say(ENROL, test.group_id, keys.signing_public, keys.noise_public)
    enrolled = _await_identity(test, after, test.peer.key)
    failed = "it did not answer ENROL with an IDENTIFY that names the collector"
    if not test.findings.holds("enrols", seen=enrolled, failed=failed):
        raise StepError
    after, other = time.monotonic(), test.stranger.identity.keys
    test.line.say(ENROL, test.group_id, other.signing_public, other.noise_public)
    test.pass_time(QUIET_S)
    moved = any(fields[3] != test.peer.key for fields in _identified(test, after))
    failed = "it followed a second ENROL to another collector: its gateway can have it speak to anybody"
    test.findings.holds("one-collector", seen=not moved, failed=failed)


def _forge_acknowledgements(test: DeviceTest) -> None:
    """Acknowledge falsely what the board waits for; it must come again. The line has acknowledged it."""
    with test.unanswered("resends") as seen:
        message, device, other = seen.message, test.device(), test.stranger
        received = SequenceSet(message.link_seq)
        stranger = other.acknowledgement(device.signing_public, message.incarnation, received, None)
        forged = other.acknowledgement(
            *(device.signing_public, message.incarnation, received, None),
            author=test.peer.identity,
            signer=other.identity,
        )
        for raw in (stranger, forged):
            test.line.say(DELIVER, other.sealed(raw, device))
        came = len(seen.times)
        repeated = test.until(lambda: len(seen.times) > came, _RETRIES * test.wait_s)
        number = message.link_seq
        failed = (
            f"it did not send link-seq {number} again: it freed it on the line's acknowledgement, or on a false one "
            "(by a stranger, or with a forged signature)"
        )
        test.findings.holds("resends", seen=repeated, failed=failed)
    settled = test.until(lambda: any(each.settled for each in test.seen.sequenced.values()))
    test.pass_time(QUIET_S)
    if settled:
        test.findings.passes("stops", "nothing came again after its acknowledgement")


def _write_noise(test: DeviceTest) -> None:
    for noise in (b"\x03\x03hello\r\n", bytes(3), secrets.token_bytes(200), b"\0\x05half of a"):
        test.line.write_noise(noise)
    before = len(test.seen.batches)
    came = test.until(lambda: len(test.seen.batches) > before)
    test.findings.holds("line-noise", seen=came, failed="it sent no batch after bytes on the line that were no frame")


def _miss_frames(test: DeviceTest) -> None:
    test.line.deaf = True
    known = len(test.line.frames)

    def came_twice() -> bool:
        frames = test.line.frames[known:]
        return len(frames) > len(set(frames))

    repeated = test.until(came_twice)
    test.line.deaf = False
    failed = "it did not send a frame again that the gateway had not acknowledged"
    test.findings.holds("line-repeats", seen=repeated, failed=failed)


def _result(test: DeviceTest, order: OperationId) -> OrderResult | None:
    """Return what the board has signed of an order."""
    device = test.device().signing_public
    for result, signature in test.line.after(0.0, RESULT):
        try:
            found = OrderResult.from_wire(cbor.encode([result, device, signature]))  # as its gateway passes it on
        except RemoteError as error:
            test.findings.fails("orders", f"its RESULT was refused ({error.code}): {error}")
            continue
        if found.order == order:
            return found
    return None


def _order(test: DeviceTest) -> None:
    """Set something of the board's as a stranger to it, then order something as its operator."""
    selector = Selector(SelectorKind.DEVICES, devices=(test.device().signing_public,))
    setting = SettingOrder(selector, "board.report_seconds", 300)
    command = CommandOrder(selector, "conformance-check", {}, secrets.token_bytes(ONCE_BYTES))
    written = list["Operation"]()
    for body in (Note("text/plain", b"the first operation"), command):
        test.peer.do(lambda node, now, body=body: written.append(node.history.write(test.group_id, body, now)))  # type: ignore[misc]
    alien, order = test.companion.operation(setting, *test.peer.history_ends(test.group_id)), written[-1]
    test.line.say(ORDER, [alien.raw])  # one at a time: a board reports what it has dealt with last
    test.until(lambda: _result(test, alien.id) is not None)
    false = _result(test, alien.id)
    obeyed = false is not None and false.state is CommandState.DONE
    failed = "it obeyed the order of a member that its enrolment did not name as an operator"
    test.findings.holds("operators", seen=not obeyed, failed=failed)
    test.line.say(ORDER, [order.raw])
    answered = test.until(lambda: _result(test, order.id) is not None)
    failed = "it sent no RESULT of an operator's order, not even that it does not know the action"
    test.findings.holds("orders", seen=answered, failed=failed)


def _replace_key(test: DeviceTest) -> None:
    device = test.device().signing_public
    test.until(lambda: not test.peer.waits_for(device))
    test.peer.rotate()
    if not test.until(lambda: test.peer.waits_for(device)):
        test.findings.not_seen("collector-key", "the peer had no new key for it")
        return
    taken = test.until(lambda: not test.peer.waits_for(device))
    failed = "it did not acknowledge COLLECTOR_KEY, the collector's new noise key"
    test.findings.holds("collector-key", seen=taken, failed=failed)


def _begin_session(test: DeviceTest) -> None:
    """Restart the gateway's end of the line: the board identifies itself once more, before all else."""
    ups, after = test.line.ups, time.monotonic()
    test.line.restart()
    up = test.until(lambda: test.line.ups > ups) and test.until(lambda: bool(_identified(test, after)))
    failed = "it did not identify itself once more when its gateway had restarted"
    test.findings.holds("line", seen=up, failed=failed)
    _send_time(test)


def _comes_back(test: DeviceTest, check: str, how: str, ups: int, after: float) -> None:
    """Wait until the board is back, and measures in a new incarnation."""
    old = {incarnation for incarnation, _ in test.seen.batches}
    if not test.until(lambda: test.line.ups > ups) or not test.until(lambda: bool(_identified(test, after))):
        test.findings.fails(check, f"it did not identify itself after {how}")
        raise StepError
    fields = _identified(test, after)[-1]
    wrong = (
        f"it has another key after {how}"
        if fields[0] != test.device().signing_public
        else f"it has forgotten its collector after {how}"
        if fields[3] != test.peer.key
        else ""
    )
    if test.findings.holds(check, seen=not wrong, failed=wrong):
        _send_time(test)
        begun = test.until(lambda: any(incarnation not in old for incarnation, _ in test.seen.batches))
        failed = f"it sent no batch of a new incarnation after {how}"
        test.findings.holds(check, seen=begun, failed=failed)


def _ask_to_restart(test: DeviceTest) -> None:
    ups, after = test.line.ups, time.monotonic()
    test.line.say(RESTART)
    _comes_back(test, "restarts", "RESTART", ups, after)


def _kill(test: DeviceTest) -> None:
    ups, after = test.line.ups, time.monotonic()
    test.restart_program()
    _comes_back(test, "durable", "SIGKILL", ups, after)
    wrong = test.line.wrong
    test.findings.holds("line-bounds", seen=not wrong, failed=wrong)


def _count(test: DeviceTest) -> None:
    test.until(lambda: not test.seen.missing() and not test.seen.missing_batches())
    test.findings.holds("sequences", seen=not test.seen.missing(), failed=test.seen.missing())
    test.findings.holds("batch-numbers", seen=not test.seen.missing_batches(), failed=test.seen.missing_batches())
    test.findings.passes("one-message", "no number stood for two messages")
    sent = [each.message.type.name for each in test.seen.received if each.message.type not in _TYPES]
    failed = f"it sent {sent[0] if sent else ''}, which boards do not"
    test.findings.holds("types", seen=not sent, failed=failed)


_TYPES = {
    *(MessageType.BLOB, MessageType.LINK, MessageType.TELEMETRY, MessageType.SUMMARY),
    *(MessageType.LOSS, MessageType.ACK, MessageType.RESUME),
}

STEPS: tuple[ConformanceStep, ...] = (
    ConformanceStep(_meet, "meeting the board on its line", ("line", "identifies")),
    ConformanceStep(_enrol, "enrolling the board", ("enrols", "one-collector"), ("line",)),
    DELIVERING[0]._replace(needs=("enrols",)),
    ConformanceStep(_forge_acknowledgements, "acknowledging falsely", ("resends", "stops"), ("enrols",)),
    ConformanceStep(_write_noise, "writing noise on the line", ("line-noise",), ("enrols",)),
    ConformanceStep(_miss_frames, "losing frames of the line", ("line-repeats",), ("enrols",)),
    ConformanceStep(_order, "ordering something of the board", ("operators", "orders"), ("enrols",)),
    ConformanceStep(_replace_key, "replacing the collector's noise key", ("collector-key",), ("enrols",)),
    ConformanceStep(_begin_session, "restarting the gateway", ("line",), ("enrols",)),
    ConformanceStep(_ask_to_restart, "asking the board to restart", ("restarts",), ("enrols",)),
    ConformanceStep(_kill, "killing the board", ("durable", "line-bounds"), ("enrols",)),
    ConformanceStep(_count, "counting what came", ("sequences", "batch-numbers", "one-message", "types"), ("enrols",)),
)
