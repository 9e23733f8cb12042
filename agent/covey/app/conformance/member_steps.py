"""The steps of a member beyond those of a sensor: history, orders, conflicts and removals."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.app.conformance.sensor_steps import QUIET_S, ConformanceStep
from covey.core.group.manifest import sign_manifest
from covey.core.group.messages import Bundle, pull_to_wire
from covey.core.history.bodies import Note
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import HistoryPull, OperationBundle
from covey.core.history.orders import ONCE_BYTES, CommandOrder, SettingOrder
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.settings.states import SettingReport
from covey.core.wire.heads import of_histories, of_manifests
from covey.core.wire.message import MessageType
from covey.errors import RemoteError

if TYPE_CHECKING:
    from covey.app.conformance.session import DeviceTest

_SETTING, _ACTION = "app.conformance", "conformance-check"
_EVERYBODY = Selector(SelectorKind.ALL)


def _compare_heads(test: DeviceTest) -> None:
    found = test.until(lambda: test.agrees(of_manifests, 0.0))
    said = test.seen.said_of_groups(test.peer.key)
    failed = (
        "its acknowledgements carry no digest of the shared groups"
        if said is None
        else "its acknowledgements carry another digest of the shared groups than their manifests give"
    )
    test.findings.holds("heads", seen=found, failed=failed)


def _post_note(test: DeviceTest) -> None:
    after = time.monotonic()
    _note(test, "first")
    found = test.until(lambda: test.agrees(of_histories, after))
    failed = "its digest of histories is not that of a history with the new operation"
    test.findings.holds("history", seen=found, failed=failed)


def _note(test: DeviceTest, text: str) -> None:
    test.peer.do(lambda node, now: node.history.write(test.group_id, Note("text/plain", text.encode()), now))


def _hide_note(test: DeviceTest) -> None:
    """Have the companion give an operation to the peer alone; heads show it, and the device has to ask."""
    after = time.monotonic()
    operation = test.companion.operation(Note("text/plain", b"hidden"), *test.peer.history_ends(test.group_id))
    test.say_to_peer(MessageType.OPERATIONS, OperationBundle((operation.raw,)).to_wire())
    if not test.until(lambda: test.peer.holds(test.group_id, operation.id)):
        test.findings.not_seen("pulls-history", "the peer did not take the operation that was to be hidden")
        return
    asked = test.until(lambda: test.received(MessageType.HISTORY_PULL, after) is not None)
    came = asked and test.until(lambda: test.agrees(of_histories, after))
    failed = "it asked, but did not take the answer" if asked else "it sent no HISTORY_PULL"
    test.findings.holds("pulls-history", seen=came, failed=f"heads showed an operation that it lacked; {failed}")


def _ask(test: DeviceTest) -> None:
    """Have the companion ask for the whole history, and for all manifests."""
    for check, kind, body, answer in (
        ("answers-history", MessageType.HISTORY_PULL, HistoryPull({}).to_wire(), MessageType.OPERATIONS),
        ("answers-manifests", MessageType.GROUP_PULL, pull_to_wire(1), MessageType.GROUP_MANIFEST),
    ):
        after = time.monotonic()
        test.say(kind, body)
        found = _answer(test, answer, after)
        test.findings.holds(check, seen=found, failed=f"it did not answer {kind.name} with what it holds")


def _answer(test: DeviceTest, kind: MessageType, after: float) -> bool:
    if not test.until(lambda: test.received(kind, after, test.companion.key) is not None):
        return False
    message = test.received(kind, after, test.companion.key)
    assert message is not None
    try:
        if kind is MessageType.OPERATIONS:
            return bool(OperationBundle.from_wire(message.body).operations)
        return bool(Bundle.from_wire(message.body).manifests)
    except RemoteError:
        return False


def _order(test: DeviceTest) -> None:
    after = time.monotonic()
    test.peer.do(lambda node, now: node.history.write(test.group_id, SettingOrder(_EVERYBODY, _SETTING, "1"), now))
    reported = test.until(lambda: _reports_setting(test, after))
    failed = f"it sent no SETTING_REPORT about {_SETTING}; it has to obey the invite's operators"
    test.findings.holds("setting", seen=reported, failed=failed)
    obeys = test.until(
        lambda: test.peer.has_written(test.group_id, test.device().signing_public, OperationKind.OBEYING)
    )
    if not obeys:
        test.findings.fails("order", "it wrote no operation of kind `obeying`: its owner has to allow some command")
        return
    order = CommandOrder(_EVERYBODY, _ACTION, {}, secrets.token_bytes(ONCE_BYTES))
    after = time.monotonic()
    test.peer.do(lambda node, now: node.history.write(test.group_id, order, now))
    reported = test.until(lambda: test.received(MessageType.ORDER_RESULT, after) is not None)
    failed = f"it sent no ORDER_RESULT about the command {_ACTION}, not even that it does not know it"
    test.findings.holds("order", seen=reported, failed=failed)


def _reports_setting(test: DeviceTest, after: float) -> bool:
    for each in test.seen.received:
        if each.at > after and each.message.type is MessageType.SETTING_REPORT:
            try:
                report = SettingReport.from_wire(each.message.body)
            except RemoteError as error:
                test.findings.fails("setting", f"its SETTING_REPORT was refused ({error.code}): {error}")
                return True
            if any(setting.key == _SETTING for setting in report.settings):
                return True
    return False


def _conflict(test: DeviceTest) -> None:
    """Issue two manifests that follow the same one: the peer's and the companion's, which the device hears first."""
    companion = test.companion
    base = test.peer.node.groups.group(test.group_id)
    renamed = replace(base.member(companion.key) or companion.member(""), label="renamed")
    rival = sign_manifest(base.draft().changing(renamed), companion.identity)
    after = time.monotonic()
    own = base.member(test.peer.key)
    assert own is not None
    test.peer.do(
        lambda node, now: node.actions.change(
            test.group_id, lambda draft, _: draft.changing(replace(own, label="conformance peer 2")), now
        )
    )
    body = Bundle((rival.raw,)).to_wire()
    test.say(MessageType.GROUP_MANIFEST, body)
    test.say_to_peer(MessageType.GROUP_MANIFEST, body)
    settled = test.until(
        lambda: test.peer.node.groups.trust(test.group_id).holds(rival.hash) and test.agrees(of_manifests, after)
    )
    failed = "after two rival manifests its digest of the group is not the one that the rules give"
    test.findings.holds("conflict", seen=settled, failed=failed)


def _remove_companion(test: DeviceTest) -> None:
    companion, device = test.companion, test.device()
    test.peer.do(
        lambda node, now: node.actions.change(
            test.group_id, lambda draft, epoch: draft.removing(companion.key, epoch), now
        )
    )
    after = time.monotonic()
    took = test.until(lambda: not test.peer.waits_for(device.signing_public) and test.agrees(of_manifests, after))
    if not test.findings.holds(
        "removal", seen=took, failed="it did not take the manifest that removes a member: its digest is the old one"
    ):
        return
    test.pass_time(QUIET_S)
    companion.answers = False
    after = time.monotonic()
    test.say(MessageType.BLOB, b"said by a device that was removed")
    test.pass_time(2 * QUIET_S)
    allowed = {MessageType.GROUP_MANIFEST, MessageType.REVOKE}
    sent = [
        each.message.type.name
        for each in test.seen.received
        if each.at > after and each.message.recipient == companion.key and each.message.type not in allowed
    ]
    if sent:
        test.findings.fails("removal", f"it still sends {sent[0]} to a device that was removed")


HEADS: tuple[ConformanceStep, ...] = (ConformanceStep(_compare_heads, "comparing heads", ("heads",)),)
REMOVAL: tuple[ConformanceStep, ...] = (
    ConformanceStep(_remove_companion, "removing the other member", ("removal",), ("manifests",)),
)
STEPS: tuple[ConformanceStep, ...] = (
    *HEADS,
    ConformanceStep(_post_note, "posting an operation", ("history",)),
    ConformanceStep(_hide_note, "hiding an operation", ("pulls-history",), ("manifests",)),
    ConformanceStep(
        _ask, "asking for history and manifests", ("answers-history", "answers-manifests"), ("manifests", "history")
    ),
    ConformanceStep(_order, "giving orders", ("setting", "order")),
    ConformanceStep(_conflict, "issuing rival manifests", ("conflict",), ("manifests",)),
    *REMOVAL,
)
