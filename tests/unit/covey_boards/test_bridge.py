"""`covey_boards.bridge`: what a gateway does with a board. Both ends' links run; only the port is not there."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.group.manifest import GroupManifest
from covey.core.ids import EpochId, Incarnation
from covey.core.link.queued import MessageClass
from covey.core.now import Now
from covey.core.vault.landing import LandingPlan
from covey.errors import DiskFullError, OutboxFullError
from covey.limits.board import BOARD_ALARMS_SAVED, MAXIMUM_BOARD_NUMBERS, MAXIMUM_TROUBLE_BYTES
from covey.ports import SerialDown
from covey_boards.bridge import Bridge, read_report
from covey_boards.shared import line_orders, link_machine, messages
from tests.board import Board, BoardOnLine, MemoryLine, enrol
from tests.fleet import Device, carry, found


class Gateway:
    """A gateway with one port, its collector, and a board."""

    def __init__(self, folder: Path, *, outbox_bytes: int = 1 << 24) -> None:
        self.device = Device("gate", folder, outbox_bytes=outbox_bytes)
        self.collector = Device("collector", folder, collects=True)
        self.group_id = found(self.device, self.collector)
        self.board = BoardOnLine("board")
        self.line = MemoryLine(self.board)
        self.reports: list[str] = []
        self.synchronised = True
        self.start()

    def start(self) -> None:
        """Start the role (again)."""
        self.bridge = Bridge([self.line], self.device.store, lambda: self.synchronised, self._report)

    def _report(self, level: str, line: str) -> None:
        self.reports.append(f"{level}: {line}")

    def kill(self) -> None:
        """End the gateway's process without a word, and start it again: another boot id on the line."""
        self.device.restart()
        self.line = MemoryLine(self.board, self.line.port)
        self.line.link.boot_id = self.device.rng(8)
        self.start()

    def turn(self) -> None:
        self.bridge.turn(self.device.node, self.device.now)

    def run(self, seconds: float = 1.0) -> None:
        """Let both ends of the line and the gateway live for a while."""
        for _ in range(int(seconds * 100)):
            self.line.pass_bytes(10)
            now = self.device.now
            self.device.now = Now(now.monotonic_us + 10_000, now.wall_us + 10_000)
            self.turn()

    def enrol(self) -> None:
        enrol(self.board, self.device, self.group_id)
        carry(self.device, self.collector)
        self.run()
        assert self.board.collector is not None

    def land(self) -> None:
        """Let the collector put everything into its vault, and tell."""
        carry(self.device, self.collector)
        store, node = self.collector.store, self.collector.node
        waiting = store.landing.waiting(1 << 20, 100)
        if waiting is not None:
            with store.transaction():
                for landed in store.landing.until(waiting[0]):
                    node.landing.landed(landed.author, landed.incarnation, {landed.link_seq}, self.collector.now)
                plan = LandingPlan(1, Incarnation(b"incarnat"), waiting[0], 1, bytes(24))
                store.landing.begin(plan)
                store.landing.finish(plan, 1)
        carry(self.device, self.collector)


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


def test_a_board_that_comes_is_known_and_told_the_time(gateway: Gateway) -> None:
    gateway.run()
    [board] = gateway.device.store.boards.all()
    assert (board.keys, board.up, board.enrolled) == (gateway.board.keys, True, False)
    assert board.software == "a test's board 1"
    assert len(gateway.board.times) == 1
    due_us, synchronised = gateway.board.times[0]
    assert synchronised
    assert 0 <= gateway.device.now.wall_us - due_us < 1_000_000


def test_the_time_comes_again_and_when_the_clock_becomes_right(gateway: Gateway) -> None:
    gateway.synchronised = False
    gateway.run()
    assert [right for _, right in gateway.board.times] == [False]
    gateway.synchronised = True
    gateway.run()
    assert [right for _, right in gateway.board.times] == [False, True]
    gateway.device.wait(601)
    gateway.run()
    assert len(gateway.board.times) == 3


def test_a_board_of_no_group_is_reported_once(gateway: Gateway) -> None:
    gateway.run()
    gateway.board.boot()
    gateway.run(5)
    assert sum("covey mcu enrol /dev/ttyTEST" in line for line in gateway.reports) == 1


def test_enrolment_tells_the_board_its_group_and_collector(gateway: Gateway) -> None:
    gateway.run()
    gateway.enrol()
    assert gateway.board.collector == gateway.collector.identity.keys
    assert gateway.board.group_id == gateway.group_id
    assert gateway.device.store.boards.all()[0].enrolled


def test_a_reading_goes_the_whole_way_and_its_acknowledgement_back(gateway: Gateway) -> None:
    gateway.enrol()
    for number in range(5):
        gateway.board.measure(b"batch %d" % number)
        gateway.run(0.1)
    gateway.land()
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 5
    assert gateway.board.ring == []
    assert gateway.device.store.outbox.totals()[0] == 0
    assert gateway.device.store.counters.values()["forwarded_envelopes"] == 5


def test_what_a_board_calls_an_alarm_goes_as_one_and_asks_for_a_connection(gateway: Gateway) -> None:
    urgent: list[int] = []
    gateway.bridge._urgent = lambda now: urgent.append(now.wall_us)
    gateway.enrol()
    assert gateway.board.collector is not None
    gateway.board.measure(b"batch")
    for number in range(BOARD_ALARMS_SAVED + 2):
        envelope = gateway.board.message(gateway.board.collector, gateway.group_id, body=b"alarm %d" % number)
        gateway.board.say(line_orders.ALARM, gateway.board.collector.signing_public, envelope)
        gateway.run(0.1)
    waiting = gateway.device.store.outbox.waiting(gateway.collector.key, 100)
    assert [row[1] for row in waiting].count(MessageClass.ALARM) == BOARD_ALARMS_SAVED == len(urgent)
    assert [row[1] for row in waiting].count(MessageClass.TELEMETRY) == 3, "the batch, and alarms beyond the bound"


def test_the_board_hears_of_a_carry_after_the_commit_and_not_before(gateway: Gateway) -> None:
    """A crash between the two loses nothing: the board tells again."""
    gateway.enrol()
    gateway.board.measure()
    gateway.line.pass_bytes(100)  # it has arrived, and the gateway has not looked yet
    sent = gateway.board.link.statistics.messages_sent
    device = gateway.device
    real = device.store.transaction

    def refused() -> None:
        raise DiskFullError("no room")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device.store.counters, "count", lambda *_: refused())  # the last word of the transaction
        with pytest.raises(DiskFullError):
            gateway.turn()
        device.replace_node()
    assert device.store.transaction == real
    assert device.store.outbox.totals()[0] == 0
    gateway.line.pass_bytes(100)
    assert gateway.board.link.statistics.messages_sent == sent  # not released
    gateway.kill()
    gateway.run(3)
    gateway.land()
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 1


def test_a_crash_between_the_commit_and_the_acknowledgement_counts_once(gateway: Gateway) -> None:
    gateway.enrol()
    gateway.board.measure()
    gateway.line.pass_bytes(100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway.line, "acknowledge", lambda _: None)
        gateway.turn()
    assert gateway.device.store.outbox.totals()[0] == 1
    gateway.kill()
    gateway.run(3)
    assert gateway.device.store.outbox.totals()[0] == 2  # the board has told again
    gateway.land()
    assert gateway.collector.store.counters.values()["duplicates"] == 1
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 1


def test_a_disk_that_refuses_holds_the_message_until_it_takes_writes_again(gateway: Gateway) -> None:
    gateway.enrol()
    gateway.board.measure()
    gateway.line.pass_bytes(100)

    def refuse(*_: object) -> None:
        raise DiskFullError("no room")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway.device.store.counters, "count", refuse)
        with pytest.raises(DiskFullError):
            gateway.turn()
        gateway.device.replace_node()
        gateway.turn()  # not at once again
    gateway.device.wait(2)
    gateway.run(0.2)
    assert gateway.device.store.outbox.totals()[0] == 1


@pytest.mark.slow
def test_no_room_is_busy_on_the_line_and_nothing_is_lost(gateway: Gateway) -> None:
    gateway.enrol()

    def full(*_: object, **_named: object) -> None:
        raise OutboxFullError("the outbox is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway.device.node, "forward", full)
        gateway.board.measure()
        gateway.run(30)
    assert gateway.board.link.statistics.busy_received > 0
    assert gateway.board.link.state == link_machine.UP
    assert sum("the outbox is full" in line for line in gateway.reports) == 1
    gateway.run(15)
    gateway.land()
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 1


def test_telemetry_of_a_board_that_was_removed_is_refused_and_said_once(gateway: Gateway) -> None:
    gateway.enrol()

    def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        return draft.removing(gateway.board.key, epoch_id)

    with gateway.device.store.transaction():
        gateway.device.node.actions.change(gateway.group_id, edit, gateway.device.now)
    queued = gateway.device.store.outbox.totals()[0]
    for _ in range(5):
        gateway.board.measure()
        gateway.run(0.2)
    assert gateway.device.store.outbox.totals()[0] == queued
    assert sum("has a message that is not forwarded" in line for line in gateway.reports) == 1
    assert len(gateway.board.ring) == 5  # it keeps all


def test_a_board_that_is_enrolled_elsewhere_is_not_told_a_new_collector(gateway: Gateway) -> None:
    gateway.board.collector = Board("somebody").keys
    enrol(gateway.board, gateway.device, gateway.group_id)
    gateway.run(2)
    assert gateway.board.collector == Board("somebody").keys


def test_a_proof_of_another_key_is_none(gateway: Gateway) -> None:
    other = Board("other")
    gateway.board.keys = replace(gateway.board.keys, noise_public=other.keys.noise_public)
    gateway.run(2)
    assert gateway.device.store.boards.all() == []
    assert sum("did not prove" in line for line in gateway.reports) == 1
    assert gateway.board.times == []


def test_another_board_on_the_same_port(gateway: Gateway) -> None:
    gateway.enrol()
    second = BoardOnLine("second")
    gateway.line.board = second
    gateway.run(3)
    [board] = gateway.device.store.boards.all()
    assert board.keys == second.keys
    assert not board.enrolled


def test_a_line_that_breaks_is_down_and_comes_back(gateway: Gateway) -> None:
    gateway.enrol()
    gateway.line.broken = True
    gateway.board.measure()
    gateway.device.wait(601)  # the time is due, so the gateway finds out
    gateway.run(20)
    assert not gateway.device.store.boards.all()[0].up
    gateway.line.broken = False
    gateway.run(6)
    assert gateway.device.store.boards.all()[0].up
    gateway.land()
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 1


def test_a_restart_that_a_person_asks_for(gateway: Gateway) -> None:
    gateway.run()
    gateway.device.store.boards.want_restart("/dev/ttyTEST")
    gateway.run(3)
    assert gateway.board.boots == 2
    assert gateway.device.store.boards.restarts_wanted() == []
    assert gateway.device.store.boards.all()[0].up


def test_reports_reach_the_store(gateway: Gateway) -> None:
    gateway.run()
    gateway.board.say(messages.REPORT, [["readings", 7], ["heap_free", 20_000]])
    gateway.run(7)
    statistics = gateway.device.store.boards.all()[0].statistics
    assert statistics["readings"] == 7
    assert statistics["line_messages_received"] >= 2


@pytest.mark.parametrize(
    "entries",
    [
        [["Readings", 1]],
        [["", 1]],
        [["x" * 33, 1]],
        [["line_downs", 1]],
        [["a\x1b[31m", 1]],
        [["a", -1]],
        [["a", True]],
        [["a", "1"]],
        [["a"]],
        ["a"],
        [[["a"], 1]],
        [None],
    ],
)
def test_a_number_with_a_wrong_name_or_value_is_left_out(entries: list[object]) -> None:
    assert read_report([*entries, ["good", 1]]) == {"good": 1}


def test_a_report_has_a_bound() -> None:
    assert len(read_report([[f"n{number}", number] for number in range(1_000)])) == MAXIMUM_BOARD_NUMBERS


@pytest.mark.parametrize("content", [b"", b"\xff", b"\x80", b"\x81\x18\x63", b"\x82\x01\x02", bytes(300)])
def test_a_malformed_message_does_not_stop_the_line(gateway: Gateway, content: bytes) -> None:
    gateway.enrol()
    assert gateway.board.link.send(content) is not None
    gateway.board.measure()
    gateway.run(1)
    gateway.land()
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 1


@pytest.mark.parametrize("seed", range(8))
def test_any_messages_of_the_right_shape_and_any_bytes_leave_both_ends_in_step(gateway: Gateway, seed: int) -> None:
    gateway.enrol()
    rng = random.Random(seed)
    keys = [gateway.board.key, gateway.collector.key, gateway.device.key, bytes(32), rng.randbytes(32)]

    def any_key() -> bytes:
        return rng.choice(keys)

    for _ in range(30):
        message = rng.choice(
            [
                messages.to_line(messages.IDENTIFY, any_key(), any_key(), rng.randbytes(64), any_key(), "x" * 90),
                messages.to_line(messages.CARRY, any_key(), rng.randbytes(rng.randrange(3_900))),
                messages.to_line(messages.REPORT, [[rng.randbytes(3), rng.random() < 0.5], [["n"], None]]),
                messages.to_line(messages.TIME, rng.getrandbits(60), True),
                messages.to_line(messages.RESTART),
                rng.randbytes(rng.randrange(60)),
            ]
        )
        gateway.board.link.send(message)
        gateway.line.link.receive_bytes(rng.randbytes(rng.randrange(40)), gateway.line.now_ms)
        gateway.run(0.1)
    gateway.run(5)
    gateway.board.measure()
    gateway.run(2)
    gateway.land()
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 1
    assert len(gateway.device.store.boards.all()) == 1
    assert gateway.device.store.boards.all()[0].keys == gateway.board.keys


def test_a_board_behind_the_collector_itself(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.line = MemoryLine(gateway.board)
    gateway.device, gateway.collector = gateway.collector, gateway.device
    gateway.start()
    gateway.run()
    gateway.enrol()
    gateway.board.measure()
    gateway.run(0.5)
    store, node = gateway.device.store, gateway.device.node
    waiting = store.landing.waiting(1 << 20, 100)
    assert waiting is not None
    [landed] = store.landing.until(waiting[0])
    assert landed.author == gateway.board.key
    with store.transaction():
        node.landing.landed(landed.author, landed.incarnation, {landed.link_seq}, gateway.device.now)
    gateway.device.node.connection_lost()  # no relay is needed for that
    gateway.run(0.5)
    assert gateway.board.acknowledged_up_to == 1


def test_a_stopped_gateway_says_that_its_boards_are_away(gateway: Gateway) -> None:
    gateway.enrol()
    gateway.bridge.stop(gateway.device.node, gateway.device.now)
    assert [board.up for board in gateway.device.store.boards.all()] == [False]


@pytest.mark.slow
def test_a_boards_error_is_shown_until_it_restarts(gateway: Gateway) -> None:
    gateway.run()
    gateway.board.say(messages.TROUBLE, "covey.json: what of \x1b[31m?" + 200 * "ä")
    gateway.run(6)
    [board] = gateway.device.store.boards.all()
    assert board.trouble.startswith("covey.json: what of")
    assert len(board.trouble.encode()) <= MAXIMUM_TROUBLE_BYTES
    [line] = [line for line in gateway.reports if "reports:" in line]
    assert "\x1b" not in line
    for number in range(100):
        gateway.board.say(messages.TROUBLE, f"trouble {number}")
        gateway.run(0.1)
    assert len([line for line in gateway.reports if "reports:" in line]) == 1, "once a minute"
    gateway.run(6)
    assert gateway.device.store.boards.all()[0].trouble == "trouble 99"
    gateway.kill()
    gateway.run(7)
    assert gateway.device.store.boards.all()[0].trouble == ""


def test_a_gateway_receives_errors_of_a_board_that_cannot_start(gateway: Gateway) -> None:
    gateway.run()
    gateway.line.broken = True
    gateway.run(15)
    gateway.board.boot()
    gateway.board.identify = lambda: gateway.board.say(messages.TROUBLE, "start: OSError 28")  # type: ignore[method-assign]
    gateway.line.broken = False
    gateway.run(10)
    [board] = gateway.device.store.boards.all()
    assert (board.trouble, board.up) == ("start: OSError 28", False)


def test_losses_of_a_boards_earlier_life_reach_the_vault(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.enrol()
    board = gateway.board
    assert board.collector is not None
    for _ in range(3):
        board.measure()
        gateway.run(0.1)
    gateway.land()
    monkeypatch.setattr(board, "acknowledged", lambda _: 0)  # of either life
    earlier, board.incarnation = Incarnation(board.incarnation), b"the next"
    body = messages.write_loss(messages.DAMAGED, [(4, 9)], [(4, 9)], earlier)
    to, places = board.collector.signing_public, (9 + 1, 1)
    message = messages.write_message(
        board.identity, messages.LOSS, to, messages.NO_GROUP, board.incarnation, *places, 0, body
    )
    board.carry(1, messages.seal(message, board.collector.noise_public, b"e" * 32, b"n" * 24))
    gateway.run(0.5)
    gateway.land()
    assert gateway.collector.store.counters.values()["lost_messages"] == 6
    assert gateway.collector.store.received.of(board.key, earlier).count() == 9


def test_a_copy_of_a_board_is_noticed_and_forgotten_when_it_is_gone(gateway: Gateway) -> None:
    copied = MemoryLine(BoardOnLine("board"), "/dev/ttyCOPY")
    gateway.bridge = Bridge([gateway.line, copied], gateway.device.store, lambda: True, gateway._report)
    for _ in range(3):
        copied.pass_bytes(300)
        gateway.run(0.5)
    wrong = {board.port: board.trouble for board in gateway.device.store.boards.all()}
    assert wrong["/dev/ttyTEST"].startswith("it has the identity of the board on /dev/ttyCOPY")
    assert wrong["/dev/ttyCOPY"].startswith("it has the identity of the board on /dev/ttyTEST")
    assert sum("is a copy" in line for line in gateway.reports) == 2
    copied.events.append(SerialDown("unplugged"))
    gateway.run(6)
    assert {board.trouble for board in gateway.device.store.boards.all()} == {""}
