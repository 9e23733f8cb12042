"""The steps of a collector: batches that come, that are missing, that are lost, forged or of another life.

The companion sends the batches. What a collector stores is seen from outside by its acknowledgements alone: they cover
what it can never lose again, also not by SIGKILL.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from covey.app.conformance.sensor_steps import QUIET_S, ConformanceStep, restart_relay
from covey.app.conformance.session import StepError
from covey.core.ids import INCARNATION_BYTES, Incarnation, LinkSeq
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.wire import cbor
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import Loss, LossReason, MessageType, Resumption

if TYPE_CHECKING:
    from covey.app.conformance.session import DeviceTest
    from covey.core.wire.message import Acknowledgement

_BOOT_ID = bytes.fromhex("c0ffee00c0ffee00")
_MINUTE_US = 60_000_000


def write_batch(number: int) -> bytes:
    """Return the body of a TELEMETRY message."""
    builder = BatchBuilder()
    builder.add("conformance/temperature", "Cel", _MINUTE_US, 20.0 + number / 8)
    now_us = time.time_ns() // 1_000
    return numbered(number, builder.body(ClockReading(_BOOT_ID, 2 * _MINUTE_US, now_us, ClockKind.SYNCHRONISED)))


def _take_number(test: DeviceTest) -> LinkSeq:
    """Give away the companion's next number; its batch has the same one."""
    test.companion.last = LinkSeq(test.companion.last + 1)
    return test.companion.last


def _write(test: DeviceTest, number: LinkSeq, body: bytes | None = None) -> bytes:
    content = write_batch(number) if body is None else body
    recipient = test.device().signing_public
    return test.companion.write(MessageType.TELEMETRY, recipient, content, number, group_id=test.group_id)


def _send(test: DeviceTest, message: bytes, number: LinkSeq) -> Acknowledgement | None:
    """Send a message and return the acknowledgement that covers its number, None where none comes."""
    after = time.monotonic()
    test.companion.send(test.device(), message)
    return test.acknowledged(number, after)


def _names(found: Acknowledgement, number: LinkSeq, message: bytes) -> bool:
    """Say whether an acknowledgement frees a message: one without imprints frees all that it covers."""
    return found.imprints is None or found.imprints.get(number) == imprint_of(message)


def _land(test: DeviceTest) -> None:
    number = _take_number(test)
    message = _write(test, number)
    found = _send(test, message, number)
    if found is None:
        failed = (
            f"it did not acknowledge a batch within {test.wait_s:.0f} s; a collector acknowledges when it has landed"
        )
        test.findings.fails("lands", failed)
        raise StepError
    failed = "its acknowledgement of a batch names another imprint than the message's, so that the sender keeps it"
    test.findings.holds("lands", seen=_names(found, number, message), failed=failed)
    repeated = _send(test, message, number)
    right = repeated is not None and _names(repeated, number, message)
    failed = "it did not acknowledge a batch again, by its imprint, that came twice"
    test.findings.holds("lands-again", seen=right, failed=failed)


def _leave_gap(test: DeviceTest) -> None:
    """Send a batch before the one that precedes it: what has not come must not be acknowledged."""
    missing, number = _take_number(test), _take_number(test)
    found = _send(test, _write(test, number), number)
    if found is None:
        test.findings.fails("gaps", "it did not acknowledge a batch that came before the one that precedes it")
        raise StepError
    covers = missing in found.received
    if test.findings.holds("gaps", seen=not covers, failed="it acknowledged a batch that has not come"):
        late = _send(test, _write(test, missing), missing)
        test.findings.holds("gaps", seen=late is not None, failed="it did not acknowledge a batch that came late")


def _report_loss(test: DeviceTest) -> None:
    lost, number = _take_number(test), _take_number(test)
    body = Loss(LossReason.OUTBOX_FULL, ((lost, lost),), ((lost, lost),)).to_wire()
    record = test.companion.write(MessageType.LOSS, test.device().signing_public, body, number)
    found = _send(test, record, number)
    if found is None:
        test.findings.fails("losses", "it did not acknowledge a LOSS")
    else:
        failed = "it still waits for a message that a LOSS names: its acknowledgement leaves it out"
        test.findings.holds("losses", seen=lost in found.received, failed=failed)


def _resume(test: DeviceTest) -> None:
    """Leave a gap, and say that nothing will come in it, as a sender does whose recipient has lost its state."""
    missing, number = _take_number(test), _take_number(test)
    if _send(test, _write(test, number), number) is None:
        raise StepError
    body = Resumption(((missing, missing),)).to_wire()
    resumption = test.companion.write(MessageType.RESUME, test.device().signing_public, body, LinkSeq(0))
    found = _send(test, resumption, missing)
    failed = "it still waits for a message that a RESUME has closed: its acknowledgement leaves it out"
    test.findings.holds("resumptions", seen=found is not None, failed=failed)


def _forge_batch(test: DeviceTest) -> None:
    """Send a forged batch, then the true one of its number: the collector must hold the true one."""
    number, recipient = _take_number(test), test.device().signing_public
    signer = test.stranger.identity
    forged = test.companion.write(
        MessageType.TELEMETRY, recipient, write_batch(number + 1_000), number, group_id=test.group_id, signer=signer
    )
    after = time.monotonic()
    test.companion.send(test.device(), forged)
    test.until(lambda: not test.seen.owed)
    test.pass_time(QUIET_S)
    newest = test.seen.last_acknowledgement(test.companion.key, after, test.companion.incarnation)
    said = None if newest is None else newest.acknowledgement
    took = said is not None and number in said.received
    message = _write(test, number)
    found = _send(test, message, number)
    right = not took and found is not None and _names(found, number, message)
    failed = (
        "it acknowledged a batch that another key signed" if took else "it did not take the true batch after a forged"
    )
    test.findings.holds("forged-batch", seen=right, failed=failed)


def _send_unreadable(test: DeviceTest) -> None:
    number = _take_number(test)
    found = _send(test, _write(test, number, cbor.encode([number, [2, b"next year's batch"]])), number)
    failed = "it did not acknowledge a batch that it cannot read: the link behind it stands still"
    test.findings.holds("unreadable-batch", seen=found is not None, failed=failed)


def _begin_incarnation(test: DeviceTest) -> None:
    """Have the companion begin a new incarnation, as a device does whose state was lost."""
    test.companion.incarnation = Incarnation(secrets.token_bytes(INCARNATION_BYTES))
    test.companion.last = LinkSeq(0)
    number = _take_number(test)
    message = _write(test, number)
    found = _send(test, message, number)
    failed = "it did not acknowledge batch 1 of a sender's new incarnation under that incarnation"
    test.findings.holds("incarnations", seen=found is not None and _names(found, number, message), failed=failed)


def _restart_relay(test: DeviceTest) -> None:
    restart_relay(test)
    number = _take_number(test)
    found = _send(test, _write(test, number), number)
    failed = "it acknowledged no batch after the relay had restarted"
    test.findings.holds("relay-restart", seen=found is not None, failed=failed)


def _kill(test: DeviceTest) -> None:
    """Kill the collector as soon as it has acknowledged a batch, then look whether it still holds that batch."""
    number = _take_number(test)
    if _send(test, _write(test, number), number) is None:
        test.findings.not_seen("durable", "it acknowledged no batch before SIGKILL")
        raise StepError
    connections, subscribed = test.seen.connections, test.seen.subscribed
    test.restart_program()
    if not test.connects_after(connections) or not test.until(lambda: test.seen.subscribed > subscribed):
        test.findings.not_seen("durable", "it was not started again")
        raise StepError
    later = _take_number(test)
    found = _send(test, _write(test, later), later)
    if found is None:
        test.findings.fails("durable", "it acknowledged no batch after SIGKILL")
        return
    failed = f"it had acknowledged batch {number}, and forgot it by SIGKILL: the sender no longer has it"
    test.findings.holds("durable", seen=number in found.received, failed=failed)


LANDING: tuple[ConformanceStep, ...] = (
    ConformanceStep(_land, "sending batches", ("lands", "lands-again"), ("manifests",)),
    ConformanceStep(_leave_gap, "sending a batch too early", ("gaps",), ("lands",)),
    ConformanceStep(_report_loss, "reporting a loss", ("losses",), ("lands",)),
    ConformanceStep(_resume, "closing a gap", ("resumptions",), ("lands",)),
    ConformanceStep(_forge_batch, "forging a batch", ("forged-batch",), ("lands",)),
    ConformanceStep(_send_unreadable, "sending a batch that nobody can read", ("unreadable-batch",), ("lands",)),
    ConformanceStep(_begin_incarnation, "beginning a new incarnation", ("incarnations",), ("lands",)),
)
RESTARTS: tuple[ConformanceStep, ...] = (
    ConformanceStep(_restart_relay, "restarting the relay, which forgets everything", ("relay-restart",), ("lands",)),
    ConformanceStep(_kill, "killing the collector after an acknowledgement", ("durable",), ("lands",)),
)
