"""The steps of an operator: the device gives orders when it is asked to, and counts the signatures of others' orders.

The invite names the peer and the companion as operators, and an order needs two. So both make the device an operator,
and what it orders counts once the companion has approved it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from covey.app.conformance.sensor_steps import QUIET_S, ConformanceStep
from covey.app.conformance.session import StepError
from covey.core.actions.results import CommandState, OrderResult
from covey.core.group.manifest import BOARD, Member
from covey.core.history.bodies import Note
from covey.core.history.kinds import OperationKind
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import Approval, CommandOrder, OperatorChange, SettingOrder
from covey.core.ids import LinkSeq
from covey.core.orders.authority import Pins
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from covey.core.wire.heads import of_histories
from covey.core.wire.message import MessageType
from covey.errors import RemoteError

if TYPE_CHECKING:
    from covey.app.conformance.session import DeviceTest
    from covey.core.history.body import OperationBody
    from covey.core.ids import DeviceKey, OperationId

_SETTING, _OTHER_SETTING, _ACTION = "app.conformance", "app.conformance-others", "conformance-check"
_EVERYBODY = Selector(SelectorKind.ALL)
_THRESHOLD = 2


# -- what is written ---------------------------------------------------------------------------------------------------


def _operations(test: DeviceTest, recipient: DeviceKey | None = None) -> list[Operation]:
    """Return the operations of the device itself that it has sent the peer, or somebody else."""
    found: list[Operation] = []
    for each in test.seen.received:
        if each.message.type is not MessageType.OPERATIONS or each.message.recipient != (recipient or test.peer.key):
            continue
        try:
            read = [read_operation(raw) for raw in OperationBundle.from_wire(each.message.body).operations]
        except RemoteError as error:
            test.findings.fails("log", f"one of its operations was refused ({error.code}): {error}")
            continue
        found += [operation for operation in read if operation.author == test.device().signing_public]
    return found


def _ordered(test: DeviceTest, kind: OperationKind, check: str, task: str) -> Operation:
    """Have the device write an operation, and wait until the peer has taken it.

    Raises:
        StepError: none comes, or it is refused.
    """
    known = {each.id for each in _operations(test)}

    def found() -> Operation | None:
        return next((each for each in _operations(test) if each.kind == kind and each.id not in known), None)

    test.ask(task)
    if not test.until(lambda: found() is not None):
        test.findings.fails(check, f"it wrote no operation of kind `{kind.name.lower()}` when it was told: {task}")
        raise StepError
    operation = found()
    assert operation is not None
    if not test.until(lambda: test.peer.holds(test.group_id, operation.id)):
        test.findings.fails("log", f"no member can take its operation {operation.number}: it follows what nobody has")
        raise StepError
    return operation


def _by_companion(test: DeviceTest, body: OperationBody) -> Operation:
    """Have the companion write an operation, and send it to the peer and to the device; wait until both have it."""
    after = time.monotonic()
    operation = test.companion.operation(body, *test.peer.history_ends(test.group_id))
    bundle = OperationBundle((operation.raw,)).to_wire()
    test.say_to_peer(MessageType.OPERATIONS, bundle)
    test.say(MessageType.OPERATIONS, bundle)
    _await_agreement(test, after, test.companion.key)
    return operation


def _await_agreement(test: DeviceTest, after: float, author: DeviceKey) -> None:
    """Wait until the device has told an operation's author that it has taken it."""
    found = test.until(lambda: test.agrees(of_histories, after, author))
    failed = "its digest of histories is not that of a history with the new operation"
    if not test.findings.holds("history", seen=found, failed=failed):
        raise StepError


def _by_peer(test: DeviceTest, body: OperationBody) -> Operation:
    after, written = time.monotonic(), list[Operation]()
    test.peer.do(lambda node, now: written.append(node.history.write(test.group_id, body, now)))
    _await_agreement(test, after, test.peer.key)
    return written[0]


def _reported(test: DeviceTest, order: OperationId, after: float) -> bool:
    """Say whether the device has reported a setting that an order sets."""
    for each in test.seen.received:
        if each.at > after and each.message.type is MessageType.SETTING_REPORT:
            try:
                report = SettingReport.from_wire(each.message.body)
            except RemoteError as error:
                test.findings.fails("messages", f"its SETTING_REPORT was refused ({error.code}): {error}")
                continue
            if any(setting.operation == order for setting in report.settings):
                return True
    return False


# -- the steps ---------------------------------------------------------------------------------------------------------


def _appoint(test: DeviceTest) -> None:
    """Have both operators add the device, and let a board in, which must hear of no order."""
    test.add_member(Member(test.other.identity.keys, "conformance board", capabilities=(BOARD,)))
    change = _by_peer(test, OperatorChange(test.device().signing_public, "tested", added=True))
    _by_companion(test, Approval(change.id))


def _set(test: DeviceTest) -> None:
    """Have it set something after it has heard a note: the order has to follow the note."""
    note = _by_peer(test, Note("text/plain", b"known before the order"))
    task = f"set {_SETTING} eco"
    operation = _ordered(test, OperationKind.SETTING, "sets", task)
    try:
        order = SettingOrder.from_wire(operation.body)
        right = (order.selector, order.key, order.value, order.sealed) == (_EVERYBODY, _SETTING, "eco", None)
        failed = f"it was told '{task}', for all members, and ordered something else"
    except RemoteError as error:
        right, failed = False, f"the body of its setting was refused ({error.code}): {error}"
    test.findings.holds("sets", seen=right, failed=failed)
    follows = note.id not in test.peer.history_ends(test.group_id)[0]
    test.findings.holds("follows", seen=follows, failed="its order does not follow a note that it had heard before")
    _approve_order(test, operation)


def _approve_order(test: DeviceTest, operation: Operation) -> None:
    """Have the companion approve the device's order, and check that the order then counts, at every member."""
    pins = Pins(frozenset({test.peer.key, test.companion.key}), _THRESHOLD)
    _by_companion(test, Approval(operation.id))
    counts = test.peer.counts(test.group_id, operation, pins)
    failed = "its order does not count though another operator has approved it: by what it follows, it is no operator"
    test.findings.holds("counts", seen=counts, failed=failed)

    def has(recipient: DeviceKey) -> bool:
        return any(each.id == operation.id for each in _operations(test, recipient))

    test.until(lambda: has(test.companion.key))
    failed = "it sent its order to the inviter, and not to another member"
    test.findings.holds("spreads", seen=has(test.companion.key), failed=failed)
    sent = [each.message.type.name for each in test.seen.received if each.message.recipient == test.other.key]
    failed = f"it sent {sent[0] if sent else 'nothing'} to a board, which knows neither groups nor their orders"
    test.findings.holds("spares-boards", seen=not sent, failed=failed)


def _run(test: DeviceTest) -> None:
    onces: list[bytes] = []
    for _ in range(2):
        task = f"run {_ACTION}"
        operation = _ordered(test, OperationKind.COMMAND, "runs", task)
        try:
            order = CommandOrder.from_wire(operation.body)
        except RemoteError as error:
            test.findings.fails("runs", f"the body of its command was refused ({error.code}): {error}")
            return
        right = (order.selector, order.action, order.arguments) == (_EVERYBODY, _ACTION, {})
        failed = f"it was told '{task}', for all members, and ordered something else"
        test.findings.holds("runs", seen=right, failed=failed)
        onces.append(order.once)
        _report_result(test, operation)
    failed = "it gave two commands one once-id: devices carry out the first of them alone"
    test.findings.holds("once-ids", seen=onces[0] != onces[1], failed=failed)


def _report_result(test: DeviceTest, operation: Operation) -> None:
    """Have the companion report what became of an order."""
    now_us = time.time_ns() // 1_000
    result = OrderResult(
        operation.id, CommandState.REFUSED, now_us, now_us, code="action_not_allowed", why="a conformance test"
    )
    setting = ReportedSetting(_SETTING, operation.id, SettingState.REFUSED, None, "setting_not_allowed", "")
    for kind, body in (
        (MessageType.ORDER_RESULT, result.to_wire()),
        (MessageType.SETTING_REPORT, SettingReport((setting,)).to_wire()),
    ):
        after = time.monotonic()
        test.say(kind, body)
        found = test.acknowledged(LinkSeq(test.companion.last), after)
        wrong = (
            f"it did not acknowledge {kind.name}"
            if found is None
            else f"it called {kind.name} unsupported"
            if test.companion.last in found.unsupported
            else ""
        )
        test.findings.holds("results", seen=not wrong, failed=wrong)


def _need_two(test: DeviceTest) -> None:
    """Have the companion order alone, then the device approve that: only then may it obey."""
    after = time.monotonic()
    order = _by_companion(test, SettingOrder(_EVERYBODY, _OTHER_SETTING, "1"))
    test.pass_time(QUIET_S)
    early = _reported(test, order.id, after)
    failed = "it obeyed an order that one operator has signed, where its owner demands two"
    test.findings.holds("threshold", seen=not early, failed=failed)
    task = f"approve {order.id.hex()}"
    approval = _ordered(test, OperationKind.APPROVAL, "approves", task)
    right = approval.body == Approval(order.id).to_wire()
    test.findings.holds(
        "approves", seen=right, failed="its approval names another operation than it was told to approve"
    )
    if not early and right and not test.until(lambda: _reported(test, order.id, after)):
        test.findings.fails("threshold", "it did not obey an order that two operators have signed, itself one of them")


def _kill(test: DeviceTest) -> None:
    """Kill the operator as soon as it has published an order: the next one continues its log."""
    task = f"set {_SETTING} one"
    before = _ordered(test, OperationKind.SETTING, "sets", task)
    connections, subscribed = test.seen.connections, test.seen.subscribed
    test.restart_program()
    if not test.connects_after(connections) or not test.until(lambda: test.seen.subscribed > subscribed):
        test.findings.not_seen("durable", "it was not started again")
        raise StepError
    task = f"set {_SETTING} two"
    operation = _ordered(test, OperationKind.SETTING, "durable", task)
    expected, place = before.number + 1, operation.number
    continues = (operation.log, place) == (before.log, expected)
    failed = f"after SIGKILL its next operation has number {place}, not {expected}, or is of another log"
    test.findings.holds("durable", seen=continues, failed=failed)


def _count_operations(test: DeviceTest) -> None:
    """Look whether its log is whole: each number once, and each operation after the one before it."""
    own = {each.id: each for each in _operations(test)}
    places: dict[tuple[object, int], Operation] = {}
    wrong = ""
    for each in own.values():
        if places.setdefault((each.log, each.number), each).id != each.id:
            wrong = f"it signed two different operations with number {each.number}: that is a fork"
    for each in own.values():
        before = places.get((each.log, each.number - 1))
        if not wrong and each.number > 1 and (before is None or each.previous != before.id):
            wrong = f"its operation {each.number} does not name its operation {each.number - 1} as the one before"
    test.findings.holds("log", seen=bool(own) and not wrong, failed=wrong or "it wrote no operation")


ORDERING: tuple[ConformanceStep, ...] = (
    ConformanceStep(_appoint, "making the device an operator", ("history",), ("manifests",)),
    ConformanceStep(
        _set, "having it set something", ("sets", "follows", "counts", "spreads", "spares-boards"), ("history",)
    ),
    ConformanceStep(_run, "having it give commands", ("runs", "once-ids", "results"), ("history",)),
    ConformanceStep(_need_two, "giving an order that needs two operators", ("threshold", "approves"), ("history",)),
)
RESTARTS: tuple[ConformanceStep, ...] = (
    ConformanceStep(_kill, "killing the operator after an order", ("durable",), ("history",)),
)
COUNTING: tuple[ConformanceStep, ...] = (
    ConformanceStep(_count_operations, "counting its operations", ("log",), ("runs",)),
)
