"""`covey.app.loop.runtime`: what goes where a budget has some messages wait."""

from __future__ import annotations

from pathlib import Path

from covey.core.history.bodies import Note
from covey.core.history.body import OperationBody
from covey.core.history.messages import OperationBundle
from covey.core.history.orders import SettingOrder
from covey.core.link.costs import CONTROL, HISTORY, MESSAGES, READINGS
from covey.core.now import Now
from covey.core.orders.selector import EVERYBODY
from covey.core.wire.message import MessageType
from tests.unit.app.loop.test_runtime import Agent

_ORDER = SettingOrder(EVERYBODY, "app.mode", "eco")
_NOTE = Note("text/plain", b"pump 3 rattles")


class Metered(Agent):
    """An agent whose budget has no room for some kinds."""

    def __init__(self, folder: Path, *kinds: str) -> None:
        super().__init__(folder)
        self.sent: list[str] = []
        self.offered = 0

        def may_spend(kind: str, _size: int, _now: Now) -> bool:
            self.offered += 1
            if kind not in kinds:
                self.sent.append(kind)
            return kind not in kinds

        self.runtime._may_spend = may_spend

    def write(self, *bodies: OperationBody) -> None:
        """Write operations."""
        with self.store.transaction():
            for body in bodies:
                self.runtime.node.history.write(self.group_id, body, self.now)

    @property
    def now(self) -> Now:
        """The time."""
        return Now(self.clock.now_us, self.clock.now_us)


def test_an_order_goes_where_nothing_else_does(tmp_path: Path) -> None:
    agent = Metered(tmp_path, READINGS, MESSAGES, HISTORY)
    with agent.store.transaction():
        for _ in range(20):
            agent.runtime.node.send_blob(agent.group_id, b"hello", agent.now)
    agent.write(_ORDER)
    agent.turn()
    assert agent.sent == [CONTROL]
    assert agent.offered <= 3, "one message of a window that does not fit is offered, not all of them"


def test_an_order_does_not_wait_for_a_note_that_does_not_fit(tmp_path: Path) -> None:
    agent = Metered(tmp_path, HISTORY)
    agent.write(_NOTE)  # which waits for ann
    with agent.store.transaction():
        order = agent.runtime.node.history.write(agent.group_id, _ORDER, agent.now)
        body = OperationBundle((order.raw,)).to_wire()
        agent.runtime.node._queue.queue(agent.ann.key, MessageType.OPERATIONS, agent.group_id, body, agent.now)
    agent.turn()
    assert agent.sent == [CONTROL]


def test_nothing_else_uses_what_does_not_suffice_for_an_order(tmp_path: Path) -> None:
    agent = Metered(tmp_path, CONTROL)
    with agent.store.transaction():
        agent.runtime.node.send_blob(agent.group_id, b"hello", agent.now)
    agent.write(_ORDER)
    agent.turn()
    assert not agent.relay.taken
    agent.runtime._may_spend = lambda _kind, _size, _now: True
    agent.turn()
    assert len(agent.relay.taken) == 2


def test_a_note_waits(tmp_path: Path) -> None:
    agent = Metered(tmp_path, HISTORY)
    agent.write(_NOTE)
    agent.turn()
    assert agent.sent == []


def test_a_request_for_history_is_urgent(tmp_path: Path) -> None:
    agent = Metered(tmp_path)
    with agent.store.transaction():
        agent.runtime.node._queue.queue(agent.ann.key, MessageType.HISTORY_PULL, agent.group_id, b"", agent.now)
    agent.turn()
    assert agent.sent == [CONTROL]
